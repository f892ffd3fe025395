//! Answers that do not come, or not to their end.

use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use super::kit::{KEY, doors, egress, isolated, rig, rig_with};
use crate::sandbox::rig::{eventually, exit, kill, out_text, rest, until_line};
use crate::sandbox::upstream::{Upstream, chunk, head, whole};

/// What a script does with an answer: its text on one line, then whether it came to a clean end.
const SHOW: &str = r#"show() { ask "$@" </dev/null 2>&1 | tr -d '\r' | tr '\n' ' '; echo " ${PIPESTATUS[0]}"; }; export LC_ALL=C;"#;

#[tokio::test]
async fn an_answer_that_is_cut_upstream_is_cut_inside() {
    let upstream = Upstream::start(|asked, stream| match asked.line.rsplit('?').next() {
        Some("chunks") => {
            head(stream);
            chunk(stream, "data: {\"usage\":{\"output_tokens\":3}}\n\n");
        }
        Some("length") => drop(stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\nhalf")),
        Some("reset") => {
            head(stream);
            chunk(stream, "data: 1\n\n");
            std::thread::sleep(Duration::from_millis(50));
            rustix::net::sockopt::set_socket_linger(&*stream, Some(Duration::ZERO)).unwrap();
        }
        _ => {
            head(stream);
            chunk(stream, "all");
            let _ = stream.write_all(b"0\r\n\r\n");
        }
    });
    let text = format!("{SHOW} for how in chunks length reset whole; do show POST \"/anthropic/v1/messages?$how\"; done");
    let records = rig(&upstream).run(&isolated(&text)).await;
    let out = out_text(&records);
    let lines: Vec<_> = out.lines().collect();
    for (line, part) in lines[..3].iter().zip(["output_tokens", "half", "data: 1"]) {
        assert!(line.contains("200 OK") && line.contains(part) && line.contains("Connection reset") && line.ends_with(" 1"), "{out}");
    }
    assert!(lines[3].contains("all 0") && lines[3].ends_with(" 0"), "{out}");
    let doors = doors(&records);
    let told: Vec<_> = doors.iter().map(|door| (door.status, door.cut, door.left, door.response_bytes)).collect();
    assert_eq!(told, [(Some(200), true, false, 37), (Some(200), true, false, 4), (Some(200), true, false, 9), (Some(200), false, false, 3)]);
    assert_eq!(doors[0].output_tokens, Some(3));
}

#[tokio::test]
async fn an_upstream_that_does_not_answer_is_a_bad_gateway() {
    let upstream = Upstream::start(|_, _| {});
    let text = format!("{SHOW} show POST /anthropic/v1/messages");
    let records = rig(&upstream).run(&isolated(&text)).await;
    let out = out_text(&records);
    assert!(out.starts_with("HTTP/1.1 502 Bad Gateway ") && out.contains("anthropic broke off before its answer") && out.ends_with(" 0\n"), "{out}");
    assert_eq!(doors(&records)[0].refused.as_deref(), Some("failed"));

    let rig = rig_with(&[("SANDLOG_UPSTREAM_ANTHROPIC", "http://127.0.0.1:9")]);
    let records = rig.run(&isolated(&text)).await;
    let out = out_text(&records);
    assert!(out.starts_with("HTTP/1.1 502 Bad Gateway ") && out.contains("anthropic cannot be reached: Connection refused"), "{out}");
    let door = &doors(&records)[0];
    assert_eq!((door.status, door.refused.as_deref(), door.cut), (Some(502), Some("unreachable"), false));
}

/// An upstream whose answers never end, and whether it has seen the end of one.
fn endless() -> (Upstream, Arc<AtomicBool>) {
    let over = Arc::new(AtomicBool::new(false));
    let seen = Arc::clone(&over);
    let upstream = Upstream::start(move |_, stream| {
        head(stream);
        while chunk(stream, "data: more\n\n") {
            std::thread::sleep(Duration::from_millis(5));
        }
        seen.store(true, Ordering::SeqCst);
    });
    (upstream, over)
}

#[tokio::test]
async fn a_sandbox_that_goes_away_ends_its_request_upstream_and_is_no_cut() {
    let (upstream, over) = endless();
    let rig = rig(&upstream);
    rig.create(&isolated("ask POST /anthropic/v1/messages </dev/null")).await;
    let mut attached = rig.attach().await;
    until_line(&mut attached, "data: more").await;
    attached.orders.kill("user", Duration::ZERO).await;
    let records = rest(&mut attached).await;
    assert_eq!(exit(&records).reason.as_deref(), Some("killed:user"));
    let doors = doors(&records);
    assert_eq!(doors.len(), 1);
    assert!(doors[0].left && !doors[0].cut && doors[0].response_bytes > 0, "{doors:?}");
    eventually("the upstream sees it", || over.load(Ordering::SeqCst));
}

// What waits here waits on its thread, and the heartbeat needs one.
#[tokio::test(flavor = "multi_thread")]
async fn a_killed_egress_cuts_its_answers_and_comes_back_by_itself() {
    let upstream = Upstream::start(|asked, stream| {
        if asked.line.ends_with("?long") {
            head(stream);
            while chunk(stream, "data: more\n\n") {
                std::thread::sleep(Duration::from_millis(5));
            }
        } else {
            whole(stream, "text/plain", "hello");
        }
    });
    let rig = rig(&upstream);
    let text = format!(
        "{SHOW} ask POST '/anthropic/v1/messages?long' </dev/null 2>&1; echo $?; show POST /anthropic/v1/messages; read go; show POST /anthropic/v1/messages"
    );
    rig.create(&isolated(&text)).await;
    let mut attached = rig.attach().await;
    until_line(&mut attached, "data: more").await;
    kill(egress(&rig));
    let mut records = Vec::new();
    let mut out = String::new();
    while !out.contains("502 Bad Gateway") {
        let next = tokio::time::timeout(Duration::from_secs(20), attached.records.recv()).await;
        let record = next.unwrap_or_else(|_| panic!("nothing more comes: {out}; {:?}", doors(&records))).unwrap().unwrap().0;
        records.push(record);
        out = out_text(&records);
    }
    assert!(out.contains("Connection reset by peer"), "{out}");
    let told: Vec<_> = doors(&records).into_iter().map(|door| (door.status, door.cut, door.refused.unwrap())).collect();
    assert_eq!(told, [(None, true, "egress".into()), (Some(502), false, "egress".to_owned())]);
    // A heartbeat finds it gone.
    attached.orders.alive().await;
    egress(&rig);
    attached.orders.inbox(0, b"go\n".to_vec(), true).await;
    let records = rest(&mut attached).await;
    assert!(out_text(&records).contains("hello"), "{}", out_text(&records));
    assert_eq!(upstream.asked().last().unwrap().header("x-api-key"), Some(KEY));
}

#[tokio::test]
async fn a_silent_egress_does_not_hold_up_the_end() {
    let (upstream, _) = endless();
    let rig = rig(&upstream);
    rig.create(&isolated("ask POST /anthropic/v1/messages </dev/null")).await;
    let mut attached = rig.attach().await;
    until_line(&mut attached, "data: more").await;
    let pid = rustix::process::Pid::from_raw(egress(&rig)).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::STOP).unwrap();
    // Not at once: a thread on another processor could still answer.
    let stopped = |task: std::fs::DirEntry| std::fs::read_to_string(task.path().join("status")).is_ok_and(|text| text.contains("State:\tT"));
    eventually("a stopped egress", || std::fs::read_dir(format!("/proc/{}/task", pid.as_raw_nonzero())).unwrap().flatten().all(stopped));
    attached.orders.kill("user", Duration::ZERO).await;
    let records = rest(&mut attached).await;
    kill(pid.as_raw_nonzero().get());
    let doors = doors(&records);
    assert_eq!((doors[0].left, doors[0].refused.as_deref()), (true, Some("egress")), "{doors:?}");
}
