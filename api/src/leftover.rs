//! What a client still sends when it has been refused.
//!
//! An answer to a request that was not read to its end makes the server close the connection, and a client that is still writing then sees a
//! broken pipe and no answer. So what is left is read and dropped first, within limits.

use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, BodyDataStream, HttpBody};
use axum::extract::Request;
use axum::http::header::EXPECT;
use futures_util::{StreamExt, stream};
use tokio::sync::Mutex;

const BYTES: usize = 128 * 1024 * 1024;
const TIME: Duration = Duration::from_secs(10);

pub(crate) struct Leftover(Arc<Mutex<BodyDataStream>>);

/// The request, and a hold on what it leaves of its body. A client that asks before it sends is not made to.
pub(crate) fn of(request: Request) -> (Request, Option<Leftover>) {
    let (parts, body) = request.into_parts();
    if body.is_end_stream() || parts.headers.contains_key(EXPECT) {
        return (Request::from_parts(parts, body), None);
    }
    let shared = Arc::new(Mutex::new(body.into_data_stream()));
    let chunks = stream::unfold(shared.clone(), |shared| async move {
        let chunk = shared.lock().await.next().await?;
        Some((chunk, shared))
    });
    (Request::from_parts(parts, Body::from_stream(chunks)), Some(Leftover(shared)))
}

impl Leftover {
    pub(crate) async fn drain(self) {
        let mut rest = self.0.lock().await;
        let mut bytes = 0;
        let draining = async {
            while let Some(Ok(chunk)) = rest.next().await {
                bytes += chunk.len();
                if bytes > BYTES {
                    break;
                }
            }
        };
        // Where it takes longer the client does without an answer.
        let _ = tokio::time::timeout(TIME, draining).await;
    }
}
