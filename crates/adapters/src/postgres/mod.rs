//! The log in Postgres. All writes are single calls; all statements are unnamed and typed, so that a transaction pooler can stand between.

mod address;
mod call;
mod driver;
mod fit;
mod intake;
mod listen;
mod migrate;
mod queue;
mod reader;
mod row;
mod schema;
mod tls;

use std::sync::Arc;

use deadpool_postgres::{Manager, ManagerConfig, Pool, RecyclingMethod, Runtime};

use crate::config::Database;
use crate::{Health, LogError, Reader};
use address::Address;
pub use address::{place, user};
pub use listen::listen;
use migrate::NEEDED;
pub use migrate::{VERSION, migrate};
use schema::Sql;

/// How long a caller waits for a connection before the log counts as unreachable.
const PATIENCE: std::time::Duration = std::time::Duration::from_secs(5);

/// How long a statement may take: a server or pooler that took it and says nothing must not hold a worker or a request for ever. Beyond it nothing is
/// known of what was done, as where a connection breaks.
const LIMIT: std::time::Duration = std::time::Duration::from_secs(30);

/// The ports on one pool.
pub struct Postgres {
    pool: Pool,
    /// Of one connection, which is made where all others are taken and something must not wait behind them.
    aside: Pool,
    sql: Sql,
    limit: std::time::Duration,
}

/// Connects, and checks that the schema is there, can be written and is what this build needs: a process that could accept nothing does not start.
pub async fn connect(url: &str, schema: &str, pool: usize) -> Result<Arc<Postgres>, LogError> {
    let postgres = Postgres { pool: make_pool(url, pool)?, aside: make_pool(url, 1)?, sql: Sql::new(schema)?, limit: LIMIT };
    let Health { schema: version, .. } = postgres.health().await?;
    if version < NEEDED {
        return Err(LogError::Missing(format!("schema {schema} is at version {version}, this build needs {NEEDED}: migrate it")));
    }
    postgres.inspect().await?;
    Ok(Arc::new(postgres))
}

/// The same of a program that may find the schema of a release before it, or none: with the owner's URL it is migrated first.
pub async fn ready(database: &Database, schema: &str, pool: usize) -> Result<Arc<Postgres>, LogError> {
    let migrated = async |owner_url: &str, why: &str| {
        tracing::info!(why, "migrating the schema");
        let functions_role = user(&database.url).filter(|name| user(owner_url).as_ref() != Some(name));
        migrate(owner_url, schema, functions_role.as_deref()).await
    };
    match (connect(&database.url, schema, pool).await, &database.owner_url) {
        (Err(LogError::Unfit(why) | LogError::Missing(why)), Some(owner_url)) => {
            migrated(owner_url, &why).await?;
            connect(&database.url, schema, pool).await
        }
        (Err(LogError::Missing(why)), None) => Err(LogError::Missing(format!("{why}. DATABASE_MIGRATE_URL names the role that makes it at a start"))),
        (Ok(log), Some(owner_url)) if log.health().await?.schema < VERSION => {
            // It serves as it is, so what goes wrong here is no reason not to.
            if let Err(error) = migrated(owner_url, "it is of the release before").await {
                tracing::warn!(error = &error as &dyn std::error::Error, "the schema stays as it is");
            }
            Ok(log)
        }
        (connected, _) => connected,
    }
}

fn make_pool(url: &str, size: usize) -> Result<Pool, LogError> {
    let Address { mut config, tls } = Address::parse(url)?;
    config.application_name("sandlog");
    config.connect_timeout(PATIENCE).keepalives_idle(std::time::Duration::from_secs(30)).tcp_user_timeout(std::time::Duration::from_secs(30));
    let manager = Manager::from_config(config, tls, ManagerConfig { recycling_method: RecyclingMethod::Fast });
    Pool::builder(manager)
        .max_size(size)
        .wait_timeout(Some(PATIENCE))
        .create_timeout(Some(PATIENCE))
        .runtime(Runtime::Tokio1)
        .build()
        .map_err(|error| LogError::Unreachable(Box::new(error)))
}
