//! Attachments: uploads, and the base64 media that `AgentOSClient` sends.

use adapters::Attachment;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value};
use sha2::{Digest, Sha256};

use super::body::Upload;

const UNKNOWN: &str = "application/octet-stream";

/// A file before its size is judged.
#[derive(Debug, PartialEq)]
pub(super) struct Sent {
    pub(super) name: String,
    pub(super) media_type: String,
    pub(super) bytes: Vec<u8>,
    pub(super) size: usize,
}

/// `before` files came before it: a name for one that has none.
pub(super) fn uploaded(upload: Upload, before: usize) -> Sent {
    let Upload { name, media_type, bytes, size, .. } = upload;
    let name = if name.is_empty() { format!("file-{}", before + 1) } else { name };
    Sent { name, media_type: media_type.unwrap_or_else(|| UNKNOWN.into()), bytes, size }
}

/// A JSON array of media, as `Image.to_dict()` and `File.to_dict()` of Agno write them.
pub(super) fn described(value: Value, kind: &str) -> Result<Vec<Sent>, &'static str> {
    let shape = "Input should be a JSON array of objects";
    let value = match value {
        Value::String(text) if text.is_empty() => return Ok(Vec::new()),
        Value::String(text) => serde_json::from_str(&text).map_err(|_| shape)?,
        value => value,
    };
    let Value::Array(items) = value else { return Err(shape) };
    let sent = |(index, item)| match item {
        Value::Object(item) => one(&item, kind, index + 1),
        _ => Err(shape),
    };
    items.into_iter().enumerate().map(sent).collect()
}

fn one(item: &Map<String, Value>, kind: &str, number: usize) -> Result<Sent, &'static str> {
    let text = |key: &str| item.get(key).and_then(Value::as_str).filter(|text| !text.is_empty());
    let Some(content) = item.get("content").and_then(Value::as_str) else {
        return Err("Every item needs content, in base64: a url, a path or a reference is not followed");
    };
    let media_type = match (text("mime_type"), text("format")) {
        (Some(media_type), _) => media_type.to_owned(),
        (None, Some(format)) if kind == "image" => format!("image/{format}"),
        _ => UNKNOWN.to_owned(),
    };
    let bytes = if is_plain(item, kind, &media_type) {
        content.as_bytes().to_vec()
    } else {
        STANDARD.decode(content).map_err(|_| "The content of every item should be base64")?
    };
    let name = text("filename").or_else(|| text("name")).map_or_else(|| format!("{kind}-{number}"), ToOwned::to_owned);
    let size = bytes.len();
    Ok(Sent { name, media_type, bytes, size })
}

/// Agno's `File.to_dict()` writes the content of a `text/*` file as it is, not in base64, and always has an `id`. Guessing from the content would
/// corrupt a text that happens to be base64.
fn is_plain(item: &Map<String, Value>, kind: &str, media_type: &str) -> bool {
    kind == "file" && item.contains_key("id") && media_type.starts_with("text/")
}

pub(super) fn is_audio_or_video(media_type: &str) -> bool {
    let main = media_type.split('/').next().unwrap_or_default().trim();
    main.eq_ignore_ascii_case("audio") || main.eq_ignore_ascii_case("video")
}

pub(super) fn attachment(sent: Sent) -> Attachment {
    let sha256 = hex(&Sha256::digest(&sent.bytes));
    Attachment { name: sent.name, media_type: sent.media_type, sha256, body: sent.bytes }
}

fn hex(bytes: &[u8]) -> String {
    use std::fmt::Write;
    bytes.iter().fold(String::with_capacity(bytes.len() * 2), |mut text, byte| {
        // Writing to a string cannot fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}
