//! What goes in and comes out of a turn.

use std::fs;

use worker::sandbox::{Body, Sandboxes, Seen};

use super::rig::{Outcome, Rig, exit, next, out, out_text, rest, script, spec};

#[tokio::test]
async fn a_turn_is_created_read_and_removed() -> Outcome {
    let rig = Rig::new();
    assert_eq!(rig.look().await, Seen::Absent);
    let script = script("cat; echo made > /workspace/new; cat $SANDLOG_FILES/a; exit 3");
    let fill = Box::new(|paths: &worker::sandbox::Paths| fs::write(paths.files.join("a"), "attached\n"));
    rig.sandboxes.create(&rig.at, 1, &script.spec, fill).await?;
    assert_eq!(rig.look().await, Seen::Live);
    let mut attached = rig.attach().await;
    assert_eq!(next(&mut attached).await.0, Body::Started);
    attached.orders.inbox(0, b"one\n".to_vec(), false).await;
    attached.orders.inbox(0, b"again\n".to_vec(), false).await;
    attached.orders.inbox(1, b"two\n".to_vec(), true).await;
    let records = rest(&mut attached).await;
    assert_eq!(out_text(&records), "one\ntwo\nattached\n");
    assert_eq!(exit(&records).code, Some(3));
    assert_eq!(exit(&records).reason, None);
    assert_eq!(rig.look().await, Seen::Ended);
    assert_eq!(fs::read_to_string(rig.sandboxes.paths(&rig.at).await.workspace.join("new"))?, "made\n");
    assert_eq!(rig.sandboxes.list().await?, std::slice::from_ref(&rig.at));

    rig.sandboxes.remove(&rig.at, 1).await?;
    rig.sandboxes.remove(&rig.at, 1).await?;
    assert_eq!(rig.look().await, Seen::Absent);
    assert!(rig.sandboxes.list().await?.is_empty());
    Ok(())
}

#[tokio::test]
async fn a_missing_program_fails_the_start_and_says_so() {
    let rig = Rig::new();
    let records = rig.run(&spec(vec!["/no/such/program".into()])).await;
    let message = "/no/such/program: No such file or directory".to_owned();
    assert_eq!(records[0].body, Body::StartFailed { message });
    assert_eq!(records.len(), 2);
}

#[tokio::test]
async fn every_byte_comes_out_in_order() {
    let rig = Rig::new();
    let text = r"printf 'a\000b\377\n'; head -c 2097152 /dev/zero | tr '\0' x; printf '\nlast'";
    let records = rig.run(&script(text).spec).await;
    let mut expected = b"a\0b\xff\n".to_vec();
    expected.resize(expected.len() + (2 << 20), b'x');
    expected.extend_from_slice(b"\nlast");
    assert!(out(&records) == expected);
    let ends: Vec<_> = records
        .iter()
        .filter_map(|record| match &record.body {
            Body::Out { bytes, end_of_line } => Some((bytes.len(), *end_of_line)),
            _ => None,
        })
        .collect();
    assert_eq!(ends.first(), Some(&(5, true)));
    assert_eq!(ends.last(), Some(&(4, false)));
    assert!(ends[1..ends.len() - 2].iter().all(|(_, end)| !end));
    assert!(ends[ends.len() - 2].1);
}

#[tokio::test]
async fn standard_error_is_kept_apart() {
    let rig = Rig::new();
    let records = rig.run(&script("echo out; echo err >&2").spec).await;
    assert_eq!(out_text(&records), "out\n");
    let err = |body: &Body| matches!(body, Body::Err { bytes, end_of_line: true } if bytes == b"err\n");
    assert!(records.iter().any(|record| err(&record.body)), "{records:?}");
}
