//! Signals through Postgres: `LISTEN` on a connection of its own, and NOTIFY by the pool, gathered, in transactions of nothing else (it takes a
//! lock of the whole database at commit, which no write of the log is to wait for).
//!
//! `LISTEN` is the one thing here that needs a session. Through a transaction pooler it arrives nowhere, without a word; so it is tried before it is
//! believed, and again all the time.

mod ear;
mod word;

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc;
use tokio::time::sleep;
use tokio_postgres::types::Type;
use uuid::Uuid;

use super::Postgres;
use crate::LogError;
use crate::signals::{Ends, Hub, Outbox};
use ear::Ear;

/// Signals of so long become one NOTIFY.
const GATHERING: Duration = Duration::from_millis(2);

/// `url` and `schema` are the log's own.
pub fn listen(url: &str, schema: &str, log: Arc<Postgres>) -> Hub {
    let (url, channel) = (url.to_owned(), format!("sandlog_{schema}"));
    Hub::with("listen", |ends, tasks| {
        let Ends { heard, topics, outbox, switch } = ends;
        let (probes, asked) = mpsc::channel(1);
        tasks.spawn(Ear { url, channel: channel.clone(), heard, topics, switch, probes }.run());
        tasks.spawn(tell(outbox, asked, channel, log));
    })
}

async fn tell(mut outbox: Outbox, mut probes: mpsc::Receiver<Uuid>, channel: String, log: Arc<Postgres>) {
    loop {
        tokio::select! {
            batch = outbox.next() => {
                let Some(mut batch) = batch else { return };
                if !batch.is_empty() {
                    sleep(GATHERING).await;
                    outbox.more(&mut batch);
                }
                for text in word::write(&batch) {
                    notify(&log, &channel, &text).await;
                }
                batch.settle();
            }
            Some(number) = probes.recv() => notify(&log, &channel, &word::probe(number)).await,
        }
    }
}

/// What goes wrong shows in the probes, and in the log's own calls.
async fn notify(log: &Postgres, channel: &str, text: &str) {
    if let Err(error) = log.call("select pg_notify($1, $2)", &[(&channel, Type::TEXT), (&text, Type::TEXT)]).await {
        let error = LogError::from(error);
        tracing::debug!(error = &error as &dyn std::error::Error, "a signal was not carried");
    }
}
