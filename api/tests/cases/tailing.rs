//! What viewers see is the log, whole and in order, whatever happens while they look; and what that costs.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use adapters::{Advance, Signal, Signals};
use api::Options;
use futures_util::future::join_all;
use proptest::prelude::*;
use runs::{Event, Frame, Recorded};
use serde_json::json;
use uuid::Uuid;

use crate::kit::wire::Wire;
use crate::kit::{Seen, Stage, Worker, eventually, form};

/// What a viewer got from `from` on is what the log has there.
async fn is_the_log(stage: &Stage, run: Uuid, from: u32, got: &[Seen]) {
    let log = stage.log(run).await;
    let got: Vec<_> = got.iter().map(|seen| (seen.id.unwrap(), serde_json::from_value::<Frame>(seen.data.clone()).unwrap())).collect();
    let expected: Vec<_> = (from..).zip(log.into_iter().skip(from as usize)).collect();
    assert_eq!(got, expected);
}

async fn view(stage: Stage, run: Uuid, from: u32) {
    let got = stage.resume(run, from.checked_sub(1)).await.frames().await;
    is_the_log(&stage, run, from, &got).await;
}

#[derive(Clone, Debug)]
enum Act {
    Say(Vec<String>),
    Signal,
    /// The event so many before the newest: new, or stale.
    Tell(usize),
    /// A wrong index, or an event that is not where it says.
    Lie(u32),
    /// Hints begin or cease to come.
    Weather(bool),
    Join(u32),
    Pause,
}

fn acts() -> impl Strategy<Value = Vec<Act>> {
    let act = prop_oneof![
        3 => prop::collection::vec("[a-z\n]{0,40}", 1..4).prop_map(Act::Say),
        1 => Just(Act::Signal),
        3 => prop_oneof![3 => Just(0usize), 1 => 0usize..9].prop_map(Act::Tell),
        1 => (0u32..40).prop_map(Act::Lie),
        1 => any::<bool>().prop_map(Act::Weather),
        2 => (0u32..12).prop_map(Act::Join),
        1 => Just(Act::Pause),
    ];
    prop::collection::vec(act, 1..25)
}

/// Of a run that is watched, an end and a place that the log does not have.
fn lie(run: Uuid, next: u32) -> [Signal; 2] {
    let end = Recorded { seq: next, first_index: next, at: 0, event: Event::Cancelled { reason: "a lie".into() } };
    [Signal::Advanced(Advance { run_id: run, next: Some(next + 1), event: Some(Arc::new(end)) }), Signal::up_to(run, next)]
}

async fn play(stage: &Stage, wire: &Wire, acts: Vec<Act>) {
    let run = stage.accepted(&[("message", "x")]).await;
    let mut viewers = vec![tokio::spawn(view(stage.clone(), run, 0))];
    let mut worker = stage.worker().await;
    worker.start().await;
    for act in acts {
        match act {
            Act::Say(texts) => worker.say(&texts.iter().map(String::as_str).collect::<Vec<_>>()).await,
            Act::Signal => worker.signal(),
            Act::Tell(back) => worker.tell(back),
            Act::Lie(next) => lie(run, next).into_iter().for_each(|signal| wire.send(signal)),
            Act::Weather(up) => wire.set(up),
            Act::Join(from) => viewers.push(tokio::spawn(view(stage.clone(), run, from.min(worker.index)))),
            Act::Pause => tokio::time::sleep(Duration::from_millis(3)).await,
        }
        tokio::task::yield_now().await;
    }
    worker.complete("done").await;
    let length = u32::try_from(stage.log(run).await.len()).unwrap();
    // And once more from every cut, now that all of it is stored.
    viewers.extend((0..=length).map(|from| tokio::spawn(view(stage.clone(), run, from))));
    join_all(viewers).await.into_iter().for_each(|viewer| viewer.unwrap());
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    #[test]
    fn replay_and_live_equal_the_log_at_every_cut(acts in acts(), ring_bytes in prop_oneof![Just(0usize), Just(300), Just(2000), Just(1 << 20)]) {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
        runtime.block_on(async {
            let wire = Arc::new(Wire::new(false, false));
            let options = Options { ring_bytes, tick: Duration::from_millis(2), floor: Duration::from_millis(20), ..Options::default() };
            play(&Stage::signalling(options, wire.clone()), &wire, acts).await;
        });
    }
}

