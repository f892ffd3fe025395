//! Cancelling: waiting, running, ended, unknown; from any instance (docs/API.md).

use e2e::http::{ENDED, Http, Submit, body, text};
use e2e::unique;
use reqwest::StatusCode;

on_all_shapes!(
    a_running_run_is_cancelled_from_any_instance,
    a_waiting_run_is_cancelled_at_once_and_never_runs,
    an_ended_run_is_left_alone,
    an_unknown_run_is_not_found,
    twice_is_once,
    the_next_turn_has_the_workspace_of_before,
    a_viewer_sees_it,
);

async fn endless(http: &Http, session: &str) -> String {
    let run = http.background(Submit::message("write lost.txt no\ntick 6000 0.1").field("session_id", session)).await;
    let run_id = text(&run, "run_id");
    http.wait(&run_id, &["RUNNING"]).await;
    run_id
}

async fn a_running_run_is_cancelled_from_any_instance(http: Http) {
    for instance in 0..http.urls.len() {
        let run_id = endless(&http, &unique("s")).await;
        assert_eq!(http.cancel(&run_id, instance).await.status(), StatusCode::OK);
        let run = http.wait(&run_id, &ENDED).await;
        assert_eq!(run["status"], "CANCELLED");
        assert!(text(&run["input"], "input_content").contains("tick 6000"), "{run}");
        assert!(run["messages"].to_string().contains("tick 6000"), "{run}");
        assert_eq!(http.resume(&run_id, None, 0).await.whole(0).last_event(), "RunCancelled");
    }
}

async fn a_waiting_run_is_cancelled_at_once_and_never_runs(http: Http) {
    let session = unique("s");
    let first = http.background(Submit::message("tick 20 0.1").field("session_id", &session)).await;
    let second = http.background(Submit::message("write never.txt x").field("session_id", &session)).await;
    let told = body(http.cancel(&text(&second, "run_id"), 1).await, StatusCode::OK).await;
    assert_eq!(told["status"], "CANCELLED");
    http.wait(&text(&first, "run_id"), &ENDED).await;
    let listed = http.foreground(Submit::message("list").field("session_id", &session)).await;
    assert_eq!(listed["content"], "");
}

async fn an_ended_run_is_left_alone(http: Http) {
    let run = http.foreground(Submit::message("say done")).await;
    let told = body(http.cancel(&text(&run, "run_id"), 1).await, StatusCode::OK).await;
    assert_eq!(told["status"], "COMPLETED");
    assert_eq!(http.wait(&text(&run, "run_id"), &ENDED).await["content"], "done\n");
}

async fn an_unknown_run_is_not_found(http: Http) {
    for run_id in ["01890a5d-ac96-774b-bcce-b302099a8057", "not-a-uuid"] {
        assert_eq!(http.cancel(run_id, 0).await.status(), StatusCode::NOT_FOUND, "{run_id}");
        assert_eq!(http.run(run_id, 0).await.status(), StatusCode::NOT_FOUND, "{run_id}");
    }
}

async fn twice_is_once(http: Http) {
    let run_id = endless(&http, &unique("s")).await;
    for instance in 0..2 {
        let told = body(http.cancel(&run_id, instance).await, StatusCode::OK).await;
        assert_eq!(told["cancel_requested"], true, "{told}");
    }
    assert_eq!(http.wait(&run_id, &ENDED).await["status"], "CANCELLED");
    http.resume(&run_id, None, 0).await.whole(0);
}

async fn the_next_turn_has_the_workspace_of_before(http: Http) {
    let session = unique("s");
    http.foreground(Submit::message("write kept.txt yes").field("session_id", &session)).await;
    let run_id = endless(&http, &session).await;
    http.cancel(&run_id, 0).await;
    let listed = http.foreground(Submit::message("list").field("session_id", &session)).await;
    assert_eq!(listed["content"], "kept.txt\n");
}

async fn a_viewer_sees_it(http: Http) {
    let head = http.stream(Submit::message("tick 6000 0.05"), Some(3)).await;
    http.cancel(&head.run_id(), 1).await;
    let tail = http.resume(&head.run_id(), Some(head.last_index()), 0).await.whole(3);
    assert_eq!(tail.last_event(), "RunCancelled");
}
