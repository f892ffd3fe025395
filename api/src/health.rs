//! `/health`: what answers and what does not. Only Postgres is needed; what carries signals, and the queue, cost time when they are away.

use std::sync::Arc;

use adapters::{Carried, LogError, RingState};
use axum::Json;
use axum::extract;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use utoipa::ToSchema;

use crate::app::App;

/// What answers and what does not.
#[derive(Serialize, ToSchema)]
pub(crate) struct Health {
    /// What is wrong, where something is.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    detail: Option<String>,
    /// `ok` or `unavailable`.
    status: &'static str,
    postgres: Postgres,
    /// Where it carries signals.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    redis: Option<State>,
    signals: Carrier,
    /// Where one rings workers.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    queue: Option<State>,
}

#[derive(Serialize, ToSchema)]
struct State {
    /// `ok`, `unreachable` or `unknown`.
    status: &'static str,
}

/// What tells instances of each other's commits.
#[derive(Serialize, ToSchema)]
struct Carrier {
    /// `redis`, `listen` or `poll`.
    carrier: &'static str,
    /// `ok`, `late` while it is away, or `off` where nothing carries them.
    status: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    reason: Option<String>,
}

#[derive(Serialize, ToSchema)]
struct Postgres {
    /// `ok`, `unreachable` or `unfit`.
    status: &'static str,
    /// The version of the schema.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    schema: Option<u32>,
}

/// Whether this instance can serve
#[utoipa::path(
    get,
    path = "/health",
    tag = "service",
    operation_id = "health",
    responses((status = 200, description = "It can", body = Health), (status = 503, description = "Postgres does not answer", body = Health))
)]
pub(crate) async fn health(extract::State(app): extract::State<Arc<App>>) -> Response {
    let (code, detail, status, postgres) = match app.reader.health().await {
        Ok(health) => (StatusCode::OK, None, "ok", Postgres { status: "ok", schema: Some(health.schema) }),
        Err(error) => {
            tracing::warn!(error = &error as &dyn std::error::Error, "api.health: Postgres does not answer");
            let status = if matches!(error, LogError::Unreachable(_)) { "unreachable" } else { "unfit" };
            let detail = Some(format!("Postgres is {status}"));
            (StatusCode::SERVICE_UNAVAILABLE, detail, "unavailable", Postgres { status, schema: None })
        }
    };
    let carried = app.signals.carried().borrow().clone();
    let redis = (carried.carrier == "redis").then_some(State { status: if carried.up { "ok" } else { "unreachable" } });
    let queue = app.ring.state().map(|state| State {
        status: match state {
            RingState::Unknown => "unknown",
            RingState::Ok => "ok",
            RingState::Unreachable => "unreachable",
        },
    });
    (code, Json(Health { detail, status, postgres, redis, signals: carried.into(), queue })).into_response()
}

impl From<Carried> for Carrier {
    fn from(Carried { carrier, up, why }: Carried) -> Self {
        Self {
            carrier,
            status: match carrier {
                _ if up => "ok",
                "poll" => "off",
                _ => "late",
            },
            reason: why,
        }
    }
}
