//! From the end of a turn to its terminal event.

use std::io;
use std::pin::pin;
use std::sync::Arc;

use runs::agents::Agent;
use runs::decide::{self, Checkpoint, Verdict};
use runs::{FailureClass, Metrics};
use tracing::warn;

use super::ledger::{LetGo, Written};
use super::turn::Turn;
use crate::harness::{Ending, Said, launch};
use crate::sandbox::{Place, Sandboxes};
use crate::{Parts, checkpoint};

impl Turn<'_> {
    /// Whether the turn is done; if not, something came in between and the loop decides again.
    pub(super) async fn end(&mut self, ending: Ending) -> Result<bool, LetGo> {
        match ending {
            Ending::Lost { class, error } => self.fail(class, &error).await,
            Ending::Failed { error, error_type, metrics } => {
                let verdict = self.failed(error, error_type, metrics);
                self.finish(verdict, None).await
            }
            Ending::Judged(judged) => match self.checkpoint().await? {
                None => Ok(false),
                Some(Ok(checkpoint)) => {
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
                Some(Err(error)) => {
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

    /// A workspace may be large, and a wish to cancel does not wait for it. None: there is such a wish. What is being packed then comes to nothing, or to
    /// a file that the next turn tidies up.
    async fn checkpoint(&mut self) -> Result<Option<io::Result<Checkpoint>>, LetGo> {
        let Some(place) = self.place() else { return Ok(Some(Err(io::Error::other("no sandbox")))) };
        let mut word = self.word.clone();
        let mut saving = pin!(save(self.parts, Arc::clone(&self.sandboxes), self.ledger.run.submitted.agent.clone(), place, self.claim.epoch));
        loop {
            tokio::select! {
                saved = &mut saving => return Ok(Some(saved)),
                changed = word.changed() => {
                    if changed.is_err() || word.borrow_and_update().lost {
                        return Err(LetGo::NotMine);
                    }
                    self.follow_hints().await?;
                    if self.ledger.run.cancel_requested {
                        return Ok(None);
                    }
                }
            }
        }
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

async fn save(parts: &Parts, sandboxes: Arc<dyn Sandboxes>, agent: Agent, place: Place, epoch: u64) -> io::Result<Checkpoint> {
    let paths = sandboxes.paths(&place).await;
    // Each claim writes its own: a holder that lost its lease while it was packing must not replace what the next one has committed.
    let name = format!("{}-{epoch}", place.name);
    let (id, bytes) = parts.checkpoints.save(place.session, &name, &paths, launch::keeps(&agent)).await?;
    // One that never began cannot be taken up: the next turn begins it.
    let began = launch::conversation(&agent, place.session).filter(|conversation| checkpoint::has(&paths, &conversation.file));
    Ok(Checkpoint { id, bytes, conversation: began.map(|conversation| conversation.id) })
}

/// An attempt that the back end could not attach to for a reason that trying again does not mend.
pub(super) fn broken(error: &crate::sandbox::SandboxError) -> Ending {
    Ending::Lost { class: FailureClass::SandboxLost, error: error.to_string() }
}
