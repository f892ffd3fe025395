//! From a body to what is asked for, in the order of the checks that clients rely on. Pure.

use adapters::Attachment;
use serde_json::{Map, Value};

use super::body::{Body, FILES_LIMIT};
use super::bound;
use super::form::{self, Form};
use super::media::{self, Sent};
use crate::respond::Refusal;

const MESSAGE_LIMIT: usize = 4 * 1024 * 1024;
pub(super) const METADATA_LIMIT: usize = 64 * 1024;
// It is an argument of the harness: the kernel takes no longer one.
pub(super) const SCHEMA_LIMIT: usize = 96 * 1024;
const FILES: usize = 16;
const ID_CHARACTERS: usize = 128;

/// A submission as the client means it.
#[derive(Debug, PartialEq)]
pub(crate) struct Asked {
    pub(crate) message: String,
    pub(crate) stream: bool,
    pub(crate) background: bool,
    pub(crate) session_id: Option<String>,
    pub(crate) user_id: Option<String>,
    pub(crate) metadata: Map<String, Value>,
    pub(crate) output_schema: Option<Value>,
    pub(crate) attachments: Vec<Attachment>,
}

pub(crate) fn check(body: Body) -> Result<Asked, Refusal> {
    let mut form = Form::new(body.fields, body.large);
    let message = form.text("message", usize::MAX);
    if message.is_none() && form.faults.iter().all(|fault| !fault.is_about("message")) {
        form.fault("message", "Field required", "missing");
    }
    let stream = form.boolean("stream").unwrap_or(true);
    let background = form.boolean("background").unwrap_or(false);
    let session_id = form.text("session_id", ID_CHARACTERS);
    let user_id = form.text("user_id", ID_CHARACTERS);
    let output_schema = form.schema();
    let metadata = form.take("metadata");
    let version = form.take("version").is_some();
    let files = form.files(body.uploads);
    let large = std::mem::take(&mut form.large);
    let (faults, mut unknown) = form.rest();

    if !faults.is_empty() {
        return Err(Refusal::Invalid(faults));
    }
    let metadata = object(metadata)?;
    unknown.extend(files.unknown);
    // It would pin a checkout, and there is none.
    if metadata.get("repository").is_some_and(|repository| !repository.is_null()) {
        unknown.insert("metadata.repository".into());
    }
    if !unknown.is_empty() {
        return Err(Refusal::Options(unknown.into_iter().collect()));
    }
    if version {
        return Err(Refusal::Version);
    }
    if files.audio_or_video {
        return Err(Refusal::AudioOrVideo);
    }
    if let Some(empty) = files.sent.iter().find(|file| file.size == 0) {
        return Err(Refusal::EmptyUpload(empty.name.clone()));
    }
    let message = message.unwrap_or_default();
    sizes(&message, &metadata, output_schema.as_ref(), &files.sent, &large)?;
    let attachments = files.sent.into_iter().map(media::attachment).collect();
    Ok(Asked { message, stream, background, session_id, user_id, metadata, output_schema, attachments })
}

/// Metadata is an object, or text that is one. Anything else is refused, never dropped.
fn object(value: Option<Value>) -> Result<Map<String, Value>, Refusal> {
    match value.map(|value| form::parsed(value).filter(|value| !form::holds_nul(value))) {
        None => Ok(Map::new()),
        Some(Some(Value::Object(object))) => Ok(object),
        Some(_) => Err(Refusal::Metadata),
    }
}

fn sizes(message: &str, metadata: &Map<String, Value>, schema: Option<&Value>, files: &[Sent], large: &[String]) -> Result<(), Refusal> {
    let is_large = |field: &str| large.iter().any(|name| name == field);
    let of = |field: &str, size: usize| if is_large(field) { usize::MAX } else { size };
    let metadata = serde_json::to_string(metadata).map_or(0, |text| text.len());
    let schema = schema.map_or(0, |schema| schema.to_string().len());
    let attachments = files.iter().map(|file| file.size).sum();
    let limits = [
        ("The message", message.len(), MESSAGE_LIMIT),
        ("The metadata", of("metadata", metadata), METADATA_LIMIT),
        ("The output schema", of("output_schema", schema), SCHEMA_LIMIT),
        ("The attachments together", attachments, FILES_LIMIT),
    ];
    if files.len() > FILES {
        return Err(Refusal::TooLarge(format!("A run takes {FILES} attachments at most")));
    }
    if let Some((what, _, limit)) = limits.into_iter().find(|(_, size, limit)| size > limit) {
        return Err(Refusal::TooLarge(format!("{what} may have {limit} bytes at most")));
    }
    match large.first() {
        Some(field) => Err(Refusal::TooLarge(format!("The field {field} may have {} bytes at most", bound::limit(field)))),
        None => Ok(()),
    }
}
