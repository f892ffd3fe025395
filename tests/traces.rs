//! What a deployment leaves on the machine: processes that name its folder, stand in it, or have mounts out of it.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::eventually;

/// How the folders of tests begin, which makes a name that nothing else on the machine has.
pub const PREFIX: &str = "sandlog-e2e-";

/// Every process but this one that has to do with the test's folder that `folder` is or is in, as `pid: why: command line`.
pub fn of(folder: &Path) -> Vec<String> {
    let mut names = folder.iter().filter_map(|name| name.to_str());
    let mark = names.find(|name| name.starts_with(PREFIX)).expect("a folder of a test");
    let me = std::process::id().to_string();
    let Ok(entries) = fs::read_dir("/proc") else { return Vec::new() };
    entries
        .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
        .filter(|pid| pid.bytes().all(|byte| byte.is_ascii_digit()) && *pid != me)
        .filter_map(|pid| trace(&pid, mark))
        .collect()
}

fn trace(pid: &str, mark: &str) -> Option<String> {
    let read = |file: &str| String::from_utf8_lossy(&fs::read(format!("/proc/{pid}/{file}")).unwrap_or_default()).replace('\0', " ");
    let command = read("cmdline");
    // A zombie holds nothing any more, and goes when its parent looks.
    if read("stat").rsplit(')').next().is_some_and(|rest| rest.trim_start().starts_with('Z')) {
        return None;
    }
    let standing = fs::read_link(format!("/proc/{pid}/cwd")).unwrap_or_default();
    let why = match () {
        () if command.contains(mark) => "names it",
        () if standing.to_string_lossy().contains(mark) => "stands in it",
        () if read("mountinfo").contains(mark) => "has mounts of it",
        () => return None,
    };
    Some(format!("{pid}: {why}: {command}"))
}

/// Waits until nothing is left, or panics with what is.
pub async fn gone(folder: &Path, limit: Duration) {
    let none_left = eventually("no trace", limit * 2, || async { of(folder).is_empty().then_some(()) });
    let waited = tokio::time::timeout(limit, none_left).await;
    assert!(waited.is_ok(), "left after {limit:?}:\n{}", of(folder).join("\n"));
}

/// The PID namespaces of the processes that have this word in their command line: whatever the sandbox started is in there, wherever it forked to.
pub fn namespaces(word: &str) -> Vec<PathBuf> {
    let found = pids().filter(|pid| fs::read_to_string(format!("/proc/{pid}/cmdline")).is_ok_and(|command| command.contains(word)));
    found.filter_map(|pid| namespace(&pid)).collect()
}

/// All processes of a PID namespace.
pub fn inside(space: &Path) -> Vec<String> {
    let alive = |pid: &String| fs::read_to_string(format!("/proc/{pid}/stat")).is_ok_and(|stat| !stat.contains(") Z "));
    pids().filter(alive).filter(|pid| namespace(pid).as_deref() == Some(space)).collect()
}

fn namespace(pid: &str) -> Option<PathBuf> {
    fs::read_link(format!("/proc/{pid}/ns/pid")).ok()
}

fn pids() -> impl Iterator<Item = String> {
    let entries = fs::read_dir("/proc").into_iter().flatten();
    entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok()).filter(|pid| pid.bytes().all(|byte| byte.is_ascii_digit()))
}
