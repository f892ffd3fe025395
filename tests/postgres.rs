//! A Postgres server of a test's own, which it may end without a word and start again. What is on a disk that nobody cut the power of stays, so it does not
//! sync; every commit is written all the same, because a log that loses commits is another fault.

use std::fs::File;
use std::os::unix::fs::chown;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

use crate::eventually;

const LIMIT: Duration = Duration::from_secs(60);

/// Ended when it is dropped.
#[derive(Debug)]
pub struct Postgres {
    child: Option<Child>,
    pub port: u16,
    /// Who it runs as, where this is root: it refuses to be that.
    account: Option<(u32, u32)>,
    folder: TempDir,
}

impl Postgres {
    pub async fn start() -> Postgres {
        let folder = tempfile::Builder::new().prefix("sandlog-postgres-").tempdir().expect("a folder");
        let account = rustix::process::geteuid().is_root().then(account);
        if let Some((uid, gid)) = account {
            chown(folder.path(), Some(uid), Some(gid)).expect("its folder");
        }
        // Free now; somebody else may take it before the server does, which then shows below.
        let port = std::net::TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr()).expect("a port").port();
        let mut postgres = Postgres { child: None, port, account, folder };
        let mut made = postgres.command("initdb");
        made.args(["-U", "postgres", "-A", "trust", "-E", "UTF8", "--no-locale", "--no-sync", "-D"]).arg(postgres.data());
        let made = made.output().expect("initdb");
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
        postgres.restart().await;
        postgres
    }

    /// Of its superuser, as `./dev test` gives the one of the server for all tests.
    pub fn url(&self) -> String {
        format!("postgres://postgres@127.0.0.1:{}/postgres", self.port)
    }

    /// Ends it as `immediate` does: no connection hears a good-bye worth the name, and the next start recovers.
    pub fn crash(&mut self) {
        if let Some(mut child) = self.child.take() {
            let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw).expect("a process");
            let _ = kill_process(pid, Signal::QUIT);
            let _ = child.wait();
        }
    }

    /// On the same port, with all that was committed.
    pub async fn restart(&mut self) {
        self.crash();
        let mut server = self.command("postgres");
        server.arg("-D").arg(self.data()).args(["-p", &self.port.to_string()]);
        for setting in ["listen_addresses=127.0.0.1", "unix_socket_directories=", "fsync=off", "max_connections=500"] {
            server.args(["-c", setting]);
        }
        server.stdout(Stdio::null()).stderr(File::create(self.folder.path().join("log")).expect("a log"));
        self.child = Some(server.spawn().expect("postgres"));
        let file = self.data().join("postmaster.pid");
        eventually("Postgres is ready", LIMIT, || async {
            std::fs::read_to_string(&file).ok()?.lines().any(|line| line.starts_with("ready")).then_some(())
        })
        .await;
    }

    fn data(&self) -> PathBuf {
        self.folder.path().join("data")
    }

    fn command(&self, program: &str) -> Command {
        let mut command = Command::new(binaries().join(program));
        command.current_dir("/").env_clear().envs([("LC_ALL", "C"), ("TZ", "UTC"), ("PATH", "/usr/bin:/bin")]).stdin(Stdio::null());
        if let Some((uid, gid)) = self.account {
            command.uid(uid).gid(gid);
        }
        command
    }
}

impl Drop for Postgres {
    fn drop(&mut self) {
        self.crash();
    }
}

/// `postgres`, else `nobody`.
fn account() -> (u32, u32) {
    let passwd = std::fs::read_to_string("/etc/passwd").unwrap_or_default();
    let of = |name: &str| {
        let fields: Vec<&str> = passwd.lines().find(|line| line.split(':').next() == Some(name))?.split(':').collect();
        Some((fields.get(2)?.parse().ok()?, fields.get(3)?.parse().ok()?))
    };
    of("postgres").or_else(|| of("nobody")).unwrap_or((65534, 65534))
}

/// The folder of the newest server, where `./dev` looks too.
fn binaries() -> PathBuf {
    let number = |folder: &Path| folder.parent().and_then(|version| version.file_name()?.to_str()?.parse::<u32>().ok());
    let packaged = std::fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten().map(|entry| entry.path().join("bin"));
    let given = std::env::var_os("SANDLOG_POSTGRES_BIN").map(PathBuf::from);
    let on_path = std::env::split_paths(&std::env::var_os("PATH").unwrap_or_default()).collect::<Vec<_>>();
    let has_server = |folder: &PathBuf| folder.join("initdb").is_file() && folder.join("postgres").is_file();
    let found = packaged.filter(has_server).max_by_key(|folder| number(folder));
    let found = given.filter(has_server).or(found).or_else(|| on_path.into_iter().find(has_server));
    found
        .and_then(|folder| folder.join("initdb").canonicalize().ok()?.parent().map(Path::to_owned))
        .expect("a Postgres server: run the tests by ./dev test")
}
