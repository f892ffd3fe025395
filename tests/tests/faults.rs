//! What must not hold up a run for ever, or reach into another deployment.

use std::time::Duration;

use e2e::http::{ENDED, Submit, text};
use e2e::{Database, Deployment, Shape, eventually, instance};

#[tokio::test(flavor = "multi_thread")]
async fn a_run_whose_log_cannot_be_folded_ends_and_its_sandbox_with_it() {
    let deployment = Deployment::with(Shape::Apart { apis: 1, workers: 1 }, &[("SANDLOG_LEASE_SECONDS", "1")]).await;
    let http = deployment.http();
    let got = http.stream(Submit::message("tick 2000 0.1"), Some(3)).await;
    let run_id = got.run_id();
    let database = deployment.database.as_ref().expect("a database");
    // Beside a worker that appends, the seq may be taken.
    eventually("an event of the future is in the log", Duration::from_secs(20), || async {
        let insert = format!(
            "insert into sandlog.events select run_id, max(seq) + 1, 'from.the.future', '{{\"v\": 9}}', max(first_index + frames), 0, now() \
             from sandlog.events where run_id = '{run_id}' group by run_id on conflict do nothing returning seq"
        );
        (!database.rows(&insert).is_empty()).then_some(())
    })
    .await;
    let run = http.wait(&run_id, &ENDED).await;
    assert_eq!((text(&run, "status"), text(&run, "error_type")), ("ERROR".into(), "unreadable".into()), "{run}");
    http.resume(&run_id, None, 0).await.whole(0);
    // The session goes on.
    let session = text(&run, "session_id");
    assert_eq!(http.foreground(Submit::message("say on").field("session_id", session)).await["content"], "on\n");
    deployment.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_data_folder_with_another_deployments_sandboxes_is_refused() {
    let deployment = Deployment::start(Shape::Apart { apis: 1, workers: 1 }).await;
    let other = Database::create();
    let mut variables = deployment.variables().to_vec();
    variables.retain(|(name, _)| !name.starts_with("DATABASE"));
    variables.extend([("DATABASE_URL".into(), other.functions_url()), ("DATABASE_MIGRATE_URL".into(), other.owner_url())]);
    let ended = instance::finish(instance::command(&["up", "--only", "worker"], &variables)).await;
    assert!(!ended.status.success() && ended.stderr.contains("another deployment"), "{ended:?}");
    // Its own deployment's workers may share it.
    let mut deployment = deployment;
    deployment.add_worker().await;
    deployment.stop().await;
}
