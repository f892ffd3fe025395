//! `/health`: what answers and what does not.

use std::sync::Arc;

use adapters::LogError;
use axum::Json;
use axum::extract::State;
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
pub(crate) async fn health(State(app): State<Arc<App>>) -> Response {
    match app.reader.health().await {
        Ok(health) => {
            let postgres = Postgres { status: "ok", schema: Some(health.schema) };
            Json(Health { detail: None, status: "ok", postgres }).into_response()
        }
        Err(error) => {
            tracing::warn!(error = &error as &dyn std::error::Error, "api.health: Postgres does not answer");
            let status = if matches!(error, LogError::Unreachable(_)) { "unreachable" } else { "unfit" };
            let detail = Some(format!("Postgres is {status}"));
            let body = Health { detail, status: "unavailable", postgres: Postgres { status, schema: None } };
            (StatusCode::SERVICE_UNAVAILABLE, Json(body)).into_response()
        }
    }
}
