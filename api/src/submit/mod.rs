//! `POST /agents/{agent}/runs`: from a body to a run that the log has, answered in the mode that was asked for.

mod admit;
mod body;
mod bound;
mod check;
mod describe;
mod fingerprint;
mod form;
mod media;
mod object;

use std::sync::Arc;

use ::runs::agents::Agent;
use ::runs::{Event, Input, InputFile, Status, Submitted};
use adapters::{Accepted, LogError, RunRow, Submission, Terms};
use axum::Json;
use axum::extract::{Request, State};
use axum::http::header::{LOCATION, RETRY_AFTER};
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use tokio::time::Instant;
use tracing::Instrument;
use utoipa::ToSchema;
use uuid::Uuid;

use crate::app::App;
use crate::auth::Caller;
use crate::edge::Ids;
use crate::openapi::paths::OfAgent;
use crate::render::{Identity, StreamEvent};
use crate::respond::{Fault, Refusal};
use crate::show::Run;
use crate::{Until, show, stream};
pub(crate) use admit::{many_hosts, open, terms};
pub(crate) use body::{BODY_LIMIT, parameters};
use check::{Asked, check};

const KEY: &str = "idempotency-key";
const KEY_CHARACTERS: usize = 512;

/// An accepted run.
#[derive(Serialize, ToSchema)]
#[schema(as = Accepted)]
struct Pending {
    run_id: Uuid,
    session_id: String,
    /// How far it is.
    status: Status,
}

/// Submits a message
///
/// The checks come in a fixed order, and a refusal leaves nothing behind: who asks, the agent, the body, options, sizes, what the deployment needs,
/// `Idempotency-Key`, the session's owner, room in the queue. A client that goes away cancels nothing.
#[utoipa::path(
    post,
    path = "/agents/{agent}/runs",
    tag = "runs",
    operation_id = "submit_run",
    params(OfAgent, describe::Key),
    request_body(content(
        (describe::Upload = "multipart/form-data"),
        (describe::Form = "application/x-www-form-urlencoded"),
        (describe::Json = "application/json"),
    )),
    responses(
        (status = 200, description = "stream=true: server-sent events, each with a StreamFrame as data. Otherwise the run once it has ended",
         content((Run = "application/json"), (StreamEvent = "text/event-stream")), headers(("location" = String, description = "Where the run is read"))),
        (status = 202, description = "background=true, or the run has not ended within the time to wait", body = Pending, headers(
            ("location" = String, description = "Where the run is read"),
            ("retry-after" = Option<u32>, description = "Where it was waited for"),
        )),
        (status = 400, description = "An option that is not there, metadata that is no object, or nowhere to keep a run"),
        (status = 404, description = "No such agent, or a session that is somebody else's"),
        (status = 408, description = "The body did not come in"),
        (status = 409, description = "The Idempotency-Key stands for another submission"),
        (status = 413, description = "Something is larger than the limit that is named"),
        (status = 429, description = "As many runs wait as may"),
    )
)]
pub(crate) async fn submit(State(app): State<Arc<App>>, caller: Caller, Ids(agent_id): Ids<String>, request: Request) -> Result<Response, Refusal> {
    let agent = app.agent(&agent_id)?.clone();
    let (headers, until) = (request.headers().clone(), request.extensions().get().copied());
    let sent = body::receive(request, BODY_LIMIT).await?;
    let mut asked = bound::parse(sent.len(), || check(sent.body()?)).await?;
    asked.user_id = caller.instead_of(asked.user_id.as_deref()).map(ToOwned::to_owned);
    let key = admit::first(&app, key(&headers)).await?.map(|key| (key, fingerprint::fingerprint(&agent_id, &asked)));
    let (streamed, background) = (asked.stream, asked.background);
    let accepted = accept(&app, Submission { terms: terms(&app.options), ..submission(agent, asked, key) }).await?;
    let location = location(&agent_id, &accepted);
    let mut response = match (streamed, background) {
        (true, _) => {
            let identity = Arc::new(Identity::new(accepted.run_id, &accepted.session_id, &agent_id));
            let view = app.tails.view(identity, 0);
            stream::response(&app, if accepted.new { view.of_a_new_run() } else { view }, None, until)
        }
        (false, true) => pending(&accepted, accepted.status),
        (false, false) => wait(&app, &agent_id, &accepted, until).await?,
    };
    if let Ok(location) = HeaderValue::from_str(&location) {
        response.headers_mut().insert(LOCATION, location);
    }
    Ok(response)
}

