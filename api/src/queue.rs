//! `/queue`: what operators see of all runs, and the one thing that they do with them.
//!
//! A job is a run without what was said in it, whoever's it is: these routes are for who has `agent_os:admin`.

use std::sync::Arc;

use ::runs::Status;
use adapters::queue::{Job, QueueError, Requeued};
use axum::Json;
use axum::extract::State;
use axum::http::header::LOCATION;
use axum::http::{HeaderValue, StatusCode, Uri};
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use tracing::Instrument;
use utoipa::ToSchema;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;
use uuid::Uuid;

use crate::app::App;
use crate::edge::Ids;
use crate::fields::Query;
use crate::openapi::paths::OfJob;
use crate::respond::Refusal;
use crate::show::{self, Page};
use crate::{Checkpoints, runs, submit};

pub(crate) fn described() -> OpenApiRouter<Arc<App>> {
    OpenApiRouter::new().routes(routes!(stats)).routes(routes!(list)).routes(routes!(one)).routes(routes!(requeue))
}

#[derive(Serialize, ToSchema)]
struct Stats {
    counts: Counts,
    /// How many may wait before submissions are refused; nothing: any number.
    #[schema(required)]
    limit: Option<u32>,
    /// Since when the oldest waits.
    #[schema(required)]
    oldest_pending: Option<i64>,
    /// The same in seconds.
    #[schema(required)]
    oldest_pending_age: Option<f64>,
}

#[derive(Serialize, ToSchema)]
#[serde(rename_all = "UPPERCASE")]
struct Counts {
    pending: u64,
    running: u64,
    completed: u64,
    error: u64,
    cancelled: u64,
}

/// A run without what was said in it.
#[derive(Serialize, ToSchema)]
#[schema(as = Job)]
struct Shown {
    run_id: Uuid,
    agent_id: String,
    session_id: String,
    #[schema(required)]
    user_id: Option<String>,
    status: Status,
    /// The kind of sandbox that it needs.
    sandbox: String,
    attempt: u32,
    created_at: i64,
    #[schema(required)]
    started_at: Option<i64>,
    #[schema(required)]
    ended_at: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    cancel_requested: Option<bool>,
    /// Who drives it, and how long its word holds.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    worker: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    lease_until: Option<i64>,
    /// Where its sandbox is.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    host: Option<String>,
    /// Not before then is it attempted again.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    retry_at: Option<i64>,
    /// Of a single job only, as what follows.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    requeued_from: Option<Uuid>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    error: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    error_type: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    files: Option<Vec<show::File>>,
}

/// The run that does it again.
#[derive(Serialize, ToSchema)]
#[schema(as = Requeued)]
struct Again {
    run_id: Uuid,
    session_id: String,
    agent_id: String,
    status: Status,
    requeued_from: Uuid,
}

#[derive(utoipa::IntoParams)]
#[into_params(parameter_in = Query)]
#[expect(dead_code, reason = "read by name; here it is described")]
struct Filter {
    status: Option<Status>,
    /// How many there may be on a page.
    #[param(minimum = 1, maximum = 100, default = 20)]
    limit: Option<u32>,
    /// The `next_cursor` of the page before.
    cursor: Option<Uuid>,
}

/// Runs by status, and how long the oldest waits
#[utoipa::path(
    get,
    path = "/queue/stats",
    tag = "queue",
    operation_id = "queue_stats",
    responses((status = 200, description = "The queue now", body = Stats))
)]
async fn stats(State(app): State<Arc<App>>) -> Result<Json<Stats>, Refusal> {
    let stats = app.queue.stats().await?;
    let counts = stats.counts;
    let age = stats.oldest.map(|oldest| (stats.now - oldest).max(0));
    Ok(Json(Stats {
        counts: Counts {
            pending: counts.pending,
            running: counts.running,
            completed: counts.completed,
            error: counts.error,
            cancelled: counts.cancelled,
        },
        limit: app.options.queue_limit,
        oldest_pending: stats.oldest.map(show::seconds),
        oldest_pending_age: age.map(|age| age as f64 / 1000.0),
    }))
}

