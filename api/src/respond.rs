//! Refusals as HTTP: the only place that knows status codes and their texts.
//!
//! What went wrong inside is logged here and never leaves; a client is told what it can act on.

use std::path::PathBuf;

use adapters::LogError;
use axum::Json;
use axum::http::header::{RETRY_AFTER, WWW_AUTHENTICATE};
use axum::http::{HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use utoipa::ToSchema;

/// One thing that does not validate, in the shape that FastAPI's clients know.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub(crate) struct Fault {
    /// Where: `body`, `query` or `header`, and the field.
    loc: Vec<String>,
    msg: String,
    #[serde(rename = "type")]
    kind: &'static str,
}

impl Fault {
    pub(crate) fn body(field: &str, msg: impl Into<String>, kind: &'static str) -> Self {
        Self::at("body", field, msg, kind)
    }

    pub(crate) fn query(field: &str, msg: impl Into<String>) -> Self {
        Self::at("query", field, msg, "value_error")
    }

    pub(crate) fn header(field: &str, msg: impl Into<String>) -> Self {
        Self::at("header", field, msg, "value_error")
    }

    /// A parameter that the route does not have.
    pub(crate) fn unknown(field: &str) -> Self {
        Self::at("query", field, "Unknown parameter", "extra_forbidden")
    }

    /// The body as a whole.
    pub(crate) fn malformed(msg: impl Into<String>) -> Self {
        Self { loc: vec!["body".into()], msg: msg.into(), kind: "malformed" }
    }

    pub(crate) fn is_about(&self, field: &str) -> bool {
        self.loc.last().is_some_and(|last| last == field)
    }

    fn at(place: &str, field: &str, msg: impl Into<String>, kind: &'static str) -> Self {
        Self { loc: vec![place.into(), field.into()], msg: msg.into(), kind }
    }
}

/// What every refusal says but the next one.
#[derive(Serialize, ToSchema)]
pub(crate) struct Detail {
    pub(crate) detail: String,
}

/// Of a 422.
#[derive(Serialize, ToSchema)]
pub(crate) struct Faults {
    #[schema(min_items = 1)]
    detail: Vec<Fault>,
}

/// Why a request is not answered with what it asks for. Nothing is left behind by any of them.
#[derive(Debug)]
pub(crate) enum Refusal {
    NoIdentity,
    WrongIdentity,
    /// The scope that is missing.
    Scope(&'static str),
    /// The keys that tokens are verified with are not there yet.
    NoKeys,
    NotFound,
    Method,
    Slow,
    AgentNotFound,
    RunNotFound,
    SessionNotFound,
    Invalid(Vec<Fault>),
    Metadata,
    Options(Vec<String>),
    Version,
    AudioOrVideo,
    EmptyUpload(String),
    TooLarge(String),
    NoQueue,
    /// Checkpoints are in this folder, which other workers cannot read.
    Checkpoints(PathBuf),
    Full,
    RunNotEnded,
    KeyScope,
    KeyInput,
    SessionBusy,
    /// A foreground run that ended before its turn started, with its error.
    NotStarted(String),
    Log(LogError),
    Crashed,
}

impl Refusal {
    pub(crate) fn invalid(fault: Fault) -> Self {
        Self::Invalid(vec![fault])
    }

    fn status(&self) -> StatusCode {
        match self {
            Self::NoIdentity | Self::WrongIdentity => StatusCode::UNAUTHORIZED,
            Self::Scope(_) => StatusCode::FORBIDDEN,
            Self::NotFound | Self::AgentNotFound | Self::RunNotFound | Self::SessionNotFound => StatusCode::NOT_FOUND,
            Self::Method => StatusCode::METHOD_NOT_ALLOWED,
            Self::Slow => StatusCode::REQUEST_TIMEOUT,
            Self::Invalid(_) => StatusCode::UNPROCESSABLE_ENTITY,
            Self::Metadata | Self::Options(_) | Self::Version | Self::AudioOrVideo | Self::EmptyUpload(_) | Self::NoQueue => StatusCode::BAD_REQUEST,
            Self::TooLarge(_) => StatusCode::PAYLOAD_TOO_LARGE,
            Self::Full => StatusCode::TOO_MANY_REQUESTS,
            Self::KeyScope | Self::KeyInput | Self::SessionBusy | Self::RunNotEnded => StatusCode::CONFLICT,
            Self::NoKeys | Self::Log(LogError::Unreachable(_) | LogError::Missing(_) | LogError::Unfit(_)) => StatusCode::SERVICE_UNAVAILABLE,
            Self::NotStarted(_) | Self::Checkpoints(_) | Self::Log(LogError::Differs(_) | LogError::Unreadable(_)) | Self::Crashed => {
                StatusCode::INTERNAL_SERVER_ERROR
            }
        }
    }

