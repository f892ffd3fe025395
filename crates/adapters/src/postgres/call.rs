//! One call to the server, and what its refusals mean.

use std::time::Duration;

use deadpool_postgres::{Object, PoolError, TimeoutType, Timeouts};
use tokio_postgres::error::SqlState;
use tokio_postgres::types::{ToSql, Type};
use tokio_postgres::{Error, Row};

use super::Postgres;
use crate::LogError;

pub(super) type Arguments<'a> = &'a [(&'a (dyn ToSql + Sync), Type)];

/// How often a call that lost a deadlock is tried again.
const DEADLOCKS: u32 = 10;

/// What a call does where all connections are taken.
#[derive(Clone, Copy)]
enum Turn {
    InLine,
    First,
}

/// What came of a call that did not answer rows.
#[derive(Debug)]
pub(super) enum CallError {
    /// Refused by a SQLSTATE: one of ours, or 23505.
    Refused(String),
    Log(LogError),
}

impl From<CallError> for LogError {
    fn from(error: CallError) -> Self {
        match error {
            CallError::Refused(state) => Self::Unreadable(format!("unexpected refusal {state}")),
            CallError::Log(error) => error,
        }
    }
}

impl Postgres {
    /// One round trip, one statement, unnamed. A deadlock undid everything, so it is tried again.
    pub(super) async fn call(&self, statement: &str, arguments: Arguments<'_>) -> Result<Vec<Row>, CallError> {
        self.call_by(Turn::InLine, statement, arguments).await
    }

    async fn call_by(&self, turn: Turn, statement: &str, arguments: Arguments<'_>) -> Result<Vec<Row>, CallError> {
        let mut tries = 0;
        loop {
            let client = self.client(turn).await.map_err(|error| CallError::Log(LogError::Unreachable(Box::new(error))))?;
            let Ok(answer) = tokio::time::timeout(self.limit, client.query_typed(statement, arguments)).await else {
                // Whoever came next on this connection would wait behind it.
                drop(Object::take(client));
                return Err(CallError::Log(LogError::Unreachable("no answer in time".into())));
            };
            match answer {
                Ok(rows) => return Ok(rows),
                Err(error) if lost_a_race(&error) && tries < DEADLOCKS => {
                    tries += 1;
                    drop(client);
                    tokio::time::sleep(Duration::from_millis(u64::from(tries) * 5)).await;
                }
                Err(error) => {
                    return Err(match error.code() {
                        Some(code) if code.code().starts_with("SL") || *code == SqlState::UNIQUE_VIOLATION => CallError::Refused(code.code().into()),
                        _ => CallError::Log(log_error(error)),
                    });
                }
            }
        }
    }

    /// A read. A connection that died while it lay in the pool is not the log's being away: another one is tried, once.
    pub(super) async fn read(&self, statement: &str, arguments: Arguments<'_>) -> Result<Vec<Row>, LogError> {
        self.read_by(Turn::InLine, statement, arguments).await
    }

    /// The same, before others: a crowd of viewers must neither cost leases nor look like a log that does not answer.
    pub(super) async fn read_first(&self, statement: &str, arguments: Arguments<'_>) -> Result<Vec<Row>, LogError> {
        self.read_by(Turn::First, statement, arguments).await
    }

    async fn read_by(&self, turn: Turn, statement: &str, arguments: Arguments<'_>) -> Result<Vec<Row>, LogError> {
        match self.call_by(turn, statement, arguments).await {
            Err(CallError::Log(LogError::Unreachable(_))) => Ok(self.call_by(turn, statement, arguments).await?),
            other => Ok(other?),
        }
    }

    async fn client(&self, turn: Turn) -> Result<Object, PoolError> {
        let now = Timeouts { wait: Some(Duration::ZERO), ..self.pool.timeouts() };
        match turn {
            Turn::InLine => self.pool.get().await,
            Turn::First => match self.pool.timeout_get(&now).await {
                Err(PoolError::Timeout(TimeoutType::Wait)) => self.aside.get().await,
                got => got,
            },
        }
    }
}

fn lost_a_race(error: &Error) -> bool {
    error
        .code()
        .is_some_and(|code| [SqlState::T_R_DEADLOCK_DETECTED, SqlState::T_R_SERIALIZATION_FAILURE, SqlState::LOCK_NOT_AVAILABLE].contains(code))
}

pub(super) fn log_error(error: Error) -> LogError {
    // No log, or none that can be written.
    const MISSING: [SqlState; 3] = [SqlState::UNDEFINED_TABLE, SqlState::INVALID_SCHEMA_NAME, SqlState::READ_ONLY_SQL_TRANSACTION];
    // A statement that does not fit to the tables as they are, or may not be made.
    const UNFIT: [SqlState; 12] = [
        SqlState::UNDEFINED_COLUMN,
        SqlState::UNDEFINED_FUNCTION,
        SqlState::AMBIGUOUS_FUNCTION,
        SqlState::DATATYPE_MISMATCH,
        SqlState::CANNOT_COERCE,
        SqlState::INVALID_TEXT_REPRESENTATION,
        SqlState::INVALID_COLUMN_REFERENCE,
        SqlState::NOT_NULL_VIOLATION,
        SqlState::SYNTAX_ERROR,
        SqlState::UNDEFINED_OBJECT,
        SqlState::INSUFFICIENT_PRIVILEGE,
        SqlState::INVALID_CATALOG_NAME,
    ];
    match error.as_db_error() {
        Some(db) if MISSING.contains(db.code()) => LogError::Missing(db.message().into()),
        Some(db) if UNFIT.contains(db.code()) => LogError::Unfit(db.message().into()),
        _ => LogError::Unreachable(Box::new(error)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_statement_without_an_answer_is_given_up_and_its_connection_too() {
        let url = std::env::var("SANDLOG_TEST_DATABASE_URL").expect("SANDLOG_TEST_DATABASE_URL is not set: run through ./dev test");
        let pool = || super::super::make_pool(&url, 1).expect("a pool");
        let sql = super::super::Sql::new("sandlog").expect("a schema");
        let postgres = Postgres { pool: pool(), aside: pool(), sql, limit: Duration::from_millis(200) };
        let slow = postgres.call("select pg_sleep(60)", &[]).await;
        assert!(matches!(slow, Err(CallError::Log(LogError::Unreachable(_)))), "{slow:?}");
        // The pool's only place is free for another connection.
        assert_eq!(postgres.call("select 1", &[]).await.expect("an answer").len(), 1);
    }

    #[tokio::test]
    async fn a_crowd_does_not_keep_others_from_going_first() {
        let url = std::env::var("SANDLOG_TEST_DATABASE_URL").expect("SANDLOG_TEST_DATABASE_URL is not set: run through ./dev test");
        let pool = || super::super::make_pool(&url, 1).expect("a pool");
        let sql = super::super::Sql::new("sandlog").expect("a schema");
        let postgres = Postgres { pool: pool(), aside: pool(), sql, limit: Duration::from_secs(60) };
        let backend = async || postgres.read_first("select pg_backend_pid()", &[]).await.expect("an answer")[0].get::<_, i32>(0);
        let alone = backend().await;
        assert_eq!((backend().await, postgres.aside.status().size), (alone, 0), "no second connection while there is room");
        let _crowd = postgres.pool.get().await.expect("the only connection");
        assert_ne!(backend().await, alone);
    }
}
