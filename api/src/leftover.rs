//! What a client still sends when it has been refused.
//!
//! An answer to a request that was not read to its end makes the server close the connection, and a client that is still writing then sees a
//! broken pipe and no answer. So what is left is read and dropped first, within limits; of a client that nobody knows behind its answer, and little.

use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, BodyDataStream, HttpBody};
use axum::extract::Request;
use axum::http::header::EXPECT;
use futures_util::{StreamExt, stream};
use tokio::sync::Mutex;

const BYTES: usize = 128 * 1024 * 1024;
const TIME: Duration = Duration::from_secs(10);
/// What the largest submission has that is in order, and the time that it takes to come in when it is on its way.
const UNKNOWN_BYTES: usize = 8 * 1024 * 1024;
const UNKNOWN_TIME: Duration = Duration::from_secs(2);

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
    /// For a client that is known, before it is answered.
    pub(crate) async fn drain(self) {
        self.read(BYTES, TIME).await;
    }

    /// For a client that is not, while it is answered.
    pub(crate) fn drain_behind(self) {
        tokio::spawn(async move { self.read(UNKNOWN_BYTES, UNKNOWN_TIME).await });
    }

    async fn read(self, most: usize, time: Duration) {
        let mut rest = self.0.lock().await;
        let mut bytes = 0;
        let draining = async {
            while let Some(Ok(chunk)) = rest.next().await {
                bytes += chunk.len();
                if bytes > most {
                    break;
                }
            }
        };
        // Where it takes longer the client does without an answer.
        let _ = tokio::time::timeout(time, draining).await;
    }
}
