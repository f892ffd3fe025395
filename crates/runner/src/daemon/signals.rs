//! A runner outlives whoever started it: the signals that end programs do nothing here.

use std::io;

/// A handler that does nothing rather than "ignore": what is ignored stays ignored over exec, and the harness must be able to die of these.
pub(super) fn outlive() -> io::Result<()> {
    extern "C" fn nothing(_: libc::c_int) {}
    let handler = nothing as extern "C" fn(libc::c_int);
    for signal in [libc::SIGINT, libc::SIGTERM, libc::SIGHUP, libc::SIGQUIT, libc::SIGUSR1, libc::SIGUSR2] {
        // SAFETY: the handler does nothing, so it is safe at any point of any thread.
        if unsafe { libc::signal(signal, handler as libc::sighandler_t) } == libc::SIG_ERR {
            return Err(io::Error::last_os_error());
        }
    }
    Ok(())
}
