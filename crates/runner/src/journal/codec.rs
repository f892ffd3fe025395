//! Records to bytes and back. Pure.

use super::crc::crc32;
use super::{Body, Door, Exit, Record};

/// The longest payload of a record.
pub const MAX_PAYLOAD: usize = 256 * 1024;
/// The longest piece of a line in one record.
pub const PIECE: usize = MAX_PAYLOAD - 1;

/// A record's first byte: not zero, so that a hole is told from a record.
pub const MAGIC: u8 = 0xA7;
const HEAD: usize = 14;
const TAIL: usize = 4;

/// Bytes that no runner wrote.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Corrupt {
    /// Where the bad record starts.
    pub at: u64,
    /// What is wrong with it.
    pub why: &'static str,
}

impl std::fmt::Display for Corrupt {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} in the record at byte {}", self.why, self.at)
    }
}

impl std::error::Error for Corrupt {}

/// Appends the record's bytes to `to`. A payload over [`MAX_PAYLOAD`] is cut: writers make pieces before.
pub fn encode(record: &Record, to: &mut Vec<u8>) {
    let start = to.len();
    to.extend_from_slice(&[MAGIC, kind(&record.body), 0, 0, 0, 0]);
    to.extend_from_slice(&record.at_ms.to_le_bytes());
    put_payload(&record.body, to);
    to.truncate(start + HEAD + MAX_PAYLOAD);
    let len = (to.len() - start - HEAD) as u32;
    to[start + 2..start + 6].copy_from_slice(&len.to_le_bytes());
    let crc = crc32(&to[start..]);
    to.extend_from_slice(&crc.to_le_bytes());
}

fn kind(body: &Body) -> u8 {
    match body {
        Body::Started => 1,
        Body::StartFailed { .. } => 2,
        Body::SetupFailed { .. } => 3,
        Body::Out { .. } => 4,
        Body::Err { .. } => 5,
        Body::Exit(_) => 6,
        Body::Door(_) => 7,
    }
}

fn put_payload(body: &Body, to: &mut Vec<u8>) {
    match body {
        Body::Started => {}
        Body::StartFailed { message } | Body::SetupFailed { message } => {
            to.extend_from_slice(message.as_bytes());
        }
        Body::Out { bytes, end_of_line } | Body::Err { bytes, end_of_line } => {
            to.push(u8::from(*end_of_line));
            to.extend_from_slice(bytes);
        }
        // Structs of plain fields always serialise.
        Body::Door(door) => to.extend(serde_json::to_vec(door).unwrap_or_default()),
        Body::Exit(exit) => to.extend(serde_json::to_vec(exit).unwrap_or_default()),
    }
}

/// Takes a journal's bytes in whatever chunks they come, and gives its records. Never holds more than one record beyond what it was fed last.
#[derive(Debug)]
pub struct Decoder {
    buffer: Vec<u8>,
    /// How much of `buffer` is decoded already.
    taken: usize,
    /// The journal offset of `buffer[taken]`.
    offset: u64,
}

impl Decoder {
    /// A decoder of a journal from `offset`, which is the end of a record, or 0.
    pub fn new(offset: u64) -> Self {
        Self { buffer: Vec::new(), taken: 0, offset }
    }

    /// The offset up to which records came out.
    pub fn offset(&self) -> u64 {
        self.offset
    }

    /// Takes the next bytes.
    pub fn feed(&mut self, bytes: &[u8]) {
        self.buffer.drain(..self.taken);
        self.taken = 0;
        self.buffer.extend_from_slice(bytes);
    }

    /// The next whole record and the offset of its end; `None` until more is fed.
    pub fn next_record(&mut self) -> Result<Option<(Record, u64)>, Corrupt> {
        let bytes = &self.buffer[self.taken..];
        let Some(whole) = self.whole(bytes)? else {
            return Ok(None);
        };
        let record = parse(&bytes[..whole]).map_err(|why| self.corrupt(why))?;
        self.taken += whole;
        self.offset += whole as u64;
        Ok(Some((record, self.offset)))
    }

    /// The length of the record at the start of `bytes`, once all of it is there.
    fn whole(&self, bytes: &[u8]) -> Result<Option<usize>, Corrupt> {
        if bytes.first().is_some_and(|byte| *byte != MAGIC) {
            return Err(self.corrupt("no record mark"));
        }
        let Some(len) = bytes.get(2..6).and_then(|len| len.try_into().ok()) else {
            return Ok(None);
        };
        let len = u32::from_le_bytes(len) as usize;
        if len > MAX_PAYLOAD {
            return Err(self.corrupt("a length beyond the limit"));
        }
        let whole = HEAD + len + TAIL;
        Ok((bytes.len() >= whole).then_some(whole))
    }

    fn corrupt(&self, why: &'static str) -> Corrupt {
        Corrupt { at: self.offset, why }
    }
}

/// One whole record.
fn parse(bytes: &[u8]) -> Result<Record, &'static str> {
    let (checked, crc) = bytes.split_at(bytes.len() - TAIL);
    if crc32(checked).to_le_bytes() != crc {
        return Err("a wrong checksum");
    }
    let at = checked[6..HEAD].try_into().map_err(|_| "a short head")?;
    let payload = &checked[HEAD..];
    let body = match checked[1] {
        1 => Body::Started,
        2 => Body::StartFailed { message: text(payload)? },
        3 => Body::SetupFailed { message: text(payload)? },
        4 => line(payload).map(|(bytes, end_of_line)| Body::Out { bytes, end_of_line })?,
        5 => line(payload).map(|(bytes, end_of_line)| Body::Err { bytes, end_of_line })?,
        6 => serde_json::from_slice::<Exit>(payload).map(Body::Exit).map_err(|_| "a bad exit")?,
        7 => serde_json::from_slice::<Box<Door>>(payload).map(Body::Door).map_err(|_| "a bad request")?,
        _ => return Err("an unknown kind"),
    };
    Ok(Record { at_ms: u64::from_le_bytes(at), body })
}

fn text(payload: &[u8]) -> Result<String, &'static str> {
    String::from_utf8(payload.to_vec()).map_err(|_| "a message that is not text")
}

fn line(payload: &[u8]) -> Result<(Vec<u8>, bool), &'static str> {
    match payload.split_first() {
        Some((0, bytes)) => Ok((bytes.to_vec(), false)),
        Some((1, bytes)) => Ok((bytes.to_vec(), true)),
        _ => Err("a bad line"),
    }
}
