//! From the end of a turn to its terminal event.

use runs::decide::{self, Checkpoint, Verdict};
use runs::{FailureClass, Metrics};
use tracing::warn;

use super::ledger::{LetGo, Written};
use super::turn::Turn;
use crate::checkpoint;
use crate::harness::{Ending, Said, launch};

impl Turn<'_> {
    /// Whether the turn is done; if not, something came in between and the loop decides again.
    pub(super) async fn end(&mut self, ending: Ending) -> Result<bool, LetGo> {
        match ending {
            Ending::Lost { class, error } => self.fail(class, &error).await,
            Ending::Failed { error, error_type, metrics } => {
                let verdict = self.failed(error, error_type, metrics);
                self.finish(verdict, None).await
            }
            Ending::Judged(judged) => match self.checkpoint().await {
                Ok(checkpoint) => {
                    let verdict = match judged.outcome {
                        Ok(said) => {
                            let Said { content, content_type, truncated } = said.unwrap_or_else(|| self.streamed());
                            Verdict::Completed {
                                content,
                                content_type: content_type.into(),
                                truncated,
                                metrics: judged.metrics,
                                tools: self.ledger.tools.clone().take(),
                            }
                        }
                        Err((error, error_type)) => self.failed(error, error_type, judged.metrics),
                    };
                    self.finish(verdict, Some(checkpoint)).await
                }
                Err(error) => {
                    let verdict = self.failed(format!("the checkpoint could not be saved: {error}"), "checkpoint".into(), judged.metrics);
                    self.finish(verdict, None).await
                }
            },
        }
    }

    /// The tree is proven gone: the wish to cancel is fulfilled.
    pub(super) async fn cancelled(&mut self) -> Result<bool, LetGo> {
        Ok(self.ledger.finish(vec![decide::cancelled()], None).await? == Written::Yes)
    }

    /// All that it said is the answer.
    fn streamed(&self) -> Said {
        let (content, truncated) = self.ledger.content.clone().take();
        Said { content, content_type: "str", truncated }
    }

    fn failed(&self, error: String, error_type: String, metrics: Metrics) -> Verdict {
        let (content, truncated) = self.ledger.content.clone().take();
        Verdict::Failed {
            error,
            error_type,
            started: self.ledger.run.started_at.is_some(),
            content,
            truncated,
            metrics,
            tools: self.ledger.tools.clone().take(),
        }
    }

    async fn checkpoint(&self) -> std::io::Result<Checkpoint> {
        let place = self.place().ok_or_else(|| std::io::Error::other("no sandbox"))?;
        let (agent, paths) = (&self.ledger.run.submitted.agent, self.sandboxes.paths(&place).await);
        // Each claim writes its own: a holder that lost its lease while it was packing must not replace what the next one has committed.
        let name = format!("{}-{}", place.name, self.claim.epoch);
        let (id, bytes) = self.parts.checkpoints.save(place.session, &name, &paths, launch::keeps(agent)).await?;
        // One that never began cannot be taken up: the next turn begins it.
        let began = launch::conversation(agent, place.session).filter(|conversation| checkpoint::has(&paths, &conversation.file));
        Ok(Checkpoint { id, bytes, conversation: began.map(|conversation| conversation.id) })
    }

    async fn finish(&mut self, verdict: Verdict, checkpoint: Option<Checkpoint>) -> Result<bool, LetGo> {
        let done = self.ledger.finish(decide::finish(verdict, checkpoint.clone()), checkpoint.clone()).await? == Written::Yes;
        if let (true, Some(checkpoint)) = (done, checkpoint)
            && let Err(error) = self.parts.checkpoints.keep_only(self.claim.session, &[&checkpoint.id]).await
        {
            warn!(run.id = %self.ledger.run_id, error = &error as &dyn std::error::Error, "older checkpoints are left to the next turn");
        }
        Ok(done)
    }
}

/// An attempt that the back end could not attach to for a reason that trying again does not mend.
pub(super) fn broken(error: &crate::sandbox::SandboxError) -> Ending {
    Ending::Lost { class: FailureClass::SandboxLost, error: error.to_string() }
}
