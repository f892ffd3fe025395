//! The process: one for each folder, nobody's child, ended by itself when nobody needs it.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use runner::egress::{Answer, DOOR, Hello, MAX_LINE, PROTOCOL, To};
use rustix::fs::{FlockOperation, Mode, OFlags};
use rustix::process::DumpableBehavior;
use rustix::thread::{Gid, Uid};

use crate::proxy::Egress;
use crate::settings::{Settings, VARIABLES};
use crate::{client, door};

/// Whom it is when it was started by root: kept for that, and not the sandboxes' user.
const USER: u32 = 61_101;
/// How long one may take to start, to answer or to end.
const LIMIT: Duration = Duration::from_secs(10);
/// A log beyond this is begun anew.
const LOG: u64 = 1 << 20;

fn environment(name: &str) -> Option<String> {
    std::env::var(name).ok()
}

/// Sees to it that one runs in the folder. An answer: what is to be said of it all the same.
pub fn run(folder: &Path) -> io::Result<Option<String>> {
    let settings = Settings::read(environment).map_err(io::Error::other)?;
    DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
    fs::set_permissions(folder, fs::Permissions::from_mode(0o700))?;
    let until = Instant::now() + LIMIT;
    loop {
        if lock(folder)?.is_some() {
            // Somebody else may be as far: then its lock is found held.
            if start(folder)? {
                return Ok(None);
            }
        } else {
            match order(folder, To::Replace { settings: settings.fingerprint().to_owned() }) {
                Ok(Answer::Same) => return Ok(None),
                Ok(Answer::Busy | Answer::Refused) => {
                    return Ok(Some("egress runs with other settings (keys, upstreams or release) and is in use: they hold until it is not".into()));
                }
                // It ends, starts, or is about to.
                Ok(Answer::Ends) | Err(_) => {}
            }
        }
        if Instant::now() > until {
            return Err(io::Error::other("egress does not answer and does not end"));
        }
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Ends the one that runs in the folder, unless somebody needs it.
pub fn end(folder: &Path) -> io::Result<()> {
    let until = Instant::now() + Duration::from_secs(3);
    while folder.exists() && lock(folder)?.is_none() && Instant::now() < until {
        // Whatever it says, the lock tells.
        let _ = order(folder, To::End);
        std::thread::sleep(Duration::from_millis(10));
    }
    Ok(())
}

/// The folder's lock, if nobody has it. It lasts as long as the file is open.
fn lock(folder: &Path) -> io::Result<Option<File>> {
    let file = OpenOptions::new().read(true).write(true).create(true).truncate(false).mode(0o600).open(folder.join("lock"))?;
    match rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(Some(file)),
        Err(rustix::io::Errno::WOULDBLOCK) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

fn order(folder: &Path, to: To) -> io::Result<Answer> {
    // The path can be longer than an address holds.
    let folder = File::open(folder)?;
    let mut stream = UnixStream::connect(format!("/proc/self/fd/{}/{DOOR}", folder.as_raw_fd()))?;
    stream.set_read_timeout(Some(LIMIT))?;
    let hello = Hello { protocol: PROTOCOL, deployment: String::new(), sandbox: String::new(), to };
    let mut line = serde_json::to_vec(&hello)?;
    line.push(b'\n');
    stream.write_all(&line)?;
    let mut answer = Vec::new();
    BufReader::new(stream.take(MAX_LINE)).read_until(b'\n', &mut answer)?;
    Ok(serde_json::from_slice(&answer)?)
}

/// Starts the daemon; returns once it holds its lock and listens, or false if another was first.
fn start(folder: &Path) -> io::Result<bool> {
    // This very program, also if the file was replaced meanwhile.
    let mut daemon = Command::new("/proc/self/exe");
    daemon.arg0("sandlog-egress").arg("daemon").arg(folder.canonicalize()?).current_dir("/");
    daemon.env_clear().envs(VARIABLES.iter().filter_map(|name| Some((name, std::env::var_os(name)?))));
    let mut daemon = daemon.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
    let mut said = Vec::new();
    if let Some(stdout) = daemon.stdout.take() {
        stdout.take(1).read_to_end(&mut said)?;
    }
    match said.first() {
        Some(b'k') => Ok(true),
        Some(_) => Ok(false),
        None => {
            let mut why = String::new();
            if let Some(stderr) = daemon.stderr.take() {
                stderr.take(4096).read_to_string(&mut why)?;
            }
            Err(io::Error::other(format!("egress did not start: {}", why.trim())))
        }
    }
}

/// The process itself. On standard output it says a byte when it is ready.
pub fn daemon(folder: &Path) -> io::Result<()> {
    rustix::process::setsid()?;
    rustix::process::umask(Mode::from_raw_mode(0o077));
    let Some(_lock) = lock(folder)? else {
        return io::stdout().write_all(b"n");
    };
    let settings = Settings::read(environment).map_err(io::Error::other)?;
    let upstreams = client::new(settings.certificates.as_deref())?;
    let listener = listen(folder)?;
    let log = log(folder)?;
    become_nobody()?;
    io::stdout().write_all(b"k")?;
    io::stdout().flush()?;
    let null = rustix::fs::open("/dev/null", OFlags::RDWR | OFlags::CLOEXEC, Mode::empty())?;
    rustix::stdio::dup2_stdout(&null)?;
    rustix::stdio::dup2_stderr(&log)?;

    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    runtime.block_on(async {
        let listener = tokio::net::UnixListener::from_std(listener)?;
        door::serve(listener, Egress { settings, upstreams }).await;
        Ok(())
    })
}

fn listen(folder: &Path) -> io::Result<UnixListener> {
    let handle = File::open(folder)?;
    let door = format!("/proc/self/fd/{}/{DOOR}", handle.as_raw_fd());
    // The one before may have left it; with the lock held nobody listens there.
    let _ = fs::remove_file(&door);
    let listener = UnixListener::bind(door)?;
    listener.set_nonblocking(true)?;
    Ok(listener)
}

fn log(folder: &Path) -> io::Result<File> {
    let path = folder.join("log");
    let long = fs::metadata(&path).is_ok_and(|meta| meta.len() > LOG);
    if long {
        fs::remove_file(&path)?;
    }
    OpenOptions::new().create(true).append(true).mode(0o600).open(path)
}

/// It has all open that it needs. Its memory, keys and all, is nobody's to read, also not another's of the same user.
fn become_nobody() -> io::Result<()> {
    if rustix::process::geteuid().is_root() {
        rustix::thread::set_thread_groups(&[])?;
        let (gid, uid) = (Gid::from_raw(USER), Uid::from_raw(USER));
        rustix::thread::set_thread_res_gid(gid, gid, gid)?;
        rustix::thread::set_thread_res_uid(uid, uid, uid)?;
    }
    rustix::thread::set_no_new_privs(true)?;
    rustix::process::set_dumpable_behavior(DumpableBehavior::NotDumpable)?;
    Ok(())
}
