//! SIGINT and SIGTERM: the order to stop.

use std::io;

use tokio::signal::unix::{Signal, SignalKind, signal};

/// Both, from now on; the process no longer ends by them.
pub(crate) struct Orders {
    interrupt: Signal,
    terminate: Signal,
}

impl Orders {
    pub(crate) fn listen() -> io::Result<Orders> {
        Ok(Orders { interrupt: signal(SignalKind::interrupt())?, terminate: signal(SignalKind::terminate())? })
    }

    /// The next of them.
    pub(crate) async fn next(&mut self) {
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
        }
    }
}
