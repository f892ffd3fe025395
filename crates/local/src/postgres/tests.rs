use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use super::Embedded;

/// What the server answers to the first message of `user` on `database`: `R` with a method, or `E` with a text.
fn knock(url: &str, user: &str, database: &str) -> (char, String) {
    let address = url.split('@').nth(1).and_then(|rest| rest.split('/').next()).expect("an address");
    let mut socket = TcpStream::connect(address).expect("a connection");
    let fields = format!("user\0{user}\0database\0{database}\0\0");
    let length = u32::try_from(fields.len() + 8).expect("a short message");
    let message = [&length.to_be_bytes()[..], &196_608_u32.to_be_bytes(), fields.as_bytes()].concat();
    socket.write_all(&message).expect("a message");
    let mut head = [0; 5];
    socket.read_exact(&mut head).expect("an answer");
    let mut body = vec![0; u32::from_be_bytes([head[1], head[2], head[3], head[4]]) as usize - 4];
    socket.read_exact(&mut body).expect("an answer");
    (char::from(head[0]), String::from_utf8_lossy(&body).into_owned())
}

fn refuses_connections(url: &str) -> bool {
    let address = url.split('@').nth(1).and_then(|rest| rest.split('/').next()).expect("an address");
    TcpStream::connect(address).is_err()
}

async fn start(data: &Path) -> Embedded {
    Embedded::start(data, None).await.unwrap_or_else(|fault| panic!("{fault}"))
}

#[tokio::test]
async fn only_the_two_roles_come_in_and_only_by_password() {
    let data = tempfile::tempdir().expect("a folder");
    let server = start(data.path()).await;
    for role in [super::OWNER, super::FUNCTIONS] {
        let (kind, method) = knock(&server.functions_url, role, super::DATABASE);
        assert!(kind == 'R' && method.contains("SCRAM-SHA-256"), "{role}: {kind} {method:?}");
    }
    for (user, database) in [("postgres", "postgres"), ("postgres", super::DATABASE), (super::FUNCTIONS, "postgres")] {
        let (kind, text) = knock(&server.functions_url, user, database);
        assert!(kind == 'E' && text.contains("no pg_hba.conf entry"), "{user}: {kind} {text:?}");
    }
    let secrets = fs::metadata(data.path().join("postgres/passwords")).expect("the passwords");
    assert_eq!(secrets.permissions().mode() & 0o777, 0o600);
    server.stop().await;
}

#[tokio::test]
async fn a_stopped_server_is_gone_and_starts_again_with_the_same_passwords() {
    let data = tempfile::tempdir().expect("a folder");
    let first = start(data.path()).await;
    let (url, password) = (first.functions_url.clone(), password(&first));
    first.stop().await;
    assert!(refuses_connections(&url));
    let second = start(data.path()).await;
    assert_eq!(password, self::password(&second));
    let dropped = second.functions_url.clone();
    drop(second);
    assert!(refuses_connections(&dropped));
}

fn password(server: &Embedded) -> String {
    server.functions_url.split('@').next().unwrap_or_default().to_owned()
}

#[tokio::test]
async fn a_folder_that_the_servers_account_cannot_enter_does() {
    let private = tempfile::tempdir().expect("a folder");
    fs::set_permissions(private.path(), fs::Permissions::from_mode(0o700)).expect("a mode");
    let data = private.path().join("below");
    let server = start(&data).await;
    assert_eq!(knock(&server.functions_url, super::FUNCTIONS, super::DATABASE).0, 'R');
    server.stop().await;
}

#[tokio::test]
async fn a_half_made_cluster_is_made_again() {
    let data = tempfile::tempdir().expect("a folder");
    let draft = data.path().join("postgres/data.new");
    fs::create_dir_all(draft.join("base")).expect("a folder");
    fs::write(draft.join("PG_VERSION"), "15\n").expect("a file");
    start(data.path()).await.stop().await;
    assert!(!draft.exists());
}

#[tokio::test]
async fn a_pid_file_that_names_another_program_holds_up_nothing() {
    let data = tempfile::tempdir().expect("a folder");
    start(data.path()).await.stop().await;
    let pid = std::process::id();
    fs::write(data.path().join("postgres/data/postmaster.pid"), format!("{pid}\n/elsewhere\n")).expect("a file");
    start(data.path()).await.stop().await;
}

#[tokio::test]
async fn a_server_that_ends_by_itself_is_noticed() {
    let data = tempfile::tempdir().expect("a folder");
    let server = start(data.path()).await;
    let file = fs::read_to_string(data.path().join("postgres/data/postmaster.pid")).expect("a pid file");
    let pid = file.lines().next().and_then(|line| line.parse().ok()).and_then(rustix::process::Pid::from_raw).expect("a pid");
    rustix::process::kill_process(pid, rustix::process::Signal::INT).expect("a signal");
    assert!(server.ended().await.contains("postgres/log"));
}
