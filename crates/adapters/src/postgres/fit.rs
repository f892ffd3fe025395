//! Whether the schema is what this build needs: that it is there and can be written, and that its tables are not another build's.

use tokio_postgres::Row;

use super::Postgres;
use super::row::get;
use super::schema::Sql;
use crate::{LogError, Reader};

/// The first thing that `queries/fit.sql` found.
fn verdict(sql: &Sql, row: &Row) -> Result<LogError, LogError> {
    let (rank, name, what): (i32, &str, &str) = (get(row, 0)?, get(row, 1)?, get(row, 2)?);
    let name = format!("{}.{name}", sql.name());
    Ok(match rank {
        0 => LogError::Missing(format!("{name} {what}: migrate the schema")),
        _ => LogError::Differs(format!(
            "The table {name} differs from what this build needs: it {what}. Migrate it, drop or rename it, or set another schema (SANDLOG_SCHEMA)"
        )),
    })
}

/// Why a migration could not be done: a table of that name was there before, and is another one. What is merely missing would have been made.
pub(super) async fn in_the_way(client: &tokio_postgres::Client, sql: &Sql) -> Option<LogError> {
    let rows = client.query_typed(sql.fit.as_str(), &[]).await.ok()?;
    rows.iter().filter_map(|row| verdict(sql, row).ok()).find(|error| matches!(error, LogError::Differs(_)))
}

impl Postgres {
    /// One query of the catalogue: at the start, where something went wrong, and some seconds apart while somebody asks for the health.
    pub(super) async fn inspect(&self) -> Result<(), LogError> {
        self.health().await?;
        match self.read(&self.sql.fit, &[]).await?.first() {
            None => Ok(()),
            Some(row) => Err(verdict(&self.sql, row)?),
        }
    }

    /// A statement does not fit to the tables: which of them is it?
    pub(super) async fn explained(&self, error: LogError) -> LogError {
        match error {
            LogError::Unfit(_) => self.inspect().await.err().filter(|why| !matches!(why, LogError::Unreachable(_))).unwrap_or(error),
            other => other,
        }
    }
}
