//! The record of one request in the making. It is handed over exactly once, at the answer's end or when it is dropped before.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use runner::journal::Door;

use crate::usage::Usage;

const LONGEST_PATH: usize = 512;
const LONGEST_METHOD: usize = 32;

/// Records of a connection that are to be sent.
#[derive(Clone, Default)]
pub(crate) struct Records(Arc<Mutex<VecDeque<Door>>>);

impl Records {
    pub(crate) fn next(&self) -> Option<Door> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).pop_front()
    }

    fn push(&self, door: Door) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push_back(door);
    }
}

/// What is known of a request so far.
pub(crate) struct Note {
    pub(crate) door: Door,
    pub(crate) usage: Usage,
    /// Bytes of its body that went out.
    pub(crate) sent: Arc<AtomicU64>,
    since: Instant,
    to: Records,
    done: bool,
}

impl Note {
    pub(crate) fn new(to: Records, upstream: &str, method: &str, path: &str) -> Self {
        let cut = |text: &str, most: usize| text[..text.floor_char_boundary(most)].to_owned();
        let door =
            Door { upstream: cut(upstream, LONGEST_METHOD), method: cut(method, LONGEST_METHOD), path: cut(path, LONGEST_PATH), ..Door::default() };
        Self { door, usage: Usage::default(), sent: Arc::default(), since: Instant::now(), to, done: false }
    }

    /// Bytes of the answer.
    pub(crate) fn came(&mut self, bytes: &[u8]) {
        self.door.response_bytes += bytes.len() as u64;
        self.usage.feed(bytes);
    }

    /// The request is over: nothing that comes later is noted.
    pub(crate) fn finish(&mut self) {
        if std::mem::replace(&mut self.done, true) {
            return;
        }
        let mut door = std::mem::take(&mut self.door);
        door.request_bytes = self.sent.load(Ordering::Relaxed);
        (door.input_tokens, door.output_tokens) = (self.usage.input, self.usage.output);
        door.ms = u64::try_from(self.since.elapsed().as_millis()).unwrap_or(u64::MAX);
        self.to.push(door);
    }
}

impl Drop for Note {
    /// Nobody waits for the end any more.
    fn drop(&mut self) {
        if !self.done {
            self.door.left = true;
            self.finish();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_is_recorded_once_and_what_is_dropped_was_left() {
        let records = Records::default();
        let mut note = Note::new(records.clone(), "u", "GET", &"ü".repeat(1000));
        note.finish();
        note.finish();
        drop(note);
        let door = records.next().unwrap();
        assert_eq!((door.left, door.path.len()), (false, 512));
        assert_eq!(records.next(), None);
        drop(Note::new(records.clone(), "u", "GET", "/"));
        assert!(records.next().unwrap().left);
    }
}
