//! A schema of its own for each test, on a server that somebody else started.

use std::sync::Arc;
use std::time::Duration;

use adapters::postgres::{Postgres, connect, migrate};
use async_trait::async_trait;
use tokio_postgres::{Client, NoTls};
use uuid::Uuid;

use super::{Log, World};

/// Where the tests' server is, and a schema's name that nobody else has.
pub(crate) struct Schema {
    pub(crate) url: String,
    pub(crate) name: String,
    pub(crate) admin: Client,
}

impl Schema {
    pub(crate) async fn fresh() -> Self {
        let url = std::env::var("SANDLOG_TEST_DATABASE_URL").expect("SANDLOG_TEST_DATABASE_URL is not set: run through ./dev test");
        let admin = client(&url).await;
        Self { url, name: format!("test_{}", Uuid::new_v4().simple()), admin }
    }

    pub(crate) async fn migrated() -> Self {
        let schema = Self::fresh().await;
        migrate(&schema.url, &schema.name, None).await.expect("migrated");
        schema
    }
}

pub(crate) async fn client(url: &str) -> Client {
    let (client, connection) = tokio_postgres::connect(url, NoTls).await.expect("the tests' server answers");
    tokio::spawn(connection);
    client
}

struct InPostgres {
    schema: Schema,
    log: Arc<Postgres>,
}

pub(crate) async fn postgres() -> impl World {
    let schema = Schema::migrated().await;
    let log = connect(&schema.url, &schema.name, 8).await.expect("connected");
    InPostgres { schema, log }
}

#[async_trait]
impl World for InPostgres {
    fn log(&self) -> Arc<dyn Log> {
        self.log.clone()
    }

    async fn moment(&self) {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }

    async fn age(&self, ms: i64) {
        let text = "
            update S.hosts set seen_at = seen_at - T;
            update S.bindings set lease_until = lease_until - T, retry_at = retry_at - T;
            update S.runs set created_at = created_at - T, started_at = started_at - T, ended_at = ended_at - T;";
        let text = text.replace('S', &self.schema.name).replace('T', &format!("interval '{ms} milliseconds'"));
        self.schema.admin.batch_execute(&text).await.expect("the rows are there");
    }
}
