//! Sandboxes in namespaces of this host, each supervised by a runner.
//!
//! Nothing is remembered here: what stands is read from the data folder each time, under the session's fence where it matters. So any number of workers can
//! share the folder, and any of them can die at any point.

mod attach;
mod connect;
mod create;
mod egress;
mod end;
mod erase;
mod fence;
mod folder;
mod host;
mod launch;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use runner::probe::Capabilities;
use runner::spec::User;
use uuid::Uuid;

use super::{Attached, FillFn, Paths, Place, SandboxError, SandboxSpec, Sandboxes, Seen};
use egress::Egress;
use folder::Folder;
pub use host::belong;

/// The user that sandboxes run under when the worker is root: kept for that, and nobody's.
pub const USER: User = User { uid: 61_100, gid: 61_100 };

/// How to open a [`Namespace`].
#[derive(Clone, Debug)]
pub struct Options {
    /// Runners of other deployments refuse us, and we them.
    pub deployment: String,
    /// The program `sandlog-runner`; see [`runner_beside`].
    pub runner: PathBuf,
    /// The program `sandlog-egress`; see [`egress_beside`]. Needed for sandboxes that reach something.
    pub egress: PathBuf,
    /// Bubblewrap; `None`: the one in `PATH`.
    pub bwrap: Option<PathBuf>,
    /// A folder of programs that sandboxes see read-only, with its `bin` first in `PATH`. Their user must be able to read it.
    pub tools: Option<PathBuf>,
    /// Whom sandboxes run as when this process is root. Ignored otherwise: then they run as this process's user.
    pub user: User,
}

/// The back end.
#[derive(Clone, Debug)]
pub struct Namespace {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    /// `DATA/sandboxes`.
    root: PathBuf,
    host: String,
    deployment: String,
    runner: PathBuf,
    tools: Option<PathBuf>,
    egress: Egress,
    user: Option<User>,
    capabilities: Capabilities,
}

/// `sandlog-runner` in the folder of the running program.
pub fn runner_beside() -> std::io::Result<PathBuf> {
    Ok(std::env::current_exe()?.with_file_name("sandlog-runner"))
}

/// `sandlog-egress` in the folder of the running program.
pub fn egress_beside() -> std::io::Result<PathBuf> {
    Ok(std::env::current_exe()?.with_file_name("sandlog-egress"))
}

impl Namespace {
    /// Opens the data folder, and proves by making one that sandboxes can be made. It may block for a moment.
    pub fn open(data: &Path, options: Options) -> Result<Self, SandboxError> {
        let root = rustix::process::geteuid().is_root();
        let user = root.then_some(options.user);
        if user.is_some_and(|user| user.uid == 0 || user.gid == 0) {
            return Err(SandboxError::Unsupported("a sandbox's user cannot be root".into()));
        }
        if !options.runner.is_file() {
            let at = options.runner.display();
            return Err(SandboxError::Unsupported(format!("the program sandlog-runner is not at {at}")));
        }
        let tools = options.tools.map(|tools| tools.canonicalize().map_err(SandboxError::io(tools.display().to_string()))).transpose()?;
        if tools.as_ref().is_some_and(|tools| !tools.is_dir()) {
            return Err(SandboxError::Unsupported("the tools for sandboxes are no folder".into()));
        }
        let capabilities = runner::probe::probe(options.bwrap.as_deref(), user).map_err(SandboxError::Unsupported)?;
        let (root, host) = host::open(data)?;
        let Options { deployment, runner, egress, .. } = options;
        let egress = Egress::new(egress, root.with_file_name("egress"));
        let inner = Inner { root, host, deployment, runner, tools, egress, user, capabilities };
        Ok(Self { inner: Arc::new(inner) })
    }

    /// What sandboxes on this host have; to be told at start.
    pub fn capabilities(&self) -> &Capabilities {
        &self.inner.capabilities
    }

    /// All of it is files, locks and waiting: off the async threads.
    async fn blocking<T: Send + 'static>(&self, work: impl FnOnce(&Inner) -> Result<T, SandboxError> + Send + 'static) -> Result<T, SandboxError> {
        let inner = Arc::clone(&self.inner);
        let done = tokio::task::spawn_blocking(move || work(&inner)).await;
        done.unwrap_or_else(|error| Err(SandboxError::Unreachable(error.to_string())))
    }
}

impl Inner {
    fn folder(&self, at: &Place) -> Result<Folder, SandboxError> {
        Folder::new(&self.root, at)
    }
}

#[async_trait]
impl Sandboxes for Namespace {
    fn kind(&self) -> &'static str {
        "namespace"
    }

    fn host(&self) -> &str {
        &self.inner.host
    }

    async fn look(&self, at: &Place, epoch: u64) -> Result<Seen, SandboxError> {
        let at = at.clone();
        self.blocking(move |inner| {
            let folder = inner.folder(&at)?;
            let _fence = folder.fence(epoch)?;
            inner.see(&folder, epoch)
        })
        .await
    }

    async fn create(&self, at: &Place, epoch: u64, spec: &SandboxSpec, fill: FillFn) -> Result<(), SandboxError> {
        let (at, spec) = (at.clone(), spec.clone());
        self.blocking(move |inner| inner.create(&at, epoch, &spec, fill)).await
    }

    async fn attach(&self, at: &Place, epoch: u64, offset: u64) -> Result<Attached, SandboxError> {
        let at = at.clone();
        let source = self.blocking(move |inner| inner.source(&at, epoch, offset)).await?;
        source.attach(offset, Arc::clone(&self.inner))
    }

    async fn paths(&self, at: &Place) -> Paths {
        Paths::below(&self.inner.root.join(at.session.to_string()).join(&at.name))
    }

    async fn stop(&self, at: &Place, epoch: u64, reason: &str, grace: Duration) -> Result<(), SandboxError> {
        let (at, reason) = (at.clone(), reason.to_owned());
        self.blocking(move |inner| inner.stop(&inner.folder(&at)?, epoch, &reason, grace)).await
    }

    async fn remove(&self, at: &Place, epoch: u64) -> Result<(), SandboxError> {
        let at = at.clone();
        self.blocking(move |inner| inner.remove(&inner.folder(&at)?, epoch)).await
    }

    async fn list(&self) -> Result<Vec<Place>, SandboxError> {
        self.blocking(|inner| folder::list(&inner.root)).await
    }

    async fn sweep(&self, at: &Place) -> Result<(), SandboxError> {
        let at = at.clone();
        self.blocking(move |inner| {
            let folder = inner.folder(&at)?;
            inner.remove(&folder, fence::Fence::stands(&folder.session)?)
        })
        .await
    }

    async fn retire(&self, at: &Place) -> Result<(), SandboxError> {
        let at = at.clone();
        self.blocking(move |inner| {
            let folder = inner.folder(&at)?;
            let epoch = fence::Fence::stands(&folder.session)?;
            match inner.see(&folder, epoch) {
                Ok(Seen::Ended) => inner.dismiss(&folder, epoch),
                _ => inner.remove(&folder, epoch),
            }
        })
        .await
    }

    async fn erase(&self, session: Uuid) -> Result<(), SandboxError> {
        self.blocking(move |inner| inner.erase(session)).await
    }

    async fn close(&self) -> Result<(), SandboxError> {
        self.blocking(|inner| inner.egress.end()).await
    }
}
