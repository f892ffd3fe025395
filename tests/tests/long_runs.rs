//! Slow tests: what takes many turns or many deaths to show.

use e2e::http::{ENDED, Submit, text};
use e2e::{Deployment, Shape, unique};

#[tokio::test(flavor = "multi_thread")]
async fn sixteen_sessions_of_ten_turns_over_workers_that_are_killed_miss_nothing() {
    let mut deployment = Deployment::start(Shape::Apart { apis: 2, workers: 2 }).await;
    let http = deployment.http();
    let sessions: Vec<String> = (0..16).map(|_| unique("s")).collect();
    let mut runs = Vec::new();
    for turn in 0..10 {
        for (instance, session) in sessions.iter().enumerate() {
            let message = format!("tick 3 0.1\nwrite turn-{turn}.txt x\nlist");
            runs.push((turn, text(&http.background(Submit::message(message).field("session_id", session).on(instance)).await, "run_id")));
        }
    }
    for (turn, run_id) in &runs {
        // Once a round a worker dies, and another takes over what it held.
        if *turn < 8 && run_id == &runs[turn * 16].1 {
            deployment.workers.remove(0).kill().await;
            deployment.add_worker().await;
        }
        let got = http.resume(run_id, None, *turn).await.whole(0);
        let run = http.wait(run_id, &ENDED).await;
        let listed: String = (0..=*turn).map(|turn| format!("turn-{turn}.txt\n")).collect();
        let expected = format!("tick 1\ntick 2\ntick 3\n{listed}");
        assert_eq!((run["status"].as_str(), run["attempt"].as_u64()), (Some("COMPLETED"), Some(1)), "{run}");
        assert_eq!((run["content"].as_str(), got.text()), (Some(expected.as_str()), expected.clone()), "turn {turn}");
    }
    deployment.stop().await;
}
