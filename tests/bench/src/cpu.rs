//! What processor time whole trees of processes have used: what runs, what has ended, and what has let go of its parent.
//!
//! The kernel adds the time of a process that has ended to the one that waits for it. Runners are nobody's children by design, so this process adopts them
//! (`adopt`) and waits for their ends (`reap_all`).

use std::collections::HashMap;
use std::fs;
use std::time::Duration;

use rustix::process::{Pid, WaitOptions};

/// Hundredths of a second, everywhere on Linux.
const TICK: Duration = Duration::from_millis(10);

struct Process {
    parent: i32,
    own: u32,
    /// Of children that have ended and were waited for, and theirs.
    waited: u32,
}

/// From now on whatever loses its parent below this process becomes its child.
pub(crate) fn adopt() {
    rustix::process::set_child_subreaper(Some(rustix::process::getpid())).expect("an option");
}

/// Waits for all adopted children, which are about to end. `ours` are waited for by those who started them.
pub(crate) fn reap_all(ours: &[i32]) {
    for pid in children().into_iter().filter(|pid| !ours.contains(pid)) {
        let _ = rustix::process::waitpid(Pid::from_raw(pid), WaitOptions::empty());
    }
}

/// The children there are now.
pub(crate) fn children() -> Vec<i32> {
    table().into_iter().filter(|(_, process)| process.parent == me()).map(|(pid, _)| pid).collect()
}

/// Of all that this process has started or adopted, without its own.
pub(crate) fn of_children() -> Duration {
    let table = table();
    let own = table.get(&me()).map_or(0, |process| process.own);
    TICK * (below(&table, me()) - own)
}

/// Of a process and all below it. Nothing where there is none.
pub(crate) fn of(root: i32) -> Duration {
    TICK * below(&table(), root)
}

fn me() -> i32 {
    rustix::process::getpid().as_raw_nonzero().get()
}

fn below(table: &HashMap<i32, Process>, root: i32) -> u32 {
    let children = table.iter().filter(|(_, process)| process.parent == root).map(|(pid, _)| below(table, *pid)).sum::<u32>();
    children + table.get(&root).map_or(0, |process| process.own + process.waited)
}

fn table() -> HashMap<i32, Process> {
    let entries = fs::read_dir("/proc").expect("/proc").flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    pids.filter_map(|pid| Some((pid, read(&fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)?))).collect()
}

/// The name in the second field can hold anything, so fields count from the last `)`: the parent at 4, the times at 14 to 17.
fn read(stat: &str) -> Option<Process> {
    let fields: Vec<&str> = stat.get(stat.rfind(')')? + 1..)?.split_ascii_whitespace().collect();
    let number = |at: usize| fields.get(at - 3)?.parse::<u32>().ok();
    Some(Process { parent: fields.get(1)?.parse().ok()?, own: number(14)? + number(15)?, waited: number(16)? + number(17)? })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_read_past_a_name_with_blanks_and_parentheses() {
        let process = read("12 (a) b) Z 7 12 12 0 -1 4194304 1 2 3 4 5 6 7 8 20 0 1 0 4711").expect("a process");
        assert_eq!((process.parent, process.own, process.waited), (7, 11, 15));
    }
}
