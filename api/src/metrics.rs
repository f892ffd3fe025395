//! `/metrics`: what this process counts, for Prometheus. A function has none: its numbers would be those of whichever environment answers.

use std::sync::Arc;

use adapters::metrics::OPEN_METRICS;
use axum::extract::State;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use tokio::time::timeout;

use crate::app::App;
use crate::respond::Refusal;

/// What this process counts, for Prometheus
#[utoipa::path(
    get,
    path = "/metrics",
    tag = "service",
    operation_id = "metrics",
    responses(
        (status = 200, description = "OpenMetrics", body = String, content_type = "application/openmetrics-text"),
        (status = 404, description = "This is a function: its numbers would be those of whichever environment answers"),
    )
)]
pub(crate) async fn metrics(State(app): State<Arc<App>>) -> Result<Response, Refusal> {
    if app.options.is_function {
        return Err(Refusal::NotFound);
    }
    let unended = timeout(app.options.probe_limit, app.reader.unended()).await.ok().and_then(Result::ok);
    Ok(([(CONTENT_TYPE, OPEN_METRICS)], app.metrics.text(unended)).into_response())
}
