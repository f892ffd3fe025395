//! A TCP link that a test can spoil: slow, half-open, cut.

use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Weather {
    Fair,
    /// Every piece, either way, arrives so much later.
    Slow(Duration),
    /// Connections stand, and nothing passes; new ones are taken and stay silent too.
    Silent,
    /// Connections end, and new ones end at once.
    Cut,
}

pub struct Link {
    pub port: u16,
    weather: Arc<watch::Sender<Weather>>,
    _server: JoinSet<()>,
}

impl Link {
    /// To `HOST:PORT`.
    pub async fn to(server: &str) -> Link {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let port = listener.local_addr().expect("an address").port();
        let weather = Arc::new(watch::Sender::new(Weather::Fair));
        let (server, shared) = (server.to_owned(), Arc::clone(&weather));
        let mut tasks = JoinSet::new();
        tasks.spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((client, _)) = listener.accept().await {
                connections.spawn(carry(client, server.clone(), shared.subscribe()));
                while connections.try_join_next().is_some() {}
            }
        });
        Link { port, weather, _server: tasks }
    }

    pub fn set(&self, weather: Weather) {
        self.weather.send_replace(weather);
    }
}

async fn carry(client: TcpStream, server: String, mut weather: watch::Receiver<Weather>) {
    let Ok(server) = TcpStream::connect(&server).await else { return };
    let _ = (client.set_nodelay(true), server.set_nodelay(true));
    let ((from_client, to_client), (from_server, to_server)) = (client.into_split(), server.into_split());
    tokio::select! {
        () = one_way(from_client, to_server, weather.clone()) => {}
        () = one_way(from_server, to_client, weather.clone()) => {}
        _ = weather.wait_for(|weather| *weather == Weather::Cut) => {}
    }
}

async fn one_way(mut from: OwnedReadHalf, mut to: OwnedWriteHalf, mut weather: watch::Receiver<Weather>) {
    let mut bytes = vec![0; 64 * 1024];
    while let Ok(read @ 1..) = from.read(&mut bytes).await {
        let now = *weather.borrow_and_update();
        match now {
            Weather::Slow(time) => tokio::time::sleep(time).await,
            // A connection that fell silent stays so: what was lost on it cannot come back.
            Weather::Silent => return std::future::pending().await,
            Weather::Fair | Weather::Cut => {}
        }
        if to.write_all(&bytes[..read]).await.is_err() {
            return;
        }
    }
}
