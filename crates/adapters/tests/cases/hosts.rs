use adapters::ClaimRequest;
use runs::Event;

use crate::kit::*;
use crate::world::{World, eventually};

pub(crate) async fn a_sandbox_is_claimed_on_its_own_host_only(world: &dyn World) {
    let log = world.log();
    let run = accept(&log, "s", "x").await.run_id;
    log.heartbeat(&[], &[seen("a"), seen("b")], LONG).await.expect("the log answers");
    let mut turn = claim(&log, "a").await;
    turn.request().await.expect("requested");
    turn.hand_over().await.expect("handed over");
    assert!(try_claim(&log, "b", LONG).await.is_none(), "its host may come back");
    let hosts = ["b", "a"].map(|host| ("namespace".to_owned(), host.to_owned())).to_vec();
    let both = ClaimRequest { hosts, ..request("b", LONG) };
    let claimed = log.claim(&both).await.expect("the log answers").expect("a claim");
    assert_eq!((claimed.run_id, claimed.host.as_str()), (run, "a"), "a worker that reaches both drives it where it is");
}

pub(crate) async fn a_dead_host_gives_up_its_sandboxes(world: &dyn World) {
    let log = world.log();
    let run = accept(&log, "s", "x").await.run_id;
    let mut turn = Turn::of(&log, try_claim(&log, "a", 100).await.expect("a claim")).await;
    turn.begin().await;
    let alive = last_at(&log, run).await;
    log.heartbeat(&[], &[seen("a")], 100).await.expect("the log answers");
    let impatient = ClaimRequest { dead_man_ms: 300, ..request("b", 100) };
    let claimed = eventually(world, "the host is given up", async || log.claim(&impatient).await.expect("the log answers")).await;
    assert_eq!((claimed.run_id, claimed.host.as_str()), (run, "b"));
    let last = events(&log, run).await.pop().expect("an event");
    assert!(last.at + 2 >= alive + 400, "given up {} ms after it was seen", last.at - alive);
    assert!(matches!(last.event, Event::Claimed(claimed) if claimed.host == "b"));
}

pub(crate) async fn a_failed_attempt_is_free_of_its_host(world: &dyn World) {
    let log = world.log();
    let run = accept(&log, "s", "x").await.run_id;
    log.heartbeat(&[], &[seen("a"), seen("b")], LONG).await.expect("the log answers");
    let mut turn = claim(&log, "a").await;
    turn.begin().await;
    turn.fail_attempt(0).await.expect("failed");
    turn.hand_over().await.expect("handed over");
    let mut turn = claim(&log, "b").await;
    assert_eq!((turn.claim.run_id, turn.run.attempt), (run, 1));
    turn.begin().await;
    assert_eq!(row(&log, run).await.attempt, 2);
}

pub(crate) async fn a_run_says_which_host_it_waits_for(world: &dyn World) {
    let log = world.log();
    let run = accept(&log, "s", "1").await.run_id;
    let behind = accept(&log, "s", "2").await.run_id;
    log.heartbeat(&[], &[seen("a")], LONG).await.expect("the log answers");
    let mut turn = claim(&log, "a").await;
    assert_eq!(row(&log, run).await.waiting_for, None);
    turn.begin().await;
    assert_eq!(row(&log, run).await.waiting_for, None, "it is held");
    turn.hand_over().await.expect("handed over");
    let waiting = eventually(world, "the run says so", async || row(&log, run).await.waiting_for).await;
    assert_eq!(waiting.host, "a");
    assert_eq!(row(&log, behind).await.waiting_for, None, "it waits for the run before it");
    let mut turn = claim(&log, "a").await;
    assert_eq!(row(&log, run).await.waiting_for, None);
    turn.complete("c").await.expect("finished");
    assert_eq!((row(&log, run).await.waiting_for, row(&log, behind).await.waiting_for), (None, None));
}
