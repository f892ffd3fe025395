//! A worker as a function: a message of the queue says which session has work, and a schedule says when to sweep.
//!
//! A message is a hint. What it rings for may be done already, or held by another invocation: then there is nothing to do, and the message is done with.
//! It comes again only where the log could not be asked. Heartbeats go as long as the invocation does; a turn that its time cannot hold is not started.

mod lambda;

use std::sync::Arc;
use std::time::Duration;

use adapters::LogError;
use futures_util::future::join_all;
use serde::Deserialize;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tracing::{error, info, warn};
use uuid::Uuid;

use crate::Worker;
use crate::sweep::sweep;
use crate::time::Time;
use crate::worker::Chance;
pub use lambda::serve;

/// How long an invocation stays for signals that are on their way.
const SETTLING: Duration = Duration::from_millis(500);

/// Sessions that are rung for at once by a sweep.
const PAGE: u32 = 100;

/// A message, by the queue's id for it.
#[derive(Clone, Debug)]
pub struct Message {
    pub id: String,
    pub body: String,
}

/// What [`adapters::Ring`] says.
#[derive(Deserialize)]
struct Rung {
    session: Uuid,
}

impl Worker {
    /// Drives all that the messages ring for, and answers the ids of those that are to come again.
    pub async fn batch(self: &Arc<Self>, messages: Vec<Message>, time: Time) -> Vec<String> {
        // Its hosts are known before anything stands on them.
        self.beat().await;
        let room = Arc::new(Semaphore::new(self.parts.options.turns));
        let mut turns = JoinSet::new();
        for Message { id, body } in messages {
            let (worker, room) = (Arc::clone(self), Arc::clone(&room));
            turns.spawn(async move {
                let _permit = room.acquire_owned().await;
                let again = worker.rung(&id, &body, time).await.is_err();
                again.then_some(id)
            });
        }
        let done = async {
            let mut again = Vec::new();
            while let Some(turn) = turns.join_next().await {
                match turn {
                    Ok(id) => again.extend(id),
                    // Whoever claims the session next goes on.
                    Err(panic) => error!(error = &panic as &dyn std::error::Error, "a turn's driver crashed"),
                }
            }
            again
        };
        let wishes = async {
            self.listens().await;
            std::future::pending::<()>().await;
        };
        let again = tokio::select! {
            again = done => again,
            never = self.beats() => match never {},
            () = wishes => Vec::new(),
        };
        // What was sent last would be frozen with this process.
        self.parts.signals.settle(SETTLING).await;
        again
    }

    async fn rung(&self, id: &str, body: &str, time: Time) -> Result<(), LogError> {
        let session = match serde_json::from_str(body) {
            Ok(Rung { session }) => session,
            Err(error) => {
                // It would never become better by coming again.
                warn!(message.id = id, error = &error as &dyn std::error::Error, "a message that is no ring");
                return Ok(());
            }
        };
        match self.chance(session, time).await {
            Ok(Chance::Claimed(claim)) => drop(self.session(claim, time).await),
            // The sweep rings for what is left.
            Ok(Chance::Nothing | Chance::TooShort) => {}
            Err(error) => {
                warn!(%session, error = &error as &dyn std::error::Error, "cannot claim");
                return Err(error);
            }
        }
        Ok(())
    }

    /// Clears away what was left behind, and rings for every session that has work and no worker.
    pub async fn sweep(&self) -> Result<(), LogError> {
        self.beat().await;
        sweep(&self.parts, &self.leases).await;
        let (request, mut after, mut rung) = (self.request(None), None, 0);
        loop {
            let page = self.parts.driver.ready(&request, after, PAGE).await?;
            let Some(last) = page.last() else { break };
            after = Some(last.session);
            rung += page.len();
            join_all(page.iter().map(|ready| self.parts.ring.ring(ready.session))).await;
        }
        if rung > 0 {
            info!(sessions = rung, "rang for sessions that no worker held");
        }
        Ok(())
    }
}
