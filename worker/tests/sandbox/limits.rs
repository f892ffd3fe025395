//! Limits that bite.

use std::fs;
use std::time::{Duration, Instant};

use worker::sandbox::{Body, Sandboxes, Seen};

use super::rig::{Outcome, Rig, eventually, exit, out_text, rest, script, with_marker};

#[tokio::test]
async fn the_memory_limit_kills_and_is_told() {
    let rig = Rig::new();
    if !rig.sandboxes.capabilities().limits.memory {
        return;
    }
    let mut script = script("echo up; exec tail /dev/zero");
    script.spec.limits.memory = 64 << 20;
    let records = rig.run(&script.spec).await;
    let exit = exit(&records);
    assert!(exit.oom, "{exit:?}");
    assert_eq!(exit.signal, Some(9));
    assert_eq!(exit.reason, None);
}

#[tokio::test]
async fn memory_that_is_not_a_process_counts_too() {
    let rig = Rig::new();
    if !rig.sandboxes.capabilities().limits.memory {
        return;
    }
    let mut script = script("for at in /tmp /dev/shm; do head -c 200000000 /dev/zero > $at/x || echo refused; done");
    script.spec.limits.memory = 64 << 20;
    let records = rig.run(&script.spec).await;
    assert!(exit(&records).oom || out_text(&records).contains("refused"), "{records:?}");
}

#[tokio::test]
async fn the_processes_limit_bites() {
    let rig = Rig::new();
    let mut script = script("i=0; while [ $i -lt 30 ]; do sleep 5 & i=$((i+1)); done; echo all");
    script.spec.limits.processes = 10;
    let records = rig.run(&script.spec).await;
    assert!(!out_text(&records).contains("all"), "{records:?}");
    let refused = |body: &Body| matches!(body, Body::Err { bytes, .. } if String::from_utf8_lossy(bytes).contains("fork"));
    assert!(records.iter().any(|record| refused(&record.body)), "{records:?}");
}

#[tokio::test]
async fn the_disk_limit_ends_the_turn() {
    let rig = Rig::new();
    let mut script = script("i=0; while :; do i=$((i+1)); head -c 1000000 /dev/zero > f$i; sleep 0.01; done");
    script.spec.limits.disk = 5 << 20;
    let records = rig.run(&script.spec).await;
    assert_eq!(exit(&records).reason.as_deref(), Some("disk_limit"));
}

#[tokio::test]
async fn disk_that_has_no_name_any_more_counts_too() {
    let rig = Rig::new();
    let mut script = script("i=2; while [ $i -lt 9 ]; do i=$((i+1)); eval \"exec $i>f$i\"; rm f$i; head -c 1000000 /dev/zero >&$i; done; sleep 30");
    script.spec.limits.disk = 5 << 20;
    let records = rig.run(&script.spec).await;
    assert_eq!(exit(&records).reason.as_deref(), Some("disk_limit"));
}

#[tokio::test]
async fn a_tree_too_deep_to_count_ends_the_turn() {
    let rig = Rig::new();
    let script = script("i=0; while :; do mkdir d; cd d; i=$((i+1)); [ $i = 1500 ] && break; done; sleep 30");
    let records = rig.run(&script.spec).await;
    assert_eq!(exit(&records).reason.as_deref(), Some("disk_limit"));
}

#[tokio::test]
async fn one_file_cannot_pass_the_disk_limit() {
    let rig = Rig::new();
    let mut script = script("head -c 100000000 /dev/zero > /workspace/f; ls -l /workspace/f | cut -d' ' -f5");
    script.spec.limits.disk = 5 << 20;
    rig.run(&script.spec).await;
    let size = fs::metadata(rig.sandboxes.paths(&rig.at).await.workspace.join("f")).unwrap().len();
    assert_eq!(size, 5 << 20);
}

