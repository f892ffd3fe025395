//! A submission's body as fields and uploads, whichever of the three encodings it comes in. What the fields mean is not looked at here.

use std::time::Duration;

use axum::RequestExt;
use axum::body::Bytes;
use axum::extract::multipart::{Field, MultipartError};
use axum::extract::{DefaultBodyLimit, Multipart, Request};
use axum::http::header::CONTENT_TYPE;
use axum::http::{HeaderMap, StatusCode};
use serde_json::Value;

use super::bound;
use super::object::Object;
use crate::fields;
use crate::respond::{Fault, Refusal};

/// The whole of a body: enough for the largest message and the largest attachments, both encoded at their worst.
pub(crate) const BODY_LIMIT: usize = 24 * 1024 * 1024;
pub(crate) const FILES_LIMIT: usize = 4 * 1024 * 1024;
/// For a body to come in: a client that stalls does not hold what it has sent for ever.
const TIME: Duration = Duration::from_secs(120);
/// Of a route that takes a few names and numbers.
const PARAMETERS_LIMIT: usize = 64 * 1024;
/// Far more than any client sends, in any encoding; without a limit a body of tiny parts is a list of millions.
pub(super) const PARTS_LIMIT: usize = 256;

#[derive(Debug, Default, PartialEq)]
pub(crate) struct Body {
    pub(crate) fields: Vec<(String, Value)>,
    pub(crate) uploads: Vec<Upload>,
    /// Fields that were too large to be looked at.
    pub(crate) large: Vec<String>,
}

/// A body that has come in.
#[derive(Debug)]
pub(crate) enum Sent {
    Pairs(Bytes),
    Json(Bytes),
    Parts(Body),
}

#[derive(Debug, PartialEq)]
pub(crate) struct Upload {
    pub(crate) field: String,
    pub(crate) name: String,
    pub(crate) media_type: Option<String>,
    pub(crate) bytes: Vec<u8>,
    /// What was sent: more than `bytes` has where that is over the limit.
    pub(crate) size: usize,
}

/// Takes a body in, of so many bytes at most.
pub(crate) async fn receive(mut request: Request, limit: usize) -> Result<Sent, Refusal> {
    DefaultBodyLimit::max(limit).apply(&mut request);
    tokio::time::timeout(TIME, received(request, limit)).await.map_err(|_| Refusal::Slow)?
}

async fn received(request: Request, limit: usize) -> Result<Sent, Refusal> {
    match media_type(request.headers()).as_str() {
        "multipart/form-data" => multipart(request, limit).await.map(Sent::Parts),
        "application/x-www-form-urlencoded" => whole(request, limit).await.map(Sent::Pairs),
        "application/json" => whole(request, limit).await.map(Sent::Json),
        _ => Err(malformed("must be multipart/form-data, application/x-www-form-urlencoded or application/json")),
    }
}

impl Sent {
    /// How much there is to parse.
    pub(crate) fn len(&self) -> usize {
        match self {
            Self::Pairs(bytes) | Self::Json(bytes) => bytes.len(),
            Self::Parts(Body { fields, uploads, .. }) => {
                let texts = fields.iter().map(|(_, value)| value.as_str().map_or(0, str::len));
                texts.chain(uploads.iter().map(|upload| upload.bytes.len())).sum()
            }
        }
    }

    pub(crate) fn body(self) -> Result<Body, Refusal> {
        match self {
            Self::Pairs(bytes) => form(&bytes),
            Self::Json(bytes) => json(&bytes),
            Self::Parts(body) => Ok(body),
        }
    }
}

fn form(bytes: &[u8]) -> Result<Body, Refusal> {
    if bytes.iter().filter(|byte| **byte == b'&').count() >= PARTS_LIMIT {
        return Err(too_many());
    }
    let pairs = fields::pairs(bytes).ok_or_else(|| malformed("is not UTF-8"))?;
    Ok(Body { fields: pairs.into_iter().map(|(name, value)| (name, value.into())).collect(), ..Body::default() })
}

fn media_type(headers: &HeaderMap) -> String {
    let value = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    value.split(';').next().unwrap_or_default().trim().to_ascii_lowercase()
}

async fn whole(request: Request, limit: usize) -> Result<Bytes, Refusal> {
    request.extract::<Bytes, _>().await.map_err(|rejection| cut(rejection.status(), limit, "could not be read"))
}

/// The fields of a body that may be absent, for routes that take few and small ones.
pub(crate) async fn parameters(request: Request) -> Result<Vec<(String, String)>, Refusal> {
    if request.headers().get(CONTENT_TYPE).is_none() {
        return Ok(Vec::new());
    }
    let text = |value| match value {
        Value::String(text) => text,
        other => other.to_string(),
    };
    let sent = receive(request, PARAMETERS_LIMIT).await?;
    let fields = bound::parse(sent.len(), || sent.body()).await?.fields.into_iter().filter(|(_, value)| !value.is_null());
    Ok(fields.map(|(name, value)| (name, text(value))).collect())
}

