//! Bringing the schema up to date. Forward only; every file can run twice.

use super::address::Address;
use super::call::log_error;
use super::fit::in_the_way;
use super::schema::{Sql, checked};
use crate::LogError;

/// What a migration makes.
pub const VERSION: u32 = 3;
/// What this build needs at least: it runs on the schema of the release before.
pub(super) const NEEDED: u32 = 2;

const FILES: [&str; 13] = [
    include_str!("migrations/0001_event_log/01_tables.sql"),
    include_str!("migrations/0001_event_log/02_ids.sql"),
    include_str!("migrations/0001_event_log/03_submit_1.sql"),
    include_str!("migrations/0001_event_log/04_claim_1.sql"),
    include_str!("migrations/0001_event_log/05_place_1.sql"),
    include_str!("migrations/0001_event_log/06_finish_1.sql"),
    include_str!("migrations/0001_event_log/07_cancel_1.sql"),
    include_str!("migrations/0001_event_log/08_lease_1.sql"),
    include_str!("migrations/0001_event_log/09_owner.sql"),
    include_str!("migrations/0002_admission/01_counts.sql"),
    include_str!("migrations/0002_admission/02_submit_2.sql"),
    include_str!("migrations/0002_admission/03_requeue_1.sql"),
    include_str!("migrations/0003_seal/01_seal.sql"),
];
const GRANTS: &str = include_str!("migrations/grants.sql");

/// As the schema's owner. `functions_role` is who api and worker connect as, where that is another role.
pub async fn migrate(url: &str, schema: &str, functions_role: Option<&str>) -> Result<(), LogError> {
    let (name, address) = (checked(schema)?, Address::parse(url)?);
    let (client, connection) = address.config.connect(address.tls).await.map_err(log_error)?;
    let connection = tokio::spawn(connection);
    let quoted = format!("\"{name}\"");
    // One text is one transaction: all of it or nothing, and the lock ends with it.
    let mut text = format!("select pg_advisory_xact_lock(hashtextextended('sandlog {name}', 0));\n");
    FILES.iter().for_each(|file| text.push_str(file));
    if let Some(role) = functions_role {
        text.push_str(&GRANTS.replace("{role}", &format!("\"{}\"", role.replace('"', "\"\""))));
    }
    let text = text.replace("{schema_name}", name).replace("{schema}", &quoted);
    let mut done = client.batch_execute(&text).await.map_err(log_error);
    if let Err(LogError::Unfit(_) | LogError::Missing(_)) = &done
        && let Some(why) = in_the_way(&client, &Sql::new(schema)?).await
    {
        done = Err(why);
    }
    if let Err(LogError::Unfit(why)) = &done
        && why.starts_with("permission denied for database")
    {
        done = Err(LogError::Unfit(format!("{why}: who makes the schema needs CREATE on it (DATABASE_MIGRATE_URL)")));
    }
    drop(client);
    // The connection ends with its client; how it ends changes nothing.
    let _ = connection.await;
    done
}
