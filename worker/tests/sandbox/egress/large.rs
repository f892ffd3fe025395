//! Bodies larger than what may be held of them, and more connections than are joined.

use std::fs;
use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::kit::{doors, egress, isolated, rig};
use crate::sandbox::rig::{eventually, out_text, rest, until_line};
use crate::sandbox::upstream::{Upstream, head, whole};

const LARGE: u64 = 64 << 20;

/// The most memory that the process ever had, in bytes.
fn peak(pid: i32) -> u64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() * 1024
}

/// An upstream that answers with [`LARGE`] bytes, and how many of them it could write.
fn large() -> (Upstream, Arc<AtomicU64>) {
    let written = Arc::new(AtomicU64::new(0));
    let count = Arc::clone(&written);
    let upstream = Upstream::start(move |_, stream| {
        head(stream);
        let chunk = [format!("{:x}\r\n", 64 << 10).into_bytes(), vec![b'x'; 64 << 10], b"\r\n".to_vec()].concat();
        for _ in 0..LARGE >> 16 {
            if stream.write_all(&chunk).is_err() {
                return;
            }
            count.fetch_add(64 << 10, Ordering::SeqCst);
        }
        let _ = stream.write_all(b"0\r\n\r\n");
    });
    (upstream, written)
}

#[tokio::test]
async fn a_large_answer_streams_through_little_memory() {
    let (upstream, _) = large();
    let rig = rig(&upstream);
    let records = rig.run(&isolated("ask POST /anthropic/v1/messages </dev/null | tr -cd x | wc -c")).await;
    // And the one of its head's name.
    assert_eq!(out_text(&records).trim().parse::<u64>().unwrap(), LARGE + 1);
    assert_eq!(doors(&records)[0].response_bytes, LARGE);
    assert!(peak(egress(&rig)) < 32 << 20 && peak(rig.runner().await) < 32 << 20);
}

#[tokio::test]
async fn a_large_question_streams_through_little_memory() {
    let upstream = Upstream::start(|asked, stream| whole(stream, "text/plain", &format!("got {}\n", asked.body_bytes)));
    let rig = rig(&upstream);
    let text = format!(
        r"exec 3<>/dev/tcp/127.0.0.1/8787; printf 'POST /anthropic/v1/messages HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-length: {LARGE}\r\n\r\n' >&3
        head -c {LARGE} /dev/zero >&3; grep got <&3"
    );
    let records = rig.run(&isolated(&text)).await;
    assert_eq!(out_text(&records), format!("got {LARGE}\n"));
    assert_eq!(doors(&records)[0].request_bytes, LARGE);
    assert!(peak(egress(&rig)) < 32 << 20 && peak(rig.runner().await) < 32 << 20);
}

#[tokio::test]
async fn a_slow_reader_slows_the_upstream_down() {
    let (upstream, written) = large();
    let rig = rig(&upstream);
    let text = r"exec 3<>/dev/tcp/127.0.0.1/8787; printf 'POST /anthropic/v1/messages HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-length: 0\r\n\r\n' >&3
        echo asked; read go; tr -cd x <&3 | wc -c";
    rig.create(&isolated(text)).await;
    let mut attached = rig.attach().await;
    until_line(&mut attached, "asked").await;
    // It stands still once all that is between is full.
    let (mut before, mut still) = (0, 0);
    eventually("an upstream that waits", || {
        let now = written.load(Ordering::SeqCst);
        still = if now > 0 && now == before { still + 1 } else { 0 };
        before = now;
        still == 100
    });
    assert!(before < LARGE / 2, "{before}");
    attached.orders.inbox(0, b"go\n".to_vec(), true).await;
    let records = rest(&mut attached).await;
    assert_eq!(out_text(&records).trim().parse::<u64>().unwrap(), LARGE + 1);
}

#[tokio::test]
async fn more_connections_than_are_joined_wait_for_their_turn() {
    let upstream = Upstream::start(|_, stream| whole(stream, "text/plain", "hello"));
    let mut spec = isolated("for i in $(seq 150); do ask GET /anthropic/v1/models </dev/null & done | grep -o hello | wc -l; wait");
    spec.limits.processes = 1000;
    let records = rig(&upstream).run(&spec).await;
    assert_eq!(out_text(&records), "150\n");
    assert_eq!(doors(&records).len(), 150);
}

#[tokio::test]
async fn a_connection_is_kept_for_the_next_request() {
    let upstream = Upstream::start(|_, stream| whole(stream, "text/plain", "hello"));
    let text = r"exec 3<>/dev/tcp/127.0.0.1/8787; for i in 1 2 3; do printf 'GET /anthropic/v1/models HTTP/1.1\r\nhost: x\r\n\r\n' >&3
        while IFS= read -r line <&3 && [ ${#line} -gt 1 ]; do :; done; head -c 5 <&3; echo; done";
    let records = rig(&upstream).run(&isolated(text)).await;
    assert_eq!(out_text(&records), "hello\nhello\nhello\n");
    assert_eq!(doors(&records).len(), 3);
}
