//! `/agents/{agent}/runs/{run}/events`: frames as JSON, the same as a stream has.

use std::sync::Arc;

use ::runs::frame;
use axum::extract::State;
use axum::http::header::CONTENT_TYPE;
use axum::http::{HeaderValue, Uri};
use axum::response::{IntoResponse, Response};
use utoipa::ToSchema;

use crate::app::App;
use crate::auth::Caller;
use crate::edge::Ids;
use crate::fields::{Query, index_after};
use crate::openapi::paths::OfRun;
use crate::render::{Identity, StreamFrame};
use crate::respond::Refusal;
use crate::runs;
use crate::tail::INDEX_END;

/// A page is cut before its limit where its text gets this long. It has one frame at least, so whoever reads on gets to the end.
const LONG: usize = 4 * 1024 * 1024;
const EVENTS_AT_ONCE: u32 = 8;

#[derive(utoipa::IntoParams)]
#[into_params(parameter_in = Query)]
#[expect(dead_code, reason = "read by name; here it is described")]
struct Filter {
    /// Frames after this `event_index`; -1 or nothing: from the first one on.
    #[param(minimum = -1)]
    after: Option<i64>,
    /// How many there may be on a page. A page of long frames has fewer, and one at least.
    #[param(minimum = 1, maximum = 1000, default = 100)]
    limit: Option<u32>,
    /// Checked, where it is given: a run of another session is not found.
    session_id: Option<String>,
}

/// Frames of a run.
#[derive(ToSchema)]
#[expect(dead_code, reason = "written as text; here it is described")]
struct Frames {
    data: Vec<StreamFrame>,
    meta: Meta,
}

#[derive(ToSchema)]
#[schema(as = FramesMeta)]
#[expect(dead_code, reason = "written as text; here it is described")]
struct Meta {
    limit: u32,
    /// The `after` of the next page; nothing where there was no frame.
    #[schema(required)]
    last_event_index: Option<u32>,
}

/// Frames of a run as JSON, the same as its stream has
#[utoipa::path(
    get,
    path = "/agents/{agent}/runs/{run}/events",
    tag = "runs",
    operation_id = "list_events",
    params(OfRun, Filter),
    responses((status = 200, description = "A page of them", body = Frames), (status = 404, description = "No such agent, or no such run"))
)]
pub(crate) async fn list(
    State(app): State<Arc<App>>,
    caller: Caller,
    Ids((agent_id, run_id)): Ids<(String, String)>,
    uri: Uri,
) -> Result<Response, Refusal> {
    let query = Query::of(&uri)?;
    let limit = query.limit(100, 1000)?;
    let after = query.parsed("after", "must be the event_index of a frame", index_after)?;
    let run = runs::find(&app, &caller, &agent_id, &run_id, query.get("session_id")?).await?;
    let identity = Identity::new(run.run_id, &run.session_id, &run.agent_id);

    let (mut next, mut frames, mut text) = (after.unwrap_or(0).min(INDEX_END), 0, String::new());
    'page: while frames < limit && text.len() < LONG {
        let events = app.reader.frames(run.run_id, next, EVENTS_AT_ONCE).await?;
        if events.is_empty() {
            break;
        }
        for recorded in &events {
            let from = next;
            for (index, frame) in frame::indexed(recorded).filter(|(index, _)| *index >= from) {
                if frames == limit || text.len() >= LONG {
                    break 'page;
                }
                if frames > 0 {
                    text.push(',');
                }
                identity.json(&mut text, recorded.at, index, &frame);
                (next, frames) = (index + 1, frames + 1);
            }
        }
    }
    let last = if frames > 0 { (next - 1).to_string() } else { "null".into() };
    let body = format!("{{\"data\":[{text}],\"meta\":{{\"limit\":{limit},\"last_event_index\":{last}}}}}");
    Ok(([(CONTENT_TYPE, HeaderValue::from_static("application/json"))], body).into_response())
}
