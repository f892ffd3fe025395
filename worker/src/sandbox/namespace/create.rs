//! Making a sandbox: filled beside its place, moved there and started under the fence.

use std::ffi::OsStr;
use std::fs::{self, DirBuilder, File};
use std::io::{self, Write};
use std::os::fd::BorrowedFd;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use runner::spec::{Limits, Outside, Spec, User};
use rustix::fs::{AtFlags, FileType, FlockOperation, Gid, Mode, Uid};
use uuid::Uuid;

use super::erase::clear_leftovers;
use super::fence::Fence;
use super::folder::Folder;
use super::launch;
use super::{FillFn, Inner, Paths, Place, SandboxError, SandboxSpec, Seen};
use crate::folders::{self, Folders};
use crate::sandbox::Network;

/// Uncommitted journal is at most this.
const MAX_UNCOMMITTED: u64 = 16 << 20;

/// How long a runner may take to be ready. One that stands still holds the fence, and nobody else could begin.
const STARTING: Duration = Duration::from_secs(30);

/// A folder in the making. Its lock is held, so that nobody takes it for a leftover.
struct Making {
    path: PathBuf,
    _lock: File,
}

impl Inner {
    pub(super) fn create(&self, at: &Place, epoch: u64, spec: &SandboxSpec, fill: FillFn) -> Result<(), SandboxError> {
        check(spec)?;
        let folder = self.folder(at)?;
        let fence = folder.fence(epoch)?;
        if self.see(&folder, epoch)? != Seen::Absent {
            return Ok(());
        }
        if spec.network != Network::None {
            self.egress.ensure()?;
        }
        clear_leftovers(&folder.session);
        let making = Making::begin(&folder.session).map_err(SandboxError::io("a sandbox's folder"))?;
        // Filling takes its time, and others may want to look meanwhile.
        drop(fence);
        let made = self.fill(&making, at, epoch, spec, fill).and_then(|()| self.put(&folder, &making, epoch));
        drop(making);
        clear_leftovers(&folder.session);
        made
    }

    fn fill(&self, making: &Making, at: &Place, epoch: u64, spec: &SandboxSpec, fill: FillFn) -> Result<(), SandboxError> {
        let paths = Paths::below(&making.path);
        fill(&paths).map_err(SandboxError::io("the sandbox's files"))?;
        let failed = || SandboxError::io("a sandbox's folder");
        if let Some(user) = self.user {
            give(&paths.workspace, user).map_err(failed())?;
            give(&paths.home, user).map_err(failed())?;
        }
        show(&paths.files).map_err(failed())?;
        self.spec(at, spec).write(&making.path).map_err(failed())?;
        fs::write(making.path.join("epoch"), format!("{epoch}\n")).map_err(failed())
    }

    fn spec(&self, at: &Place, spec: &SandboxSpec) -> Spec {
        let ms = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        Spec {
            deployment: self.deployment.clone(),
            label: format!("{}_{}", at.session, at.name),
            command: spec.command.clone(),
            env: spec.env.clone(),
            cwd: "/workspace".to_owned(),
            limits: Limits {
                memory: spec.limits.memory,
                cpus: spec.limits.cpus,
                processes: spec.limits.processes,
                disk: spec.limits.disk,
                time_ms: ms(spec.limits.time),
            },
            user: self.user,
            outside: match &spec.network {
                Network::None => None,
                Network::Isolated { upstreams } => Some(Outside { egress: self.egress.folder.clone(), upstreams: upstreams.clone() }),
            },
            bwrap: self.capabilities.bwrap.display().to_string(),
            tools: self.tools.as_ref().map(|tools| tools.display().to_string()),
            dead_man_ms: ms(spec.dead_man),
            max_uncommitted: MAX_UNCOMMITTED,
        }
    }

    /// The one step that counts, under the fence: in its place, and its runner started. Whoever came first has won.
    fn put(&self, folder: &Folder, making: &Making, epoch: u64) -> Result<(), SandboxError> {
        let fence = folder.fence(epoch)?;
        if self.see(folder, epoch)? != Seen::Absent {
            return Ok(());
        }
        let failed = || SandboxError::io(folder.path.display().to_string());
        if folder.path.exists() {
            set_aside(&folder.path).map_err(failed())?;
        }
        fs::rename(&making.path, &folder.path).map_err(failed())?;
        // The runner takes it from here on.
        rustix::fs::flock(&making._lock, FlockOperation::Unlock).map_err(|e| failed()(e.into()))?;
        self.start(folder, &fence).inspect_err(|_| {
            // A runner that did not get as far as its journal counts as nothing anyway.
            let _ = set_aside(&folder.path);
        })
    }

