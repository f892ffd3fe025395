//! `/agents/{agent}/runs/{run}/resume`: a run's stream from any frame on.

use std::sync::Arc;

use adapters::LogError;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use utoipa::ToSchema;

use crate::Until;
use crate::app::App;
use crate::auth::Caller;
use crate::edge::Ids;
use crate::fields::{Query, index_after};
use crate::openapi::paths::OfRun;
use crate::render::{Identity, StreamEvent};
use crate::respond::{Fault, Refusal};
use crate::stream::{self, Announce};
use crate::{runs, submit};

const STREAM: &str = "Server-sent events, each with a StreamFrame or a ControlFrame as data";
const FIELDS: [&str; 2] = ["last_event_index", "session_id"];

#[derive(utoipa::IntoParams)]
#[into_params(parameter_in = Query)]
#[expect(dead_code, reason = "read by name; here it is described")]
struct From {
    /// The `event_index` that was seen last; -1 or nothing: from the first one on. `Last-Event-ID` goes before it.
    #[param(minimum = -1)]
    last_event_index: Option<i64>,
    /// Checked, where it is given: a run of another session is not found.
    session_id: Option<String>,
}

#[derive(utoipa::IntoParams)]
#[into_params(parameter_in = Header)]
#[expect(dead_code, reason = "read by name; here it is described")]
struct Last {
    /// The `id` of the frame that was seen last, as `EventSource` sends it.
    #[param(rename = "Last-Event-ID", pattern = "^(-1|[0-9]+)$")]
    last_event_id: Option<String>,
}

/// The same as in the address.
#[derive(ToSchema)]
#[schema(as = Resume)]
#[serde(deny_unknown_fields)]
#[expect(dead_code, reason = "read by name; here it is described")]
pub(super) struct Fields {
    #[schema(minimum = -1)]
    last_event_index: Option<i64>,
    session_id: Option<String>,
}

/// A run's frames as a stream, from any of them on, stored and then live
///
/// The stream ends with the run, or earlier after `retry`: then it is resumed after the last `id`.
#[utoipa::path(
    get,
    path = "/agents/{agent}/runs/{run}/resume",
    tag = "runs",
    operation_id = "resume_run",
    params(OfRun, From, Last),
    responses(
        (status = 200, description = STREAM, body = StreamEvent, content_type = "text/event-stream"),
        (status = 204, description = "With Last-Event-ID: the run has ended, and nothing is after it"),
        (status = 404, description = "No such agent, or no such run"),
    )
)]
pub(crate) async fn resume(
    State(app): State<Arc<App>>,
    caller: Caller,
    Ids((agent_id, run_id)): Ids<(String, String)>,
    request: Request,
) -> Result<Response, Refusal> {
    let asked = Asked::of(&request)?;
    // It has the bytes of its head for as long as it is there, which a viewer that waits has no use for.
    drop(request);
    let browser = asked.header.is_some();
    match asked.show(app, caller, agent_id, run_id, browser).await {
        // An `EventSource` ends for good at any answer but a stream, and the log will be back.
        Err(Refusal::Log(error @ LogError::Unreachable(_))) if browser => {
            tracing::warn!(error = &error as &dyn std::error::Error, "api.resume: the log does not answer, a viewer is asked to come back");
            Ok(stream::come_back())
        }
        shown => shown,
    }
}

/// The same, asked for by a form
#[utoipa::path(
    post,
    path = "/agents/{agent}/runs/{run}/resume",
    tag = "runs",
    operation_id = "resume_run_by_form",
    params(OfRun, From, Last),
    request_body(content(
        (Fields = "application/x-www-form-urlencoded"),
        (Fields = "multipart/form-data"),
        (Fields = "application/json"),
    )),
    responses(
        (status = 200, description = STREAM, body = StreamEvent, content_type = "text/event-stream"),
        (status = 404, description = "No such agent, or no such run"),
        (status = 408, description = "The body did not come in"),
        (status = 413, description = "The body is larger than the limit that is named"),
    )
)]
pub(crate) async fn resume_post(
    State(app): State<Arc<App>>,
    caller: Caller,
    Ids((agent_id, run_id)): Ids<(String, String)>,
    request: Request,
) -> Result<Response, Refusal> {
    let mut asked = Asked::of(&request)?;
    asked.query.extend(fields(request).await?);
    asked.show(app, caller, agent_id, run_id, false).await
}

/// What of a request says which frames are asked for.
struct Asked {
    header: Option<u32>,
    query: Query,
    until: Option<Until>,
}

impl Asked {
    fn of(request: &Request) -> Result<Self, Refusal> {
        Ok(Self { header: last_event_id(request.headers())?, query: Query::of(request.uri())?, until: request.extensions().get().copied() })
    }

    async fn show(self, app: Arc<App>, caller: Caller, agent_id: String, run_id: String, browser: bool) -> Result<Response, Refusal> {
        let field = self.query.parsed("last_event_index", "must be the event_index of a frame", index_after)?;
        // A browser that reconnects sends the address it began with, and in the header how far it has come since.
        let next = self.header.or(field).unwrap_or(0);
        let run = runs::find(&app, &caller, &agent_id, &run_id, self.query.get("session_id")?).await?;
        let identity = Arc::new(Identity::new(run.run_id, &run.session_id, &run.agent_id));
        let view = app.tails.view(identity, next);
        let view = if run.status.has_ended() { view.of_an_ended_run() } else { view };
        if browser && run.status.has_ended() && app.reader.frames(run.run_id, view.index(), 1).await?.is_empty() {
            return Ok(StatusCode::NO_CONTENT.into_response());
        }
        Ok(stream::response(&app, view, Some(Announce::new(run.status)), self.until))
    }
}

async fn fields(request: Request) -> Result<Vec<(String, String)>, Refusal> {
    let fields = submit::parameters(request).await?;
    let unknown = fields.iter().filter(|(name, _)| !FIELDS.contains(&name.as_str()));
    let unknown: Vec<Fault> = unknown.map(|(name, _)| Fault::body(name, "Unknown field", "extra_forbidden")).collect();
    if unknown.is_empty() { Ok(fields) } else { Err(Refusal::Invalid(unknown)) }
}

fn last_event_id(headers: &HeaderMap) -> Result<Option<u32>, Refusal> {
    let Some(value) = headers.get("last-event-id").filter(|value| !value.is_empty()) else { return Ok(None) };
    let next = value.to_str().ok().and_then(index_after);
    next.map(Some).ok_or_else(|| Refusal::invalid(Fault::header("Last-Event-ID", "must be the id of a frame")))
}
