//! The run's content: what the harness said, bounded.

/// Keeps the last `limit` bytes of what is pushed, on a character's boundary, and remembers that something was dropped.
#[derive(Clone, Debug)]
pub struct Content {
    text: String,
    limit: usize,
    truncated: bool,
}

impl Content {
    /// What a run keeps.
    pub const LIMIT: usize = 4 * 1024 * 1024;

    pub fn new(limit: usize) -> Self {
        Self { text: String::new(), limit, truncated: false }
    }

    pub fn push(&mut self, more: &str) {
        self.text.push_str(more);
        // Dropping moves what stays, so it is done only when there is twice as much.
        if self.text.len() > self.limit.saturating_mul(2) {
            self.trim();
        }
    }

    pub fn clear(&mut self) {
        self.text.clear();
        self.truncated = false;
    }

    pub fn take(mut self) -> (String, bool) {
        self.trim();
        (self.text, self.truncated)
    }

    fn trim(&mut self) {
        if self.text.len() > self.limit {
            let cut = self.text.ceil_char_boundary(self.text.len() - self.limit);
            self.text.drain(..cut);
            self.truncated = true;
        }
    }
}

impl Default for Content {
    fn default() -> Self {
        Self::new(Self::LIMIT)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn the_last_bytes_are_kept_however_they_come(parts in prop::collection::vec(".{0,9}", 0..40), limit in 1usize..60) {
            let mut content = Content::new(limit);
            parts.iter().for_each(|part| content.push(part));
            let all = parts.concat();
            let (kept, truncated) = content.take();
            prop_assert!(all.ends_with(&kept) && kept.len() <= limit);
            prop_assert_eq!(truncated, all.len() > limit);
            prop_assert!(truncated || kept == all);
            // No more is dropped than the boundary of one character asks for.
            prop_assert!(!truncated || kept.len() + 4 > limit);
        }
    }
}
