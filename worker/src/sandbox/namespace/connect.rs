//! Going in at a runner's door.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use runner::door::{Answer, Hello, MAX_LINE, Order, PROTOCOL, Welcome};

use crate::sandbox::SandboxError;

const LIMIT: Duration = Duration::from_secs(5);

/// A door and what to say there.
pub(super) struct Door<'a> {
    pub(super) folder: &'a Path,
    pub(super) deployment: &'a str,
    pub(super) epoch: u64,
}

/// A visit: the connection, welcomed.
pub(super) struct Visit {
    pub(super) stream: UnixStream,
    pub(super) welcome: Welcome,
}

impl Door<'_> {
    /// Goes in. `Unreachable`: nobody answers.
    pub(super) fn enter(&self) -> Result<Visit, SandboxError> {
        match self.greet() {
            Ok((stream, Answer::Welcome(welcome))) => Ok(Visit { stream, welcome }),
            Ok((_, Answer::Refused(no))) if no.why == "epoch" => Err(SandboxError::Fenced { epoch: no.epoch }),
            Ok((_, Answer::Refused(no))) => Err(SandboxError::SetUp(format!("the runner refuses: {}", no.why))),
            Err(error) => Err(SandboxError::Unreachable(error.to_string())),
        }
    }

    fn greet(&self) -> io::Result<(UnixStream, Answer)> {
        // The path can be longer than an address holds.
        let folder = File::open(self.folder)?;
        let mut stream = UnixStream::connect(format!("/proc/self/fd/{}/door", folder.as_raw_fd()))?;
        stream.set_read_timeout(Some(LIMIT))?;
        stream.set_write_timeout(Some(LIMIT))?;
        let hello = Hello { protocol: PROTOCOL, deployment: self.deployment.to_owned(), epoch: self.epoch };
        send_line(&mut stream, &hello)?;
        let answer = serde_json::from_slice(&read_line(&stream)?)?;
        stream.set_read_timeout(None)?;
        stream.set_write_timeout(None)?;
        Ok((stream, answer))
    }
}

impl Visit {
    /// Gives an order that has no bytes of its own.
    pub(super) fn order(&mut self, order: &Order) -> Result<(), SandboxError> {
        send_line(&mut self.stream, order).map_err(|error| SandboxError::Unreachable(error.to_string()))
    }
}

fn send_line(stream: &mut UnixStream, said: &impl serde::Serialize) -> io::Result<()> {
    let mut line = serde_json::to_vec(said)?;
    line.push(b'\n');
    stream.write_all(&line)
}

/// The runner says no more than this line until it is asked, so nothing is lost in the buffer.
fn read_line(stream: &UnixStream) -> io::Result<Vec<u8>> {
    let mut line = Vec::new();
    BufReader::new(stream.take(MAX_LINE)).read_until(b'\n', &mut line)?;
    match line.pop() {
        Some(b'\n') => Ok(line),
        _ => Err(io::ErrorKind::UnexpectedEof.into()),
    }
}
