//! Starts the server's programs: as its account, in a session of its own, with an empty environment.

use std::ffi::CString;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use rustix::mount::{MountPropagationFlags, mount_bind, mount_change};
use rustix::process::{Pid, Signal};
use rustix::thread::UnshareFlags;

use super::PostgresError;
use super::account::{self, Account};
use super::binaries::Binaries;

/// How the server's programs are run on one folder.
pub(super) struct Launch<'a> {
    pub(super) binaries: &'a Binaries,
    pub(super) account: Option<Account>,
}

/// Where a program finds a folder: at its path, or bound elsewhere in the program's own mount namespace.
struct Room {
    inside: PathBuf,
    bind: Option<(CString, CString)>,
}

impl Launch<'_> {
    /// A command of `program` and `-D FOLDER`. It must be spawned by a thread that outlives the program: the kernel stops it when that thread ends.
    pub(super) fn command(&self, program: &str, first: &[&str], folder: &Path) -> Result<Command, PostgresError> {
        let room = self.room(folder)?;
        let mut command = Command::new(self.binaries.folder.join(program));
        command.args(first).arg("-D").arg(&room.inside);
        command.env_clear().env("PATH", "/usr/bin:/bin").env("LC_ALL", "C").env("TZ", "UTC");
        command.current_dir("/").stdin(Stdio::null());
        let (account, bind, parent) = (self.account, room.bind, rustix::process::getpid());
        // SAFETY: between fork and exec `enter` makes system calls only; it allocates nothing and takes no lock.
        unsafe { command.pre_exec(move || enter(bind.as_ref(), account, parent)) };
        Ok(command)
    }

    fn room(&self, folder: &Path) -> Result<Room, PostgresError> {
        let Some(account) = self.account.filter(|account| !account::can_reach(*account, folder)) else {
            return Ok(Room { inside: folder.to_owned(), bind: None });
        };
        let unreachable = |cause: String| PostgresError::Unreachable { folder: folder.to_owned(), uid: account.uid, cause };
        let inside = account::stand_in(account, &self.binaries.folder).ok_or_else(|| unreachable("no folder to show it at".into()))?;
        let c_path = |path: &Path| CString::new(path.as_os_str().as_bytes()).map_err(|cause| unreachable(cause.to_string()));
        Ok(Room { bind: Some((c_path(folder)?, c_path(&inside)?)), inside })
    }
}

/// Runs in the child. The death signal comes last: a change of account clears it.
fn enter(bind: Option<&(CString, CString)>, account: Option<Account>, parent: Pid) -> io::Result<()> {
    // A terminal's Ctrl-C goes to its foreground group: the server must not stop before those who use it.
    rustix::process::setsid()?;
    if let Some((folder, inside)) = bind {
        // SAFETY: the child has one thread, and a mount namespace takes no file descriptor or memory from it.
        unsafe { rustix::thread::unshare_unsafe(UnshareFlags::NEWNS)? };
        mount_change(c"/", MountPropagationFlags::PRIVATE | MountPropagationFlags::REC)?;
        mount_bind(folder.as_c_str(), inside.as_c_str())?;
    }
    if let Some(account) = account {
        rustix::thread::set_thread_groups(&[])?;
        rustix::thread::set_thread_gid(rustix::process::Gid::from_raw(account.gid))?;
        rustix::thread::set_thread_uid(rustix::process::Uid::from_raw(account.uid))?;
    }
    rustix::process::set_parent_process_death_signal(Some(Signal::INT))?;
    if rustix::process::getppid() != Some(parent) {
        return Err(io::ErrorKind::BrokenPipe.into());
    }
    Ok(())
}
