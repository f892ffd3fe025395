//! Who outlives whom: runners their workers, nothing its runner.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use worker::sandbox::{Body, Place, SandboxError, Sandboxes, Seen};

use super::rig::{Outcome, Rig, eventually, exit, kill, next, nothing, open, open_with, out_text, rest, runner, script, until_line, with_marker};

/// Prints numbers without end, slowly enough to be followed.
const COUNT: &str = "i=0; while :; do i=$((i+1)); echo $i; sleep 0.01; done";

#[tokio::test]
async fn a_second_worker_goes_on_exactly_where_the_first_stopped() -> Outcome {
    let rig = Rig::new();
    rig.create(&script("i=0; while [ $i -lt 200 ]; do i=$((i+1)); echo $i; sleep 0.005; done").spec).await;
    let mut first = rig.attach().await;
    let offset = until_line(&mut first, "50").await;
    first.orders.committed(offset).await;
    drop(first);

    let second = open(&rig.folder.path().join("data"), "test");
    assert_eq!(second.look(&rig.at, 2).await?, Seen::Live);
    let mut attached = second.attach(&rig.at, 2, offset).await?;
    let records = rest(&mut attached).await;
    let expected: String = (51..=200).map(|i| format!("{i}\n")).collect();
    assert_eq!(out_text(&records), expected);
    Ok(())
}

#[tokio::test]
async fn a_runner_is_nobodys_child_and_survives_signals() {
    let rig = Rig::new();
    rig.create(&script(COUNT).spec).await;
    let runner = rig.runner().await;
    let stat = fs::read_to_string(format!("/proc/{runner}/stat")).unwrap();
    let fields: Vec<_> = stat.rsplit(") ").next().unwrap().split(' ').collect();
    let (parent, group, session) = (fields[1], fields[2], fields[3]);
    assert_ne!(parent, std::process::id().to_string());
    assert_eq!(session, runner.to_string());
    assert_eq!(group, runner.to_string());
    assert_eq!(fs::read(format!("/proc/{runner}/environ")).unwrap(), b"");
    let pid = rustix::process::Pid::from_raw(runner).unwrap();
    for signal in [rustix::process::Signal::TERM, rustix::process::Signal::INT, rustix::process::Signal::HUP] {
        rustix::process::kill_process(pid, signal).unwrap();
    }
    let mut attached = rig.attach().await;
    until_line(&mut attached, "40").await;
    assert_eq!(rig.look().await, Seen::Live);
}

/// This test program again, as a worker that creates and then waits to be killed.
fn creating_worker(rig: &Rig, marker: &str, runner: &Path) -> Child {
    let mut worker = Command::new(std::env::current_exe().unwrap());
    worker.args(["--exact", "sandbox::life::helper_that_creates_and_waits", "--ignored"]);
    worker.env("SANDLOG_TEST_DATA", rig.folder.path().join("data")).env("SANDLOG_TEST_RUNNER", runner);
    worker.env("SANDLOG_TEST_PLACE", format!("{} {}", rig.at.session, rig.at.name));
    worker.env("SANDLOG_TEST_SCRIPT", marker);
    worker.stdout(Stdio::null()).spawn().unwrap()
}

#[tokio::test]
#[ignore = "started by another test"]
async fn helper_that_creates_and_waits() {
    let get = |name: &str| std::env::var(name).unwrap();
    let sandboxes = open_with(get("SANDLOG_TEST_DATA").as_ref(), "test", get("SANDLOG_TEST_RUNNER").into());
    let place = get("SANDLOG_TEST_PLACE");
    let (session, name) = place.split_once(' ').unwrap();
    let at = Place { session: session.parse().unwrap(), name: name.into() };
    let mut script = script(COUNT);
    script.spec.command[3] = get("SANDLOG_TEST_SCRIPT");
    sandboxes.create(&at, 1, &script.spec, nothing()).await.unwrap();
    std::future::pending::<()>().await;
}

