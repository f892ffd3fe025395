//! `/health`: what answers and what does not.

use std::sync::Arc;

use adapters::LogError;
use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use serde_json::json;

use crate::app::App;

pub(crate) async fn health(State(app): State<Arc<App>>) -> Response {
    match app.reader.health().await {
        Ok(health) => Json(json!({ "status": "ok", "postgres": { "status": "ok", "schema": health.schema } })).into_response(),
        Err(error) => {
            tracing::warn!(error = &error as &dyn std::error::Error, "api.health: Postgres does not answer");
            let status = if matches!(error, LogError::Unreachable(_)) { "unreachable" } else { "unfit" };
            let detail = format!("Postgres is {status}");
            let body = json!({ "detail": detail, "status": "unavailable", "postgres": { "status": status } });
            (StatusCode::SERVICE_UNAVAILABLE, Json(body)).into_response()
        }
    }
}
