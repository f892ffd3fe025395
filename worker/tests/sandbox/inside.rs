//! What a harness is and what it can reach.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use worker::sandbox::{SandboxError, Sandboxes};

use super::rig::{Outcome, Rig, exit, out_text, rest, script, until_line, with_marker};

#[tokio::test]
async fn a_harness_is_not_root_as_the_host_sees_it() {
    let rig = Rig::new();
    let script = script("echo up; sleep 100");
    rig.create(&script.spec).await;
    until_line(&mut rig.attach().await, "up").await;
    let processes = with_marker(&script.marker);
    assert!(processes.len() > 1);
    for pid in processes {
        let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
        for line in status.lines().filter(|line| line.starts_with("Uid:") || line.starts_with("Gid:")) {
            assert!(line.split_ascii_whitespace().skip(1).all(|id| id != "0"), "{line}");
        }
        assert!(status.contains("NoNewPrivs:\t1"), "{status}");
        assert!(!status.contains("Groups:\t0"), "{status}");
    }
}

#[tokio::test]
async fn a_harness_has_no_capabilities_and_cannot_get_any() {
    let rig = Rig::new();
    let text = "id -u; id -g; grep -E 'Cap|NoNew' /proc/self/status; unshare -U true || echo no userns; \
                unshare -n true || echo no netns; mount -t tmpfs none /tmp || echo no mount";
    let records = rig.run(&script(text).spec).await;
    let out = out_text(&records);
    assert!(out.starts_with("1000\n1000\n"), "{out}");
    for line in out.lines().filter(|line| line.starts_with("Cap")) {
        assert!(line.ends_with("\t0000000000000000"), "{line}");
    }
    assert!(out.contains("NoNewPrivs:\t1\nno userns\nno netns\nno mount\n"), "{out}");
}

#[tokio::test]
async fn system_calls_that_no_harness_needs_are_refused() {
    let rig = Rig::new();
    let records = rig.run(&script("grep Seccomp: /proc/self/status; LC_ALL=C unshare -U true 2>&1; dmesg 2>&1 | head -n 1").spec).await;
    let out = out_text(&records);
    let lines: Vec<_> = out.lines().collect();
    assert_eq!(lines[0], "Seccomp:\t2");
    // Without the filter the limit of user namespaces would say "No space left on device".
    assert!(lines[1].contains("Operation not permitted"), "{out}");
    assert!(lines[2].contains("Operation not permitted"), "{out}");
}

/// The first process has the harness's user, and holds what tells the runner that the sandbox lives.
#[tokio::test]
async fn a_harness_reaches_nothing_that_the_first_process_holds() {
    let rig = Rig::new();
    let text = r#"
        ls /proc/1/fd && echo listed
        for n in $(seq 0 40); do
            (: < /proc/1/fd/$n) && echo "opened $n"
            (: >> /proc/1/fd/$n) && echo "opened $n to write"
        done
        for name in mem environ exe maps root/usr cwd/usr ns/pid; do
            (: < /proc/1/$name) && echo "opened $name"
        done
        (: >> /proc/1/mem) && echo "opened its memory"
        perl -e '
            $first = syscall(434, 1, 0);
            $here = syscall(434, $$ + 0, 0);
            print "no handle\n" if $first < 0 || $here < 0;
            for $n (0..40) { print "got $n\n" if syscall(438, $first, $n, 0) >= 0 }
            print "got its own\n" if syscall(438, $here, 0, 0) >= 0;
            print "last: ", $! + 0, "\n";
        '
    "#;
    let records = rig.run(&script(text).spec).await;
    assert_eq!(out_text(&records), "last: 1\n");
    assert_eq!(exit(&records).code, Some(0));
    assert_eq!(fs::metadata(rig.path().await.join("alive")).unwrap().len(), 0);
}

