//! The periodic look for what crashes left behind: sandboxes of runs that have ended, folders of sessions that were erased, and the log's own upkeep.
//! One thing that cannot be removed never keeps another from being removed.

use std::error::Error;

use tracing::warn;
use uuid::Uuid;

use crate::Parts;
use crate::lease::Leases;
use crate::sandbox::{Place, Sandboxes};

pub(crate) async fn sweep(parts: &Parts, leases: &Leases) {
    for sandboxes in &parts.sandboxes {
        if let Err(error) = leftovers(parts, leases, sandboxes.as_ref()).await {
            warn!(error = &*error, "sweep of sandboxes failed");
        }
        if let Err(error) = erasures(parts, sandboxes.as_ref()).await {
            warn!(error = &*error, "sweep of erased sessions failed");
        }
    }
    if let Err(error) = parts.driver.upkeep().await {
        warn!(error = &error as &dyn Error, "upkeep of the log failed");
    }
}

/// The run that a place's name tells.
fn run_of(place: &Place) -> Option<Uuid> {
    place.name.get(..36).and_then(|id| id.parse().ok())
}

async fn leftovers(parts: &Parts, leases: &Leases, sandboxes: &dyn Sandboxes) -> Result<(), Box<dyn Error + Send + Sync>> {
    let standing = sandboxes.list().await?;
    let driven = leases.runs();
    let asked: Vec<Uuid> = standing.iter().filter_map(run_of).filter(|run| !driven.contains(run)).collect();
    let ended = if asked.is_empty() { Vec::new() } else { parts.driver.ended(&asked).await? };
    for place in standing.iter().filter(|place| run_of(place).is_some_and(|run| ended.contains(&run))) {
        if let Err(error) = sandboxes.sweep(place).await {
            warn!(sandbox = place.name, error = &error as &dyn Error, "sandbox of an ended run not removed");
        }
    }
    Ok(())
}

async fn erasures(parts: &Parts, sandboxes: &dyn Sandboxes) -> Result<(), Box<dyn Error + Send + Sync>> {
    for session in parts.driver.erasures(sandboxes.host()).await? {
        if let Err(error) = sandboxes.erase(session).await {
            warn!(%session, error = &error as &dyn Error, "folders of an erased session not removed");
            continue;
        }
        parts.checkpoints.keep_only(session, &[]).await?;
        parts.driver.forget(session, sandboxes.host()).await?;
    }
    Ok(())
}
