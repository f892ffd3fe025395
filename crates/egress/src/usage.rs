//! What an answer says of tokens, read on its way through: `usage` at the top of a JSON document, or in its `message` or `response`, whether the document is
//! the whole answer or the data of a server-sent event. The last that is said counts, since streams count up. Pure, in bounded memory, whatever comes.

/// Containers deeper than this are not followed.
const DEEPEST: usize = 64;
const LONGEST_KEY: usize = 16;

/// The reading of one answer.
#[derive(Debug, Default)]
pub(crate) struct Usage {
    pub(crate) input: Option<u64>,
    pub(crate) output: Option<u64>,
    form: Form,
    line: Line,
    document: Document,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Form {
    #[default]
    Opaque,
    Json,
    Events,
}

/// Where in a line of an event stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Line {
    /// So many bytes are as [`FIELD`] has them.
    Field(usize),
    Data,
    Other,
}

impl Default for Line {
    fn default() -> Self {
        Self::Field(0)
    }
}

const FIELD: &[u8] = b"data:";

impl Usage {
    /// Of an answer with this content type, if it is not encoded.
    pub(crate) fn of(content_type: Option<&str>) -> Self {
        let essence = content_type.unwrap_or_default().split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
        let form = match essence.as_str() {
            "application/json" => Form::Json,
            "text/event-stream" => Form::Events,
            _ => Form::Opaque,
        };
        Self { form, ..Self::default() }
    }

    /// Takes the next bytes.
    pub(crate) fn feed(&mut self, bytes: &[u8]) {
        match self.form {
            Form::Opaque => {}
            Form::Json => bytes.iter().for_each(|byte| self.take(*byte)),
            Form::Events => bytes.iter().for_each(|byte| self.line(*byte)),
        }
    }

    fn line(&mut self, byte: u8) {
        if matches!(byte, b'\n' | b'\r') {
            (self.line, self.document) = (Line::default(), Document::default());
            return;
        }
        match self.line {
            Line::Field(at) if FIELD[at] != byte => self.line = Line::Other,
            Line::Field(at) if at + 1 == FIELD.len() => self.line = Line::Data,
            Line::Field(at) => self.line = Line::Field(at + 1),
            Line::Data => self.take(byte),
            Line::Other => {}
        }
    }

