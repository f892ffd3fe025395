//! Who has a data folder's stack: DATA/up.lock, flocked by the process that has it, and DATA/up.json, where it serves.
//!
//! The lock alone decides; the file is a hint that a killed process leaves behind.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock};
use serde::{Deserialize, Serialize};

/// The folder is ours until this is dropped.
#[derive(Debug)]
pub(crate) struct Held {
    announced: PathBuf,
    // Dropped last: the file goes before the lock.
    _lock: File,
}

#[derive(Debug, Serialize, Deserialize)]
struct Announcement {
    url: String,
    pid: u32,
}

/// Takes the folder, or says by `None` that another process has it.
pub(crate) fn hold(data: &Path) -> io::Result<Option<Held>> {
    fs::create_dir_all(data)?;
    let lock = File::options().create(true).append(true).open(data.join("up.lock"))?;
    match flock(&lock, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => {}
        Err(rustix::io::Errno::WOULDBLOCK) => return Ok(None),
        Err(cause) => return Err(cause.into()),
    }
    let held = Held { announced: file(data), _lock: lock };
    held.withdraw();
    Ok(Some(held))
}

/// Where the process that has the folder says it serves.
pub(crate) fn announced(data: &Path) -> Option<String> {
    let text = fs::read(file(data)).ok()?;
    Some(serde_json::from_slice::<Announcement>(&text).ok()?.url)
}

fn file(data: &Path) -> PathBuf {
    data.join("up.json")
}

impl Held {
    /// Tells others in this folder that they may submit here.
    pub(crate) fn announce(&self, url: &str) -> io::Result<()> {
        let draft = self.announced.with_extension("json.new");
        fs::write(&draft, serde_json::to_vec(&Announcement { url: url.to_owned(), pid: std::process::id() })?)?;
        fs::rename(draft, &self.announced)
    }

    fn withdraw(&self) {
        // What cannot be removed is not believed either: nobody answers there.
        let _ = fs::remove_file(&self.announced);
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.withdraw();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_has_one_holder_and_its_announcement_goes_with_it() {
        let data = tempfile::tempdir().expect("a folder");
        let held = hold(data.path()).expect("no fault").expect("the folder");
        held.announce("http://127.0.0.1:1").expect("no fault");
        assert_eq!(announced(data.path()).as_deref(), Some("http://127.0.0.1:1"));
        assert!(hold(data.path()).expect("no fault").is_none());
        drop(held);
        assert_eq!(announced(data.path()), None);
        assert!(hold(data.path()).expect("no fault").is_some());
    }

    #[test]
    fn what_a_killed_process_announced_is_not_believed_by_the_next_holder() {
        let data = tempfile::tempdir().expect("a folder");
        fs::write(file(data.path()), br#"{"url":"http://127.0.0.1:1","pid":1}"#).expect("a file");
        let _held = hold(data.path()).expect("no fault").expect("the folder");
        assert_eq!(announced(data.path()), None);
    }
}
