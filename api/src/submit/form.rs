//! The fields of a body as typed values, with every fault noted. What is left over at the end is an option that we do not have.

use std::collections::BTreeSet;

use serde_json::Value;

use super::body::Upload;
use super::bound;
use super::media::{self, Sent};
use crate::respond::Fault;

const NAME_CHARACTERS: usize = 255;
pub(super) const KNOWN: [&str; 10] =
    ["message", "stream", "background", "session_id", "user_id", "metadata", "output_schema", "files", "images", "input_files"];

#[derive(Default)]
pub(super) struct Form {
    fields: Vec<(String, Value)>,
    pub(super) faults: Vec<Fault>,
    /// Fields that were too large to be looked at.
    pub(super) large: Vec<String>,
}

/// All that was attached, in an order that does not depend on the encoding: uploads, images, other files.
#[derive(Default)]
pub(super) struct Files {
    pub(super) sent: Vec<Sent>,
    pub(super) audio_or_video: bool,
    /// Fields that uploads came under and that we do not have.
    pub(super) unknown: Vec<String>,
}

impl Form {
    pub(super) fn new(fields: Vec<(String, Value)>, large: Vec<String>) -> Self {
        // What a client leaves out it may also send as null.
        let mut fields: Vec<_> = fields.into_iter().filter(|(_, value)| !value.is_null()).collect();
        let mut form = Self { large, ..Self::default() };
        fields.iter_mut().for_each(|(name, value)| bound::text(name, value, &mut form.large));
        for (name, _) in &fields {
            let times = fields.iter().filter(|(other, _)| other == name).count();
            if times > 1 && KNOWN.contains(&name.as_str()) && form.faults.iter().all(|fault| !fault.is_about(name)) {
                form.fault(name, "Given more than once", "value_error");
            }
        }
        form.fields = fields;
        form
    }

    pub(super) fn fault(&mut self, field: &str, msg: impl Into<String>, kind: &'static str) {
        self.faults.push(Fault::body(field, msg, kind));
    }

    pub(super) fn take(&mut self, name: &str) -> Option<Value> {
        let at = self.fields.iter().position(|(field, _)| field == name)?;
        let value = self.fields.swap_remove(at).1;
        // Repeats are faults already.
        self.fields.retain(|(field, _)| field != name);
        Some(value)
    }

    /// An empty text counts as absent: that is how a form says so.
    pub(super) fn text(&mut self, name: &str, characters: usize) -> Option<String> {
        let value = self.take(name)?;
        let Value::String(text) = value else {
            self.fault(name, "Input should be a valid string", "string_type");
            return None;
        };
        if text.contains('\0') {
            self.fault(name, "Input should not hold a NUL character", "value_error");
        } else if characters < text.len() && characters < text.chars().count() {
            self.fault(name, format!("String should have at most {characters} characters"), "string_too_long");
        } else if !text.is_empty() {
            return Some(text);
        }
        None
    }

    pub(super) fn boolean(&mut self, name: &str) -> Option<bool> {
        let text = match self.take(name)? {
            Value::Bool(value) => return Some(value),
            Value::String(text) if text.is_empty() => return None,
            Value::String(text) => text,
            other => other.to_string(),
        };
        match text.trim().to_ascii_lowercase().as_str() {
            "true" | "1" | "yes" | "y" | "on" | "t" => Some(true),
            "false" | "0" | "no" | "n" | "off" | "f" => Some(false),
            _ => {
                self.fault(name, "Input should be a valid boolean, unable to interpret input", "bool_parsing");
                None
            }
        }
    }

    pub(super) fn schema(&mut self) -> Option<Value> {
        let schema = parsed(self.take("output_schema")?).filter(|schema| schema.is_object() && !holds_nul(schema));
        if schema.is_none() {
            self.fault("output_schema", "Input should be a JSON Schema: a JSON object", "value_error");
        }
        schema
    }

    pub(super) fn files(&mut self, uploads: Vec<Upload>) -> Files {
        let mut files = Files::default();
        for upload in uploads {
            match upload.field.as_str() {
                "files" => files.sent.push(media::uploaded(upload, files.sent.len())),
                "audio" | "videos" => files.audio_or_video = true,
                known if KNOWN.contains(&known) => {
                    let msg = if media::FIELDS.contains(&known) { "Uploads go into the field files" } else { "Input should not be a file" };
                    self.fault(&upload.field, msg, "value_error");
                }
                _ => files.unknown.push(upload.field),
            }
        }
        if self.take("files").is_some_and(|value| !is_empty(&value)) {
            self.fault("files", "Input should be an upload", "value_error");
        }
        for (field, kind) in [("images", "image"), ("input_files", "file")] {
            match self.take(field).map_or_else(|| Ok(Vec::new()), |value| media::described(&value, kind)) {
                Ok(sent) => files.sent.extend(sent),
                Err(msg) => self.fault(field, msg, "value_error"),
            }
        }
        for field in ["audio", "videos"] {
            files.audio_or_video |= self.take(field).is_some_and(|value| !is_empty(&value));
        }
        files.audio_or_video |= files.sent.iter().any(|file| media::is_audio_or_video(&file.media_type));
        if files
            .sent
            .iter()
            .any(|file| [&file.name, &file.media_type].into_iter().any(|text| text.contains('\0') || text.chars().count() > NAME_CHARACTERS))
        {
            self.fault("files", format!("Names and types of files have {NAME_CHARACTERS} characters at most, and no NUL"), "value_error");
        }
        files
    }

    /// Every fault, and the names of what nothing has asked for.
    pub(super) fn rest(self) -> (Vec<Fault>, BTreeSet<String>) {
        (self.faults, self.fields.into_iter().map(|(name, _)| name).collect())
    }
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Array(items) => items.is_empty(),
        Value::String(text) => matches!(text.trim(), "" | "[]" | "null"),
        _ => false,
    }
}

/// JSON, or in a form the text of it.
pub(super) fn parsed(value: Value) -> Option<Value> {
    match value {
        Value::String(text) => serde_json::from_str(&text).ok(),
        value => Some(value),
    }
}

/// Postgres keeps no text with a NUL character.
pub(super) fn holds_nul(value: &Value) -> bool {
    match value {
        Value::String(text) => text.contains('\0'),
        Value::Array(items) => items.iter().any(holds_nul),
        Value::Object(fields) => fields.iter().any(|(name, value)| name.contains('\0') || holds_nul(value)),
        _ => false,
    }
}
