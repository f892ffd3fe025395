//! Where a viewer is in a run's frames: what to show and what it has seen already. Pure.

use serde_json::Value;

use super::sse::Event;

/// A viewer's place: everything before `next` has been shown.
#[derive(Debug, Default)]
pub(crate) struct Place {
    next: u64,
}

/// What to do about an event of the stream.
#[derive(Debug, PartialEq)]
pub(crate) enum Step {
    /// The next frame: show it.
    Show(Value),
    /// Frames that the server no longer has.
    Gone { from: u64, to: u64, reason: String },
    /// Nothing to show: seen already, or of no use to a viewer.
    Pass,
    /// Not the next one: the stream cannot be trusted, and is asked for again from `next`.
    Broken(String),
}

impl Place {
    /// What to give as `last_event_index`.
    pub(crate) fn last(&self) -> Option<u64> {
        self.next.checked_sub(1)
    }

    pub(crate) fn take(&mut self, event: &Event) -> Step {
        if event.name.as_deref() == Some("gap") {
            return self.gap(&event.data);
        }
        // Control frames have no id.
        let Some(id) = &event.id else { return Step::Pass };
        let frame: Value = match serde_json::from_str(&event.data) {
            Ok(frame) => frame,
            Err(cause) => return Step::Broken(format!("frame {id} is not JSON: {cause}")),
        };
        match frame["event_index"].as_u64() {
            Some(index) if index < self.next => Step::Pass,
            Some(index) if index == self.next => {
                self.next += 1;
                Step::Show(frame)
            }
            other => {
                Step::Broken(format!("frame {} was expected, {} came", self.next, other.map_or_else(|| "none".to_owned(), |index| index.to_string())))
            }
        }
    }

    fn gap(&mut self, data: &str) -> Step {
        let gap: Value = serde_json::from_str(data).unwrap_or_default();
        let (Some(from), Some(to)) = (gap["from"].as_u64(), gap["to"].as_u64()) else {
            return Step::Broken(format!("a gap without its ends: {data}"));
        };
        self.next = self.next.max(to.saturating_add(1));
        Step::Gone { from, to, reason: gap["reason"].as_str().unwrap_or("no longer kept").to_owned() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(index: u64, event: &str) -> Event {
        let data = format!(r#"{{"event":"{event}","event_index":{index}}}"#);
        Event { id: Some(index.to_string()), name: Some(event.into()), data }
    }

    fn control(name: &str, data: &str) -> Event {
        Event { id: None, name: Some(name.into()), data: data.into() }
    }

    #[test]
    fn each_frame_is_shown_once_whatever_is_replayed() {
        let mut place = Place::default();
        let stream = [0, 1, 0, 1, 2, 2, 3];
        let shown: Vec<u64> = stream
            .iter()
            .filter_map(|index| match place.take(&frame(*index, "RunContent")) {
                Step::Show(frame) => frame["event_index"].as_u64(),
                _ => None,
            })
            .collect();
        assert_eq!(shown, [0, 1, 2, 3]);
        assert_eq!(place.last(), Some(3));
    }

    #[test]
    fn a_frame_from_the_future_breaks_the_stream_and_moves_nothing() {
        let mut place = Place::default();
        place.take(&frame(0, "RunStarted"));
        assert!(matches!(place.take(&frame(2, "RunContent")), Step::Broken(_)));
        assert_eq!(place.last(), Some(0));
    }

    #[test]
    fn control_frames_move_nothing_but_a_gap_is_told_and_passed() {
        let mut place = Place::default();
        assert_eq!(place.take(&control("subscribed", "{}")), Step::Pass);
        let gone = place.take(&control("gap", r#"{"from":0,"to":41,"reason":"retention"}"#));
        assert_eq!(gone, Step::Gone { from: 0, to: 41, reason: "retention".into() });
        assert!(matches!(place.take(&frame(42, "RunContent")), Step::Show(_)));
    }
}
