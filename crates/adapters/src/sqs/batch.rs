//! From single calls to batches, as full as they come.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{Semaphore, mpsc, oneshot};
use tokio::time::{Instant, timeout_at};
use uuid::Uuid;

/// What SQS takes in one request.
pub(super) const FULL: usize = 10;
/// How long the first of a batch waits for others.
pub(super) const GATHERING: Duration = Duration::from_millis(3);
/// Batches on their way at once: while the queue is slow, calls gather.
const AT_ONCE: usize = 8;

pub(super) struct Call {
    pub(super) session: Uuid,
    pub(super) done: oneshot::Sender<()>,
}

/// Sends until nobody is left to call.
pub(super) async fn run<F: Future<Output = ()> + Send + 'static>(
    mut calls: mpsc::Receiver<Call>,
    gathering: Duration,
    send: impl Fn(Vec<Uuid>) -> F,
) {
    let room = Arc::new(Semaphore::new(AT_ONCE));
    while let Some(first) = calls.recv().await {
        // Taken before the batch is made up, so that what comes meanwhile still joins it.
        let Ok(permit) = Arc::clone(&room).acquire_owned().await else { return };
        let (sessions, told) = gather(first, &mut calls, gathering).await;
        let sending = send(sessions);
        tokio::spawn(async move {
            sending.await;
            for done in told {
                // Who called may have gone.
                let _ = done.send(());
            }
            drop(permit);
        });
    }
}

/// A session that was called twice is rung once.
async fn gather(first: Call, calls: &mut mpsc::Receiver<Call>, gathering: Duration) -> (Vec<Uuid>, Vec<oneshot::Sender<()>>) {
    let end = Instant::now() + gathering;
    let (mut sessions, mut told) = (vec![first.session], vec![first.done]);
    while sessions.len() < FULL {
        let next = match calls.try_recv() {
            Ok(call) => Some(call),
            Err(_) if gathering.is_zero() => None,
            Err(_) => timeout_at(end, calls.recv()).await.ok().flatten(),
        };
        let Some(Call { session, done }) = next else { break };
        if !sessions.contains(&session) {
            sessions.push(session);
        }
        told.push(done);
    }
    (sessions, told)
}
