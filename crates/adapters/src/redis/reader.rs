//! The connection that reads: one blocking `XREAD` of all streams that this process follows. Redis refuses all of it where one key is no stream, so such a
//! key is found and left out.

use std::collections::HashMap;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use redis::aio::MultiplexedConnection;
use redis::streams::{StreamId, StreamReadReply};
use redis::{Pipeline, RedisError, RedisResult, Value, cmd};
use tokio::sync::broadcast;
use tokio::time::{Instant, sleep};

use super::{BLOCK, Both, FIRST_PAUSE, LONGEST_PAUSE, PATIENCE, Server, Side, entry, open};
use crate::signals::{Followed, Signal, Topic, Topics};

/// Entries of a stream in one answer.
const TOGETHER: usize = 32;
const START: &str = "0-0";
/// When a key that was no stream is tried again.
const AGAIN: Duration = Duration::from_secs(10);

pub(super) struct Reader {
    server: Server,
    heard: broadcast::Sender<Signal>,
    topics: Arc<Topics>,
    both: Arc<Both>,
    /// How far each stream was read, by the following that it was read for.
    read: HashMap<Topic, (u64, String)>,
    nudge: String,
    nudged: String,
    /// Keys that are no streams, until when they are left out.
    spoiled: HashMap<String, Instant>,
}

impl Reader {
    pub(super) fn new(server: Server, heard: broadcast::Sender<Signal>, topics: Arc<Topics>, both: Arc<Both>) -> Self {
        let nudge = server.keys.nudge(server.instance);
        Self { server, heard, topics, both, read: HashMap::new(), nudge, nudged: START.into(), spoiled: HashMap::new() }
    }

    pub(super) async fn run(mut self) {
        let mut pause = FIRST_PAUSE;
        loop {
            let begun = Instant::now();
            let Err(error) = self.session().await;
            self.both.broken(Side::Reading, &error);
            // One that lived for a while was no part of what is wrong now.
            pause = if begun.elapsed() > LONGEST_PAUSE { FIRST_PAUSE } else { (pause * 2).min(LONGEST_PAUSE) };
            sleep(pause).await;
        }
    }

    async fn session(&mut self) -> RedisResult<Infallible> {
        let mut connection = open(&self.server.client, BLOCK + PATIENCE).await?;
        // The first answer comes at once: it says whether reading works.
        let mut block = Duration::from_millis(1);
        loop {
            let answer = match self.ask(&mut connection, block).await {
                Err(error) if is_of_a_key(&error) => {
                    self.leave_out(&mut connection).await?;
                    continue;
                }
                answer => answer?,
            };
            self.both.reads();
            block = BLOCK;
            for stream in answer.into_iter().flat_map(|answer| answer.keys) {
                let Some(last) = stream.ids.last().map(|last| last.id.clone()) else { continue };
                if stream.key == self.nudge {
                    self.nudged = last;
                } else if let Some(topic) = self.server.keys.topic(&stream.key) {
                    self.hear(topic, stream.ids);
                    self.read.entry(topic).and_modify(|(_, place)| *place = last);
                }
            }
        }
    }

    async fn ask(&mut self, connection: &mut MultiplexedConnection, block: Duration) -> RedisResult<Option<StreamReadReply>> {
        self.follow();
        let streams = self.streams();
        if streams.is_empty() {
            sleep(block).await;
            return Ok(None);
        }
        let (keys, places): (Vec<String>, Vec<String>) = streams.into_iter().unzip();
        let mut ask = cmd("XREAD");
        ask.arg("COUNT").arg(TOGETHER).arg("BLOCK").arg(millis(block)).arg("STREAMS").arg(keys).arg(places);
        ask.query_async(connection).await
    }

    /// What is read now: the keys, and after which entry.
    fn streams(&mut self) -> Vec<(String, String)> {
        let now = Instant::now();
        self.spoiled.retain(|_, until| *until > now);
        let followed = self.read.iter().map(|(topic, (_, place))| (self.server.keys.of(*topic), place.clone()));
        let all = std::iter::once((self.nudge.clone(), self.nudged.clone())).chain(followed);
        all.filter(|(key, _)| !self.spoiled.contains_key(key)).collect()
    }

    /// Reads each stream by itself, and leaves out those that are refused. Their runs are looked for by the clock.
    async fn leave_out(&mut self, connection: &mut MultiplexedConnection) -> RedisResult<()> {
        let streams = self.streams();
        let mut each = Pipeline::new();
        each.ignore_errors();
        for (key, place) in &streams {
            each.cmd("XREAD").arg("COUNT").arg(1).arg("STREAMS").arg(key).arg(place);
        }
        let answers: Vec<Value> = each.query_async(connection).await?;
        for ((key, _), answer) in streams.into_iter().zip(answers) {
            if matches!(&answer, Value::ServerError(error) if error.code() == NO_STREAM) {
                tracing::warn!(key, "a key under this deployment's prefix in Redis is no stream: it is left out");
                self.spoiled.insert(key, Instant::now() + AGAIN);
            }
        }
        Ok(())
    }

    /// What is followed now, each from where it was read to.
    fn follow(&mut self) {
        let followed = self.topics.all();
        self.read.retain(|topic, (number, _)| followed.get(topic).is_some_and(|one| one.number == *number));
        for (topic, Followed { number, from, .. }) in followed {
            let start = || match topic {
                Topic::Run(_) => entry::position(from),
                Topic::Cancel(_) | Topic::Work => START.into(),
            };
            self.read.entry(topic).or_insert_with(|| (number, start()));
        }
    }

    fn hear(&self, topic: Topic, entries: Vec<StreamId>) {
        // Nobody listening is fine.
        let say = |signal| drop(self.heard.send(signal));
        match topic {
            Topic::Run(run_id) => entries.iter().for_each(|one| say(Signal::Advanced(entry::read(&self.server.seal, run_id, &one.id, &one.map)))),
            Topic::Cancel(run_id) => say(Signal::Cancel(run_id)),
            Topic::Work => say(Signal::Work),
        }
    }
}

const NO_STREAM: &str = "WRONGTYPE";

fn is_of_a_key(error: &RedisError) -> bool {
    error.code() == Some(NO_STREAM)
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}
