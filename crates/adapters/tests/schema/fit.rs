//! Tables that are not this build's: told at the start, and where a submission meets one.

use adapters::postgres::{connect, migrate};
use adapters::{Attachment, Intake, LogError, Refused, Submission, Terms};

use crate::kit::*;
use crate::world::Schema;

/// What is refused must be refused with this text.
fn differs(error: Option<LogError>, said: &[&str]) {
    let Some(LogError::Differs(text)) = error else { panic!("{error:?}") };
    assert!(said.iter().all(|part| text.contains(part)) && text.contains("SANDLOG_SCHEMA"), "{text}");
}

async fn of_submission(log: &impl Intake, submission: Submission) -> Option<LogError> {
    match log.submit(submission).await {
        Err(Refused::Log(error)) => Some(error),
        other => panic!("{other:?}"),
    }
}

/// What a schema of the release before has not, and this build can do without.
const DISPENSABLE: &str = "seal";

/// Every table has what the query asks for, in a fresh schema; and the query asks for every column and key that a fresh schema has.
#[tokio::test]
async fn a_fresh_schema_fits_and_nothing_of_it_is_left_out() {
    let schema = Schema::migrated().await;
    connect(&schema.url, &schema.name, 1).await.expect("it fits");
    let text = include_str!("../../src/postgres/queries/fit.sql");
    let columns = format!(
        "select c.table_name::text, c.column_name::text, c.udt_name::text from information_schema.columns c
         where c.table_schema = '{0}' and c.table_name !~ '^events_'",
        schema.name
    );
    let rows = schema.admin.query(&columns, &[]).await.expect("columns");
    assert!(rows.len() > 60);
    for row in rows {
        let (table, column, kind): (String, String, String) = (row.get(0), row.get(1), row.get(2));
        if table == DISPENSABLE {
            continue;
        }
        let at = text.find(&format!("('{table}', '")).unwrap_or_else(|| panic!("{table} is not asked for"));
        let kind = kind.strip_prefix('_').map_or_else(|| kind.clone(), |of| format!("{of}[]"));
        let asked = text[at..].split("'{").next().unwrap_or_default();
        assert!(asked.contains(&format!("{column} {kind}")), "{table}.{column} {kind} is not asked for");
    }
}

#[tokio::test]
async fn a_table_that_differs_is_named_at_the_start() {
    let changes: [(&str, &[&str]); 7] = [
        ("alter table S.runs drop column placed", &[".runs ", "no column placed"]),
        ("alter table S.hosts alter column label type varchar(9)", &[".hosts ", "label as character varying, not as text"]),
        ("alter table S.events drop constraint events_pkey", &[".events ", "no key (run_id,seq)"]),
        ("alter table S.sessions drop constraint sessions_session_id_key", &[".sessions ", "no key (session_id)"]),
        (
            "alter table S.idempotency_keys drop constraint idempotency_keys_pkey, add primary key (key, agent_id)",
            &[".idempotency_keys ", "no key (key)"],
        ),
        ("alter table S.bindings add column owner text not null", &[".bindings ", "value for owner"]),
        ("alter table S.attachments rename column body to bytes", &[".attachments ", "no column body"]),
    ];
    for (change, said) in changes {
        let schema = Schema::migrated().await;
        schema.admin.batch_execute(&change.replace('S', &schema.name)).await.expect("changed");
        differs(connect(&schema.url, &schema.name, 1).await.err(), said);
    }
}

#[tokio::test]
async fn what_a_table_has_besides_does_not_matter() {
    let schema = Schema::migrated().await;
    let more = "alter table S.runs add column note text; alter table S.sessions add column weight int not null default 1;
        create index on S.runs (created_at); create table S.of_another (x int)";
    schema.admin.batch_execute(&more.replace('S', &schema.name)).await.expect("changed");
    let log = connect(&schema.url, &schema.name, 1).await.expect("it fits");
    assert!(log.submit(submission("s", "x")).await.is_ok());
}

#[tokio::test]
async fn a_table_of_an_earlier_build_is_named_by_the_migration_that_meets_it() {
    let schema = Schema::fresh().await;
    let name = &schema.name;
    // One that the migration does not notice, and one at which it fails.
    for (table, said) in [
        ("hosts (host text, kind text, label text, seen_at timestamptz, primary key (host, kind))", [".hosts ", "no key (host)"]),
        ("runs (run_id text primary key)", [".runs ", "run_id as text"]),
    ] {
        schema.admin.batch_execute(&format!("create schema {name}; create table {name}.{table}")).await.expect("a table");
        let done = match migrate(&schema.url, name, None).await {
            Ok(()) => connect(&schema.url, name, 1).await.map(drop),
            Err(error) => Err(error),
        };
        differs(done.err(), &said);
        schema.admin.batch_execute(&format!("drop schema {name} cascade")).await.expect("dropped");
    }
}

#[tokio::test]
async fn a_table_that_changes_later_is_named_by_the_submission_that_meets_it_and_nothing_is_left() {
    let changes: [(&str, &[&str]); 5] = [
        ("alter table S.runs drop column kind", &[".runs ", "no column kind"]),
        ("alter table S.events alter column at type uuid using gen_random_uuid()", &[".events ", "at as uuid, not as timestamp with time zone"]),
        (
            "alter table S.idempotency_keys drop constraint idempotency_keys_pkey; alter table S.sessions drop constraint sessions_session_id_key",
            &[".sessions ", "no key (session_id)"],
        ),
        ("alter table S.attachments alter column n type uuid using gen_random_uuid()", &[".attachments ", "n as uuid, not as integer"]),
        ("alter table S.run_counts drop column pending", &[".run_counts ", "no column pending"]),
    ];
    for (change, said) in changes {
        let schema = Schema::migrated().await;
        let log = connect(&schema.url, &schema.name, 2).await.expect("it fits");
        schema.admin.batch_execute(&change.replace('S', &schema.name)).await.expect("changed");
        let attachment = Attachment { name: "a".into(), media_type: "image/png".into(), sha256: "00".repeat(32), body: vec![1] };
        let terms = Terms { queue_limit: Some(10), one_host: false };
        // The first of the tables in alphabetical order is named where several differ.
        let said: Vec<&str> = if change.contains("idempotency") { vec![".idempotency_keys ", "no key (key)"] } else { said.to_vec() };
        differs(
            of_submission(log.as_ref(), Submission { attachments: vec![attachment], terms, ..with_key("k", "f", submission("s", "x")) }).await,
            &said,
        );
        for table in ["events", "sessions", "runs", "bindings", "idempotency_keys", "attachments"] {
            let left = schema.admin.query_one(&format!("select count(*) from {}.{table}", schema.name), &[]).await.expect("a count");
            assert_eq!(left.get::<_, i64>(0), 0, "{table} after {change}");
        }
    }
}

#[tokio::test]
async fn what_is_missing_is_told_before_what_differs() {
    let schema = Schema::migrated().await;
    let log = connect(&schema.url, &schema.name, 2).await.expect("it fits");
    let change = "alter table S.runs drop column kind; drop function S.submit_2";
    schema.admin.batch_execute(&change.replace('S', &schema.name)).await.expect("changed");
    let answer = of_submission(log.as_ref(), submission("s", "x")).await;
    assert!(matches!(&answer, Some(LogError::Missing(text)) if text.contains("submit_2")), "{answer:?}");
    schema.admin.batch_execute(&format!("drop table {}.events cascade", schema.name)).await.expect("dropped");
    let answer = of_submission(log.as_ref(), submission("s", "x")).await;
    assert!(matches!(answer, Some(LogError::Missing(_))), "{answer:?}");
}
