use adapters::AppendError;
use runs::visible;
use uuid::Uuid;

use crate::kit::*;
use crate::world::World;

pub(crate) async fn a_taken_seq_is_refused_and_the_log_unchanged(world: &dyn World) {
    let log = world.log();
    let run = accept(&log, "s", "x").await.run_id;
    let mut turn = claim(&log, "a").await;
    turn.begin().await;
    turn.print(&["one\n", "two\n"]).await.expect("appended");
    let before = events(&log, run).await;
    for (taken, recorded) in before.iter().enumerate() {
        let answer = log.append(run, recorded.seq, recorded.first_index, &output(&["again\n"], 99)).await;
        assert!(matches!(answer, Err(AppendError::Taken(seq)) if seq == recorded.seq), "seq {taken}: {answer:?}");
    }
    assert_eq!(events(&log, run).await, before);
    turn.print(&["three\n"]).await.expect("the next seq is still free");
    assert_eq!(events(&log, run).await.len(), before.len() + 1);
}

pub(crate) async fn nothing_follows_a_terminal_event(world: &dyn World) {
    let log = world.log();
    let run = accept(&log, "s", "x").await.run_id;
    let mut turn = claim(&log, "a").await;
    turn.begin().await;
    turn.complete("c").await.expect("finished");
    let before = events(&log, run).await;
    let last = before.last().expect("an event");
    assert!(log.append(run, last.seq + 1, last.next_index(), &output(&["late\n"], 99)).await.is_err());
    assert!(log.append(run, last.seq + 1, last.next_index(), &failed("late")).await.is_err());
    assert!(log.hand_over(run, last.seq + 1, last.next_index(), "late", turn.holding()).await.is_err());
    assert_eq!(events(&log, run).await, before);
}

pub(crate) async fn an_unknown_run_takes_no_event(world: &dyn World) {
    let log = world.log();
    let answer = log.append(Uuid::now_v7(), 1, 0, &output(&["x\n"], 1)).await;
    assert!(matches!(answer, Err(AppendError::Gone)), "{answer:?}");
}

pub(crate) async fn what_a_program_printed_comes_back_with_nul_shown(world: &dyn World) {
    let log = world.log();
    let run = accept(&log, "s", "x").await.run_id;
    let mut turn = claim(&log, "a").await;
    turn.begin().await;
    let printed: Vec<String> = [&b"a\0b\n"[..], b"\xff\xfe not utf-8\n", b"\x01\x1f\x7f\\u0000\n", "\u{10ffff}\u{fffe}\n".as_bytes()]
        .iter()
        .map(|bytes| visible(bytes))
        .collect();
    turn.print(&printed.iter().map(String::as_str).collect::<Vec<_>>()).await.expect("the log takes it");
    let event = events(&log, run).await.pop().expect("an event").event;
    assert_eq!(event, output(&printed.iter().map(String::as_str).collect::<Vec<_>>(), 10));
    assert!(printed[0] == "a\u{2400}b\n");
}

pub(crate) async fn events_come_in_pages_by_seq(world: &dyn World) {
    let log = world.log();
    let run = accept(&log, "s", "x").await.run_id;
    let mut turn = claim(&log, "a").await;
    turn.begin().await;
    for n in 0..7 {
        turn.print(&[n.to_string().as_str()]).await.expect("appended");
    }
    let all = events(&log, run).await;
    assert!(all.iter().zip(0..).all(|(recorded, seq)| recorded.seq == seq));
    let mut paged = Vec::new();
    loop {
        let page = log.events(run, paged.len() as u32, 3).await.expect("the log answers");
        assert!(page.len() <= 3);
        if page.is_empty() {
            break;
        }
        paged.extend(page);
    }
    assert_eq!(paged, all);
}
