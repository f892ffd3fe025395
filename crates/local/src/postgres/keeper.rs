//! Starts the server, watches it and stops it.
//!
//! One thread does all three, since the kernel stops the server (PR_SET_PDEATHSIG) when the *thread* that forked it ends: this thread ends only after the
//! server, or with the whole process, also when that is killed. A `sandlog` killed between fork and exec leaves nothing either: the child looks
//! who its parent is. What still runs at the next start (a shutdown that takes its time) is found by its working folder (`leftover`).

use std::fs;
use std::net::{Ipv4Addr, TcpListener};
use std::path::Path;
use std::process::{Child, Stdio};
use std::sync::mpsc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use tokio::sync::{oneshot, watch};

use super::cluster::{self, Cluster};
use super::launch::Launch;
use super::{DATABASE, FUNCTIONS, OWNER, PostgresError, at};

/// A running server of ours. Dropping it stops the server and waits for its end.
pub(crate) struct Embedded {
    /// The owner's URL, for migrations.
    pub(crate) owner_url: String,
    /// The functions' URL.
    pub(crate) functions_url: String,
    ended: watch::Receiver<Option<String>>,
    keeper: Keeper,
}

/// The thread's handle: to let go of `orders` is the order to stop.
struct Keeper {
    orders: Option<mpsc::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

struct Urls {
    owner: String,
    functions: String,
}

impl Embedded {
    /// Starts the server of `data`, making its cluster first where there is none. The caller holds the data folder's lock.
    pub(crate) async fn start(data: &Path, binaries: Option<&Path>) -> Result<Embedded, PostgresError> {
        let (orders, taken) = mpsc::channel();
        let (ready, started) = oneshot::channel();
        let (over, ended) = watch::channel(None);
        let (home, binaries) = (data.join("postgres"), binaries.map(Path::to_owned));
        let thread = std::thread::Builder::new()
            .name("postgres".into())
            .spawn(move || keep(&home, binaries.as_deref(), &taken, ready, &over))
            .map_err(at("starting a thread for", data))?;
        let keeper = Keeper { orders: Some(orders), thread: Some(thread) };
        let urls = started.await.unwrap_or(Err(PostgresError::GivenUp))?;
        Ok(Embedded { owner_url: urls.owner, functions_url: urls.functions, ended, keeper })
    }

    /// Waits until the server has ended without having been told to, and says how.
    pub(crate) async fn ended(&self) -> String {
        let mut ended = self.ended.clone();
        match ended.wait_for(Option::is_some).await {
            Ok(how) => how.clone().unwrap_or_default(),
            Err(_) => "its keeper ended".into(),
        }
    }

