//! One viewer: it pulls, and never gets any frame but the next one.

use std::sync::Arc;
use std::time::Duration;

use adapters::LogError;
use tokio::time::{Instant, sleep, timeout_at};

use super::{Feed, INDEX_END, Shared};
use crate::render::{Chunk, Identity};

/// A page from the log grows while its text is short and shrinks when it is long, so that what a viewer holds stays small. Of two events at least: one
/// that is not full then says that the end is near.
const SMALLEST_PAGE: u32 = 2;
const LARGEST_PAGE: u32 = 64;
const LONG: usize = 64 * 1024;
const PAUSE: Duration = Duration::from_millis(200);
const LONGEST_PAUSE: Duration = Duration::from_secs(2);

#[derive(Debug)]
pub(crate) enum Step {
    /// The frames after those before. Where the log no longer keeps frame `asked`, the chunk starts later, and whoever shows it says so.
    Chunk {
        asked: u32,
        chunk: Chunk,
    },
    /// What is stored has been given; from here on frames come as they are committed. Said once.
    Live,
    End,
}

/// Everything in it changes between awaits only, so [`View::next`] may be dropped half way and asked again.
pub(crate) struct View {
    shared: Arc<Shared>,
    identity: Arc<Identity>,
    next: u32,
    page: u32,
    /// The last page was not full.
    near: bool,
    feed: Option<Feed>,
    /// The run has been looked at since the feed was taken.
    live: bool,
    /// The run has ended: what is not in the log now never will be.
    ended: bool,
    /// A frame was given, so `next` is a place in the log and no claim of the client.
    placed: bool,
    done: bool,
    pause: Duration,
    /// When to see whether the run is still there, if nothing is heard of it.
    look: Instant,
}

impl View {
    pub(super) fn new(shared: Arc<Shared>, identity: Arc<Identity>, next: u32) -> Self {
        let (next, look) = (next.min(INDEX_END), Instant::now() + shared.settings.silence);
        Self {
            shared,
            identity,
            next,
            page: SMALLEST_PAGE,
            near: false,
            feed: None,
            live: false,
            ended: false,
            placed: next == 0,
            done: false,
            pause: PAUSE,
            look,
        }
    }

    /// The run has just been accepted: nothing is stored, and there is no need to look.
    pub(crate) fn of_a_new_run(mut self) -> Self {
        self.feed = Some(self.shared.feed(&self.identity, 0));
        self.live = true;
        self
    }

    pub(crate) fn of_an_ended_run(mut self) -> Self {
        self.ended = true;
        self
    }

    pub(crate) fn is_done(&self) -> bool {
        self.done
    }

    pub(crate) fn identity(&self) -> &Identity {
        &self.identity
    }

    pub(crate) fn index(&self) -> u32 {
        self.next
    }

    /// The log may be away for a while; the viewer then waits and goes on.
    pub(crate) async fn next(&mut self) -> Step {
        loop {
            match self.step().await {
                Ok(step) => {
                    self.pause = PAUSE;
                    return step;
                }
                Err(error) => {
                    if self.pause == PAUSE {
                        tracing::warn!(error = &error as &dyn std::error::Error, run = %self.identity.run_id, "api.view: the log does not answer");
                    }
                    let pause = self.pause;
                    self.pause = (pause * 2).min(LONGEST_PAUSE);
                    sleep(pause).await;
                }
            }
        }
    }

    async fn step(&mut self) -> Result<Step, LogError> {
        loop {
            if self.done {
                return Ok(Step::End);
            }
            let Some(feed) = &mut self.feed else {
                if let Some(chunk) = self.stored().await? {
                    // The end of what is stored is near. A run that writes all the time would else be read page by page for ever.
                    if self.near && !self.ended && !chunk.terminal {
                        self.feed = Some(self.shared.feed(&self.identity, chunk.next));
                    }
                    return Ok(self.give(chunk));
                }
                if self.ended {
                    self.done = true;
                } else {
                    let head = if self.is_placed().await? { self.next } else { self.shared.head(self.identity.run_id).await?.min(self.next) };
                    self.feed = Some(self.shared.feed(&self.identity, head));
                }
                continue;
            };
            if !self.live {
                // Only now is it certain that nothing falls between what is stored and what comes.
                let run = self.shared.reader.run(&self.identity.agent_id, self.identity.run_id, None).await?;
                if run.is_none_or(|run| run.status.has_ended()) {
                    (self.ended, self.feed) = (true, None);
                    continue;
                }
                self.live = true;
                return Ok(Step::Live);
            }
            let head = *feed.head.borrow_and_update();
            if let Some(chunk) = feed.get(self.next) {
                return Ok(self.give(chunk));
            }
            if head.next > self.next {
                match self.stored().await? {
                    Some(chunk) => return Ok(self.give(chunk)),
                    // The log had it and has it no longer: the session was erased.
                    None => self.done = true,
                }
            } else if head.ended {
                self.done = true;
            } else if timeout_at(self.look, feed.head.changed()).await.is_err() {
                // Its session may have been erased before anybody here saw its end, and then nothing would ever come.
                self.done = self.shared.reader.run(&self.identity.agent_id, self.identity.run_id, None).await?.is_none();
                self.look = Instant::now() + self.shared.settings.silence;
            }
        }
    }

    async fn stored(&mut self) -> Result<Option<Chunk>, LogError> {
        let events = self.shared.reader.frames(self.identity.run_id, self.next, self.page).await?;
        let chunk = self.identity.chunk(&events, self.next);
        self.near = events.len() < self.page as usize;
        if let Some(chunk) = &chunk {
            self.page = if chunk.text.len() > LONG { (self.page / 4).max(SMALLEST_PAGE) } else { (self.page * 2).min(LARGEST_PAGE) };
        }
        Ok(chunk)
    }

    /// Whether the frame before the next one is in the log, as a client that asks for the next one says.
    async fn is_placed(&self) -> Result<bool, LogError> {
        Ok(self.placed || !self.shared.reader.frames(self.identity.run_id, self.next - 1, 1).await?.is_empty())
    }

    fn give(&mut self, chunk: Chunk) -> Step {
        let asked = std::mem::replace(&mut self.next, chunk.next);
        (self.placed, self.done) = (true, chunk.terminal);
        self.look = Instant::now() + self.shared.settings.silence;
        Step::Chunk { asked, chunk }
    }
}
