use std::collections::HashSet;
use std::sync::Arc;

use adapters::{Cursor, RunsQuery};
use runs::Status;

use crate::kit::*;
use crate::world::{Log, World};

pub(crate) async fn runs_are_paged_without_loss_or_repeat_while_new_ones_come(world: &dyn World) {
    let log = world.log();
    let mut accepted = Vec::new();
    for n in 0..23 {
        accepted.push(accept(&log, if n % 5 == 0 { "beside" } else { "s" }, "x").await);
    }
    for session_id in [None, Some("s")] {
        let wanted = accepted.iter().rev().filter(|one| session_id.is_none_or(|id| one.session_id == id));
        let mut wanted: Vec<_> = wanted.map(|one| one.run_id).collect();
        // Across sessions, ids of one millisecond are in any order.
        wanted.sort_by(|a, b| b.cmp(a));
        let (mut paged, mut cursor): (Vec<_>, Option<Cursor>) = (Vec::new(), None);
        loop {
            let page = log.runs(RunsQuery { session_id, cursor, limit: 4, ..RunsQuery::default() }, None).await.expect("the log answers");
            assert!(page.items.len() <= 4);
            if paged.is_empty() {
                accepted.push(accept(&log, "s", "new").await);
            }
            paged.extend(page.items.iter().map(|row| row.run_id));
            cursor = page.next;
            if cursor.is_none() {
                break;
            }
        }
        assert_eq!(paged, wanted);
    }
}

pub(crate) async fn sessions_are_paged_without_loss_or_repeat_while_new_ones_come(world: &dyn World) {
    let log = world.log();
    let name = |n: u32| format!("session-{n}");
    for n in 0..12 {
        accept(&log, &name(n), "x").await;
    }
    let (mut paged, mut cursor) = (Vec::new(), None);
    loop {
        let page = log.sessions(None, None, cursor, 4, None).await.expect("the log answers");
        assert!(page.items.len() <= 4);
        if cursor.is_none() {
            accept(&log, "new", "x").await;
            // A turn of a session that was, or will be, on another page does not move it.
            accept(&log, &name(11), "again").await;
            accept(&log, &name(0), "again").await;
        }
        paged.extend(page.items.into_iter().map(|row| (row.session, row.session_id)));
        cursor = page.next;
        if cursor.is_none() {
            break;
        }
    }
    assert!(paged.is_sorted_by(|(a, _), (b, _)| a > b), "newest first");
    let mut names: Vec<_> = paged.into_iter().map(|(_, name)| name).collect();
    names.sort();
    let mut wanted: Vec<_> = (0..12).map(name).collect();
    wanted.sort();
    assert_eq!(names, wanted);
    let exact = log.sessions(None, None, None, 13, None).await.expect("the log answers");
    assert!(exact.items.len() == 13 && exact.next.is_none(), "a page that is just full is the last");
}

async fn listed(log: &Arc<dyn Log>, query: RunsQuery<'_>) -> HashSet<String> {
    let page = log.runs(RunsQuery { limit: 100, ..query }, None).await.expect("the log answers");
    page.items.into_iter().map(|row| row.submitted.input.message).collect()
}

pub(crate) async fn runs_are_filtered_by_every_field(world: &dyn World) {
    let log = world.log();
    let sent = [
        submission("s", "plain"),
        submission("s", "plain too"),
        of_user("ann", submission("t", "anns")),
        of_agent("other", submission("u", "others")),
        of_agent("other", of_user("ann", submission("v", "both"))),
    ];
    for one in sent {
        log.submit(one).await.expect("accepted");
    }
    let mut turn = claim(&log, "a").await;
    turn.begin().await;
    turn.complete("c").await.expect("finished");
    claim(&log, "a").await;

    let set = |messages: &[&str]| messages.iter().map(|message| (*message).to_owned()).collect::<HashSet<_>>();
    let any = RunsQuery::default;
    assert_eq!(listed(&log, any()).await.len(), 5);
    assert_eq!(listed(&log, RunsQuery { agent_id: Some("other"), ..any() }).await, set(&["others", "both"]));
    assert_eq!(listed(&log, RunsQuery { session_id: Some("s"), ..any() }).await, set(&["plain", "plain too"]));
    assert_eq!(listed(&log, RunsQuery { user_id: Some("ann"), ..any() }).await, set(&["anns", "both"]));
    assert_eq!(listed(&log, RunsQuery { status: Some(Status::Completed), ..any() }).await, set(&["plain"]));
    assert_eq!(listed(&log, RunsQuery { status: Some(Status::Running), ..any() }).await, set(&["anns"]));
    assert_eq!(listed(&log, RunsQuery { status: Some(Status::Pending), ..any() }).await, set(&["plain too", "others", "both"]));
    let narrow = RunsQuery { agent_id: Some("other"), user_id: Some("ann"), status: Some(Status::Pending), ..any() };
    assert_eq!(listed(&log, narrow).await, set(&["both"]));
    assert_eq!(listed(&log, RunsQuery { session_id: Some("none"), ..any() }).await, set(&[]));
}

pub(crate) async fn sessions_are_filtered_by_agent_and_user(world: &dyn World) {
    let log = world.log();
    let sent = [submission("s", "x"), of_user("ann", submission("t", "x")), of_agent("other", of_user("ann", submission("u", "x")))];
    for one in sent {
        log.submit(one).await.expect("accepted");
    }
    let names = async |user, agent, scope| {
        let page = log.sessions(user, agent, None, 100, scope).await.expect("the log answers");
        let mut names: Vec<_> = page.items.into_iter().map(|row| row.session_id).collect();
        names.sort();
        names
    };
    assert_eq!(names(None, None, None).await, ["s", "t", "u"]);
    assert_eq!(names(Some("ann"), None, None).await, ["t", "u"]);
    assert_eq!(names(None, Some("echo"), None).await, ["s", "t"]);
    assert_eq!(names(Some("ann"), Some("other"), None).await, ["u"]);
    assert_eq!(names(None, None, Some(Some("ann"))).await, ["t", "u"]);
    assert_eq!(names(None, None, Some(None)).await, ["s"]);
    assert_eq!(names(Some("ann"), None, Some(Some("bob"))).await, [""; 0]);
}

pub(crate) async fn a_page_of_large_runs_ends_early_and_the_next_one_goes_on(world: &dyn World) {
    let log = world.log();
    let large = "x".repeat(3 << 20);
    let mut accepted = Vec::new();
    for _ in 0..7 {
        accepted.push(accept(&log, "s", &large).await.run_id);
    }
    accepted.reverse();
    let (mut paged, mut cursor) = (Vec::new(), None);
    loop {
        let page = log.runs(RunsQuery { session_id: Some("s"), cursor, limit: 5, ..RunsQuery::default() }, None).await.expect("the log answers");
        assert!((1..=2).contains(&page.items.len()), "{} runs of three mebibytes", page.items.len());
        paged.extend(page.items.iter().map(|row| row.run_id));
        cursor = page.next;
        if cursor.is_none() {
            break;
        }
    }
    assert_eq!(paged, accepted);
}
