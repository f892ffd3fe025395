//! Descriptors by number: those that this program was started with. The only place that trusts a number.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::path::Path;

use rustix::fs::{Mode, OFlags};
use rustix::io::FdFlags;

/// Takes the descriptor that the stage before handed on under this number.
pub(crate) fn take(number: RawFd) -> OwnedFd {
    // SAFETY: each stage takes a number that the stage before names for it once, before it opens anything itself.
    unsafe { OwnedFd::from_raw_fd(number) }
}

/// Closes all but the first three and these. In a fork: whatever has one of the others must not be dropped any more, and its process ends without that.
pub(crate) fn close_others(kept: &[RawFd]) -> io::Result<()> {
    let is_other = |number: &RawFd| *number > 2 && !kept.contains(number);
    let open: Vec<RawFd> =
        std::fs::read_dir("/proc/self/fd")?.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok()).filter(is_other).collect();
    for number in open {
        // SAFETY: borrowed for one call. The listing's own number is closed by now, which that call tells.
        let is_open = rustix::io::fcntl_getfd(unsafe { BorrowedFd::borrow_raw(number) }).is_ok();
        if is_open {
            drop(take(number));
        }
    }
    Ok(())
}

/// Lets go of standard input and output.
pub(crate) fn let_go() -> io::Result<()> {
    let null = rustix::fs::open("/dev/null", OFlags::RDWR | OFlags::CLOEXEC, Mode::empty())?;
    rustix::stdio::dup2_stdin(&null)?;
    Ok(rustix::stdio::dup2_stdout(&null)?)
}

/// Faults go to a file from now on.
pub(crate) fn complain_to(log: &Path) -> io::Result<()> {
    let log = rustix::fs::open(log, OFlags::WRONLY | OFlags::CREATE | OFlags::APPEND | OFlags::CLOEXEC, Mode::from_raw_mode(0o600))?;
    Ok(rustix::stdio::dup2_stderr(&log)?)
}

/// Lets a descriptor live on over exec.
pub(crate) fn keep(fd: impl AsFd) -> io::Result<()> {
    Ok(rustix::io::fcntl_setfd(fd, FdFlags::empty())?)
}

/// Ends a descriptor's life at exec.
pub(crate) fn drop_at_exec(fd: impl AsFd) -> io::Result<()> {
    Ok(rustix::io::fcntl_setfd(fd, FdFlags::CLOEXEC)?)
}
