//! What this process wants to hear of. A carrier reads it, and is woken when there is more.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;
use uuid::Uuid;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Topic {
    Run(Uuid),
    Cancel(Uuid),
    Work,
}

/// A topic that is followed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Followed {
    followers: usize,
    /// No other following has it: one that ended and began again starts from its own place.
    pub(crate) number: u64,
    /// Of a run: signals of frames before this index are of no use.
    pub(crate) from: u32,
}

#[derive(Debug, Default)]
pub(crate) struct Topics {
    followed: Mutex<(u64, HashMap<Topic, Followed>)>,
    /// There is something new to follow.
    pub(crate) grown: Notify,
}

/// A wish to hear of something. Ends when it is dropped.
#[derive(Debug)]
#[must_use = "dropped, it ends"]
pub struct Following {
    topics: Arc<Topics>,
    topic: Topic,
}

impl Topics {
    /// The map is whole after every step, so one that a panic left behind is still good.
    fn lock(&self) -> MutexGuard<'_, (u64, HashMap<Topic, Followed>)> {
        self.followed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn follow(self: &Arc<Self>, topic: Topic, from: u32) -> Following {
        let mut held = self.lock();
        let (last, followed) = &mut *held;
        *last += 1;
        let number = *last;
        let one = followed.entry(topic).or_insert(Followed { followers: 0, number, from });
        one.followers += 1;
        // Who comes later may be further back.
        if from < one.from {
            (one.number, one.from) = (number, from);
        }
        if one.number == number {
            self.grown.notify_one();
        }
        Following { topics: Arc::clone(self), topic }
    }

    pub(crate) fn all(&self) -> HashMap<Topic, Followed> {
        self.lock().1.clone()
    }

    pub(crate) fn is_followed(&self, topic: Topic) -> bool {
        self.lock().1.contains_key(&topic)
    }
}

impl Drop for Following {
    fn drop(&mut self) {
        let mut held = self.topics.lock();
        if let Some(one) = held.1.get_mut(&self.topic) {
            one.followers -= 1;
            if one.followers == 0 {
                held.1.remove(&self.topic);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_topic_is_followed_as_long_as_anybody_does() {
        let (topics, run) = (Arc::new(Topics::default()), Topic::Run(Uuid::nil()));
        let (first, second) = (topics.follow(run, 5), topics.follow(run, 7));
        let number = topics.all()[&run].number;
        drop(first);
        assert_eq!((topics.all()[&run].from, topics.all()[&run].number), (5, number));
        drop(second);
        assert!(!topics.is_followed(run));
        let _again = topics.follow(run, 7);
        assert_ne!(topics.all()[&run].number, number, "it starts from its own place");
    }
}
