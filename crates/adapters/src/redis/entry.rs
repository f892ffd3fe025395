//! A run's progress as an entry of its stream: the id is the index, the event rides along.
//!
//! What comes is not believed further than it makes sense: an event that cannot be read, or is not the one that the id says, is as good as none.

use std::collections::HashMap;
use std::sync::Arc;

use redis::{Value, from_redis_value_ref};
use runs::{Event, Recorded, frame};
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::signals::Advance;

/// The one field of an entry. A stream's entry must have one.
pub(super) const EVENT: &str = "e";
/// The first part of the id of an entry that only says "look": after all others.
const LOOK: u64 = u32::MAX as u64;

#[derive(Serialize, Deserialize)]
struct Stored<'a> {
    seq: u32,
    first_index: u32,
    at: i64,
    kind: std::borrow::Cow<'a, str>,
    data: serde_json::Value,
}

/// The entry's id. `None`: there is nothing to say, since a stream's ids begin after 0.
pub(super) fn id(advance: &Advance) -> Option<String> {
    match advance.next {
        Some(0) => None,
        Some(next) => Some(format!("{next}-0")),
        None => Some(format!("{LOOK}-0")),
    }
}

/// Before the first entry that is of use to who has all before `next`.
pub(super) fn position(next: u32) -> String {
    format!("{next}-{}", u64::MAX)
}

pub(super) fn write(event: &Recorded) -> String {
    let Recorded { seq, first_index, at, .. } = *event;
    let stored = Stored { seq, first_index, at, kind: event.event.kind().into(), data: event.event.to_stored() };
    // Our own plain struct always serializes; an empty field is an event that did not come along.
    serde_json::to_string(&stored).unwrap_or_default()
}

pub(super) fn read(run_id: Uuid, id: &str, fields: &HashMap<String, Value>) -> Advance {
    let next = id.split_once('-').and_then(|(next, _)| next.parse().ok()).filter(|next| *next <= i32::MAX as u32);
    let event = next.and_then(|next| {
        let text: String = from_redis_value_ref(fields.get(EVENT)?).ok()?;
        // Without overflow, for what comes may be anything.
        let end = |event: &Recorded| u64::from(event.first_index) + u64::from(frame::count(&event.event));
        event(&text).filter(|event| event.first_index < next && end(event) == u64::from(next))
    });
    Advance { run_id, next, event: event.map(Arc::new) }
}

fn event(text: &str) -> Option<Recorded> {
    let Stored { seq, first_index, at, kind, data } = serde_json::from_str(text).ok()?;
    // An end is believed of the log alone.
    let event = Event::from_stored(&kind, data).ok().filter(|event| !event.is_terminal())?;
    Some(Recorded { seq, first_index, at, event })
}

#[cfg(test)]
mod tests {
    use runs::{Frame, Output};

    use super::*;

    fn said(first_index: u32, frames: usize) -> Recorded {
        let frames = vec![Frame::content("x".into()); frames];
        let event = Event::Output(Output { frames, journal: 7, parser: serde_json::Value::Null });
        Recorded { seq: 3, first_index, at: 1_000, event }
    }

    fn fields(text: &str) -> HashMap<String, Value> {
        HashMap::from([(EVENT.to_owned(), Value::BulkString(text.as_bytes().to_vec()))])
    }

    #[test]
    fn an_entry_is_the_event_that_was_written() {
        let event = said(5, 2);
        let advance = Advance { run_id: Uuid::nil(), next: Some(7), event: Some(Arc::new(event.clone())) };
        assert_eq!(id(&advance).as_deref(), Some("7-0"));
        assert_eq!(read(Uuid::nil(), "7-0", &fields(&write(&event))), advance);
    }

    #[test]
    fn what_makes_no_sense_is_no_event() {
        let ends = Recorded { event: Event::Cancelled { reason: "x".into() }, ..said(6, 0) };
        let huge = Recorded { first_index: u32::MAX, ..said(0, 2) };
        for (id, text) in [
            ("8-0", write(&said(5, 2))),
            ("7-0", write(&said(5, 1))),
            ("7-0", write(&ends)),
            ("1-0", write(&huge)),
            ("7-0", "{".into()),
            ("7-0", String::new()),
        ] {
            let advance = read(Uuid::nil(), id, &fields(&text));
            assert!(advance.event.is_none() && advance.next.is_some(), "{id} {text}");
        }
        assert_eq!(read(Uuid::nil(), "4294967295-0", &HashMap::new()).next, None);
        assert_eq!(read(Uuid::nil(), "99999999999999-1", &HashMap::new()).next, None);
    }
}
