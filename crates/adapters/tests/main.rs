//! One suite for every log: each case runs against each world.
//!
//! A case sees the ports and nothing else. What it must not know is behind [`world::World`]: how a log is made, and how time passes.

mod cases;
mod kit;
mod world;

macro_rules! suite {
    ($($subject:ident: $($case:ident),+ $(,)?;)+) => {
        mod memory {
            $(mod $subject {
                $(#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
                async fn $case() {
                    crate::cases::$subject::$case(&crate::world::memory()).await;
                })+
            })+
        }
    };
}

cases::each!(suite);
