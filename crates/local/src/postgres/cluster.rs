//! Makes the cluster, once: two roles with passwords of their own, one database, and nobody else let in.

use std::fs;
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, chown};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::account::{self, Account};
use super::binaries::{self, Binaries};
use super::launch::Launch;
use super::{DATABASE, FUNCTIONS, OWNER, PostgresError, at, leftover};

/// A cluster that can be started.
pub(super) struct Cluster {
    pub(super) folder: PathBuf,
    pub(super) binaries: Binaries,
    pub(super) account: Option<Account>,
    pub(super) passwords: Passwords,
}

/// The two roles' passwords. They are in a file of ours, not in the cluster's folder, which is the server's.
pub(super) struct Passwords {
    pub(super) owner: String,
    pub(super) functions: String,
}

/// Finds or makes the cluster in `home` (DATA/postgres). A half-made one is made again: it becomes `data` by a rename.
pub(super) fn open(home: &Path, named: Option<&Path>) -> Result<Cluster, PostgresError> {
    fs::DirBuilder::new().recursive(true).mode(0o711).create(home).map_err(at("making", home))?;
    let home = &fs::canonicalize(home).map_err(at("finding", home))?;
    let (folder, secrets) = (home.join("data"), home.join("passwords"));
    let made = fs::read_to_string(folder.join("PG_VERSION")).ok();
    let binaries = binaries::find(named, made.as_deref().map(str::trim), &folder)?;
    let account = account::choose(&folder);
    let passwords = if made.is_some() {
        leftover::stop(&folder)?;
        Passwords::read(&secrets).ok_or_else(|| PostgresError::NoPasswords { file: secrets, folder: home.clone() })?
    } else {
        make(home, &Launch { binaries: &binaries, account })?
    };
    // At each start, since nothing syncs this file: TCP on loopback, by password, for the two roles on the one database; the superuser comes in nowhere.
    let rules = format!("host {DATABASE} {OWNER},{FUNCTIONS} 127.0.0.1/32 scram-sha-256\n");
    fs::write(folder.join("pg_hba.conf"), rules).map_err(at("writing", folder.join("pg_hba.conf")))?;
    Ok(Cluster { folder, binaries, account, passwords })
}

fn make(home: &Path, launch: &Launch<'_>) -> Result<Passwords, PostgresError> {
    let (draft, folder) = (home.join("data.new"), home.join("data"));
    if draft.exists() {
        leftover::stop(&draft)?;
        fs::remove_dir_all(&draft).map_err(at("removing", &draft))?;
    }
    fs::DirBuilder::new().mode(0o700).create(&draft).map_err(at("making", &draft))?;
    if let Some(account) = launch.account {
        chown(&draft, Some(account.uid), Some(account.gid)).map_err(at("giving away", &draft))?;
    }
    // Nothing is synced on the way, file by file, but all of it at once before it counts: a thousand waits less.
    let options = ["-U", "postgres", "-A", "reject", "-E", "UTF8", "--no-locale", "--no-sync"];
    finish("initdb", launch.command("initdb", &options, &draft)?, "")?;
    let passwords = Passwords::fresh().map_err(at("reading", "/dev/urandom"))?;
    let mut single = launch.command("postgres", &["--single", "-F"], &draft)?;
    single.args(["-c", "exit_on_error=on", "-c", "password_encryption=scram-sha-256", "postgres"]);
    finish("postgres --single", single, &passwords.roles())?;

    passwords.write(&home.join("passwords"))?;
    fs::File::open(home).and_then(|home| Ok(rustix::fs::syncfs(home)?)).map_err(at("syncing", home))?;
    fs::rename(&draft, &folder).map_err(at("naming", &folder))?;
    fs::File::open(home).and_then(|home| home.sync_all()).map_err(at("syncing", home))?;
    Ok(passwords)
}

/// Runs a command to its end; what it said is in the error.
fn finish(program: &'static str, mut command: Command, input: &str) -> Result<(), PostgresError> {
    let failed = |status: String, said: String| PostgresError::Failed { program, status, said };
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().map_err(|cause| failed("not started".into(), cause.to_string()))?;
    if let Some(mut stdin) = child.stdin.take() {
        // A program that ended early says why on its standard error.
        let _ = stdin.write_all(input.as_bytes());
    }
    let output = child.wait_with_output().map_err(|cause| failed("not waited for".into(), cause.to_string()))?;
    if output.status.success() {
        return Ok(());
    }
    let said = [output.stdout, output.stderr].concat();
    Err(failed(output.status.to_string(), String::from_utf8_lossy(&said).trim_end().to_owned()))
}

impl Passwords {
    fn fresh() -> io::Result<Passwords> {
        Ok(Passwords { owner: crate::random::hex(24)?, functions: crate::random::hex(24)? })
    }

    /// In single-user mode a statement is one line.
    fn roles(&self) -> String {
        let Passwords { owner, functions } = self;
        format!(
            "CREATE ROLE {OWNER} LOGIN PASSWORD '{owner}';\n\
             CREATE ROLE {FUNCTIONS} LOGIN PASSWORD '{functions}';\n\
             ALTER ROLE {FUNCTIONS} SET lock_timeout = '10s';\n\
             ALTER ROLE {FUNCTIONS} SET idle_in_transaction_session_timeout = '30s';\n\
             CREATE DATABASE {DATABASE} OWNER {OWNER};\n\
             REVOKE ALL ON DATABASE {DATABASE} FROM PUBLIC;\n\
             GRANT CONNECT ON DATABASE {DATABASE} TO {FUNCTIONS};\n"
        )
    }

    fn read(file: &Path) -> Option<Passwords> {
        let mut text = String::new();
        fs::File::open(file).ok()?.read_to_string(&mut text).ok()?;
        let of = |role: &str| text.lines().find_map(|line| line.strip_prefix(role)?.strip_prefix('=')).map(str::to_owned);
        Some(Passwords { owner: of(OWNER)?, functions: of(FUNCTIONS)? })
    }

    fn write(&self, file: &Path) -> Result<(), PostgresError> {
        let draft = file.with_extension("new");
        let text = format!("{OWNER}={}\n{FUNCTIONS}={}\n", self.owner, self.functions);
        let write = || {
            let mut open = fs::OpenOptions::new();
            let mut to = open.write(true).create(true).truncate(true).mode(0o600).open(&draft)?;
            to.write_all(text.as_bytes())?;
            to.sync_all()?;
            fs::rename(&draft, file)
        };
        write().map_err(at("writing", file))
    }
}
