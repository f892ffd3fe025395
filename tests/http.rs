//! A client for tests over HTTP. It takes nothing for granted: frames are checked against their ids, names and numbers as they come.

use std::time::Duration;

use futures_util::StreamExt;
pub use reqwest::StatusCode;
use reqwest::header::AUTHORIZATION;
use reqwest::multipart::{Form, Part};
use reqwest::{Method, RequestBuilder, Response};
use serde_json::{Value, json};

use crate::eventually;

/// Statuses of a run that has ended.
pub const ENDED: [&str; 3] = ["COMPLETED", "ERROR", "CANCELLED"];
const TERMINAL: [&str; 3] = ["RunCompleted", "RunError", "RunCancelled"];

/// All instances of a deployment.
#[derive(Clone, Debug)]
pub struct Http {
    client: reqwest::Client,
    /// Whose runs are asked for.
    pub agent: &'static str,
    pub urls: Vec<String>,
}

/// The library asks for a provider of ciphers, also where nothing is encrypted.
pub fn client() -> reqwest::ClientBuilder {
    // It may be there already.
    let _ = rustls::crypto::ring::default_provider().install_default();
    reqwest::Client::builder().no_proxy()
}

/// A submission: what differs from `message=say hi` to `echo`.
#[derive(Clone, Debug)]
pub struct Submit {
    pub agent: &'static str,
    /// Which instance is asked.
    pub instance: usize,
    pub key: Option<String>,
    pub fields: Vec<(&'static str, String)>,
    /// Name, media type, bytes.
    pub files: Vec<(&'static str, &'static str, Vec<u8>)>,
}

impl Submit {
    pub fn message(message: impl Into<String>) -> Submit {
        Submit { agent: "echo", instance: 0, key: None, fields: vec![("message", message.into())], files: Vec::new() }
    }

    pub fn field(mut self, name: &'static str, value: impl ToString) -> Submit {
        self.fields.push((name, value.to_string()));
        self
    }

    pub fn agent(mut self, agent: &'static str) -> Submit {
        self.agent = agent;
        self
    }

    pub fn key(mut self, key: &str) -> Submit {
        self.key = Some(key.to_owned());
        self
    }

    pub fn on(mut self, instance: usize) -> Submit {
        self.instance = instance;
        self
    }

    pub fn file(mut self, name: &'static str, media_type: &'static str, bytes: &[u8]) -> Submit {
        self.files.push((name, media_type, bytes.to_vec()));
        self
    }

    /// `background=true`, `stream=false`.
    pub fn background(self) -> Submit {
        self.field("background", true).field("stream", false)
    }

    /// `background=false`, `stream=false`.
    pub fn foreground(self) -> Submit {
        self.field("background", false).field("stream", false)
    }
}

/// The numbered frames of a stream.
#[derive(Clone, Debug, PartialEq)]
pub struct Streamed(pub Vec<Value>);

impl Streamed {
    /// The text that was streamed.
    pub fn text(&self) -> String {
        let contents = self.0.iter().filter(|frame| frame["event"] == "RunContent");
        contents.filter_map(|frame| frame["content"].as_str()).collect()
    }

    pub fn run_id(&self) -> String {
        text(&self.0[0], "run_id")
    }

    pub fn last_index(&self) -> u64 {
        self.0.last().and_then(|frame| frame["event_index"].as_u64()).expect("a frame")
    }

    pub fn last_event(&self) -> String {
        text(self.0.last().expect("a frame"), "event")
    }

    /// Asserts that the frames are numbered from `start` without gaps and end with the one terminal frame.
    pub fn whole(self, start: u64) -> Streamed {
        let indexes: Vec<u64> = self.0.iter().filter_map(|frame| frame["event_index"].as_u64()).collect();
        assert!(indexes.iter().copied().eq(start..start + self.0.len() as u64), "{indexes:?} from {start}");
        let ends = self.0.iter().filter(|frame| TERMINAL.iter().any(|event| frame["event"] == *event)).count();
        assert!(ends == 1 && TERMINAL.contains(&self.last_event().as_str()), "{ends} terminal frames, the last: {:?}", self.0.last());
        self
    }
}

impl Http {
    pub fn new(urls: Vec<String>) -> Http {
        let client = client().timeout(Duration::from_secs(90)).build().expect("a client");
        Http { client, agent: "echo", urls }
    }

    /// The same, as whoever has this key or token.
    pub fn known_by(self, token: &str) -> Http {
        let headers = std::iter::once((AUTHORIZATION, format!("Bearer {token}").parse().expect("a header"))).collect();
        let client = client().timeout(Duration::from_secs(90)).default_headers(headers).build();
        Http { client: client.expect("a client"), ..self }
    }

    /// The same, for runs of another agent.
    pub fn of(self, agent: &'static str) -> Http {
        Http { agent, ..self }
    }

    pub fn request(&self, method: Method, instance: usize, path: &str) -> RequestBuilder {
        self.client.request(method, format!("{}{path}", self.urls[instance % self.urls.len()]))
    }

    pub async fn get(&self, path: &str) -> Response {
        self.request(Method::GET, 0, path).send().await.expect("an answer")
    }

