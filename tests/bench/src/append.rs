//! Frames a second into the log, in the batches that a worker writes.

use std::sync::Arc;
use std::time::{Duration, Instant};

use adapters::postgres::{Postgres, connect};
use adapters::{Driver, Intake, Submission};
use e2e::{Deployment, Shape};
use runs::{Event, Frame, Input, Output, Submitted};
use tokio::task::JoinSet;

use crate::pgbench::{self, SECONDS};
use crate::report::{row, title};

const WRITERS: usize = 8;

pub(crate) async fn run() {
    title("append: frames a second committed by 8 drivers, one event a batch, durable commits");
    // An api brings the schema up to date.
    let deployment = Deployment::start(Shape::Apart { apis: 1, workers: 0 }).await;
    let database = deployment.database.as_ref().expect("a database");
    database.rows(include_str!("../sql/tables.sql"));
    let log = connect(&database.functions_url(), "sandlog", WRITERS).await.expect("the log");
    for frames in [1, 10, 100] {
        let event = batch(frames);
        let data = event.to_stored().to_string();
        let script = |text: &str| text.replace("{DATA}", &data).replace("{FRAMES}", &frames.to_string());
        database.rows("truncate bench.plain; truncate bench.appended");
        for client in 0..WRITERS {
            let run_id = submit(&log).await;
            database.rows(&format!("insert into bench.appended values ({client}, '{run_id}')"));
        }
        let same = pgbench::run(&database.functions_url(), &script(include_str!("../sql/append.sql")), WRITERS) * f64::from(frames);
        let least = pgbench::run(&database.functions_url(), &script(include_str!("../sql/least_append.sql")), WRITERS) * f64::from(frames);
        let figure = load(&log, &event).await as f64 * f64::from(frames) / SECONDS as f64;
        row(&format!("batches of {frames}"), figure, "frames/s", &[("same statement", same), ("plain insert", least)], "");
    }
    deployment.stop().await;
}

fn batch(frames: u32) -> Event {
    let frames = (0..frames).map(|n| Frame::content(format!("a line of output, number {n}\n"))).collect();
    Event::Output(Output { frames, journal: 4096, parser: serde_json::json!({"v": 1, "bytes": 4096, "harness": {"error": "", "cut": []}}) })
}

pub(crate) async fn submit(log: &Postgres) -> uuid::Uuid {
    let text = "[agents.echo]\nharness = \"command\"\nnetwork = \"none\"\ncommand = [\"true\"]\n";
    let agent = runs::agents::parse(text).expect("an agent").remove("echo").expect("echo");
    let submitted = Submitted { agent, input: Input { message: "x".into(), ..Input::default() }, requeued_from: None };
    let submission = Submission { session_id: None, user_id: None, submitted, attachments: Vec::new(), key: None, terms: adapters::Terms::default() };
    log.submit(submission).await.expect("accepted").run_id
}

async fn load(log: &Arc<Postgres>, event: &Event) -> u64 {
    let until = Instant::now() + Duration::from_secs(SECONDS);
    let mut running = JoinSet::new();
    for _ in 0..WRITERS {
        let (log, event) = (Arc::clone(log), event.clone());
        running.spawn(async move {
            let run_id = submit(&log).await;
            let (mut seq, mut index) = (1, 0);
            while Instant::now() < until {
                log.append(run_id, seq, index, &event).await.expect("appended");
                (seq, index) = (seq + 1, index + runs::frame::count(&event));
            }
            u64::from(seq - 1)
        });
    }
    running.join_all().await.into_iter().sum()
}
