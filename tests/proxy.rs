//! A proxy before Postgres that strikes at the n-th write: it stops everything before the server gets it, or after the server has done it and before
//! the client hears. Whoever is killed then died exactly there.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Notify, watch};
use tokio::task::JoinSet;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Strike {
    /// The server never gets the write.
    Before,
    /// The write is done, its answer is lost.
    After,
}

/// What a statement that writes the log has in its text.
const WRITES: [&str; 5] = [".claim_1(", ".place_1(", ".finish_1(", ".hand_over_1(", ".events (run_id"];

pub struct Proxy {
    pub port: u16,
    state: Arc<State>,
    _server: JoinSet<()>,
}

struct State {
    server: String,
    nth: u32,
    strike: Strike,
    writes: AtomicU32,
    /// From the strike on nothing goes through, on no connection.
    shut: AtomicBool,
    struck: watch::Sender<Option<String>>,
    shutting: Notify,
}

impl Proxy {
    /// Before `HOST:PORT`; strikes at write number `nth`, counted from 1.
    pub async fn start(server: &str, nth: u32, strike: Strike) -> Proxy {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let port = listener.local_addr().expect("an address").port();
        let state = Arc::new(State {
            server: server.to_owned(),
            nth,
            strike,
            writes: AtomicU32::new(0),
            shut: AtomicBool::new(false),
            struck: watch::Sender::new(None),
            shutting: Notify::new(),
        });
        let accepting = Arc::clone(&state);
        let mut server = JoinSet::new();
        server.spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((client, _)) = listener.accept().await {
                connections.spawn(connection(client, Arc::clone(&accepting)));
            }
        });
        Proxy { port, state, _server: server }
    }

    /// The write that was struck.
    pub async fn struck(&self) -> String {
        let mut struck = self.state.struck.subscribe();
        let told = struck.wait_for(Option::is_some).await.expect("a strike").clone();
        told.unwrap_or_default()
    }

    pub fn writes(&self) -> u32 {
        self.state.writes.load(Ordering::SeqCst)
    }
}

impl State {
    /// Whether this statement is the one.
    fn is_struck(&self, statement: &str) -> bool {
        WRITES.iter().any(|write| statement.contains(write)) && self.writes.fetch_add(1, Ordering::SeqCst) + 1 == self.nth
    }

    fn shut(&self, statement: &str) {
        self.shut.store(true, Ordering::SeqCst);
        self.shutting.notify_waiters();
        self.struck.send_replace(Some(statement.to_owned()));
    }
}

async fn connection(client: TcpStream, state: Arc<State>) {
    let Ok(server) = TcpStream::connect(&state.server).await else { return };
    let ((from_client, to_client), (from_server, to_server)) = (client.into_split(), server.into_split());
    let answers = tokio::spawn(backward(from_server, to_client, Arc::clone(&state)));
    let end = forward(from_client, to_server, &state).await;
    if end.is_some() {
        // Held open: a connection that ends would tell the client something.
        std::future::pending::<()>().await;
    }
    answers.abort();
}

/// Client to server, message by message. `Some` after a strike.
async fn forward(mut client: OwnedReadHalf, mut server: OwnedWriteHalf, state: &State) -> Option<()> {
    // The first message has no type, and neither has the question before it, whether the server speaks TLS.
    const TLS: [u8; 4] = 80_877_103_u32.to_be_bytes();
    let mut typed = false;
    loop {
        let mut message = Vec::new();
        if typed {
            message.push(client.read_u8().await.ok()?);
        }
        let length = client.read_u32().await.ok()?;
        message.extend_from_slice(&length.to_be_bytes());
        let start = message.len();
        message.resize(start + length.saturating_sub(4) as usize, 0);
        client.read_exact(&mut message[start..]).await.ok()?;
        if state.shut.load(Ordering::SeqCst) {
            return Some(());
        }
        let statement = String::from_utf8_lossy(&message[start..]).into_owned();
        if typed && message[0] == b'P' && state.is_struck(&statement) {
            match state.strike {
                Strike::Before => state.shut(&statement),
                Strike::After => {
                    // Nothing of the answers gets through from here on; the rest of this call does, to its Sync.
                    state.shut.store(true, Ordering::SeqCst);
                    server.write_all(&message).await.ok()?;
                    pass_to_sync(&mut client, &mut server).await?;
                    state.struck.send_replace(Some(statement));
                }
            }
            return Some(());
        }
        server.write_all(&message).await.ok()?;
        typed |= message[start..] != TLS;
    }
}

async fn pass_to_sync(client: &mut OwnedReadHalf, server: &mut OwnedWriteHalf) -> Option<()> {
    loop {
        let kind = client.read_u8().await.ok()?;
        let length = client.read_u32().await.ok()?;
        let mut rest = vec![0; length.saturating_sub(4) as usize];
        client.read_exact(&mut rest).await.ok()?;
        server.write_all(&[&[kind][..], &length.to_be_bytes(), &rest].concat()).await.ok()?;
        if kind == b'S' {
            return Some(());
        }
    }
}

/// Server to client, until the strike.
async fn backward(mut server: OwnedReadHalf, mut client: OwnedWriteHalf, state: Arc<State>) {
    let mut bytes = vec![0; 64 * 1024];
    loop {
        let read = tokio::select! {
            read = server.read(&mut bytes) => read,
            () = state.shutting.notified() => continue,
        };
        let Ok(1..) = read else { return };
        if !state.shut.load(Ordering::SeqCst) && client.write_all(&bytes[..read.unwrap_or(0)]).await.is_err() {
            return;
        }
    }
}
