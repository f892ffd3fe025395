//! The connection that writes: what waits goes out in one pipeline, and what cannot go is dropped.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use redis::aio::MultiplexedConnection;
use redis::{Pipeline, RedisResult, ServerError, Value};
use tokio::time::{Instant, sleep_until, timeout};

use super::{Both, FIRST_PAUSE, LONGEST_PAUSE, PATIENCE, Server, Side, entry, late, open};
use crate::signals::{Batch, Outbox, Topic, Topics};

/// What is kept of a run's stream, about: viewers that are further behind read the log.
const KEPT: usize = 256;
/// How often it is tried whether Redis takes what is written: one that is full, or became a replica, answers all else as ever.
const PROBE: Duration = Duration::from_secs(2);

pub(super) struct Writer {
    server: Server,
    outbox: Outbox,
    topics: Arc<Topics>,
    both: Arc<Both>,
    keep: Duration,
    nudge: String,
}

struct Line {
    connection: MultiplexedConnection,
    since: Instant,
}

/// Until when not to try.
struct Retry {
    at: Instant,
    pause: Duration,
}

impl Writer {
    pub(super) fn new(server: Server, outbox: Outbox, topics: Arc<Topics>, both: Arc<Both>, keep: Duration) -> Self {
        let nudge = server.keys.nudge(server.instance);
        Self { server, outbox, topics, both, keep, nudge }
    }

    pub(super) async fn run(mut self) {
        let (topics, mut connection) = (Arc::clone(&self.topics), None);
        let mut retry = Retry { at: Instant::now(), pause: FIRST_PAUSE };
        let mut probe = Instant::now() + PROBE;
        loop {
            let mut nudges = false;
            let batch = tokio::select! {
                batch = self.outbox.next() => match batch {
                    Some(batch) => batch,
                    None => return,
                },
                () = topics.grown.notified() => {
                    nudges = true;
                    Batch::default()
                }
                () = sleep_until(retry.at), if connection.is_none() => Batch::default(),
                () = sleep_until(probe), if connection.is_some() => {
                    nudges = true;
                    Batch::default()
                }
            };
            if nudges {
                probe = Instant::now() + PROBE;
            }
            if let Err(error) = self.carry(&mut connection, &batch, nudges, &retry).await {
                connection = None;
                self.both.broken(Side::Writing, &error);
                retry = Retry { at: Instant::now() + retry.pause, pause: (retry.pause * 2).min(LONGEST_PAUSE) };
            } else if connection.as_ref().is_some_and(|line| line.since.elapsed() > LONGEST_PAUSE) {
                // One that lived for a while was no part of what is wrong next.
                retry.pause = FIRST_PAUSE;
            }
            batch.settle();
        }
    }

    async fn carry(&self, connection: &mut Option<Line>, batch: &Batch, mut nudges: bool, retry: &Retry) -> RedisResult<()> {
        if connection.is_none() {
            if Instant::now() < retry.at {
                return Ok(());
            }
            *connection = Some(Line { connection: open(&self.server.client, PATIENCE).await?, since: Instant::now() });
            nudges = true;
        }
        let pipeline = self.pipeline(batch, nudges);
        let Some(line) = connection.as_mut().filter(|_| !pipeline.is_empty()) else { return Ok(()) };
        let answers = timeout(PATIENCE, pipeline.query_async::<Vec<Value>>(&mut line.connection)).await;
        for answer in answers.unwrap_or_else(|_| Err(late()))? {
            if let Value::ServerError(error) = answer
                && !is_of_its_key(&error)
            {
                return Err(error.into());
            }
        }
        self.both.writes();
        Ok(())
    }

    fn pipeline(&self, batch: &Batch, nudges: bool) -> Pipeline {
        let mut pipeline = Pipeline::new();
        pipeline.ignore_errors();
        let mut touched = BTreeSet::new();
        for advance in &batch.advances {
            let Some(id) = entry::id(advance) else { continue };
            let key = self.server.keys.of(Topic::Run(advance.run_id));
            pipeline.cmd("XADD").arg(&key).arg("MAXLEN").arg("~").arg(KEPT).arg(id);
            for (name, value) in entry::fields(&self.server.seal, advance) {
                pipeline.arg(name).arg(value);
            }
            touched.insert(key);
        }
        let mut word = |key: String| {
            pipeline.cmd("XADD").arg(&key).arg("MAXLEN").arg("~").arg(1).arg("*").arg(entry::EVENT).arg("");
            touched.insert(key);
        };
        batch.cancels.iter().for_each(|run_id| word(self.server.keys.of(Topic::Cancel(*run_id))));
        if batch.work {
            word(self.server.keys.of(Topic::Work));
        }
        if nudges {
            word(self.nudge.clone());
        }
        touched
            .extend(batch.renewed.iter().flat_map(|run_id| [self.server.keys.of(Topic::Run(*run_id)), self.server.keys.of(Topic::Cancel(*run_id))]));
        for key in touched {
            pipeline.cmd("PEXPIRE").arg(key).arg(u64::try_from(self.keep.as_millis()).unwrap_or(u64::MAX));
        }
        pipeline
    }
}

/// What is wrong with one key and no other: it is no stream, or has an entry at that place or behind it. Whatever else Redis refuses is true of all.
fn is_of_its_key(error: &ServerError) -> bool {
    let about = |words: &str| error.details().is_some_and(|details| details.contains(words));
    error.code() == "WRONGTYPE" || about("ID specified in XADD") || about("exhausted the last possible ID")
}
