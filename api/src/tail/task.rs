//! The one task that hears signals and asks the log.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use adapters::metrics::Hint;
use adapters::{Advance, Carried, LogError, Signal};
use futures_util::FutureExt;
use tokio::sync::broadcast::Receiver;
use tokio::sync::broadcast::error::RecvError;
use tokio::sync::watch;
use tokio::time::{Instant, sleep, sleep_until};

use super::{Head, Settings, Shared};

/// Events of one query. More there are only after an outage; then the next query follows at once.
const EVENTS: u32 = 128;
/// Between two queries, however fast signals come: a writer that signals all the time is asked for in batches.
const REST: Duration = Duration::from_millis(2);
/// After a run is new here: many that come together are asked for in one query.
const JOINING: Duration = Duration::from_millis(10);
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
    let mut ears = Ears { signals: Some(shared.signals.subscribe()), carried: Some(shared.signals.carried()) };
    let mut pause: Option<Duration> = None;
    let mut last = Instant::now();
    loop {
        ears.listen(shared, last, pause).await;
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

struct Ears {
    signals: Option<Receiver<Signal>>,
    carried: Option<watch::Receiver<Carried>>,
}

impl Ears {
    /// Takes what signals bring, until the log is to be asked: by the clock, or because there is more than they bring. Not before `pause` is over.
    async fn listen(&mut self, shared: &Shared, last: Instant, pause: Option<Duration>) {
        let mut idle = shared.tailed().is_empty();
        let mut due = last + pause.unwrap_or_else(|| self.tick(&shared.settings));
        let by = |due: &mut Instant, rest: Duration| {
            if pause.is_none() {
                *due = (*due).min(last + rest.min(shared.settings.tick));
            }
        };
        loop {
            tokio::select! {
                signal = recv(&mut self.signals) => match signal {
                    Ok(Signal::Advanced(advance)) => {
                        if take(shared, advance) == Some(Hint::Miss) {
                            by(&mut due, REST);
                        }
                    }
                    Ok(_) => {}
                    // What was missed may have been about any of them.
                    Err(RecvError::Lagged(_)) => by(&mut due, REST),
                    Err(RecvError::Closed) => self.signals = None,
                },
                // What was said of it before it was tailed went by.
                () = shared.grown.notified() => {
                    idle = false;
                    by(&mut due, JOINING);
                }
                // What was said while nothing came is lost.
                gone = changed(&mut self.carried) => {
                    if gone {
                        self.carried = None;
                    }
                    by(&mut due, REST);
                }
                () = sleep_until(due), if !idle => return,
            }
        }
    }

    fn tick(&self, settings: &Settings) -> Duration {
        let up = self.carried.as_ref().is_some_and(|carried| carried.borrow().up);
        if up { settings.floor.max(settings.tick) } else { settings.tick }
    }
}

async fn recv(signals: &mut Option<Receiver<Signal>>) -> Result<Signal, RecvError> {
    match signals {
        Some(signals) => signals.recv().await,
        None => std::future::pending().await,
    }
}

/// Whether nobody is left who could tell.
async fn changed(carried: &mut Option<watch::Receiver<Carried>>) -> bool {
    match carried {
        Some(carried) => carried.changed().await.is_err(),
        None => std::future::pending().await,
    }
}

/// What a hint was good for; nothing where it is about a run that nobody watches here.
fn take(shared: &Shared, advance: Advance) -> Option<Hint> {
    let tailed = shared.one(advance.run_id)?;
    let Head { next, ended } = *tailed.head.borrow();
    let hint = match (advance.event, advance.next) {
        _ if ended => Hint::Stale,
        // An end is believed of the log alone.
        (Some(event), _) if event.first_index <= next && next < event.next_index() && !event.event.is_terminal() => {
            tailed.publish([&*event]);
            shared.metrics.shown(event.at);
            Hint::Hit
        }
        (_, Some(to)) if to <= next => Hint::Stale,
        _ => Hint::Miss,
    };
    shared.metrics.hint(hint);
    Some(hint)
}

/// One query, and further ones only where a full answer says that there is more.
async fn drain(shared: &Shared) -> Result<(), LogError> {
    loop {
        let tailed = shared.tailed();
        let from: Vec<_> = tailed.iter().map(|(id, tailed)| (*id, tailed.head.borrow().next)).collect();
        if from.is_empty() {
            return Ok(());
        }
        shared.metrics.read();
        let events = shared.reader.tail(&from, EVENTS).await?;
        let full = events.len() >= EVENTS as usize;
        for (run_id, recorded) in events {
            if let Some(tailed) = tailed.get(&run_id) {
                tailed.publish([&recorded]);
                shared.metrics.shown(recorded.at);
            }
        }
        if !full {
            return Ok(());
        }
    }
}
