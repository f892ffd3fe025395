//! What `/proc` says of processes. A process is known by pid and start time, so that a pid used again is not mistaken for it.

use std::fs;

use rustix::process::{Pid, PidfdFlags, Signal};

/// A process, for good: its pid may be used again, not with this start time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Process {
    /// The pid.
    pub pid: i32,
    /// Field 22 of `/proc/PID/stat`.
    pub start: u64,
}

impl Process {
    /// The process that has this pid now.
    pub fn of(pid: i32) -> Option<Self> {
        stat(pid).map(|stat| Self { pid, start: stat.start })
    }

    /// Its state letter, while it is there.
    pub fn state(&self) -> Option<char> {
        stat(self.pid).filter(|stat| stat.start == self.start).map(|stat| stat.state)
    }

    /// Whether it runs no more. A zombie does not; of a PID namespace's first process it even proves that all others in there are gone.
    pub fn gone(&self) -> bool {
        matches!(self.state(), None | Some('Z' | 'X'))
    }

    /// Sends it a signal, and never another process that got its pid.
    pub fn signal(&self, signal: Signal) {
        let Some(pid) = Pid::from_raw(self.pid) else {
            return;
        };
        let Ok(handle) = rustix::process::pidfd_open(pid, PidfdFlags::empty()) else {
            return;
        };
        // The handle holds the process that has the pid now: the one we mean, if the start time still is the one we know.
        if self.state().is_some() {
            // It may have ended meanwhile.
            let _ = rustix::process::pidfd_send_signal(&handle, signal);
        }
    }
}

struct Stat {
    state: char,
    start: u64,
}

fn stat(pid: i32) -> Option<Stat> {
    parse_stat(&fs::read(format!("/proc/{pid}/stat")).ok()?)
}

/// The second field is the program's name, in parentheses, and can hold anything: fields count from the last `)`.
fn parse_stat(stat: &[u8]) -> Option<Stat> {
    let name_end = stat.iter().rposition(|byte| *byte == b')')?;
    let rest = std::str::from_utf8(&stat[name_end + 1..]).ok()?;
    let mut fields = rest.split_ascii_whitespace();
    let state = fields.next()?.chars().next()?;
    // `starttime` is field 22, the state is field 3.
    let start = fields.nth(18)?.parse().ok()?;
    Some(Stat { state, start })
}

/// All pids there are.
pub fn all() -> impl Iterator<Item = i32> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok())
}

/// The children of a process's first thread, oldest first.
pub fn children(pid: i32) -> Vec<i32> {
    let list = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap_or_default();
    list.split_ascii_whitespace().filter_map(|pid| pid.parse().ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_name_with_parentheses_and_spaces_does_not_confuse() {
        let line = b"12 (a) R 9 (b) S 1 12 12 0 -1 4194304 1 2 3 4 5 6 7 8 20 0 1 0 4711 99 1";
        let stat = parse_stat(line).map(|stat| (stat.state, stat.start));
        assert_eq!(stat, Some(('S', 4711)));
    }

    #[test]
    fn this_process_is_there_and_another_start_time_is_not() {
        let pid = std::process::id().cast_signed();
        let me = Process::of(pid).unwrap_or(Process { pid: 0, start: 0 });
        assert!(!me.gone());
        assert!(Process { pid, start: me.start + 1 }.gone());
    }
}
