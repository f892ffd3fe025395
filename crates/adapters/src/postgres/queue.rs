//! The queue as operators see it, and what they put back into it.

use async_trait::async_trait;
use runs::{Event, Status};
use tokio_postgres::Row;
use tokio_postgres::types::Type;
use uuid::Uuid;

use super::Postgres;
use super::call::CallError;
use super::reader::page;
use super::row::{event, get, status, submitted, unsigned};
use crate::queue::{Counts, Held, Job, Queue, QueueError, QueueStats, Requeued};
use crate::{Cursor, LogError, Page};

/// The columns of `queries/jobs.sql` and `queries/job.sql`.
fn job(row: &Row) -> Result<Job, LogError> {
    let first = get::<Option<serde_json::Value>>(row, 15)?.map(submitted).transpose()?;
    let last = get::<Option<&str>>(row, 16)?.map(|kind| event(kind, get(row, 17)?)).transpose()?;
    let held = get::<Option<String>>(row, 11)?.map(|worker| {
        let lease_until: Option<i64> = get(row, 13)?;
        Ok::<_, LogError>(Held { worker, lease_until: lease_until.unwrap_or_default() })
    });
    Ok(Job {
        run_id: get(row, 0)?,
        session_id: get(row, 1)?,
        agent_id: get(row, 2)?,
        user_id: get(row, 3)?,
        status: status(get(row, 4)?)?,
        kind: get(row, 5)?,
        attempt: unsigned(row, 6)?,
        cancel_requested: get(row, 7)?,
        created_at: get(row, 8)?,
        started_at: get(row, 9)?,
        ended_at: get(row, 10)?,
        held: held.transpose()?,
        host: get(row, 12)?,
        retry_at: get(row, 14)?,
        requeued_from: first.as_ref().and_then(|first| first.requeued_from),
        files: first.map(|first| first.input.files),
        failure: match last {
            Some(Event::Failed { error, error_type, .. }) => Some((error, error_type)),
            _ => None,
        },
    })
}

#[async_trait]
impl Queue for Postgres {
    async fn stats(&self) -> Result<QueueStats, LogError> {
        let rows = self.read(&self.sql.stats, &[]).await?;
        let row = rows.first().ok_or_else(|| LogError::Unreadable("no counts".into()))?;
        // Between a change behind the triggers and the recount a sum may be below nothing.
        let count = |at| Ok::<_, LogError>(u64::try_from(get::<i64>(row, at)?).unwrap_or(0));
        let counts = Counts { pending: count(0)?, running: count(1)?, completed: count(2)?, error: count(3)?, cancelled: count(4)? };
        Ok(QueueStats { counts, oldest: get(row, 5)?, now: get(row, 6)? })
    }

    async fn jobs(&self, status: Option<Status>, cursor: Option<Cursor>, limit: u32) -> Result<Page<Job>, LogError> {
        let arguments: [(&(dyn tokio_postgres::types::ToSql + Sync), Type); 3] =
            [(&status.map(Status::name), Type::TEXT), (&cursor.map(|cursor| cursor.0), Type::UUID), (&(i64::from(limit) + 1), Type::INT8)];
        let rows = self.read(&self.sql.jobs, &arguments).await?;
        Ok(page(rows.iter().map(job).collect::<Result<_, _>>()?, limit, |job| job.run_id))
    }

    async fn job(&self, run_id: Uuid) -> Result<Option<Job>, LogError> {
        self.read(&self.sql.job, &[(&run_id, Type::UUID)]).await?.first().map(job).transpose()
    }

    async fn requeue(&self, run_id: Uuid, one_host: bool) -> Result<Requeued, QueueError> {
        let rows = match self.call(&self.sql.function("requeue_1", 2), &[(&run_id, Type::UUID), (&one_host, Type::BOOL)]).await {
            Ok(rows) => rows,
            Err(CallError::Refused(state)) if state == "SL412" => return Err(QueueError::NotEnded),
            Err(CallError::Refused(state)) if state == "SL500" => return Err(QueueError::ManyHosts),
            Err(CallError::Refused(state)) if state == "SL410" => return Err(QueueError::Unknown),
            Err(error) => return Err(LogError::from(error).into()),
        };
        let row = rows.first().ok_or(QueueError::Unknown)?;
        Ok(Requeued { run_id: get(row, 0)?, session_id: get(row, 1)?, session: get(row, 2)?, agent_id: get(row, 3)? })
    }
}
