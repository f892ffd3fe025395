//! The end of a run whose log this worker cannot fold: an event of a newer release, or a broken row.
//!
//! A worker that can may come yet, so the first claims let go and their leases run out. After so many of them the run ends all the same, without having been
//! understood: it must not be claimed for ever, and its sandbox must not go on.

use adapters::{Claim, Finish, Signal};
use runs::{Event, Metrics};
use tracing::{error, warn};

use super::ledger::LetGo;
use crate::Parts;
use crate::sandbox::{Place, Sandboxes};

/// Whether the run is over now.
pub(super) async fn give_up(parts: &Parts, claim: &Claim, sandboxes: &dyn Sandboxes, cause: &LetGo) -> bool {
    error!(run.id = %claim.run_id, error = cause as &dyn std::error::Error, "the run ends: claim after claim could not fold its log");
    let place = claim.sandbox.as_ref().map(|name| Place { session: claim.session, name: name.clone() });
    if let Some(place) = &place
        && let Err(error) = sandboxes.stop(place, claim.epoch, "unreadable", parts.options.grace).await
    {
        warn!(run.id = %claim.run_id, error = &error as &dyn std::error::Error, "its sandbox cannot be stopped; the next claim tries again");
        return false;
    }
    let Ok(Some((seq, first_index))) = parts.driver.tip(claim.run_id).await else { return false };
    let failed = Event::Failed {
        error: "the run's log holds what this worker cannot read".into(),
        error_type: "unreadable".into(),
        started: place.is_some(),
        content: String::new(),
        truncated: false,
        metrics: Metrics::default(),
        tools: Vec::new(),
    };
    let (run_id, session, claim_id, events) = (claim.run_id, claim.session, claim.claim, vec![failed]);
    let finish = Finish { run_id, session, claim: claim_id, seq, first_index, events, checkpoint: None, conversation: None };
    if let Err(error) = parts.driver.finish(finish).await {
        warn!(run.id = %claim.run_id, error = &error as &dyn std::error::Error, "its end is not in the log; the next claim tries again");
        return false;
    }
    parts.signals.send(Signal::up_to(run_id, first_index + 1));
    if let Some(place) = &place
        && let Err(error) = sandboxes.remove(place, claim.epoch).await
    {
        warn!(run.id = %claim.run_id, error = &error as &dyn std::error::Error, "sandbox left to the sweep");
    }
    true
}
