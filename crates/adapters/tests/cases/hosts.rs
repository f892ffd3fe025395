use adapters::{ClaimRequest, HostSeen};
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

const MINUTE: i64 = 60_000;

pub(crate) async fn a_run_says_which_silent_host_it_waits_for(world: &dyn World) {
    let log = world.log();
    let run = accept(&log, "s", "1").await.run_id;
    let behind = accept(&log, "s", "2").await.run_id;
    log.heartbeat(&[], &[seen("a")], LONG).await.expect("the log answers");
    let mut turn = claim(&log, "a").await;
    turn.begin().await;
    turn.hand_over().await.expect("handed over");
    assert_eq!(row(&log, run).await.waiting_for, None, "its host is there");
    world.age(MINUTE).await;
    let waiting = row(&log, run).await.waiting_for.expect("its host is silent");
    assert_eq!(waiting.host, seen("a").label);
    assert!(waiting.since < row(&log, behind).await.created_at + MINUTE);
    assert_eq!(row(&log, behind).await.waiting_for, None, "it waits for the run before it");
    log.heartbeat(&[], &[seen("a")], LONG).await.expect("the log answers");
    assert_eq!(row(&log, run).await.waiting_for, None, "its host is back");
}

pub(crate) async fn a_run_that_no_host_can_serve_says_so(world: &dyn World) {
    let log = world.log();
    let first = accept(&log, "s", "1").await.run_id;
    let behind = accept(&log, "s", "2").await.run_id;
    assert_eq!(row(&log, first).await.waiting_for, None, "it has only come");
    world.age(MINUTE).await;
    let says = "any host with namespace sandboxes";
    assert_eq!(row(&log, first).await.waiting_for.map(|waiting| waiting.host).as_deref(), Some(says));
    assert_eq!(row(&log, behind).await.waiting_for, None, "it waits for the run before it");
    // Another kind of sandbox is no help; the right one is.
    let engine = HostSeen { host: "engine".into(), kind: "docker".into(), label: "engine".into() };
    log.heartbeat(&[], &[engine], LONG).await.expect("the log answers");
    assert_eq!(row(&log, first).await.waiting_for.map(|waiting| waiting.host).as_deref(), Some(says));
    log.heartbeat(&[], &[seen("a")], LONG).await.expect("the log answers");
    assert_eq!(row(&log, first).await.waiting_for, None);
    world.age(MINUTE).await;
    assert_eq!(row(&log, first).await.waiting_for.map(|waiting| waiting.host).as_deref(), Some(says), "that host went away");
}

pub(crate) async fn a_run_that_is_held_or_over_waits_for_nothing_however_old(world: &dyn World) {
    let log = world.log();
    let done = accept(&log, "s", "1").await.run_id;
    let held = accept(&log, "s", "2").await.run_id;
    let behind = accept(&log, "s", "3").await.run_id;
    let cancelled = accept(&log, "t", "x").await.run_id;
    log.cancel("echo", cancelled, None).await.expect("the log answers");
    let mut turn = claim(&log, "a").await;
    turn.begin().await;
    turn.complete("c").await.expect("finished");
    claim(&log, "a").await.begin().await;
    for _ in 0..2 {
        for run in [done, held, behind, cancelled] {
            assert_eq!(row(&log, run).await.waiting_for, None);
        }
        // Within its lease, and nobody is there to be seen.
        world.age(MINUTE).await;
    }
}
