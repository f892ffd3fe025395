//! The api as a function: the same routes, with answers that are streamed while they are made and end before the invocation does.

use std::time::{Duration, SystemTime};

use axum::extract::Request;
use axum::middleware::{Next, from_fn};
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
    run_with_streaming_response_concurrent(router(parts).layer(from_fn(deadline))).await
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
