//! The last frames of one tailed run, for all its viewers.

use std::collections::VecDeque;

use crate::render::Chunk;

/// Chunks without gaps between them, the newest last: as many as fit, and the newest one however large it is, so that many viewers share it.
#[derive(Debug)]
pub(super) struct Ring {
    chunks: VecDeque<Chunk>,
    bytes: usize,
    limit: usize,
}

impl Ring {
    pub(super) fn new(limit: usize) -> Self {
        Self { chunks: VecDeque::new(), bytes: 0, limit }
    }

    pub(super) fn push(&mut self, chunk: Chunk) {
        if self.chunks.back().is_some_and(|last| last.next != chunk.first) {
            self.chunks.clear();
            self.bytes = 0;
        }
        self.bytes += chunk.text.len();
        self.chunks.push_back(chunk);
        while self.bytes > self.limit && self.chunks.len() > 1 {
            self.bytes -= self.chunks.pop_front().map_or(0, |old| old.text.len());
        }
    }

    /// The chunk that starts with `index`. A viewer that stands inside of one reads the log once, and stands at a start from then on.
    pub(super) fn get(&self, index: u32) -> Option<Chunk> {
        let at = self.chunks.partition_point(|chunk| chunk.first < index);
        self.chunks.get(at).filter(|chunk| chunk.first == index).cloned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_ring_holds_the_newest_chunks_within_its_limit(sizes in prop::collection::vec((1u32..5, 0usize..40), 1..40), limit in 1usize..100) {
            let (mut ring, mut all, mut index) = (Ring::new(limit), Vec::new(), 0);
            for (frames, bytes) in sizes {
                let chunk = Chunk { first: index, next: index + frames, terminal: false, text: vec![b'x'; bytes].into() };
                index += frames;
                ring.push(chunk.clone());
                all.push(chunk);
                let held: Vec<_> = all.iter().filter_map(|chunk| ring.get(chunk.first)).collect();
                prop_assert!(all.ends_with(&held) && !held.is_empty());
                let bytes: usize = held.iter().map(|chunk| chunk.text.len()).sum();
                prop_assert!(bytes <= limit || held.len() == 1);
                // No more is dropped than the limit asks for.
                let older = all.len().checked_sub(held.len() + 1).and_then(|at| all.get(at)).map_or(usize::MAX, |chunk| chunk.text.len());
                prop_assert!(bytes.saturating_add(older) > limit);
            }
        }
    }

    #[test]
    fn what_lies_before_a_gap_is_dropped() {
        let chunk = |first| Chunk { first, next: first + 1, terminal: false, text: "x".into() };
        let mut ring = Ring::new(100);
        ring.push(chunk(0));
        ring.push(chunk(5));
        assert!(ring.get(0).is_none() && ring.get(5).is_some());
    }
}
