//! Rigs whose egress has a key and a stand-in upstream, and scripts that ask it.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use worker::sandbox::{Body, Door, Network, Record, SandboxSpec};

use crate::sandbox::rig::{Rig, cmdline, eventually, pids, runner, script};
use crate::sandbox::upstream::Upstream;

pub(super) const KEY: &str = "the-real-key-d41d8cd98f00b204";

/// Shell functions of a plain client: `ask METHOD PATH [HEADERS]` with the body on standard input.
const CLIENT: &str = r#"
    ask() { exec 3<>/dev/tcp/127.0.0.1/8787 || return; body=$(cat); printf '%s %s HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-length: %s\r\n%b\r\n%s' \
        "$1" "$2" ${#body} "${3-}" "$body" >&3; cat <&3; status=$?; exec 3<&-; echo; return $status; }
"#;

pub(super) fn rig(upstream: &Upstream) -> Rig {
    rig_with(&[("ANTHROPIC_API_KEY", KEY), ("SANDLOG_UPSTREAM_ANTHROPIC", &upstream.url)])
}

pub(super) fn rig_with(variables: &[(&str, &str)]) -> Rig {
    let folder = tempfile::tempdir().unwrap();
    let program = program(folder.path(), variables);
    Rig::in_folder(folder, "data", &program)
}

/// The program with variables of its own, since those of a process are all tests'.
pub(super) fn program(folder: &Path, variables: &[(&str, &str)]) -> PathBuf {
    let program = folder.join("egress");
    let set: String = variables.iter().map(|(name, value)| format!("export {name}='{value}'\n")).collect();
    let real = runner().with_file_name("sandlog-egress");
    fs::write(&program, format!("#!/bin/sh\n{set}exec {} \"$@\"\n", real.display())).unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    program
}

pub(super) fn isolated(text: &str) -> SandboxSpec {
    let script = script("");
    let mut spec = script.spec;
    spec.command = ["/bin/bash", "-c", &format!("{CLIENT}{text}"), &script.marker].map(String::from).to_vec();
    spec.network = Network::Isolated { upstreams: vec!["anthropic".into()] };
    spec
}

pub(super) fn doors(records: &[Record]) -> Vec<Door> {
    let door = |record: &Record| if let Body::Door(door) = &record.body { Some((**door).clone()) } else { None };
    records.iter().filter_map(door).collect()
}

/// The pid of the rig's egress.
pub(super) fn egress(rig: &Rig) -> i32 {
    let folder = rig.folder.path().join("data/egress").canonicalize().unwrap().display().to_string();
    let mut found = Vec::new();
    eventually("one egress", || {
        found = pids().into_iter().filter(|pid| cmdline(*pid).starts_with(&format!("sandlog-egress\0daemon\0{folder}\0"))).collect();
        found.len() == 1
    });
    found[0]
}
