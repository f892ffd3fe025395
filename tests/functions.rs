//! The two functions as `cargo lambda watch` serves them: built and started at their first request, on one address.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use reqwest::StatusCode;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, BufReader};

use crate::group::Group;
use crate::http::body;
use crate::instance::PATIENCE;
use crate::{Http, binaries, eventually};

/// Building the functions first, if need be.
const READY: Duration = Duration::from_secs(300);

/// Dropped, it is killed with all that it started.
#[derive(Debug)]
pub struct Watch {
    group: Group,
    url: String,
}

/// Free now; who takes it before us shows when we start.
pub fn free_port() -> u16 {
    std::net::TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr()).expect("a port").port()
}

/// The event that Lambda makes of messages in a queue.
pub fn queue_event(bodies: &[&str]) -> Value {
    let record = |(n, body): (usize, &&str)| json!({ "messageId": format!("m{n}"), "receiptHandle": "r", "body": body, "eventSource": "aws:sqs" });
    json!({ "Records": bodies.iter().enumerate().map(record).collect::<Vec<_>>() })
}

/// The program `api` or `worker` as a process of its own. Dropped, it is killed.
#[derive(Debug)]
pub struct Program {
    child: tokio::process::Child,
    /// What it said when it was ready.
    pub line: String,
}

impl Program {
    pub async fn start(name: &str, variables: &[(String, String)]) -> Program {
        let mut command = tokio::process::Command::new(binaries::sandlog().with_file_name(name));
        command.env_clear().env("PATH", std::env::var_os("PATH").unwrap_or_default()).env("SANDLOG_PORT", "0");
        command.envs(variables.iter().map(|(name, value)| (name, value)));
        command.current_dir(binaries::root()).stdin(Stdio::null()).stdout(Stdio::piped()).kill_on_drop(true);
        let mut child = command.spawn().expect("the program");
        let mut lines = BufReader::new(child.stdout.take().expect("its output")).lines();
        let line = tokio::time::timeout(PATIENCE, lines.next_line()).await.expect("it is ready").expect("its output");
        Program { child, line: line.expect("it says that it is ready") }
    }

    /// A client of the api.
    pub fn http(&self) -> Http {
        Http::new(vec![self.line.strip_prefix("api listening on ").expect("an api").to_owned()])
    }

    /// SIGTERM, and its end.
    pub async fn stop(mut self) {
        let pid = self.child.id().and_then(|pid| i32::try_from(pid).ok()).and_then(Pid::from_raw).expect("a process that runs");
        kill_process(pid, Signal::TERM).expect("a signal");
        let status = tokio::time::timeout(PATIENCE, self.child.wait()).await.expect("it ends").expect("its status");
        assert!(status.success(), "{status}");
    }
}

impl Watch {
    /// With these variables and what cargo needs. The log goes into `logs`, which must not be in the project: the emulator watches that.
    pub async fn start(variables: &[(String, String)], logs: &Path) -> Watch {
        let port = free_port();
        let path = format!("{}:{}", binaries::packages("watch").display(), std::env::var("PATH").unwrap_or_default());
        let mut command = Command::new("cargo");
        command.args(["lambda", "watch", "--ignore-changes", "--offline", "--locked", "-A", "127.0.0.1", "-P", &port.to_string()]);
        command.env_clear().env("PATH", path).envs(variables.iter().map(|(name, value)| (name, value)));
        for kept in ["HOME", "CARGO_HOME", "RUSTUP_HOME", "CARGO_TARGET_DIR", "CARGO_BUILD_JOBS"] {
            command.envs(std::env::var_os(kept).map(|value| (kept, value)));
        }
        command.current_dir(binaries::root());
        let watch = Watch { group: Group::spawn(command, logs), url: format!("http://127.0.0.1:{port}") };
        let up = || async { reqwest::get(format!("{}/lambda-url/api/health", watch.url)).await.ok().filter(|answer| answer.status().is_success()) };
        let healthy = tokio::time::timeout(READY, eventually("the api answers", READY * 2, up)).await;
        assert!(healthy.is_ok(), "the api does not answer:\n{}", watch.group.log());
        watch
    }

    /// A client of the api's function.
    pub fn http(&self) -> Http {
        Http::new(vec![format!("{}/lambda-url/api", self.url)])
    }

    /// Where it listens.
    pub fn address(&self) -> &str {
        self.url.trim_start_matches("http://")
    }

    /// What the worker's function answers to an event.
    pub async fn invoke(&self, event: &Value) -> Value {
        let request = reqwest::Client::new().post(format!("{}/2015-03-31/functions/worker/invocations", self.url));
        let answer = request.timeout(READY).json(event).send().await.expect("an answer");
        body(answer, StatusCode::OK).await
    }

    /// SIGTERM, and its end.
    pub async fn stop(mut self) {
        kill_process(self.group.pid(), Signal::TERM).expect("a signal");
        let ended = eventually("the emulator ends", Duration::from_secs(60), || {
            let ended = self.group.child.try_wait().expect("its status");
            async move { ended }
        });
        ended.await;
    }
}
