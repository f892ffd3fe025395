//! Follows a run to its end over as many connections as it takes.

use std::time::{Duration, Instant};

use futures_util::StreamExt;
use reqwest::{Response, StatusCode};

use super::place::{Place, Step};
use super::screen::{Ending, Screen};
use super::sse::Parser;
use super::{Accepted, Client, ClientError, PATIENCE, refusal};
use adapters::program::chain;

/// A server sends a comment every 15 s: three missed ones are a dead connection.
const SILENCE: Duration = Duration::from_secs(45);

/// How one connection ended.
enum Cut {
    /// With the run's terminal frame.
    Ended(Ending),
    /// By itself, `moved` saying whether it brought frames.
    Closed { wait: Duration, moved: bool },
    /// In a way that it should not.
    Failed(String),
}

impl Client {
    /// Shows every frame of the run once, in order, and says how the run ended.
    pub(crate) async fn follow(&self, run: &Accepted, screen: &mut Screen) -> Result<Ending, ClientError> {
        let mut place = Place::default();
        let mut answered = Instant::now();
        // As told before the connection that is open now: what such a run has left to show, that connection brings.
        let mut over = None;
        let mut told = false;
        loop {
            let cut = match self.connect(run, &place).await? {
                Ok(answer) => watch(answer, &mut place, screen).await?,
                Err(why) => Cut::Failed(why),
            };
            let wait = match (cut, over) {
                (Cut::Ended(how), _) | (Cut::Closed { moved: false, .. }, Some(how)) => return Ok(how),
                (Cut::Closed { wait, .. }, _) => {
                    answered = Instant::now();
                    wait
                }
                (Cut::Failed(cause), _) if answered.elapsed() > PATIENCE => return Err(ClientError::Silent { url: self.base.clone(), cause }),
                (Cut::Failed(why), _) => {
                    // With frames on the screen a cut is short, and of no interest.
                    if place.last().is_none() && !std::mem::replace(&mut told, true) {
                        eprintln!("sandlog: {} does not answer; asking for {} s: {why}", self.base, PATIENCE.as_secs());
                    }
                    tracing::debug!(%why, "the stream was cut: asking again");
                    Duration::from_millis(500)
                }
            };
            tokio::time::sleep(wait).await;
            over = self.ending(run).await;
        }
    }

    /// How the run has ended, if the server says that it has.
    async fn ending(&self, run: &Accepted) -> Option<Ending> {
        let url = self.url(&["agents", &run.agent, "runs", &run.run_id]);
        let answer = self.http.get(url).timeout(Duration::from_secs(5)).send().await.ok()?;
        let told: serde_json::Value = answer.json().await.ok()?;
        match told["status"].as_str()? {
            "COMPLETED" => Some(Ending::Completed),
            "ERROR" => Some(Ending::Failed),
            "CANCELLED" => Some(Ending::Cancelled),
            _ => None,
        }
    }

    /// The stream after the last frame shown; the inner error may pass with time.
    async fn connect(&self, run: &Accepted, place: &Place) -> Result<Result<Response, String>, ClientError> {
        let mut url = self.url(&["agents", &run.agent, "runs", &run.run_id, "resume"]);
        if let Some(last) = place.last() {
            url.query_pairs_mut().append_pair("last_event_index", &last.to_string());
        }
        match self.http.get(url).header("accept", "text/event-stream").send().await {
            Ok(answer) if answer.status().is_success() => Ok(Ok(answer)),
            Ok(answer) if answer.status() == StatusCode::NOT_FOUND => Err(self.not_found(&run.agent, answer).await),
            Ok(answer) if answer.status().is_client_error() => Err(ClientError::Refused(refusal(answer).await)),
            Ok(answer) => Ok(Err(format!("the server answered {}", answer.status()))),
            Err(cause) => Ok(Err(chain(&cause))),
        }
    }
}

/// Shows what one connection brings, until it ends.
async fn watch(answer: Response, place: &mut Place, screen: &mut Screen) -> Result<Cut, ClientError> {
    let mut bytes = answer.bytes_stream();
    let mut parser = Parser::default();
    let mut moved = false;
    let mut heard = Instant::now();
    let mut clock = tokio::time::interval(Duration::from_millis(if screen.is_terminal() { 100 } else { 1000 }));
    loop {
        let chunk = tokio::select! {
            chunk = bytes.next() => chunk,
            _ = clock.tick() => {
                if heard.elapsed() > SILENCE {
                    return Ok(Cut::Failed("the connection fell silent".into()));
                }
                screen.tick()?;
                continue;
            }
        };
        let chunk = match chunk {
            Some(Ok(chunk)) => chunk,
            Some(Err(cause)) => return Ok(Cut::Failed(chain(&cause))),
            None => {
                let wait = Duration::from_millis(parser.retry.unwrap_or(500).min(10_000));
                return Ok(Cut::Closed { wait, moved });
            }
        };
        heard = Instant::now();
        for event in parser.push(&chunk) {
            match place.take(&event) {
                Step::Show(frame) => {
                    moved = true;
                    if let Some(how) = screen.frame(&frame)? {
                        if how == Ending::Failed {
                            eprintln!("sandlog: the run failed: {}", frame["content"].as_str().unwrap_or("no reason given"));
                        }
                        return Ok(Cut::Ended(how));
                    }
                }
                Step::Gone { from, to, reason } => screen.line(&format!("-- frames {from} to {to} are gone: {reason}"))?,
                Step::Pass => {}
                Step::Broken(why) => return Ok(Cut::Failed(why)),
            }
        }
    }
}
