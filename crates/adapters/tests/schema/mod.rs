//! What only the log in Postgres has: a schema that is brought up to date, roles, and upkeep.

mod counts;
mod fit;

use std::sync::Arc;

use adapters::config::Database;
use adapters::postgres::{VERSION, connect, migrate, ready};
use adapters::program::seal;
use adapters::{LogError, Reader, Refused};
use tokio_postgres::error::SqlState;

use crate::kit::*;
use crate::world::{Log, Schema, client};

async fn log_of(schema: &Schema) -> Arc<dyn Log> {
    connect(&schema.url, &schema.name, 4).await.expect("connected")
}

async fn complete(log: &Arc<dyn Log>) {
    let mut turn = claim(log, "a").await;
    turn.begin().await;
    turn.complete("c").await.expect("finished");
}

#[tokio::test]
async fn migrating_twice_is_migrating_once() {
    let schema = Schema::migrated().await;
    let log = log_of(&schema).await;
    let run = accept(&log, "s", "x").await.run_id;
    migrate(&schema.url, &schema.name, None).await.expect("migrated again");
    assert_eq!(row(&log, run).await.submitted.input.message, "x");
    complete(&log).await;
    assert_eq!(log.health().await.expect("healthy").schema, VERSION);
}

/// A build that finds what the one before it made: nothing is believed of a carrier that others may write to, and all else goes on.
#[tokio::test]
async fn the_schema_of_the_release_before_is_enough() {
    let schema = Schema::migrated().await;
    let connected = async || connect(&schema.url, &schema.name, 4).await.expect("connected");
    assert!(seal(&*connected().await).await.expect("read").is_there());
    let before = "drop table {}.seal; delete from {}.migrations where version = 3";
    schema.admin.batch_execute(&before.replace("{}", &schema.name)).await.expect("as it was");
    let postgres = connected().await;
    assert!(!seal(&postgres).await.expect("read").is_there());
    let log: Arc<dyn Log> = postgres;
    assert_eq!(log.health().await.expect("healthy").schema, 2);
    accept(&log, "s", "x").await;
    complete(&log).await;
    // With the owner's URL a start brings it up to date.
    let database = |owner_url| Database { url: schema.url.clone(), owner_url };
    let schema_of = async |owner_url| {
        let log = ready(&database(owner_url), &schema.name, 4).await.expect("ready");
        (log.health().await.expect("healthy").schema, seal(&log).await.expect("read").is_there())
    };
    assert_eq!(schema_of(None).await, (2, false));
    assert_eq!(schema_of(Some(schema.url.clone())).await, (VERSION, true));
}

#[tokio::test]
async fn many_that_start_at_once_make_one_schema() {
    let schema = Schema::fresh().await;
    let mut at_once = tokio::task::JoinSet::new();
    for _ in 0..8 {
        let (url, name) = (schema.url.clone(), schema.name.clone());
        at_once.spawn(async move { migrate(&url, &name, None).await });
    }
    assert!(at_once.join_all().await.into_iter().all(|done| done.is_ok()));
    accept(&log_of(&schema).await, "s", "x").await;
}

#[tokio::test]
async fn a_schema_that_is_not_there_is_missing() {
    let schema = Schema::fresh().await;
    let answer = connect(&schema.url, &schema.name, 4).await.err();
    assert!(matches!(answer, Some(LogError::Missing(_))), "{answer:?}");
    // And so it is when it goes away later.
    migrate(&schema.url, &schema.name, None).await.expect("migrated");
    let log = log_of(&schema).await;
    schema.admin.batch_execute(&format!("drop schema {} cascade", schema.name)).await.expect("dropped");
    let answer = log.submit(submission("s", "x")).await;
    assert!(matches!(answer, Err(Refused::Log(LogError::Missing(_)))), "{answer:?}");
}

#[tokio::test]
async fn a_name_that_would_need_quoting_is_refused() {
    let url = Schema::fresh().await.url;
    for name in ["", "a b", "a\"; drop schema public cascade; --", "Über", "pg_own", "1st", &"x".repeat(60)] {
        let (migrated, connected) = (migrate(&url, name, None).await, connect(&url, name, 1).await.err());
        assert!(matches!(migrated, Err(LogError::Unfit(_))), "{name:?}: {migrated:?}");
        assert!(matches!(connected, Some(LogError::Unfit(_))), "{name:?}: {connected:?}");
    }
}

#[tokio::test]
async fn a_read_only_server_is_no_log() {
    let schema = Schema::migrated().await;
    let separator = if schema.url.contains('?') { '&' } else { '?' };
    let url = format!("{}{separator}options=-c%20default_transaction_read_only%3Don", schema.url);
    let answer = connect(&url, &schema.name, 4).await.err();
    assert!(matches!(answer, Some(LogError::Missing(_))), "{answer:?}");
}

#[tokio::test]
async fn a_server_that_is_away_is_unreachable() {
    // A port that was free a moment ago.
    let port = std::net::TcpListener::bind("127.0.0.1:0").expect("a port").local_addr().expect("an address").port();
    let answer = connect(&format!("postgres://nobody@127.0.0.1:{port}/none"), "sandlog", 1).await.err();
    assert!(matches!(answer, Some(LogError::Unreachable(_))), "{answer:?}");
}

