//! From rows to what they mean.

use runs::{Event, Recorded, Status, Submitted};
use serde_json::Value;
use tokio_postgres::Row;

use crate::{LogError, RunRow, SessionRow, WaitingFor};

fn unreadable(error: impl std::fmt::Display) -> LogError {
    LogError::Unreadable(error.to_string())
}

/// A column; one that is not of its type means another schema than this build's.
pub(super) fn get<'a, T: tokio_postgres::types::FromSql<'a>>(row: &'a Row, at: usize) -> Result<T, LogError> {
    row.try_get(at).map_err(unreadable)
}

pub(super) fn unsigned(row: &Row, at: usize) -> Result<u32, LogError> {
    u32::try_from(get::<i32>(row, at)?).map_err(unreadable)
}

/// From column `at` on: seq, type, data, first_index, at.
pub(super) fn recorded(row: &Row, at: usize) -> Result<Recorded, LogError> {
    let event = Event::from_stored(get(row, at + 1)?, get::<Value>(row, at + 2)?).map_err(unreadable)?;
    Ok(Recorded { seq: unsigned(row, at)?, first_index: unsigned(row, at + 3)?, at: get(row, at + 4)?, event })
}

pub(super) fn status(name: &str) -> Result<Status, LogError> {
    Status::parse(name).ok_or_else(|| unreadable(format!("status {name}")))
}

pub(super) fn submitted(data: Value) -> Result<Submitted, LogError> {
    match Event::from_stored("run.submitted", data).map_err(unreadable)? {
        Event::Submitted(submitted) => Ok(*submitted),
        other => Err(unreadable(format!("{} where run.submitted should be", other.kind()))),
    }
}

pub(super) fn event(kind: &str, data: Value) -> Result<Event, LogError> {
    Event::from_stored(kind, data).map_err(unreadable)
}

/// The columns of `queries/runs.sql`.
pub(super) fn run(row: &Row) -> Result<RunRow, LogError> {
    let terminal = match get::<Option<&str>>(row, 11)? {
        Some(kind) => Some(event(kind, get(row, 12)?)?),
        None => None,
    };
    let waiting_for = match (get::<Option<String>>(row, 14)?, get::<Option<i64>>(row, 15)?) {
        (Some(host), Some(since)) => Some(WaitingFor { host, since }),
        _ => None,
    };
    Ok(RunRow {
        run_id: get(row, 0)?,
        session_id: get(row, 1)?,
        agent_id: get(row, 2)?,
        user_id: get(row, 3)?,
        status: status(get(row, 4)?)?,
        attempt: unsigned(row, 5)?,
        cancel_requested: get(row, 6)?,
        created_at: get(row, 7)?,
        started_at: get(row, 8)?,
        ended_at: get(row, 9)?,
        submitted: submitted(get(row, 10)?)?,
        terminal,
        waiting_on: get(row, 13)?,
        waiting_for,
    })
}

/// The columns of `queries/sessions.sql`.
pub(super) fn session(row: &Row) -> Result<SessionRow, LogError> {
    Ok(SessionRow {
        session: get(row, 0)?,
        session_id: get(row, 1)?,
        agent_id: get(row, 2)?,
        user_id: get(row, 3)?,
        created_at: get(row, 4)?,
        updated_at: get(row, 5)?,
        runs: u64::try_from(get::<i64>(row, 6)?).map_err(unreadable)?,
    })
}
