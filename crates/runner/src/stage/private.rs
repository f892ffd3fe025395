//! For a runner that is root: a mount namespace of its own, in which the sandbox's folders stand where another user can reach them.
//!
//! A user kept for sandboxes cannot enter what lies below a 0700 folder, neither by path nor by descriptor. So the folders are bound below a fresh `/tmp`
//! that only this namespace has; nothing is left anywhere when it ends.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags};
use rustix::mount::{MountFlags, MountPropagationFlags};
use rustix::thread::UnshareFlags;

use super::Sources;

const PLACE: &str = "/tmp";

pub(super) fn mount(folder: &Path, tools: Option<PathBuf>) -> io::Result<Sources> {
    // SAFETY: unsafe for what it can do to descriptors that other threads share; this asks for a mount namespace, in a program of one thread.
    unsafe { rustix::thread::unshare_unsafe(UnshareFlags::NEWNS)? };
    let private = MountPropagationFlags::PRIVATE | MountPropagationFlags::REC;
    rustix::mount::mount_change("/", private)?;

    // Opened in the new namespace, and before the folder may be hidden below the new `/tmp`.
    let from = Sources::below(folder, tools);
    let mut handles = vec![open(&from.workspace)?, open(&from.home)?, open(&from.files)?];
    if let Some(tools) = &from.tools {
        handles.push(open(tools)?);
    }
    rustix::mount::mount("tmpfs", PLACE, "tmpfs", MountFlags::NOSUID | MountFlags::NODEV, c"mode=755,size=1m")?;
    let to = Sources::below(Path::new(PLACE), from.tools.map(|_| Path::new(PLACE).join("tools")));
    let places = [&to.workspace, &to.home, &to.files].into_iter().chain(&to.tools);
    for (handle, to) in handles.iter().zip(places) {
        std::fs::create_dir(to)?;
        rustix::mount::mount_bind(format!("/proc/self/fd/{}", handle.as_raw_fd()), to)?;
    }
    Ok(to)
}

fn open(folder: &Path) -> io::Result<OwnedFd> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    rustix::fs::open(folder, flags, Mode::empty()).map_err(|error| io::Error::other(format!("{}: {error}", folder.display())))
}
