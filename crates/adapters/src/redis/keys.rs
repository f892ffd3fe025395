//! The names of a deployment's streams.

use std::sync::Arc;

use uuid::Uuid;

use crate::signals::Topic;

#[derive(Clone, Debug)]
pub(super) struct Keys {
    prefix: Arc<str>,
}

impl Keys {
    pub(super) fn new(prefix: &str) -> Self {
        Self { prefix: prefix.into() }
    }

    pub(super) fn of(&self, topic: Topic) -> String {
        match topic {
            Topic::Run(run_id) => format!("{}run:{run_id}", self.prefix),
            Topic::Cancel(run_id) => format!("{}cancel:{run_id}", self.prefix),
            Topic::Work => format!("{}work", self.prefix),
        }
    }

    /// The stream by which a process interrupts its own read.
    pub(super) fn nudge(&self, instance: Uuid) -> String {
        format!("{}nudge:{instance}", self.prefix)
    }

    pub(super) fn topic(&self, key: &str) -> Option<Topic> {
        let name = key.strip_prefix(&*self.prefix)?;
        match name.split_once(':') {
            Some(("run", id)) => id.parse().ok().map(Topic::Run),
            Some(("cancel", id)) => id.parse().ok().map(Topic::Cancel),
            None if name == "work" => Some(Topic::Work),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_known_again_under_its_own_prefix_only() {
        let (ours, theirs) = (Keys::new("a:"), Keys::new("a:b:"));
        for topic in [Topic::Run(Uuid::max()), Topic::Cancel(Uuid::max()), Topic::Work] {
            assert_eq!(ours.topic(&ours.of(topic)), Some(topic));
            assert_eq!(theirs.topic(&ours.of(topic)), None);
            assert_eq!(ours.topic(&theirs.of(topic)), None);
        }
        assert_eq!(ours.topic(&ours.nudge(Uuid::max())), None);
    }
}