#[tokio::test]
async fn what_loses_its_parent_is_taken_when_it_ends_and_ends_with_the_harness() {
    let rig = Rig::new();
    let text = r#"
        for n in 1 2 3 4 5; do (sh -c 'true' &); done
        until ! grep -h '^State:.*Z' /proc/[0-9]*/status > /dev/null; do :; done
        sh -c 'sleep 1000 &'
        echo none; exit 7
    "#;
    let script = script(text);
    let records = rig.run(&script.spec).await;
    assert_eq!((out_text(&records).as_str(), exit(&records).code), ("none\n", Some(7)));
    super::rig::eventually("the end of all", || with_marker(&script.marker).is_empty());
}

#[tokio::test]
async fn a_harness_cannot_read_what_only_root_can() {
    let secret = "/usr/local/share/sandlog-test-secret";
    if fs::write(secret, "secret").is_err() {
        return;
    }
    let set = fs::set_permissions(secret, fs::Permissions::from_mode(0o600));
    let rig = Rig::new();
    let text = format!("ls {secret}; cat {secret} && echo read it; ls /etc/shadow; ls /root; ls -d /usr/bin");
    let records = rig.run(&script(&text).spec).await;
    fs::remove_file(secret).unwrap();
    set.unwrap();
    assert_eq!(out_text(&records), format!("{secret}\n/usr/bin\n"));
}

#[tokio::test]
async fn a_harness_sees_nothing_of_its_runner_or_the_host() {
    let rig = Rig::new();
    let text = r#"
        ls -A / | tr '\n' ' '; echo
        tr '\0' ' ' < /proc/1/cmdline | head -n 1 | cut -d' ' -f 2-4
        ls /proc | grep -c '^[0-9]*$'
        find / -name journal -o -name door -o -name spec.json -o -name inbox 2>/dev/null | grep -v ^/usr/ || echo none
        cat /proc/net/dev | tail -n +3 | cut -d: -f1 | tr -d ' '
        hostname
        ls -l /proc/self/fd | grep -c -v -e ' -> pipe:' -e ' -> /proc/' -e total
    "#;
    let records = rig.run(&script(text).spec).await;
    let out = out_text(&records);
    let lines: Vec<_> = out.lines().collect();
    assert_eq!(
        lines[0].split(' ').filter(|name| !name.starts_with("lib")).collect::<Vec<_>>().join(" "),
        "bin dev etc home proc run sbin tmp usr var workspace ",
        "{out}"
    );
    // What it was started with, and no path of the host.
    assert!(lines[1].starts_with("exec {") && lines[1].ends_with(" /bin/sh"), "{out}");
    assert!(lines[2].parse::<u32>().unwrap() < 10, "{out}");
    assert_eq!(&lines[3..], ["none", "lo", "sandbox", "0"], "{out}");
}

#[tokio::test]
async fn a_harness_can_write_where_it_should_and_nowhere_else() {
    let rig = Rig::new();
    let text = "for at in /workspace /home/agent /tmp /dev/shm / /usr /etc /run /dev $SANDLOG_FILES /var /proc/sys/kernel; do \
                touch $at/x 2>/dev/null && echo $at; done; echo x > /dev/null && echo null";
    let records = rig.run(&script(text).spec).await;
    assert_eq!(out_text(&records), "/workspace\n/home/agent\n/tmp\n/dev/shm\nnull\n");
}

#[tokio::test]
async fn the_environment_is_its_own() {
    let rig = Rig::new();
    let mut script = script("env | sort");
    script.spec.command = vec!["env".into()];
    script.spec.env = vec![("A_KEY".into(), "a value\nof two lines".into()), ("LANG".into(), "C".into())];
    let records = rig.run(&script.spec).await;
    let out = out_text(&records);
    let mut names: Vec<_> = out.lines().filter_map(|line| line.split_once('=')).map(|(name, _)| name).collect();
    names.sort_unstable();
    assert_eq!(names, ["A_KEY", "HOME", "LANG", "LOGNAME", "PATH", "PWD", "SANDLOG_FILES", "SHELL", "TMPDIR", "USER"]);
    assert!(out.contains("A_KEY=a value\nof two lines\n") && out.contains("LANG=C\n"), "{out}");
}

