//! The body of a submission as the document describes it, in its three encodings. A test holds the fields to those that `check` asks for.
#![expect(dead_code, reason = "the body is read field by field, so that every fault is named; here it is described")]

use serde_json::{Map, Value};
use utoipa::ToSchema;

#[derive(utoipa::IntoParams)]
#[into_params(parameter_in = Header)]
pub(super) struct Key {
    /// A repeat with the same key leads to the run that is there.
    #[param(rename = "Idempotency-Key", min_length = 1, max_length = 512)]
    key: Option<String>,
}

/// A submission. Fields that are not here are refused by name; null counts as absent.
#[derive(ToSchema)]
#[schema(as = Submission)]
#[serde(deny_unknown_fields)]
pub(super) struct Json {
    /// At most 4 MiB.
    #[schema(min_length = 1)]
    message: String,
    /// The answer is the run's stream of frames, whatever `background` says.
    #[schema(default = true)]
    stream: Option<bool>,
    /// With `stream=false`: answers at once. Otherwise the run's end is waited for.
    #[schema(default = false)]
    background: Option<bool>,
    /// A session to continue, or the name of a new one. Without it each run has a session of its own.
    #[schema(max_length = 128)]
    session_id: Option<String>,
    /// Who it is for, where it is not known who asks.
    #[schema(max_length = 128)]
    user_id: Option<String>,
    /// Kept with the run; at most 64 KiB. `repository` is refused: it would pin a checkout, and agents have none.
    metadata: Option<Map<String, Value>>,
    /// A JSON Schema: the answer of an agent of the harness `claude` has that shape. At most 96 KiB.
    output_schema: Option<Map<String, Value>>,
    #[schema(max_items = 16)]
    images: Option<Vec<Media>>,
    #[schema(max_items = 16)]
    input_files: Option<Vec<Media>>,
    /// Files of a form are uploads; here there are none.
    #[schema(max_items = 0)]
    files: Option<Vec<Value>>,
}

/// A file as Agno's client writes it. All attachments together have 16 files and 4 MiB at most.
#[derive(ToSchema)]
struct Media {
    /// In base64. A text file that has an `id` is taken as it is.
    #[schema(content_encoding = "base64")]
    content: String,
    mime_type: Option<String>,
    /// Of an image without `mime_type`: `png`, say.
    format: Option<String>,
    #[schema(max_length = 255)]
    filename: Option<String>,
    #[schema(max_length = 255)]
    name: Option<String>,
    id: Option<String>,
}

/// The same as a form: what is not text is its JSON.
#[derive(ToSchema)]
#[schema(as = SubmissionForm)]
#[serde(deny_unknown_fields)]
pub(super) struct Form {
    #[schema(min_length = 1)]
    message: String,
    #[schema(default = true)]
    stream: Option<bool>,
    #[schema(default = false)]
    background: Option<bool>,
    #[schema(max_length = 128)]
    session_id: Option<String>,
    #[schema(max_length = 128)]
    user_id: Option<String>,
    /// A JSON object.
    #[schema(content_media_type = "application/json")]
    metadata: Option<String>,
    /// A JSON Schema.
    #[schema(content_media_type = "application/json")]
    output_schema: Option<String>,
    /// A JSON array of media.
    #[schema(content_media_type = "application/json")]
    images: Option<String>,
    /// A JSON array of media.
    #[schema(content_media_type = "application/json")]
    input_files: Option<String>,
    /// Uploads need a multipart form.
    #[schema(max_length = 0)]
    files: Option<String>,
}

/// The same as a multipart form, which takes uploads.
#[derive(ToSchema)]
#[schema(as = SubmissionUpload)]
#[serde(deny_unknown_fields)]
pub(super) struct Upload {
    #[schema(min_length = 1)]
    message: String,
    #[schema(default = true)]
    stream: Option<bool>,
    #[schema(default = false)]
    background: Option<bool>,
    #[schema(max_length = 128)]
    session_id: Option<String>,
    #[schema(max_length = 128)]
    user_id: Option<String>,
    /// A JSON object.
    #[schema(content_media_type = "application/json")]
    metadata: Option<String>,
    /// A JSON Schema.
    #[schema(content_media_type = "application/json")]
    output_schema: Option<String>,
    /// A JSON array of media.
    #[schema(content_media_type = "application/json")]
    images: Option<String>,
    /// A JSON array of media.
    #[schema(content_media_type = "application/json")]
    input_files: Option<String>,
    /// Images and documents, not empty: at most 16, and 4 MiB together.
    #[schema(value_type = Option<Vec<String>>, format = Binary, max_items = 16)]
    files: Option<Vec<Vec<u8>>>,
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use utoipa::PartialSchema;

    use super::super::form::KNOWN;
    use super::*;

    #[test]
    fn every_encoding_has_the_fields_that_are_read() {
        for schema in [Json::schema(), Form::schema(), Upload::schema()] {
            let schema = serde_json::to_value(schema).expect("JSON");
            let described: BTreeSet<&str> = schema["properties"].as_object().expect("fields").keys().map(String::as_str).collect();
            assert_eq!(described, BTreeSet::from(KNOWN));
            assert_eq!((&schema["required"], &schema["additionalProperties"]), (&serde_json::json!(["message"]), &false.into()));
        }
    }
}
