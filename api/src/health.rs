//! `/health`: what answers and what does not. Only Postgres is needed, and an instance that stays; what carries signals, and the queue, cost time when they are away.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use adapters::{Carried, LogError, RingState};
use axum::Json;
use axum::extract;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use tokio::time::{Instant, timeout_at};
use utoipa::ToSchema;

use crate::app::App;
use crate::respond::Refusal;
use crate::submit;

/// What answers and what does not.
#[derive(Serialize, ToSchema)]
pub(crate) struct Health {
    /// What is wrong, where something is.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    detail: Option<String>,
    /// `ok`, `unavailable` or `stopping`.
    status: &'static str,
    postgres: Postgres,
    /// Whether new runs are accepted, as far as it is not about the run; where Postgres answers.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    submissions: Option<Submissions>,
    /// Where it carries signals.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    redis: Option<State>,
    signals: Carrier,
    /// Where one rings workers.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    queue: Option<State>,
}

#[derive(Serialize, ToSchema)]
struct State {
    /// `ok`, `unreachable` or `unknown`.
    status: &'static str,
}

#[derive(Clone, Copy, Serialize, ToSchema)]
struct Submissions {
    /// `ok` or `refused`.
    status: &'static str,
    /// Of what kind; a submission is told more.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    reason: Option<&'static str>,
}

/// What tells instances of each other's commits.
#[derive(Serialize, ToSchema)]
struct Carrier {
    /// `redis`, `listen` or `poll`.
    carrier: &'static str,
    /// `ok`, `late` while it is away, or `off` where nothing carries them.
    status: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    reason: Option<String>,
}

#[derive(Clone, Copy, Serialize, ToSchema)]
struct Postgres {
    /// `ok`, `unreachable` or `unfit`.
    status: &'static str,
    /// The version of the schema.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    schema: Option<u32>,
}

/// Whether this instance can serve
#[utoipa::path(
    get,
    path = "/health",
    tag = "service",
    operation_id = "health",
    responses((status = 200, description = "It can", body = Health), (status = 503, description = "Postgres does not answer, or this instance is about to stop", body = Health))
)]
pub(crate) async fn health(extract::State(app): extract::State<Arc<App>>) -> Response {
    let Found { postgres, submissions, .. } = find(&app).await;
    let (code, detail, status) = match postgres.status {
        _ if app.leaving.load(Ordering::SeqCst) => (StatusCode::SERVICE_UNAVAILABLE, Some("This api is about to stop".to_owned()), "stopping"),
        "ok" => (StatusCode::OK, None, "ok"),
        status => (StatusCode::SERVICE_UNAVAILABLE, Some(format!("Postgres is {status}")), "unavailable"),
    };
    let submissions = submissions.map(|(_, submissions)| submissions);
    let carried = app.signals.carried().borrow().clone();
    let redis = (carried.carrier == "redis").then_some(State { status: if carried.up { "ok" } else { "unreachable" } });
    let queue = app.ring.state().map(|state| State {
        status: match state {
            RingState::Unknown => "unknown",
            RingState::Ok => "ok",
            RingState::Unreachable => "unreachable",
        },
    });
    (code, Json(Health { detail, status, postgres, submissions, redis, signals: carried.into(), queue })).into_response()
}

/// What the log answered.
#[derive(Clone, Copy)]
pub(crate) struct Found {
    /// When it was asked.
    at: Instant,
    postgres: Postgres,
    /// Asked less often, for it reads the catalogue.
    submissions: Option<(Instant, Submissions)>,
}

/// How long it is believed that submissions are accepted, or not.
const BELIEVED: Duration = Duration::from_secs(5);

/// One question at a time, however many ask: whoever waits takes an answer to a question that was put after they came. Anybody may ask, so a crowd must cost
/// no more than a monitor.
async fn find(app: &App) -> Found {
    let came = Instant::now();
    let end = came + app.options.probe_limit;
    let unreachable = Postgres { status: "unreachable", schema: None };
    let Ok(mut found) = timeout_at(end, app.found.lock()).await else { return Found { at: came, postgres: unreachable, submissions: None } };
    if let Some(found) = found.filter(|found| found.at >= came) {
        return found;
    }
    let at = Instant::now();
    let answer = timeout_at(end, app.reader.health()).await.unwrap_or_else(|_| Err(LogError::Unreachable("no answer in time".into())));
    let postgres = match answer {
        Ok(health) => Postgres { status: "ok", schema: Some(health.schema) },
        Err(error) => {
            tracing::warn!(error = &error as &dyn std::error::Error, "api.health: Postgres does not answer");
            if matches!(error, LogError::Unreachable(_)) { unreachable } else { Postgres { status: "unfit", ..unreachable } }
        }
    };
    let believed = found.and_then(|found| found.submissions).filter(|(at, _)| at.elapsed() < BELIEVED);
    let submissions = match believed {
        _ if postgres.status != "ok" => None,
        Some(believed) => Some(believed),
        // Where that takes too long, nothing is said of it: the log did answer.
        None => timeout_at(end, submit::open(app)).await.ok().map(|open| (at, open.into())),
    };
    *found.insert(Found { at, postgres, submissions })
}

/// Anybody may ask, so folders and tables are not named.
impl From<Result<(), Refusal>> for Submissions {
    fn from(open: Result<(), Refusal>) -> Self {
        let reason = match open {
            Ok(()) => return Self { status: "ok", reason: None },
            Err(Refusal::Checkpoints(_)) => "checkpoints are left where not every worker reads them (SANDLOG_CHECKPOINTS)",
            Err(Refusal::NoQueue) => "the log takes no runs",
            Err(Refusal::Log(LogError::Differs(_))) => "a table is not what this build needs",
            Err(_) => "the log did not answer",
        };
        Self { status: "refused", reason: Some(reason) }
    }
}

impl From<Carried> for Carrier {
    fn from(Carried { carrier, up, why }: Carried) -> Self {
        Self {
            carrier,
            status: match carrier {
                _ if up => "ok",
                "poll" => "off",
                _ => "late",
            },
            reason: why,
        }
    }
}
