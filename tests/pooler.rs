//! A pgbouncer in transaction mode before a database's server: two transactions of one client may run on two server connections, so whatever relied on
//! the state of a session breaks. Fewer server connections than clients, so that it happens.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use tempfile::TempDir;
use tokio::net::TcpStream;

use crate::database::{FUNCTIONS, OWNER};
use crate::eventually;

const SERVER_CONNECTIONS: usize = 4;

/// Ended when it is dropped.
#[derive(Debug)]
pub struct Pooler {
    child: Child,
    pub port: u16,
    _folder: TempDir,
}

impl Pooler {
    /// Before `HOST:PORT`.
    pub async fn start(server: &str) -> Pooler {
        let (host, server_port) = server.split_once(':').expect("HOST:PORT");
        let folder = tempfile::Builder::new().prefix("sandlog-pooler-").tempdir().expect("a folder");
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).expect("a mode");
        // Free now; somebody else may take it before the pooler does, which then shows below.
        let port = std::net::TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr()).expect("a port").port();
        let (file, users) = (folder.path().join("pgbouncer.ini"), folder.path().join("users.txt"));
        fs::write(&users, format!("\"{OWNER}\" \"\"\n\"{FUNCTIONS}\" \"\"\n")).expect("its users");
        let text = format!(
            "[databases]\n* = host={host} port={server_port}\n[pgbouncer]\nlisten_addr = 127.0.0.1\nlisten_port = {port}\nunix_socket_dir =\n\
             auth_type = trust\nauth_file = {}\npool_mode = transaction\ndefault_pool_size = {SERVER_CONNECTIONS}\nmax_client_conn = 400\n",
            users.display()
        );
        fs::write(&file, text).expect("its configuration");
        let mut command = Command::new("pgbouncer");
        if rustix::process::geteuid().is_root() {
            command.args(["-u", "nobody"]);
        }
        let child = command.arg(&file).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("pgbouncer");
        let pooler = Pooler { child, port, _folder: folder };
        eventually("pgbouncer listens", Duration::from_secs(20), || async { TcpStream::connect(("127.0.0.1", port)).await.ok() }).await;
        pooler
    }
}

impl Drop for Pooler {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
