//! Redis and Valkey: what is kept there, what it costs, and what becomes of its failures.

use std::time::{Duration, Instant};

use adapters::redis::Seal;
use adapters::signals::Hub;
use adapters::{Signal, Signals, redis};
use e2e::link::{Link, Weather};
use e2e::{Redis, eventually};
use uuid::Uuid;

use super::{KEEP, LIMIT, advance_of, becomes, hears, said, seal, speak_again, up};

macro_rules! on_both {
    ($($case:ident),+ $(,)?) => {
        on_both!(@ on_redis start $($case),+);
        on_both!(@ on_valkey valkey $($case),+);
    };
    (@ $server:ident $start:ident $($case:ident),+) => {
        mod $server {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $case() {
                super::$case(super::Redis::$start().await).await;
            })+
        }
    };
}

on_both!(
    a_resume_index_is_a_position_in_the_stream,
    many_followers_are_one_connection_that_reads_and_one_that_writes,
    what_is_kept_is_bounded_and_expires_unless_it_is_renewed,
    after_a_flush_a_kill_and_a_restart_words_get_through_again,
    a_slow_and_a_silent_link_are_noticed_and_left,
    garbage_in_a_stream_is_a_reason_to_look_and_no_more,
    a_key_that_is_no_stream_costs_its_own_run_and_no_other,
    a_user_that_may_only_use_the_prefix_is_enough,
    a_server_that_takes_no_writes_is_noticed_and_comes_back,
    an_event_that_is_not_of_the_log_is_a_reason_to_look_and_no_more,
    a_wish_to_follow_that_meets_a_broken_connection_is_not_lost,
);

async fn hub(url: &str) -> Hub {
    up(redis::connect(url, "ours:", KEEP, seal()).expect("a URL")).await
}

async fn a_resume_index_is_a_position_in_the_stream(server: Redis) {
    let (here, there, run) = (hub(&server.url()).await, hub(&server.url()).await, Uuid::now_v7());
    for index in 0..5 {
        here.send(Signal::committed(run, said(2 * index, &["a", "b"])));
    }
    here.settle(LIMIT).await;
    let mut heard = there.subscribe();
    let _following = there.follow_run(run, 5);
    // 5 is in the middle of the event of 4 and 5: it is the first that is of use.
    for first in [4, 6, 8] {
        assert_eq!(hears(&mut heard, advance_of(run)).await.event, Some(said(first, &["a", "b"])));
    }
    // Who comes later and is further back gets what it lacks.
    let _behind = there.follow_run(run, 0);
    let first = hears(&mut heard, advance_of(run)).await;
    assert_eq!(first.next, Some(2));
}

async fn many_followers_are_one_connection_that_reads_and_one_that_writes(server: Redis) {
    let (here, there) = (hub(&server.url()).await, hub(&server.url()).await);
    let runs: Vec<Uuid> = (0..300).map(|_| Uuid::now_v7()).collect();
    let mut heard = there.subscribe();
    let _following: Vec<_> = runs.iter().map(|run| there.follow_run(*run, 0)).collect();
    for run in runs.iter().step_by(50) {
        here.send(Signal::up_to(*run, 1));
        hears(&mut heard, advance_of(*run)).await;
    }
    let clients = server.ask(&["CLIENT", "LIST"]).await;
    // Two of each, and the one that asks.
    assert_eq!(clients.lines().filter(|line| line.starts_with("id=")).count(), 5, "{clients}");
}

async fn what_is_kept_is_bounded_and_expires_unless_it_is_renewed(server: Redis) {
    let (here, run) = (hub(&server.url()).await, Uuid::now_v7());
    for index in 0..3000 {
        here.send(Signal::committed(run, said(index, &["a line of text"])));
        if index % 100 == 0 {
            here.settle(LIMIT).await;
        }
    }
    here.send(Signal::Cancel(run));
    here.send(Signal::Work);
    here.settle(LIMIT).await;
    let number = |answer: String| answer.trim().trim_start_matches(':').parse::<i64>().expect("a number");
    let key = format!("ours:run:{run}");
    assert!((1..600).contains(&number(server.ask(&["XLEN", &key]).await)));
    let keys = server.ask(&["KEYS", "*"]).await;
    for key in keys.lines().filter(|line| !line.starts_with(['*', '$'])) {
        assert!(key.starts_with("ours:"), "{key}");
        assert!(number(server.ask(&["PTTL", key]).await) > 0, "{key} stays for ever");
    }
    server.ask(&["PEXPIRE", &key, "5000"]).await;
    here.renew(&[run]);
    here.settle(LIMIT).await;
    assert!(number(server.ask(&["PTTL", &key]).await) > 30_000);
}

