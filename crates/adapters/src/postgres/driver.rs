//! Claiming, appending, ending.

use async_trait::async_trait;
use runs::frame;
use runs::{Event, Recorded};
use tokio_postgres::Row;
use tokio_postgres::types::Type;
use uuid::Uuid;

use super::Postgres;
use super::call::{Arguments, CallError};
use super::row::{get, recorded, unsigned};
use crate::{AppendError, Attachment, Claim, ClaimRequest, Driver, Finish, Holding, HostSeen, LogError, Notice, Place, Ready};

fn signed(n: u32) -> Result<i32, LogError> {
    i32::try_from(n).map_err(|_| LogError::Unfit("a run has more events than a log can hold".into()))
}

fn millis(ms: u64) -> i64 {
    i64::try_from(ms).unwrap_or(i64::MAX)
}

fn append_error(error: CallError, seq: u32) -> AppendError {
    match error {
        // The key of the log, or the lease is another's: either way the log knows better than the decision did.
        CallError::Refused(state) if state == "23505" || state == "SL423" => AppendError::Taken(seq),
        CallError::Refused(state) if state == "SL410" => AppendError::Gone,
        other => AppendError::Log(other.into()),
    }
}

impl Postgres {
    async fn append_call(&self, statement: &str, arguments: Arguments<'_>, seq: u32) -> Result<i64, AppendError> {
        let rows = self.call(statement, arguments).await.map_err(|error| append_error(error, seq))?;
        rows.first().map_or(Err(AppendError::Gone), |row| Ok(get(row, 0)?))
    }
}

#[async_trait]
impl Driver for Postgres {
    async fn claim(&self, request: &ClaimRequest) -> Result<Option<Claim>, LogError> {
        let (kinds, hosts): (Vec<&str>, Vec<&str>) = request.hosts.iter().map(|(kind, host)| (kind.as_str(), host.as_str())).unzip();
        let rows = self
            .call(
                &self.sql.function("claim_1", 6),
                &[
                    (&request.worker, Type::TEXT),
                    (&kinds, Type::TEXT_ARRAY),
                    (&hosts, Type::TEXT_ARRAY),
                    (&millis(request.lease_ms), Type::INT8),
                    (&millis(request.dead_man_ms), Type::INT8),
                    (&request.session, Type::UUID),
                ],
            )
            .await?;
        let Some(row) = rows.first() else { return Ok(None) };
        Ok(Some(Claim {
            session: get(row, 0)?,
            session_id: get(row, 1)?,
            run_id: get(row, 2)?,
            claim: get(row, 3)?,
            epoch: u64::try_from(get::<i64>(row, 4)?).map_err(|error| LogError::Unreadable(error.to_string()))?,
            host: get(row, 5)?,
            checkpoint: get(row, 6)?,
            conversation: get(row, 7)?,
            sandbox: get(row, 8)?,
            idle_claims: unsigned(row, 9)?,
        }))
    }

    async fn ready(&self, request: &ClaimRequest, after: Option<Uuid>, limit: u32) -> Result<Vec<Ready>, LogError> {
        let (kinds, hosts): (Vec<&str>, Vec<&str>) = request.hosts.iter().map(|(kind, host)| (kind.as_str(), host.as_str())).unzip();
        let rows = self
            .read(
                &self.sql.ready,
                &[
                    (&kinds, Type::TEXT_ARRAY),
                    (&hosts, Type::TEXT_ARRAY),
                    (&millis(request.lease_ms.saturating_add(request.dead_man_ms)), Type::INT8),
                    (&request.session, Type::UUID),
                    (&after, Type::UUID),
                    (&i64::from(limit), Type::INT8),
                ],
            )
            .await?;
        let ready = |row: &Row| {
            let time_limit_ms = u64::try_from(get::<i64>(row, 2)?).unwrap_or(0);
            let running_ms = get::<Option<i64>>(row, 3)?.map(|ms| u64::try_from(ms).unwrap_or(0));
            Ok(Ready { session: get(row, 0)?, run_id: get(row, 1)?, time_limit_ms, running_ms })
        };
        rows.iter().map(ready).collect()
    }

    async fn events(&self, run_id: Uuid, seq: u32, limit: u32) -> Result<Vec<Recorded>, LogError> {
        let rows = self.read(&self.sql.events, &[(&run_id, Type::UUID), (&signed(seq)?, Type::INT4), (&i64::from(limit), Type::INT8)]).await?;
        rows.iter().map(|row| recorded(row, 0)).collect()
    }

    async fn tip(&self, run_id: Uuid) -> Result<Option<(u32, u32)>, LogError> {
        let rows = self.read(&self.sql.tip, &[(&run_id, Type::UUID)]).await?;
        rows.first().map(|row| Ok((unsigned(row, 0)?, unsigned(row, 1)?))).transpose()
    }

    async fn attachments(&self, run_id: Uuid) -> Result<Vec<Attachment>, LogError> {
        let rows = self.read(&self.sql.attachments, &[(&run_id, Type::UUID)]).await?;
        rows.iter().map(|row| Ok(Attachment { name: get(row, 0)?, media_type: get(row, 1)?, sha256: get(row, 2)?, body: get(row, 3)? })).collect()
    }

