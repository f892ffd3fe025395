//! A view on the wire: server-sent events, with comments while nothing happens and a planned end.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::sync::Arc;

use adapters::metrics::Viewer;
use axum::body::Body;
use axum::http::HeaderValue;
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE};
use axum::response::Response;
use bytes::Bytes;
use futures_util::stream;
use tokio::time::{Instant, sleep, sleep_until};

use crate::Until;
use crate::app::App;
use crate::tail::{Step, View};

const KEEPALIVE: Bytes = Bytes::from_static(b": keepalive\n\n");
/// Before an end that is ours: `EventSource` then comes back soon, and misses nothing.
const RETRY: Bytes = Bytes::from_static(b"retry: 1000\n\n");

/// Control frames of a resumed stream: what comes next is stored, and then live. A submission's own stream has none.
pub(crate) struct Announce {
    /// Sent before the first stored frame: `replay` of an ended run, `catch_up` of one that goes on.
    stored: Option<&'static str>,
    status: &'static str,
}

impl Announce {
    pub(crate) fn new(status: ::runs::Status) -> Self {
        let stored = if status.has_ended() { "replay" } else { "catch_up" };
        Self { stored: Some(stored), status: status.name() }
    }
}

struct Wire {
    _counted: Viewer,
    app: Arc<App>,
    view: View,
    announce: Option<Announce>,
    deadline: Option<Instant>,
    ready: VecDeque<Bytes>,
    over: bool,
}

/// `until` is when the one who carries the request stops.
pub(crate) fn response(app: &Arc<App>, view: View, announce: Option<Announce>, until: Option<Until>) -> Response {
    let limit = app.options.stream_limit.map(|limit| Instant::now() + limit);
    let deadline = limit.into_iter().chain(until.map(|Until(end)| end)).min();
    let wire = Wire { _counted: app.metrics.viewer(), app: app.clone(), view, announce, deadline, ready: VecDeque::new(), over: false };
    // The next chunk is made when the connection has room for it, not before.
    let chunks = stream::unfold(wire, |mut wire| async move { Some((Ok::<_, Infallible>(wire.next().await?), wire)) });
    events(Body::from_stream(chunks))
}

/// A stream of nothing that ends at once, for who then comes back by itself and would never come back from a refusal.
pub(crate) fn come_back() -> Response {
    events(Body::from(RETRY))
}

fn events(body: Body) -> Response {
    let mut response = Response::new(body);
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert("x-accel-buffering", HeaderValue::from_static("no"));
    response
}

impl Wire {
    async fn next(&mut self) -> Option<Bytes> {
        loop {
            if let Some(chunk) = self.ready.pop_front() {
                return Some(chunk);
            }
            if self.over {
                return None;
            }
            let (app, deadline) = (&self.app, self.deadline);
            let planned_end = async {
                match deadline {
                    Some(deadline) => tokio::select! {
                        () = sleep_until(deadline) => {}
                        () = app.closed() => {}
                    },
                    None => app.closed().await,
                }
            };
            tokio::select! {
                biased;
                // First, so that a run that never pauses does not keep its stream beyond the limit. After the last frame nobody is to come back.
                () = planned_end, if !self.view.is_done() => {
                    self.over = true;
                    self.ready.push_back(RETRY);
                }
                step = self.view.next() => self.take(step),
                () = sleep(app.options.keepalive) => self.ready.push_back(KEEPALIVE),
            }
        }
    }

    fn take(&mut self, step: Step) {
        match step {
            Step::Chunk { asked, chunk } => {
                if let Some(announce) = &mut self.announce
                    && let Some(name) = announce.stored.take()
                {
                    let fields = format!(",\"status\":\"{}\",\"from\":{}", announce.status, chunk.first);
                    self.control(name, &fields);
                }
                if chunk.first > asked {
                    let fields = format!(",\"from\":{asked},\"to\":{},\"reason\":\"no longer kept\"", chunk.first - 1);
                    self.control("gap", &fields);
                }
                self.ready.push_back(chunk.text);
            }
            Step::Live => {
                if let Some(announce) = &mut self.announce {
                    // What comes from now on is not stored beforehand.
                    announce.stored = None;
                    let fields = format!(",\"from\":{}", self.view.index());
                    self.control("subscribed", &fields);
                }
            }
            Step::End => self.over = true,
        }
    }

    fn control(&mut self, name: &str, fields: &str) {
        self.ready.push_back(self.view.identity().control(name, fields));
    }
}
