use adapters::{ClaimRequest, Ready};
use runs::agents::SandboxKind;
use runs::{Event, Status};

use crate::kit::*;
use crate::world::{World, eventually};

pub(crate) async fn an_empty_log_has_nothing_to_claim(world: &dyn World) {
    assert!(try_claim(&world.log(), "a", LONG).await.is_none());
}

pub(crate) async fn a_claim_names_the_first_run_and_is_in_its_log(world: &dyn World) {
    let log = world.log();
    let first = accept(&log, "s", "1").await.run_id;
    let second = accept(&log, "s", "2").await.run_id;
    let claimed = try_claim(&log, "a", LONG).await.expect("a claim");
    let session = log.session("s", None).await.expect("the log answers").expect("there").session;
    assert_eq!((claimed.run_id, claimed.session, claimed.session_id.as_str()), (first, session, "s"));
    assert_eq!((claimed.host.as_str(), &claimed.checkpoint, claimed.idle_claims), ("a", &None, 0));
    let Event::Claimed(logged) = events(&log, first).await.pop().expect("an event").event else { panic!("a claim is an event") };
    assert_eq!((logged.claim, logged.epoch, logged.host.as_str()), (claimed.claim, claimed.epoch, "a"));
    assert_eq!(logged.worker, "worker-at-a");
    let row = row(&log, first).await;
    assert!(row.status == Status::Running && row.started_at.is_some(), "running from the first claim on");
    assert_eq!(status(&log, second).await, Status::Pending);
}

pub(crate) async fn only_served_kinds_of_sandboxes_are_claimed(world: &dyn World) {
    let log = world.log();
    let mut docker = submission("d", "x");
    docker.submitted.agent.sandbox = SandboxKind::Docker;
    let docker = log.submit(docker).await.expect("accepted").run_id;
    assert!(try_claim(&log, "a", LONG).await.is_none());
    let none = ClaimRequest { hosts: Vec::new(), ..request("a", LONG) };
    assert!(log.claim(&none).await.expect("the log answers").is_none());
    let hosts = vec![("namespace".to_owned(), "a".to_owned()), ("docker".to_owned(), "engine".to_owned())];
    let both = ClaimRequest { hosts, ..request("a", LONG) };
    let claimed = log.claim(&both).await.expect("the log answers").expect("a claim");
    assert_eq!((claimed.run_id, claimed.host.as_str()), (docker, "engine"));
}

pub(crate) async fn a_claim_of_one_session_leaves_the_others(world: &dyn World) {
    let log = world.log();
    accept(&log, "s", "older").await;
    let wanted = accept(&log, "t", "x").await.run_id;
    let session = log.session("t", None).await.expect("the log answers").expect("there").session;
    let only = ClaimRequest { session: Some(session), ..request("a", LONG) };
    assert_eq!(log.claim(&only).await.expect("the log answers").map(|claim| claim.run_id), Some(wanted));
    assert!(log.claim(&only).await.expect("the log answers").is_none(), "held, and no other is taken instead");
}

pub(crate) async fn what_is_ready_is_what_a_claim_would_take(world: &dyn World) {
    let log = world.log();
    let accepted = accept(&log, "s", "x").await;
    let (here, elsewhere) = (request("a", LONG), request("b", LONG));
    let ready = async |request: &ClaimRequest| log.ready(request, None, 10).await.expect("the log answers");
    let time_limit_ms = agent("echo").limits.time;
    let waiting = Ready { session: accepted.session, run_id: accepted.run_id, time_limit_ms, running_ms: None };
    assert_eq!(ready(&here).await, [waiting], "looking takes nothing");
    assert_eq!(ready(&ClaimRequest { session: Some(accepted.session), ..here.clone() }).await, [waiting]);
    assert_eq!(ready(&ClaimRequest { session: Some(accepted.run_id), ..here.clone() }).await, [], "no such session");
    assert_eq!(ready(&ClaimRequest { hosts: Vec::new(), ..here.clone() }).await, [], "a worker that can make no sandbox");

    let mut turn = claim(&log, "a").await;
    assert_eq!(ready(&here).await, [], "held");
    turn.begin().await;
    turn.hand_over().await.expect("handed over");
    let going_on = ready(&here).await;
    assert!(matches!(going_on[..], [Ready { run_id, running_ms: Some(ms), .. }] if run_id == accepted.run_id && ms < LONG), "{going_on:?}");
    assert_eq!(ready(&elsewhere).await, [], "its sandbox is elsewhere");
}

pub(crate) async fn ready_sessions_come_in_pages_without_loss_or_repeat(world: &dyn World) {
    let log = world.log();
    let mut expected = Vec::new();
    for session in ["a", "b", "c", "d", "e"] {
        expected.push(accept(&log, session, "x").await.session);
        accept(&log, session, "y").await;
    }
    expected.sort();
    let (mut got, mut after) = (Vec::new(), None);
    loop {
        let page = log.ready(&request("a", LONG), after, 2).await.expect("the log answers");
        let Some(last) = page.last() else { break };
        after = Some(last.session);
        got.extend(page.iter().map(|one| one.session));
    }
    assert_eq!(got, expected);
}

pub(crate) async fn the_oldest_run_comes_first(world: &dyn World) {
    let log = world.log();
    let mut accepted = Vec::new();
    for session in ["c", "a", "d", "b"] {
        accepted.push(accept(&log, session, "x").await.run_id);
    }
    let mut claimed = Vec::new();
    while let Some(claim) = try_claim(&log, "a", LONG).await {
        claimed.push(claim.run_id);
    }
    assert_eq!(claimed, accepted);
}

pub(crate) async fn a_living_sandbox_comes_before_an_older_run(world: &dyn World) {
    let log = world.log();
    let waiting = accept(&log, "s", "older").await.run_id;
    let living = accept(&log, "t", "x").await.run_id;
    let session = log.session("t", None).await.expect("the log answers").expect("there").session;
    let only = ClaimRequest { session: Some(session), ..request("a", LONG) };
    let mut turn = Turn::of(&log, log.claim(&only).await.expect("the log answers").expect("a claim")).await;
    turn.begin().await;
    turn.hand_over().await.expect("handed over");
    assert_eq!(claim(&log, "a").await.claim.run_id, living);
    assert_eq!(claim(&log, "a").await.claim.run_id, waiting);
}

pub(crate) async fn a_run_before_its_retry_time_is_not_claimed(world: &dyn World) {
    let log = world.log();
    let run = accept(&log, "s", "x").await.run_id;
    let mut turn = claim(&log, "a").await;
    turn.begin().await;
    let retry_at = last_at(&log, run).await + 300;
    turn.fail_attempt(retry_at).await.expect("failed");
    turn.hand_over().await.expect("handed over");
    let again = eventually(world, "the retry", async || try_claim(&log, "a", LONG).await).await;
    assert_eq!(again.run_id, run);
    assert!(last_at(&log, run).await >= retry_at, "claimed before its time");
}
