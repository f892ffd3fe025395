//! A submission's body as fields and uploads, whichever of the three encodings it comes in. What the fields mean is not looked at here.

use axum::RequestExt;
use axum::body::Bytes;
use axum::extract::multipart::{Field, MultipartError};
use axum::extract::{Multipart, Request};
use axum::http::header::CONTENT_TYPE;
use axum::http::{HeaderMap, StatusCode};
use serde_json::Value;

use super::object::Object;
use crate::fields;
use crate::respond::{Fault, Refusal};

/// The whole of a body: enough for the largest message and the largest attachments, both encoded at their worst.
pub(crate) const BODY_LIMIT: usize = 24 * 1024 * 1024;
pub(crate) const FILES_LIMIT: usize = 4 * 1024 * 1024;
/// Far more than any client sends, in any encoding; without a limit a body of tiny parts is a list of millions.
pub(super) const PARTS_LIMIT: usize = 256;

#[derive(Debug, Default, PartialEq)]
pub(crate) struct Body {
    pub(crate) fields: Vec<(String, Value)>,
    pub(crate) uploads: Vec<Upload>,
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

pub(crate) async fn read(request: Request) -> Result<Body, Refusal> {
    match media_type(request.headers()).as_str() {
        "multipart/form-data" => multipart(request).await,
        "application/x-www-form-urlencoded" => {
            let bytes = whole(request).await?;
            if bytes.iter().filter(|byte| **byte == b'&').count() >= PARTS_LIMIT {
                return Err(too_many());
            }
            let pairs = fields::pairs(&bytes).ok_or_else(|| malformed("is not UTF-8"))?;
            Ok(Body { fields: pairs.into_iter().map(|(name, value)| (name, value.into())).collect(), uploads: Vec::new() })
        }
        "application/json" => json(&whole(request).await?),
        _ => Err(malformed("must be multipart/form-data, application/x-www-form-urlencoded or application/json")),
    }
}

fn media_type(headers: &HeaderMap) -> String {
    let value = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    value.split(';').next().unwrap_or_default().trim().to_ascii_lowercase()
}

async fn whole(request: Request) -> Result<Bytes, Refusal> {
    request.extract::<Bytes, _>().await.map_err(|rejection| cut(rejection.status(), "could not be read"))
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
    let fields = read(request).await?.fields.into_iter().filter(|(_, value)| !value.is_null());
    Ok(fields.map(|(name, value)| (name, text(value))).collect())
}

fn json(bytes: &[u8]) -> Result<Body, Refusal> {
    if bytes.is_empty() {
        return Ok(Body::default());
    }
    match serde_json::from_slice(bytes) {
        Ok(Object::Fields(fields)) => Ok(Body { fields, uploads: Vec::new() }),
        Ok(Object::TooMany) => Err(too_many()),
        Err(error) if error.is_data() => Err(malformed("must be a JSON object")),
        Err(error) => Err(malformed(&format!("is not JSON: {error}"))),
    }
}

async fn multipart(request: Request) -> Result<Body, Refusal> {
    let mut parts: Multipart = request.extract().await.map_err(|_| malformed("is not multipart: the boundary is missing"))?;
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
                let upload = upload(part, field, name, &mut room).await?;
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
async fn upload(mut part: Field<'_>, field: String, name: String, room: &mut usize) -> Result<Upload, Refusal> {
    let media_type = part.content_type().map(ToOwned::to_owned);
    let (mut bytes, mut size) = (Vec::new(), 0);
    while let Some(chunk) = part.chunk().await.map_err(broken)? {
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

fn broken(error: MultipartError) -> Refusal {
    cut(error.status(), "is not well-formed multipart")
}

fn cut(status: StatusCode, msg: &str) -> Refusal {
    match status {
        StatusCode::PAYLOAD_TOO_LARGE => Refusal::TooLarge(format!("The request is larger than {BODY_LIMIT} bytes")),
        _ => malformed(msg),
    }
}