/// On a task of its own: a client that goes away half way leaves either nothing or a run that is told of.
async fn accept(app: &Arc<App>, submission: Submission) -> Result<Accepted, Refusal> {
    let app = app.clone();
    let accepting = async move {
        let accepted = app.intake.submit(submission).await.map_err(|refused| admit::told(refused, &app.options))?;
        if accepted.new {
            app.metrics.accepted();
        }
        app.ring(accepted.session).await;
        Ok::<_, Refusal>(accepted)
    };
    tokio::spawn(accepting.in_current_span()).await.map_err(|_| Refusal::Crashed)?
}

fn submission(agent: Agent, asked: Asked, key: Option<(String, Vec<u8>)>) -> Submission {
    let Asked { message, session_id, user_id, metadata, output_schema, attachments, .. } = asked;
    let file = |file: &adapters::Attachment| InputFile {
        name: file.name.clone(),
        media_type: file.media_type.clone(),
        size: file.body.len() as u64,
        sha256: file.sha256.clone(),
    };
    let input = Input { message, files: attachments.iter().map(file).collect(), metadata, output_schema };
    Submission { session_id, user_id, submitted: Submitted { agent, input, requeued_from: None }, attachments, key, terms: Terms::default() }
}

fn key(headers: &HeaderMap) -> Result<Option<String>, Refusal> {
    let refuse = |msg: &str| Err(Refusal::invalid(Fault::header("Idempotency-Key", msg)));
    let mut values = headers.get_all(KEY).iter();
    let Some(value) = values.next() else { return Ok(None) };
    match std::str::from_utf8(value.as_bytes()) {
        _ if values.next().is_some() => refuse("Given more than once"),
        Ok("") => refuse("Should not be empty"),
        Ok(key) if key.chars().count() > KEY_CHARACTERS => refuse("Should have at most 512 characters"),
        Ok(key) => Ok(Some(key.into())),
        Err(_) => refuse("Should be UTF-8"),
    }
}

/// Agents' names need no encoding: `agents.toml` allows letters, digits and a few signs.
fn location(agent_id: &str, accepted: &Accepted) -> String {
    format!("/agents/{agent_id}/runs/{}", accepted.run_id)
}

fn pending(accepted: &Accepted, status: Status) -> Response {
    let body = Pending { run_id: accepted.run_id, session_id: accepted.session_id.clone(), status };
    (StatusCode::ACCEPTED, Json(body)).into_response()
}

/// The run once it has ended, or 202 with how far it is. It is accepted by now: a log that does not answer changes nothing about that.
async fn wait(app: &App, agent_id: &str, accepted: &Accepted, until: Option<Until>) -> Result<Response, Refusal> {
    let limit = Instant::now() + app.options.wait_limit;
    let limit = until.map_or(limit, |Until(end)| limit.min(end));
    let run = tokio::select! {
        run = end(app, agent_id, accepted) => run,
        () = tokio::time::sleep_until(limit) => app.reader.run(agent_id, accepted.run_id, None).await,
        () = app.closed() => Ok(None),
    };
    let run = run.unwrap_or_else(|error| {
        tracing::warn!(error = &error as &dyn std::error::Error, run = %accepted.run_id, "api.submit: the log does not say how the run goes");
        None
    });
    match run {
        Some(run) if run.status.has_ended() => ended(run),
        run => {
            let mut response = pending(accepted, run.map_or(accepted.status, |run| run.status));
            response.headers_mut().insert(RETRY_AFTER, HeaderValue::from(1));
            Ok(response)
        }
    }
}

/// Waits for the run's end, without looking at its frames.
async fn end(app: &App, agent_id: &str, accepted: &Accepted) -> Result<Option<RunRow>, LogError> {
    let identity = Arc::new(Identity::new(accepted.run_id, &accepted.session_id, agent_id));
    let read = || app.reader.run(agent_id, accepted.run_id, None);
    let mut feed = if accepted.new {
        app.tails.feed(&identity, 0)
    } else {
        if accepted.status.has_ended() {
            return read().await;
        }
        let feed = app.tails.feed(&identity, app.tails.head(accepted.run_id).await?);
        // It may have ended before its end could be seen here.
        if let Some(run) = read().await?.filter(|run| run.status.has_ended()) {
            return Ok(Some(run));
        }
        feed
    };
    feed.ended().await;
    read().await
}

fn ended(run: RunRow) -> Result<Response, Refusal> {
    match &run.terminal {
        Some(Event::Failed { started: false, error, .. }) => Err(Refusal::NotStarted(error.clone())),
        _ => Ok(Json(show::run(run)).into_response()),
    }
}
