//! What the CLI's result lines say of a turn.

use runs::Metrics;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::harness::exit::Said;

/// What is kept of an answer: its end. The state is part of a commit.
pub(super) const ANSWER: usize = 256 * 1024;

/// The last result line; there can be more than one, where something that the turn started in the background ends after it.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Outcome {
    is_error: bool,
    /// The answer, or what went wrong.
    text: String,
    #[serde(default)]
    truncated: bool,
    /// The answer that fits the schema, as JSON.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    structured: Option<String>,
    /// `auth`, `max_turns`, ...
    error_type: String,
}

impl Outcome {
    /// Of an answer that came in parts, with those `before`.
    pub(super) fn read(line: &Value, before: &str) -> Self {
        let is_error = line["is_error"].as_bool().unwrap_or(true);
        let errors = || line["errors"].as_array().into_iter().flatten().filter_map(Value::as_str).collect::<Vec<_>>().join("\n");
        let mut whole = line["result"].as_str().map_or_else(errors, str::to_owned);
        if !is_error {
            whole.insert_str(0, before);
        }
        let text = end(&whole, ANSWER).to_owned();
        let structured = line.get("structured_output").filter(|value| !value.is_null()).map(Value::to_string);
        // Half of a text is a text; half of JSON is nothing.
        let structured = structured.filter(|json| json.len() <= ANSWER);
        Self { is_error, truncated: text.len() < whole.len(), text, structured, error_type: error_type(line).into() }
    }

    /// Judged by `is_error`: an API error comes with the subtype `success`, an interrupt with exit code 0.
    pub(super) fn judge(&self, wants_schema: bool) -> Result<Said, (String, String)> {
        if self.is_error {
            let error = if self.text.trim().is_empty() { "the turn ended with an error that was not told" } else { &self.text };
            return Err((error.into(), self.error_type.clone()));
        }
        match &self.structured {
            Some(json) if wants_schema => Ok(Said { content: json.clone(), content_type: "json", truncated: false }),
            None if wants_schema => Err(("the answer does not fit the output schema, or is too large".into(), "output_schema".into())),
            _ => Ok(Said { content: self.text.clone(), content_type: "str", truncated: self.truncated }),
        }
    }
}

/// At most the last so many bytes.
pub(super) fn end(text: &str, most: usize) -> &str {
    &text[text.ceil_char_boundary(text.len().saturating_sub(most))..]
}

fn error_type(line: &Value) -> &'static str {
    match (line["api_error_status"].as_u64(), line["subtype"].as_str(), line["terminal_reason"].as_str()) {
        (Some(401 | 403), _, _) => super::AUTH,
        (Some(_), _, _) | (_, _, Some("api_error")) => super::MODEL,
        (_, Some("error_max_turns"), _) => "max_turns",
        (_, Some(subtype), _) if subtype.contains("structured_output") => "output_schema",
        _ => super::FAILED,
    }
}

/// What a result adds. The CLI's own totals go on over a resumed conversation, so what counts is what it says of this turn, over all models it asked.
pub(super) fn add_metrics(metrics: &mut Metrics, line: &Value) {
    let add = |to: &mut Option<u64>, more: u64| *to = Some(to.unwrap_or(0).saturating_add(more));
    let count = |of: &Value, names: [&str; 3]| names.iter().filter_map(|name| of[*name].as_u64()).fold(0, u64::saturating_add);
    let (input, output, cost) = match line["model_usage_since_last_result"].as_object() {
        Some(models) => models.values().fold((0u64, 0u64, 0.0), |(input, output, cost), model| {
            let read = count(model, ["inputTokens", "cacheReadInputTokens", "cacheCreationInputTokens"]);
            let written = model["outputTokens"].as_u64().unwrap_or(0);
            (input.saturating_add(read), output.saturating_add(written), cost + model["costUSD"].as_f64().unwrap_or(0.0))
        }),
        None => {
            let usage = &line["usage"];
            let read = count(usage, ["input_tokens", "cache_read_input_tokens", "cache_creation_input_tokens"]);
            (read, usage["output_tokens"].as_u64().unwrap_or(0), line["total_cost_usd"].as_f64().unwrap_or(0.0))
        }
    };
    add(&mut metrics.input_tokens, input);
    add(&mut metrics.output_tokens, output);
    metrics.cost = Some(metrics.cost.unwrap_or(0.0) + cost);
    if let Some(ms) = line["duration_ms"].as_f64() {
        metrics.duration = Some(metrics.duration.unwrap_or(0.0) + ms / 1000.0);
    }
}