    fn take(&mut self, byte: u8) {
        match self.document.take(byte) {
            Some((Key::Input, count)) => self.input = Some(count),
            Some((Key::Output, count)) => self.output = Some(count),
            _ => {}
        }
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Key {
    #[default]
    Other,
    /// `message` or `response`.
    Holder,
    Usage,
    Input,
    Output,
}

/// A JSON document, as far as it was read: where it is, and nothing of what it holds.
#[derive(Debug, Default)]
struct Document {
    depth: usize,
    /// One bit for each level: whether it is an object.
    objects: u64,
    /// The keys of the outermost levels.
    path: [Key; 3],
    key_is_next: bool,
    string: Option<Text>,
    number: Option<u64>,
    /// It has a sign or a fraction.
    no_count: bool,
    /// Too deep, or no JSON.
    lost: bool,
}

#[derive(Debug, Default)]
struct Text {
    is_key: bool,
    escaped: bool,
    bytes: [u8; LONGEST_KEY],
    len: usize,
}

impl Document {
    /// The count that ends with this byte, if one does.
    fn take(&mut self, byte: u8) -> Option<(Key, u64)> {
        if self.lost {
            return None;
        }
        if let Some(text) = &mut self.string {
            if text.take(byte) {
                if text.is_key && self.depth <= self.path.len() {
                    self.path[self.depth - 1] = text.key();
                }
                self.string = None;
            }
            return None;
        }
        if byte.is_ascii_digit() {
            let digit = u64::from(byte - b'0');
            if self.no_count {
                return None;
            }
            self.number = self.number.map_or(Some(digit), |number| Some(number.saturating_mul(10).saturating_add(digit)));
            return None;
        }
        let ended = self.number.take().filter(|_| matches!(byte, b',' | b'}' | b' ' | b'\n' | b'\r' | b'\t')).and_then(|number| self.counted(number));
        self.no_count &= !matches!(byte, b',' | b':' | b'[' | b'{' | b'}' | b']');
        match byte {
            b'"' => self.string = Some(Text { is_key: self.key_is_next, ..Text::default() }),
            b'{' | b'[' => self.enter(byte == b'{'),
            b'}' | b']' if self.depth == 0 => self.lost = true,
            b'}' | b']' => {
                self.depth -= 1;
                self.key_is_next = false;
            }
            b',' => self.key_is_next = self.in_object(),
            b':' => self.key_is_next = false,
            b'-' | b'.' | b'e' | b'E' | b'+' => (self.number, self.no_count) = (None, true),
            _ => {}
        }
        ended
    }

    fn enter(&mut self, object: bool) {
        if self.depth == DEEPEST {
            self.lost = true;
            return;
        }
        let bit = 1 << self.depth;
        self.objects = if object { self.objects | bit } else { self.objects & !bit };
        if let Some(key) = self.path.get_mut(self.depth) {
            *key = Key::Other;
        }
        self.depth += 1;
        self.key_is_next = object;
    }

    fn in_object(&self) -> bool {
        self.depth > 0 && self.objects & (1 << (self.depth - 1)) != 0
    }

    fn counted(&self, number: u64) -> Option<(Key, u64)> {
        let key = match (self.depth, self.path) {
            (2, [Key::Usage, key, _]) | (3, [Key::Holder, Key::Usage, key]) => key,
            _ => return None,
        };
        (matches!(key, Key::Input | Key::Output) && self.in_object()).then_some((key, number))
    }
}

impl Text {
    /// Whether it ends here.
    fn take(&mut self, byte: u8) -> bool {
        match byte {
            _ if self.escaped => self.escaped = false,
            b'"' => return true,
            b'\\' => {
                self.escaped = true;
                self.push(byte);
            }
            _ => self.push(byte),
        }
        false
    }

    /// No key that is asked for is as long as what is cut off here.
    fn push(&mut self, byte: u8) {
        if let Some(place) = self.bytes.get_mut(self.len) {
            *place = byte;
            self.len += 1;
        }
    }

    fn key(&self) -> Key {
        match &self.bytes[..self.len] {
            b"message" | b"response" => Key::Holder,
            b"usage" => Key::Usage,
            b"input_tokens" => Key::Input,
            b"output_tokens" => Key::Output,
            _ => Key::Other,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::{Value, json};

    fn read(content_type: &str, chunks: &[&[u8]]) -> (Option<u64>, Option<u64>) {
        let mut usage = Usage::of(Some(content_type));
        chunks.iter().for_each(|chunk| usage.feed(chunk));
        (usage.input, usage.output)
    }

    #[test]
    fn a_streamed_message_is_counted_by_its_last_word() {
        let events = "event: message_start\ndata: {\"type\":\"message_start\",\"message\":{\"content\":[],\"usage\":{\"input_tokens\":25,\"output_tokens\":1}}}\n\n\
                      event: ping\r\ndata: {\"type\": \"ping\"}\r\n\r\n\
                      data: {\"type\":\"content_block_delta\",\"delta\":{\"text\":\"\\\"usage\\\":{\\\"input_tokens\\\":7}\"}}\n\n\
                      data: {\"type\":\"message_delta\",\"delta\":{},\"usage\":{\"output_tokens\":15}}\n\ndata: [DONE]\n\n";
        assert_eq!(read("text/event-stream; charset=utf-8", &[events.as_bytes()]), (Some(25), Some(15)));
    }

    #[test]
    fn a_whole_response_is_counted_and_nothing_else_in_it() {
        let text = json!({"usage": {"input_tokens": 36, "input_tokens_details": {"input_tokens": 1}, "output_tokens": 87}, "zz": {"usage": {"input_tokens": 9}},
            "output": [{"usage": {"input_tokens": 5}}, {"input_tokens": 6}]});
        assert_eq!(read("application/json", &[text.to_string().as_bytes()]), (Some(36), Some(87)));
        let event = json!({"type": "response.completed", "response": {"usage": {"input_tokens": 3, "output_tokens": 4}}});
        assert_eq!(read("text/event-stream", &[format!("data:{event}\n\n").as_bytes()]), (Some(3), Some(4)));
    }

    #[test]
    fn what_is_no_count_is_none() {
        for text in [
            r#"{"usage":{"input_tokens":-5}}"#,
            r#"{"usage":{"input_tokens":1.5}}"#,
            r#"{"usage":[{"input_tokens":1}]}"#,
            r#"{"usage":{"input_tokens":"1"}}"#,
            r#"["usage",{"input_tokens":1}]"#,
        ] {
            assert_eq!(read("application/json", &[text.as_bytes()]), (None, None), "{text}");
        }
        assert_eq!(read("text/html", &[br#"{"usage":{"input_tokens":1}}"#]), (None, None));
    }

    fn any_json() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<u64>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            any::<f64>().prop_map(Value::from),
            "[a-z\"\\\\{}:,\\n]{0,12}".prop_map(Value::from)
        ];
        let key = prop_oneof![
            Just("usage".to_owned()),
            Just("message".into()),
            Just("response".into()),
            Just("input_tokens".into()),
            Just("output_tokens".into()),
            Just("input_tokens_details".into()),
            "[a-z\"\\\\]{0,6}"
        ];
        leaf.prop_recursive(5, 60, 6, move |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
                prop::collection::btree_map(key.clone(), inner, 0..5).prop_map(|map| Value::Object(map.into_iter().collect()))
            ]
        })
    }

    /// In the order in which they are written.
    fn expected(document: &Value, key: &str) -> Option<u64> {
        let whole = |value: &Value| value.as_u64().filter(|_| value.is_u64());
        let found = [&document["message"]["usage"], &document["response"]["usage"], &document["usage"]]
            .map(|usage| usage.as_object().and_then(|usage| whole(usage.get(key)?)));
        found.into_iter().flatten().last()
    }

    proptest! {
        #[test]
        fn any_document_in_any_chunks_is_read_as_a_parser_reads_it(document in any_json(), pretty in any::<bool>(), cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..6)) {
            let text = if pretty { serde_json::to_string_pretty(&document) } else { serde_json::to_string(&document) }.unwrap();
            let mut cuts: Vec<_> = cuts.iter().map(|cut| cut.index(text.len() + 1)).collect();
            cuts.extend([0, text.len()]);
            cuts.sort_unstable();
            let chunks: Vec<&[u8]> = cuts.windows(2).map(|pair| &text.as_bytes()[pair[0]..pair[1]]).collect();
            prop_assert_eq!(read("application/json", &chunks), (expected(&document, "input_tokens"), expected(&document, "output_tokens")));
        }

        #[test]
        fn whatever_comes_it_goes_on(bytes in prop::collection::vec(prop_oneof![any::<u8>(), prop::sample::select(b"{}[]\",:\\0 \n-data".to_vec())], 0..300)) {
            read("application/json", &[&bytes]);
            read("text/event-stream", &[&bytes]);
        }
    }
}
