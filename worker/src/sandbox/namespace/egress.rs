//! The host's egress: started by the worker that needs it first, and then by whoever finds it gone.
//!
//! As long as this worker has needed it, it says so by a connection, which also tells at once whether it is still there.

use std::fs::File;
use std::io::{self, Write};
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::{Mutex, PoisonError};

use runner::egress::{DOOR, Hello, PROTOCOL, To};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::sandbox::SandboxError;

#[derive(Debug)]
pub(super) struct Egress {
    program: PathBuf,
    /// `DATA/egress`.
    pub(super) folder: PathBuf,
    stay: Mutex<Option<UnixStream>>,
}

impl Egress {
    pub(super) fn new(program: PathBuf, folder: PathBuf) -> Self {
        Self { program, folder, stay: Mutex::default() }
    }

    /// Starts it unless it runs. It may block for a moment.
    pub(super) fn ensure(&self) -> Result<(), SandboxError> {
        let mut stay = self.stay.lock().unwrap_or_else(PoisonError::into_inner);
        if stay.as_ref().is_some_and(is_there) {
            return Ok(());
        }
        *stay = None;
        // It reads its settings from the environment, which nobody else here looks into.
        self.order("run")?;
        let entered = self.enter().map_err(SandboxError::io("the door of egress"))?;
        *stay = Some(entered);
        Ok(())
    }

    /// For a sandbox that stands already, which can do something without it.
    pub(super) fn ensure_or_warn(&self) {
        if let Err(error) = self.ensure() {
            tracing::warn!(error = &error as &dyn std::error::Error, "sandboxes do not reach the outside");
        }
    }

    /// Ends it, unless others need it. Also one that a dead worker started.
    pub(super) fn end(&self) -> Result<(), SandboxError> {
        let mut stay = self.stay.lock().unwrap_or_else(PoisonError::into_inner);
        *stay = None;
        if self.folder.join(DOOR).exists() { self.order("end") } else { Ok(()) }
    }

    fn order(&self, order: &str) -> Result<(), SandboxError> {
        let mut program = Command::new(&self.program);
        program.arg(order).arg(&self.folder).current_dir("/").stdin(Stdio::null());
        let output = program.output().map_err(SandboxError::io(self.program.display().to_string()))?;
        let said = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim().to_owned();
        if !output.status.success() {
            return Err(SandboxError::SetUp(said(&output.stderr)));
        }
        let remark = said(&output.stdout);
        if !remark.is_empty() {
            tracing::warn!("{remark}");
        }
        Ok(())
    }

    fn enter(&self) -> io::Result<UnixStream> {
        // The path can be longer than an address holds.
        let folder = File::open(&self.folder)?;
        let mut stream = UnixStream::connect(format!("/proc/self/fd/{}/{DOOR}", folder.as_raw_fd()))?;
        let hello = Hello { protocol: PROTOCOL, deployment: String::new(), sandbox: String::new(), to: To::Stay };
        let mut line = serde_json::to_vec(&hello)?;
        line.push(b'\n');
        stream.write_all(&line)?;
        Ok(stream)
    }
}

/// Egress says nothing here, so that anything to be heard is its end.
fn is_there(stream: &UnixStream) -> bool {
    let mut fds = [PollFd::new(stream, PollFlags::IN)];
    let now = Timespec { tv_sec: 0, tv_nsec: 0 };
    matches!(poll(&mut fds, Some(&now)), Ok(0))
}
