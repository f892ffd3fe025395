//! One of the harness's output streams, on its way into the journal.

use std::os::fd::OwnedFd;

use runner::journal::Body;

use super::lines::Lines;
use super::writer::Writer;

const CHUNK: usize = 64 * 1024;

/// A stream.
pub(super) struct Stream {
    from: Option<OwnedFd>,
    lines: Lines,
    body: fn(Vec<u8>, bool) -> Body,
}

impl Stream {
    pub(super) fn out(from: OwnedFd) -> Self {
        Self { from: Some(from), lines: Lines::default(), body: |bytes, end_of_line| Body::Out { bytes, end_of_line } }
    }

    pub(super) fn err(from: OwnedFd) -> Self {
        Self { from: Some(from), lines: Lines::default(), body: |bytes, end_of_line| Body::Err { bytes, end_of_line } }
    }

    /// The descriptor to wait for, until the stream has ended.
    pub(super) fn fd(&self) -> Option<&OwnedFd> {
        self.from.as_ref()
    }

    /// Takes what is there now, up to a chunk. False when nothing was.
    pub(super) fn take(&mut self, writer: &mut Writer) -> bool {
        let Some(from) = &self.from else { return false };
        let mut chunk = [0; CHUNK];
        match rustix::io::read(from, &mut chunk) {
            Ok(0) => self.from = None,
            Ok(n) => self.lines.push(&chunk[..n], |bytes, end| writer.put((self.body)(bytes, end))),
            Err(rustix::io::Errno::INTR) => {}
            Err(rustix::io::Errno::AGAIN) => return false,
            Err(_) => self.from = None,
        }
        true
    }

    /// No more comes: an unfinished line is one.
    pub(super) fn finish(&mut self, writer: &mut Writer) {
        self.from = None;
        self.lines.finish(|bytes, end| writer.put((self.body)(bytes, end)));
    }
}