#[tokio::test]
async fn a_runner_outlives_a_worker_that_is_killed() {
    let rig = Rig::new();
    let script = script(COUNT);
    let mut worker = creating_worker(&rig, &script.marker, &runner());
    let journal = rig.path().await.join("journal");
    eventually("a journal that grows", || fs::metadata(&journal).is_ok_and(|meta| meta.len() > 100));
    worker.kill().unwrap();
    worker.wait().unwrap();
    let mut attached = rig.attach().await;
    until_line(&mut attached, "60").await;
    assert!(!with_marker(&script.marker).is_empty());
}

#[tokio::test]
async fn a_look_waits_for_a_runner_that_a_dead_worker_was_starting() -> Outcome {
    let rig = Rig::new();
    let script = script(COUNT);
    let slow = rig.folder.path().join("slow");
    fs::write(&slow, format!("#!/bin/sh\nsleep 1\nexec {} \"$@\"\n", runner().display()))?;
    fs::set_permissions(&slow, fs::Permissions::from_mode(0o755))?;
    let mut worker = creating_worker(&rig, &script.marker, &slow);
    let path = rig.path().await;
    eventually("a folder in its place", || path.exists());
    eventually("a runner on its way", || with_marker(&path.display().to_string()).len() == 1);
    worker.kill().unwrap();
    worker.wait().unwrap();
    assert!(!path.join("journal").exists());
    assert_eq!(rig.sandboxes.look(&rig.at, 2).await?, Seen::Live);
    Ok(())
}

#[tokio::test]
async fn a_dead_runner_leaves_no_process_and_is_seen_as_lost() -> Outcome {
    let rig = Rig::new();
    let script = script(&format!("setsid sh -c 'sleep 1000' $0 & trap '' INT TERM; {COUNT}"));
    rig.create(&script.spec).await;
    let mut attached = rig.attach().await;
    until_line(&mut attached, "5").await;
    kill(rig.runner().await);
    eventually("the end of all processes", || with_marker(&script.marker).is_empty());
    assert_eq!(rig.look().await, Seen::Lost);
    let mut again = rig.attach().await;
    assert_eq!(next(&mut again).await.0, Body::Started);
    for i in 1..=5 {
        let line = format!("{i}\n").into_bytes();
        assert_eq!(next(&mut again).await.0, Body::Out { bytes: line, end_of_line: true });
    }
    while let Some(record) = again.records.recv().await {
        assert!(matches!(record?.0.body, Body::Out { .. }));
    }
    Ok(())
}

#[tokio::test]
async fn a_runner_killed_at_any_moment_leaves_no_process() {
    for delay in (0..60).step_by(3) {
        let rig = Rig::new();
        let script = script(COUNT);
        rig.create(&script.spec).await;
        let runner = rig.runner().await;
        std::thread::sleep(Duration::from_millis(delay));
        kill(runner);
        assert_eq!(rig.look().await, Seen::Lost);
        assert_eq!(with_marker(&script.marker), [0; 0], "killed after {delay} ms");
    }
}

#[tokio::test]
async fn a_dead_runner_that_nobody_looks_for_leaves_no_process() {
    let mut killed = Vec::new();
    for delay in 0..20 {
        let rig = Rig::new();
        let script = script(COUNT);
        rig.create(&script.spec).await;
        let runner = rig.runner().await;
        std::thread::sleep(Duration::from_millis(delay));
        kill(runner);
        killed.push((rig, script));
    }
    eventually("the end of all processes", || killed.iter().all(|(_, script)| with_marker(&script.marker).is_empty()));
}

#[tokio::test]
async fn a_runner_killed_after_the_exit_record_is_seen_as_ended() {
    let rig = Rig::new();
    rig.run(&script("echo hi").spec).await;
    kill(rig.runner().await);
    assert_eq!(rig.look().await, Seen::Ended);
    let records = rest(&mut rig.attach().await).await;
    assert_eq!(out_text(&records), "hi\n");
}

