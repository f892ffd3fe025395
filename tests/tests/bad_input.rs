//! What `sandlog` refuses: each with a clear error, a failure as its exit code, and nothing left.

use std::fs;
use std::net::TcpListener;
use std::time::Duration;

use e2e::deployment::{Folder, agents};
use e2e::instance::{Ended, command, finish};
use e2e::{Database, traces};

/// Runs `sandlog ARGS` that has to fail, with `said` on standard error and nothing left of it.
async fn fails(args: &[&str], more: &[(&str, String)], said: &[&str]) -> Ended {
    let folder = Folder::new();
    let mut variables = vec![
        ("SANDLOG_DATA_DIR".to_owned(), folder.path().join("data").display().to_string()),
        ("SANDLOG_AGENTS".into(), agents().display().to_string()),
        ("SANDLOG_PORT".into(), "0".into()),
    ];
    variables.extend(more.iter().map(|(name, value)| ((*name).to_owned(), value.clone())));
    let ended = finish(command(args, &variables)).await;
    assert!(!ended.status.success(), "{ended:?}");
    for part in said {
        assert!(ended.stderr.contains(part), "{part:?} is not in: {}", ended.stderr);
    }
    assert_eq!(ended.stdout, "");
    traces::gone(folder.path(), Duration::from_secs(30)).await;
    ended
}

#[tokio::test]
async fn one_role_without_a_database() {
    for role in ["api", "worker"] {
        fails(&["up", "--only", role], &[], &["DATABASE_URL: missing"]).await;
    }
}

#[tokio::test]
async fn every_fault_of_the_environment_at_once() {
    let wrong = [("SANDLOG_PORT", "many".to_owned()), ("SANDLOG_AUTH", "key".into()), ("SANDLOG_LEASE_SECONDS", "-1".into())];
    fails(&["up"], &wrong, &["SANDLOG_PORT: ", "SANDLOG_AUTH_KEYS: ", "SANDLOG_LEASE_SECONDS: "]).await;
}

#[tokio::test]
async fn an_open_address_without_authentication() {
    fails(&["up"], &[("SANDLOG_HOST", "0.0.0.0".into())], &["SANDLOG_HOST: ", "loopback"]).await;
}

#[tokio::test]
async fn authentication_that_is_half_set_up() {
    let variables = [("SANDLOG_AUTH", "jwt".to_owned()), ("SANDLOG_AUTH_KEYS", "keys.toml".into()), ("SANDLOG_PORT", "x".into())];
    fails(&["up"], &variables, &["SANDLOG_AUTH_JWKS: missing", "SANDLOG_AUTH_KEYS: it is for SANDLOG_AUTH=key", "SANDLOG_PORT: "]).await;
}

#[tokio::test]
async fn a_postgres_that_does_not_answer() {
    let closed = TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr()).expect("a port");
    let url = format!("postgres://ann:secret@{closed}/log");
    for args in [&["up"][..], &["up", "--only", "api"], &["up", "--only", "worker"]] {
        let ended = fails(args, &[("DATABASE_URL", url.clone())], &["Postgres", &closed.to_string()]).await;
        assert!(!ended.stderr.contains("secret"), "{}", ended.stderr);
    }
}

#[tokio::test]
async fn a_postgres_that_is_read_only() {
    let database = Database::create();
    database.rows(&format!("ALTER DATABASE {} SET default_transaction_read_only = on", database.name()));
    let urls = [("DATABASE_URL", database.functions_url()), ("DATABASE_MIGRATE_URL", database.owner_url())];
    for args in [&["up"][..], &["up", "--only", "api"], &["up", "--only", "worker"]] {
        fails(args, &urls, &["Postgres", "read-only"]).await;
    }
}

#[tokio::test]
async fn a_table_that_another_build_left() {
    let database = Database::create();
    database
        .rows("create schema sandlog; create table sandlog.hosts (host text, kind text, label text, seen_at timestamptz, primary key (host, kind))");
    database.rows("grant all on schema sandlog to public; alter schema sandlog owner to sandlog_e2e_owner; alter table sandlog.hosts owner to sandlog_e2e_owner");
    let urls = [("DATABASE_URL", database.functions_url()), ("DATABASE_MIGRATE_URL", database.owner_url())];
    for args in [&["up"][..], &["up", "--only", "api"], &["up", "--only", "worker"]] {
        fails(args, &urls, &["sandlog.hosts", "no key (host)", "SANDLOG_SCHEMA"]).await;
    }
    // And to those who may not migrate.
    fails(&["up", "--only", "api"], &urls[..1], &["sandlog.hosts", "no key (host)"]).await;
}

#[tokio::test]
async fn a_bad_agents_file_with_line_and_reason() {
    let folder = Folder::new();
    let file = folder.path().join("agents.toml");
    for (text, said) in [
        ("[agents.a]\nname = \"A\"\nharness = \"command\"\nnetwork = \"none\"\ncommand = [\"x\"]\nspeed = 3\n", ["line 6", "speed"]),
        (
            "[agents.a]\nname = \"A\"\nharness = \"command\"\nnetwork = \"none\"\ncommand = [\"x\"]\nlimits = { memory = \"none\" }\n",
            ["line 6", "memory"],
        ),
        ("[agents.a\n", ["line 1", ""]),
    ] {
        fs::write(&file, text).expect("a file");
        fails(&["up"], &[("SANDLOG_AGENTS", file.display().to_string())], &[&file.display().to_string(), said[0], said[1]]).await;
    }
    fails(&["up"], &[("SANDLOG_AGENTS", "/no/such/file".into())], &["/no/such/file", "SANDLOG_AGENTS"]).await;
}

#[tokio::test]
async fn a_port_in_use() {
    let taken = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = taken.local_addr().expect("a port").port().to_string();
    fails(&["up"], &[("SANDLOG_PORT", port.clone())], &[&port, "in use", "SANDLOG_PORT"]).await;
}

#[tokio::test]
async fn no_bubblewrap() {
    let empty = Folder::new();
    fails(&["up"], &[("PATH", empty.path().display().to_string())], &["bubblewrap", "apt-get install"]).await;
}

#[tokio::test]
async fn no_postgres_server() {
    let empty = Folder::new();
    fails(&["up"], &[("SANDLOG_POSTGRES_BIN", empty.path().display().to_string())], &["no Postgres server", "apt-get install postgresql"]).await;
}

#[tokio::test]
async fn a_server_that_does_not_answer_a_client() {
    let closed = TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr()).expect("a port");
    fails(&["submit", "echo", "hi"], &[("SANDLOG_URL", format!("http://{closed}"))], &["does not answer"]).await;
    fails(&["submit", "echo", "hi"], &[("SANDLOG_URL", "ftp://x".into())], &["SANDLOG_URL"]).await;
}
