//! A program that starts others, with a log of what they all say.

use std::fs::File;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use rustix::process::{Pid, Signal, kill_process_group};

use crate::unique;

/// A process group. Dropped, it is killed, and where its test failed the log is shown.
#[derive(Debug)]
pub struct Group {
    pub child: Child,
    log: PathBuf,
}

impl Group {
    /// The log goes into `logs`.
    pub fn spawn(mut command: Command, logs: &Path) -> Group {
        let log = logs.join(unique("log"));
        let file = File::create(&log).expect("a log");
        command.process_group(0).stdin(Stdio::null()).stdout(file.try_clone().expect("a log")).stderr(file);
        Group { child: command.spawn().expect("a program"), log }
    }

    pub fn pid(&self) -> Pid {
        i32::try_from(self.child.id()).ok().and_then(Pid::from_raw).expect("a process")
    }

    pub fn log(&self) -> String {
        std::fs::read_to_string(&self.log).unwrap_or_default()
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("the emulator's log:\n{}", self.log());
        }
        let _ = kill_process_group(self.pid(), Signal::KILL);
        let _ = self.child.wait();
    }
}
