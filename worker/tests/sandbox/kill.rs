//! Kills: gone means proven gone.

use std::time::{Duration, Instant};

use worker::sandbox::{Sandboxes, Seen};

use super::rig::{Outcome, Rig, exit, kill, out_text, rest, script, until_line, with_marker};

/// Ignores what it can, forks, leaves orphans in sessions of their own, some of which keep the pipes open.
const STUBBORN: &str = r#"
    trap '' INT TERM HUP QUIT
    for i in 1 2 3; do
        setsid sh -c 'trap "" INT TERM HUP; while :; do sleep 1; done' $0 &
        (setsid sh -c 'sleep 1000 & sleep 1000' $0 >/dev/null 2>&1 &)
    done
    while :; do sh -c 'sleep 0.05' $0 & echo up; sleep 0.02; done
"#;

#[tokio::test]
async fn a_tree_that_ignores_signals_and_leaves_orphans_is_gone_after_a_kill() {
    let rig = Rig::new();
    let script = script(STUBBORN);
    rig.create(&script.spec).await;
    let mut attached = rig.attach().await;
    until_line(&mut attached, "up").await;
    assert!(with_marker(&script.marker).len() > 5);
    attached.orders.kill("user", Duration::from_millis(300)).await;
    let records = rest(&mut attached).await;
    assert_eq!(with_marker(&script.marker), [0; 0]);
    let exit = exit(&records);
    assert_eq!((exit.code, exit.signal, exit.reason.as_deref()), (None, Some(9), Some("killed:user")));
    assert_eq!(rig.look().await, Seen::Ended);
}

#[tokio::test]
async fn stop_returns_when_the_tree_is_gone_and_again_when_it_is() -> Outcome {
    let rig = Rig::new();
    let script = script(STUBBORN);
    rig.create(&script.spec).await;
    until_line(&mut rig.attach().await, "up").await;
    rig.sandboxes.stop(&rig.at, 1, "user", Duration::ZERO).await?;
    assert_eq!(with_marker(&script.marker), [0; 0]);
    rig.sandboxes.stop(&rig.at, 1, "user", Duration::ZERO).await?;
    assert_eq!(exit(&rest(&mut rig.attach().await).await).reason.as_deref(), Some("killed:user"));
    Ok(())
}

#[tokio::test]
async fn stop_works_without_a_runner() -> Outcome {
    let rig = Rig::new();
    let script = script(STUBBORN);
    rig.create(&script.spec).await;
    until_line(&mut rig.attach().await, "up").await;
    kill(rig.runner().await);
    rig.sandboxes.stop(&rig.at, 1, "user", Duration::ZERO).await?;
    assert_eq!(with_marker(&script.marker), [0; 0]);
    assert_eq!(rig.look().await, Seen::Lost);
    Ok(())
}

#[tokio::test]
async fn stop_works_past_a_runner_that_hangs() -> Outcome {
    let rig = Rig::new();
    let script = script(STUBBORN);
    rig.create(&script.spec).await;
    until_line(&mut rig.attach().await, "up").await;
    let runner = rustix::process::Pid::from_raw(rig.runner().await).unwrap();
    rustix::process::kill_process(runner, rustix::process::Signal::STOP)?;
    rig.sandboxes.stop(&rig.at, 1, "user", Duration::ZERO).await?;
    assert_eq!(with_marker(&script.marker), [0; 0]);
    assert_eq!(rig.look().await, Seen::Lost);
    Ok(())
}

#[tokio::test]
async fn a_harness_can_end_well_within_the_grace() {
    let rig = Rig::new();
    let script = script("trap 'echo bye; exit 7' INT; echo up; while :; do sleep 0.05; done");
    rig.create(&script.spec).await;
    let mut attached = rig.attach().await;
    until_line(&mut attached, "up").await;
    let asked = Instant::now();
    attached.orders.kill("user", Duration::from_secs(30)).await;
    let records = rest(&mut attached).await;
    assert!(asked.elapsed() < Duration::from_secs(10));
    assert_eq!(out_text(&records), "bye\n");
    let exit = exit(&records);
    assert_eq!((exit.code, exit.reason.as_deref()), (Some(7), Some("killed:user")));
}

#[tokio::test]
async fn a_second_kill_shortens_the_grace_and_keeps_the_reason() {
    let rig = Rig::new();
    let script = script("trap '' INT; echo up; while :; do sleep 0.05; done");
    rig.create(&script.spec).await;
    let mut attached = rig.attach().await;
    until_line(&mut attached, "up").await;
    attached.orders.kill("user", Duration::from_secs(600)).await;
    attached.orders.kill("other", Duration::ZERO).await;
    let records = rest(&mut attached).await;
    assert_eq!(exit(&records).reason.as_deref(), Some("killed:user"));
}

#[tokio::test]
async fn orphans_do_not_hold_up_the_end() {
    let rig = Rig::new();
    let script = script("setsid sh -c 'sleep 1000' $0 & echo done");
    let records = rig.run(&script.spec).await;
    assert_eq!(out_text(&records), "done\n");
    assert_eq!(exit(&records).code, Some(0));
    assert_eq!(with_marker(&script.marker), [0; 0]);
}

#[tokio::test]
async fn a_removed_sandbox_leaves_neither_process_nor_group_nor_folder() -> Outcome {
    let rig = Rig::new();
    let script = script(&format!(
        "mkdir -p a/b; touch a/b/c; chmod 000 a/b a; i=0; \
         while [ $i -lt 150 ]; do mkdir d; cd d; i=$((i+1)); done; ln -s /etc link; cd /workspace; {STUBBORN}"
    ));
    rig.create(&script.spec).await;
    until_line(&mut rig.attach().await, "up").await;
    let tree = std::fs::read_to_string(rig.path().await.join("tree"))?;
    let runner = rig.runner().await;
    rig.sandboxes.remove(&rig.at, 1).await?;
    assert_eq!(with_marker(&script.marker), [0; 0]);
    assert!(std::fs::metadata(format!("/proc/{runner}/exe")).is_err());
    for group in tree.lines().filter_map(|line| line.strip_prefix("cgroup ")) {
        assert!(!std::path::Path::new(group).exists(), "{group}");
    }
    let session = rig.path().await.parent().unwrap().to_owned();
    let left: Vec<_> = std::fs::read_dir(session)?.map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(left, ["fence"]);
    assert!(std::path::Path::new("/etc/passwd").exists());
    Ok(())
}
