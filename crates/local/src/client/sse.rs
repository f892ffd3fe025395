//! Server-sent events out of bytes: pure, and the same for every way that a network cuts them.

/// One event of a stream. A block without data is none, as the standard has it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Event {
    pub(crate) id: Option<String>,
    pub(crate) name: Option<String>,
    pub(crate) data: String,
}

/// Takes bytes, gives events.
#[derive(Debug, Default)]
pub(crate) struct Parser {
    line: Vec<u8>,
    /// The last byte was a CR: an LF that follows belongs to it.
    after_cr: bool,
    id: Option<String>,
    name: Option<String>,
    data: Option<String>,
    /// The last `retry:` in milliseconds.
    pub(crate) retry: Option<u64>,
}

impl Parser {
    /// The events that end within `bytes`.
    pub(crate) fn push(&mut self, bytes: &[u8]) -> Vec<Event> {
        let mut events = Vec::new();
        for &byte in bytes {
            let joined = self.after_cr && byte == b'\n';
            self.after_cr = byte == b'\r';
            match byte {
                b'\n' if joined => {}
                b'\n' | b'\r' => events.extend(self.end_of_line()),
                _ => self.line.push(byte),
            }
        }
        events
    }

    fn end_of_line(&mut self) -> Option<Event> {
        let bytes = std::mem::take(&mut self.line);
        let line = String::from_utf8_lossy(&bytes);
        let line = line.strip_prefix('\u{feff}').unwrap_or(&line);
        if line.is_empty() {
            let (id, name) = (self.id.take(), self.name.take());
            return self.data.take().map(|data| Event { id, name, data });
        }
        // A comment begins with the colon, so its field has no name.
        let (field, value) = line.split_once(':').unwrap_or((line, ""));
        let value = value.strip_prefix(' ').unwrap_or(value);
        match field {
            "id" => self.id = Some(value.to_owned()),
            "event" => self.name = Some(value.to_owned()),
            "retry" => self.retry = value.parse().ok().or(self.retry),
            "data" => match &mut self.data {
                Some(data) => {
                    data.push('\n');
                    data.push_str(value);
                }
                None => self.data = Some(value.to_owned()),
            },
            _ => {}
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STREAM: &str = ": hello\n\nid: 0\nevent: RunStarted\ndata: {\"a\":1}\n\nretry: 1000\n\nid:1\r\nevent:RunContent\r\ndata: é\r\ndata:  two\r\n\r\n\
                          event: replay\rdata\r\rid: 2\ndata: cut off";

    fn expected() -> Vec<Event> {
        let event = |id: Option<&str>, name: &str, data: &str| Event { id: id.map(Into::into), name: Some(name.into()), data: data.into() };
        vec![event(Some("0"), "RunStarted", "{\"a\":1}"), event(Some("1"), "RunContent", "é\n two"), event(None, "replay", "")]
    }

    #[test]
    fn fields_comments_and_line_ends_are_read_as_the_standard_has_them() {
        let mut parser = Parser::default();
        assert_eq!(parser.push(STREAM.as_bytes()), expected());
        assert_eq!(parser.retry, Some(1000));
    }

    #[test]
    fn every_cut_gives_the_same_events() {
        let bytes = STREAM.as_bytes();
        for first in 0..=bytes.len() {
            for second in first..=bytes.len() {
                let mut parser = Parser::default();
                let mut got = parser.push(&bytes[..first]);
                got.extend(parser.push(&bytes[first..second]));
                got.extend(parser.push(&bytes[second..]));
                assert_eq!(got, expected(), "cut at {first} and {second}");
            }
        }
    }

    #[test]
    fn byte_by_byte_gives_the_same_events() {
        let mut parser = Parser::default();
        let got: Vec<Event> = STREAM.bytes().flat_map(|byte| parser.push(&[byte])).collect();
        assert_eq!(got, expected());
    }

    #[test]
    fn an_event_that_was_cut_off_is_none() {
        let mut parser = Parser::default();
        assert_eq!(parser.push(b"id: 7\ndata: half\n"), []);
    }
}
