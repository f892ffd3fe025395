//! The ring as an SQS queue: one message a session that has work, `{"session": UUID}`, which a worker that is a function is started with.
//!
//! Messages go in batches. A process that lives sends them behind the answer; a function, which is frozen once it has answered, waits for them first.

mod batch;
#[cfg(test)]
mod tests;

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use aws_config::environment::EnvironmentVariableRegionProvider;
use aws_config::meta::region::RegionProviderChain;
use aws_config::timeout::TimeoutConfig;
use aws_config::{BehaviorVersion, Region};
use aws_sdk_sqs::Client;
use aws_sdk_sqs::types::SendMessageBatchRequestEntry;
use aws_smithy_http_client::Builder;
use aws_smithy_http_client::tls::Provider;
use aws_smithy_http_client::tls::rustls_provider::CryptoMode;
use tokio::sync::{mpsc, oneshot};
use tracing::warn;
use uuid::Uuid;

use crate::{Ring, RingState};
use batch::Call;

/// Calls that wait to be sent. Where there are more, the sweep finds what was not rung for.
const WAITING: usize = 4096;
/// All of a call with its repeats: what an answer of a function may be held up.
const PATIENCE: Duration = Duration::from_secs(5);

/// When `ring` returns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sending {
    /// At once.
    Behind,
    /// Once the queue has answered, or could not be reached.
    Awaited,
}

pub struct Sqs {
    calls: mpsc::Sender<Call>,
    sending: Sending,
    state: Arc<Mutex<RingState>>,
}

impl Sqs {
    /// Credentials, region and endpoint are the AWS SDK's business (`AWS_ENDPOINT_URL` leads to an emulator). Nothing is asked of the queue here.
    pub async fn connect(queue_url: &str, sending: Sending) -> Self {
        let https = Builder::new().tls_provider(Provider::Rustls(CryptoMode::Ring)).build_https();
        let timeouts =
            TimeoutConfig::builder().connect_timeout(PATIENCE / 5).operation_attempt_timeout(PATIENCE / 2).operation_timeout(PATIENCE).build();
        // A queue elsewhere is asked with its own region's signature.
        let region = RegionProviderChain::first_try(region_of(queue_url)).or_else(EnvironmentVariableRegionProvider::new()).or_else("us-east-1");
        let config = aws_config::defaults(BehaviorVersion::latest()).http_client(https).timeout_config(timeouts).region(region).load().await;
        Self::with(Client::new(&config), queue_url.to_owned(), sending)
    }

    fn with(client: Client, queue_url: String, sending: Sending) -> Self {
        let (calls, waiting) = mpsc::channel(WAITING);
        let state = Arc::new(Mutex::new(RingState::Unknown));
        let found = Arc::clone(&state);
        let send = move |sessions| {
            let (sent, found) = (send(client.clone(), queue_url.clone(), sessions), Arc::clone(&found));
            async move {
                let state = if sent.await { RingState::Ok } else { RingState::Unreachable };
                *found.lock().unwrap_or_else(PoisonError::into_inner) = state;
            }
        };
        let gathering = if sending == Sending::Behind { batch::GATHERING } else { Duration::ZERO };
        tokio::spawn(batch::run(waiting, gathering, send));
        Self { calls, sending, state }
    }
}

#[async_trait]
impl Ring for Sqs {
    async fn ring(&self, session: Uuid) {
        let (done, sent) = oneshot::channel();
        if self.calls.try_send(Call { session, done }).is_err() {
            return warn!(%session, "too many rings wait for the queue: the sweep will find this one's work");
        }
        if self.sending == Sending::Awaited {
            let _ = sent.await;
        }
    }

    fn state(&self) -> Option<RingState> {
        Some(*self.state.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Whether the queue answered.
async fn send(client: Client, queue_url: String, sessions: Vec<Uuid>) -> bool {
    let mut call = client.send_message_batch().queue_url(queue_url);
    for (n, session) in sessions.iter().enumerate() {
        let body = serde_json::json!({ "session": session }).to_string();
        match SendMessageBatchRequestEntry::builder().id(n.to_string()).message_body(body).build() {
            Ok(entry) => call = call.entries(entry),
            Err(error) => warn!(%session, error = &error as &dyn std::error::Error, "not rung"),
        }
    }
    match call.send().await {
        Ok(answer) => {
            for refused in answer.failed() {
                let session = refused.id().parse().ok().and_then(|n: usize| sessions.get(n));
                warn!(?session, code = refused.code(), reason = refused.message(), "the queue refused a ring");
            }
            true
        }
        Err(error) => {
            let error = aws_sdk_sqs::error::DisplayErrorContext(error);
            warn!(rings = sessions.len(), %error, "the queue cannot be rung: the sweep will find the work");
            false
        }
    }
}

/// `https://sqs.eu-west-1.amazonaws.com/123456789012/name` says where it is.
fn region_of(queue_url: &str) -> Option<Region> {
    let host = queue_url.split_once("://")?.1.split(['/', ':']).next()?;
    let mut labels = host.strip_suffix(".cn").unwrap_or(host).strip_suffix(".amazonaws.com")?.split('.');
    let region = labels.next_back().filter(|_| labels.any(|label| label == "sqs" || label == "sqs-fips"))?;
    Some(Region::new(region.to_owned()))
}
