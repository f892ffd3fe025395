//! Sessions: listed, read and erased, and their runs.

use std::sync::Arc;

use ::runs::Status;
use adapters::{Erased, RunRow, RunsQuery, SessionRow, Signal};
use axum::Json;
use axum::extract::State;
use axum::http::{HeaderValue, StatusCode, Uri};
use axum::response::{IntoResponse, Response};
use uuid::Uuid;

use crate::app::App;
use crate::auth::Caller;
use crate::edge::Ids;
use crate::fields::Query;
use crate::openapi::paths::{OfSession, OfSessionRun};
use crate::respond::{Fault, Refusal};
use crate::runs as run_routes;
use crate::show::{self, Page, Run, Session};

#[derive(utoipa::IntoParams)]
#[into_params(parameter_in = Query)]
#[expect(dead_code, reason = "read by name; here it is described")]
struct Filter {
    agent_id: Option<String>,
    /// The same, as Agno's client calls it.
    component_id: Option<String>,
    /// Whose; where it is known who asks, their own whatever this says.
    user_id: Option<String>,
    /// How many there may be on a page.
    #[param(minimum = 1, maximum = 100, default = 20)]
    limit: Option<u32>,
    /// The `next_cursor` of the page before.
    cursor: Option<Uuid>,
    /// What Agno's client sends of itself. Sessions come newest first, paged by cursor.
    #[param(pattern = "^1?$")]
    page: Option<String>,
    #[param(pattern = "^(created_at)?$")]
    sort_by: Option<String>,
    #[param(pattern = "^(desc)?$")]
    sort_order: Option<String>,
    /// There are no names.
    #[param(max_length = 0)]
    session_name: Option<String>,
    #[param(rename = "type", pattern = "^(agent)?$")]
    kind: Option<String>,
}

/// What Agno's client sends with a session's id.
#[derive(utoipa::IntoParams)]
#[into_params(parameter_in = Query)]
#[expect(dead_code, reason = "read by name; here it is described")]
struct Of {
    /// Checked, where it is given: another user's session is not found.
    user_id: Option<String>,
    #[param(rename = "type", pattern = "^(agent)?$")]
    kind: Option<String>,
}

#[derive(utoipa::IntoParams)]
#[into_params(parameter_in = Query)]
#[expect(dead_code, reason = "read by name; here it is described")]
struct RunsFilter {
    status: Option<Status>,
    /// How many there may be on a page.
    #[param(minimum = 1, maximum = 100, default = 100)]
    limit: Option<u32>,
    /// The `x-next-cursor` of the page before.
    cursor: Option<Uuid>,
}

/// Sessions, newest first
#[utoipa::path(
    get,
    path = "/sessions",
    tag = "sessions",
    operation_id = "list_sessions",
    params(Filter),
    responses((status = 200, description = "A page of them", body = Page<Session>))
)]
pub(crate) async fn list(State(app): State<Arc<App>>, caller: Caller, uri: Uri) -> Result<Json<Page<Session>>, Refusal> {
    let query = Query::of(&uri)?;
    // What Agno's client sends by default is what there is; anything else would be dropped silently.
    for (name, only) in [("page", "1"), ("sort_by", "created_at"), ("sort_order", "desc"), ("type", "agent"), ("session_name", "")] {
        if query.get(name)?.is_some_and(|value| value != only) {
            return Err(Refusal::invalid(Fault::query(name, format!("must be {only:?} or absent: sessions come newest first, paged by cursor"))));
        }
    }
    let limit = query.limit(20, 100)?;
    let agent_id = query.get("agent_id")?.or(query.get("component_id")?);
    let page = app.reader.sessions(caller.instead_of(query.get("user_id")?), agent_id, query.cursor()?, limit, caller.sees()).await?;
    Ok(Json(show::page(page.items.into_iter().map(show::session).collect(), limit, page.next)))
}

/// A session
#[utoipa::path(
    get,
    path = "/sessions/{session}",
    tag = "sessions",
    operation_id = "read_session",
    params(OfSession, Of),
    responses((status = 200, description = "The session", body = Session), (status = 404, description = "No such session"))
)]
pub(crate) async fn one(State(app): State<Arc<App>>, caller: Caller, Ids(session_id): Ids<String>, uri: Uri) -> Result<Json<Session>, Refusal> {
    Ok(Json(show::session(find(&app, &caller, &session_id, &Query::of(&uri)?).await?)))
}

