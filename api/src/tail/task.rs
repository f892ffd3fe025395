//! The one task that asks the log.

use std::collections::HashMap;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use adapters::{LogError, Signal};
use futures_util::FutureExt;
use tokio::sync::broadcast::Receiver;
use tokio::sync::broadcast::error::RecvError;
use tokio::time::{Instant, sleep, sleep_until};
use uuid::Uuid;

use super::{Shared, Tailed};

/// Events of one query. More there are only after an outage; then the next query follows at once.
const EVENTS: u32 = 128;
/// Between two queries, however fast signals come: a writer that signals all the time is asked for in batches.
const REST: Duration = Duration::from_millis(2);
const LONGEST_PAUSE: Duration = Duration::from_secs(2);

/// Never ends: viewers depend on it. A panic under it, in a reader say, costs a pause.
pub(super) async fn run(shared: Arc<Shared>) {
    loop {
        let _ = AssertUnwindSafe(tail(&shared)).catch_unwind().await;
        tracing::error!("api.tail: the tail panicked, starting again");
        sleep(LONGEST_PAUSE).await;
    }
}

async fn tail(shared: &Shared) {
    let mut wakes = Wakes { signals: Some(shared.signals.subscribe()) };
    let mut pause: Option<Duration> = None;
    let mut last = Instant::now();
    loop {
        let tailed = shared.tailed();
        if tailed.is_empty() {
            shared.busy.notified().await;
            continue;
        }
        match pause {
            Some(pause) => sleep(pause).await,
            None => wakes.wait(&tailed, last, shared.settings.tick).await,
        }
        drop(tailed);
        last = Instant::now();
        let down = pause.is_some();
        pause = match drain(shared).await {
            Ok(()) => None,
            Err(error) => {
                if !down {
                    tracing::warn!(error = &error as &dyn std::error::Error, "api.tail: the log does not answer, viewers wait");
                }
                Some(pause.map_or(shared.settings.tick, |pause| (pause * 2).min(LONGEST_PAUSE)))
            }
        };
        if down && pause.is_none() {
            tracing::info!("api.tail: the log answers again");
        }
    }
}

struct Wakes {
    signals: Option<Receiver<Signal>>,
}

impl Wakes {
    /// Until the next tick, or until one of these runs is said to have advanced.
    async fn wait(&mut self, tailed: &HashMap<Uuid, Arc<Tailed>>, last: Instant, tick: Duration) {
        sleep_until(last + REST.min(tick)).await;
        let tick = sleep_until(last + tick);
        tokio::pin!(tick);
        loop {
            let signal = async {
                match &mut self.signals {
                    Some(signals) => signals.recv().await,
                    None => std::future::pending().await,
                }
            };
            let signal = tokio::select! {
                () = &mut tick => return,
                signal = signal => signal,
            };
            match signal {
                Ok(Signal::Advanced(run)) if tailed.contains_key(&run) => return,
                Ok(_) => {}
                // What was missed may have been about any of them.
                Err(RecvError::Lagged(_)) => return,
                Err(RecvError::Closed) => self.signals = None,
            }
        }
    }
}

/// One query, and further ones only where a full answer says that there is more.
async fn drain(shared: &Shared) -> Result<(), LogError> {
    loop {
        let tailed = shared.tailed();
        let from: Vec<_> = tailed.iter().map(|(id, tailed)| (*id, tailed.head.borrow().next)).collect();
        if from.is_empty() {
            return Ok(());
        }
        let events = shared.reader.tail(&from, EVENTS).await?;
        let full = events.len() >= EVENTS as usize;
        for (run_id, recorded) in events {
            if let Some(tailed) = tailed.get(&run_id) {
                tailed.publish([&recorded]);
            }
        }
        if !full {
            return Ok(());
        }
    }
}
