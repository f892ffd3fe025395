//! `/openapi.json`: what the routes are, from the code that serves them.
//!
//! Handlers say what is theirs where they are registered; what holds for all of them (who may ask, the shape of refusals, headers) is added in
//! `finish`.
//! The document is also what the router keeps to: a parameter that is not in it is refused (`strict`).

mod finish;
pub(crate) mod paths;
mod strict;

use std::sync::Arc;

use axum::http::HeaderValue;
use axum::http::header::CONTENT_TYPE;
use axum::middleware::from_fn_with_state;
use axum::response::{IntoResponse, Response};
use axum::{Extension, Router};
use bytes::Bytes;
use serde_json::Value;
use utoipa::OpenApi;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::app::{self, App};
use crate::{render, respond};
use strict::Known;

#[derive(OpenApi)]
#[openapi(
    info(title = "Sandlog", description = ABOUT),
    servers((url = "/", description = "Where this document came from")),
    components(schemas(respond::Detail, respond::Faults, render::StreamFrame, render::ControlFrame)),
    tags(
        (name = "runs", description = "Turns of sandboxed agents: submitted, read, streamed, cancelled"),
        (name = "sessions", description = "Runs that share a workspace and take turns"),
        (name = "agents", description = "What is registered"),
        (name = "queue", description = "For operators"),
        (name = "service", description = "The service itself"),
    ),
)]
struct About;

const ABOUT: &str = "Sandboxed coding agents behind the run routes of Agno's AgentOS.

A refusal is always JSON with `detail`, and leaves nothing behind. A parameter, field or option that is not described here is refused by name.
`HEAD` is answered wherever `GET` is; another method that a route does not have is 405 with `Allow`, a path that is no route 404.

What is not HTTP, or is beyond what a listener reads (a request line of 64 KiB, a head of 72 KiB, 100 headers), is answered by 400, 414 or 431 without a body, before
any of this.";

/// This document
#[utoipa::path(
    get,
    path = "/openapi.json",
    tag = "service",
    operation_id = "openapi",
    responses((status = 200, description = "This document", body = Object, content_type = "application/json"))
)]
async fn openapi(Extension(Document(text)): Extension<Document>) -> Response {
    ([(CONTENT_TYPE, HeaderValue::from_static("application/json"))], text).into_response()
}

/// The document as text.
#[derive(Clone)]
struct Document(Bytes);

/// Everything that is routed, with its description.
fn described() -> OpenApiRouter<Arc<App>> {
    OpenApiRouter::with_openapi(About::openapi()).routes(routes!(openapi)).merge(app::described())
}

/// The document.
fn document() -> Value {
    finish::finish(described().into_openapi())
}

/// The routes, held to the document, and the document among them.
pub(crate) fn router() -> Router<Arc<App>> {
    let (router, _) = described().split_for_parts();
    let document = document();
    let known = Arc::new(Known::of(&document));
    router.route_layer(from_fn_with_state(known, strict::strict)).layer(Extension(Document(document.to_string().into())))
}

#[cfg(test)]
mod tests;
