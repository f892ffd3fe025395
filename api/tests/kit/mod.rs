//! The api on the memory log, and what a client does with it.

pub(crate) mod described;
pub(crate) mod wire;
mod worker;

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use adapters::memory::Memory;
use adapters::signals::{Hub, NoRing};
use adapters::{Accepted, CancelAnswer, Erased, Health, Intake, Refused, Signals, Submission, Terms, Unended};
use adapters::{Cursor, Driver, LogError, Page, Reader, RunPage, RunRow, RunsQuery, Scope, SessionRow};
use api::auth::Auth;
use api::{Options, Parts};
use async_trait::async_trait;
use axum::Router;
use axum::body::{Body, BodyDataStream};
use axum::http::{HeaderMap, Request, StatusCode, header};
use futures_util::StreamExt;
use runs::agents::{Agents, parse};
use runs::{Frame, Recorded, frame};
use serde_json::Value;
use tower::ServiceExt;
use uuid::Uuid;

pub(crate) use worker::Worker;

pub(crate) const LIMIT: Duration = Duration::from_secs(20);
/// Shorter than the time after which a comment comes, so that a stream that hangs is noticed.
const QUIET: Duration = Duration::from_secs(12);

pub(crate) fn agents() -> Agents {
    let command = "harness = \"command\"\ncommand = [\"cat\"]\nnetwork = \"none\"\n";
    parse(&format!("[agents.echo]\nname = \"Echo\"\n{command}[agents.other]\nmodel = \"m-1\"\n{command}")).unwrap()
}

/// A reader that counts, and fails when it is told to.
pub(crate) struct Watched {
    memory: Arc<Memory>,
    pub(crate) tails: AtomicUsize,
    pub(crate) pages: AtomicUsize,
    pub(crate) healths: AtomicUsize,
    /// Frames before it are no longer kept.
    pub(crate) kept_from: AtomicU32,
    /// Ends its run right after the next page was read.
    pub(crate) ends: Mutex<Option<Worker>>,
    pub(crate) down: AtomicBool,
    pub(crate) panics: AtomicBool,
    /// Says nothing of itself any more.
    pub(crate) silent: AtomicBool,
}

impl Watched {
    fn up(&self) -> Result<&Memory, LogError> {
        assert!(!self.panics.load(Ordering::SeqCst), "the reader panics, as the case wants");
        if self.down.load(Ordering::SeqCst) { Err(LogError::Unreachable("down, says the case: secret".into())) } else { Ok(&self.memory) }
    }
}

impl Watched {
    async fn speaks(&self) {
        if self.silent.load(Ordering::SeqCst) {
            std::future::pending::<()>().await;
        }
    }
}

#[async_trait]
impl Reader for Watched {
    async fn run(&self, agent_id: &str, run_id: Uuid, scope: Scope<'_>) -> Result<Option<RunRow>, LogError> {
        self.up()?.run(agent_id, run_id, scope).await
    }

    async fn runs(&self, query: RunsQuery<'_>, scope: Scope<'_>) -> Result<RunPage, LogError> {
        self.up()?.runs(query, scope).await
    }

    async fn session(&self, session_id: &str, scope: Scope<'_>) -> Result<Option<SessionRow>, LogError> {
        self.up()?.session(session_id, scope).await
    }

    async fn sessions(
        &self,
        user: Option<&str>,
        agent: Option<&str>,
        cursor: Option<Cursor>,
        limit: u32,
        scope: Scope<'_>,
    ) -> Result<Page<SessionRow>, LogError> {
        self.up()?.sessions(user, agent, cursor, limit, scope).await
    }

    async fn frames(&self, run_id: Uuid, index: u32, limit: u32) -> Result<Vec<Recorded>, LogError> {
        self.pages.fetch_add(1, Ordering::SeqCst);
        let page = self.up()?.frames(run_id, index.max(self.kept_from.load(Ordering::SeqCst)), limit).await;
        let ends = self.ends.lock().unwrap().take();
        if let Some(worker) = ends {
            worker.complete("done").await;
        }
        page
    }

    async fn tail(&self, from: &[(Uuid, u32)], limit: u32) -> Result<Vec<(Uuid, Recorded)>, LogError> {
        self.tails.fetch_add(1, Ordering::SeqCst);
        self.up()?.tail(from, limit).await
    }

    async fn health(&self) -> Result<Health, LogError> {
        self.healths.fetch_add(1, Ordering::SeqCst);
        // Others come while it is asked.
        tokio::task::yield_now().await;
        self.speaks().await;
        self.up()?.health().await
    }

    async fn unended(&self) -> Result<Unended, LogError> {
        self.speaks().await;
        self.up()?.unended().await
    }
}

/// What is wrong with the log, as the case wants it.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Broken {
    Missing,
    Differs,
    /// It does not say how it is.
    Silent,
}

/// An intake that refuses as a log does that is not what this build needs.
pub(crate) struct Gate {
    memory: Arc<Memory>,
    pub(crate) broken: Mutex<Option<Broken>>,
}