    async fn append(&self, run_id: Uuid, seq: u32, first_index: u32, event: &Event) -> Result<i64, AppendError> {
        self.append_call(
            &self.sql.append,
            &[
                (&run_id, Type::UUID),
                (&signed(seq)?, Type::INT4),
                (&event.kind(), Type::TEXT),
                (&event.to_stored(), Type::JSONB),
                (&signed(first_index)?, Type::INT4),
                (&signed(frame::count(event))?, Type::INT4),
            ],
            seq,
        )
        .await
    }

    async fn place(&self, run_id: Uuid, seq: u32, first_index: u32, event: &Event, holding: Holding, place: &Place) -> Result<i64, AppendError> {
        let (host, sandbox, attempt, retry_at) = match place {
            Place::At { host, sandbox, attempt } => (Some(host), Some(sandbox), Some(signed(*attempt)?), None),
            Place::Nowhere { retry_at } => (None, None, None, Some(*retry_at)),
        };
        self.append_call(
            &self.sql.function("place_1", 11),
            &[
                (&run_id, Type::UUID),
                (&signed(seq)?, Type::INT4),
                (&event.kind(), Type::TEXT),
                (&event.to_stored(), Type::JSONB),
                (&signed(first_index)?, Type::INT4),
                (&holding.session, Type::UUID),
                (&holding.claim, Type::UUID),
                (&host, Type::TEXT),
                (&sandbox, Type::TEXT),
                (&attempt, Type::INT4),
                (&retry_at, Type::INT8),
            ],
            seq,
        )
        .await
    }

    async fn finish(&self, finish: Finish) -> Result<(), AppendError> {
        let status = finish.events.last().and_then(runs::terminal_status).map(runs::Status::name);
        let kinds: Vec<&str> = finish.events.iter().map(Event::kind).collect();
        let data: Vec<serde_json::Value> = finish.events.iter().map(Event::to_stored).collect();
        let frames = finish.events.iter().map(|event| signed(frame::count(event))).collect::<Result<Vec<_>, _>>()?;
        self.call(
            &self.sql.function("finish_1", 10),
            &[
                (&finish.run_id, Type::UUID),
                (&finish.session, Type::UUID),
                (&signed(finish.seq)?, Type::INT4),
                (&signed(finish.first_index)?, Type::INT4),
                (&kinds, Type::TEXT_ARRAY),
                (&data, Type::JSONB_ARRAY),
                (&frames, Type::INT4_ARRAY),
                (&status, Type::TEXT),
                (&finish.checkpoint, Type::TEXT),
                (&finish.conversation, Type::TEXT),
            ],
        )
        .await
        .map(drop)
        .map_err(|error| append_error(error, finish.seq))
    }

    async fn hand_over(&self, run_id: Uuid, seq: u32, first_index: u32, reason: &str, holding: Holding) -> Result<(), AppendError> {
        self.call(
            &self.sql.function("hand_over_1", 6),
            &[
                (&run_id, Type::UUID),
                (&signed(seq)?, Type::INT4),
                (&signed(first_index)?, Type::INT4),
                (&reason, Type::TEXT),
                (&holding.session, Type::UUID),
                (&holding.claim, Type::UUID),
            ],
        )
        .await
        .map(drop)
        .map_err(|error| append_error(error, seq))
    }

    async fn heartbeat(&self, holdings: &[Holding], hosts: &[HostSeen], lease_ms: u64) -> Result<Vec<Notice>, LogError> {
        let (sessions, claims): (Vec<Uuid>, Vec<Uuid>) = holdings.iter().map(|holding| (holding.session, holding.claim)).unzip();
        let column = |of: fn(&HostSeen) -> &str| hosts.iter().map(of).collect::<Vec<&str>>();
        let (ids, kinds, labels) = (column(|host| &host.host), column(|host| &host.kind), column(|host| &host.label));
        // Renewing twice is renewing once, so a dead pooled connection costs a second try.
        let rows = self
            .read_first(
                &self.sql.function("heartbeat_1", 6),
                &[
                    (&sessions, Type::UUID_ARRAY),
                    (&claims, Type::UUID_ARRAY),
                    (&ids, Type::TEXT_ARRAY),
                    (&kinds, Type::TEXT_ARRAY),
                    (&labels, Type::TEXT_ARRAY),
                    (&millis(lease_ms), Type::INT8),
                ],
            )
            .await?;
        rows.iter().map(|row| Ok(Notice { claim: get(row, 0)?, cancel_requested: get::<Option<bool>>(row, 1)?.unwrap_or(false) })).collect()
    }

    async fn ended(&self, runs: &[Uuid]) -> Result<Vec<Uuid>, LogError> {
        let rows = self.read(&self.sql.ended, &[(&runs, Type::UUID_ARRAY)]).await?;
        rows.iter().map(|row| get(row, 0)).collect()
    }

    async fn erasures(&self, host: &str) -> Result<Vec<Uuid>, LogError> {
        let rows = self.read(&self.sql.erasures, &[(&host, Type::TEXT)]).await?;
        rows.iter().map(|row| get(row, 0)).collect()
    }

    async fn forget(&self, session: Uuid, host: &str) -> Result<(), LogError> {
        Ok(self.call(&self.sql.forget, &[(&session, Type::UUID), (&host, Type::TEXT)]).await.map(drop)?)
    }

    async fn upkeep(&self) -> Result<(), LogError> {
        Ok(self.call(&self.sql.function("upkeep_2", 0), &[]).await.map(drop)?)
    }
}
