//! A stand-in for the Messages API: no model, but what a conversation's newest directive says.
//!
//! A directive is a line of a user's message, `model: VERB ARGUMENT`:
//!
//! | directive | answer |
//! |---|---|
//! | `say TEXT` | the text, word by word |
//! | `think TEXT` | a thought, then the text |
//! | `slow N MS` | `word1 ` to `wordN `, one every so many milliseconds |
//! | `run COMMAND` | a call of the tool `Bash`; after its result `the tool said: RESULT` |
//! | `write PATH TEXT` | the same of the tool `Write` |
//! | `call NAME JSON` | the same of any tool, with this input |
//! | `recall [COMMAND]` | all directives before this one, and what the command says |
//! | `saw` | what the message holds beside text: `image/png 70`, ... |
//! | `refuse STATUS` | an error of the API |
//! | `flaky STATUS N` | the same N times, then an answer |
//! | `cut` | the start of an answer, and no end |
//! | `hang` | nothing |
//!
//! It keeps which keys it was asked with. Its end ends all its connections.

mod answer;
mod wire;

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use serde_json::Value;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

/// Serves until it is dropped.
#[derive(Debug)]
pub struct Standin {
    pub url: String,
    state: Arc<State>,
    server: JoinHandle<()>,
}

#[derive(Debug, Default)]
struct State {
    /// Other keys are answered with 401.
    key: String,
    asked: Mutex<Vec<Asked>>,
    counts: Mutex<HashMap<String, u64>>,
}

/// A request.
#[derive(Clone, Debug)]
pub struct Asked {
    pub method: String,
    pub path: String,
    pub headers: HashMap<String, String>,
    pub body: Value,
}

impl Standin {
    /// On a free port of loopback; only `key` is let in.
    pub async fn start(key: &str) -> Standin {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let url = format!("http://{}", listener.local_addr().expect("its address"));
        let state = Arc::new(State { key: key.into(), ..State::default() });
        let server = tokio::spawn(wire::serve(listener, Arc::clone(&state)));
        Standin { url, state, server }
    }

    /// All requests so far.
    pub fn asked(&self) -> Vec<Asked> {
        self.state.asked.lock().expect("the requests").clone()
    }
}

impl Drop for Standin {
    fn drop(&mut self) {
        self.server.abort();
    }
}

impl State {
    /// How often it was asked for before.
    fn count(&self, what: &str) -> u64 {
        let mut counts = self.counts.lock().expect("the counts");
        let count = counts.entry(what.into()).or_default();
        *count += 1;
        *count - 1
    }
}
