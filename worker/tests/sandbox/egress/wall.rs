//! What an isolated sandbox does not reach, and who does not see the key.

use std::fs;
use std::net::TcpListener;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener};

use uuid::Uuid;
use worker::sandbox::{Network, SandboxError, Sandboxes};

use super::kit::{KEY, doors, egress, isolated, rig, rig_with};
use crate::sandbox::rig::{Outcome, Rig, nothing, out_text, rest, until_line};
use crate::sandbox::upstream::{Upstream, whole};

#[tokio::test]
async fn nothing_is_reached_but_the_way_out() -> Outcome {
    let upstream = Upstream::start(|_, stream| whole(stream, "text/plain", "hello"));
    let of_host = TcpListener::bind("127.0.0.1:0")?;
    let name = format!("sandlog-test-{}", Uuid::new_v4());
    let abstract_of_host = UnixListener::bind_addr(&SocketAddr::from_abstract_name(&name)?)?;
    let text = format!(
        r#"export LC_ALL=C; for at in 198.51.100.1/80 127.0.0.1/{} 127.0.0.1/80 ::1/8787; do (exec 3<>/dev/tcp/$at) 2>&1 | head -n 1 | sed 's/.*: //'; done
        grep -c {name} /proc/net/unix; tail -n +3 /proc/net/dev | cut -d: -f1 | tr -d ' '; (exec 3<>/dev/tcp/127.0.0.1/8787) && echo open"#,
        of_host.local_addr()?.port()
    );
    let records = rig(&upstream).run(&isolated(&text)).await;
    let refused = "Connection refused";
    assert_eq!(out_text(&records), format!("Network is unreachable\n{refused}\n{refused}\n{refused}\n0\nlo\nopen\n"));
    drop(abstract_of_host);
    Ok(())
}

#[tokio::test]
async fn what_is_not_on_the_list_is_refused_and_recorded() {
    let upstream = Upstream::start(|_, stream| whole(stream, "text/plain", "hello"));
    let text = r#"for what in 'GET /anthropic/v1/messages' 'POST /anthropic/v1/files?secret=1' 'POST /openai/v1/responses' 'GET /' 'GET http://198.51.100.1/' 'CONNECT 198.51.100.1:443'; do
        ask $what </dev/null | sed -n '1p;/^{/p' | tr -d '\r'; done"#;
    let records = rig(&upstream).run(&isolated(text)).await;
    let out = out_text(&records);
    assert_eq!(out.matches("HTTP/1.1 403 Forbidden\n{\"error\":{\"message\":\"sandlog: ").count(), 4, "{out}");
    assert_eq!(out.matches("HTTP/1.1 400 Bad Request\n").count(), 2, "{out}");
    let told: Vec<_> = doors(&records).into_iter().map(|door| (door.upstream, door.path, door.status.unwrap(), door.refused.unwrap())).collect();
    let of = |upstream: &str, path: &str, status, why: &str| (upstream.to_owned(), path.to_owned(), status, why.to_owned());
    assert_eq!(
        told,
        [
            of("anthropic", "/v1/messages", 403, "path"),
            of("anthropic", "/v1/files", 403, "path"),
            of("openai", "/v1/responses", 403, "upstream"),
            of("", "/", 403, "upstream"),
            of("", "/", 400, "request"),
            of("", "", 400, "request"),
        ]
    );
    assert!(upstream.asked().is_empty());
}

