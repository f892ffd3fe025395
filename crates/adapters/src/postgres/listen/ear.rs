//! The connection that listens.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{broadcast, mpsc};
use tokio::time::{Instant, sleep, sleep_until, timeout, timeout_at};
use tokio_postgres::{AsyncMessage, Client, Notification};
use uuid::Uuid;

use super::word::{self, Word};
use crate::LogError;
use crate::postgres::PATIENCE;
use crate::postgres::address::Address;
use crate::postgres::call::log_error;
use crate::signals::{Advance, Signal, Switch, Topic, Topics};

const FIRST_PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(5);
/// How often it is tried whether words still get through, and how long one may take.
const PROBE: Duration = Duration::from_secs(5);
const OVERDUE: Duration = Duration::from_secs(3);
/// So many times it is tried before it is given up for good: a server that is slow just now is none that never tells.
const TRIES: u32 = 3;
/// Of words: a burst of them fits, and beyond it the connection waits to be read.
const BUFFER: usize = 256;

pub(super) struct Ear {
    pub(super) url: String,
    pub(super) channel: String,
    pub(super) heard: broadcast::Sender<Signal>,
    pub(super) topics: Arc<Topics>,
    pub(super) switch: Switch,
    /// To be told on the channel, by another connection.
    pub(super) probes: mpsc::Sender<Uuid>,
}

#[derive(Debug, thiserror::Error)]
enum Deaf {
    #[error("the connection that listens is away")]
    Away(#[from] LogError),
    #[error("nothing gets through")]
    Mute,
    #[error("a pooler is between")]
    Pooled,
}

/// A connection with what comes on it.
struct Line {
    client: Client,
    words: mpsc::Receiver<Notification>,
    _driver: tokio::task::JoinSet<()>,
}

impl Ear {
    pub(super) async fn run(self) {
        let (mut pause, mut believed, mut mute) = (FIRST_PAUSE, false, 0);
        loop {
            let begun = Instant::now();
            let Err(error) = self.session(&mut believed).await;
            mute += u32::from(matches!(error, Deaf::Mute));
            if !believed && (mute == TRIES || matches!(error, Deaf::Pooled)) {
                return self.switch.give_up("LISTEN does not get through, as with a transaction pooler (SANDLOG_LISTEN=off says so from the start)");
            }
            self.switch.down(&error.to_string(), &error);
            pause = if begun.elapsed() > LONGEST_PAUSE { FIRST_PAUSE } else { (pause * 2).min(LONGEST_PAUSE) };
            sleep(pause).await;
        }
    }

    async fn session(&self, believed: &mut bool) -> Result<Infallible, Deaf> {
        let mut line = self.open().await?;
        if !*believed && self.is_pooled(&line).await? {
            return Err(Deaf::Pooled);
        }
        statement(&line.client, &format!("listen \"{}\"", self.channel)).await?;
        let got_through = self.probe(&mut line).await;
        if matches!(got_through, Err(Deaf::Mute)) {
            // A pooler may have it on a connection that others get next.
            statement(&line.client, "unlisten *").await?;
        }
        got_through?;
        *believed = true;
        loop {
            self.switch.up();
            self.hear(&mut line, Instant::now() + PROBE).await?;
            self.probe(&mut line).await?;
        }
    }

    async fn open(&self) -> Result<Line, Deaf> {
        let Address { mut config, tls } = Address::parse(&self.url)?;
        config.application_name("sandlog listen").connect_timeout(PATIENCE).keepalives_idle(Duration::from_secs(30));
        let connected = timeout(PATIENCE, config.connect(tls)).await.map_err(|_| Deaf::Mute);
        let (client, mut connection) = match connected {
            Ok(connected) => connected.map_err(log_error)?,
            Err(_) => return Err(LogError::Unreachable("no answer in time".into()).into()),
        };
        let (sender, words) = mpsc::channel(BUFFER);
        let mut driver = tokio::task::JoinSet::new();
        driver.spawn(async move {
            while let Some(Ok(message)) = std::future::poll_fn(|context| connection.poll_message(context)).await {
                if let AsyncMessage::Notification(word) = message
                    && sender.send(word).await.is_err()
                {
                    return;
                }
            }
        });
        Ok(Line { client, words, _driver: driver })
    }

    /// Two idle connections of ours that are one of the server's: a pooler is between. That they are two proves nothing.
    async fn is_pooled(&self, line: &Line) -> Result<bool, Deaf> {
        let other = self.open().await?;
        Ok(backend(&line.client).await? == backend(&other.client).await?)
    }

    async fn probe(&self, line: &mut Line) -> Result<(), Deaf> {
        let (number, until) = (Uuid::new_v4(), Instant::now() + OVERDUE);
        // Where the one before is not told yet, this one will be late, and rightly so.
        let _ = self.probes.try_send(number);
        loop {
            let word = timeout_at(until, line.words.recv()).await.map_err(|_| Deaf::Mute)?;
            if self.take(word)?.contains(&number) {
                return Ok(());
            }
        }
    }

    async fn hear(&self, line: &mut Line, until: Instant) -> Result<(), Deaf> {
        loop {
            tokio::select! {
                word = line.words.recv() => drop(self.take(word)?),
                () = sleep_until(until) => return Ok(()),
            }
        }
    }

    /// The probes in it; signals that somebody here follows go where they are heard.
    fn take(&self, notification: Option<Notification>) -> Result<Vec<Uuid>, Deaf> {
        let notification = notification.ok_or_else(|| LogError::Unreachable("the connection ended".into()))?;
        let mut probes = Vec::new();
        for word in word::read(notification.payload()) {
            match word {
                Word::Probe(number) => probes.push(number),
                Word::Signal(signal) if self.is_followed(&signal) => drop(self.heard.send(signal)),
                Word::Signal(_) => {}
            }
        }
        Ok(probes)
    }

    fn is_followed(&self, signal: &Signal) -> bool {
        self.topics.is_followed(match signal {
            Signal::Advanced(Advance { run_id, .. }) => Topic::Run(*run_id),
            Signal::Cancel(run_id) => Topic::Cancel(*run_id),
            Signal::Work => Topic::Work,
        })
    }
}

async fn statement(client: &Client, text: &str) -> Result<(), Deaf> {
    let done = timeout(PATIENCE, client.batch_execute(text)).await;
    done.map_err(|_| LogError::Unreachable("no answer in time".into()))?.map_err(log_error)?;
    Ok(())
}

async fn backend(client: &Client) -> Result<i32, Deaf> {
    let asked = timeout(PATIENCE, client.query_typed("select pg_backend_pid()", &[])).await;
    let rows = asked.map_err(|_| LogError::Unreachable("no answer in time".into()))?.map_err(log_error)?;
    let pid = rows.first().and_then(|row| row.try_get(0).ok());
    pid.ok_or_else(|| LogError::Unreadable("no backend's number".into()).into())
}