async fn after_a_flush_a_kill_and_a_restart_words_get_through_again(mut server: Redis) {
    let (here, there, run) = (hub(&server.url()).await, hub(&server.url()).await, Uuid::now_v7());
    let mut heard = there.subscribe();
    let _following = there.follow_run(run, 0);
    here.send(Signal::up_to(run, 500));
    hears(&mut heard, advance_of(run)).await;
    server.ask(&["FLUSHALL"]).await;
    speak_again(&here, &mut heard, run).await;
    server.kill();
    becomes(&there, false).await;
    let since = Instant::now();
    (0..10_000).for_each(|next| here.send(Signal::up_to(run, next)));
    assert!(since.elapsed() < Duration::from_secs(2), "sending waits for Redis");
    server.restart().await;
    becomes(&there, true).await;
    becomes(&here, true).await;
    speak_again(&here, &mut heard, run).await;
}

async fn a_slow_and_a_silent_link_are_noticed_and_left(server: Redis) {
    let link = Link::to(&format!("127.0.0.1:{}", server.port)).await;
    let url = format!("redis://127.0.0.1:{}", link.port);
    let (here, there, run) = (hub(&server.url()).await, hub(&url).await, Uuid::now_v7());
    let mut heard = there.subscribe();
    let _following = there.follow_run(run, 0);
    link.set(Weather::Slow(Duration::from_millis(100)));
    speak_again(&here, &mut heard, run).await;
    for weather in [Weather::Silent, Weather::Cut] {
        link.set(weather);
        becomes(&there, false).await;
        link.set(Weather::Fair);
        becomes(&there, true).await;
        speak_again(&here, &mut heard, run).await;
    }
}

