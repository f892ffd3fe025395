//! Showing what the log holds.

use async_trait::async_trait;
use runs::Recorded;
use tokio_postgres::types::Type;
use uuid::Uuid;

use super::Postgres;
use super::migrate::NEEDED;
use super::row::{self, get, recorded, unsigned};
use crate::{Cursor, Health, LogError, PAGE_BYTES, Page, Reader, RunPage, RunRow, RunsQuery, Scope, SessionRow, Unended};

/// Cuts a list that was read one longer than asked to a page.
pub(super) fn page<T>(mut items: Vec<T>, limit: u32, id: impl Fn(&T) -> Uuid) -> Page<T> {
    let more = items.len() > limit as usize;
    items.truncate(limit as usize);
    let next = if more { items.last().map(|last| Cursor(id(last))) } else { None };
    Page { items, next }
}

fn signed(n: u32) -> i32 {
    i32::try_from(n).unwrap_or(i32::MAX)
}

impl Postgres {
    /// Of the deployment: for who carries signals. A schema of the release before has none.
    pub(crate) async fn secret(&self) -> Result<Option<String>, LogError> {
        match self.read(&self.sql.secret, &[]).await {
            Ok(rows) => rows.first().map_or(Ok(None), |row| get(row, 0)),
            Err(LogError::Missing(_)) => Ok(None),
            Err(error) => Err(error),
        }
    }

    async fn run_rows(&self, run: Option<Uuid>, query: &RunsQuery<'_>, scope: Scope<'_>) -> Result<RunPage, LogError> {
        let (scoped, user) = (scope.is_some(), scope.flatten());
        let rows = self
            .read(
                &self.sql.runs,
                &[
                    (&run, Type::UUID),
                    (&query.agent_id, Type::TEXT),
                    (&query.session_id, Type::TEXT),
                    (&query.user_id, Type::TEXT),
                    (&query.status.map(runs::Status::name), Type::TEXT),
                    (&query.cursor.map(|cursor| cursor.0), Type::UUID),
                    (&scoped, Type::BOOL),
                    (&user, Type::TEXT),
                    (&i64::from(query.limit), Type::INT8),
                    (&PAGE_BYTES, Type::INT8),
                ],
            )
            .await?;
        let items = rows.iter().map(row::run).collect::<Result<Vec<RunRow>, _>>()?;
        let more = rows.last().is_some_and(|row| matches!(get(row, 16), Ok(true)));
        let next = items.last().filter(|_| more).map(|last| Cursor(last.run_id));
        Ok(Page { items, next })
    }

    async fn session_rows(
        &self,
        (session_id, user_id, agent_id): (Option<&str>, Option<&str>, Option<&str>),
        cursor: Option<Cursor>,
        limit: u32,
        scope: Scope<'_>,
    ) -> Result<Vec<SessionRow>, LogError> {
        let (scoped, user) = (scope.is_some(), scope.flatten());
        let rows = self
            .read(
                &self.sql.sessions,
                &[
                    (&session_id, Type::TEXT),
                    (&user_id, Type::TEXT),
                    (&agent_id, Type::TEXT),
                    (&cursor.map(|cursor| cursor.0), Type::UUID),
                    (&scoped, Type::BOOL),
                    (&user, Type::TEXT),
                    (&(i64::from(limit) + 1), Type::INT8),
                ],
            )
            .await?;
        rows.iter().map(row::session).collect()
    }
}

#[async_trait]
impl Reader for Postgres {
    async fn run(&self, agent_id: &str, run_id: Uuid, scope: Scope<'_>) -> Result<Option<RunRow>, LogError> {
        let query = RunsQuery { agent_id: Some(agent_id), limit: 1, ..RunsQuery::default() };
        Ok(self.run_rows(Some(run_id), &query, scope).await?.items.into_iter().next())
    }

    async fn runs(&self, query: RunsQuery<'_>, scope: Scope<'_>) -> Result<RunPage, LogError> {
        self.run_rows(None, &query, scope).await
    }

    async fn session(&self, session_id: &str, scope: Scope<'_>) -> Result<Option<SessionRow>, LogError> {
        Ok(self.session_rows((Some(session_id), None, None), None, 1, scope).await?.into_iter().next())
    }

    async fn sessions(
        &self,
        user_id: Option<&str>,
        agent_id: Option<&str>,
        cursor: Option<Cursor>,
        limit: u32,
        scope: Scope<'_>,
    ) -> Result<Page<SessionRow>, LogError> {
        Ok(page(self.session_rows((None, user_id, agent_id), cursor, limit, scope).await?, limit, |session| session.session))
    }

    async fn frames(&self, run_id: Uuid, index: u32, limit: u32) -> Result<Vec<Recorded>, LogError> {
        let arguments: [(&(dyn tokio_postgres::types::ToSql + Sync), Type); 3] =
            [(&run_id, Type::UUID), (&signed(index), Type::INT4), (&i64::from(limit), Type::INT8)];
        let rows = self.read(&self.sql.frames, &arguments).await?;
        rows.iter().map(|row| recorded(row, 0)).collect()
    }

    async fn tail(&self, from: &[(Uuid, u32)], limit: u32) -> Result<Vec<(Uuid, Recorded)>, LogError> {
        let (ids, indexes): (Vec<Uuid>, Vec<i32>) = from.iter().map(|(id, index)| (*id, signed(*index))).unzip();
        let rows = self.read(&self.sql.tail, &[(&ids, Type::UUID_ARRAY), (&indexes, Type::INT4_ARRAY), (&i64::from(limit), Type::INT8)]).await?;
        rows.iter().map(|row| Ok((get(row, 0)?, recorded(row, 1)?))).collect()
    }

    async fn health(&self) -> Result<Health, LogError> {
        let rows = self.read_first(&self.sql.health, &[]).await?;
        let row = rows.first().ok_or_else(|| LogError::Unreadable("no answer".into()))?;
        if get(row, 1)? {
            return Err(LogError::Missing("the server is read-only: a standby?".into()));
        }
        match get::<Option<i32>>(row, 0)? {
            Some(_) => Ok(Health { schema: unsigned(row, 0)?, deployment: get(row, 2)? }),
            None => Err(LogError::Missing(format!("the schema is empty, this build needs version {NEEDED}: migrate it"))),
        }
    }

    async fn unended(&self) -> Result<Unended, LogError> {
        let rows = self.read(&self.sql.unended, &[]).await?;
        let row = rows.first().ok_or_else(|| LogError::Unreadable("no answer".into()))?;
        let count = |at| Ok::<_, LogError>(u64::try_from(get::<i64>(row, at)?).unwrap_or(0));
        Ok(Unended { pending: count(0)?, running: count(1)?, oldest_ms: count(2)? })
    }
}
