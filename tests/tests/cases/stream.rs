//! Streams: each frame once, in order, from any instance, after any index (docs/API.md).

use e2e::http::{Http, Submit, body, frames, list};
use e2e::unique;
use reqwest::{Method, StatusCode};

on_all_shapes!(
    a_cut_stream_goes_on_where_it_was_cut,
    an_ended_run_is_replayed_whole_by_either_method,
    every_cut_gives_the_rest,
    a_browser_goes_on_by_its_header_and_is_told_to_stop,
    every_instance_shows_the_same_live_stream,
    a_pending_run_is_waited_for,
    an_unknown_run_has_no_stream,
    proxies_are_told_not_to_buffer,
    the_frames_are_listed_in_pages_too,
    bytes_that_json_or_postgres_dislikes_end_nothing,
    a_line_of_megabytes_ends_nothing,
);

async fn a_cut_stream_goes_on_where_it_was_cut(http: Http) {
    let mut head = http.stream(Submit::message("tick 20 0.05"), Some(5)).await;
    let tail = http.resume(&head.run_id(), Some(head.last_index()), 1).await.whole(5);
    head.0.extend(tail.0);
    let expected: String = (1..=20).map(|tick| format!("tick {tick}\n")).collect();
    assert_eq!(head.text(), expected);
}

async fn an_ended_run_is_replayed_whole_by_either_method(http: Http) {
    let got = http.stream(Submit::message("lines 50"), None).await.whole(0);
    assert_eq!(http.resume(&got.run_id(), None, 1).await, got);
    let path = format!("/agents/echo/runs/{}/resume", got.run_id());
    assert_eq!(frames(http.get(&path).await, None).await, got);
}

async fn every_cut_gives_the_rest(http: Http) {
    let got = http.stream(Submit::message("say a\nsay b\nsay c"), None).await.whole(0);
    for cut in 0..got.0.len() {
        let rest = http.resume(&got.run_id(), Some(cut as u64), cut).await;
        assert_eq!(rest.0, got.0[cut + 1..], "after {cut}");
    }
}

async fn a_browser_goes_on_by_its_header_and_is_told_to_stop(http: Http) {
    let got = http.stream(Submit::message("lines 5"), None).await.whole(0);
    let ask = |last: u64| http.request(Method::GET, 1, &format!("/agents/echo/runs/{}/resume", got.run_id())).header("last-event-id", last);
    assert_eq!(frames(ask(2).send().await.expect("an answer"), None).await.0, got.0[3..]);
    assert_eq!(ask(got.last_index()).send().await.expect("an answer").status(), StatusCode::NO_CONTENT);
}

async fn every_instance_shows_the_same_live_stream(http: Http) {
    let run = http.background(Submit::message("tick 20 0.05")).await;
    let run_id = run["run_id"].as_str().expect("an id");
    let (one, two) = tokio::join!(http.resume(run_id, None, 0), http.resume(run_id, None, 1));
    assert_eq!(one.whole(0), two.whole(0));
}

async fn a_pending_run_is_waited_for(http: Http) {
    let session = unique("s");
    http.background(Submit::message("tick 10 0.05").field("session_id", &session)).await;
    let second = http.background(Submit::message("say then").field("session_id", &session)).await;
    let got = http.resume(second["run_id"].as_str().expect("an id"), None, 1).await.whole(0);
    assert_eq!(got.text(), "then\n");
}

async fn an_unknown_run_has_no_stream(http: Http) {
    let answer = http.request(Method::POST, 0, "/agents/echo/runs/01890a5d-ac96-774b-bcce-b302099a8057/resume").send().await;
    assert_eq!(answer.expect("an answer").status(), StatusCode::NOT_FOUND);
}

async fn proxies_are_told_not_to_buffer(http: Http) {
    let answer = http.submit(Submit::message("say x").field("stream", true)).await;
    assert_eq!(answer.headers()["cache-control"], "no-store");
    assert_eq!(answer.headers()["x-accel-buffering"], "no");
    frames(answer, None).await.whole(0);
}

async fn the_frames_are_listed_in_pages_too(http: Http) {
    let got = http.stream(Submit::message("lines 30"), None).await.whole(0);
    let (mut listed, mut after) = (Vec::new(), String::new());
    loop {
        let path = format!("/agents/echo/runs/{}/events?limit=7{after}", got.run_id());
        let page = list(&body(http.get(&path).await, StatusCode::OK).await);
        let Some(last) = page.last() else { break };
        assert!(page.len() <= 7);
        after = format!("&after={}", last["event_index"]);
        listed.extend(page);
    }
    assert_eq!(listed, got.0);
}

async fn bytes_that_json_or_postgres_dislikes_end_nothing(http: Http) {
    for bytes in [r"a\000b\n", r"\377\376 is no text\n", r"\355\240\200 half a pair\n", r"\033[31mred\n"] {
        let run = http.foreground(Submit::message(format!("bytes {}\nsay after", bytes.replace(' ', "_")))).await;
        assert_eq!(run["status"], "COMPLETED", "{bytes}: {run}");
        assert!(run["content"].as_str().is_some_and(|content| content.ends_with("after\n")), "{bytes}: {run}");
    }
}

async fn a_line_of_megabytes_ends_nothing(http: Http) {
    let run = http.foreground(Submit::message("wide 2097152\nsay after")).await;
    assert!(run["status"] == "COMPLETED" && run["content"].as_str().is_some_and(|content| content.ends_with("after\n")), "{}", run["status"]);
    http.resume(run["run_id"].as_str().expect("an id"), None, 1).await.whole(0);
}