async fn started(stage: &Stage) -> Worker {
    stage.accepted(&[("message", "x")]).await;
    let mut worker = stage.worker().await;
    worker.start().await;
    worker
}

#[tokio::test]
async fn viewers_of_many_runs_share_one_query_a_tick() {
    let stage = Stage::with(Options { tick: Duration::from_millis(50), ..Options::default() });
    let mut viewers = Vec::new();
    let mut workers = Vec::new();
    for _ in 0..5 {
        let worker = started(&stage).await;
        for _ in 0..20 {
            let mut open = stage.resume(worker.run_id, None).await;
            while open.next().await.unwrap().event != "subscribed" {}
            viewers.push(open);
        }
        workers.push(worker);
    }
    let (before, pages, since) = (stage.reader.tails.load(Ordering::SeqCst), stage.reader.pages.load(Ordering::SeqCst), Instant::now());
    // They are read as one, so that each would notice a frame.
    let reading = join_all(viewers.iter_mut().map(|open| async { open.next().await.unwrap() }));
    let writing = async {
        tokio::time::sleep(Duration::from_millis(500)).await;
        for worker in &mut workers {
            worker.say(&["now"]).await;
        }
    };
    let (seen, ()) = tokio::join!(reading, writing);
    assert!(seen.iter().all(|seen| seen.event == "RunContent"));
    let ticks = usize::try_from(since.elapsed().as_millis() / 50).unwrap();
    let queries = stage.reader.tails.load(Ordering::SeqCst) - before;
    assert!((2..=ticks + 2).contains(&queries), "{queries} queries in {ticks} ticks");
    assert_eq!(stage.reader.pages.load(Ordering::SeqCst), pages, "live frames come from the ring");
}

#[tokio::test]
async fn nothing_is_asked_while_nobody_looks() {
    let stage = Stage::with(Options { tick: Duration::from_millis(5), ..Options::default() });
    let mut worker = started(&stage).await;
    let open = stage.resume(worker.run_id, None).await;
    eventually(|| async { stage.reader.tails.load(Ordering::SeqCst) == 0 }).await;
    let mut open = open;
    while open.next().await.unwrap().event != "subscribed" {}
    eventually(|| async { stage.reader.tails.load(Ordering::SeqCst) > 2 }).await;
    drop(open);
    let calls = || stage.reader.tails.load(Ordering::SeqCst);
    let mut last = calls();
    eventually(|| {
        let quiet = calls() == last;
        last = calls();
        async move {
            tokio::time::sleep(Duration::from_millis(100)).await;
            quiet
        }
    })
    .await;
    let before = calls();
    worker.say(&["unseen"]).await;
    worker.signal();
    tokio::time::sleep(Duration::from_millis(60)).await;
    assert_eq!(calls(), before);
}

#[tokio::test]
async fn a_signal_wakes_the_tail_at_once() {
    let stage = Stage::with(Options { tick: Duration::from_secs(3600), ..Options::default() });
    let mut worker = started(&stage).await;
    let mut open = stage.resume(worker.run_id, None).await;
    while open.next().await.unwrap().event != "subscribed" {}
    worker.say(&["hello"]).await;
    worker.signal();
    assert_eq!(open.next().await.unwrap().data["content"], "hello");
}

