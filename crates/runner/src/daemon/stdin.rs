//! The harness's standard input: fed from the inbox without ever waiting.

use std::os::fd::OwnedFd;

use super::shared::Shared;

/// The write end, until it is closed.
pub(super) struct Stdin {
    to: Option<OwnedFd>,
    /// The line under way, how much of it is written, and whether it is the last.
    line: Option<(Vec<u8>, usize, bool)>,
}

impl Stdin {
    pub(super) fn new(to: OwnedFd) -> Self {
        Self { to: Some(to), line: None }
    }

    /// The descriptor to wait for, if something waits to be written.
    pub(super) fn waiting(&mut self, shared: &Shared) -> Option<&OwnedFd> {
        if self.line.is_none() {
            self.line = shared.lock().input.pop_front().map(|(bytes, end)| (bytes, 0, end));
        }
        self.line.as_ref()?;
        self.to.as_ref()
    }

    /// Writes what goes in now. A harness that closed its input loses the rest.
    pub(super) fn feed(&mut self, shared: &Shared) {
        while self.waiting(shared).is_some() && self.feed_line() {}
    }

    /// True when the line is done.
    fn feed_line(&mut self) -> bool {
        let Some((bytes, done, end)) = &mut self.line else {
            return false;
        };
        let Some(to) = &self.to else { return false };
        while *done < bytes.len() {
            match rustix::io::write(to, &bytes[*done..]) {
                Ok(n) => *done += n,
                Err(rustix::io::Errno::INTR) => {}
                Err(rustix::io::Errno::AGAIN) => return false,
                Err(_) => {
                    self.to = None;
                    self.line = None;
                    return false;
                }
            }
        }
        if *end {
            self.to = None;
        }
        self.line = None;
        true
    }
}
