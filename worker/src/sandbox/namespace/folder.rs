//! A sandbox's folder, and what can be seen of it from outside.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use runner::tree::Tree;
use rustix::fs::FlockOperation;
use uuid::Uuid;

use super::connect::{Door, Visit};
use super::fence::Fence;
use super::{Inner, Paths, Place, SandboxError, Seen};

/// How long a tree may take to die.
pub(super) const TREE_LIMIT: Duration = Duration::from_secs(30);
/// How long a runner may be there without answering.
const DOOR_LIMIT: Duration = Duration::from_secs(5);
const MAX_NAME: usize = 100;

/// One sandbox's folder.
#[derive(Clone, Debug)]
pub(super) struct Folder {
    pub(super) session: PathBuf,
    pub(super) path: PathBuf,
    pub(super) place: Place,
}

/// What the lock and the journal's being there tell.
pub(super) enum Stands {
    Nothing,
    /// It was not finished: no runner, and none ever ran.
    HalfMade,
    Runner,
    /// A runner ran here and is gone.
    Dead,
}

impl Paths {
    pub(super) fn below(folder: &Path) -> Self {
        let at = |name: &str| folder.join(name);
        Self { folder: folder.to_owned(), workspace: at("workspace"), home: at("home"), files: at("files") }
    }
}

impl Folder {
    pub(super) fn new(root: &Path, place: &Place) -> Result<Self, SandboxError> {
        let of_name = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
        let name = &place.name;
        if name.is_empty() || name.len() > MAX_NAME || !name.chars().all(of_name) {
            return Err(SandboxError::SetUp(format!("{name:?} is no name for a sandbox")));
        }
        let session = root.join(place.session.to_string());
        Ok(Self { path: session.join(name), session, place: place.clone() })
    }

    /// Raises the session's fence and holds it.
    pub(super) fn fence(&self, epoch: u64) -> Result<Fence, SandboxError> {
        Fence::raise(&self.session, epoch)
    }

    pub(super) fn stands(&self) -> Result<Stands, SandboxError> {
        let failed = |error| SandboxError::io(self.path.display().to_string())(error);
        match self.runner_lives() {
            Ok(true) => return Ok(Stands::Runner),
            Ok(false) => {}
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Ok(if self.path.exists() { Stands::HalfMade } else { Stands::Nothing });
            }
            Err(error) => return Err(failed(error)),
        }
        // The runner makes it before it starts anything.
        let ran = self.path.join("journal").try_exists().map_err(failed)?;
        Ok(if ran { Stands::Dead } else { Stands::HalfMade })
    }

    /// Asked of its lock. Shared, so that two who ask do not take each other for it.
    pub(super) fn runner_lives(&self) -> io::Result<bool> {
        let lock = File::open(self.path.join("lock"))?;
        match rustix::fs::flock(&lock, FlockOperation::NonBlockingLockShared) {
            Ok(()) => Ok(false),
            Err(rustix::io::Errno::WOULDBLOCK) => Ok(true),
            Err(error) => Err(error.into()),
        }
    }

    /// Kills what a dead or silent runner left, and proves it gone.
    pub(super) fn end_tree(&self) -> Result<(), SandboxError> {
        let tree = Tree::read(&self.path).map_err(SandboxError::io("the process tree's file"))?;
        if tree.end(TREE_LIMIT) {
            return Ok(());
        }
        Err(SandboxError::Unreachable(format!("processes of {} do not die", self.place.name)))
    }
}

impl Inner {
    pub(super) fn door<'a>(&'a self, folder: &'a Folder, epoch: u64) -> Door<'a> {
        Door { folder: &folder.path, deployment: &self.deployment, epoch }
    }

    /// What stands there. For a dead runner its tree is proven gone before.
    pub(super) fn see(&self, folder: &Folder, epoch: u64) -> Result<Seen, SandboxError> {
        match self.visit(folder, epoch)? {
            Ok(visit) if visit.welcome.ended => Ok(Seen::Ended),
            Ok(_) => Ok(Seen::Live),
            Err(Stands::Dead) => {
                folder.end_tree()?;
                let journal = folder.path.join("journal");
                let ended = runner::journal::has_exit(&journal).map_err(SandboxError::io("the journal"))?;
                Ok(if ended { Seen::Ended } else { Seen::Lost })
            }
            Err(_) => Ok(Seen::Absent),
        }
    }

    /// Goes in at the door where a runner lives; otherwise says what stands there instead.
    pub(super) fn visit(&self, folder: &Folder, epoch: u64) -> Result<Result<Visit, Stands>, SandboxError> {
        let until = Instant::now() + DOOR_LIMIT;
        loop {
            match folder.stands()? {
                Stands::Runner => {}
                other => return Ok(Err(other)),
            }
            match self.door(folder, epoch).enter() {
                // It may be about to end: the lock tells at the next look.
                Err(SandboxError::Unreachable(_)) if Instant::now() < until => {
                    std::thread::sleep(Duration::from_millis(10));
                }
                other => return other.map(Ok),
            }
        }
    }
}

/// All places that have a folder.
pub(super) fn list(root: &Path) -> Result<Vec<Place>, SandboxError> {
    let failed = || SandboxError::io(root.display().to_string());
    let mut places = Vec::new();
    for session in names(root).map_err(failed())? {
        let Ok(id) = Uuid::parse_str(&session) else { continue };
        for name in names(&root.join(&session)).map_err(failed())? {
            places.push(Place { session: id, name });
        }
    }
    Ok(places)
}

/// The folders in a folder, but for those on their way in or out. One that goes away meanwhile has none.
pub(super) fn names(folder: &Path) -> io::Result<Vec<String>> {
    let entries = match fs::read_dir(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        other => other?,
    };
    let mut names = Vec::new();
    for entry in entries {
        let entry = entry?;
        if let Ok(name) = entry.file_name().into_string()
            && !name.starts_with('.')
            && entry.file_type().is_ok_and(|kind| kind.is_dir())
        {
            names.push(name);
        }
    }
    Ok(names)
}
