//! Frames as text. Streams and the list of events both come from here, so one frame is the same JSON everywhere.

use std::fmt::Write;

use bytes::Bytes;
use runs::{Frame, Recorded, frame};
use serde::Serialize;
use utoipa::ToSchema;
use uuid::Uuid;

/// A frame of a run, the data of an event of its stream; its `id` is `event_index`. One of the last three kinds ends every run.
#[derive(Serialize, ToSchema)]
pub(crate) struct StreamFrame {
    run_id: Uuid,
    session_id: String,
    agent_id: String,
    created_at: i64,
    event_index: u32,
    #[serde(flatten)]
    frame: Frame,
}

/// The data of an event that is no part of the run and has no `id`.
#[derive(ToSchema)]
#[expect(dead_code, reason = "written as text by Identity::control; here it is described")]
pub(crate) struct ControlFrame {
    event: Control,
    run_id: Uuid,
    /// Of `replay` and `catch_up`.
    #[schema(nullable = false)]
    status: Option<::runs::Status>,
    /// The first frame that comes, or that is missing.
    from: u32,
    /// The last frame that is missing.
    #[schema(nullable = false)]
    to: Option<u32>,
    #[schema(nullable = false)]
    reason: Option<String>,
}

/// `replay` or `catch_up` before what is stored, `subscribed` before what is live, `gap` where frames are no longer kept.
#[derive(ToSchema)]
#[serde(rename_all = "snake_case")]
#[expect(dead_code, reason = "written as text by Identity::control; here it is described")]
enum Control {
    Replay,
    CatchUp,
    Subscribed,
    Gap,
}

/// One event of a stream.
#[derive(ToSchema)]
#[expect(dead_code, reason = "written as text; here it is described")]
pub(crate) struct StreamEvent {
    /// The frame's `event_index`; a control frame has none.
    #[schema(nullable = false, pattern = "^[0-9]+$")]
    id: Option<String>,
    /// The frame's kind.
    event: String,
    /// A frame, on one line.
    #[schema(content_media_type = "application/json")]
    data: String,
    /// Milliseconds, at an end that comes before the run's.
    #[schema(nullable = false)]
    retry: Option<u32>,
}

/// Of which run a frame is.
#[derive(Debug)]
pub(crate) struct Identity {
    pub(crate) run_id: Uuid,
    pub(crate) agent_id: String,
    /// What every frame of the run starts with.
    prefix: String,
}

/// Frames `first..next` of a run as the text of a stream, made once for all who see it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Chunk {
    pub(crate) first: u32,
    pub(crate) next: u32,
    pub(crate) terminal: bool,
    pub(crate) text: Bytes,
}

impl Identity {
    pub(crate) fn new(run_id: Uuid, session_id: &str, agent_id: &str) -> Self {
        let text = |value: &str| serde_json::Value::from(value).to_string();
        let prefix = format!("{{\"run_id\":\"{run_id}\",\"session_id\":{},\"agent_id\":{}", text(session_id), text(agent_id));
        Self { run_id, agent_id: agent_id.into(), prefix }
    }

    /// One frame as one line of JSON.
    pub(crate) fn json(&self, out: &mut String, at: i64, index: u32, frame: &Frame) {
        // A frame is written by our own shape of strings and numbers, which cannot fail; the name alone would still be a valid frame.
        let own = serde_json::to_string(frame).unwrap_or_else(|_| format!("{{\"event\":\"{}\"}}", frame.name()));
        let fields = own.strip_prefix('{').unwrap_or(&own);
        // Writing to a string cannot fail.
        let _ = write!(out, "{},\"created_at\":{},\"event_index\":{index},{fields}", self.prefix, at.div_euclid(1000));
    }

    /// The frames of these events from index `from` on, up to the first hole between them: whoever asks for what is behind it finds that it is missing.
    /// `None` where there are none.
    pub(crate) fn chunk<'a>(&self, events: impl IntoIterator<Item = &'a Recorded>, from: u32) -> Option<Chunk> {
        let (mut text, mut first, mut next, mut terminal) = (String::new(), None, from, false);
        for recorded in events {
            if first.is_some() && recorded.first_index > next {
                break;
            }
            for (index, frame) in frame::indexed(recorded).filter(|(index, _)| *index >= from) {
                let _ = write!(text, "id: {index}\nevent: {}\ndata: ", frame.name());
                self.json(&mut text, recorded.at, index, &frame);
                text.push_str("\n\n");
                first = first.or(Some(index));
                next = index + 1;
                terminal |= frame.is_terminal();
            }
        }
        first.map(|first| Chunk { first, next, terminal, text: text.into() })
    }

    /// A frame that is no part of the log: it has no id, so no client counts it.
    pub(crate) fn control(&self, name: &str, fields: &str) -> Bytes {
        format!("event: {name}\ndata: {{\"event\":\"{name}\",\"run_id\":\"{}\"{fields}}}\n\n", self.run_id).into()
    }
}

#[cfg(test)]
mod tests {
    use runs::Metrics;

    use super::*;

    #[test]
    fn a_frame_is_written_as_it_is_described() {
        let identity = Identity::new(Uuid::nil(), "a \"session\"", "echo");
        let frames = [
            Frame::content("text\n".into()),
            Frame::RunStarted { model: None, attempt: 1 },
            Frame::RunCompleted { content: "x".into(), content_type: "str".into(), metrics: Metrics::default() },
        ];
        for (event_index, frame) in (0..).zip(frames) {
            let mut text = String::new();
            identity.json(&mut text, 5_999, event_index, &frame);
            let described =
                StreamFrame { run_id: Uuid::nil(), session_id: "a \"session\"".into(), agent_id: "echo".into(), created_at: 5, event_index, frame };
            let written: serde_json::Value = serde_json::from_str(&text).expect("JSON");
            assert_eq!(written, serde_json::to_value(described).expect("JSON"));
        }
    }

    #[test]
    fn a_chunk_ends_before_a_hole() {
        let identity = Identity::new(Uuid::nil(), "s", "a");
        let said = |first_index, frames| Recorded {
            seq: first_index,
            first_index,
            at: 0,
            event: ::runs::Event::Output(::runs::Output {
                frames: vec![Frame::content("x".into()); frames],
                journal: 0,
                parser: serde_json::Value::Null,
            }),
        };
        let events = [said(3, 2), said(5, 1), said(9, 1)];
        let chunk = identity.chunk(&events, 4).unwrap();
        assert_eq!((chunk.first, chunk.next), (4, 6));
        let chunk = identity.chunk(&events[2..], chunk.next).unwrap();
        assert_eq!((chunk.first, chunk.next), (9, 10), "it says what is missing");
    }
}
