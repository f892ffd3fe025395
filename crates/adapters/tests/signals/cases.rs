//! What holds for every carrier. One that carries nothing says so, and is spared what is about other processes.

use std::time::{Duration, Instant};

use adapters::{Signal, Signals};
use uuid::Uuid;

use super::{Carrier, advance_of, becomes, hears, said};

pub(super) async fn what_is_sent_is_heard_in_its_own_process_at_once(carrier: &dyn Carrier) {
    let (hub, run) = (carrier.hub().await, Uuid::now_v7());
    let mut heard = hub.subscribe();
    let large = "x".repeat(100_000);
    for signal in [Signal::committed(run, said(3, &[&large])), Signal::up_to(run, 9), Signal::look(run), Signal::Cancel(run), Signal::Work] {
        hub.send(signal.clone());
        assert_eq!(heard.try_recv().ok(), Some(signal));
    }
}

pub(super) async fn what_is_followed_is_heard_in_other_processes(carrier: &dyn Carrier) {
    let (here, there, run) = (carrier.hub().await, carrier.hub().await, Uuid::now_v7());
    becomes(&there, carrier.carries()).await;
    if !carrier.carries() {
        return;
    }
    let mut heard = there.subscribe();
    let _following = (there.follow_run(run, 0), there.follow_cancel(run), there.follow_work());
    // One after the other, for what comes in one go may be said in one.
    here.send(Signal::committed(run, said(0, &["a", "b"])));
    let first = hears(&mut heard, advance_of(run)).await;
    assert_eq!((first.next, first.event), (Some(2), carrier.brings_events().then(|| said(0, &["a", "b"]))));
    here.send(Signal::committed(run, said(2, &[&"x".repeat(100_000)])));
    let large = hears(&mut heard, advance_of(run)).await;
    assert_eq!((large.next, large.event), (Some(3), None), "too large to come along");
    here.send(Signal::up_to(run, 4));
    assert_eq!(hears(&mut heard, advance_of(run)).await.next, Some(4));
    here.send(Signal::Cancel(run));
    hears(&mut heard, |signal| (*signal == Signal::Cancel(run)).then_some(())).await;
    here.send(Signal::Work);
    hears(&mut heard, |signal| (*signal == Signal::Work).then_some(())).await;
    here.send(Signal::look(run));
    assert_eq!(hears(&mut heard, advance_of(run)).await.next, None);
}

/// A wish to cancel that was sent before the holder listened, and frames that were committed while a viewer came, may come; they are never a reason for
/// later ones not to.
pub(super) async fn what_was_said_shortly_before_is_not_believed_to_be_lost(carrier: &dyn Carrier) {
    if !carrier.carries() {
        return;
    }
    let (here, there, run) = (carrier.hub().await, carrier.hub().await, Uuid::now_v7());
    here.send(Signal::committed(run, said(0, &["a"])));
    here.send(Signal::committed(run, said(1, &["b"])));
    here.send(Signal::Cancel(run));
    here.settle(Duration::from_secs(5)).await;
    let mut heard = there.subscribe();
    let _following = (there.follow_run(run, 1), there.follow_cancel(run));
    here.send(Signal::committed(run, said(2, &["c"])));
    let last = hears(&mut heard, |signal| advance_of(run)(signal).filter(|advance| advance.next == Some(3))).await;
    assert_eq!(last.event.is_some(), carrier.brings_events());
    here.send(Signal::Cancel(run));
    hears(&mut heard, |signal| (*signal == Signal::Cancel(run)).then_some(())).await;
}

pub(super) async fn what_nobody_follows_is_not_heard_elsewhere(carrier: &dyn Carrier) {
    if !carrier.carries() {
        return;
    }
    let (here, there) = (carrier.hub().await, carrier.hub().await);
    let (followed, other, left) = (Uuid::now_v7(), Uuid::now_v7(), Uuid::now_v7());
    let mut heard = there.subscribe();
    drop(there.follow_run(left, 0));
    let _following = there.follow_run(followed, 0);
    for run in [other, left] {
        here.send(Signal::up_to(run, 1));
        here.send(Signal::Cancel(run));
    }
    here.send(Signal::Work);
    here.settle(Duration::from_secs(5)).await;
    here.send(Signal::up_to(followed, 1));
    let first = tokio::time::timeout(super::LIMIT, heard.recv()).await.expect("a signal").expect("a signal");
    assert_eq!(first, Signal::up_to(followed, 1));
}

pub(super) async fn another_deployment_hears_nothing(carrier: &dyn Carrier) {
    let (here, stranger, run) = (carrier.hub().await, carrier.stranger().await, Uuid::now_v7());
    let mut heard = stranger.subscribe();
    let _following = (stranger.follow_run(run, 0), stranger.follow_cancel(run), stranger.follow_work());
    for signal in [Signal::up_to(run, 1), Signal::Cancel(run), Signal::Work] {
        here.send(signal);
    }
    if carrier.carries() {
        // By the time that one of its own is here, those would be too.
        here.settle(Duration::from_secs(5)).await;
        let sibling = carrier.stranger().await;
        sibling.send(Signal::up_to(run, 77));
        let first = tokio::time::timeout(super::LIMIT, heard.recv()).await.expect("a signal").expect("a signal");
        assert_eq!(first, Signal::up_to(run, 77));
    }
    assert!(heard.try_recv().is_err());
}

pub(super) async fn a_burst_ends_with_what_was_said_last(carrier: &dyn Carrier) {
    let (here, there, run) = (carrier.hub().await, carrier.hub().await, Uuid::now_v7());
    let mut heard = there.subscribe();
    let _following = there.follow_run(run, 0);
    let since = Instant::now();
    for next in 1..=20_000 {
        here.send(Signal::up_to(run, next));
    }
    assert!(since.elapsed() < Duration::from_secs(2), "sending waits: {:?}", since.elapsed());
    if carrier.carries() {
        // What did not fit was dropped; whatever is said once there is room comes.
        here.settle(Duration::from_secs(5)).await;
        here.send(Signal::up_to(run, 20_001));
        hears(&mut heard, |signal| advance_of(run)(signal).filter(|advance| advance.next == Some(20_001))).await;
    }
}

pub(super) async fn settling_ends(carrier: &dyn Carrier) {
    let hub = carrier.hub().await;
    hub.send(Signal::Work);
    let since = Instant::now();
    hub.settle(Duration::from_secs(60)).await;
    assert!(since.elapsed() < Duration::from_secs(20));
}
