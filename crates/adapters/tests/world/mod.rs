//! What a case needs of a log beyond its ports.

mod postgres;

pub(crate) use postgres::{Schema, client, postgres};

use std::sync::Arc;

use adapters::memory::Memory;
use adapters::queue::Queue;
use adapters::{Driver, Intake, Reader};
use async_trait::async_trait;

pub(crate) trait Log: Intake + Reader + Driver + Queue {}
impl<T: Intake + Reader + Driver + Queue> Log for T {}

#[async_trait]
pub(crate) trait World: Send + Sync {
    fn log(&self) -> Arc<dyn Log>;
    /// Some milliseconds pass by the log's clock.
    async fn moment(&self);
    /// As if so long had passed since all that was seen, held or submitted.
    async fn age(&self, ms: i64);
}

/// Asks until there is an answer. What takes longer than any machine's hiccup never comes.
pub(crate) async fn eventually<T>(world: &dyn World, what: &str, mut ask: impl AsyncFnMut() -> Option<T>) -> T {
    for _ in 0..2_000 {
        if let Some(answer) = ask().await {
            return answer;
        }
        world.moment().await;
    }
    panic!("never came: {what}");
}

/// Time is moved, so a case with leases takes no longer than one without.
struct InMemory(Arc<Memory>);

pub(crate) async fn memory() -> impl World {
    InMemory(Arc::new(Memory::new()))
}

#[async_trait]
impl World for InMemory {
    fn log(&self) -> Arc<dyn Log> {
        self.0.clone()
    }

    async fn moment(&self) {
        self.0.advance(10);
    }

    async fn age(&self, ms: i64) {
        self.0.advance(ms);
    }
}
