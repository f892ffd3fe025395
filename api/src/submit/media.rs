//! Attachments: uploads, and the base64 media that `AgentOSClient` sends.

use std::fmt;

use adapters::Attachment;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::de::{Deserialize, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::Value;
use serde_json::value::RawValue;
use sha2::{Digest, Sha256};

use super::body::{PARTS_LIMIT, Upload};

/// The fields that media come in as JSON.
pub(super) const FIELDS: [&str; 2] = ["images", "input_files"];
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

/// A JSON array of media, as `Image.to_dict()` and `File.to_dict()` of Agno write them: text, or in a form the same.
pub(super) fn described(value: &Value, kind: &str) -> Result<Vec<Sent>, &'static str> {
    let shape = "Input should be a JSON array of objects";
    let text = match value {
        Value::String(text) if text.is_empty() => return Ok(Vec::new()),
        Value::String(text) => text,
        _ => return Err(shape),
    };
    let Items(items) = serde_json::from_str(text).map_err(|_| shape)?;
    if items.len() > PARTS_LIMIT {
        return Err("Input has far too many items");
    }
    items.into_iter().enumerate().map(|(index, item)| one(item, kind, index + 1)).collect()
}

/// No more of them are kept than tell that there are too many.
struct Items(Vec<Item>);

/// The texts of an item that we ask for; what else it holds is passed by and never built.
#[derive(Default)]
struct Item {
    content: Option<String>,
    mime_type: Option<String>,
    format: Option<String>,
    filename: Option<String>,
    name: Option<String>,
    has_id: bool,
}

impl<'de> Deserialize<'de> for Items {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct List;
        impl<'de> Visitor<'de> for List {
            type Value = Items;

            fn expecting(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
                to.write_str("an array")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Items, A::Error> {
                let mut items = Vec::new();
                while items.len() <= PARTS_LIMIT
                    && let Some(item) = list.next_element()?
                {
                    items.push(item);
                }
                while list.next_element::<IgnoredAny>()?.is_some() {}
                Ok(Items(items))
            }
        }
        from.deserialize_seq(List)
    }
}

impl<'de> Deserialize<'de> for Item {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct Fields;
        impl<'de> Visitor<'de> for Fields {
            type Value = Item;

            fn expecting(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
                to.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Item, A::Error> {
                let mut item = Item::default();
                while let Some(key) = map.next_key::<String>()? {
                    let place = match key.as_str() {
                        "content" => &mut item.content,
                        "mime_type" => &mut item.mime_type,
                        "format" => &mut item.format,
                        "filename" => &mut item.filename,
                        "name" => &mut item.name,
                        other => {
                            item.has_id |= other == "id";
                            map.next_value::<IgnoredAny>()?;
                            continue;
                        }
                    };
                    *place = text(map.next_value()?).map_err(A::Error::custom)?;
                }
                Ok(item)
            }
        }
        from.deserialize_map(Fields)
    }
}

/// What is no text counts as absent.
fn text(raw: &RawValue) -> Result<Option<String>, serde_json::Error> {
    let raw = raw.get();
    if raw.starts_with('"') { serde_json::from_str(raw).map(Some) } else { Ok(None) }
}

fn one(item: Item, kind: &str, number: usize) -> Result<Sent, &'static str> {
    let given = |text: Option<String>| text.filter(|text| !text.is_empty());
    let (mime_type, format) = (given(item.mime_type), given(item.format));
    let Some(content) = item.content else {
        return Err("Every item needs content, in base64: a url, a path or a reference is not followed");
    };
    let media_type = match (mime_type, format) {
        (Some(media_type), _) => media_type,
        (None, Some(format)) if kind == "image" => format!("image/{format}"),
        _ => UNKNOWN.to_owned(),
    };
    // Agno's `File.to_dict()` writes the content of a `text/*` file as it is, not in base64, and always has an `id`. Guessing from the content would
    // corrupt a text that happens to be base64.
    let is_plain = kind == "file" && item.has_id && media_type.starts_with("text/");
    let bytes = if is_plain { content.into_bytes() } else { STANDARD.decode(content).map_err(|_| "The content of every item should be base64")? };
    let name = given(item.filename).or_else(|| given(item.name)).unwrap_or_else(|| format!("{kind}-{number}"));
    let size = bytes.len();
    Ok(Sent { name, media_type, bytes, size })
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
