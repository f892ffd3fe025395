//! From Lambda's events to the worker's words.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

use adapters::program;
use aws_lambda_events::sqs::{BatchItemFailure, SqsBatchResponse, SqsEvent};
use lambda_runtime::{Error, LambdaEvent, run_concurrent, service_fn};
use serde::Deserialize;

use super::Message;
use crate::Worker;
use crate::time::Time;

/// What the function is started with.
#[derive(Deserialize)]
#[serde(untagged)]
enum Event {
    Queue(SqsEvent),
    Schedule(Schedule),
}

/// What the schedule sends: `{"sweep": true}`.
#[derive(Deserialize)]
struct Schedule {
    sweep: bool,
}

/// Serves the Lambda runtime that the environment names.
pub async fn serve(worker: Arc<Worker>) -> Result<(), Error> {
    let served = Arc::new(AtomicU64::new(0));
    let count = Arc::clone(&served);
    let handler = service_fn(move |event: LambdaEvent<Event>| {
        count.fetch_add(1, Relaxed);
        let worker = Arc::clone(&worker);
        async move { handle(&worker, event.payload, Time::until(event.context.deadline())).await }
    });
    program::lasting(&served, || run_concurrent(handler.clone())).await
}

/// The answer names the messages that are to come again, and only those do (`ReportBatchItemFailures`).
async fn handle(worker: &Arc<Worker>, event: Event, time: Time) -> Result<SqsBatchResponse, Error> {
    let mut answer = SqsBatchResponse::default();
    match event {
        Event::Queue(batch) => {
            let messages =
                batch.records.into_iter().map(|record| Message { id: record.message_id.unwrap_or_default(), body: record.body.unwrap_or_default() });
            answer.batch_item_failures = worker.batch(messages.collect(), time).await.into_iter().map(failure).collect();
        }
        Event::Schedule(Schedule { sweep: true }) => worker.sweep().await?,
        Event::Schedule(Schedule { sweep: false }) => {}
    }
    Ok(answer)
}

fn failure(id: String) -> BatchItemFailure {
    let mut failure = BatchItemFailure::default();
    failure.item_identifier = id;
    failure
}
