use adapters::Notice;

use crate::kit::*;
use crate::world::{World, eventually};

pub(crate) async fn a_held_session_is_not_claimed(world: &dyn World) {
    let log = world.log();
    accept(&log, "s", "1").await;
    accept(&log, "s", "2").await;
    let mut turn = claim(&log, "a").await;
    assert!(try_claim(&log, "a", LONG).await.is_none());
    turn.begin().await;
    assert!(try_claim(&log, "a", LONG).await.is_none());
    assert!(try_claim(&log, "b", LONG).await.is_none());
}

pub(crate) async fn a_lease_that_ran_out_is_claimed_by_another(world: &dyn World) {
    let log = world.log();
    let run = accept(&log, "s", "x").await.run_id;
    let first = try_claim(&log, "a", 150).await.expect("a claim");
    let claimed_at = last_at(&log, run).await;
    let second = eventually(world, "the lease runs out", async || try_claim(&log, "b", LONG).await).await;
    assert_eq!(second.run_id, run);
    assert!(second.epoch > first.epoch && second.claim != first.claim);
    assert!(last_at(&log, run).await + 2 >= claimed_at + 150, "claimed while it was held");
}

pub(crate) async fn a_renewed_lease_is_not_claimed(world: &dyn World) {
    let log = world.log();
    let run = accept(&log, "s", "x").await.run_id;
    let turn = Turn::of(&log, try_claim(&log, "a", 1_000).await.expect("a claim")).await;
    let claimed_at = last_at(&log, run).await;
    assert_eq!(turn.heartbeat(1_400).await.len(), 1);
    eventually(world, "the renewed lease runs out", async || try_claim(&log, "b", LONG).await).await;
    assert!(last_at(&log, run).await + 2 >= claimed_at + 1_400, "claimed while it was held");
}

pub(crate) async fn a_claim_fences_the_one_before_it(world: &dyn World) {
    let log = world.log();
    let run = accept(&log, "s", "x").await.run_id;
    let mut first = Turn::of(&log, try_claim(&log, "a", 0).await.expect("a claim")).await;
    first.begin().await;
    let mut second = Turn::of(&log, try_claim(&log, "a", LONG).await.expect("a lease of nothing is over")).await;
    let before = events(&log, run).await;
    assert!(is_taken(first.print(&["stale\n"]).await));
    assert!(is_taken(first.fail_attempt(0).await));
    assert!(is_taken(first.complete("stale").await));
    assert!(is_taken(first.hand_over().await));
    assert_eq!(first.heartbeat(LONG).await, []);
    assert_eq!(events(&log, run).await, before);
    assert!(second.run.is_held_by(second.claim.claim) && !second.run.is_held_by(first.claim.claim));
    assert!(try_claim(&log, "a", LONG).await.is_none(), "what the fenced one tried freed nothing");
    second.complete("c").await.expect("finished");
}

pub(crate) async fn a_heartbeat_answers_only_for_what_is_held(world: &dyn World) {
    let log = world.log();
    for session in ["s", "t", "u", "v"] {
        accept(&log, session, "x").await;
    }
    let mut turns = Vec::new();
    for _ in 0..4 {
        turns.push(claim(&log, "a").await);
    }
    turns[1].hand_over().await.expect("handed over");
    turns[2].begin().await;
    turns[2].complete("c").await.expect("finished");
    let mut holdings: Vec<_> = turns.iter().map(Turn::holding).collect();
    // A claim of another session is not held in this one.
    holdings.push(adapters::Holding { session: turns[0].claim.session, claim: turns[3].claim.claim });
    let mut held: Vec<_> = log.heartbeat(&holdings, &[seen("a")], LONG).await.expect("the log answers").iter().map(|notice| notice.claim).collect();
    let mut expected = [turns[0].claim.claim, turns[3].claim.claim];
    held.sort();
    expected.sort();
    assert_eq!(held, expected);
    assert_eq!(log.heartbeat(&[], &[], LONG).await.expect("the log answers"), []);
}

pub(crate) async fn a_heartbeat_tells_of_a_cancel(world: &dyn World) {
    let log = world.log();
    let run = accept(&log, "s", "1").await.run_id;
    let behind = accept(&log, "s", "2").await.run_id;
    let mut turn = claim(&log, "a").await;
    turn.begin().await;
    let notice = |cancel_requested| [Notice { claim: turn.claim.claim, cancel_requested }];
    log.cancel("echo", behind, None).await.expect("the log answers");
    assert_eq!(turn.heartbeat(LONG).await, notice(false), "that wish was for another run");
    log.cancel("echo", run, None).await.expect("the log answers");
    assert_eq!(turn.heartbeat(LONG).await, notice(true));
}

pub(crate) async fn a_hand_over_frees_at_once(world: &dyn World) {
    let log = world.log();
    let run = accept(&log, "s", "x").await.run_id;
    let mut turn = claim(&log, "a").await;
    turn.begin().await;
    turn.hand_over().await.expect("handed over");
    assert_eq!(kinds(&log, run).await.last(), Some(&"handed_over"));
    let next = claim(&log, "a").await;
    assert_eq!((next.claim.run_id, next.run.attempt, next.claim.idle_claims), (run, 1, 0));
    assert!(next.claim.epoch > turn.claim.epoch);
}

pub(crate) async fn claims_that_did_nothing_are_counted(world: &dyn World) {
    let log = world.log();
    let idle = async || try_claim(&log, "a", 0).await.expect("a claim");
    accept(&log, "s", "x").await;
    for before in 0..3 {
        assert_eq!(idle().await.idle_claims, before);
    }
    // An append ends the count.
    let mut turn = Turn::of(&log, idle().await).await;
    assert_eq!(turn.claim.idle_claims, 3);
    turn.begin().await;
    assert_eq!((idle().await.idle_claims, idle().await.idle_claims), (0, 1));
    // So does a renewal.
    let turn = Turn::of(&log, try_claim(&log, "a", LONG).await.expect("a claim")).await;
    assert_eq!((turn.claim.idle_claims, turn.heartbeat(0).await.len()), (2, 1));
    assert_eq!((idle().await.idle_claims, idle().await.idle_claims), (0, 1));
}
