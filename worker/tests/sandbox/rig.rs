//! A data folder with a back end on it, and ways to see what the host has of a sandbox.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use uuid::Uuid;
use worker::sandbox::namespace::{Namespace, Options, USER, runner_beside};
use worker::sandbox::{Attached, Body, Exit, FillFn, Limits, Network, Place, Record, SandboxSpec, Sandboxes, Seen};

pub(crate) type Outcome = Result<(), Box<dyn std::error::Error>>;

/// A data folder of its own, below a 0700 folder, and a session in it. All sandboxes are removed at its end.
pub(crate) struct Rig {
    pub(crate) folder: tempfile::TempDir,
    pub(crate) at: Place,
    pub(crate) sandboxes: Namespace,
}

impl Rig {
    pub(crate) fn new() -> Self {
        Self::below("data")
    }

    /// With the data folder at a path below the temporary one.
    pub(crate) fn below(path: &str) -> Self {
        Self::in_folder(tempfile::tempdir().unwrap(), path, &runner().with_file_name("sandlog-egress"))
    }

    /// With a program for egress too.
    pub(crate) fn in_folder(folder: tempfile::TempDir, path: &str, egress: &Path) -> Self {
        let sandboxes = open_all(&folder.path().join(path), "test", runner(), egress.to_owned());
        let at = Place { session: Uuid::new_v4(), name: format!("{}-1", Uuid::new_v4()) };
        Self { folder, at, sandboxes }
    }

    /// With tools for the inside.
    pub(crate) fn with_tools(tools: &Path) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let egress = runner().with_file_name("sandlog-egress");
        let options = Options { deployment: "test".into(), runner: runner(), egress, bwrap: None, tools: Some(tools.to_owned()), user: USER };
        let sandboxes = Namespace::open(&folder.path().join("data"), options).unwrap();
        let at = Place { session: Uuid::new_v4(), name: format!("{}-1", Uuid::new_v4()) };
        Self { folder, at, sandboxes }
    }

    /// Creates with epoch 1.
    pub(crate) async fn create(&self, spec: &SandboxSpec) {
        self.sandboxes.create(&self.at, 1, spec, nothing()).await.unwrap();
    }

    pub(crate) async fn attach(&self) -> Attached {
        self.sandboxes.attach(&self.at, 1, 0).await.unwrap()
    }

    /// Creates, closes standard input, and gives all records.
    pub(crate) async fn run(&self, spec: &SandboxSpec) -> Vec<Record> {
        self.create(spec).await;
        let mut attached = self.attach().await;
        attached.orders.inbox(0, Vec::new(), true).await;
        rest(&mut attached).await
    }

    pub(crate) async fn look(&self) -> Seen {
        self.sandboxes.look(&self.at, 1).await.unwrap()
    }

    /// The sandbox's folder.
    pub(crate) async fn path(&self) -> PathBuf {
        self.sandboxes.paths(&self.at).await.home.parent().unwrap().to_owned()
    }

    /// The runner's pid: who holds the folder's lock open. Its forks have that for a moment; it alone leads a session.
    pub(crate) async fn runner(&self) -> i32 {
        let lock = self.path().await.join("lock");
        let mut found = None;
        eventually("a runner that holds the lock", || {
            found = pids().into_iter().find(|pid| {
                let Ok(fds) = fs::read_dir(format!("/proc/{pid}/fd")) else { return false };
                // Threads of the kernel have no session.
                let leads = || rustix::process::Pid::from_raw(*pid).is_some_and(|pid| rustix::process::getsid(Some(pid)) == Ok(pid));
                fds.flatten().any(|fd| fs::read_link(fd.path()).is_ok_and(|to| to == lock)) && cmdline(*pid).contains("sandlog-runner") && leads()
            });
            found.is_some()
        });
        found.unwrap()
    }
}

impl Drop for Rig {
    /// By another thread, since a test's runtime cannot be blocked on from within.
    fn drop(&mut self) {
        let (sandboxes, session) = (self.sandboxes.clone(), self.at.session);
        let erase = move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            runtime.map(|runtime| {
                let erased = runtime.block_on(sandboxes.erase(session));
                runtime.block_on(sandboxes.close()).and(erased)
            })
        };
        let erased = std::thread::spawn(erase).join();
        if !std::thread::panicking() {
            erased.unwrap().unwrap().unwrap();
        }
    }
}

pub(crate) fn open(data: &Path, deployment: &str) -> Namespace {
    open_with(data, deployment, runner())
}

pub(crate) fn open_with(data: &Path, deployment: &str, runner: PathBuf) -> Namespace {
    let egress = runner.with_file_name("sandlog-egress");
    open_all(data, deployment, runner, egress)
}