    pub async fn submit(&self, submit: Submit) -> Response {
        let mut request = self.request(Method::POST, submit.instance, &format!("/agents/{}/runs", submit.agent));
        if let Some(key) = &submit.key {
            request = request.header("idempotency-key", key);
        }
        let request = if submit.files.is_empty() {
            request.form(&submit.fields)
        } else {
            let mut form = Form::new();
            for (name, value) in submit.fields {
                form = form.text(name, value);
            }
            for (name, media_type, bytes) in submit.files {
                form = form.part("files", Part::bytes(bytes).file_name(name).mime_str(media_type).expect("a media type"));
            }
            request.multipart(form)
        };
        request.send().await.expect("an answer")
    }

    /// Submits in the background; the answer's body.
    pub async fn background(&self, submit: Submit) -> Value {
        let answer = self.submit(submit.background()).await;
        body(answer, StatusCode::ACCEPTED).await
    }

    /// Submits in the foreground; the finished run.
    pub async fn foreground(&self, submit: Submit) -> Value {
        let answer = self.submit(submit.foreground()).await;
        body(answer, StatusCode::OK).await
    }

    /// Submits and takes the stream: `stop_after` frames of it, or all.
    pub async fn stream(&self, submit: Submit, stop_after: Option<usize>) -> Streamed {
        let answer = self.submit(submit.field("stream", true)).await;
        frames(answer, stop_after).await
    }

    pub async fn run(&self, run_id: &str, instance: usize) -> Response {
        self.request(Method::GET, instance, &format!("/agents/{}/runs/{run_id}", self.agent)).send().await.expect("an answer")
    }

    /// The run once it has one of the statuses.
    pub async fn wait(&self, run_id: &str, until: &[&str]) -> Value {
        eventually(&format!("run {run_id} is {until:?}"), Duration::from_secs(60), || async move {
            let run = body(self.run(run_id, 0).await, StatusCode::OK).await;
            until.contains(&run["status"].as_str()?).then_some(run)
        })
        .await
    }

    pub async fn cancel(&self, run_id: &str, instance: usize) -> Response {
        self.request(Method::POST, instance, &format!("/agents/{}/runs/{run_id}/cancel", self.agent)).send().await.expect("an answer")
    }

    /// What is after the given index, by POST with a form.
    pub async fn resume(&self, run_id: &str, last: Option<u64>, instance: usize) -> Streamed {
        let request = self.request(Method::POST, instance, &format!("/agents/{}/runs/{run_id}/resume", self.agent));
        let form: Vec<(&str, String)> = last.iter().map(|index| ("last_event_index", index.to_string())).collect();
        frames(request.form(&form).send().await.expect("an answer"), None).await
    }

    /// The runs of a session, newest first.
    pub async fn runs(&self, session: &str) -> Vec<Value> {
        let answer = body(self.get(&format!("/agents/{}/runs?session_id={session}", self.agent)).await, StatusCode::OK).await;
        list(&answer)
    }
}

/// The answer's JSON, where its status is the one that is expected.
pub async fn body(answer: Response, expected: StatusCode) -> Value {
    let status = answer.status();
    let text = answer.text().await.expect("a body");
    assert_eq!(status, expected, "{text}");
    serde_json::from_str(&text).unwrap_or_else(|cause| panic!("{cause}: {text}"))
}

/// Asserts a refusal in full.
pub async fn refused(answer: Response, status: u16, detail: &str) {
    let got = body(answer, StatusCode::from_u16(status).expect("a status")).await;
    assert_eq!(got, json!({ "detail": detail }));
}

/// A page's items, or the items themselves.
pub fn list(answer: &Value) -> Vec<Value> {
    answer.get("data").unwrap_or(answer).as_array().cloned().unwrap_or_else(|| panic!("no list: {answer}"))
}

/// A text field.
pub fn text(value: &Value, key: &str) -> String {
    value[key].as_str().unwrap_or_else(|| panic!("no text in {key}: {value}")).to_owned()
}

/// The numbered frames of an answer, checked, up to its end or to so many.
pub async fn frames(answer: Response, stop_after: Option<usize>) -> Streamed {
    assert_eq!(answer.status(), StatusCode::OK);
    assert!(answer.headers()["content-type"].to_str().is_ok_and(|kind| kind.starts_with("text/event-stream")));
    let (mut bytes, mut pending, mut got) = (answer.bytes_stream(), Vec::new(), Vec::new());
    // Up to where `pending` is known to hold no end: frames may be of megabytes.
    let mut looked = 0;
    while let Some(chunk) = bytes.next().await {
        pending.extend_from_slice(&chunk.expect("the stream goes on"));
        while let Some(end) = pending[looked..].windows(2).position(|two| two == b"\n\n") {
            let block: Vec<u8> = pending.drain(..looked + end + 2).collect();
            looked = 0;
            got.extend(frame(std::str::from_utf8(&block).expect("UTF-8")));
            if stop_after.is_some_and(|most| got.len() >= most) {
                return Streamed(got);
            }
        }
        looked = pending.len().saturating_sub(1);
    }
    assert!(pending.is_empty(), "the stream was cut inside a frame");
    Streamed(got)
}

/// The frame of one block; none for comments and control frames, which have no id.
fn frame(block: &str) -> Option<Value> {
    let field = |name: &str| block.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": "));
    let id: u64 = field("id")?.parse().expect("an index as id");
    let data: Value = serde_json::from_str(field("data").expect("data")).expect("JSON");
    assert_eq!(data["event_index"], id, "{block}");
    assert_eq!(data["event"].as_str(), field("event"), "{block}");
    Some(data)
}
