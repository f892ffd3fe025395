//! Signals through Redis (or Valkey): streams, so that who comes a little late still hears.
//!
//! One connection reads all that this process follows, however many that are; one writes, pipelined. Both come back by themselves, and meanwhile what is
//! to be sent is dropped. Every key begins with the deployment's prefix, is bounded by `MAXLEN ~`, and expires unless it is used or renewed.

mod entry;
mod keys;
mod reader;
mod seal;
mod writer;

use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, Client, RedisError, RedisResult};
use uuid::Uuid;

use crate::signals::{Ends, Hub, Switch};
use keys::Keys;
use reader::Reader;
pub use seal::Seal;
use writer::Writer;

/// How long a read waits for news. Its end shows that Redis answers, so this is also how soon a dead connection is noticed.
const BLOCK: Duration = Duration::from_secs(2);
/// How long anything else may take.
const PATIENCE: Duration = Duration::from_secs(2);
const FIRST_PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(5);

/// `REDIS_URL` is not one.
#[derive(Debug, thiserror::Error)]
#[error("REDIS_URL cannot be used")]
pub struct BadUrl(#[source] RedisError);

/// The prefix of a deployment that names none: its own, and shared with nobody but a restored copy of its database.
pub fn prefix_of(deployment: Uuid) -> String {
    format!("sandlog:{}:", deployment.simple())
}

/// Nothing is asked of Redis here: a process starts, and works, without it. `keep` is how long the keys of a run live without word of it.
pub fn connect(url: &str, prefix: &str, keep: Duration, seal: Seal) -> Result<Hub, BadUrl> {
    let (client, keys) = (Client::open(url).map_err(BadUrl)?, Keys::new(prefix));
    let server = Server { client, keys, seal, instance: Uuid::new_v4() };
    Ok(Hub::with("redis", |ends, tasks| {
        let Ends { heard, topics, outbox, switch } = ends;
        let both = Arc::new(Both { switch, up: Mutex::default() });
        tasks.spawn(Reader::new(server.clone(), heard, Arc::clone(&topics), Arc::clone(&both)).run());
        tasks.spawn(Writer::new(server, outbox, topics, both, keep).run());
    }))
}

/// What both connections go to, and what they say there.
#[derive(Clone)]
struct Server {
    client: Client,
    keys: Keys,
    seal: Seal,
    /// This process.
    instance: Uuid,
}

/// Up as long as both connections are.
struct Both {
    switch: Switch,
    up: Mutex<Sides>,
}

#[derive(Default)]
struct Sides {
    reads: bool,
    writes: bool,
}

impl Both {
    /// Under one lock with what is said of it, so that the last word is the right one. The flags are good after every step, also one that panicked.
    fn with(&self, act: impl FnOnce(&mut Sides)) {
        act(&mut self.up.lock().unwrap_or_else(PoisonError::into_inner));
    }

    fn reads(&self) {
        self.with(|sides| {
            sides.reads = true;
            self.look(sides);
        });
    }

    fn writes(&self) {
        self.with(|sides| {
            sides.writes = true;
            self.look(sides);
        });
    }

    fn look(&self, sides: &Sides) {
        if sides.reads && sides.writes {
            self.switch.up();
        }
    }

    fn broken(&self, side: Side, error: &RedisError) {
        self.with(|sides| {
            match side {
                Side::Reading => sides.reads = false,
                Side::Writing => sides.writes = false,
            }
            self.switch.down(reason(error), error);
        });
    }
}

fn reason(error: &RedisError) -> &str {
    if error.is_timeout() {
        return "no answer in time";
    }
    if error.is_connection_refusal() {
        return "nobody listens there";
    }
    if error.is_connection_dropped() {
        return "the connection was lost";
    }
    match error.code() {
        Some("NOPERM") => "the user may not do it (NOPERM)",
        Some("OOM") => "it is full, and evicts nothing (OOM)",
        Some("READONLY") => "it is a replica (READONLY)",
        Some("MISCONF") => "it takes no writes while it cannot save (MISCONF)",
        Some("MOVED") => "it is a cluster (MOVED)",
        Some("LOADING") => "it is still starting (LOADING)",
        Some("CLUSTERDOWN") => "its cluster is down (CLUSTERDOWN)",
        Some("NOAUTH") => "it asks for a user and a password (NOAUTH)",
        _ => error.category(),
    }
}

#[derive(Clone, Copy, Debug)]
enum Side {
    Reading,
    Writing,
}

async fn open(client: &Client, answer: Duration) -> RedisResult<MultiplexedConnection> {
    let config = AsyncConnectionConfig::new().set_connection_timeout(Some(PATIENCE)).set_response_timeout(Some(answer));
    // A server that takes the connection and then says nothing.
    let opened = tokio::time::timeout(2 * PATIENCE, client.get_multiplexed_async_connection_with_config(&config)).await;
    opened.unwrap_or_else(|_| Err(late()))
}

fn late() -> RedisError {
    io::Error::new(io::ErrorKind::TimedOut, "no answer in time").into()
}
