//! `/agents/{agent}/runs/{run}/resume`: a run's stream from any frame on.

use std::sync::Arc;

use axum::extract::{Request, State};
use axum::http::{HeaderMap, Method, StatusCode};
use axum::response::{IntoResponse, Response};

use crate::app::App;
use crate::auth::Caller;
use crate::edge::Ids;
use crate::fields::{Query, index_after};
use crate::render::Identity;
use crate::respond::{Fault, Refusal};
use crate::stream::{self, Announce};
use crate::{runs, submit};

pub(crate) async fn resume(
    State(app): State<Arc<App>>,
    caller: Caller,
    Ids((agent_id, run_id)): Ids<(String, String)>,
    request: Request,
) -> Result<Response, Refusal> {
    let header = last_event_id(request.headers())?;
    let until = request.extensions().get().copied();
    let browser = request.method() != Method::POST && header.is_some();
    let query = parameters(request).await?;
    let field = query.parsed("last_event_index", "must be the event_index of a frame", index_after)?;
    // A browser that reconnects sends the address it began with, and in the header how far it has come since.
    let next = header.or(field).unwrap_or(0);

    let run = runs::find(&app, &caller, &agent_id, &run_id, query.get("session_id")?).await?;
    let identity = Arc::new(Identity::new(run.run_id, &run.session_id, &run.agent_id));
    let view = app.tails.view(identity, next);
    let view = if run.status.has_ended() { view.of_an_ended_run() } else { view };
    if browser && run.status.has_ended() && app.reader.frames(run.run_id, view.index(), 1).await?.is_empty() {
        return Ok(StatusCode::NO_CONTENT.into_response());
    }
    Ok(stream::response(&app, view, Some(Announce::new(run.status)), until))
}

/// Of the address and, in a POST, of the body.
async fn parameters(request: Request) -> Result<Query, Refusal> {
    let mut query = Query::of(request.uri())?;
    if request.method() == Method::POST {
        query.extend(submit::parameters(request).await?);
    }
    Ok(query)
}

fn last_event_id(headers: &HeaderMap) -> Result<Option<u32>, Refusal> {
    let Some(value) = headers.get("last-event-id").filter(|value| !value.is_empty()) else { return Ok(None) };
    let next = value.to_str().ok().and_then(index_after);
    next.map(Some).ok_or_else(|| Refusal::invalid(Fault::header("Last-Event-ID", "must be the id of a frame")))
}
