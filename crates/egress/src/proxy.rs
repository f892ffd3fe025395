//! One request: refused here, or sent on with the key and answered as the upstream answers.

use std::error::Error;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use hyper::body::Incoming;
use hyper::header::{CONNECTION, CONTENT_TYPE, HeaderValue};
use hyper::{Request, Response, StatusCode, Uri};
use serde_json::json;

use crate::body::{Counted, Noted};
use crate::client::Upstreams;
use crate::door::HEAD;
use crate::head::{incoming, is_coded, outgoing};
use crate::note::{Note, Records};
use crate::route::{Refusal, route, split};
use crate::secret::Mask;
use crate::settings::{Settings, Upstream};
use crate::usage::Usage;

/// How long both sides may be silent.
const IDLE: Duration = Duration::from_secs(600);
/// The longest cause that is told.
const LONGEST: usize = 300;

/// What all requests need.
pub(crate) struct Egress {
    pub(crate) settings: Settings,
    pub(crate) upstreams: Upstreams,
}

impl Egress {
    /// Answers a request of a sandbox that may use these upstreams.
    pub(crate) async fn answer(&self, may: &[String], records: Records, request: Request<Incoming>) -> Response<Noted> {
        let (name, path) = split(request.uri().path());
        let known = self.settings.upstreams.iter().any(|one| one.name == name);
        let (name, path) = if known { (name, path) } else { ("", request.uri().path()) };
        let note = Note::new(records, name, request.method().as_str(), path);
        if head_bytes(&request) > HEAD {
            let mut response = own(note, StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE, "request", "invalid_request_error", "the head is too large");
            response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
            return response;
        }
        match route(&self.settings.upstreams, may, request.method(), request.uri()) {
            Ok(route) => {
                let uri = Uri::builder().scheme(route.upstream.scheme.clone()).authority(route.upstream.authority.clone()).path_and_query(route.to);
                match uri.build() {
                    Ok(uri) => self.ask(route.upstream, uri, note, request).await,
                    Err(_) => refuse(note, Refusal::Request),
                }
            }
            Err(refusal) => refuse(note, refusal),
        }
    }

    async fn ask(&self, upstream: &Upstream, uri: Uri, mut note: Note, request: Request<Incoming>) -> Response<Noted> {
        let (head, body) = request.into_parts();
        let mut request = Request::new(Counted::new(body, note.sent.clone()));
        *request.method_mut() = head.method;
        *request.uri_mut() = uri;
        *request.headers_mut() = outgoing(&head.headers, upstream.key.as_ref());
        let silent = silence(&note);
        let answer = tokio::select! {
            answer = self.upstreams.request(request) => answer,
            () = silent => return own(note, StatusCode::GATEWAY_TIMEOUT, "timeout", "timeout_error", &format!("{} does not answer", upstream.name)),
        };
        let (head, body) = match answer {
            Ok(answer) => answer.into_parts(),
            Err(error) => {
                let (word, what) = if error.is_connect() { ("unreachable", "cannot be reached") } else { ("failed", "broke off before its answer") };
                // What TLS says of a certificate is the upstream's words.
                let said = self.settings.secrets.mask(cause(&error).as_bytes());
                let said = String::from_utf8_lossy(&said);
                return own(note, StatusCode::BAD_GATEWAY, word, "api_error", &format!("{} {what}{said}", upstream.name));
            }
        };
        if is_coded(&head.headers) {
            let said = format!("{} sent an encoded answer, in which a key could not be seen", upstream.name);
            return own(note, StatusCode::BAD_GATEWAY, "encoded", "api_error", &said);
        }
        note.door.status = Some(head.status.as_u16());
        note.usage = Usage::of(head.headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()));
        let mask = Mask::new(Arc::clone(&self.settings.secrets));
        let mut response = Response::new(Noted::upstream(body, mask, note, IDLE));
        *response.status_mut() = head.status;
        *response.headers_mut() = incoming(&head.headers);
        self.settings.secrets.mask_headers(response.headers_mut());
        response
    }
}

/// What the head's names and values come to. The server's own limit lets one pass that came in whole at once.
fn head_bytes(request: &Request<Incoming>) -> usize {
    let headers = request.headers().iter().map(|(name, value)| name.as_str().len() + value.len());
    request.uri().to_string().len() + headers.sum::<usize>()
}

/// Ends when nothing of the request has gone out for the limit.
fn silence(note: &Note) -> impl Future<Output = ()> + use<> {
    let sent = note.sent.clone();
    async move {
        let mut before = sent.load(Ordering::Relaxed);
        loop {
            tokio::time::sleep(IDLE).await;
            let now = sent.load(Ordering::Relaxed);
            if std::mem::replace(&mut before, now) == now {
                return;
            }
        }
    }
}

fn word(refusal: Refusal) -> &'static str {
    match refusal {
        Refusal::Upstream => "upstream",
        Refusal::Path => "path",
        Refusal::Key(_) => "key",
        Refusal::Request => "request",
    }
}

fn refuse(note: Note, refusal: Refusal) -> Response<Noted> {
    let (status, kind, message) = match refusal {
        Refusal::Upstream => (StatusCode::FORBIDDEN, "permission_error", "no such upstream, or not one for this sandbox".to_owned()),
        Refusal::Path => (StatusCode::FORBIDDEN, "permission_error", "this request is not on the list of what sandboxes may ask".to_owned()),
        Refusal::Key(variable) => (StatusCode::UNAUTHORIZED, "authentication_error", format!("{variable} is not set where Sandlog's worker runs")),
        Refusal::Request => (StatusCode::BAD_REQUEST, "invalid_request_error", "only plain requests like /UPSTREAM/v1/... are taken".to_owned()),
    };
    own(note, status, word(refusal), kind, &message)
}

/// An answer that clients of either API read as an error.
fn own(mut note: Note, status: StatusCode, word: &str, kind: &str, message: &str) -> Response<Noted> {
    note.door.status = Some(status.as_u16());
    note.door.refused = Some(word.into());
    let text = json!({"type": "error", "error": {"type": kind, "message": format!("sandlog: {message}")}}).to_string();
    let mut response = Response::new(Noted::own(text, note));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}

/// The innermost cause, which says most.
fn cause(error: &dyn Error) -> String {
    let (mut text, mut next) = (String::new(), error.source());
    while let Some(error) = next {
        text = format!(": {error}");
        next = error.source();
    }
    text[..text.floor_char_boundary(LONGEST)].to_owned()
}
