//! The journal's only writer.

use std::fs::File;
use std::io::{self, Write};

use runner::journal::{Body, Record, encode};

use super::clock;
use super::shared::Shared;

/// Appends records; what is put becomes visible at the next flush.
pub(super) struct Writer {
    file: File,
    buffer: Vec<u8>,
}

impl Writer {
    pub(super) fn new(file: File) -> Self {
        Self { file, buffer: Vec::new() }
    }

    pub(super) fn put(&mut self, body: Body) {
        encode(&Record { at_ms: clock::unix_ms(), body }, &mut self.buffer);
    }

    /// Writes what was put, then tells the visitors.
    pub(super) fn flush(&mut self, shared: &Shared) -> io::Result<()> {
        if self.buffer.is_empty() {
            return Ok(());
        }
        self.file.write_all(&self.buffer)?;
        shared.lock().end += self.buffer.len() as u64;
        shared.changed.notify_all();
        self.buffer.clear();
        // A burst does not stay in memory.
        self.buffer.shrink_to(1 << 20);
        Ok(())
    }

    /// The last record, on disk before it is told.
    pub(super) fn end(mut self, exit: runner::journal::Exit, shared: &Shared) -> io::Result<()> {
        self.flush(shared)?;
        self.put(Body::Exit(exit));
        // From here on nothing is punched out, so that the exit record can always be found.
        let mut state = shared.lock();
        self.file.write_all(&self.buffer)?;
        self.file.sync_data()?;
        state.end += self.buffer.len() as u64;
        state.ended = true;
        drop(state);
        shared.changed.notify_all();
        Ok(())
    }
}
