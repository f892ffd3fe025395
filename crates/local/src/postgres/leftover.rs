//! Servers that an earlier `sandlog` left on a cluster.
//!
//! The pid in postmaster.pid proves nothing: it may be another program's by now, and backends may outlive their postmaster. What a process has as its
//! working folder does: every process of a server stands in its cluster, also where a mount namespace shows it under another path.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use super::{PostgresError, at};

/// Stops what runs on `cluster` and clears a postmaster.pid without a server. The caller holds the data folder's lock.
pub(super) fn stop(cluster: &Path) -> Result<(), PostgresError> {
    // Fast shutdown, then immediate, then none left to ask.
    for (signal, patience) in [(Signal::INT, 30), (Signal::QUIT, 10), (Signal::KILL, 5)] {
        let standing = processes(cluster);
        if standing.is_empty() {
            break;
        }
        let postmaster = recorded(cluster).filter(|pid| standing.contains(pid));
        tracing::info!(?standing, ?postmaster, "a Postgres server of an earlier sandlog still runs: stopping it");
        match postmaster {
            Some(pid) if signal != Signal::KILL => signal_all(&[pid], signal),
            // Backends without a postmaster end by themselves soon; they know no fast shutdown.
            _ => signal_all(&standing, if signal == Signal::INT { Signal::TERM } else { signal }),
        }
        let end = Instant::now() + Duration::from_secs(patience);
        while !processes(cluster).is_empty() && Instant::now() < end {
            std::thread::sleep(Duration::from_millis(10));
        }
    }
    if let Some(pid) = processes(cluster).first() {
        return Err(PostgresError::Leftover { pid: pid.as_raw_nonzero().get(), folder: cluster.to_owned() });
    }
    let file = cluster.join("postmaster.pid");
    match fs::remove_file(&file) {
        Err(cause) if cause.kind() != std::io::ErrorKind::NotFound => Err(at("removing", file)(cause)),
        _ => Ok(()),
    }
}

fn signal_all(pids: &[Pid], signal: Signal) {
    for pid in pids {
        // One that has just ended is what we want.
        let _ = kill_process(*pid, signal);
    }
}

fn recorded(cluster: &Path) -> Option<Pid> {
    let text = fs::read_to_string(cluster.join("postmaster.pid")).ok()?;
    Pid::from_raw(text.lines().next()?.trim().parse().ok()?)
}

/// All processes of a Postgres server whose working folder is `cluster`.
fn processes(cluster: &Path) -> Vec<Pid> {
    let Ok(folder) = fs::metadata(cluster) else { return Vec::new() };
    let Ok(entries) = fs::read_dir("/proc") else { return Vec::new() };
    entries
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse::<i32>().ok())
        .filter(|pid| {
            let program = fs::read_link(format!("/proc/{pid}/exe")).unwrap_or_default();
            let program = program.file_name().and_then(|name| name.to_str()).unwrap_or_default().to_owned();
            let standing = fs::metadata(format!("/proc/{pid}/cwd"));
            // An upgraded server's program reads "postgres (deleted)".
            program.starts_with("postgres") && standing.is_ok_and(|at| (at.dev(), at.ino()) == (folder.dev(), folder.ino()))
        })
        .filter_map(Pid::from_raw)
        .collect()
}
