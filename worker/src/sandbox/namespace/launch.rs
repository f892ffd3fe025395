//! Waiting for a runner that is being started, and ending one that does not come that far.

use std::fs;
use std::io::{self, Read};
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::process::{Pid, Signal, kill_process};
use rustix::time::Timespec;

/// All that is said until whoever could say more is gone. `None`: that took longer than `limit`.
pub(super) fn hear(mut from: impl Read + AsFd, limit: Duration) -> io::Result<Option<Vec<u8>>> {
    let (end, mut said, mut piece) = (Instant::now() + limit, Vec::new(), [0; 4096]);
    loop {
        let left = end.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Ok(None);
        }
        let wait = Timespec { tv_sec: i64::try_from(left.as_secs()).unwrap_or(i64::MAX), tv_nsec: i64::from(left.subsec_nanos()) };
        let ready = match poll(&mut [PollFd::new(&from, PollFlags::IN)], Some(&wait)) {
            Err(rustix::io::Errno::INTR) => 0,
            ready => ready?,
        };
        if ready > 0 {
            match from.read(&mut piece)? {
                0 => return Ok(Some(said)),
                length => said.extend_from_slice(&piece[..length]),
            }
        }
    }
}

/// Kills the runner of a folder, by its command line: it is nobody's child, and has not written yet who it is.
pub(super) fn end(folder: &Path) {
    let line = [b"sandlog-runner\0run\0", folder.as_os_str().as_bytes(), b"\0"].concat();
    for entry in fs::read_dir("/proc").into_iter().flatten().flatten() {
        let pid = entry.file_name().to_str().and_then(|name| name.parse().ok()).and_then(Pid::from_raw);
        if let Some(pid) = pid
            && fs::read(entry.path().join("cmdline")).is_ok_and(|told| told == line)
        {
            // It may be gone by now.
            let _ = kill_process(pid, Signal::KILL);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::CommandExt;
    use std::process::{Command, Stdio};

    use super::*;

    #[test]
    fn what_is_said_is_heard_to_its_end_or_to_the_limit() {
        let said = |script: &str, limit| {
            let mut child = Command::new("sh").args(["-c", script]).stderr(Stdio::piped()).spawn().unwrap();
            let heard = hear(child.stderr.take().unwrap(), limit).unwrap();
            child.kill().unwrap();
            child.wait().unwrap();
            heard
        };
        assert_eq!(said("echo a >&2; echo b >&2", Duration::from_secs(20)).as_deref(), Some(&b"a\nb\n"[..]));
        assert_eq!(said("echo a >&2; exec sleep 60", Duration::from_millis(200)), None);
    }

    #[test]
    fn a_runner_that_stands_still_is_ended_and_that_of_another_folder_is_not() {
        let folder = tempfile::tempdir().unwrap();
        let start = |folder: &Path| {
            let mut command = Command::new("sh");
            // A shell whose command line is that of a runner.
            command.arg0("sandlog-runner").arg("run").arg(folder).stdin(Stdio::null());
            command
        };
        let script = folder.path().join("run");
        fs::write(&script, "kill -STOP $$\n").unwrap();
        let (ours, theirs) = (folder.path().join("ours"), folder.path().join("ours-too"));
        let begin = |path: &Path| start(path).current_dir(folder.path()).spawn().unwrap();
        let (mut one, mut other) = (begin(&ours), begin(&theirs));
        // Its command line may not be there yet at its very start.
        let killed = (0..2_000).any(|_| {
            end(&ours);
            std::thread::sleep(Duration::from_millis(5));
            one.try_wait().unwrap().is_some()
        });
        assert!(killed);
        assert!(other.try_wait().unwrap().is_none(), "it is another one's");
        other.kill().unwrap();
        other.wait().unwrap();
    }
}
