//! Checkpoints as files in a folder that all workers of the deployment share.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use async_trait::async_trait;
use uuid::Uuid;

use super::{Checkpoints, pack};
use crate::harness::launch::KEEPS;
use crate::sandbox::Paths;

/// `ROOT/SESSION/NAME.tar.zst`; an id is the path below the root.
#[derive(Clone, Debug)]
pub struct Folder {
    root: PathBuf,
}

impl Folder {
    pub fn open(root: PathBuf) -> io::Result<Self> {
        fs::create_dir_all(&root)?;
        fs::set_permissions(&root, std::os::unix::fs::PermissionsExt::from_mode(0o700))?;
        Ok(Self { root })
    }

    /// The file of an id. Ids come from the log, yet none leads out of the root.
    fn file(&self, id: &str) -> io::Result<PathBuf> {
        let plain = |part: &str| part.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_.".contains(&b)) && !part.starts_with('.');
        match id.split_once('/') {
            Some((session, name)) if plain(session) && plain(name) && !name.contains('/') => Ok(self.root.join(session).join(name)),
            _ => Err(io::Error::new(io::ErrorKind::InvalidInput, format!("no checkpoint has the id {id:?}"))),
        }
    }
}

#[async_trait]
impl Checkpoints for Folder {
    async fn save(&self, session: Uuid, name: &str, sandbox: &Paths, keeps: &'static [&'static str]) -> io::Result<(String, u64)> {
        let id = format!("{session}/{name}.tar.zst");
        let (file, sandbox) = (self.file(&id)?, sandbox.folder.clone());
        let bytes = blocking(move || write(&file, &sandbox, keeps)).await?;
        Ok((id, bytes))
    }

    fn restore(&self, checkpoint: &str, sandbox: &Paths) -> io::Result<()> {
        let unread = |error: io::Error| {
            let text = format!("the checkpoint {checkpoint} cannot be read on this host: {error}. All workers need the same SANDLOG_CHECKPOINTS");
            io::Error::new(error.kind(), text)
        };
        pack::unpack(File::open(self.file(checkpoint)?).map_err(unread)?, &sandbox.folder, &parts(&KEEPS))
    }

    async fn keep_only(&self, session: Uuid, keep: &[&str]) -> io::Result<()> {
        let folder = self.root.join(session.to_string());
        let keep = keep.iter().map(|id| self.file(id)).collect::<io::Result<Vec<_>>>()?;
        blocking(move || {
            let entries = match fs::read_dir(&folder) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
                entries => entries?,
            };
            for entry in entries {
                let path = entry?.path();
                // What sorts behind is a later turn's: whoever tidies up late must not take it away.
                if !keep.contains(&path) && keep.iter().all(|kept| path < *kept) {
                    gone(fs::remove_file(path))?;
                }
            }
            if keep.is_empty() { gone(fs::remove_dir(&folder)) } else { Ok(()) }
        })
        .await
    }
}

/// What a checkpoint has of a sandbox's folder.
fn parts(keeps: &[&'static str]) -> Vec<&'static str> {
    ["workspace"].iter().chain(keeps).copied().collect()
}

/// Whole and durable under its name, or not there at all.
fn write(file: &Path, sandbox: &Path, keeps: &[&'static str]) -> io::Result<u64> {
    let folder = file.parent().unwrap_or_else(|| Path::new("."));
    fs::create_dir_all(folder)?;
    let part = file.with_extension(format!("part-{}", Uuid::new_v4().simple()));
    let written = (|| {
        let target = pack::pack(sandbox, &parts(keeps), File::create(&part)?)?;
        target.sync_all()?;
        let bytes = target.metadata()?.len();
        fs::rename(&part, file)?;
        File::open(folder)?.sync_all()?;
        Ok(bytes)
    })();
    if written.is_err() {
        // The error is what matters; the next checkpoint of the session removes what stays.
        let _ = fs::remove_file(&part);
    }
    written
}

fn gone(result: io::Result<()>) -> io::Result<()> {
    match result {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        other => other,
    }
}

async fn blocking<T: Send + 'static>(work: impl FnOnce() -> io::Result<T> + Send + 'static) -> io::Result<T> {
    tokio::task::spawn_blocking(work).await.map_err(io::Error::other)?
}