#[tokio::test]
async fn a_viewer_that_does_not_read_holds_nothing() {
    let stage = Stage::with(Options { tick: Duration::from_millis(2), ..Options::default() });
    let mut worker = started(&stage).await;
    let mut slow = stage.resume(worker.run_id, None).await;
    while slow.next().await.unwrap().event != "subscribed" {}
    let pages = stage.reader.pages.load(Ordering::SeqCst);
    let mut fast = stage.resume(worker.run_id, None).await;
    let line = "x".repeat(100 * 1024);
    for _ in 0..50 {
        worker.say(&[&line]).await;
        while fast.next().await.unwrap().data["content"] != line.as_str() {}
    }
    // 5 MB went by; the slow one has asked for none of it.
    let of_fast = stage.reader.pages.load(Ordering::SeqCst) - pages;
    assert!(of_fast < 10, "{of_fast}");
    let run = worker.run_id;
    worker.complete("done").await;
    let got = slow.frames().await;
    assert_eq!(got.first().unwrap().id, Some(1));
    is_the_log(&stage, run, 1, &got).await;
}

#[tokio::test]
async fn streams_outlive_an_outage_of_the_log_and_a_panic_under_the_tail() {
    let stage = Stage::with(Options { tick: Duration::from_millis(5), keepalive: Duration::from_millis(20), ..Options::default() });
    for flag in [&stage.reader.down, &stage.reader.panics] {
        let mut worker = started(&stage).await;
        let run = worker.run_id;
        let mut open = stage.resume(run, None).await;
        while open.next().await.unwrap().event != "subscribed" {}
        let before = stage.reader.tails.load(Ordering::SeqCst);
        flag.store(true, Ordering::SeqCst);
        eventually(|| async { stage.reader.tails.load(Ordering::SeqCst) > before }).await;
        worker.say(&["meanwhile"]).await;
        assert_eq!(open.next().await.unwrap().event, ": keepalive");
        flag.store(false, Ordering::SeqCst);
        worker.complete("done").await;
        let got = open.frames().await;
        is_the_log(&stage, run, 1, &got).await;
    }
}

#[tokio::test]
async fn a_viewer_that_claims_to_have_seen_more_than_there_is_gets_what_comes_after_that() {
    let stage = Stage::with(Options { tick: Duration::from_millis(2), ..Options::default() });
    let mut worker = started(&stage).await;
    let run = worker.run_id;
    let (mut ahead, mut beyond) = (stage.resume(run, Some(2)).await, stage.resume(run, Some(u32::MAX)).await);
    for open in [&mut ahead, &mut beyond] {
        assert_eq!(open.next().await.unwrap().event, "subscribed");
    }
    // Beside them, others see all of it.
    let mut honest = stage.resume(run, Some(0)).await;
    assert_eq!(honest.next().await.unwrap().event, "subscribed");
    let honest = tokio::spawn(async move { honest.frames().await });
    tokio::task::yield_now().await;
    worker.say(&["a", "b"]).await;
    worker.say(&["c"]).await;
    worker.complete("done").await;
    let got = ahead.frames().await;
    is_the_log(&stage, run, 3, &got).await;
    assert!(beyond.frames().await.is_empty());
    let got = honest.await.unwrap();
    is_the_log(&stage, run, 1, &got).await;
}

#[tokio::test]
async fn a_run_that_ends_while_a_viewer_joins_ends_the_stream() {
    let stage = Stage::with(Options { tick: Duration::from_millis(2), ..Options::default() });
    // One that has seen all but the end, and one that claims to have seen that too.
    for (last, count) in [(0, 1), (1, 0)] {
        let worker = started(&stage).await;
        let run = worker.run_id;
        *stage.reader.ends.lock().unwrap() = Some(worker);
        assert_eq!(stage.resume(run, Some(last)).await.frames().await.len(), count);
    }
}