    /// Stops the server, without holding up other tasks.
    pub(crate) async fn stop(self) {
        let keeper = self.keeper;
        let _ = tokio::task::spawn_blocking(move || drop(keeper)).await;
    }
}

impl Drop for Keeper {
    fn drop(&mut self) {
        self.orders = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// The thread's whole life.
fn keep(
    home: &Path,
    binaries: Option<&Path>,
    orders: &mpsc::Receiver<()>,
    ready: oneshot::Sender<Result<Urls, PostgresError>>,
    over: &watch::Sender<Option<String>>,
) {
    let mut server = match start(home, binaries, orders) {
        Ok((server, urls)) => {
            // Nobody waits any more: the orders are gone too, and the loop below stops the server.
            let _ = ready.send(Ok(urls));
            server
        }
        Err(why) => {
            let _ = ready.send(Err(why));
            return;
        }
    };
    loop {
        match orders.recv_timeout(Duration::from_millis(100)) {
            Err(mpsc::RecvTimeoutError::Timeout) => {
                if let Ok(Some(status)) = server.try_wait() {
                    over.send_replace(Some(format!("the embedded Postgres ended ({status}); its log is {}", home.join("log").display())));
                    return;
                }
            }
            Ok(()) | Err(mpsc::RecvTimeoutError::Disconnected) => return stop(&mut server),
        }
    }
}

fn start(home: &Path, binaries: Option<&Path>, orders: &mpsc::Receiver<()>) -> Result<(Child, Urls), PostgresError> {
    let cluster = cluster::open(home, binaries)?;
    let log = home.join("log");
    // Between the choice of a port and its use somebody else may take it: then with another one.
    let mut tries = 5;
    loop {
        if given_up(orders) {
            return Err(PostgresError::GivenUp);
        }
        let port = free_port().map_err(at("finding a free port for", home))?;
        let mut server = spawn(&cluster, &log, port)?;
        match wait_until_ready(&mut server, &cluster.folder, orders) {
            Ok(()) => return Ok((server, urls(&cluster, port))),
            Err(status) => {
                stop(&mut server);
                tries -= 1;
                let said = fs::read_to_string(&log).unwrap_or_default();
                if tries == 0 || !said.contains("Address already in use") {
                    return Err(PostgresError::Failed { program: "postgres", status, said: tail(&said) });
                }
            }
        }
    }
}

fn spawn(cluster: &Cluster, log: &Path, port: u16) -> Result<Child, PostgresError> {
    let _ = fs::rename(log, log.with_extension("old"));
    let file = fs::File::create(log).map_err(at("making", log))?;
    let launch = Launch { binaries: &cluster.binaries, account: cluster.account };
    let mut command = launch.command("postgres", &[], &cluster.folder)?;
    let settings = [
        format!("port={port}"),
        "listen_addresses=127.0.0.1".into(),
        "unix_socket_directories=".into(),
        // Accepted means durable, also here.
        "fsync=on".into(),
        "synchronous_commit=on".into(),
        "max_connections=100".into(),
        "logging_collector=off".into(),
        "log_timezone=UTC".into(),
        "timezone=UTC".into(),
        "jit=off".into(),
    ];
    for setting in settings {
        command.arg("-c").arg(setting);
    }
    command.stdout(Stdio::null()).stderr(file);
    command.spawn().map_err(|cause| PostgresError::Failed { program: "postgres", status: "not started".into(), said: cause.to_string() })
}

/// As `pg_ctl -w` does: the eighth line of postmaster.pid says `ready`. A server that recovers after a crash may take its time.
fn wait_until_ready(server: &mut Child, folder: &Path, orders: &mpsc::Receiver<()>) -> Result<(), String> {
    let (file, pid) = (folder.join("postmaster.pid"), server.id().to_string());
    let end = Instant::now() + Duration::from_secs(300);
    loop {
        let text = fs::read_to_string(&file).unwrap_or_default();
        let mut lines = text.lines().map(str::trim);
        if lines.next() == Some(&pid) && lines.nth(6) == Some("ready") {
            return Ok(());
        }
        match server.try_wait() {
            Ok(None) if Instant::now() < end && !given_up(orders) => std::thread::sleep(Duration::from_millis(5)),
            Ok(None) => return Err("not ready in time".into()),
            Ok(Some(status)) => return Err(status.to_string()),
            Err(cause) => return Err(cause.to_string()),
        }
    }
}

fn given_up(orders: &mpsc::Receiver<()>) -> bool {
    orders.try_recv() != Err(mpsc::TryRecvError::Empty)
}

/// Fast shutdown, then immediate shutdown, then the end of it.
fn stop(server: &mut Child) {
    for (signal, patience) in [(Signal::INT, 20), (Signal::QUIT, 5), (Signal::KILL, 5)] {
        // The pid is ours until it is waited for.
        if let Some(pid) = i32::try_from(server.id()).ok().and_then(Pid::from_raw) {
            let _ = kill_process(pid, signal);
        }
        let end = Instant::now() + Duration::from_secs(patience);
        while Instant::now() < end {
            if !matches!(server.try_wait(), Ok(None)) {
                return;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

fn urls(cluster: &Cluster, port: u16) -> Urls {
    let of = |role: &str, password: &str| format!("postgres://{role}:{password}@127.0.0.1:{port}/{DATABASE}");
    Urls { owner: of(OWNER, &cluster.passwords.owner), functions: of(FUNCTIONS, &cluster.passwords.functions) }
}

fn free_port() -> std::io::Result<u16> {
    Ok(TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?.port())
}

fn tail(text: &str) -> String {
    let lines: Vec<&str> = text.lines().collect();
    lines[lines.len().saturating_sub(12)..].join("\n")
}
