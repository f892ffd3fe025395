//! Accepting, cancelling, erasing.

use async_trait::async_trait;
use runs::Event;
use tokio_postgres::types::Type;
use uuid::Uuid;

use super::Postgres;
use super::call::CallError;
use super::row::{get, status};
use crate::{Accepted, CancelAnswer, Erased, Intake, LogError, Refused, Scope, Submission, Terms};

fn refused(error: CallError) -> Refused {
    match error {
        CallError::Refused(state) => match state.as_str() {
            "SL404" => Refused::SessionNotFound,
            "SL408" => Refused::KeyScope,
            "SL409" => Refused::KeyInput,
            "SL429" => Refused::QueueFull,
            "SL500" => Refused::ManyHosts,
            _ => Refused::Log(CallError::Refused(state).into()),
        },
        CallError::Log(error) => Refused::Log(error),
    }
}

#[async_trait]
impl Intake for Postgres {
    async fn submit(&self, submission: Submission) -> Result<Accepted, Refused> {
        let Submission { session_id, user_id, submitted, attachments, key, terms } = submission;
        let (agent_id, kind) = (submitted.agent.id.clone(), submitted.agent.sandbox.name());
        let data = Event::Submitted(Box::new(submitted)).to_stored();
        let (key, fingerprint) = key.unzip();
        let names: Vec<&str> = attachments.iter().map(|a| a.name.as_str()).collect();
        let media_types: Vec<&str> = attachments.iter().map(|a| a.media_type.as_str()).collect();
        let digests: Vec<&str> = attachments.iter().map(|a| a.sha256.as_str()).collect();
        let bodies: Vec<&[u8]> = attachments.iter().map(|a| a.body.as_slice()).collect();
        let answer = self
            .call(
                &self.sql.function("submit_2", 13),
                &[
                    (&key, Type::TEXT),
                    (&fingerprint, Type::BYTEA),
                    (&session_id, Type::TEXT),
                    (&agent_id, Type::TEXT),
                    (&user_id, Type::TEXT),
                    (&kind, Type::TEXT),
                    (&data, Type::JSONB),
                    (&names, Type::TEXT_ARRAY),
                    (&media_types, Type::TEXT_ARRAY),
                    (&digests, Type::TEXT_ARRAY),
                    (&bodies, Type::BYTEA_ARRAY),
                    (&terms.queue_limit.map(i64::from), Type::INT8),
                    (&terms.one_host, Type::BOOL),
                ],
            )
            .await;
        let rows = match answer {
            Ok(rows) => rows,
            Err(CallError::Log(error)) => return Err(self.explained(error).await.into()),
            Err(error) => return Err(refused(error)),
        };
        let row = rows.first().ok_or_else(|| LogError::Unreadable("submit answered nothing".into()))?;
        Ok(Accepted { run_id: get(row, 0)?, session_id: get(row, 1)?, session: get(row, 4)?, status: status(get(row, 2)?)?, new: get(row, 3)? })
    }

    async fn fit(&self, terms: Terms) -> Result<(), Refused> {
        self.inspect().await?;
        if !terms.one_host {
            return Ok(());
        }
        let rows = self.read(&self.sql.function("hosts_1", 0), &[]).await?;
        match rows.first().map(|row| get::<i64>(row, 0)).transpose()? {
            Some(0 | 1) => Ok(()),
            _ => Err(Refused::ManyHosts),
        }
    }

    async fn cancel(&self, agent_id: &str, run_id: Uuid, scope: Scope<'_>) -> Result<Option<CancelAnswer>, LogError> {
        let (scoped, user) = (scope.is_some(), scope.flatten());
        // Idempotent, so a connection that died in the pool costs a second try and nothing else.
        let rows = self
            .read(&self.sql.function("cancel_1", 4), &[(&agent_id, Type::TEXT), (&run_id, Type::UUID), (&scoped, Type::BOOL), (&user, Type::TEXT)])
            .await?;
        let Some(row) = rows.first() else { return Ok(None) };
        Ok(Some(CancelAnswer { session: get(row, 2)?, status: status(get(row, 0)?)?, cancel_requested: get(row, 1)? }))
    }

    async fn erase(&self, session_id: &str, scope: Scope<'_>) -> Result<Erased, LogError> {
        let (scoped, user) = (scope.is_some(), scope.flatten());
        let rows = self.call(&self.sql.function("erase_1", 3), &[(&session_id, Type::TEXT), (&scoped, Type::BOOL), (&user, Type::TEXT)]).await?;
        match rows.first().map(|row| get::<&str>(row, 0)).transpose()? {
            Some("gone") => Ok(Erased::Gone),
            Some("busy") => Ok(Erased::Busy),
            _ => Ok(Erased::Unknown),
        }
    }
}