#[tokio::test]
async fn without_signals_the_tick_is_enough() {
    let options = Options { tick: Duration::from_millis(40), floor: Duration::from_secs(3600), ..Options::default() };
    let stage = Stage::signalling(options, Arc::new(Wire::new(false, true)));
    let mut worker = started(&stage).await;
    let mut open = stage.resume(worker.run_id, None).await;
    while open.next().await.unwrap().event != "subscribed" {}
    let since = Instant::now();
    let before = stage.reader.tails.load(Ordering::SeqCst);
    for line in ["a", "b", "c"] {
        worker.say(&[line]).await;
        assert_eq!(open.next().await.unwrap().data["content"], line);
    }
    let ticks = usize::try_from(since.elapsed().as_millis() / 40).unwrap();
    let queries = stage.reader.tails.load(Ordering::SeqCst) - before;
    assert!(queries <= ticks + 2, "{queries} queries in {ticks} ticks");
}

#[tokio::test]
async fn while_hints_bring_frames_the_log_is_not_asked_for_them() {
    let options = Options { tick: Duration::from_millis(5), floor: Duration::from_secs(3600), ..Options::default() };
    let stage = Stage::signalling(options, Arc::new(Wire::new(true, false)));
    let mut worker = started(&stage).await;
    let mut viewers = Vec::new();
    for _ in 0..20 {
        let mut open = stage.resume(worker.run_id, None).await;
        while open.next().await.unwrap().event != "subscribed" {}
        viewers.push(open);
    }
    // A run that is new here is asked for once, for what was said before.
    eventually(|| async { stage.reader.tails.load(Ordering::SeqCst) > 0 }).await;
    let asked = || stage.reader.tails.load(Ordering::SeqCst) + stage.reader.pages.load(Ordering::SeqCst);
    let before = asked();
    for line in ["a", "b", "c"] {
        worker.say(&[line, line]).await;
        worker.tell(0);
        worker.tell(0);
        worker.tell(1);
        for seen in join_all(viewers.iter_mut().map(async |open| (open.next().await.unwrap(), open.next().await.unwrap()))).await {
            assert_eq!((&seen.0.data["content"], &seen.1.data["content"]), (&json!(line), &json!(line)));
        }
    }
    assert_eq!(asked(), before);
    // A hint got lost: the next one shows it.
    worker.say(&["d"]).await;
    worker.say(&["e"]).await;
    worker.tell(0);
    for seen in join_all(viewers.iter_mut().map(async |open| (open.next().await.unwrap(), open.next().await.unwrap()))).await {
        assert_eq!((&seen.0.data["content"], &seen.1.data["content"]), (&json!("d"), &json!("e")));
    }
    assert_eq!(asked(), before + 1);
    let told = stage.get("/metrics").await.text;
    for line in [
        "sandlog_hints_total{use=\"hit\"} 3",
        "sandlog_hints_total{use=\"miss\"} 1",
        "sandlog_runs{status=\"RUNNING\"} 1",
        "sandlog_runs_accepted_total 1",
    ] {
        assert!(told.lines().any(|one| one == line), "{line} is not in\n{told}");
    }
}

#[tokio::test]
async fn more_signals_than_can_be_heard_are_a_reason_to_look() {
    let options = Options { tick: Duration::from_millis(5), floor: Duration::from_secs(3600), ..Options::default() };
    let wire = Arc::new(Wire::new(true, false));
    let stage = Stage::signalling(options, wire.clone());
    let mut worker = started(&stage).await;
    let mut open = stage.resume(worker.run_id, None).await;
    while open.next().await.unwrap().event != "subscribed" {}
    eventually(|| async { stage.reader.tails.load(Ordering::SeqCst) > 0 }).await;
    worker.say(&["said"]).await;
    // All at once, so that nobody hears some before others: what was said of the run may have been among them.
    (0..10_000).for_each(|_| wire.send(Signal::Work));
    assert_eq!(open.next().await.unwrap().data["content"], "said");
}