#[tokio::test]
async fn an_environment_that_cannot_be_is_refused_before_anything_is_made() -> Outcome {
    let rig = Rig::new();
    for (name, value) in [("A", "a\0--bind\0/\0/host"), ("A=B", ""), ("", "a")] {
        let mut script = script("true");
        script.spec.env = vec![(name.into(), value.into())];
        let refused = rig.sandboxes.create(&rig.at, 1, &script.spec, super::rig::nothing()).await;
        assert!(matches!(refused, Err(SandboxError::Unsupported(_))), "{refused:?}");
    }
    assert!(rig.sandboxes.list().await?.is_empty());
    Ok(())
}

#[tokio::test]
async fn signals_reach_a_harness_as_they_should() {
    let rig = Rig::new();
    let records = rig.run(&script("sh -c 'kill -HUP $$'; echo $?; sh -c 'kill -INT $$'; echo $?; kill -TERM $$").spec).await;
    assert_eq!(out_text(&records), "129\n130\n");
    assert_eq!((exit(&records).code, exit(&records).signal), (Some(143), Some(15)));
}

#[tokio::test]
async fn what_the_checkpoint_restores_belongs_to_the_harness() -> Outcome {
    let rig = Rig::new();
    let script = script("cat dir/a; echo more >> dir/a; cat ../home/agent/b; ls $SANDLOG_FILES/sub; rm $SANDLOG_FILES/sub/c || echo kept");
    let fill = Box::new(|paths: &worker::sandbox::Paths| {
        fs::create_dir(paths.workspace.join("dir"))?;
        fs::write(paths.workspace.join("dir/a"), "a\n")?;
        fs::set_permissions(paths.workspace.join("dir/a"), fs::Permissions::from_mode(0o600))?;
        std::os::unix::fs::symlink("/etc/passwd", paths.workspace.join("link"))?;
        fs::write(paths.home.join("b"), "b\n")?;
        fs::create_dir(paths.files.join("sub"))?;
        fs::write(paths.files.join("sub/c"), "c\n")
    });
    rig.sandboxes.create(&rig.at, 1, &script.spec, fill).await?;
    let mut attached = rig.attach().await;
    attached.orders.inbox(0, Vec::new(), true).await;
    assert_eq!(out_text(&rest(&mut attached).await), "a\nb\nc\nkept\n");
    let workspace = rig.sandboxes.paths(&rig.at).await.workspace;
    assert_eq!(fs::read_to_string(workspace.join("dir/a"))?, "a\nmore\n");
    use std::os::unix::fs::MetadataExt;
    assert_eq!(fs::metadata("/etc/passwd")?.uid(), 0);
    Ok(())
}

#[tokio::test]
async fn paths_longer_than_a_system_call_takes_are_given_to_the_harness_and_removed() -> Outcome {
    let rig = Rig::new();
    let name = "x".repeat(200);
    let make = format!("for n in $(seq 30); do mkdir {name} && cd -P {name} || exit 3; done; echo deep > file");
    let script = script(&format!("for n in $(seq 30); do cd -P {name} || exit 3; done; cat file; echo new >> file && tail -n 1 file"));
    let fill = Box::new(move |paths: &worker::sandbox::Paths| {
        let made = std::process::Command::new("sh").arg("-c").arg(&make).current_dir(&paths.workspace).status()?;
        if made.success() { Ok(()) } else { Err(std::io::Error::other("not made")) }
    });
    rig.sandboxes.create(&rig.at, 1, &script.spec, fill).await?;
    let mut attached = rig.attach().await;
    attached.orders.inbox(0, Vec::new(), true).await;
    let records = rest(&mut attached).await;
    assert_eq!(out_text(&records), "deep\nnew\n", "{records:?}");
    rig.sandboxes.erase(rig.at.session).await?;
    assert!(!rig.path().await.exists());
    Ok(())
}

#[tokio::test]
async fn a_long_path_works() {
    let long = format!("{0}/{0}/data", "x".repeat(200));
    let rig = Rig::below(&long);
    let records = rig.run(&script("pwd").spec).await;
    assert_eq!(out_text(&records), "/workspace\n");
}