/// A role that may log in, and the URL with which it does.
async fn functions_role(schema: &Schema) -> (String, String) {
    let role = format!("functions_of_{}", schema.name);
    schema.admin.batch_execute(&format!("create role \"{role}\" login password 'f'")).await.expect("a role");
    let (head, rest) = schema.url.split_once("://").expect("a URL");
    let server = rest.rsplit_once('@').map_or(rest, |(_, server)| server);
    let url = format!("{head}://{role}:f@{server}");
    (role, url)
}

#[tokio::test]
async fn the_functions_role_can_do_all_that_the_ports_do() {
    let schema = Schema::fresh().await;
    let (role, url) = functions_role(&schema).await;
    migrate(&schema.url, &schema.name, Some(&role)).await.expect("migrated");
    migrate(&schema.url, &schema.name, Some(&role)).await.expect("migrated again");
    let log: Arc<dyn Log> = connect(&url, &schema.name, 4).await.expect("connected");
    let mut sent = with_key("k", "f", submission("s", "x"));
    sent.attachments.push(adapters::Attachment { name: "a".into(), media_type: "image/png".into(), sha256: "00".repeat(32), body: vec![1] });
    let run = log.submit(sent).await.expect("accepted").run_id;
    let second = accept(&log, "s", "y").await.run_id;
    log.cancel("echo", second, None).await.expect("cancelled");
    let mut turn = claim(&log, "a").await;
    turn.request().await.expect("requested");
    turn.start().await.expect("started");
    log.heartbeat(&[turn.holding()], &[seen("a")], LONG).await.expect("renewed");
    turn.fail_attempt(0).await.expect("failed");
    turn.hand_over().await.expect("handed over");
    complete(&log).await;
    assert_eq!(log.attachments(run).await.expect("read").len(), 1);
    assert_eq!(log.tail(&[(run, 0)], 10).await.expect("read").len(), 3);
    assert_eq!(log.ended(&[run]).await.expect("read"), [run]);
    log.upkeep().await.expect("kept up");
    assert_eq!(log.erase("s", None).await.expect("erased"), adapters::Erased::Gone);
    let erased = log.erasures("a").await.expect("read");
    log.forget(erased[0], "a").await.expect("forgotten");
    assert!(log.erasures("a").await.expect("read").is_empty());
}

#[tokio::test]
async fn the_functions_role_cannot_change_what_is_in_the_log() {
    let schema = Schema::fresh().await;
    let (role, url) = functions_role(&schema).await;
    migrate(&schema.url, &schema.name, Some(&role)).await.expect("migrated");
    accept(&log_of(&schema).await, "s", "x").await;
    let (client, name) = (client(&url).await, &schema.name);
    for forbidden in [
        format!("update {name}.events set type = 'run.completed'"),
        format!("delete from {name}.events"),
        format!("truncate {name}.events"),
        format!("delete from {name}.events_default"),
        format!("drop table {name}.events"),
        format!("create table {name}.mine (x int)"),
    ] {
        let answer = client.batch_execute(&forbidden).await;
        let refused = answer.as_ref().err().and_then(|error| error.code());
        assert_eq!(refused, Some(&SqlState::INSUFFICIENT_PRIVILEGE), "{forbidden}: {answer:?}");
    }
}

#[tokio::test]
async fn upkeep_removes_what_was_appended_to_an_erased_run() {
    let schema = Schema::migrated().await;
    let (log, name) = (log_of(&schema).await, &schema.name);
    let run = accept(&log, "s", "x").await.run_id;
    complete(&log).await;
    log.erase("s", None).await.expect("erased");
    // An append that had seen the run's row before the erasure committed.
    let late = format!("insert into {name}.events values ('{run}', 9, 'output', '{{\"v\": 1, \"frames\": [], \"journal\": 1}}', 0, 0, now())");
    schema.admin.batch_execute(&late).await.expect("inserted");
    log.upkeep().await.expect("kept up");
    assert_eq!(events(&log, run).await.len(), 1, "one that is on its way may still come");
    schema.admin.batch_execute(&format!("update {name}.erased_runs set at = at - interval '1 hour'")).await.expect("aged");
    log.upkeep().await.expect("kept up");
    assert_eq!(events(&log, run).await, []);
}

#[tokio::test]
async fn only_partitions_whose_runs_have_all_ended_are_dropped() {
    let schema = Schema::migrated().await;
    let (log, name) = (log_of(&schema).await, &schema.name);
    let run = accept(&log, "s", "x").await.run_id;
    let drop_all = async || {
        let text = format!("select {name}.drop_partitions_1(clock_timestamp() + interval '100 weeks')");
        schema.admin.query_one(&text, &[]).await.expect("dropped").get::<_, i32>(0)
    };
    assert_eq!(drop_all().await, 4, "the weeks ahead, which hold nothing");
    assert_eq!(events(&log, run).await.len(), 1);
    complete(&log).await;
    assert_eq!(drop_all().await, 1);
    assert_eq!(events(&log, run).await, []);
    assert_eq!(log.run("echo", run, None).await.expect("read"), None);
    log.upkeep().await.expect("kept up");
    accept(&log, "s", "a session goes on without its old runs").await;
    complete(&log).await;
    assert_eq!(drop_all().await, 5, "upkeep made them again");
}