#[tokio::test]
async fn a_runner_whose_folder_is_gone_ends_itself_and_its_tree() {
    let rig = Rig::new();
    let script = script(COUNT);
    rig.create(&script.spec).await;
    let runner = rig.runner().await;
    fs::rename(rig.path().await, rig.folder.path().join("elsewhere")).unwrap();
    eventually("the end of all processes", || with_marker(&script.marker).is_empty());
    eventually("the end of the runner", || fs::metadata(format!("/proc/{runner}")).is_err());
}

#[tokio::test]
async fn a_runner_that_nobody_visits_kills_its_sandbox() {
    let rig = Rig::new();
    let mut script = script(COUNT);
    script.spec.dead_man = Duration::from_secs(2);
    rig.create(&script.spec).await;
    let mut attached = rig.attach().await;
    for _ in 0..12 {
        tokio::time::sleep(Duration::from_millis(250)).await;
        attached.orders.alive().await;
    }
    // Being attached is no visit.
    assert_eq!(rig.look().await, Seen::Live);
    let records = rest(&mut attached).await;
    assert_eq!(exit(&records).reason.as_deref(), Some("dead_man"));
    assert_eq!(with_marker(&script.marker), [0; 0]);
}

#[tokio::test]
async fn an_older_epoch_can_neither_look_nor_create_nor_attach() -> Outcome {
    let rig = Rig::new();
    assert_eq!(rig.sandboxes.look(&rig.at, 5).await?, Seen::Absent);
    let refused = rig.sandboxes.create(&rig.at, 4, &script(COUNT).spec, nothing()).await;
    assert!(matches!(refused, Err(SandboxError::Fenced { epoch: 5 })), "{refused:?}");
    assert_eq!(rig.sandboxes.look(&rig.at, 5).await?, Seen::Absent);
    rig.sandboxes.create(&rig.at, 5, &script(COUNT).spec, nothing()).await?;
    let refused = rig.sandboxes.attach(&rig.at, 4, 0).await;
    assert!(matches!(refused, Err(SandboxError::Fenced { epoch: 5 })));
    let refused = rig.sandboxes.stop(&rig.at, 4, "old", Duration::ZERO).await;
    assert!(matches!(refused, Err(SandboxError::Fenced { epoch: 5 })));
    let refused = rig.sandboxes.remove(&rig.at, 4).await;
    assert!(matches!(refused, Err(SandboxError::Fenced { epoch: 5 })));
    Ok(())
}

#[tokio::test]
async fn a_newer_epoch_at_the_door_shows_the_older_one_out() -> Outcome {
    let rig = Rig::new();
    rig.create(&script(COUNT).spec).await;
    let mut old = rig.attach().await;
    until_line(&mut old, "3").await;
    assert_eq!(rig.sandboxes.look(&rig.at, 2).await?, Seen::Live);
    let cut = loop {
        match old.records.recv().await {
            Some(Ok(_)) => {}
            other => break other,
        }
    };
    assert!(matches!(cut, Some(Err(SandboxError::Unreachable(_)))), "{cut:?}");
    // An order of the old one does nothing any more.
    old.orders.kill("old", Duration::ZERO).await;
    let mut new = rig.sandboxes.attach(&rig.at, 2, 0).await?;
    until_line(&mut new, "50").await;
    assert_eq!(fs::read_to_string(rig.path().await.join("epoch"))?.trim(), "2");
    Ok(())
}

#[tokio::test]
async fn a_fill_that_is_overtaken_by_a_newer_look_creates_nothing() -> Outcome {
    let rig = Rig::new();
    let (entered, entering) = std::sync::mpsc::channel();
    let (go, waiting) = std::sync::mpsc::channel::<()>();
    let fill = Box::new(move |_: &worker::sandbox::Paths| {
        entered.send(()).unwrap();
        waiting.recv().map_err(std::io::Error::other)
    });
    let (sandboxes, at) = (rig.sandboxes.clone(), rig.at.clone());
    let slow = tokio::spawn(async move { sandboxes.create(&at, 1, &script(COUNT).spec, fill).await });
    tokio::task::spawn_blocking(move || entering.recv()).await??;
    assert_eq!(rig.sandboxes.look(&rig.at, 2).await?, Seen::Absent);
    go.send(())?;
    assert!(matches!(slow.await?, Err(SandboxError::Fenced { epoch: 2 })));
    assert_eq!(rig.sandboxes.look(&rig.at, 2).await?, Seen::Absent);
    let session = rig.path().await.parent().unwrap().to_owned();
    let left: Vec<_> = fs::read_dir(session)?.map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(left, ["fence"]);
    Ok(())
}

