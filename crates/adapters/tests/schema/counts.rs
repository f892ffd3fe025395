//! The counts of runs heal, and both releases count.

use std::sync::Arc;

use adapters::postgres::migrate;
use adapters::{Submission, Terms};

use super::log_of;
use crate::kit::*;
use crate::world::{Log, Schema};

async fn pending(log: &Arc<dyn Log>) -> u64 {
    log.stats().await.expect("the log answers").counts.pending
}

#[tokio::test]
async fn counts_that_went_wrong_are_put_right_by_upkeep() {
    let schema = Schema::migrated().await;
    let (log, name) = (log_of(&schema).await, &schema.name);
    for n in 0..5 {
        accept(&log, &format!("s{n}"), "x").await;
    }
    let limited = |session: &str| Submission { terms: Terms { queue_limit: Some(6), one_host: false }, ..submission(session, "x") };
    for wrong in [
        "update S.run_counts set pending = pending + 7 where shard < 9",
        "update S.run_counts set pending = 0",
        "delete from S.run_counts where shard > 0",
    ] {
        schema.admin.batch_execute(&wrong.replace('S', name)).await.expect("changed");
        log.upkeep().await.expect("kept up");
        assert_eq!(pending(&log).await, 5, "after {wrong}");
        // Migrating makes the rows again that a hand has removed.
        migrate(&schema.url, name, None).await.expect("migrated");
    }
    log.submit(limited("t")).await.expect("room for one");
    assert!(log.submit(limited("u")).await.is_err());
}

#[tokio::test]
async fn a_schema_of_the_release_before_is_counted_when_it_is_brought_up_to_date() {
    let schema = Schema::migrated().await;
    let (log, name) = (log_of(&schema).await, &schema.name);
    // As it was: with runs, and without what this release added.
    let before = "drop trigger runs_accepted on S.runs; drop trigger runs_moved on S.runs; drop trigger runs_gone on S.runs; drop table S.run_counts;
        drop index S.runs_by_status; drop function S.submit_2; delete from S.migrations where version = 2;";
    schema.admin.batch_execute(&before.replace('S', name)).await.expect("as it was");
    let old =
        format!("select * from {name}.submit_1(null, null, null, 'echo', null, 'namespace', '{{\"v\": 1}}'::jsonb, '{{}}', '{{}}', '{{}}', '{{}}')");
    schema.admin.batch_execute(&old).await.expect("accepted");
    migrate(&schema.url, name, None).await.expect("migrated");
    assert_eq!(pending(&log).await, 1);
    // The release before goes on beside this one.
    schema.admin.batch_execute(&old).await.expect("accepted");
    assert_eq!(pending(&log).await, 2);
    schema.admin.batch_execute(&format!("select {name}.upkeep_1()")).await.expect("kept up");
}

#[tokio::test]
async fn retention_takes_runs_out_of_the_counts() {
    let schema = Schema::migrated().await;
    let (log, name) = (log_of(&schema).await, &schema.name);
    for n in 0..3 {
        let run = accept(&log, &format!("s{n}"), "x").await.run_id;
        log.cancel("echo", run, None).await.expect("cancelled");
    }
    assert_eq!(log.stats().await.expect("the log answers").counts.cancelled, 3);
    schema.admin.batch_execute(&format!("select {name}.drop_partitions_1(clock_timestamp() + interval '100 weeks')")).await.expect("dropped");
    assert_eq!(log.stats().await.expect("the log answers").counts, adapters::queue::Counts::default());
}
