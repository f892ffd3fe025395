//! What the client sent, as one digest: equal exactly for requests that mean the same, in whatever encoding they came.

use serde_json::{Map, Value};
use sha2::{Digest, Sha256};

use super::check::Asked;

/// Every part is written with its length, so that no two different lists of parts give the same bytes. The mode is left out: a retry may change it.
pub(crate) fn fingerprint(agent_id: &str, asked: &Asked) -> Vec<u8> {
    let mut sum = Sum(Sha256::new());
    sum.part(b"1");
    sum.part(agent_id.as_bytes());
    sum.option(asked.user_id.as_deref());
    sum.option(asked.session_id.as_deref());
    sum.part(asked.message.as_bytes());
    sum.object(&asked.metadata);
    sum.count(usize::from(asked.output_schema.is_some()));
    if let Some(schema) = &asked.output_schema {
        sum.value(schema);
    }
    sum.count(asked.attachments.len());
    for attachment in &asked.attachments {
        sum.part(attachment.name.as_bytes());
        sum.part(attachment.media_type.as_bytes());
        sum.part(attachment.sha256.as_bytes());
    }
    sum.0.finalize().to_vec()
}

struct Sum(Sha256);

impl Sum {
    fn count(&mut self, count: usize) {
        self.0.update((count as u64).to_be_bytes());
    }

    fn part(&mut self, bytes: &[u8]) {
        self.count(bytes.len());
        self.0.update(bytes);
    }

    fn option(&mut self, text: Option<&str>) {
        self.count(usize::from(text.is_some()));
        self.part(text.unwrap_or_default().as_bytes());
    }

    /// The order of an object's fields means nothing.
    fn object(&mut self, fields: &Map<String, Value>) {
        let mut fields: Vec<_> = fields.iter().collect();
        fields.sort_by_key(|(name, _)| *name);
        self.part(b"{");
        self.count(fields.len());
        for (name, value) in fields {
            self.part(name.as_bytes());
            self.value(value);
        }
    }

    fn value(&mut self, value: &Value) {
        match value {
            Value::Object(fields) => self.object(fields),
            Value::Array(items) => {
                self.part(b"[");
                self.count(items.len());
                items.iter().for_each(|item| self.value(item));
            }
            Value::String(text) => {
                self.part(b"\"");
                self.part(text.as_bytes());
            }
            other => self.part(other.to_string().as_bytes()),
        }
    }
}