/// Runs of all users, newest first
#[utoipa::path(
    get,
    path = "/queue/jobs",
    tag = "queue",
    operation_id = "list_jobs",
    params(Filter),
    responses((status = 200, description = "A page of them", body = Page<Shown>))
)]
async fn list(State(app): State<Arc<App>>, uri: Uri) -> Result<Json<Page<Shown>>, Refusal> {
    let query = Query::of(&uri)?;
    let limit = query.limit(20, 100)?;
    let page = app.queue.jobs(runs::status(&query)?, query.cursor()?, limit).await?;
    Ok(Json(show::page(page.items.into_iter().map(shown).collect(), limit, page.next)))
}

/// A run of any user
#[utoipa::path(
    get,
    path = "/queue/jobs/{run}",
    tag = "queue",
    operation_id = "read_job",
    params(OfJob),
    responses((status = 200, description = "The run", body = Shown), (status = 404, description = "No such run"))
)]
async fn one(State(app): State<Arc<App>>, Ids(run_id): Ids<String>) -> Result<Json<Shown>, Refusal> {
    let run_id = runs::id(&run_id).ok_or(Refusal::RunNotFound)?;
    Ok(Json(shown(app.queue.job(run_id).await?.ok_or(Refusal::RunNotFound)?)))
}

/// Does an ended run again, as a new one at its session's tail
#[utoipa::path(
    post,
    path = "/queue/jobs/{run}/requeue",
    tag = "queue",
    operation_id = "requeue_job",
    params(OfJob),
    responses(
        (status = 202, description = "The new run", body = Again, headers(("location" = String, description = "Where it is read"))),
        (status = 404, description = "No such run"),
        (status = 409, description = "It has not ended"),
        (status = 500, description = "Checkpoints that other workers cannot read"),
    )
)]
async fn requeue(State(app): State<Arc<App>>, Ids(run_id): Ids<String>) -> Result<Response, Refusal> {
    let run_id = runs::id(&run_id).ok_or(Refusal::RunNotFound)?;
    let new = again(&app, run_id).await?;
    let location = HeaderValue::from_str(&format!("/agents/{}/runs/{}", new.agent_id, new.run_id));
    let Requeued { run_id: again, session_id, agent_id, .. } = new;
    let body = Again { run_id: again, session_id, agent_id, status: Status::Pending, requeued_from: run_id };
    let mut response = (StatusCode::ACCEPTED, Json(body)).into_response();
    if let Ok(location) = location {
        response.headers_mut().insert(LOCATION, location);
    }
    Ok(response)
}

/// On a task of its own: a client that goes away half way leaves either nothing or a run that is told of.
async fn again(app: &Arc<App>, run_id: Uuid) -> Result<Requeued, Refusal> {
    let app = app.clone();
    let requeueing = async move {
        if let Checkpoints::OneFunction(folder) = &app.options.checkpoints {
            app.queue.job(run_id).await?.ok_or(Refusal::RunNotFound)?;
            return Err(Refusal::Checkpoints(folder.clone()));
        }
        let one_host = submit::terms(&app.options).one_host;
        let new = app.queue.requeue(run_id, one_host).await.map_err(|error| match error {
            QueueError::Unknown => Refusal::RunNotFound,
            QueueError::NotEnded => Refusal::RunNotEnded,
            QueueError::ManyHosts => submit::many_hosts(&app.options),
            QueueError::Log(error) => error.into(),
        })?;
        app.ring(new.session).await;
        Ok(new)
    };
    tokio::spawn(requeueing.in_current_span()).await.map_err(|_| Refusal::Crashed)?
}

fn shown(job: Job) -> Shown {
    let (worker, lease_until) = job.held.map(|held| (held.worker, show::seconds(held.lease_until))).unzip();
    let (error, error_type) = job.failure.unzip();
    Shown {
        run_id: job.run_id,
        agent_id: job.agent_id,
        session_id: job.session_id,
        user_id: job.user_id,
        status: job.status,
        sandbox: job.kind,
        attempt: job.attempt,
        created_at: show::seconds(job.created_at),
        started_at: job.started_at.map(show::seconds),
        ended_at: job.ended_at.map(show::seconds),
        cancel_requested: job.cancel_requested.then_some(true),
        worker,
        lease_until,
        host: job.host,
        retry_at: job.retry_at.map(show::seconds),
        requeued_from: job.requeued_from,
        error,
        error_type,
        files: job.files.map(|files| files.into_iter().map(show::file).collect()),
    }
}
