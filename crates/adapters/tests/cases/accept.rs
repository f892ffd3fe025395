use adapters::{Attachment, Refused, RunsQuery, Submission};
use runs::{Event, InputFile, Status};
use serde_json::json;

use crate::kit::*;
use crate::world::World;

pub(crate) async fn what_is_accepted_can_be_read(world: &dyn World) {
    let log = world.log();
    let mut sent = of_user("ann", submission("s", "grüße\n\"quoted\" \\ 😀 \u{7f}"));
    let metadata = json!({"a": [1, -2.5, null, {"deep": "ü"}], "big": 9_007_199_254_740_993_u64});
    sent.submitted.input.metadata = metadata.as_object().cloned().unwrap_or_default();
    sent.submitted.input.output_schema = Some(json!({"type": "object", "properties": {"x": {"type": "number"}}}));
    let accepted = log.submit(sent.clone()).await.expect("accepted");
    assert!(accepted.new && accepted.session_id == "s" && accepted.status == Status::Pending);

    let row = row(&log, accepted.run_id).await;
    assert_eq!((row.status, row.attempt, row.cancel_requested), (Status::Pending, 0, false));
    assert_eq!((row.session_id.as_str(), row.user_id.as_deref(), row.agent_id.as_str()), ("s", Some("ann"), "echo"));
    assert_eq!((row.started_at, row.ended_at, row.terminal, row.waiting_on), (None, None, None, None));
    assert_eq!(row.submitted, sent.submitted);

    let events = events(&log, accepted.run_id).await;
    assert_eq!(events.len(), 1);
    assert_eq!((events[0].seq, events[0].first_index, events[0].at), (0, 0, row.created_at));
    assert_eq!(events[0].event, Event::Submitted(Box::new(sent.submitted)));

    let session = log.session("s", None).await.expect("the log answers").expect("the session is there");
    assert_eq!(session.session, accepted.session);
    assert_eq!((session.agent_id.as_str(), session.user_id.as_deref(), session.runs), ("echo", Some("ann"), 1));
}

pub(crate) async fn runs_of_a_session_are_in_the_order_of_acceptance(world: &dyn World) {
    let log = world.log();
    let mut accepted = Vec::new();
    for n in 0..50 {
        accepted.push(accept(&log, "s", &n.to_string()).await.run_id);
        accept(&log, "beside", "x").await;
    }
    assert!(accepted.is_sorted_by(|a, b| a < b), "ids rise within a session");
    let query = RunsQuery { session_id: Some("s"), limit: 100, ..RunsQuery::default() };
    let listed = log.runs(query, None).await.expect("the log answers").items;
    let messages: Vec<_> = listed.iter().rev().map(|row| row.submitted.input.message.clone()).collect();
    assert_eq!(messages, (0..50).map(|n| n.to_string()).collect::<Vec<_>>());

    let session = listed[0].session_id.clone();
    for run in accepted {
        let session = log.session(&session, None).await.expect("the log answers").expect("there").session;
        let wanted = adapters::ClaimRequest { session: Some(session), ..request("a", LONG) };
        let claimed = log.claim(&wanted).await.expect("the log answers").expect("the next run");
        assert_eq!(claimed.run_id, run);
        let mut turn = Turn::of(&log, claimed).await;
        turn.begin().await;
        turn.complete("c").await.expect("finished");
    }
}

pub(crate) async fn a_session_of_another_owner_is_not_found_and_nothing_is_left(world: &dyn World) {
    let log = world.log();
    log.submit(of_user("ann", submission("anns", "mine"))).await.expect("accepted");
    log.submit(submission("nobodys", "mine")).await.expect("accepted");
    let strangers = [
        of_user("bob", submission("anns", "x")),
        submission("anns", "x"),
        of_agent("other", of_user("ann", submission("anns", "x"))),
        of_user("ann", submission("nobodys", "x")),
        of_agent("other", submission("nobodys", "x")),
    ];
    for (n, stranger) in strangers.into_iter().enumerate() {
        let answer = log.submit(with_key("k", "f", stranger)).await;
        assert!(matches!(answer, Err(Refused::SessionNotFound)), "stranger {n}: {answer:?}");
    }
    let all = log.runs(RunsQuery { limit: 100, ..RunsQuery::default() }, None).await.expect("the log answers");
    assert_eq!(all.items.len(), 2);
    let sessions = log.sessions(None, None, None, 100, None).await.expect("the log answers");
    assert!(sessions.items.len() == 2 && sessions.items.iter().all(|session| session.runs == 1));
    // The key that came with the refused ones is free.
    let accepted = log.submit(with_key("k", "other", submission("nobodys", "y"))).await.expect("accepted");
    assert!(accepted.new);
}

pub(crate) async fn attachments_come_back_byte_for_byte(world: &dyn World) {
    let log = world.log();
    let every_byte: Vec<u8> = (0..=255).cycle().take(70_000).collect();
    let attachment = |name: &str, body: Vec<u8>| Attachment { name: name.into(), media_type: "image/png".into(), sha256: "ab".repeat(32), body };
    let attachments = vec![attachment("ü b.png", every_byte), attachment("a", b"\0".to_vec()), attachment("ü b.png", b"same name".to_vec())];
    let mut sent = Submission { attachments: attachments.clone(), ..submission("s", "look") };
    let told =
        |a: &Attachment| InputFile { name: a.name.clone(), media_type: a.media_type.clone(), size: a.body.len() as u64, sha256: a.sha256.clone() };
    sent.submitted.input.files = attachments.iter().map(told).collect();
    let run = log.submit(sent).await.expect("accepted").run_id;
    let without = accept(&log, "s", "none").await.run_id;
    assert_eq!(log.attachments(run).await.expect("the log answers"), attachments);
    assert_eq!(log.attachments(without).await.expect("the log answers"), []);
}

pub(crate) async fn a_submission_without_a_session_makes_one(world: &dyn World) {
    let log = world.log();
    let sent = Submission { session_id: None, ..submission("", "x") };
    let one = log.submit(sent.clone()).await.expect("accepted");
    let two = log.submit(sent).await.expect("accepted");
    assert_ne!(one.session_id, two.session_id);
    for accepted in [one, two] {
        assert_eq!(accepted.session_id, accepted.session.to_string(), "named as it is inside, so that it can be rung for");
        assert_eq!(row(&log, accepted.run_id).await.session_id, accepted.session_id);
        assert!(log.session(&accepted.session_id, None).await.expect("the log answers").is_some());
    }
}
