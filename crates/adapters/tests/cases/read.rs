use adapters::{RunsQuery, Unended};
use runs::{Recorded, frame};

use crate::kit::*;
use crate::world::{World, eventually};

/// The indexes of the frames, as a viewer counts them.
fn indexes(events: &[Recorded]) -> Vec<u32> {
    events.iter().flat_map(|recorded| frame::indexed(recorded).map(|(index, _)| index).collect::<Vec<_>>()).collect()
}

pub(crate) async fn frames_come_as_whole_events_from_an_index(world: &dyn World) {
    let log = world.log();
    let run = accept(&log, "s", "x").await.run_id;
    let mut turn = claim(&log, "a").await;
    turn.begin().await;
    turn.print(&["1", "2", "3"]).await.expect("appended");
    turn.print(&[]).await.expect("a batch of nothing commits an offset");
    turn.print(&["4"]).await.expect("appended");
    turn.complete("c").await.expect("finished");
    let all = events(&log, run).await;
    let with_frames: Vec<_> = all.iter().filter(|recorded| frame::count(&recorded.event) > 0).cloned().collect();
    // RunStarted, four lines, RunCompleted.
    assert_eq!(indexes(&with_frames), [0, 1, 2, 3, 4, 5]);
    for index in 0..8 {
        let expected: Vec<_> = with_frames.iter().filter(|recorded| recorded.next_index() > index).cloned().collect();
        assert_eq!(log.frames(run, index, 100).await.expect("the log answers"), expected, "from {index}");
        let some = log.frames(run, index, 2).await.expect("the log answers");
        assert_eq!(some, expected[..expected.len().min(2)], "two from {index}");
    }
}

pub(crate) async fn a_tail_gives_each_runs_events_from_its_index(world: &dyn World) {
    let log = world.log();
    let mut runs = Vec::new();
    for session in ["s", "t", "u"] {
        runs.push(accept(&log, session, "x").await.run_id);
        let mut turn = claim(&log, "a").await;
        turn.begin().await;
        turn.print(&["1", "2"]).await.expect("appended");
        turn.print(&["3"]).await.expect("appended");
    }
    // Nobody watches the second; the fourth is not there.
    let from = [(runs[0], 2), (runs[2], 3), (uuid::Uuid::now_v7(), 0)];
    let found = log.tail(&from, 100).await.expect("the log answers");
    for (run, index) in from {
        let of_run: Vec<_> = found.iter().filter(|(id, _)| *id == run).map(|(_, recorded)| recorded.clone()).collect();
        assert_eq!(of_run, log.frames(run, index, 100).await.expect("the log answers"));
    }
    assert_eq!(found.len(), 3);
    assert_eq!(log.tail(&from, 2).await.expect("the log answers").len(), 2);
    assert_eq!(log.tail(&[], 10).await.expect("the log answers"), []);
    assert_eq!(log.tail(&[(runs[0], 4)], 10).await.expect("the log answers"), [], "nothing new yet");
}

pub(crate) async fn a_run_behind_another_says_so(world: &dyn World) {
    let log = world.log();
    let first = accept(&log, "s", "1").await.run_id;
    let second = accept(&log, "s", "2").await.run_id;
    let alone = accept(&log, "t", "x").await.run_id;
    assert_eq!(row(&log, first).await.waiting_on, None);
    assert_eq!(row(&log, second).await.waiting_on, Some(first));
    assert_eq!(row(&log, alone).await.waiting_on, None);
    let listed = log.runs(RunsQuery { session_id: Some("s"), limit: 10, ..RunsQuery::default() }, None).await.expect("the log answers");
    assert_eq!(listed.items, [row(&log, second).await, row(&log, first).await], "a list shows a run as it is shown alone");
    let mut turn = claim(&log, "a").await;
    assert_eq!(row(&log, second).await.waiting_on, Some(first));
    turn.begin().await;
    turn.complete("c").await.expect("finished");
    assert_eq!(row(&log, second).await.waiting_on, None);
}

pub(crate) async fn another_users_things_do_not_exist(world: &dyn World) {
    let log = world.log();
    let anns = log.submit(of_user("ann", submission("s", "x"))).await.expect("accepted").run_id;
    let nobodys = log.submit(submission("t", "x")).await.expect("accepted").run_id;
    for (scope, sees_anns, sees_nobodys) in
        [(None, true, true), (Some(Some("ann")), true, false), (Some(Some("bob")), false, false), (Some(None), false, true)]
    {
        for (run, session, sees) in [(anns, "s", sees_anns), (nobodys, "t", sees_nobodys)] {
            assert_eq!(log.run("echo", run, scope).await.expect("the log answers").is_some(), sees, "{scope:?} {session}");
            assert_eq!(log.session(session, scope).await.expect("the log answers").is_some(), sees, "{scope:?} {session}");
            let query = RunsQuery { session_id: Some(session), limit: 10, ..RunsQuery::default() };
            assert_eq!(log.runs(query, scope).await.expect("the log answers").items.len(), usize::from(sees), "{scope:?} {session}");
        }
    }
    assert!(log.run("other", anns, None).await.expect("the log answers").is_none(), "a run is of its agent");
}

pub(crate) async fn ended_runs_are_told_from_others(world: &dyn World) {
    let log = world.log();
    let done = accept(&log, "s", "1").await.run_id;
    let waiting = accept(&log, "s", "2").await.run_id;
    let cancelled = accept(&log, "s", "3").await.run_id;
    let mut turn = claim(&log, "a").await;
    turn.begin().await;
    assert_eq!(log.ended(&[done, waiting, cancelled]).await.expect("the log answers").len(), 0);
    turn.complete("c").await.expect("finished");
    log.cancel("echo", cancelled, None).await.expect("the log answers");
    let unknown = uuid::Uuid::now_v7();
    let mut ended = log.ended(&[done, waiting, cancelled, unknown]).await.expect("the log answers");
    ended.sort();
    let mut expected = [done, cancelled, unknown];
    expected.sort();
    assert_eq!(ended, expected);
    log.upkeep().await.expect("upkeep touches no run");
    assert_eq!(row(&log, waiting).await.submitted.input.message, "2");
}

pub(crate) async fn a_healthy_log_says_its_schema(world: &dyn World) {
    assert!(world.log().health().await.expect("the log answers").schema >= 1);
}

pub(crate) async fn runs_that_have_not_ended_are_counted(world: &dyn World) {
    let log = world.log();
    assert_eq!(log.unended().await.expect("the log answers"), Unended::default());
    for session in ["s", "s", "t"] {
        accept(&log, session, "x").await;
    }
    let mut turn = claim(&log, "a").await;
    turn.begin().await;
    let Unended { pending: 2, running: 1, oldest_ms: first } = log.unended().await.expect("the log answers") else { panic!("other counts") };
    turn.complete("c").await.expect("finished");
    eventually(world, "who waits longest waits longer", async || {
        let Unended { pending: 2, running: 0, oldest_ms } = log.unended().await.expect("the log answers") else { panic!("other counts") };
        (oldest_ms > first && oldest_ms < 3_600_000).then_some(())
    })
    .await;
}
