//! One `sandlog` process.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, Command};

use crate::{binaries, unique};

/// How long a process may take to be ready or to end. The machine may be busy with other tests.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// A process that said that it is ready. Dropped, it is killed.
#[derive(Debug)]
pub struct Instance {
    child: Child,
    /// What it serves; nothing for a worker.
    pub url: Option<String>,
    log: PathBuf,
}

/// A process that ended without being ready, or at all.
#[derive(Debug)]
pub struct Ended {
    pub status: ExitStatus,
    pub stdout: String,
    pub stderr: String,
}

/// `sandlog` with `args` and nothing in its environment but `variables`, in the project's root.
pub fn command(args: &[&str], variables: &[(String, String)]) -> Command {
    let mut command = Command::new(binaries::sandlog());
    command.args(args).env_clear().env("PATH", std::env::var_os("PATH").unwrap_or_default());
    command.envs(variables.iter().map(|(name, value)| (name, value)));
    command.current_dir(binaries::root()).stdin(Stdio::null()).kill_on_drop(true);
    command
}

/// Runs a command to its end.
pub async fn finish(mut command: Command) -> Ended {
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("sandlog");
    let output = tokio::time::timeout(PATIENCE, child.wait_with_output()).await.expect("sandlog did not end").expect("its output");
    let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
    Ended { status: output.status, stdout: text(output.stdout), stderr: text(output.stderr) }
}

impl Instance {
    /// Starts `sandlog up ARGS` and waits for its line. Its log goes to a file in `logs`.
    pub async fn start(args: &[&str], variables: &[(String, String)], logs: &Path) -> Instance {
        let args: Vec<&str> = ["up"].iter().chain(args).copied().collect();
        let log = logs.join(unique("log"));
        let mut child = command(&args, variables).stdout(Stdio::piped()).stderr(File::create(&log).expect("a log")).spawn().expect("sandlog");
        let mut lines = BufReader::new(child.stdout.take().expect("its output")).lines();
        let line = tokio::time::timeout(PATIENCE, lines.next_line()).await.expect("sandlog is not ready").expect("its output");
        let said = |log: &Path| std::fs::read_to_string(log).unwrap_or_default();
        let line = line.unwrap_or_else(|| panic!("sandlog {args:?} ended without being ready:\n{}", said(&log)));
        let url = line.strip_prefix("sandlog listening on ").map(str::to_owned);
        assert!(url.is_some() || line == "sandlog worker ready", "{line}");
        Instance { child, url, log }
    }

    /// SIGTERM, and its end.
    pub async fn stop(mut self) -> ExitStatus {
        self.signal(Signal::TERM);
        self.ended().await
    }

    /// `kill -9`, and its end.
    pub async fn kill(mut self) {
        self.signal(Signal::KILL);
        self.ended().await;
    }

    pub fn signal(&self, signal: Signal) {
        let pid = self.child.id().and_then(|pid| i32::try_from(pid).ok()).and_then(Pid::from_raw).expect("a process that runs");
        kill_process(pid, signal).expect("a signal");
    }

    pub async fn ended(&mut self) -> ExitStatus {
        let ended = tokio::time::timeout(PATIENCE, self.child.wait()).await;
        ended.unwrap_or_else(|_| panic!("sandlog did not end; its log:\n{}", self.log())).expect("its status")
    }

    pub fn pid(&self) -> u32 {
        self.child.id().expect("a process that runs")
    }

    /// What it has written to standard error.
    pub fn log(&self) -> String {
        std::fs::read_to_string(&self.log).unwrap_or_default()
    }
}
