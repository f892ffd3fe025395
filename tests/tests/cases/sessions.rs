//! Sessions: one owner, one turn at a time in order of acceptance, one workspace (docs/API.md).

use e2e::http::{ENDED, Http, Submit, body, list, refused, text};
use e2e::unique;
use reqwest::{Method, StatusCode};

on_all_shapes!(
    turns_run_in_order_and_share_the_workspace,
    a_waiting_turn_names_what_it_waits_on,
    sessions_share_nothing,
    a_session_has_one_owner,
    a_failed_turn_holds_up_nothing,
    runs_are_listed_newest_first_in_pages,
    a_deleted_session_is_gone,
    agents_are_listed,
);

async fn turns_run_in_order_and_share_the_workspace(http: Http) {
    let session = unique("s");
    let messages = ["tick 5 0.1\nwrite note.txt first", "read note.txt", "write note.txt third\nread note.txt"];
    let mut runs = Vec::new();
    for (instance, message) in messages.into_iter().enumerate() {
        runs.push(http.background(Submit::message(message).field("session_id", &session).on(instance)).await);
    }
    let mut ended = Vec::new();
    for run in &runs {
        ended.push(http.wait(&text(run, "run_id"), &ENDED).await);
    }
    assert!(ended.iter().all(|run| run["status"] == "COMPLETED"), "{ended:?}");
    assert_eq!((ended[1]["content"].as_str(), ended[2]["content"].as_str()), (Some("first\n"), Some("third\n")));
    for turns in ended.windows(2) {
        assert!(turns[0]["ended_at"].as_f64() <= turns[1]["started_at"].as_f64(), "{turns:?}");
    }
}

async fn a_waiting_turn_names_what_it_waits_on(http: Http) {
    let session = unique("s");
    let first = http.background(Submit::message("tick 20 0.1").field("session_id", &session)).await;
    let second = http.background(Submit::message("say after").field("session_id", &session)).await;
    let waiting = body(http.run(&text(&second, "run_id"), 1).await, StatusCode::OK).await;
    assert_eq!(waiting["waiting_on"], first["run_id"]);
    assert_eq!(http.wait(&text(&second, "run_id"), &ENDED).await.get("waiting_on"), None);
}

async fn sessions_share_nothing(http: Http) {
    http.foreground(Submit::message("write secret.txt mine").field("session_id", unique("s"))).await;
    let listed = http.foreground(Submit::message("list").field("session_id", unique("s"))).await;
    assert_eq!(listed["content"], "");
}

async fn a_session_has_one_owner(http: Http) {
    let session = unique("s");
    http.foreground(Submit::message("say mine").field("session_id", &session).field("user_id", "ann")).await;
    let yours = || Submit::message("say yours").field("session_id", &session);
    for submit in [yours().field("user_id", "bob"), yours(), yours().field("user_id", "ann").agent("other")] {
        refused(http.submit(submit.background()).await, 404, "Session not found").await;
    }
    assert_eq!(http.runs(&session).await.len(), 1);
}

async fn a_failed_turn_holds_up_nothing(http: Http) {
    let session = unique("s");
    let failed = http.background(Submit::message("fail").field("session_id", &session)).await;
    let after = http.background(Submit::message("say on").field("session_id", &session)).await;
    assert_eq!(http.wait(&text(&failed, "run_id"), &ENDED).await["status"], "ERROR");
    assert_eq!(http.wait(&text(&after, "run_id"), &ENDED).await["content"], "on\n");
}

async fn runs_are_listed_newest_first_in_pages(http: Http) {
    let session = unique("s");
    let mut ids = Vec::new();
    for _ in 0..3 {
        ids.push(text(&http.background(Submit::message("say x").field("session_id", &session)).await, "run_id"));
    }
    for id in &ids {
        http.wait(id, &ENDED).await;
    }
    ids.reverse();
    let listed: Vec<String> = http.runs(&session).await.iter().map(|run| text(run, "run_id")).collect();
    assert_eq!(listed, ids);
    let answer = body(http.get(&format!("/sessions/{session}/runs")).await, StatusCode::OK).await;
    assert_eq!(list(&answer).len(), 3);
}

async fn a_deleted_session_is_gone(http: Http) {
    let session = unique("s");
    let run = http.foreground(Submit::message("write a.txt b").field("session_id", &session)).await;
    let path = format!("/sessions/{session}");
    let delete = || http.request(Method::DELETE, 1, &path).send();
    assert_eq!(delete().await.expect("an answer").status(), StatusCode::NO_CONTENT);
    assert_eq!(http.run(&text(&run, "run_id"), 0).await.status(), StatusCode::NOT_FOUND);
    assert_eq!(http.get(&path).await.status(), StatusCode::NOT_FOUND);
    assert_eq!(delete().await.expect("an answer").status(), StatusCode::NOT_FOUND);
}

async fn agents_are_listed(http: Http) {
    let agents = list(&body(http.get("/agents").await, StatusCode::OK).await);
    let echo = agents.iter().find(|agent| agent["id"] == "echo").expect("the agent");
    assert!(echo["sandboxed"] == true && echo["name"] == "Echo" && echo["harness"] == "command", "{echo}");
    let one = body(http.get("/agents/echo").await, StatusCode::OK).await;
    assert_eq!(one["id"], "echo");
    refused(http.get("/agents/nobody").await, 404, "Agent not found").await;
}