impl Gate {
    fn open(&self) -> Result<&Memory, LogError> {
        match *self.broken.lock().unwrap() {
            None => Ok(&self.memory),
            Some(Broken::Missing) => Err(LogError::Missing("relation \"secret\" does not exist".into())),
            Some(Broken::Differs) => Err(LogError::Differs("The table sandlog.runs differs".into())),
            Some(Broken::Silent) => Err(LogError::Unreachable("no answer in time".into())),
        }
    }
}

#[async_trait]
impl Intake for Gate {
    async fn submit(&self, submission: Submission) -> Result<Accepted, Refused> {
        self.open()?.submit(submission).await
    }

    async fn fit(&self, terms: Terms) -> Result<(), Refused> {
        if matches!(*self.broken.lock().unwrap(), Some(Broken::Silent)) {
            std::future::pending::<()>().await;
        }
        self.open()?.fit(terms).await
    }

    async fn cancel(&self, agent_id: &str, run_id: Uuid, scope: Scope<'_>) -> Result<Option<CancelAnswer>, LogError> {
        self.memory.cancel(agent_id, run_id, scope).await
    }

    async fn erase(&self, session_id: &str, scope: Scope<'_>) -> Result<Erased, LogError> {
        self.memory.erase(session_id, scope).await
    }
}

#[derive(Clone)]
pub(crate) struct Stage {
    pub(crate) gate: Arc<Gate>,
    pub(crate) memory: Arc<Memory>,
    pub(crate) reader: Arc<Watched>,
    pub(crate) signals: Arc<Hub>,
    pub(crate) parts: Parts,
    pub(crate) router: Router,
}

impl Stage {
    pub(crate) fn new() -> Self {
        Self::with(Options::default())
    }

    pub(crate) fn with(options: Options) -> Self {
        Self::made(options, Auth::none())
    }

    /// Behind authentication.
    pub(crate) fn guarded(auth: Auth) -> Self {
        Self::made(Options::default(), auth)
    }

    fn made(options: Options, auth: Auth) -> Self {
        let (memory, signals) = (Arc::new(Memory::new()), Arc::new(Hub::poll()));
        let reader = Arc::new(Watched {
            memory: memory.clone(),
            tails: AtomicUsize::new(0),
            pages: AtomicUsize::new(0),
            kept_from: AtomicU32::new(0),
            ends: Mutex::default(),
            down: AtomicBool::new(false),
            panics: AtomicBool::new(false),
            healths: AtomicUsize::new(0),
            silent: AtomicBool::new(false),
        });
        let gate = Arc::new(Gate { memory: memory.clone(), broken: Mutex::default() });
        let parts = Parts {
            intake: gate.clone(),
            queue: memory.clone(),
            reader: reader.clone(),
            signals: signals.clone(),
            ring: Arc::new(NoRing),
            agents: Arc::new(agents()),
            metrics: Arc::default(),
            auth: Arc::new(auth),
            options,
        };
        let router = api::router(parts.clone());
        Self { gate, memory, reader, signals, parts, router }
    }

    /// The same with signals that a test decides about.
    pub(crate) fn signalling(options: Options, signals: Arc<dyn Signals>) -> Self {
        let mut stage = Self::with(options);
        stage.parts.signals = signals;
        stage.router = api::router(stage.parts.clone());
        stage
    }

    pub(crate) async fn send(&self, request: Request<Body>) -> Open {
        let (method, path) = (request.method().clone(), request.uri().path().to_owned());
        let response = self.router.clone().oneshot(request).await.unwrap();
        let (parts, body) = response.into_parts();
        described::check(described::document(&self.router).await, &method, &path, parts.status, &parts.headers);
        Open { status: parts.status, headers: parts.headers, body: body.into_data_stream(), rest: String::new() }
    }

    pub(crate) async fn ask(&self, request: Request<Body>) -> Answer {
        self.send(request).await.read().await
    }

    pub(crate) async fn get(&self, path: &str) -> Answer {
        self.ask(Request::get(path).body(Body::empty()).unwrap()).await
    }

    pub(crate) async fn form(&self, fields: &[(&str, &str)]) -> Answer {
        self.ask(form("/agents/echo/runs", fields)).await
    }

    /// A run in the background.
    pub(crate) async fn accepted(&self, fields: &[(&str, &str)]) -> Uuid {
        let answer = self.form(&[fields, &[("stream", "false"), ("background", "true")]].concat()).await;
        assert_eq!(answer.status, StatusCode::ACCEPTED, "{}", answer.text);
        answer.json()["run_id"].as_str().unwrap().parse().unwrap()
    }

    pub(crate) async fn resume(&self, run: Uuid, last: Option<u32>) -> Open {
        let query = last.map(|last| format!("?last_event_index={last}")).unwrap_or_default();
        let open = self.send(Request::get(format!("/agents/echo/runs/{run}/resume{query}")).body(Body::empty()).unwrap()).await;
        assert_eq!(open.status, StatusCode::OK);
        open
    }

    /// The whole log as the JSON of its frames.
    pub(crate) async fn log(&self, run: Uuid) -> Vec<Frame> {
        let events = self.memory.events(run, 0, 100_000).await.unwrap();
        events.iter().flat_map(|recorded| frame::frames(&recorded.event).into_iter().map(std::borrow::Cow::into_owned)).collect()
    }

