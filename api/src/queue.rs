//! `/queue`: what operators see of all runs, and the one thing that they do with them.
//!
//! A job is a run without what was said in it, whoever's it is: these routes are for who has `agent_os:admin`.

use std::sync::Arc;

use adapters::queue::{Job, QueueError, Requeued};
use axum::extract::State;
use axum::http::header::LOCATION;
use axum::http::{HeaderValue, StatusCode, Uri};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use serde_json::{Map, Value, json};
use tracing::Instrument;
use uuid::Uuid;

use crate::app::App;
use crate::edge::Ids;
use crate::fields::Query;
use crate::respond::Refusal;
use crate::{runs, show};

pub(crate) fn routes() -> Router<Arc<App>> {
    Router::new()
        .route("/queue/stats", get(stats))
        .route("/queue/jobs", get(list))
        .route("/queue/jobs/{run}", get(one))
        .route("/queue/jobs/{run}/requeue", post(requeue))
}

async fn stats(State(app): State<Arc<App>>) -> Result<Json<Value>, Refusal> {
    let stats = app.queue.stats().await?;
    let counts = stats.counts;
    let age = stats.oldest.map(|oldest| (stats.now - oldest).max(0));
    Ok(Json(json!({
        "counts": {
            "PENDING": counts.pending, "RUNNING": counts.running, "COMPLETED": counts.completed, "ERROR": counts.error, "CANCELLED": counts.cancelled,
        },
        "limit": app.options.queue_limit,
        "oldest_pending": stats.oldest.map(show::seconds),
        "oldest_pending_age": age.map(|age| age as f64 / 1000.0),
    })))
}

async fn list(State(app): State<Arc<App>>, uri: Uri) -> Result<Json<Value>, Refusal> {
    let query = Query::of(&uri)?;
    let limit = query.limit(20, 100)?;
    let page = app.queue.jobs(runs::status(&query)?, query.cursor()?, limit).await?;
    Ok(Json(show::page(page.items.iter().map(job).collect(), limit, page.next)))
}

async fn one(State(app): State<Arc<App>>, Ids(run_id): Ids<String>) -> Result<Json<Value>, Refusal> {
    let run_id = runs::id(&run_id).ok_or(Refusal::RunNotFound)?;
    Ok(Json(job(&app.queue.job(run_id).await?.ok_or(Refusal::RunNotFound)?)))
}

async fn requeue(State(app): State<Arc<App>>, Ids(run_id): Ids<String>) -> Result<Response, Refusal> {
    let run_id = runs::id(&run_id).ok_or(Refusal::RunNotFound)?;
    let new = again(&app, run_id).await?;
    let body = json!({
        "run_id": new.run_id, "session_id": new.session_id, "agent_id": new.agent_id, "status": ::runs::Status::Pending, "requeued_from": run_id,
    });
    let mut response = (StatusCode::ACCEPTED, Json(body)).into_response();
    if let Ok(location) = HeaderValue::from_str(&format!("/agents/{}/runs/{}", new.agent_id, new.run_id)) {
        response.headers_mut().insert(LOCATION, location);
    }
    Ok(response)
}

/// On a task of its own: a client that goes away half way leaves either nothing or a run that is told of.
async fn again(app: &Arc<App>, run_id: Uuid) -> Result<Requeued, Refusal> {
    let app = app.clone();
    let requeueing = async move {
        let new = app.queue.requeue(run_id).await.map_err(|error| match error {
            QueueError::Unknown => Refusal::RunNotFound,
            QueueError::NotEnded => Refusal::RunNotEnded,
            QueueError::Log(error) => error.into(),
        })?;
        app.ring(new.session).await;
        Ok(new)
    };
    tokio::spawn(requeueing.in_current_span()).await.map_err(|_| Refusal::Crashed)?
}

fn job(job: &Job) -> Value {
    let mut shown = Map::new();
    let mut put = |key: &str, value: Value| shown.insert(key.into(), value);
    put("run_id", json!(job.run_id));
    put("agent_id", json!(job.agent_id));
    put("session_id", json!(job.session_id));
    put("user_id", json!(job.user_id));
    put("status", json!(job.status));
    put("sandbox", json!(job.kind));
    put("attempt", json!(job.attempt));
    put("created_at", json!(show::seconds(job.created_at)));
    put("started_at", json!(job.started_at.map(show::seconds)));
    put("ended_at", json!(job.ended_at.map(show::seconds)));
    let optional = [
        ("cancel_requested", job.cancel_requested.then_some(json!(true))),
        ("worker", job.held.as_ref().map(|held| json!(held.worker))),
        ("lease_until", job.held.as_ref().map(|held| json!(show::seconds(held.lease_until)))),
        ("host", job.host.as_ref().map(|host| json!(host))),
        ("retry_at", job.retry_at.map(|at| json!(show::seconds(at)))),
        ("requeued_from", job.requeued_from.map(|run| json!(run))),
        ("error", job.failure.as_ref().map(|(error, _)| json!(error))),
        ("error_type", job.failure.as_ref().map(|(_, kind)| json!(kind))),
        ("files", job.files.as_ref().map(|files| files.iter().map(show::file).collect())),
    ];
    for (key, value) in optional {
        value.map(|value| put(key, value));
    }
    Value::Object(shown)
}
