//! A second process of this program, without starting the program again: that costs a millisecond of processor, most of it the dynamic linker's.
//!
//! A child has all that its parent had open. What it must not hold it lets go of itself, since there is no exec that would.

use std::io;
use std::process::ExitCode;

use rustix::process::Pid;

/// Which of the two a process is.
pub(crate) enum Side {
    /// It ends by [`end`] or becomes another program; nothing that comes after in its parent is for it.
    Child,
    Parent(Pid),
}

/// Only for a process of one thread: what another one had locked would stay locked in the child for ever.
pub(crate) fn fork() -> io::Result<Side> {
    debug_assert_eq!(std::fs::read_dir("/proc/self/task").map_or(1, Iterator::count), 1, "a fork beside other threads");
    // SAFETY: the process has one thread, so that the child finds all memory as this thread left it.
    match unsafe { libc::fork() } {
        -1 => Err(io::Error::last_os_error()),
        0 => Ok(Side::Child),
        pid => Pid::from_raw(pid).map(Side::Parent).ok_or_else(|| io::Error::other("no pid")),
    }
}

/// A child's end, with what it has to say on its standard error.
pub(crate) fn end(done: io::Result<()>) -> ! {
    std::process::exit(i32::from(crate::ended(done) != ExitCode::SUCCESS))
}
