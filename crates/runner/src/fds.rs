//! Descriptors by number: those that this program was started with. The only place that trusts a number.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};

use rustix::io::FdFlags;

/// Takes the descriptor that the stage before handed on under this number.
pub(crate) fn take(number: RawFd) -> OwnedFd {
    // SAFETY: each stage takes a number that the stage before names for it once, before it opens anything itself.
    unsafe { OwnedFd::from_raw_fd(number) }
}

/// Lets none but the first three live on over exec.
pub(crate) fn drop_others_at_exec() -> io::Result<()> {
    let open: Vec<RawFd> =
        std::fs::read_dir("/proc/self/fd")?.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok()).filter(|number| *number > 2).collect();
    for number in open {
        // SAFETY: borrowed for one call that changes a flag. The listing's own number is closed by now, which that call answers with an error.
        let fd = unsafe { BorrowedFd::borrow_raw(number) };
        let _ = rustix::io::fcntl_setfd(fd, FdFlags::CLOEXEC);
    }
    Ok(())
}

/// Lets a descriptor live on over exec.
pub(crate) fn keep(fd: impl AsFd) -> io::Result<()> {
    Ok(rustix::io::fcntl_setfd(fd, FdFlags::empty())?)
}

/// Ends a descriptor's life at exec.
pub(crate) fn drop_at_exec(fd: impl AsFd) -> io::Result<()> {
    Ok(rustix::io::fcntl_setfd(fd, FdFlags::CLOEXEC)?)
}
