//! What a sandboxed program is, sees and leaves.

use std::time::Duration;

use e2e::http::{Http, Submit, text};
use e2e::{eventually, unique};

on_all_shapes!(it_has_no_rights, its_environment_has_nothing_of_the_servers, what_it_leaves_behind_dies_with_the_turn);

async fn it_has_no_rights(http: Http) {
    let run = http.foreground(Submit::message("self")).await;
    let content = text(&run, "content");
    let lines: Vec<&str> = content.lines().collect();
    assert_ne!(lines[0], "0");
    assert_eq!(lines[1..], ["CapEff:\t0000000000000000", "NoNewPrivs:\t1"]);
}

async fn its_environment_has_nothing_of_the_servers(http: Http) {
    let run = http.foreground(Submit::message("env")).await;
    let content = text(&run, "content");
    let known = ["HOME", "LANG", "LOGNAME", "OLDPWD", "PATH", "PWD", "SANDLOG_FILES", "SHELL", "SHLVL", "TMPDIR", "USER", "_"];
    let names = content.lines().filter_map(|line| line.split_once('=')).map(|(name, _)| name);
    let unknown: Vec<&str> = names.filter(|name| !known.contains(name)).collect();
    assert!(unknown.is_empty(), "{unknown:?}");
}

async fn what_it_leaves_behind_dies_with_the_turn(http: Http) {
    let session = unique("s");
    let in_session = |message: &str| Submit::message(message).field("session_id", &session);
    assert_eq!(http.foreground(in_session("stray")).await["status"], "COMPLETED");
    let first = http.foreground(in_session("read alive")).await["content"].clone();
    // Were it alive, it would write ten times a second: give it fifteen turns of that.
    let begun = std::time::Instant::now();
    eventually("time passed", Duration::from_secs(5), || async { (begun.elapsed() > Duration::from_millis(1500)).then_some(()) }).await;
    assert_eq!(http.foreground(in_session("read alive")).await["content"], first);
}