#[tokio::test]
async fn when_hints_cease_to_come_the_log_is_asked_by_the_tick_again() {
    let options = Options { tick: Duration::from_millis(5), floor: Duration::from_secs(3600), ..Options::default() };
    let wire = Arc::new(Wire::new(true, true));
    let stage = Stage::signalling(options, wire.clone());
    let mut worker = started(&stage).await;
    let mut open = stage.resume(worker.run_id, None).await;
    while open.next().await.unwrap().event != "subscribed" {}
    for line in ["lost", "lost too"] {
        worker.say(&[line]).await;
        worker.tell(0);
        wire.set(false);
        assert_eq!(open.next().await.unwrap().data["content"], line);
    }
    // And once when they come again, for what was said meanwhile.
    let quiet = || async {
        let before = stage.reader.tails.load(Ordering::SeqCst);
        tokio::time::sleep(Duration::from_millis(100)).await;
        stage.reader.tails.load(Ordering::SeqCst) == before
    };
    assert!(!quiet().await);
    wire.set(true);
    eventually(quiet).await;
}

#[tokio::test]
async fn an_end_that_only_a_hint_tells_of_ends_nothing() {
    let stage = Stage::with(Options { tick: Duration::from_millis(5), ..Options::default() });
    let mut worker = started(&stage).await;
    let mut open = stage.resume(worker.run_id, None).await;
    while open.next().await.unwrap().event != "subscribed" {}
    lie(worker.run_id, worker.index).into_iter().for_each(|signal| stage.signals.send(signal));
    worker.say(&["goes on"]).await;
    assert_eq!(open.next().await.unwrap().data["content"], "goes on");
}

#[tokio::test]
async fn frames_that_are_no_longer_kept_are_told_of() {
    let stage = Stage::with(Options { tick: Duration::from_millis(2), ..Options::default() });
    let mut worker = started(&stage).await;
    let run = worker.run_id;
    for _ in 0..9 {
        worker.say(&["line"]).await;
    }
    worker.complete("done").await;
    stage.reader.kept_from.store(4, Ordering::SeqCst);
    let mut open = stage.resume(run, Some(0)).await;
    assert_eq!(open.next().await.unwrap().event, "replay");
    let gap = open.next().await.unwrap();
    let expected = json!({ "event": "gap", "run_id": run, "from": 1, "to": 3, "reason": "no longer kept" });
    assert_eq!((gap.id, gap.event.as_str(), gap.data), (None, "gap", expected));
    let got = open.frames().await;
    is_the_log(&stage, run, 4, &got).await;
}

#[tokio::test]
async fn a_stream_of_a_session_that_is_erased_ends() {
    let stage = Stage::with(Options { tick: Duration::from_millis(2), ..Options::default() });
    stage.accepted(&[("message", "x"), ("session_id", "s")]).await;
    let mut worker = stage.worker().await;
    let run = worker.run_id;
    worker.start().await;
    // More than the first page has.
    for _ in 0..40 {
        worker.say(&["line"]).await;
    }
    let mut open = stage.resume(run, None).await;
    open.next().await.unwrap();
    worker.complete("done").await;
    assert_eq!(adapters::Intake::erase(&*stage.memory, "s", None).await.unwrap(), adapters::Erased::Gone);
    assert!(open.frames().await.len() < 42);
    assert_eq!(stage.ask(form(&format!("/agents/echo/runs/{run}/resume"), &[])).await.status.as_u16(), 404);
}

#[tokio::test]
async fn a_stream_of_a_session_that_is_erased_before_its_end_was_seen_ends_too() {
    // Nobody asks in time, as on an instance that hears no signals.
    let options = Options { tick: Duration::from_secs(3600), silence: Duration::from_millis(50), ..Options::default() };
    let stage = Stage::with(options);
    let run = stage.accepted(&[("message", "x"), ("session_id", "s")]).await;
    let mut viewer = stage.resume(run, None).await;
    assert_eq!(viewer.next().await.unwrap().event, "subscribed");
    stage.worker().await.complete_at_once().await;
    let erased = axum::http::Request::delete("/sessions/s").body(axum::body::Body::empty()).unwrap();
    assert_eq!(stage.ask(erased).await.status, axum::http::StatusCode::NO_CONTENT);
    let to_the_end = async { while viewer.next().await.is_some() {} };
    tokio::time::timeout(Duration::from_secs(10), to_the_end).await.unwrap();
}
