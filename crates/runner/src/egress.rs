//! What is said at egress's door, a unix socket in its folder: the only way out of a sandbox whose network is isolated.
//!
//! The client says one line of JSON ([`Hello`]). After [`To::Join`] the client's direction is the raw bytes of one connection of the sandbox, and egress
//! answers in [`Piece`]s: `[kind u8][length u32 little-endian][payload]`, of which the first is [`Piece::Welcome`]. A request's record goes before the last byte of its answer, so whoever
//! has seen an answer's end finds its record written. [`Piece::End`] is the last; a connection that ends without it is one that egress did not live to end.
//! After [`To::Stay`] nothing more is said: egress does not end while the connection lasts. To an order egress answers one line ([`Answer`]).

use std::io::{self, Read};

use serde::{Deserialize, Serialize};

use crate::journal::Door;

/// The version of what is said.
pub const PROTOCOL: u32 = 1;
/// The socket's name, in egress's folder.
pub const DOOR: &str = "door";
/// The longest line of JSON that is read.
pub const MAX_LINE: u64 = 16 * 1024;
/// The longest payload of a piece.
pub const MAX_PIECE: usize = 64 * 1024;
/// Where the sandbox finds it.
pub const PORT: u16 = 8787;

/// The client's first line.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hello {
    /// [`PROTOCOL`].
    pub protocol: u32,
    /// For people: whose sandbox it is.
    #[serde(default)]
    pub deployment: String,
    /// For people: which one, by session, run and attempt.
    #[serde(default)]
    pub sandbox: String,
    /// What the client wants.
    pub to: To,
}

/// What a client wants.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum To {
    /// One connection of a sandbox.
    Join {
        /// The upstreams that it may use, by name.
        upstreams: Vec<String>,
    },
    /// A sandbox stands that may want to join later.
    Stay,
    /// Make way for one with other settings, unless somebody stays.
    Replace {
        /// What tells settings apart.
        settings: String,
    },
    /// End, unless somebody stays.
    End,
}

/// What egress answers to an order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Answer {
    /// These are its settings.
    Same,
    /// Somebody stays.
    Busy,
    /// It ends.
    Ends,
    /// It speaks another protocol.
    Refused,
}

/// A piece of egress's side of a joined connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Piece {
    /// Go on: egress is there and takes the connection.
    Welcome,
    /// Bytes for the sandbox.
    Data(Vec<u8>),
    /// A request is over.
    Record(Box<Door>),
    /// Nothing more comes.
    End,
}

const DATA: u8 = 0;
const RECORD: u8 = 1;
const END: u8 = 2;
const WELCOME: u8 = 3;
const HEAD: usize = 5;

/// Appends a piece of data, of as many of the bytes as fit in one; gives how many those are.
pub fn put_data(bytes: &[u8], to: &mut Vec<u8>) -> usize {
    let taken = bytes.len().min(MAX_PIECE);
    put(DATA, &bytes[..taken], to);
    taken
}

/// Appends a record.
pub fn put_record(door: &Door, to: &mut Vec<u8>) {
    // A struct of plain fields always serialises.
    put(RECORD, &serde_json::to_vec(door).unwrap_or_default(), to);
}

/// Appends the welcome.
pub fn put_welcome(to: &mut Vec<u8>) {
    put(WELCOME, &[], to);
}

/// Appends the end.
pub fn put_end(to: &mut Vec<u8>) {
    put(END, &[], to);
}

fn put(kind: u8, payload: &[u8], to: &mut Vec<u8>) {
    to.push(kind);
    to.extend_from_slice(&(payload.len() as u32).to_le_bytes());
    to.extend_from_slice(payload);
}

/// Reads the next piece.
pub fn read(from: &mut impl Read) -> io::Result<Piece> {
    let mut head = [0; HEAD];
    from.read_exact(&mut head)?;
    let [kind, len @ ..] = head;
    let len = u32::from_le_bytes(len) as usize;
    if len > MAX_PIECE {
        return Err(io::Error::other("a piece beyond the limit"));
    }
    let mut payload = vec![0; len];
    from.read_exact(&mut payload)?;
    match kind {
        DATA => Ok(Piece::Data(payload)),
        RECORD => Ok(Piece::Record(serde_json::from_slice(&payload)?)),
        END => Ok(Piece::End),
        WELCOME => Ok(Piece::Welcome),
        _ => Err(io::Error::other("a piece of an unknown kind")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn said<T: Serialize>(what: &T) -> String {
        serde_json::to_string(what).unwrap()
    }

    #[test]
    fn the_words_of_protocol_1_stay_as_they_are() {
        let hello = |to| Hello { protocol: 1, deployment: "d".into(), sandbox: "s_r-1".into(), to };
        for (to, text) in [
            (To::Join { upstreams: vec!["a".into()] }, r#"{"join":{"upstreams":["a"]}}"#),
            (To::Stay, r#""stay""#),
            (To::Replace { settings: "x".into() }, r#"{"replace":{"settings":"x"}}"#),
            (To::End, r#""end""#),
        ] {
            let text = format!(r#"{{"protocol":1,"deployment":"d","sandbox":"s_r-1","to":{text}}}"#);
            assert_eq!(said(&hello(to.clone())), text);
            assert_eq!(serde_json::from_str::<Hello>(&text).unwrap(), hello(to));
        }
        assert_eq!(said(&[Answer::Same, Answer::Busy, Answer::Ends, Answer::Refused]), r#"["same","busy","ends","refused"]"#);
    }

    #[test]
    fn a_piece_beyond_the_limit_is_refused_before_it_is_read() {
        let mut bytes: &[u8] = &[DATA, 0xff, 0xff, 0xff, 0x7f, 1, 2, 3];
        assert!(read(&mut bytes).is_err());
        assert!(read(&mut [9, 0, 0, 0, 0].as_slice()).is_err());
    }

    /// Gives as many bytes at a time as it is told.
    struct Dripping<'a>(&'a [u8], Vec<usize>);

    impl Read for Dripping<'_> {
        fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
            let most = self.1.pop().unwrap_or(usize::MAX).max(1).min(to.len()).min(self.0.len());
            let (now, rest) = self.0.split_at(most);
            to[..most].copy_from_slice(now);
            self.0 = rest;
            Ok(most)
        }
    }

    fn any_piece() -> impl Strategy<Value = Piece> {
        let record = (".{0,20}", any::<Option<u16>>(), any::<u64>(), any::<bool>())
            .prop_map(|(path, status, response_bytes, cut)| Piece::Record(Box::new(Door { path, status, response_bytes, cut, ..Door::default() })));
        prop_oneof![prop::collection::vec(any::<u8>(), 0..300).prop_map(Piece::Data), record, Just(Piece::Welcome), Just(Piece::End)]
    }

    proptest! {
        #[test]
        fn pieces_come_out_as_they_went_in(pieces in prop::collection::vec(any_piece(), 0..12), drip in prop::collection::vec(1usize..40, 0..40)) {
            let mut bytes = Vec::new();
            for piece in &pieces {
                match piece {
                    Piece::Data(data) => prop_assert_eq!(put_data(data, &mut bytes), data.len()),
                    Piece::Record(door) => put_record(door, &mut bytes),
                    Piece::Welcome => put_welcome(&mut bytes),
                    Piece::End => put_end(&mut bytes),
                }
            }
            let mut from = Dripping(&bytes, drip);
            for piece in &pieces {
                prop_assert_eq!(&read(&mut from).unwrap(), piece);
            }
            prop_assert_eq!(read(&mut from).unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
        }
    }
}
