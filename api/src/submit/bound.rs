//! What is not parsed because it is too large, and where the rest is parsed: off the threads that answer, few at a time.
//!
//! The text of a body is as large as its limit, and a list of small values as a `Value` is forty times that.

use serde_json::Value;
use serde_json::value::RawValue;
use tokio::sync::Semaphore;

use super::check::{METADATA_LIMIT, SCHEMA_LIMIT};
use crate::respond::Refusal;

/// What escapes make of a text at their worst.
const ESCAPED: usize = 6;
/// Of a field whose value is no list and no object, where it is right.
const OTHER_LIMIT: usize = 64 * 1024;
/// What is shorter is parsed where it comes in: it takes less than the way to another thread and back.
const SMALL: usize = 16 * 1024;

static LARGE: Parsing = Parsing(Semaphore::const_new(2));

/// How much JSON is read of a field before it is known what it holds.
pub(super) fn limit(field: &str) -> usize {
    match field {
        "metadata" => ESCAPED * METADATA_LIMIT,
        "output_schema" => ESCAPED * SCHEMA_LIMIT,
        _ => OTHER_LIMIT,
    }
}

/// A field's value. Media stay text, which `media` reads item by item; a text costs no more than it is long. Of anything else that is over its limit
/// there is a value of the same kind, so that checks which come before that of sizes see what they look at; and `large` has its name.
pub(super) fn value(field: &str, raw: &RawValue, large: &mut Vec<String>) -> Result<Value, serde_json::Error> {
    let text = raw.get();
    match text.as_bytes().first() {
        Some(b'[' | b'{') if super::media::FIELDS.contains(&field) => Ok(Value::String(text.to_owned())),
        Some(b'"') => serde_json::from_str(text),
        _ if text.len() > limit(field) => {
            large.push(field.to_owned());
            Ok(stand_in(text))
        }
        _ => serde_json::from_str(text),
    }
}

/// The same for a text that is the JSON of a field.
pub(super) fn text(field: &str, value: &mut Value, large: &mut Vec<String>) {
    if let Value::String(text) = value
        && ["metadata", "output_schema"].contains(&field)
        && text.len() > limit(field)
    {
        large.push(field.to_owned());
        *value = stand_in(text.trim_start());
    }
}

fn stand_in(json: &str) -> Value {
    match json.as_bytes().first() {
        Some(b'{') => Value::Object(serde_json::Map::new()),
        Some(b'[') => Value::Array(vec![Value::Null]),
        _ => Value::Bool(true),
    }
}

/// Parses a body of that many bytes.
pub(super) async fn parse<T: Send + 'static>(bytes: usize, parse: impl FnOnce() -> Result<T, Refusal> + Send + 'static) -> Result<T, Refusal> {
    if bytes <= SMALL { parse() } else { LARGE.run(parse).await }
}

struct Parsing(Semaphore);

impl Parsing {
    async fn run<T: Send + 'static>(&'static self, parse: impl FnOnce() -> Result<T, Refusal> + Send + 'static) -> Result<T, Refusal> {
        let permit = self.0.acquire().await.map_err(|_| Refusal::Crashed)?;
        // The permit goes along: a client that goes away does not stop what is being parsed for it.
        let parsing = move || {
            let parsed = parse();
            drop(permit);
            parsed
        };
        tokio::task::spawn_blocking(parsing).await.map_err(|_| Refusal::Crashed)?
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::sync::mpsc;

    use super::*;

    #[tokio::test]
    async fn two_large_bodies_are_parsed_at_once_and_no_more_though_their_clients_go_away() {
        static PARSING: Parsing = Parsing(Semaphore::const_new(2));
        let (begun, begins) = mpsc::channel();
        let ran = Arc::new(AtomicUsize::new(0));
        let mut ends = Vec::new();
        for _ in 0..2 {
            let (end, ended) = mpsc::channel::<()>();
            let (begun, ran) = (begun.clone(), ran.clone());
            let client = tokio::spawn(PARSING.run(move || {
                begun.send(()).unwrap();
                let _ = ended.recv();
                ran.fetch_add(1, Ordering::SeqCst);
                Ok(())
            }));
            while begins.try_recv().is_err() {
                tokio::task::yield_now().await;
            }
            client.abort();
            assert!(client.await.unwrap_err().is_cancelled());
            ends.push(end);
        }
        assert!(PARSING.0.try_acquire().is_err(), "both places are taken");
        drop(ends);
        let ended_before = PARSING.run(move || Ok(ran.load(Ordering::SeqCst))).await.unwrap();
        assert!(ended_before > 0, "it began before another had ended");
    }

    #[tokio::test]
    async fn a_parser_that_panics_gives_its_place_back() {
        static PARSING: Parsing = Parsing(Semaphore::const_new(1));
        for _ in 0..2 {
            assert!(matches!(PARSING.run::<()>(|| panic!("as the case wants")).await, Err(Refusal::Crashed)));
        }
        PARSING.run(|| Ok(())).await.unwrap();
    }
}