/// A session that the caller sees and, where a user is named, of that user.
async fn find(app: &App, caller: &Caller, session_id: &str, query: &Query) -> Result<SessionRow, Refusal> {
    possible(session_id)?;
    query.parsed("type", "must be \"agent\" or absent", |kind| (kind == "agent").then_some(()))?;
    let user = caller.instead_of(query.get("user_id")?);
    let session = app.reader.session(session_id, caller.sees()).await?;
    session.filter(|session| user.is_none() || session.user_id.as_deref() == user).ok_or(Refusal::SessionNotFound)
}

/// The runs of a session, newest first
///
/// A plain list, as Agno's client takes it; where there is more, the header `x-next-cursor` says so.
#[utoipa::path(
    get,
    path = "/sessions/{session}/runs",
    tag = "sessions",
    operation_id = "list_session_runs",
    params(OfSession, Of, RunsFilter),
    responses(
        (status = 200, description = "A page of them", body = [Run], headers(("x-next-cursor" = Option<Uuid>, description = "The `cursor` of the next page"))),
        (status = 404, description = "No such session"),
    )
)]
pub(crate) async fn runs(State(app): State<Arc<App>>, caller: Caller, Ids(session_id): Ids<String>, uri: Uri) -> Result<Response, Refusal> {
    let query = Query::of(&uri)?;
    let (limit, cursor, status) = (query.limit(100, 100)?, query.cursor()?, run_routes::status(&query)?);
    find(&app, &caller, &session_id, &query).await?;
    let asked = RunsQuery { session_id: Some(&session_id), user_id: caller.user(), status, cursor, limit, ..RunsQuery::default() };
    let page = app.reader.runs(asked, caller.sees()).await?;
    let runs: Vec<_> = page.items.into_iter().map(show_run).collect();
    let mut response = Json(runs).into_response();
    if let Some(next) = page.next.and_then(|next| HeaderValue::from_str(&next.0.to_string()).ok()) {
        response.headers_mut().insert("x-next-cursor", next);
    }
    Ok(response)
}

/// A run of a session
#[utoipa::path(
    get,
    path = "/sessions/{session}/runs/{run}",
    tag = "sessions",
    operation_id = "read_session_run",
    params(OfSessionRun, Of),
    responses((status = 200, description = "The run", body = Run), (status = 404, description = "No such session, or no such run of it"))
)]
pub(crate) async fn run(
    State(app): State<Arc<App>>,
    caller: Caller,
    Ids((session_id, run_id)): Ids<(String, String)>,
    uri: Uri,
) -> Result<Json<Run>, Refusal> {
    let session = find(&app, &caller, &session_id, &Query::of(&uri)?).await?;
    let run = run_routes::find(&app, &caller, &session.agent_id, &run_id, Some(&session_id)).await?;
    Ok(Json(show_run(run)))
}

/// Where Agno's client reads a run of a session, it looks for the message in a field of its own.
fn show_run(row: RunRow) -> Run {
    let run_input = Some(row.submitted.input.message.clone());
    Run { run_input, ..show::run(row) }
}

/// Erases a session with its runs, their events and its workspace
#[utoipa::path(
    delete,
    path = "/sessions/{session}",
    tag = "sessions",
    operation_id = "delete_session",
    params(OfSession, Of),
    responses(
        (status = 204, description = "All of it is gone"),
        (status = 404, description = "No such session"),
        (status = 409, description = "One of its runs has not ended"),
    )
)]
pub(crate) async fn erase(State(app): State<Arc<App>>, caller: Caller, Ids(session_id): Ids<String>, uri: Uri) -> Result<StatusCode, Refusal> {
    find(&app, &caller, &session_id, &Query::of(&uri)?).await?;
    match app.intake.erase(&session_id, caller.sees()).await? {
        Erased::Gone => {
            // A worker is to remove what its host has of it.
            app.signals.send(Signal::Work);
            app.settle().await;
            Ok(StatusCode::NO_CONTENT)
        }
        Erased::Unknown => Err(Refusal::SessionNotFound),
        Erased::Busy => Err(Refusal::SessionBusy),
    }
}

/// Postgres takes no text with a NUL character, so no session has such an id.
fn possible(session_id: &str) -> Result<(), Refusal> {
    if session_id.contains('\0') { Err(Refusal::SessionNotFound) } else { Ok(()) }
}