async fn garbage_in_a_stream_is_a_reason_to_look_and_no_more(server: Redis) {
    let (hub, run) = (hub(&server.url()).await, Uuid::now_v7());
    let mut heard = hub.subscribe();
    let _following = hub.follow_run(run, 0);
    let key = format!("ours:run:{run}");
    for (id, field, text) in [("3-0", "e", "{"), ("4-0", "other", "x"), ("5-7", "e", r#"{"seq":1,"first_index":4,"at":0,"kind":"new","data":{}}"#)] {
        assert!(server.ask(&["XADD", &key, id, field, text]).await.contains(id));
        let advance = hears(&mut heard, advance_of(run)).await;
        assert!(advance.event.is_none());
    }
}

/// Whoever can write there: with another secret, with what one of ours wrote elsewhere, or with nothing.
async fn an_event_that_is_not_of_the_log_is_a_reason_to_look_and_no_more(server: Redis) {
    let (here, there, run) = (hub(&server.url()).await, hub(&server.url()).await, Uuid::now_v7());
    let stranger = up(redis::connect(&server.url(), "ours:", KEEP, Seal::new(Some("another secret"))).expect("a URL")).await;
    let without = up(redis::connect(&server.url(), "ours:", KEEP, Seal::default()).expect("a URL")).await;
    let (mut heard, _following) = (there.subscribe(), there.follow_run(run, 0));
    for (index, sender, is_believed) in [(0, &here, true), (1, &stranger, false), (2, &without, false), (3, &here, true)] {
        sender.send(Signal::committed(run, said(index, &["x"])));
        let advance = hears(&mut heard, advance_of(run)).await;
        assert_eq!((advance.next, advance.event.is_some()), (Some(index + 1), is_believed));
    }
}

async fn a_key_that_is_no_stream_costs_its_own_run_and_no_other(server: Redis) {
    let (here, there, run, other) = (hub(&server.url()).await, hub(&server.url()).await, Uuid::now_v7(), Uuid::now_v7());
    let mut heard = there.subscribe();
    let _following = (there.follow_run(run, 0), there.follow_run(other, 0));
    speak_again(&here, &mut heard, run).await;
    let key = format!("ours:run:{run}");
    server.ask(&["SET", &key, "x"]).await;
    // One that is there before it is followed, and a first read that meets both.
    let late = Uuid::now_v7();
    server.ask(&["LPUSH", &format!("ours:cancel:{late}"), "x"]).await;
    let _late = (there.follow_cancel(late), there.follow_run(late, 0));
    for run in [other, late] {
        speak_again(&here, &mut heard, run).await;
    }
    let fresh = hub(&server.url()).await;
    let mut afresh = fresh.subscribe();
    let _afresh = (fresh.follow_run(run, 0), fresh.follow_run(other, 0));
    speak_again(&here, &mut afresh, other).await;
    assert!(there.carried().borrow().up && fresh.carried().borrow().up, "one key is not Redis");
    // And it comes back by itself.
    server.ask(&["DEL", &key]).await;
    speak_again(&here, &mut heard, run).await;
}

async fn a_user_that_may_only_use_the_prefix_is_enough(server: Redis) {
    let rule = ["ACL", "SETUSER", "sandlog", "on", ">se:cret", "~ours:*", "+xadd", "+xread", "+pexpire"];
    assert_eq!(server.ask(&rule).await, "+OK\r\n");
    let url = format!("redis://sandlog:se%3Acret@127.0.0.1:{}", server.port);
    let (here, there, run) = (hub(&url).await, hub(&url).await, Uuid::now_v7());
    let mut heard = there.subscribe();
    let _following = there.follow_run(run, 0);
    here.send(Signal::up_to(run, 1));
    hears(&mut heard, advance_of(run)).await;
    let wrong = redis::connect(&url.replace("secr", "xecr").replace("cret@", "xret@"), "ours:", KEEP, seal()).expect("a URL");
    eventually("it says why", LIMIT, || async { wrong.carried().borrow().why.clone().filter(|why| why != "not connected yet") }).await;
    assert!(!wrong.carried().borrow().up);
}

async fn a_server_that_takes_no_writes_is_noticed_and_comes_back(server: Redis) {
    let allow = ["ACL", "SETUSER", "sandlog", "on", ">se:cret", "~ours:*", "+xadd", "+xread", "+pexpire"];
    assert_eq!(server.ask(&allow).await, "+OK\r\n");
    let here = hub(&format!("redis://sandlog:se%3Acret@127.0.0.1:{}", server.port)).await;
    let full: (&[&str], &[&str]) = (&["CONFIG", "SET", "maxmemory", "1"], &["CONFIG", "SET", "maxmemory", "0"]);
    let replica: (&[&str], &[&str]) = (&["REPLICAOF", "127.0.0.1", "1"], &["REPLICAOF", "NO", "ONE"]);
    let refused: (&[&str], &[&str]) = (&["ACL", "SETUSER", "sandlog", "-pexpire"], &allow);
    for (breaks, mends) in [full, replica, refused] {
        server.ask(breaks).await;
        becomes(&here, false).await;
        // It answers, so trying again finds it as it was.
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert!(!here.carried().borrow().up, "{breaks:?}");
        server.ask(mends).await;
        becomes(&here, true).await;
    }
}

async fn a_wish_to_follow_that_meets_a_broken_connection_is_not_lost(server: Redis) {
    // Those that write, by what they asked last.
    let writers = async || -> Vec<String> {
        let clients = server.ask(&["CLIENT", "LIST"]).await;
        let writing = clients.lines().filter(|line| line.contains("cmd=pexpire")).filter_map(|line| line.split_once("id=")?.1.split(' ').next());
        writing.map(str::to_owned).collect()
    };
    let here = hub(&server.url()).await;
    let ours = writers().await;
    let there = hub(&server.url()).await;
    for _ in 0..5 {
        let run = Uuid::now_v7();
        here.send(Signal::up_to(run, 1));
        here.settle(LIMIT).await;
        let mut heard = there.subscribe();
        let id = eventually("the one that writes", LIMIT, || async { writers().await.into_iter().find(|id| !ours.contains(id)) }).await;
        assert_eq!(server.ask(&["CLIENT", "KILL", "ID", &id]).await, ":1\r\n");
        let since = Instant::now();
        let _following = there.follow_run(run, 0);
        hears(&mut heard, advance_of(run)).await;
        // It would be heard by the end of a read that waits for two seconds.
        assert!(since.elapsed() < Duration::from_millis(1900), "heard after {:?}", since.elapsed());
    }
}