#[tokio::test]
async fn the_time_limit_ends_the_turn() {
    let rig = Rig::new();
    let mut script = script("trap 'echo time; exit 4' INT; while :; do sleep 0.05; done");
    script.spec.limits.time = Duration::from_millis(1200);
    let start = Instant::now();
    let records = rig.run(&script.spec).await;
    assert!(start.elapsed() >= Duration::from_millis(1200));
    assert_eq!(out_text(&records), "time\n");
    assert_eq!(exit(&records).reason.as_deref(), Some("time_limit"));
}

#[tokio::test]
async fn cpus_are_shared_out() {
    let rig = Rig::new();
    if !rig.sandboxes.capabilities().limits.cpus {
        return;
    }
    // Counted in the group rather than by the clock: other tests run beside this one.
    let mut script = script("timeout 2 sh -c 'while :; do :; done'; cat /proc/self/stat; times");
    script.spec.limits.cpus = 0.1;
    let records = rig.run(&script.spec).await;
    let out = out_text(&records);
    let children = out.lines().last().unwrap();
    let (minutes, seconds) = children.split_once(' ').unwrap().0.trim_end_matches('s').split_once('m').unwrap();
    assert_eq!(minutes, "0");
    assert!(seconds.parse::<f64>().unwrap() < 1.0, "{children}");
}

#[tokio::test(flavor = "multi_thread")]
async fn output_waits_while_too_much_is_uncommitted() -> Outcome {
    let rig = Rig::new();
    let script = script("while :; do echo 0123456789012345678901234567890123456789012345678901234567890123456789; done");
    rig.create(&script.spec).await;
    let journal = rig.path().await.join("journal");
    let size = || fs::metadata(&journal).map_or(0, |meta| meta.len());
    let limit = 16 << 20;
    eventually("a full journal", || size() >= limit);
    std::thread::sleep(Duration::from_millis(300));
    let full = size();
    // One read of each stream may pass the limit, with the records' heads.
    assert!(full < limit + (1 << 20), "{full}");
    std::thread::sleep(Duration::from_millis(300));
    assert_eq!(size(), full);
    let status = fs::read_to_string(format!("/proc/{}/status", rig.runner().await))?;
    let rss = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap().trim().to_owned();
    assert!(rss.trim_end_matches(" kB").parse::<u64>()? < 32 * 1024, "{rss}");

    let mut attached = rig.attach().await;
    let mut offset = 0;
    while offset < 8 << 20 {
        offset = super::rig::next(&mut attached).await.1;
    }
    attached.orders.committed(offset).await;
    eventually("more output", || size() > full + (4 << 20));
    use std::os::unix::fs::MetadataExt;
    let blocks = fs::metadata(&journal)?.blocks() * 512;
    assert!(blocks < limit + (2 << 20), "committed journal still takes {blocks} bytes");

    // A dead runner's journal is read from the committed offset on, hole or not.
    super::rig::kill(rig.runner().await);
    assert_eq!(rig.look().await, Seen::Lost);
    let mut again = rig.sandboxes.attach(&rig.at, 1, offset).await?;
    let mut more = 0;
    while let Some(record) = again.records.recv().await {
        record?;
        more += 1;
    }
    assert!(more > 1000);
    Ok(())
}

#[tokio::test]
async fn a_kill_works_while_output_waits() {
    let rig = Rig::new();
    let script = script("while :; do echo 0123456789012345678901234567890123456789012345678901234567890123456789; done");
    rig.create(&script.spec).await;
    let journal = rig.path().await.join("journal");
    eventually("a full journal", || fs::metadata(&journal).is_ok_and(|meta| meta.len() >= 16 << 20));
    rig.sandboxes.stop(&rig.at, 1, "user", Duration::ZERO).await.unwrap();
    assert_eq!(with_marker(&script.marker), [0; 0]);
    let records = rest(&mut rig.attach().await).await;
    assert_eq!(exit(&records).reason.as_deref(), Some("killed:user"));
}