fn json(bytes: &[u8]) -> Result<Body, Refusal> {
    if bytes.is_empty() {
        return Ok(Body::default());
    }
    let no_json = |error: serde_json::Error| malformed(&format!("is not JSON: {error}"));
    let fields = match serde_json::from_slice(bytes) {
        Ok(Object::Fields(fields)) => fields,
        Ok(Object::TooMany) => return Err(too_many()),
        Err(error) if error.is_data() => return Err(malformed("must be a JSON object")),
        Err(error) => return Err(no_json(error)),
    };
    let mut body = Body::default();
    for (name, raw) in fields {
        let value = bound::value(&name, raw, &mut body.large).map_err(no_json)?;
        body.fields.push((name, value));
    }
    Ok(body)
}

async fn multipart(request: Request, limit: usize) -> Result<Body, Refusal> {
    let mut parts: Multipart = request.extract().await.map_err(|_| malformed("is not multipart: the boundary is missing"))?;
    let broken = |error: MultipartError| broken(&error, limit);
    let (mut body, mut room) = (Body::default(), FILES_LIMIT);
    while let Some(part) = parts.next_field().await.map_err(broken)? {
        if body.fields.len() + body.uploads.len() == PARTS_LIMIT {
            return Err(too_many());
        }
        let Some(field) = part.name().map(ToOwned::to_owned) else { return Err(malformed("has a part without a name")) };
        match part.file_name().map(ToOwned::to_owned) {
            None => {
                let text = String::from_utf8(part.bytes().await.map_err(broken)?.into())
                    .map_err(|_| malformed(&format!("has a field {field:?} that is not UTF-8")))?;
                body.fields.push((field, text.into()));
            }
            Some(name) => {
                let upload = upload(part, field, name, &mut room).await.map_err(broken)?;
                // What a browser sends for a file input that was left empty.
                if !(upload.name.is_empty() && upload.size == 0) {
                    body.uploads.push(upload);
                }
            }
        }
    }
    Ok(body)
}

/// Takes a file in. What goes beyond the limit of all files is counted and dropped, so that checks which come before that of sizes still see the rest.
async fn upload(mut part: Field<'_>, field: String, name: String, room: &mut usize) -> Result<Upload, MultipartError> {
    let media_type = part.content_type().map(ToOwned::to_owned);
    let (mut bytes, mut size) = (Vec::new(), 0);
    while let Some(chunk) = part.chunk().await? {
        size += chunk.len();
        let taken = chunk.len().min(*room);
        *room -= taken;
        bytes.extend_from_slice(&chunk[..taken]);
    }
    Ok(Upload { field, name, media_type, bytes, size })
}

fn too_many() -> Refusal {
    malformed(&format!("has more than {PARTS_LIMIT} parts"))
}

fn malformed(msg: &str) -> Refusal {
    Refusal::invalid(Fault::malformed(msg))
}

fn broken(error: &MultipartError, limit: usize) -> Refusal {
    cut(error.status(), limit, "is not well-formed multipart")
}

fn cut(status: StatusCode, limit: usize, msg: &str) -> Refusal {
    match status {
        StatusCode::PAYLOAD_TOO_LARGE => Refusal::TooLarge(format!("The request is larger than {limit} bytes")),
        _ => malformed(msg),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn of_a_value_that_is_too_large_nothing_is_built() {
        let ones = "1,".repeat(1_000_000);
        let text = format!(
            r#"{{"message": [{ones}1], "metadata": {{"a": [{ones}1]}}, "output_schema": {{"a": [{ones}1]}}, "b": [{ones}1], "stream": 1{}}}"#,
            "0".repeat(1_000_000)
        );
        let body = json(text.as_bytes()).unwrap();
        assert_eq!(body.large, ["message", "metadata", "output_schema", "b", "stream"]);
        let built: Vec<_> = body.fields.into_iter().map(|(_, value)| value).collect();
        assert_eq!(built, [json!([null]), json!({}), json!({}), json!([null]), json!(true)]);
    }

    #[test]
    fn what_escapes_make_long_is_still_read() {
        let long = "\\u0041".repeat(60 * 1024);
        let body = json(format!(r#"{{"metadata": {{"a": "{long}"}}}}"#).as_bytes()).unwrap();
        assert_eq!((body.large.len(), body.fields[0].1["a"].as_str().map(str::len)), (0, Some(60 * 1024)));
    }
}
