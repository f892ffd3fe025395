//! `/agents/{agent}/runs/{run}/events`: frames as JSON, the same as a stream has.

use std::sync::Arc;

use ::runs::frame;
use axum::extract::State;
use axum::http::header::CONTENT_TYPE;
use axum::http::{HeaderValue, Uri};
use axum::response::{IntoResponse, Response};

use crate::app::App;
use crate::auth::Caller;
use crate::edge::Ids;
use crate::fields::{Query, index_after};
use crate::render::Identity;
use crate::respond::Refusal;
use crate::runs;
use crate::tail::INDEX_END;

/// A page is cut before its limit where its text gets this long. It has one frame at least, so whoever reads on gets to the end.
const LONG: usize = 4 * 1024 * 1024;
const EVENTS_AT_ONCE: u32 = 8;

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
