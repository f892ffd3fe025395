//! Egress and the workers: it is there before the first sandbox, outlives who started it, and is gone when nobody needs it.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use worker::sandbox::{Place, Sandboxes};

use super::kit::{KEY, doors, egress, isolated, program, rig};
use crate::sandbox::rig::{Outcome, Rig, eventually, nothing, open_all, out_text, rest, runner, until_line};
use crate::sandbox::upstream::{Upstream, chunk, head};

/// An answer of a hundred numbers, slowly.
fn counting() -> Upstream {
    Upstream::start(|_, stream| {
        head(stream);
        for i in 0..100 {
            chunk(stream, &format!("data: {i}\n\n"));
            std::thread::sleep(Duration::from_millis(10));
        }
        let _ = std::io::Write::write_all(stream, b"0\r\n\r\n");
    })
}

const COUNT: &str = "ask POST /anthropic/v1/messages </dev/null | grep data";

#[tokio::test]
async fn an_answer_goes_on_when_the_worker_that_started_all_is_killed() -> Outcome {
    let upstream = counting();
    let folder = tempfile::tempdir()?;
    let egress_program = program(folder.path(), &[("ANTHROPIC_API_KEY", KEY), ("SANDLOG_UPSTREAM_ANTHROPIC", &upstream.url)]);
    let rig = Rig::in_folder(folder, "data", &egress_program);
    let mut helper = Command::new(std::env::current_exe()?);
    helper.args(["--ignored", "--exact", "sandbox::egress::outlives::helper_that_creates_and_waits"]);
    helper.env("SANDLOG_TEST_DATA", rig.folder.path().join("data")).env("SANDLOG_TEST_EGRESS", &egress_program);
    helper.env("SANDLOG_TEST_PLACE", format!("{} {}", rig.at.session, rig.at.name));
    let mut helper = helper.stdout(Stdio::null()).spawn()?;
    let journal = rig.path().await.join("journal");
    eventually("an answer under way", || std::fs::read(&journal).is_ok_and(|bytes| bytes.windows(8).any(|at| at == b"data: 9\n")));
    helper.kill()?;
    helper.wait()?;
    let records = rest(&mut rig.attach().await).await;
    let expected: String = (0..100).map(|i| format!("data: {i}\n")).collect();
    assert_eq!(out_text(&records), expected);
    assert!(doors(&records).iter().all(|door| !door.cut && !door.left));
    Ok(())
}

#[tokio::test]
#[ignore = "started by another test"]
async fn helper_that_creates_and_waits() {
    let get = |name: &str| std::env::var(name).unwrap();
    let sandboxes = open_all(Path::new(&get("SANDLOG_TEST_DATA")), "test", runner(), get("SANDLOG_TEST_EGRESS").into());
    let place = get("SANDLOG_TEST_PLACE");
    let (session, name) = place.split_once(' ').unwrap();
    let at = Place { session: session.parse().unwrap(), name: name.into() };
    sandboxes.create(&at, 1, &isolated(COUNT), nothing()).await.unwrap();
    std::future::pending::<()>().await;
}

#[tokio::test]
async fn workers_of_a_host_share_one_egress_and_the_last_ends_it() -> Outcome {
    let upstream = counting();
    let rig = rig(&upstream);
    rig.create(&isolated(&format!("echo up; read go; {COUNT}"))).await;
    let mut attached = rig.attach().await;
    until_line(&mut attached, "up").await;
    let first = egress(&rig);
    let second = open_all(&rig.folder.path().join("data"), "test", runner(), rig.folder.path().join("egress"));
    let at = Place { session: rig.at.session, name: "other-1".into() };
    second.create(&at, 1, &isolated("true"), nothing()).await?;
    assert_eq!(egress(&rig), first);
    // A sandbox stands: nobody ends it.
    second.close().await?;
    rig.sandboxes.close().await?;
    assert_eq!(egress(&rig), first);
    attached.orders.inbox(0, b"go\n".to_vec(), true).await;
    let records = rest(&mut attached).await;
    assert!(out_text(&records).ends_with("data: 99\n"));
    rig.sandboxes.remove(&at, 1).await?;
    rig.create(&isolated("true")).await;
    rig.sandboxes.remove(&rig.at, 1).await?;
    rig.create(&isolated("true")).await;
    rest(&mut rig.attach().await).await;
    rig.sandboxes.close().await?;
    eventually("its end", || std::fs::metadata(format!("/proc/{first}")).is_err());
    Ok(())
}
