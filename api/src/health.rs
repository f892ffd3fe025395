//! `/health`: what answers and what does not. Only Postgres is needed; what carries signals, and the queue, cost time when they are away.

use std::sync::Arc;

use adapters::{Carried, LogError, RingState};
use axum::Json;
use axum::extract;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use tokio::time::timeout;
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
    /// `ok` or `unavailable`.
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

#[derive(Serialize, ToSchema)]
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

#[derive(Serialize, ToSchema)]
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
    responses((status = 200, description = "It can", body = Health), (status = 503, description = "Postgres does not answer", body = Health))
)]
pub(crate) async fn health(extract::State(app): extract::State<Arc<App>>) -> Response {
    let asked = timeout(app.options.probe_limit, app.reader.health()).await;
    let answer = asked.unwrap_or_else(|_| Err(LogError::Unreachable("no answer in time".into())));
    let (code, detail, status, postgres) = match answer {
        Ok(health) => (StatusCode::OK, None, "ok", Postgres { status: "ok", schema: Some(health.schema) }),
        Err(error) => {
            tracing::warn!(error = &error as &dyn std::error::Error, "api.health: Postgres does not answer");
            let status = if matches!(error, LogError::Unreachable(_)) { "unreachable" } else { "unfit" };
            let detail = Some(format!("Postgres is {status}"));
            (StatusCode::SERVICE_UNAVAILABLE, detail, "unavailable", Postgres { status, schema: None })
        }
    };
    let submissions = match code {
        StatusCode::OK => Some(submit::open(&app).await.into()),
        _ => None,
    };
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
