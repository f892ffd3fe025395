//! One suite for every log: each case runs against each world.
//!
//! A case sees the ports and nothing else. What it must not know is behind [`world::World`]: how a log is made, and how time passes.

#[cfg(test)]
mod cases;
#[cfg(test)]
mod kit;
#[cfg(test)]
mod model;
#[cfg(test)]
mod schema;
#[cfg(test)]
mod signals;
#[cfg(test)]
mod tls;
#[cfg(test)]
mod world;

macro_rules! suite {
    ($world:ident $($subject:ident: $($case:ident),+ $(,)?;)+) => {
        mod $world {
            $(mod $subject {
                $(#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
                async fn $case() {
                    crate::cases::$subject::$case(&crate::world::$world().await).await;
                })+
            })+
        }
    };
}

cases::each!(suite memory);
cases::each!(suite postgres);
