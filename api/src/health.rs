//! `/health`: what answers and what does not. Only Postgres is needed; what carries signals, and the queue, cost time when they are away.

use std::sync::Arc;

use adapters::{Carried, LogError, RingState};
use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use serde_json::{Value, json};

use crate::app::App;

pub(crate) async fn health(State(app): State<Arc<App>>) -> Response {
    let (status, mut body) = match app.reader.health().await {
        Ok(health) => (StatusCode::OK, json!({ "status": "ok", "postgres": { "status": "ok", "schema": health.schema } })),
        Err(error) => {
            tracing::warn!(error = &error as &dyn std::error::Error, "api.health: Postgres does not answer");
            let status = if matches!(error, LogError::Unreachable(_)) { "unreachable" } else { "unfit" };
            let detail = format!("Postgres is {status}");
            let body = json!({ "detail": detail, "status": "unavailable", "postgres": { "status": status } });
            (StatusCode::SERVICE_UNAVAILABLE, body)
        }
    };
    let carried = app.signals.carried().borrow().clone();
    if carried.carrier == "redis" {
        body["redis"] = json!({ "status": if carried.up { "ok" } else { "unreachable" } });
    }
    body["signals"] = signals(&carried);
    if let Some(state) = app.ring.state() {
        let status = match state {
            RingState::Unknown => "unknown",
            RingState::Ok => "ok",
            RingState::Unreachable => "unreachable",
        };
        body["queue"] = json!({ "status": status });
    }
    (status, Json(body)).into_response()
}

fn signals(carried: &Carried) -> Value {
    let mut signals = json!({ "carrier": carried.carrier, "status": if carried.up { "ok" } else { "late" } });
    if let Some(why) = &carried.why {
        signals["reason"] = json!(why);
    }
    signals
}
