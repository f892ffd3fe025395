//! A Redis server, or a Valkey, of a test's own, which it may flush, kill and start again.

use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::{binaries, eventually};

/// Ended when it is dropped.
#[derive(Debug)]
pub struct Redis {
    child: Option<Child>,
    pub port: u16,
    folder: TempDir,
    program: PathBuf,
    arguments: Vec<String>,
}

impl Redis {
    pub async fn start() -> Redis {
        Redis::with(&[]).await
    }

    /// Valkey, which has the same commands.
    pub async fn valkey() -> Redis {
        Redis::run(binaries::packages("valkey").join("valkey-server"), &[]).await
    }

    /// With further arguments of `redis-server`.
    pub async fn with(arguments: &[&str]) -> Redis {
        Redis::run("redis-server".into(), arguments).await
    }

    async fn run(program: PathBuf, arguments: &[&str]) -> Redis {
        let folder = tempfile::Builder::new().prefix("sandlog-redis-").tempdir().expect("a folder");
        // Free now; somebody else may take it before the server does, which then shows below.
        let port = std::net::TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr()).expect("a port").port();
        let arguments = arguments.iter().map(|argument| (*argument).to_owned()).collect();
        let mut redis = Redis { child: None, port, folder, program, arguments };
        redis.restart().await;
        redis
    }

    pub fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port)
    }

    /// `kill -9`.
    pub fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }

    /// On the same port, with nothing in it.
    pub async fn restart(&mut self) {
        self.kill();
        let mut command = Command::new(&self.program);
        command.args(["--port", &self.port.to_string(), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no", "--dir"]);
        command.arg(self.folder.path()).args(&self.arguments).stdin(Stdio::null()).stdout(Stdio::null());
        self.child = Some(command.spawn().unwrap_or_else(|cause| panic!("{}: {cause}", self.program.display())));
        let port = self.port;
        eventually("redis-server listens", Duration::from_secs(20), || async { TcpStream::connect(("127.0.0.1", port)).await.ok() }).await;
    }

    /// What it answers to a command, as the text of the protocol.
    pub async fn ask(&self, command: &[&str]) -> String {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).await.expect("redis-server");
        let mut text = format!("*{}\r\n", command.len());
        command.iter().for_each(|word| text.push_str(&format!("${}\r\n{word}\r\n", word.len())));
        text.push_str("*1\r\n$4\r\nQUIT\r\n");
        stream.write_all(text.as_bytes()).await.expect("a command");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.expect("an answer");
        answer.strip_suffix("+OK\r\n").unwrap_or(&answer).to_owned()
    }
}

impl Drop for Redis {
    fn drop(&mut self) {
        self.kill();
    }
}
