//! From the first stage to the running harness.
//!
//! Bubblewrap tells the sandbox's first process, `exec`, which says that it is there and that its death follows its parent's; the runner writes the process
//! down and lets it go on, and the status pipe tells how that went. The harness never runs before the runner could kill it.

use std::fs::File;
use std::io::{self, Write};
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::Duration;

use runner::journal::Body;
use runner::procfs::{self, Process};
use runner::tree::Tree;

use super::clock;

/// From the start to the harness's.
const LIMIT: Duration = Duration::from_secs(30);
/// The longest complaint that is kept.
const MOST: usize = 8 * 1024;

/// How far it has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    /// Bubblewrap sets up.
    Setup,
    /// `exec` starts the harness.
    Starting,
    /// The harness runs, or ran.
    Running,
    /// The harness could not be started, which is in the journal.
    Failed,
}

/// A start under way.
pub(super) struct Boot {
    pub(super) stage: Stage,
    /// When the stage was reached.
    pub(super) since: Duration,
    /// The harness's process, as the host sees it.
    pub(super) harness: Option<Process>,
    init: Option<Process>,
    go: File,
    info: File,
    status: Heard,
    setup: Heard,
}

impl Boot {
    pub(super) fn new(go: File, info: File, status: OwnedFd, setup: OwnedFd) -> Self {
        Self { stage: Stage::Setup, since: clock::now(), harness: None, init: None, go, info, status: Heard::new(status), setup: Heard::new(setup) }
    }

    /// What to wait for.
    pub(super) fn fds(&self) -> impl Iterator<Item = &OwnedFd> {
        [&self.status, &self.setup].into_iter().filter_map(|heard| heard.from.as_ref())
    }

    /// When to look again at the latest although nothing is heard.
    pub(super) fn look_again(&self) -> Option<Duration> {
        match self.stage {
            Stage::Setup | Stage::Starting => Some(self.since + LIMIT),
            Stage::Running | Stage::Failed => None,
        }
    }

    pub(super) fn too_long(&self) -> bool {
        !matches!(self.stage, Stage::Running | Stage::Failed) && clock::now() >= self.since + LIMIT
    }

    /// What bubblewrap or a stage said of its failure.
    pub(super) fn complaint(&mut self) -> String {
        self.setup.listen();
        let said = String::from_utf8_lossy(&self.setup.bytes).trim().to_owned();
        if said.is_empty() { "bubblewrap ended without a word".to_owned() } else { said }
    }

    /// Takes the steps that can be taken; gives what goes into the journal.
    pub(super) fn step(&mut self, tree: &mut Tree, folder: &Path) -> io::Result<Option<Body>> {
        self.setup.listen();
        self.status.listen();
        // Bubblewrap has told its child before that could start anything.
        if self.stage == Stage::Setup
            && !self.status.bytes.is_empty()
            && let Some(init) = child_pid(&self.info).and_then(Process::of)
        {
            tree.add_process(folder, init)?;
            self.init = Some(init);
            // A closed pipe is told by the end of bubblewrap.
            let _ = self.go.write_all(b"2");
            self.enter(Stage::Starting);
        }
        if self.stage == Stage::Starting && self.status.from.is_none() {
            return Ok(Some(self.started()));
        }
        Ok(None)
    }

    fn started(&mut self) -> Body {
        let said = String::from_utf8_lossy(&self.status.bytes[1..]).into_owned();
        if said.is_empty() {
            self.enter(Stage::Running);
            let children = self.init.map(|init| procfs::children(init.pid)).unwrap_or_default();
            self.harness = children.first().copied().and_then(Process::of);
            Body::Started
        } else {
            self.enter(Stage::Failed);
            Body::StartFailed { message: said }
        }
    }

    fn enter(&mut self, stage: Stage) {
        self.stage = stage;
        self.since = clock::now();
    }
}

/// A pipe that is listened to, up to a limit.
struct Heard {
    from: Option<OwnedFd>,
    bytes: Vec<u8>,
}

impl Heard {
    fn new(from: OwnedFd) -> Self {
        Self { from: Some(from), bytes: Vec::new() }
    }

    fn listen(&mut self) {
        let mut chunk = [0; 1024];
        while let Some(from) = &self.from {
            match rustix::io::read(from, &mut chunk) {
                Ok(n) if n > 0 => {
                    let room = MOST.saturating_sub(self.bytes.len());
                    self.bytes.extend_from_slice(&chunk[..n.min(room)]);
                }
                Err(rustix::io::Errno::INTR) => {}
                Err(rustix::io::Errno::AGAIN) => return,
                Ok(_) | Err(_) => self.from = None,
            }
        }
    }
}

/// Bubblewrap writes `{"child-pid": N}`, and newer ones more.
fn child_pid(info: &File) -> Option<i32> {
    let mut text = [0; 4096];
    let len = info.read_at(&mut text, 0).ok()?;
    let info: serde_json::Value = serde_json::from_slice(&text[..len]).ok()?;
    info.get("child-pid")?.as_i64()?.try_into().ok()
}
