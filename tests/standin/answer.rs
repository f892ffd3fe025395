//! From a request to its answer.

use serde_json::{Value, json};

use super::{Asked, State};

pub(super) enum Answer {
    Whole { status: u16, body: Value },
    Streamed(Vec<Step>),
}

pub(super) enum Step {
    Event(Value),
    /// Milliseconds.
    Wait(u64),
    Hang,
    Cut,
}

/// What an answer says.
enum Block {
    Text(String),
    Thought(String),
    Call(String, Value),
}

pub(super) fn to(asked: &Asked, state: &State) -> Answer {
    let bearer = asked.headers.get("authorization").and_then(|value| value.strip_prefix("Bearer "));
    if asked.headers.get("x-api-key").map(String::as_str).or(bearer) != Some(&state.key) {
        return refusal(401);
    }
    match (asked.method.as_str(), asked.path.split('?').next().unwrap_or_default()) {
        ("POST", "/v1/messages") => message(&asked.body, state),
        ("POST", "/v1/messages/count_tokens") => Answer::Whole { status: 200, body: json!({ "input_tokens": 42 }) },
        ("GET", "/v1/models") => Answer::Whole { status: 200, body: json!({ "data": [], "has_more": false }) },
        _ => refusal(404),
    }
}

fn refusal(status: u16) -> Answer {
    let kind = match status {
        400 => "invalid_request_error",
        401 => "authentication_error",
        403 => "permission_error",
        404 => "not_found_error",
        429 => "rate_limit_error",
        529 => "overloaded_error",
        _ => "api_error",
    };
    let error = json!({ "type": kind, "message": format!("stand-in status {status}") });
    Answer::Whole { status, body: json!({ "type": "error", "error": error, "request_id": "req_standin" }) }
}

fn message(body: &Value, state: &State) -> Answer {
    let messages: Vec<&Value> = body["messages"].as_array().into_iter().flatten().filter(|message| message["role"] == "user").collect();
    let asked: Vec<(usize, String)> =
        messages.iter().enumerate().flat_map(|(at, message)| directives(message).into_iter().map(move |text| (at, text))).collect();
    let Some((at, directive)) = asked.last() else { return spoken(body, vec![Block::Text("no directive".into())]) };
    let (verb, argument) = directive.split_once(' ').unwrap_or((directive, ""));
    let results: Vec<String> = messages[*at..].iter().flat_map(|message| results(message)).collect();
    let numbers: Vec<u64> = argument.split(' ').filter_map(|word| word.parse().ok()).collect();
    let number = |at: usize| numbers.get(at).copied().unwrap_or(0);
    let text = |text: String| spoken(body, vec![Block::Text(text)]);
    match verb {
        "run" | "write" | "call" if !results.is_empty() => text(format!("the tool said: {}", results.join(" | "))),
        "say" => text(argument.into()),
        "think" => spoken(body, vec![Block::Thought("let me see".into()), Block::Text(argument.into())]),
        "run" => spoken(body, vec![Block::Call("Bash".into(), json!({ "command": argument, "description": "as told" }))]),
        "write" => {
            let (path, content) = argument.split_once(' ').unwrap_or((argument, ""));
            spoken(body, vec![Block::Call("Write".into(), json!({ "file_path": path, "content": content }))])
        }
        "call" => {
            let (name, input) = argument.split_once(' ').unwrap_or((argument, ""));
            spoken(body, vec![Block::Call(name.into(), serde_json::from_str(input).unwrap_or(Value::Null))])
        }
        "recall" if results.is_empty() && !argument.is_empty() => {
            spoken(body, vec![Block::Call("Bash".into(), json!({ "command": argument, "description": "as told" }))])
        }
        "recall" => {
            let before: Vec<&str> = asked[..asked.len() - 1].iter().map(|(_, text)| text.as_str()).collect();
            text(format!("before: {}{}", before.join("; "), results.iter().map(|result| format!(" | {result}")).collect::<String>()))
        }
        "saw" => text(format!("saw: {}", shown(messages[*at]).join(", "))),
        "slow" => Answer::Streamed(slowly(body, number(0), number(1))),
        "refuse" => refusal(u16::try_from(number(0)).unwrap_or(500)),
        "flaky" if state.count(directive) < number(1) => refusal(u16::try_from(number(0)).unwrap_or(500)),
        "flaky" => text("after all".into()),
        // What was not read when the connection breaks is lost with it.
        "cut" => Answer::Streamed(begun(body).into_iter().chain(delta(0, "half an ans")).chain([Step::Wait(300), Step::Cut]).collect()),
        "hang" => Answer::Streamed(begun(body).into_iter().take(1).chain([Step::Hang]).collect()),
        other => text(format!("no such directive: {other}")),
    }
}

fn directives(message: &Value) -> Vec<String> {
    texts(message).iter().flat_map(|text| text.lines()).filter_map(|line| line.trim().strip_prefix("model: ")).map(str::to_owned).collect()
}

