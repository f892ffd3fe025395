//! A viewer that comes back: whatever happens to its stream, it goes to the next instance with the last index that it has. What it saw it keeps, so that a
//! test can hold it against the log.

use std::time::Duration;

use futures_util::StreamExt;
use reqwest::StatusCode;
use serde_json::Value;
use tokio::time::{Instant, sleep, timeout};

use crate::Http;

/// A stream that says nothing for so long is left. Longer than any fault that a process may wait out.
const SILENCE: Duration = Duration::from_secs(20);

/// What it saw, in the order in which it came.
#[derive(Debug)]
pub struct Saw {
    pub frames: Vec<Value>,
    /// How often it had to come back.
    pub returns: usize,
}

/// From the first frame on, to the end of the run. Panics after `limit`.
pub async fn watch(http: &Http, run_id: &str, first: usize, limit: Duration) -> Saw {
    let (mut saw, mut instance, end) = (Saw { frames: Vec::new(), returns: 0 }, first, Instant::now() + limit);
    loop {
        if once(http, run_id, instance, &mut saw.frames).await {
            return saw;
        }
        assert!(Instant::now() < end, "run {run_id} has no end after {} frames", saw.frames.len());
        (instance, saw.returns) = (instance + 1, saw.returns + 1);
        sleep(Duration::from_millis(50)).await;
    }
}

/// Whether the run's end came.
async fn once(http: &Http, run_id: &str, instance: usize, frames: &mut Vec<Value>) -> bool {
    let last = frames.last().map(|frame| frame["event_index"].to_string());
    let query = last.map(|last| format!("?last_event_index={last}")).unwrap_or_default();
    let path = format!("/agents/{}/runs/{run_id}/resume{query}", http.agent);
    let asked = http.request(reqwest::Method::GET, instance, &path).send();
    let Ok(Ok(answer)) = timeout(SILENCE, asked).await else { return false };
    if answer.status() != StatusCode::OK {
        return false;
    }
    let (mut bytes, mut pending) = (answer.bytes_stream(), Vec::new());
    while let Ok(Some(Ok(chunk))) = timeout(SILENCE, bytes.next()).await {
        pending.extend_from_slice(&chunk);
        while let Some(end) = pending.windows(2).position(|two| two == b"\n\n") {
            let block: Vec<u8> = pending.drain(..end + 2).collect();
            let text = String::from_utf8_lossy(&block).into_owned();
            // Without an id it is a control frame or a comment.
            if text.starts_with("id: ")
                && let Some(data) = text.lines().find_map(|line| line.strip_prefix("data: "))
            {
                let frame: Value = serde_json::from_str(data).expect("JSON");
                let ends = ["RunCompleted", "RunError", "RunCancelled"].iter().any(|event| frame["event"] == *event);
                frames.push(frame);
                if ends {
                    return true;
                }
            }
        }
    }
    false
}

impl Saw {
    /// Each index once, in order, and the one end last.
    pub fn is_whole(&self) -> Result<(), String> {
        let indexes: Vec<u64> = self.frames.iter().filter_map(|frame| frame["event_index"].as_u64()).collect();
        let gapless = indexes.iter().copied().eq(0..self.frames.len() as u64);
        if gapless { Ok(()) } else { Err(format!("{indexes:?}")) }
    }
}
