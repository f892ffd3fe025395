//! Runs as they are read and cancelled.

use std::sync::Arc;

use ::runs::Status;
use adapters::{CancelAnswer, RunRow, RunsQuery, Signal};
use axum::Json;
use axum::extract::State;
use axum::http::Uri;
use serde::Serialize;
use tracing::Instrument;
use utoipa::ToSchema;
use uuid::Uuid;

use crate::app::App;
use crate::auth::Caller;
use crate::edge::Ids;
use crate::fields::Query;
use crate::openapi::paths::{OfAgent, OfRun};
use crate::respond::Refusal;
use crate::show::{self, Page, Run};

#[derive(utoipa::IntoParams)]
#[into_params(parameter_in = Query)]
#[expect(dead_code, reason = "read by name; here it is described")]
pub(crate) struct InSession {
    /// Checked, where it is given: a run of another session is not found.
    session_id: Option<String>,
}

#[derive(utoipa::IntoParams)]
#[into_params(parameter_in = Query)]
#[expect(dead_code, reason = "read by name; here it is described")]
struct Filter {
    session_id: Option<String>,
    /// Whose runs; where it is known who asks, their own whatever this says.
    user_id: Option<String>,
    status: Option<Status>,
    /// How many there may be on a page.
    #[param(minimum = 1, maximum = 100, default = 20)]
    limit: Option<u32>,
    /// The `next_cursor` of the page before.
    cursor: Option<Uuid>,
}

/// How far a wish to cancel has come.
#[derive(Serialize, ToSchema)]
pub(crate) struct Cancelled {
    run_id: Uuid,
    status: Status,
    /// A run that had ended before is left alone.
    cancel_requested: bool,
}

/// A run, as far as it is
#[utoipa::path(
    get,
    path = "/agents/{agent}/runs/{run}",
    tag = "runs",
    operation_id = "read_run",
    params(OfRun, InSession),
    responses((status = 200, description = "The run", body = Run), (status = 404, description = "No such agent, or no such run"))
)]
pub(crate) async fn one(
    State(app): State<Arc<App>>,
    caller: Caller,
    Ids((agent_id, run_id)): Ids<(String, String)>,
    uri: Uri,
) -> Result<Json<Run>, Refusal> {
    let query = Query::of(&uri)?;
    Ok(Json(show::run(find(&app, &caller, &agent_id, &run_id, query.get("session_id")?).await?)))
}

/// A run of that agent that the caller sees and, where one is named, of that session.
pub(crate) async fn find(app: &App, caller: &Caller, agent_id: &str, run_id: &str, session_id: Option<&str>) -> Result<RunRow, Refusal> {
    let run_id = id(run_id).ok_or_else(|| app.no_run(agent_id))?;
    let run = if agent_id.contains('\0') { None } else { app.reader.run(agent_id, run_id, caller.sees()).await? };
    run.filter(|run| session_id.is_none_or(|session| session == run.session_id)).ok_or_else(|| app.no_run(agent_id))
}

/// As we write it; other ways to write a UUID are no ids of ours.
pub(crate) fn id(text: &str) -> Option<Uuid> {
    Uuid::try_parse(text).ok().filter(|_| text.len() == 36)
}

/// Runs of an agent, newest first
#[utoipa::path(
    get,
    path = "/agents/{agent}/runs",
    tag = "runs",
    operation_id = "list_runs",
    params(OfAgent, Filter),
    responses((status = 200, description = "A page of them", body = Page<Run>), (status = 404, description = "No such agent"))
)]
pub(crate) async fn list(State(app): State<Arc<App>>, caller: Caller, Ids(agent_id): Ids<String>, uri: Uri) -> Result<Json<Page<Run>>, Refusal> {
    let query = Query::of(&uri)?;
    app.agent(&agent_id)?;
    let limit = query.limit(20, 100)?;
    let asked = RunsQuery {
        agent_id: Some(&agent_id),
        session_id: query.get("session_id")?,
        user_id: caller.instead_of(query.get("user_id")?),
        status: status(&query)?,
        cursor: query.cursor()?,
        limit,
    };
    let page = app.reader.runs(asked, caller.sees()).await?;
    Ok(Json(show::page(page.items.into_iter().map(show::run).collect(), limit, page.next)))
}

pub(crate) fn status(query: &Query) -> Result<Option<Status>, Refusal> {
    query.parsed("status", "must be PENDING, RUNNING, COMPLETED, ERROR or CANCELLED", |text| Status::parse(&text.to_ascii_uppercase()))
}

/// Asks for a run's end
///
/// A run that waits ends at once and never executes; one that runs is ended by who holds it. May be repeated.
#[utoipa::path(
    post,
    path = "/agents/{agent}/runs/{run}/cancel",
    tag = "runs",
    operation_id = "cancel_run",
    params(OfRun),
    responses((status = 200, description = "It is asked for", body = Cancelled), (status = 404, description = "No such agent, or no such run"))
)]
pub(crate) async fn cancel(
    State(app): State<Arc<App>>,
    caller: Caller,
    Ids((agent_id, run_id)): Ids<(String, String)>,
) -> Result<Json<Cancelled>, Refusal> {
    let run_id = id(&run_id).filter(|_| !agent_id.contains('\0')).ok_or_else(|| app.no_run(&agent_id))?;
    let answer = wish(&app, caller, agent_id.clone(), run_id).await?.ok_or_else(|| app.no_run(&agent_id))?;
    Ok(Json(Cancelled { run_id, status: answer.status, cancel_requested: answer.cancel_requested }))
}

/// On a task of its own: a client that goes away half way does not keep the others from hearing of it.
async fn wish(app: &Arc<App>, caller: Caller, agent_id: String, run_id: Uuid) -> Result<Option<CancelAnswer>, Refusal> {
    let app = app.clone();
    let wishing = async move {
        let answer = app.intake.cancel(&agent_id, run_id, caller.sees()).await?;
        if let Some(answer) = answer.as_ref().filter(|answer| answer.cancel_requested) {
            app.signals.send(Signal::Cancel(run_id));
            if answer.status.has_ended() {
                app.signals.send(Signal::look(run_id));
            }
            // Where it ended the run, the session's next one may start.
            app.ring(answer.session).await;
        }
        Ok(answer)
    };
    tokio::spawn(wishing.in_current_span()).await.map_err(|_| Refusal::Crashed)?
}
