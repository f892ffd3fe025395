//! What holds for every request and answer: an id, and an answer also when we fail.

use std::panic::AssertUnwindSafe;

use axum::extract::{FromRequestParts, Path, Request};
use axum::http::header::CONNECTION;
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderName, HeaderValue};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use futures_util::FutureExt;
use serde::de::DeserializeOwned;
use tracing::Instrument;
use uuid::Uuid;

use crate::auth::Admitted;
use crate::leftover;
use crate::respond::Refusal;

const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

pub(crate) async fn edge(request: Request, next: Next) -> Response {
    let id = kept(request.headers()).unwrap_or_else(made);
    let span = tracing::info_span!("api.request", method = %request.method(), path = request.uri().path(), id = id.to_str().unwrap_or_default());
    let (request, leftover) = leftover::of(request);
    let answer = AssertUnwindSafe(next.run(request).instrument(span.clone())).catch_unwind().await;
    let mut response = answer.unwrap_or_else(|_| {
        span.in_scope(|| tracing::error!("api: a handler panicked"));
        Refusal::Crashed.into_response()
    });
    if let Some(leftover) = leftover
        && !response.status().is_success()
    {
        if response.extensions().get::<Admitted>().is_some() {
            leftover.drain().await;
        } else {
            response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
            leftover.drain_behind();
        }
    }
    response.headers_mut().insert(REQUEST_ID, id);
    response
}

/// The client's own id, where it is one that may go into a log as it is.
fn kept(headers: &HeaderMap) -> Option<HeaderValue> {
    let sane =
        |id: &&HeaderValue| (1..=128).contains(&id.len()) && id.as_bytes().iter().all(|byte| byte.is_ascii_alphanumeric() || b"-_.:".contains(byte));
    headers.get(REQUEST_ID).filter(sane).cloned()
}

fn made() -> HeaderValue {
    HeaderValue::from_str(&Uuid::now_v7().to_string()).unwrap_or_else(|_| HeaderValue::from_static("unknown"))
}

/// The ids of a path. What cannot be one is not found.
pub(crate) struct Ids<T>(pub(crate) T);

impl<S: Send + Sync, T: DeserializeOwned + Send> FromRequestParts<S> for Ids<T> {
    type Rejection = Refusal;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Refusal> {
        let Path(ids) = Path::<T>::from_request_parts(parts, state).await.map_err(|_| Refusal::NotFound)?;
        Ok(Self(ids))
    }
}
