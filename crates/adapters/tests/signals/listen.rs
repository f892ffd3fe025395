//! LISTEN: what it does where it cannot work, and when its connection ends.

use std::time::Duration;

use adapters::signals::Hub;
use adapters::{Signals, postgres};
use e2e::Database;
use e2e::pooler::Pooler;
use uuid::Uuid;

use super::{Listen, becomes, listening, speak_again};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn through_a_transaction_pooler_it_says_that_it_polls() {
    let database = Database::create();
    postgres::migrate(&database.owner_url(), "sandlog", Some("sandlog_e2e")).await.expect("migrated");
    let direct = database.functions_url();
    let server = direct.split(['@', '/']).nth(3).expect("HOST:PORT").to_owned();
    let pooler = Pooler::start(&server).await;
    let url = direct.replace(&server, &format!("127.0.0.1:{}", pooler.port));
    let hub = |url: String| async move {
        let log = postgres::connect(&url, "sandlog", 2).await.expect("connected");
        postgres::listen(&url, "sandlog", log)
    };
    let pooled: Hub = hub(url).await;
    let mut carried = pooled.carried();
    let told = tokio::time::timeout(Duration::from_secs(40), carried.wait_for(|carried| carried.carrier == "poll")).await;
    let told = told.expect("it says so").expect("its carrier").clone();
    assert!(!told.up && told.why.as_deref().is_some_and(|why| why.contains("pooler")), "{told:?}");
    // And leaves nobody listening whom the pooler gives to others.
    let direct: Hub = hub(direct).await;
    becomes(&direct, true).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_connection_that_ends_is_made_again() {
    let world = Listen::new().await;
    let (here, there, run) = (listening(&world.schema).await, listening(&world.schema).await, Uuid::now_v7());
    let mut heard = there.subscribe();
    let _following = there.follow_run(run, 0);
    let ended = "select pg_terminate_backend(pid) from pg_stat_activity where query = $1";
    let ended = world.schema.admin.query(ended, &[&format!("listen \"sandlog_{}\"", world.schema.name)]).await.expect("a superuser");
    assert_eq!(ended.len(), 2);
    becomes(&there, false).await;
    becomes(&there, true).await;
    speak_again(&here, &mut heard, run).await;
}