pub(crate) fn open_all(data: &Path, deployment: &str, runner: PathBuf, egress: PathBuf) -> Namespace {
    let options = Options { deployment: deployment.into(), runner, egress, bwrap: None, tools: None, user: USER };
    Namespace::open(data, options).unwrap()
}

/// The runner's program. Tests of this crate do not build another crate's programs, so that is done here, once.
pub(crate) fn runner() -> PathBuf {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    let build = || {
        // Test programs are one folder further down.
        let path = runner_beside().unwrap().parent().unwrap().with_file_name("sandlog-runner");
        if std::env::var_os("SANDLOG_TEST_ORDINARY").is_none() {
            let mut cargo = Command::new(env!("CARGO"));
            cargo
                .args(["build", "-q", "-p", "runner", "-p", "egress"])
                .args((!cfg!(debug_assertions)).then_some("--release"))
                .current_dir(env!("CARGO_MANIFEST_DIR"));
            assert!(cargo.status().unwrap().success());
        }
        path
    };
    BUILT.get_or_init(build).clone()
}

pub(crate) fn nothing() -> FillFn {
    Box::new(|_| Ok(()))
}

/// A shell script with small limits; `$0` is a word that no other process on the host has.
pub(crate) struct Script {
    pub(crate) marker: String,
    pub(crate) spec: SandboxSpec,
}

pub(crate) fn script(text: &str) -> Script {
    let marker = format!("marker-{}", Uuid::new_v4());
    let command = ["/bin/sh", "-c", text, &marker].map(String::from).to_vec();
    Script { spec: spec(command), marker }
}

pub(crate) fn spec(command: Vec<String>) -> SandboxSpec {
    SandboxSpec {
        command,
        env: Vec::new(),
        limits: Limits { memory: 512 << 20, cpus: 2.0, processes: 64, disk: 256 << 20, time: Duration::from_secs(60) },
        network: Network::None,
        dead_man: Duration::from_secs(60),
    }
}

/// All records that are left. Fails when they end without an exit record.
pub(crate) async fn rest(attached: &mut Attached) -> Vec<Record> {
    let mut records = Vec::new();
    let all = async {
        while let Some(next) = attached.records.recv().await {
            records.push(next.unwrap().0);
        }
    };
    tokio::time::timeout(Duration::from_secs(60), all).await.expect("the turn does not end");
    assert!(matches!(records.last(), Some(Record { body: Body::Exit(_), .. })), "no exit record: {records:?}");
    records
}

/// The next record.
pub(crate) async fn next(attached: &mut Attached) -> (Body, u64) {
    let next = tokio::time::timeout(Duration::from_secs(30), attached.records.recv()).await;
    let (record, end) = next.expect("nothing comes").expect("the records ended").unwrap();
    (record.body, end)
}

/// Waits for a line of standard output.
pub(crate) async fn until_line(attached: &mut Attached, line: &str) -> u64 {
    loop {
        let (body, end) = next(attached).await;
        match body {
            Body::Out { bytes, .. } if bytes == format!("{line}\n").as_bytes() => return end,
            Body::Exit(exit) => panic!("it ended before {line:?}: {exit:?}"),
            _ => {}
        }
    }
}

pub(crate) fn out(records: &[Record]) -> Vec<u8> {
    let bytes = records.iter().filter_map(|record| match &record.body {
        Body::Out { bytes, .. } => Some(bytes.as_slice()),
        _ => None,
    });
    bytes.collect::<Vec<_>>().concat()
}

pub(crate) fn out_text(records: &[Record]) -> String {
    String::from_utf8_lossy(&out(records)).into_owned()
}

pub(crate) fn exit(records: &[Record]) -> Exit {
    match records.last() {
        Some(Record { body: Body::Exit(exit), .. }) => exit.clone(),
        other => panic!("{other:?} is no exit record"),
    }
}

/// The host's processes.
pub(crate) fn pids() -> Vec<i32> {
    let entries = fs::read_dir("/proc").unwrap().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect()
}

pub(crate) fn cmdline(pid: i32) -> String {
    let bytes = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    String::from_utf8_lossy(&bytes).into_owned()
}

/// The host's processes that have a word in their command line or environment.
pub(crate) fn with_marker(marker: &str) -> Vec<i32> {
    let has = |pid: &i32| {
        let environ = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
        cmdline(*pid).contains(marker) || String::from_utf8_lossy(&environ).contains(marker)
    };
    pids().into_iter().filter(has).collect()
}

/// Waits for a condition, within a limit.
pub(crate) fn eventually(what: &str, mut condition: impl FnMut() -> bool) {
    let until = Instant::now() + Duration::from_secs(20);
    while !condition() {
        assert!(Instant::now() < until, "{what} did not come about");
        std::thread::sleep(Duration::from_millis(5));
    }
}

pub(crate) fn kill(pid: i32) {
    let pid = rustix::process::Pid::from_raw(pid).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
}
