//! What is deployed, deployed: the release zips under the template's queue, function URL and schedule.

use std::time::Duration;

use e2e::deployment::Folder;
use e2e::emulator::Emulator;
use e2e::functions::Program;
use e2e::http::{ENDED, Submit, frames, text};
use e2e::{Database, binaries, eventually, traces};
use serde_json::json;

#[tokio::test(flavor = "multi_thread")]
async fn a_submission_to_the_functions_url_is_rung_through_the_queue_to_the_worker() {
    let (database, folder) = (Database::create(), Folder::new());
    let parameters = [
        ("DatabaseUrl", database.functions_url()),
        ("DatabaseMigrateUrl", database.owner_url()),
        ("UrlAuth", "NONE".into()),
        ("Auth", "none".into()),
        ("WorkerSeconds", "120".into()),
        ("DataDir", folder.path().join("data").display().to_string()),
        ("Checkpoints", format!("file://{}", folder.path().join("checkpoints").display())),
        ("Runner", binaries::sandlog().with_file_name("sandlog-runner").display().to_string()),
    ];
    let emulator = Emulator::deploy(&parameters, folder.path()).await;
    let http = emulator.http();
    let submit = |message: &str| Submit::message(message).agent("demo");
    let accepted = http.background(submit("first").field("session_id", "s")).await;
    http.background(submit("second").field("session_id", "s")).await;
    assert_eq!(accepted["status"], "PENDING");
    let demo = |run: String| format!("/agents/demo/runs/{run}");
    let ended = |run: String| {
        let (http, path) = (http.clone(), demo(run));
        async move {
            eventually("the run ends", Duration::from_secs(60), || async {
                let run: serde_json::Value = http.get(&path).await.json().await.ok()?;
                ENDED.contains(&run["status"].as_str()?).then_some(run)
            })
            .await
        }
    };
    let run = ended(text(&accepted, "run_id")).await;
    assert_eq!((run["status"].as_str(), run["attempt"].as_u64()), (Some("COMPLETED"), Some(1)), "{run}");
    assert!(text(&run, "content").contains("You said: first"), "{run}");
    let replay = frames(http.get(&format!("{}/resume", demo(text(&run, "run_id")))).await, None).await.whole(0);
    assert_eq!(replay.text(), text(&run, "content"));

    // A foreground submission waits in the api's function for what the worker's function does, in the order of the session.
    let last = http.foreground(submit("third").field("session_id", "s")).await;
    assert!(text(&last, "content").contains("This is turn 3 of this session"), "{last}");

    // Work that nobody rang for: the schedule's event finds it.
    let unrung = Program::start("api", &[("DATABASE_URL".to_owned(), database.functions_url())]).await;
    let missed = unrung.http().background(Submit::message("missed").agent("demo")).await;
    assert_eq!(emulator.invoke_worker(&json!({ "sweep": true })).await, json!({ "batchItemFailures": [] }));
    let run = ended(text(&missed, "run_id")).await;
    assert_eq!(run["status"], "COMPLETED", "{run}");
    drop((unrung, emulator));
    traces::gone(folder.path(), Duration::from_secs(60)).await;
}
