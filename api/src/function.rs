//! The api as a function: the same routes, with answers that are streamed while they are made and end before the invocation does.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, SystemTime};

use adapters::program;
use axum::extract::{Request, State};
use axum::middleware::{Next, from_fn, from_fn_with_state};
use axum::response::Response;
use lambda_http::RequestExt;
use lambda_http::{Error, run_with_streaming_response_concurrent};
use tokio::time::Instant;

use crate::{Parts, Until, router};

/// A stream ends so long before its invocation: `retry` has to reach the client, which then goes on with another.
const MARGIN: Duration = Duration::from_secs(5);

/// Serves the Lambda runtime that the environment names.
pub async fn serve(parts: Parts) -> Result<(), Error> {
    if parts.auth.is_none() {
        tracing::warn!("api.auth: SANDLOG_AUTH is `none`: whoever can reach this function can run agents and read everything");
    }
    let served = Arc::new(AtomicU64::new(0));
    let router = router(parts).layer(from_fn(deadline)).layer(from_fn_with_state(Arc::clone(&served), count));
    program::lasting(&served, || run_with_streaming_response_concurrent(router.clone())).await
}

async fn count(State(served): State<Arc<AtomicU64>>, request: Request, next: Next) -> Response {
    served.fetch_add(1, Relaxed);
    next.run(request).await
}

async fn deadline(mut request: Request, next: Next) -> Response {
    let end = request.lambda_context_ref().and_then(|context| until(context.deadline(), SystemTime::now()));
    if let Some(end) = end {
        request.extensions_mut().insert(end);
    }
    next.run(request).await
}

/// A deadline in the past is what an emulator says that does not know.
fn until(deadline: SystemTime, now: SystemTime) -> Option<Until> {
    let left = deadline.duration_since(now).ok().filter(|left| !left.is_zero())?;
    Instant::now().checked_add(left.saturating_sub(MARGIN)).map(Until)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stream_ends_before_its_invocation_where_that_has_an_end() {
        let now = SystemTime::now();
        let left = |ahead| until(now + Duration::from_secs(ahead), now).map(|Until(end)| end.saturating_duration_since(Instant::now()));
        assert!(left(60).is_some_and(|left| left <= Duration::from_secs(55) && left > Duration::from_secs(50)));
        assert_eq!(left(3), Some(Duration::ZERO));
        assert!(until(SystemTime::UNIX_EPOCH + Duration::from_secs(600), now).is_none());
    }
}
