//! Bytes to lines. Pure.

use runner::journal::PIECE;

/// One stream's unfinished line.
#[derive(Debug, Default)]
pub(super) struct Lines {
    held: Vec<u8>,
}

impl Lines {
    /// Takes bytes; gives each line with its newline (`true`), and full pieces of longer ones (`false`).
    pub(super) fn push(&mut self, mut bytes: &[u8], mut emit: impl FnMut(Vec<u8>, bool)) {
        while !bytes.is_empty() {
            let room = PIECE - self.held.len();
            let newline = bytes.iter().take(room).position(|byte| *byte == b'\n');
            let take = newline.map_or_else(|| room.min(bytes.len()), |at| at + 1);
            self.held.extend_from_slice(&bytes[..take]);
            bytes = &bytes[take..];
            if newline.is_some() || self.held.len() == PIECE {
                emit(std::mem::take(&mut self.held), newline.is_some());
            }
        }
    }

    /// The end of the stream: what has no newline comes as it is.
    pub(super) fn finish(&mut self, mut emit: impl FnMut(Vec<u8>, bool)) {
        if !self.held.is_empty() {
            emit(std::mem::take(&mut self.held), false);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn split(chunks: &[&[u8]]) -> Vec<(Vec<u8>, bool)> {
        let (mut lines, mut got) = (Lines::default(), Vec::new());
        for chunk in chunks {
            lines.push(chunk, |bytes, end| got.push((bytes, end)));
        }
        lines.finish(|bytes, end| got.push((bytes, end)));
        got
    }

    #[test]
    fn chunks_do_not_show() {
        let whole = split(&[b"a\n\nbc\0\xff\nd"]);
        let expected: [(&[u8], bool); 4] = [(b"a\n", true), (b"\n", true), (b"bc\0\xff\n", true), (b"d", false)];
        assert_eq!(whole.len(), 4);
        for (got, want) in whole.iter().zip(expected) {
            assert_eq!((got.0.as_slice(), got.1), want);
        }
        assert_eq!(split(&[b"a", b"\n\nb", b"c\0", b"\xff", b"\nd"]), whole);
    }

    #[test]
    fn a_long_line_comes_in_pieces() {
        let mut long = vec![b'x'; 2 * PIECE + 5];
        long.push(b'\n');
        let got = split(&[&long]);
        let shape: Vec<_> = got.iter().map(|(bytes, end)| (bytes.len(), *end)).collect();
        assert_eq!(shape, [(PIECE, false), (PIECE, false), (6, true)]);
    }

    #[test]
    fn a_newline_right_after_a_full_piece_ends_the_line() {
        let mut long = vec![b'x'; PIECE];
        long.push(b'\n');
        let shape: Vec<_> = split(&[&long]).iter().map(|(b, end)| (b.len(), *end)).collect();
        assert_eq!(shape, [(PIECE, false), (1, true)]);
    }
}