    /// Returns once the runner holds its lock and listens. It shares the fence until then, also if we die.
    fn start(&self, folder: &Folder, fence: &Fence) -> Result<(), SandboxError> {
        let failed = || SandboxError::io(self.runner.display().to_string());
        let mut launcher = Command::new(&self.runner)
            // By which it can be told among all processes.
            .arg0("sandlog-runner")
            .arg("run")
            .arg(&folder.path)
            .env_clear()
            .current_dir("/")
            .stdin(fence.share().map_err(failed())?)
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(failed())?;
        // The runner has it too until it is ready, so its end says that one of both is there.
        let said = launcher.stderr.take().map(|stderr| launch::hear(stderr, STARTING)).transpose();
        if !matches!(said, Ok(Some(Some(_)))) {
            launch::end(&folder.path);
            // It may have ended by itself.
            let _ = launcher.kill();
        }
        let status = launcher.wait().map_err(failed())?;
        match said.map_err(failed())?.flatten() {
            Some(_) if status.success() => Ok(()),
            Some(said) => Err(SandboxError::SetUp(String::from_utf8_lossy(&said).trim().to_owned())),
            None => Err(SandboxError::SetUp(format!("its runner was not ready within {STARTING:?}"))),
        }
    }
}

impl Making {
    /// Under the fence, so that nobody clears it away before its lock is held.
    fn begin(session: &Path) -> io::Result<Self> {
        let path = session.join(format!(".new-{}", Uuid::new_v4()));
        DirBuilder::new().mode(0o700).create(&path)?;
        let mut lock = File::create_new(path.join("lock"))?;
        lock.flush()?;
        rustix::fs::flock(&lock, FlockOperation::NonBlockingLockExclusive)?;
        for (name, mode) in [("workspace", 0o700), ("home", 0o700), ("files", 0o755)] {
            DirBuilder::new().mode(mode).create(path.join(name))?;
        }
        Ok(Self { path, _lock: lock })
    }
}

/// What no system call can take. Trying again would not help.
fn check(spec: &SandboxSpec) -> Result<(), SandboxError> {
    let bad_name = |name: &str| name.is_empty() || name.contains(['=', '\0']);
    if spec.command.iter().any(|argument| argument.contains('\0')) {
        return Err(SandboxError::Unsupported("a command cannot hold a NUL".into()));
    }
    match spec.env.iter().find(|(name, value)| bad_name(name) || value.contains('\0')) {
        Some((name, _)) => Err(SandboxError::Unsupported(format!("the variable {name:?} cannot be set"))),
        None => Ok(()),
    }
}

/// Out of the way, to be removed when there is time.
pub(super) fn set_aside(path: &Path) -> io::Result<()> {
    fs::rename(path, path.with_file_name(format!(".old-{}", Uuid::new_v4())))
}

/// Gives all below to the sandbox's user. No link is followed.
fn give(path: &Path, user: User) -> io::Result<()> {
    let (uid, gid) = (Uid::from_raw(user.uid), Gid::from_raw(user.gid));
    std::os::unix::fs::lchown(path, Some(user.uid), Some(user.gid))?;
    each_below(path, |folder, name, _| rustix::fs::chownat(folder, name, Some(uid), Some(gid), AtFlags::SYMLINK_NOFOLLOW))
}

/// Lets the sandbox's user read all below. It is bound read-only.
fn show(path: &Path) -> io::Result<()> {
    fs::set_permissions(path, fs::Permissions::from_mode(0o755))?;
    each_below(path, |folder, name, kind| match kind {
        FileType::Directory => rustix::fs::chmodat(folder, name, Mode::from_raw_mode(0o755), AtFlags::empty()),
        FileType::RegularFile => rustix::fs::chmodat(folder, name, Mode::from_raw_mode(0o644), AtFlags::empty()),
        _ => Ok(()),
    })
}

/// Does something to everything below a folder, before what is below that.
fn each_below(root: &Path, act: impl Fn(BorrowedFd<'_>, &OsStr, FileType) -> rustix::io::Result<()>) -> io::Result<()> {
    let mut folders = Folders::below(root)?;
    let mut waiting = vec![PathBuf::new()];
    while let Some(path) = waiting.pop() {
        let folder = folders.at(&path)?;
        for name in folders::names(folder)? {
            let kind = FileType::from_raw_mode(rustix::fs::statat(folder, &name, AtFlags::SYMLINK_NOFOLLOW)?.st_mode);
            act(folder, &name, kind)?;
            if kind == FileType::Directory {
                waiting.push(path.join(name));
            }
        }
    }
    Ok(())
}
