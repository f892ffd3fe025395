//! The data folder and the host's id in it: made once, the same for all who share the folder.

use std::fs::{self, File};
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};

use uuid::Uuid;

use crate::sandbox::SandboxError;

/// Makes what is missing; gives the folder of sandboxes, as an absolute path, and the host's id.
pub(super) fn open(data: &Path) -> Result<(PathBuf, String), SandboxError> {
    let named = |path: &Path| path.display().to_string();
    fs::create_dir_all(data).map_err(SandboxError::io(named(data)))?;
    let data = data.canonicalize().map_err(SandboxError::io(named(data)))?;
    let root = data.join("sandboxes");
    fs::create_dir_all(&root).map_err(SandboxError::io(named(&root)))?;
    let id = id(&data.join("host"), Uuid::new_v4()).map_err(SandboxError::io("the host's id"))?;
    Ok((root, id.to_string()))
}

/// Whether the data folder is this deployment's: it is the first one's that drives sandboxes in it. Two that share it would take each other's sandboxes for
/// leftovers.
pub fn belong(data: &Path, deployment: Uuid) -> Result<(), SandboxError> {
    let stands = id(&data.join("deployment"), deployment).map_err(SandboxError::io("the deployment's id"))?;
    if stands == deployment {
        return Ok(());
    }
    let data = data.display();
    Err(SandboxError::Unsupported(format!(
        "{data} has the sandboxes of another deployment (or of a database that is no more): use another folder, or remove this one when nothing runs in it"
    )))
}

/// A whole file appears under the name, or none: the first link wins, and all read what it made.
fn id(file: &Path, id: Uuid) -> std::io::Result<Uuid> {
    match fs::read_to_string(file) {
        Ok(text) => return Uuid::parse_str(text.trim()).map_err(std::io::Error::other),
        Err(error) if error.kind() == ErrorKind::NotFound => {}
        Err(error) => return Err(error),
    }
    let temp = file.with_file_name(format!(".new-{}", Uuid::new_v4()));
    let mut new = File::create_new(&temp)?;
    new.write_all(format!("{id}\n").as_bytes())?;
    new.sync_all()?;
    let linked = fs::hard_link(&temp, file);
    fs::remove_file(&temp)?;
    match linked {
        Err(error) if error.kind() != ErrorKind::AlreadyExists => return Err(error),
        _ => {}
    }
    if let Some(folder) = file.parent() {
        File::open(folder)?.sync_all()?;
    }
    let text = fs::read_to_string(file)?;
    Uuid::parse_str(text.trim()).map_err(std::io::Error::other)
}