    fn text(&self) -> String {
        match self {
            Self::NoIdentity => "Authorization header required".into(),
            Self::WrongIdentity => "Invalid authentication token".into(),
            Self::Scope(scope) => format!("Insufficient permissions: the scope {scope} is required"),
            Self::NoKeys => "The keys that tokens are verified with cannot be reached".into(),
            Self::NotFound => "Not Found".into(),
            Self::Method => "Method Not Allowed".into(),
            Self::Slow => "The body did not come in".into(),
            Self::AgentNotFound => "Agent not found".into(),
            Self::RunNotFound => "Run not found".into(),
            Self::SessionNotFound => "Session not found".into(),
            Self::Invalid(faults) => faults.iter().map(|fault| fault.msg.as_str()).collect::<Vec<_>>().join("; "),
            Self::Metadata => "Invalid metadata parameter: expected a JSON object".into(),
            Self::Options(names) => format!("Unsupported sandbox run options: {}", names.join(", ")),
            Self::Version => "Sandboxed runs use the registered agent; version pinning is not supported".into(),
            Self::AudioOrVideo => "Sandboxed runs accept images and files; audio and video are not supported".into(),
            Self::EmptyUpload(name) => format!("Empty upload: {name}"),
            Self::TooLarge(limit) => limit.clone(),
            Self::NoQueue => "Sandbox API execution requires a durable queue with shared session admission".into(),
            Self::Checkpoints(folder) => {
                format!("Sandbox checkpoints default to {}, which other workers cannot read; set SANDLOG_CHECKPOINTS", folder.display())
            }
            Self::Full => "Job queue is full".into(),
            Self::RunNotEnded => "The run has not ended".into(),
            Self::KeyScope => "Idempotency-Key belongs to a different submission scope".into(),
            Self::KeyInput => "Idempotency-Key already has different input or options".into(),
            Self::SessionBusy => "A run of the session has not ended".into(),
            Self::NotStarted(error) => error.clone(),
            Self::Log(LogError::Unreachable(_)) => "The event log cannot be reached".into(),
            Self::Log(LogError::Differs(text)) => text.clone(),
            Self::Log(LogError::Missing(_) | LogError::Unfit(_)) => "The event log is not fit for this release".into(),
            Self::Log(LogError::Unreadable(_)) | Self::Crashed => "Internal Server Error".into(),
        }
    }

    fn retry_after(&self) -> Option<u64> {
        match self {
            Self::Full => Some(5),
            Self::NoKeys | Self::Log(LogError::Unreachable(_)) => Some(1),
            _ => None,
        }
    }
}

impl From<LogError> for Refusal {
    fn from(error: LogError) -> Self {
        Self::Log(error)
    }
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        if let Self::Log(error) = &self {
            tracing::error!(error = error as &(dyn std::error::Error + 'static), "api: the log did not answer");
        }
        let (status, retry_after) = (self.status(), self.retry_after());
        let unknown = matches!(self, Self::NoIdentity | Self::WrongIdentity);
        let mut response = match self {
            Self::Invalid(detail) => (status, Json(Faults { detail })).into_response(),
            other => (status, Json(Detail { detail: other.text() })).into_response(),
        };
        if let Some(seconds) = retry_after {
            response.headers_mut().insert(RETRY_AFTER, HeaderValue::from(seconds));
        }
        if unknown {
            response.headers_mut().insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        response
    }
}
