//! A folder with the program in it, and a client that talks as runners do.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::{Command, Output};
use std::time::{Duration, Instant};

use runner::egress::{Answer, DOOR, Hello, PROTOCOL, Piece, To, read};
use runner::journal::Door;

pub(crate) const KEY: &str = "the-real-key-e2fc714c4727ee93";

/// Ends the process with the test.
pub(crate) struct House {
    folder: tempfile::TempDir,
    pub(crate) variables: Vec<(String, String)>,
}

impl House {
    pub(crate) fn new(variables: &[(&str, &str)]) -> Self {
        let variables = variables.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        Self { folder: tempfile::tempdir().unwrap(), variables }
    }

    pub(crate) fn path(&self) -> PathBuf {
        self.folder.path().join("egress")
    }

    pub(crate) fn order(&self, order: &str) -> Output {
        let mut program = Command::new(env!("CARGO_BIN_EXE_sandlog-egress"));
        program.arg(order).arg(self.path()).env_clear().envs(self.variables.clone());
        program.output().unwrap()
    }

    /// What it says when it runs.
    pub(crate) fn run(&self) -> String {
        let output = self.order("run");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    }

    /// The pids of those that run in the folder.
    pub(crate) fn pids(&self) -> Vec<i32> {
        let path = self.folder.path().canonicalize().unwrap().display().to_string();
        let is = |pid: &i32| {
            std::fs::read(format!("/proc/{pid}/cmdline")).is_ok_and(|line| String::from_utf8_lossy(&line).contains(&format!("daemon\0{path}")))
        };
        let all = std::fs::read_dir("/proc").unwrap().flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok());
        all.filter(is).collect()
    }

    pub(crate) fn pid(&self) -> i32 {
        let pids = self.pids();
        assert_eq!(pids.len(), 1, "{pids:?}");
        pids[0]
    }

    pub(crate) fn enter(&self, protocol: u32, to: To) -> UnixStream {
        let mut stream = UnixStream::connect(self.path().join(DOOR)).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        let hello = Hello { protocol, deployment: "test".into(), sandbox: "s_r-1".into(), to };
        stream.write_all(format!("{}\n", serde_json::to_string(&hello).unwrap()).as_bytes()).unwrap();
        stream
    }

    pub(crate) fn tell(&self, protocol: u32, to: To) -> Answer {
        let mut text = String::new();
        self.enter(protocol, to).read_to_string(&mut text).unwrap();
        serde_json::from_str(&text).unwrap()
    }

    /// One connection, on which `text` is said: what comes back, and the records.
    pub(crate) fn ask(&self, text: &str) -> (String, Vec<Door>) {
        let mut stream = self.enter(PROTOCOL, To::Join { upstreams: vec!["anthropic".into(), "openai".into()] });
        stream.write_all(text.as_bytes()).unwrap();
        let (mut said, mut doors) = (Vec::new(), Vec::new());
        assert_eq!(read(&mut stream).unwrap(), Piece::Welcome);
        loop {
            match read(&mut stream).unwrap() {
                Piece::Data(bytes) => said.extend(bytes),
                Piece::Record(door) => doors.push(*door),
                Piece::End => return (String::from_utf8(said).unwrap(), doors),
                Piece::Welcome => panic!("welcomed twice"),
            }
        }
    }
}

impl Drop for House {
    fn drop(&mut self) {
        for pid in self.pids() {
            let _ = rustix::process::kill_process(rustix::process::Pid::from_raw(pid).unwrap(), rustix::process::Signal::KILL);
        }
    }
}

pub(crate) fn eventually(what: &str, mut condition: impl FnMut() -> bool) {
    let until = Instant::now() + Duration::from_secs(20);
    while !condition() {
        assert!(Instant::now() < until, "{what} did not come about");
        std::thread::sleep(Duration::from_millis(5));
    }
}