#[tokio::test]
async fn the_key_is_nowhere_but_at_the_upstream() -> Outcome {
    let upstream = Upstream::start(|_, stream| whole(stream, "application/json", r#"{"usage":{"input_tokens":1}}"#));
    let rig = rig(&upstream);
    let text = format!(
        r#"ask POST /anthropic/v1/messages </dev/null; cat /proc/*/environ /proc/*/cmdline 2>/dev/null | tr '\0' '\n'; set
        ls -la /proc/[0-9]*/fd 2>/dev/null; cat /proc/net/unix; grep -r -s -l {} /workspace /home /tmp /run /etc /dev/shm /var; echo asked; cat; ask GET /anthropic/v1/no </dev/null"#,
        &KEY[4..]
    );
    let mut spec = isolated(&text);
    // The script holds a part of it, to look for it.
    spec.command[2] = spec.command[2].replace(&KEY[4..], "${part}");
    spec.command[2] = format!("part={}''{}; {}", &KEY[4..12], &KEY[12..], spec.command[2]);
    rig.create(&spec).await;
    let mut attached = rig.attach().await;
    until_line(&mut attached, "asked").await;
    let key = KEY.as_bytes();
    let holds = |bytes: &[u8]| bytes.windows(key.len()).any(|window| window == key);
    // What of the host's processes a program of the same user could read, egress excepted: nobody can read that.
    let runner = rig.runner().await;
    for file in ["environ", "cmdline"] {
        assert!(!holds(&fs::read(format!("/proc/{runner}/{file}"))?), "{file} of the runner");
    }
    let egress = egress(&rig);
    assert!(!holds(&fs::read(format!("/proc/{egress}/cmdline"))?));
    if !rustix::process::geteuid().is_root() {
        assert!(fs::read(format!("/proc/{egress}/environ")).is_err());
    }
    attached.orders.inbox(0, Vec::new(), true).await;
    let records = rest(&mut attached).await;
    assert!(!holds(format!("{records:?}").as_bytes()));
    assert_eq!(upstream.asked()[0].header("x-api-key"), Some(KEY));

    let mut looked = 0;
    let mut folders = vec![rig.folder.path().join("data")];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder)? {
            let entry = entry?;
            if entry.file_type()?.is_dir() {
                folders.push(entry.path());
            } else if entry.file_type()?.is_file() {
                looked += 1;
                assert!(!holds(&fs::read(entry.path())?), "{}", entry.path().display());
            }
        }
    }
    assert!(looked > 8, "{looked}");
    Ok(())
}

#[tokio::test]
async fn egress_is_not_root_and_its_memory_is_nobodys_to_read() {
    let upstream = Upstream::start(|_, stream| whole(stream, "text/plain", "hello"));
    let rig = rig(&upstream);
    rig.run(&isolated("true")).await;
    let status = fs::read_to_string(format!("/proc/{}/status", egress(&rig))).unwrap();
    let uid = status.lines().find(|line| line.starts_with("Uid:")).unwrap();
    assert!(uid.split_ascii_whitespace().skip(1).all(|id| id != "0"), "{uid}");
    assert!(status.contains("NoNewPrivs:\t1") && status.contains("CapEff:\t0000000000000000"), "{status}");
}

#[tokio::test]
async fn without_a_key_the_answer_says_what_to_set() {
    let rig = rig_with(&[]);
    let records = rig.run(&isolated("ask POST /anthropic/v1/messages </dev/null")).await;
    let out = out_text(&records);
    assert!(out.starts_with("HTTP/1.1 401 Unauthorized\r\n") && out.contains("ANTHROPIC_API_KEY is not set"), "{out}");
    let doors = doors(&records);
    assert_eq!((doors[0].status, doors[0].refused.as_deref()), (Some(401), Some("key")));
}

#[tokio::test]
async fn a_sandbox_without_network_has_no_way_out_and_needs_no_egress() {
    let rig = rig_with(&[]);
    let mut spec = isolated("(exec 3<>/dev/tcp/127.0.0.1/8787) 2>&1 | head -n 1 | grep -c refused");
    spec.network = Network::None;
    assert_eq!(out_text(&rig.run(&spec).await), "1\n");
    assert!(!rig.folder.path().join("data/egress").exists());
}

#[tokio::test]
async fn an_egress_that_cannot_start_is_told_before_a_sandbox_is_made() {
    let rig = rig_with(&[("SANDLOG_UPSTREAM_OPENAI", "http://gateway.example")]);
    let refused = rig.sandboxes.create(&rig.at, 1, &isolated("true"), nothing()).await;
    assert!(matches!(&refused, Err(SandboxError::SetUp(why)) if why.contains("SANDLOG_UPSTREAM_OPENAI: ")), "{refused:?}");
    let folder = tempfile::tempdir().unwrap();
    let missing = folder.path().join("no-egress");
    let rig = Rig::in_folder(folder, "data", &missing);
    assert!(rig.sandboxes.create(&rig.at, 1, &isolated("true"), nothing()).await.is_err());
    assert!(rig.sandboxes.list().await.unwrap().is_empty());
}
