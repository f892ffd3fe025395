//! A run's progress as an entry of its stream: the id is the index, the event rides along.
//!
//! What comes is not believed further than it is sealed and makes sense: an event that others put there, that cannot be read, or that is not the one that the
//! id says, is as good as none.

use std::collections::HashMap;
use std::sync::Arc;

use redis::{Value, from_redis_value_ref};
use runs::{Event, Recorded, frame};
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::seal::Seal;
use crate::signals::Advance;

/// A field with the event. A stream's entry must have one field, so this is there without an event too.
pub(super) const EVENT: &str = "e";
/// A field with the seal of the event.
const SEAL: &str = "s";
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

pub(super) fn fields(seal: &Seal, advance: &Advance) -> Vec<(&'static str, Vec<u8>)> {
    let sealed = advance.event.as_deref().zip(advance.next).and_then(|(event, next)| {
        let text = write(event);
        Some((seal.make(advance.run_id, next, &text)?, text))
    });
    match sealed {
        Some((code, text)) => vec![(EVENT, text.into_bytes()), (SEAL, code)],
        None => vec![(EVENT, Vec::new())],
    }
}

fn write(event: &Recorded) -> String {
    let Recorded { seq, first_index, at, .. } = *event;
    let stored = Stored { seq, first_index, at, kind: event.event.kind().into(), data: event.event.to_stored() };
    // Our own plain struct always serializes; an empty field is an event that did not come along.
    serde_json::to_string(&stored).unwrap_or_default()
}

pub(super) fn read(seal: &Seal, run_id: Uuid, id: &str, fields: &HashMap<String, Value>) -> Advance {
    let next = id.split_once('-').and_then(|(next, _)| next.parse().ok()).filter(|next| *next <= i32::MAX as u32);
    let event = next.and_then(|next| {
        let text: String = from_redis_value_ref(fields.get(EVENT)?).ok()?;
        let code: Vec<u8> = from_redis_value_ref(fields.get(SEAL)?).ok()?;
        if !seal.fits(run_id, next, &text, &code) {
            return None;
        }
        // Without overflow, for a release to come may mean something else by it.
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

    /// As they come.
    fn stored(fields: Vec<(&str, Vec<u8>)>) -> HashMap<String, Value> {
        fields.into_iter().map(|(name, value)| (name.to_owned(), Value::BulkString(value))).collect()
    }

    fn seal() -> Seal {
        Seal::new(Some("ours"))
    }

    /// Sealed by one of us.
    fn sealed(next: u32, text: &str) -> HashMap<String, Value> {
        let code = seal().make(Uuid::nil(), next, text).expect("a code");
        stored(vec![(EVENT, text.into()), (SEAL, code)])
    }

    fn told(event: &Recorded) -> Advance {
        Advance { run_id: Uuid::nil(), next: Some(event.next_index()), event: Some(Arc::new(event.clone())) }
    }

    #[test]
    fn an_entry_is_the_event_that_was_written() {
        let advance = told(&said(5, 2));
        assert_eq!(id(&advance).as_deref(), Some("7-0"));
        assert_eq!(read(&seal(), Uuid::nil(), "7-0", &stored(fields(&seal(), &advance))), advance);
    }

    #[test]
    fn an_event_that_is_not_sealed_for_its_place_is_none() {
        let (event, other) = (said(5, 2), Uuid::max());
        let ours = || fields(&seal(), &told(&event));
        let text = || write(&event).into_bytes();
        let strangers = fields(&Seal::new(Some("theirs")), &told(&event));
        let elsewhere = fields(&seal(), &Advance { run_id: other, ..told(&event) });
        let changed = vec![(EVENT, write(&said(5, 2)).replace('x', "y").into_bytes()), ours().remove(1)];
        let unsealed = fields(&Seal::default(), &told(&event));
        assert_eq!(unsealed, [(EVENT, Vec::new())], "who has no seal sends none");
        for forged in [strangers, elsewhere, changed, unsealed, vec![(EVENT, text())], vec![(EVENT, text()), (SEAL, Vec::new())]] {
            let advance = read(&seal(), Uuid::nil(), "7-0", &stored(forged));
            assert_eq!((advance.next, advance.event), (Some(7), None));
        }
        assert!(read(&seal(), other, "7-0", &stored(ours())).event.is_none());
        assert!(read(&Seal::default(), Uuid::nil(), "7-0", &stored(ours())).event.is_none(), "who has no seal believes none");
    }

    #[test]
    fn what_makes_no_sense_is_no_event() {
        let ends = Recorded { event: Event::Cancelled { reason: "x".into() }, ..said(6, 0) };
        let huge = Recorded { first_index: u32::MAX, ..said(0, 2) };
        for (next, text) in
            [(8, write(&said(5, 2))), (7, write(&said(5, 1))), (7, write(&ends)), (1, write(&huge)), (7, "{".into()), (7, String::new())]
        {
            let advance = read(&seal(), Uuid::nil(), &format!("{next}-0"), &sealed(next, &text));
            assert!(advance.event.is_none() && advance.next == Some(next), "{next} {text}");
        }
        assert_eq!(read(&seal(), Uuid::nil(), "4294967295-0", &HashMap::new()).next, None);
        assert_eq!(read(&seal(), Uuid::nil(), "99999999999999-1", &HashMap::new()).next, None);
    }
}
