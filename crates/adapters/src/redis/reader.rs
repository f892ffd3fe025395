//! The connection that reads: one blocking `XREAD` of all streams that this process follows.

use std::collections::HashMap;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use redis::aio::MultiplexedConnection;
use redis::streams::{StreamId, StreamReadReply};
use redis::{Client, RedisResult, cmd};
use tokio::sync::broadcast;
use tokio::time::{Instant, sleep};
use uuid::Uuid;

use super::keys::Keys;
use super::{BLOCK, Both, FIRST_PAUSE, LONGEST_PAUSE, PATIENCE, Side, entry, open};
use crate::signals::{Followed, Signal, Topic, Topics};

/// Entries of a stream in one answer.
const TOGETHER: usize = 32;
const START: &str = "0-0";

pub(super) struct Reader {
    client: Client,
    keys: Keys,
    heard: broadcast::Sender<Signal>,
    topics: Arc<Topics>,
    both: Arc<Both>,
    /// How far each stream was read, by the following that it was read for.
    read: HashMap<Topic, (u64, String)>,
    nudge: String,
    nudged: String,
}

impl Reader {
    pub(super) fn new(client: Client, keys: Keys, heard: broadcast::Sender<Signal>, topics: Arc<Topics>, both: Arc<Both>, instance: Uuid) -> Self {
        let nudge = keys.nudge(instance);
        Self { client, keys, heard, topics, both, read: HashMap::new(), nudge, nudged: START.into() }
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
        let mut connection = open(&self.client, BLOCK + PATIENCE).await?;
        // The first answer comes at once: it says whether reading works.
        let mut block = Duration::from_millis(1);
        loop {
            let answer = self.ask(&mut connection, block).await?;
            self.both.reads();
            block = BLOCK;
            for stream in answer.into_iter().flat_map(|answer| answer.keys) {
                let Some(last) = stream.ids.last().map(|last| last.id.clone()) else { continue };
                if stream.key == self.nudge {
                    self.nudged = last;
                } else if let Some(topic) = self.keys.topic(&stream.key) {
                    self.hear(topic, stream.ids);
                    self.read.entry(topic).and_modify(|(_, place)| *place = last);
                }
            }
        }
    }

    async fn ask(&mut self, connection: &mut MultiplexedConnection, block: Duration) -> RedisResult<Option<StreamReadReply>> {
        self.follow();
        let mut ask = cmd("XREAD");
        ask.arg("COUNT").arg(TOGETHER).arg("BLOCK").arg(millis(block)).arg("STREAMS").arg(&self.nudge);
        let streams: Vec<_> = self.read.iter().collect();
        for (topic, _) in &streams {
            ask.arg(self.keys.of(**topic));
        }
        ask.arg(&self.nudged);
        for (_, (_, place)) in &streams {
            ask.arg(place);
        }
        ask.query_async(connection).await
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
            Topic::Run(run_id) => entries.iter().for_each(|one| say(Signal::Advanced(entry::read(run_id, &one.id, &one.map)))),
            Topic::Cancel(run_id) => say(Signal::Cancel(run_id)),
            Topic::Work => say(Signal::Work),
        }
    }
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}
