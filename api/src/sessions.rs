//! Sessions: listed, read and erased, and their runs.

use std::sync::Arc;

use adapters::{Erased, RunRow, RunsQuery, Signal};
use axum::Json;
use axum::extract::State;
use axum::http::{HeaderValue, StatusCode, Uri};
use axum::response::{IntoResponse, Response};
use serde_json::{Value, json};

use crate::app::App;
use crate::auth::Caller;
use crate::edge::Ids;
use crate::fields::Query;
use crate::respond::{Fault, Refusal};
use crate::{runs as run_routes, show};

pub(crate) async fn list(State(app): State<Arc<App>>, caller: Caller, uri: Uri) -> Result<Json<Value>, Refusal> {
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
    Ok(Json(show::page(page.items.iter().map(show::session).collect(), limit, page.next)))
}

pub(crate) async fn one(State(app): State<Arc<App>>, caller: Caller, Ids(session_id): Ids<String>) -> Result<Json<Value>, Refusal> {
    possible(&session_id)?;
    let session = app.reader.session(&session_id, caller.sees()).await?.ok_or(Refusal::SessionNotFound)?;
    Ok(Json(show::session(&session)))
}

/// A plain list, as Agno's client takes it; where there is more, the header `x-next-cursor` says so.
pub(crate) async fn runs(State(app): State<Arc<App>>, caller: Caller, Ids(session_id): Ids<String>, uri: Uri) -> Result<Response, Refusal> {
    let query = Query::of(&uri)?;
    possible(&session_id)?;
    let (limit, cursor, status) = (query.limit(100, 100)?, query.cursor()?, run_routes::status(&query)?);
    app.reader.session(&session_id, caller.sees()).await?.ok_or(Refusal::SessionNotFound)?;
    let asked =
        RunsQuery { session_id: Some(&session_id), user_id: caller.instead_of(query.get("user_id")?), status, cursor, limit, ..RunsQuery::default() };
    let page = app.reader.runs(asked, caller.sees()).await?;
    let runs: Vec<_> = page.items.iter().map(show_run).collect();
    let mut response = Json(runs).into_response();
    if let Some(next) = page.next.and_then(|next| HeaderValue::from_str(&next.0.to_string()).ok()) {
        response.headers_mut().insert("x-next-cursor", next);
    }
    Ok(response)
}

pub(crate) async fn run(
    State(app): State<Arc<App>>,
    caller: Caller,
    Ids((session_id, run_id)): Ids<(String, String)>,
) -> Result<Json<Value>, Refusal> {
    possible(&session_id)?;
    let session = app.reader.session(&session_id, caller.sees()).await?.ok_or(Refusal::SessionNotFound)?;
    let run = run_routes::find(&app, &caller, &session.agent_id, &run_id, Some(&session_id)).await?;
    Ok(Json(show_run(&run)))
}

/// Where Agno's client reads a run of a session, it looks for the message in a field of its own.
fn show_run(row: &RunRow) -> Value {
    let mut run = show::run(row);
    run["run_input"] = json!(row.submitted.input.message);
    run
}

pub(crate) async fn erase(State(app): State<Arc<App>>, caller: Caller, Ids(session_id): Ids<String>) -> Result<StatusCode, Refusal> {
    possible(&session_id)?;
    match app.intake.erase(&session_id, caller.sees()).await? {
        Erased::Gone => {
            // A worker is to remove what its host has of it.
            app.signals.send(Signal::Work);
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