    pub(crate) async fn is_empty(&self) -> bool {
        self.get("/sessions").await.json()["data"].as_array().unwrap().is_empty()
            && self.get("/agents/echo/runs").await.json()["data"].as_array().unwrap().is_empty()
    }
}

pub(crate) fn form(path: &str, fields: &[(&str, &str)]) -> Request<Body> {
    let encoded = |text: &str| text.bytes().map(|byte| format!("%{byte:02x}")).collect::<String>();
    let body = fields.iter().map(|(name, value)| format!("{}={}", encoded(name), encoded(value))).collect::<Vec<_>>().join("&");
    Request::post(path).header(header::CONTENT_TYPE, "application/x-www-form-urlencoded").body(body.into()).unwrap()
}

pub(crate) fn json(path: &str, body: &Value) -> Request<Body> {
    Request::post(path).header(header::CONTENT_TYPE, "application/json").body(body.to_string().into()).unwrap()
}

pub(crate) struct File<'a>(pub(crate) &'a str, pub(crate) &'a str, pub(crate) &'a str, pub(crate) &'a [u8]);

/// Fields, then files as (field, name, type, bytes).
pub(crate) fn multipart(path: &str, fields: &[(&str, &str)], files: &[File<'_>]) -> Request<Body> {
    let mut body = Vec::new();
    for (name, value) in fields {
        body.extend(format!("--b\r\nContent-Disposition: form-data; name=\"{name}\"\r\n\r\n{value}\r\n").bytes());
    }
    for File(field, name, media_type, bytes) in files {
        let head = format!("--b\r\nContent-Disposition: form-data; name=\"{field}\"; filename=\"{name}\"\r\nContent-Type: {media_type}\r\n\r\n");
        body.extend(head.bytes().chain(bytes.iter().copied()).chain(*b"\r\n"));
    }
    body.extend(b"--b--\r\n");
    Request::post(path).header(header::CONTENT_TYPE, "multipart/form-data; boundary=b").body(body.into()).unwrap()
}

#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) text: String,
}

impl Answer {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.text).unwrap_or_else(|error| panic!("{error}: {}", self.text))
    }

    pub(crate) fn detail(&self) -> String {
        self.json()["detail"].as_str().unwrap_or_else(|| panic!("no text: {}", self.text)).to_owned()
    }

    /// The fields that a 422 names.
    pub(crate) fn faulty(&self) -> Vec<String> {
        assert_eq!(self.status, StatusCode::UNPROCESSABLE_ENTITY, "{}", self.text);
        let faults = self.json()["detail"].as_array().unwrap_or_else(|| panic!("no list: {}", self.text)).clone();
        faults.iter().map(|fault| fault["loc"].as_array().unwrap().last().unwrap().as_str().unwrap().to_owned()).collect()
    }
}

/// An answer whose body may still go on.
pub(crate) struct Open {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) body: BodyDataStream,
    rest: String,
}

/// A frame of a stream, as a client parses it. A comment has its text as `event`, a `retry` line likewise.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Seen {
    pub(crate) id: Option<u32>,
    pub(crate) event: String,
    pub(crate) data: Value,
}

impl Open {
    pub(crate) async fn read(mut self) -> Answer {
        let mut bytes = Vec::new();
        while let Some(chunk) = tokio::time::timeout(LIMIT, self.body.next()).await.expect("the body ends") {
            bytes.extend_from_slice(&chunk.unwrap());
        }
        Answer { status: self.status, headers: self.headers, text: String::from_utf8(bytes).unwrap() }
    }

    /// The next block of the stream; `None` at its end.
    pub(crate) async fn next(&mut self) -> Option<Seen> {
        loop {
            if let Some((block, rest)) = self.rest.split_once("\n\n") {
                let seen = seen(block);
                self.rest = rest.to_owned();
                return Some(seen);
            }
            let chunk = tokio::time::timeout(QUIET, self.body.next()).await.expect("the stream goes on")?;
            self.rest.push_str(std::str::from_utf8(&chunk.unwrap()).unwrap());
        }
    }

    /// The numbered frames up to the stream's end.
    pub(crate) async fn frames(&mut self) -> Vec<Seen> {
        let mut frames = Vec::new();
        while let Some(seen) = self.next().await {
            frames.extend(Some(seen).filter(|seen| seen.id.is_some()));
        }
        frames
    }
}

fn seen(block: &str) -> Seen {
    let field = |name: &str| block.lines().find_map(|line| line.strip_prefix(name)).map(str::trim);
    let data = field("data:").map_or(Value::Null, |data| serde_json::from_str(data).unwrap());
    Seen { id: field("id:").map(|id| id.parse().unwrap()), event: field("event:").unwrap_or(block).to_owned(), data }
}

/// Polls until it is so.
pub(crate) async fn eventually<F: Future<Output = bool>>(mut condition: impl FnMut() -> F) {
    let end = Instant::now() + LIMIT;
    while !condition().await {
        assert!(Instant::now() < end, "it never came to be");
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}