fn texts(message: &Value) -> Vec<String> {
    match &message["content"] {
        Value::String(text) => vec![text.clone()],
        Value::Array(blocks) => {
            blocks.iter().filter(|block| block["type"] == "text").filter_map(|block| block["text"].as_str()).map(str::to_owned).collect()
        }
        _ => Vec::new(),
    }
}

/// What tools said, without the notes that the CLI adds.
fn results(message: &Value) -> Vec<String> {
    let blocks = message["content"].as_array().into_iter().flatten().filter(|block| block["type"] == "tool_result");
    let said = blocks.map(|block| texts(block).join("\n"));
    said.map(|text| text.split("<system-reminder>").next().unwrap_or_default().trim().to_owned()).collect()
}

fn shown(message: &Value) -> Vec<String> {
    let blocks = message["content"].as_array().into_iter().flatten().filter(|block| block["source"].is_object());
    blocks
        .map(|block| format!("{} {}", block["source"]["media_type"].as_str().unwrap_or("?"), block["source"]["data"].as_str().map_or(0, str::len)))
        .collect()
}

/// A whole answer, streamed where that is asked for.
fn spoken(body: &Value, blocks: Vec<Block>) -> Answer {
    let stop = if blocks.iter().any(|block| matches!(block, Block::Call(..))) { "tool_use" } else { "end_turn" };
    if body["stream"] != true {
        let mut message = head(body);
        message["content"] = blocks.iter().enumerate().map(|(at, block)| block.whole(at)).collect();
        message["stop_reason"] = stop.into();
        message["usage"]["output_tokens"] = 12.into();
        return Answer::Whole { status: 200, body: message };
    }
    let mut steps: Vec<Step> = begun(body).into_iter().take(1).collect();
    for (at, block) in blocks.iter().enumerate() {
        steps.push(Step::Event(json!({ "type": "content_block_start", "index": at, "content_block": block.empty(at) })));
        steps.extend(block.deltas().into_iter().map(|delta| Step::Event(json!({ "type": "content_block_delta", "index": at, "delta": delta }))));
        steps.push(Step::Event(json!({ "type": "content_block_stop", "index": at })));
    }
    steps.extend(ended(stop));
    Answer::Streamed(steps)
}

fn slowly(body: &Value, words: u64, ms: u64) -> Vec<Step> {
    let said = (1..=words).flat_map(|n| delta(0, &format!("word{n} ")).into_iter().chain([Step::Wait(ms)]));
    let stop = Step::Event(json!({ "type": "content_block_stop", "index": 0 }));
    begun(body).into_iter().chain(said).chain([stop]).chain(ended("end_turn")).collect()
}

fn head(body: &Value) -> Value {
    let usage = json!({ "input_tokens": 100, "cache_creation_input_tokens": 0, "cache_read_input_tokens": 0, "output_tokens": 1 });
    json!({
        "id": format!("msg_{}", crate::unique("standin")), "type": "message", "role": "assistant", "model": body["model"], "content": [],
        "stop_reason": null, "stop_sequence": null, "usage": usage,
    })
}

/// The start of an answer that is a text.
fn begun(body: &Value) -> [Step; 2] {
    let block = json!({ "type": "content_block_start", "index": 0, "content_block": { "type": "text", "text": "" } });
    [Step::Event(json!({ "type": "message_start", "message": head(body) })), Step::Event(block)]
}

fn delta(at: usize, text: &str) -> [Step; 1] {
    [Step::Event(json!({ "type": "content_block_delta", "index": at, "delta": { "type": "text_delta", "text": text } }))]
}

fn ended(stop: &str) -> [Step; 2] {
    let delta = json!({ "stop_reason": stop, "stop_sequence": null });
    [
        Step::Event(json!({ "type": "message_delta", "delta": delta, "usage": { "output_tokens": 12 } })),
        Step::Event(json!({ "type": "message_stop" })),
    ]
}

impl Block {
    fn whole(&self, at: usize) -> Value {
        let mut block = self.empty(at);
        match self {
            Block::Text(text) => block["text"] = text.as_str().into(),
            Block::Thought(thought) => block["thinking"] = thought.as_str().into(),
            Block::Call(_, input) => block["input"] = input.clone(),
        }
        block
    }

    fn empty(&self, at: usize) -> Value {
        match self {
            Block::Text(_) => json!({ "type": "text", "text": "" }),
            Block::Thought(_) => json!({ "type": "thinking", "thinking": "", "signature": "" }),
            Block::Call(name, _) => json!({ "type": "tool_use", "id": format!("toolu_{at}_{}", crate::unique("x")), "name": name, "input": {} }),
        }
    }

    fn deltas(&self) -> Vec<Value> {
        match self {
            Block::Text(text) => text.split_inclusive(' ').map(|word| json!({ "type": "text_delta", "text": word })).collect(),
            Block::Thought(thought) => {
                vec![json!({ "type": "thinking_delta", "thinking": thought }), json!({ "type": "signature_delta", "signature": "c2ln" })]
            }
            Block::Call(_, input) => vec![json!({ "type": "input_json_delta", "partial_json": input.to_string() })],
        }
    }
}