#[tokio::test]
async fn of_concurrent_creates_one_makes_it() -> Outcome {
    let rig = Rig::new();
    let script = script(COUNT);
    let creates: Vec<_> = (0..6)
        .map(|_| {
            let (sandboxes, at, spec) = (rig.sandboxes.clone(), rig.at.clone(), script.spec.clone());
            tokio::spawn(async move { sandboxes.create(&at, 1, &spec, nothing()).await })
        })
        .collect();
    for create in creates {
        create.await??;
    }
    let mut attached = rig.attach().await;
    until_line(&mut attached, "2").await;
    let harnesses = || {
        let is_harness = |pid: &i32| super::rig::cmdline(*pid).starts_with("/bin/sh");
        with_marker(&script.marker).into_iter().filter(is_harness).count()
    };
    assert_eq!(harnesses(), 1);
    Ok(())
}

#[tokio::test]
async fn a_half_made_folder_counts_as_nothing_and_is_made_again() -> Outcome {
    let rig = Rig::new();
    let path = rig.path().await;
    for half in ["", "lock", "spec.json"] {
        fs::create_dir_all(&path)?;
        if !half.is_empty() {
            fs::write(path.join(half), "")?;
        }
        assert_eq!(rig.look().await, Seen::Absent);
    }
    // One that another creator's death left beside it.
    fs::create_dir_all(path.with_file_name(".new-dead/workspace"))?;
    let records = rig.run(&script("echo made").spec).await;
    assert_eq!(out_text(&records), "made\n");
    assert!(!path.with_file_name(".new-dead").exists());
    Ok(())
}

#[tokio::test]
async fn a_fill_that_fails_leaves_nothing() -> Outcome {
    let rig = Rig::new();
    let fill = Box::new(|_: &worker::sandbox::Paths| Err(std::io::Error::other("no checkpoint")));
    let failed = rig.sandboxes.create(&rig.at, 1, &script(COUNT).spec, fill).await;
    assert!(matches!(failed, Err(SandboxError::Io { .. })), "{failed:?}");
    assert_eq!(rig.look().await, Seen::Absent);
    Ok(())
}

#[tokio::test]
async fn another_deployments_sandbox_is_not_touched() {
    let rig = Rig::new();
    rig.create(&script(COUNT).spec).await;
    let other = open(&rig.folder.path().join("data"), "other");
    let refused = other.look(&rig.at, 1).await;
    assert!(matches!(&refused, Err(SandboxError::SetUp(why)) if why.contains("deployment")), "{refused:?}");
    assert_eq!(rig.look().await, Seen::Live);
}

#[tokio::test]
async fn the_hosts_id_is_shared_and_stays() {
    let rig = Rig::new();
    let data = rig.folder.path().join("data");
    let opens: Vec<_> = (0..4)
        .map(|_| {
            let data = data.clone();
            std::thread::spawn(move || open(&data, "test").host().to_owned())
        })
        .collect();
    for open in opens {
        assert_eq!(open.join().unwrap(), rig.sandboxes.host());
    }
}

#[tokio::test]
async fn erasing_a_session_leaves_nothing_of_it() -> Outcome {
    let rig = Rig::new();
    let script = script(COUNT);
    rig.create(&script.spec).await;
    rig.sandboxes.erase(rig.at.session).await?;
    assert_eq!(with_marker(&script.marker), [0; 0]);
    assert_eq!(fs::read_dir(rig.folder.path().join("data/sandboxes"))?.count(), 0);
    rig.sandboxes.erase(rig.at.session).await?;
    Ok(())
}
