//! The command line as a client of the HTTP API.
//!
//! Law: a run is submitted once and each of its frames is shown once, however often the connection is cut: the submission has an idempotency key, and
//! following goes on after the last frame shown.

mod follow;
mod place;
mod screen;
mod sse;
#[cfg(test)]
mod tests;
mod tls;

use std::io;
use std::time::Duration;

use reqwest::header::{AUTHORIZATION, HeaderMap, HeaderValue};
use reqwest::{Method, Response, StatusCode, Url};
use serde_json::Value;

use adapters::program::chain;
pub(crate) use screen::{Ending, Screen};

/// How long a server that does not answer is asked again.
const PATIENCE: Duration = Duration::from_secs(60);

#[derive(Debug, thiserror::Error)]
pub(crate) enum ClientError {
    #[error("SANDLOG_URL: `{0}` is neither an http:// nor an https:// address")]
    Address(String),
    #[error("{url} does not answer: {cause}. Is `sandlog up` running? SANDLOG_URL names the server")]
    Silent { url: Url, cause: String },
    #[error("SANDLOG_TOKEN: it holds characters that no key or token has")]
    Token,
    #[error("SANDLOG_URL: TLS cannot be used: {0}")]
    Tls(String),
    #[error("{0}")]
    Refused(String),
    #[error("there is no agent `{agent}`; the server has: {known}")]
    NoAgent { agent: String, known: String },
    #[error("writing to standard output: {0}")]
    Output(#[from] io::Error),
    #[error("listening for signals: {0}")]
    Signals(#[source] io::Error),
    #[error("reading /dev/urandom: {0}")]
    Random(#[source] io::Error),
}

/// A server.
#[derive(Clone, Debug)]
pub(crate) struct Client {
    http: reqwest::Client,
    base: Url,
}

/// A run that was accepted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Accepted {
    pub(crate) agent: String,
    pub(crate) run_id: String,
    pub(crate) session_id: String,
}

impl Client {
    /// `token` is sent with every request, where the server asks who it is.
    pub(crate) fn new(url: &str, token: Option<&str>) -> Result<Client, ClientError> {
        let base = Url::parse(url).ok().filter(|base| ["http", "https"].contains(&base.scheme()) && base.has_host());
        let base = base.ok_or_else(|| ClientError::Address(url.into()))?;
        let mut headers = HeaderMap::new();
        if let Some(token) = token {
            let mut value = HeaderValue::from_str(&format!("Bearer {token}")).map_err(|_| ClientError::Token)?;
            value.set_sensitive(true);
            headers.insert(AUTHORIZATION, value);
        }
        let http = reqwest::Client::builder()
            .default_headers(headers)
            .connect_timeout(Duration::from_secs(10))
            .no_proxy()
            .tls_backend_preconfigured(tls::client(base.scheme() == "https").map_err(ClientError::Tls)?)
            .build()
            .map_err(|cause| ClientError::Silent { url: base.clone(), cause: chain(&cause) })?;
        Ok(Client { http, base })
    }

    /// Submits once: a repeat after a lost answer finds the run by its key.
    pub(crate) async fn submit(&self, agent: &str, message: &str, session: Option<&str>) -> Result<Accepted, ClientError> {
        let key = crate::random::hex(16).map_err(ClientError::Random)?;
        let mut form = vec![("message", message), ("stream", "false"), ("background", "true")];
        form.extend(session.map(|session| ("session_id", session)));
        let url = self.url(&["agents", agent, "runs"]);
        let ask = || self.http.request(Method::POST, url.clone()).header("idempotency-key", &key).form(&form);
        let answer = match self.answered(ask).await? {
            answer if answer.status() == StatusCode::NOT_FOUND => return Err(self.not_found(agent, answer).await),
            answer => json(answer).await?,
        };
        let text = |name: &str| answer[name].as_str().unwrap_or_default().to_owned();
        Ok(Accepted { agent: agent.to_owned(), run_id: text("run_id"), session_id: text("session_id") })
    }

    /// Asks for the end of a run; says its status.
    pub(crate) async fn cancel(&self, agent: &str, run_id: &str) -> Result<Value, ClientError> {
        let url = self.url(&["agents", agent, "runs", run_id, "cancel"]);
        json(self.answered(|| self.http.post(url.clone())).await?).await
    }

    /// The newest runs of a session.
    pub(crate) async fn runs(&self, agent: &str, session_id: &str) -> Result<Vec<Value>, ClientError> {
        let mut url = self.url(&["agents", agent, "runs"]);
        url.query_pairs_mut().append_pair("session_id", session_id);
        let answer = json(self.answered(|| self.http.get(url.clone())).await?).await?;
        Ok(answer.get("data").unwrap_or(&answer).as_array().cloned().unwrap_or_default())
    }

    /// Whether a server answers here, now.
    pub(crate) async fn healthy(&self) -> bool {
        let asked = self.http.get(self.url(&["health"])).timeout(Duration::from_secs(5)).send().await;
        asked.is_ok_and(|answer| answer.status().is_success())
    }

    fn url(&self, path: &[&str]) -> Url {
        let mut url = self.base.clone();
        if let Ok(mut segments) = url.path_segments_mut() {
            segments.pop_if_empty().extend(path);
        }
        url
    }

    /// The answer to a request that may be repeated; a connection that fails is tried again for a while.
    async fn answered(&self, ask: impl Fn() -> reqwest::RequestBuilder) -> Result<Response, ClientError> {
        let mut wait = Duration::from_millis(50);
        loop {
            match ask().timeout(Duration::from_secs(60)).send().await {
                Ok(answer) => return Ok(answer),
                Err(cause) if wait > Duration::from_secs(3) => {
                    return Err(ClientError::Silent { url: self.base.clone(), cause: chain(&cause) });
                }
                Err(_) => tokio::time::sleep(wait).await,
            }
            wait *= 2;
        }
    }

    async fn not_found(&self, agent: &str, answer: Response) -> ClientError {
        let refused = refusal(answer).await;
        if refused != "Agent not found" {
            return ClientError::Refused(refused);
        }
        let url = self.url(&["agents"]);
        let agents = match self.answered(|| self.http.get(url.clone())).await {
            Ok(answer) => json(answer).await.unwrap_or_default(),
            Err(_) => Value::Null,
        };
        let agents = agents.get("data").unwrap_or(&agents).as_array().cloned().unwrap_or_default();
        let known: Vec<&str> = agents.iter().filter_map(|agent| agent["id"].as_str()).collect();
        ClientError::NoAgent { agent: agent.to_owned(), known: known.join(", ") }
    }
}

async fn json(answer: Response) -> Result<Value, ClientError> {
    let url = answer.url().clone();
    if !answer.status().is_success() {
        return Err(ClientError::Refused(refusal(answer).await));
    }
    answer.json().await.map_err(|cause| ClientError::Silent { url, cause: chain(&cause) })
}

/// What the server says of a request that it does not take.
async fn refusal(answer: Response) -> String {
    let status = answer.status();
    let hint = if status == StatusCode::UNAUTHORIZED { " (SANDLOG_TOKEN is what the server is given)" } else { "" };
    let text = answer.text().await.unwrap_or_default();
    match serde_json::from_str::<Value>(&text).unwrap_or_default().get("detail") {
        Some(Value::String(detail)) => format!("{detail}{hint}"),
        Some(Value::Array(faults)) if !faults.is_empty() => faults.iter().map(fault).collect::<Vec<_>>().join("; "),
        Some(other) => other.to_string(),
        None => format!("the server answered {status}"),
    }
}

/// One thing that does not validate, as a line.
fn fault(fault: &Value) -> String {
    let place = fault["loc"].as_array().and_then(|loc| loc.last()).and_then(Value::as_str).unwrap_or("request");
    format!("{place}: {}", fault["msg"].as_str().unwrap_or("not valid"))
}
