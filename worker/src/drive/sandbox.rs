//! Making the sandbox that the log asks for.

use std::sync::Arc;

use adapters::Attachment;
use runs::agents::Agent;
use runs::{FailureClass, Seen};
use tracing::warn;

use super::ledger::LetGo;
use super::turn::{Pause, Turn};
use crate::files;
use crate::harness::launch;
use crate::sandbox::{FILES, FillFn, Limits, Network, Paths, SandboxError, SandboxSpec};

impl Turn<'_> {
    /// Restores the checkpoint and starts the runner. What goes wrong with that is a failed attempt, not the turn's fault.
    pub(super) async fn create(&mut self) -> Result<(), LetGo> {
        let Some(place) = self.place() else { return Ok(()) };
        let attachments = self.attachments().await?;
        let (checkpoints, checkpoint) = (Arc::clone(&self.parts.checkpoints), self.claim.checkpoint.clone());
        let fill: FillFn = Box::new(move |paths: &Paths| {
            if let Some(checkpoint) = checkpoint {
                checkpoints.restore(&checkpoint, paths)?;
            }
            files::write(&attachments, &paths.files)
        });
        let spec = self.spec();
        match self.sandboxes.create(&place, self.claim.epoch, &spec, fill).await {
            Ok(()) => {
                // Should it have ended already, its journal says so.
                self.known = Some(Seen::Live);
                Ok(())
            }
            Err(SandboxError::Fenced { .. }) => Err(LetGo::NotMine),
            Err(error) => self.fail(FailureClass::Setup, &error.to_string()).await.and_then(|over| if over { Err(LetGo::Over) } else { Ok(()) }),
        }
    }

    /// What goes in by the harness's standard input, in pieces.
    pub(super) async fn input(&self) -> Result<Vec<Vec<u8>>, LetGo> {
        let submitted = Arc::clone(&self.ledger.run.submitted);
        let attachments = if launch::takes_files(&submitted.agent, &submitted.input) { self.attachments().await? } else { Vec::new() };
        let paths = files::names(&attachments).into_iter().map(|name| format!("{FILES}/{name}"));
        let shown: Vec<_> = paths.zip(&attachments).collect();
        Ok(launch::input(&submitted.agent, &submitted.input, &shown))
    }

    async fn attachments(&self) -> Result<Vec<Attachment>, LetGo> {
        if self.ledger.run.submitted.input.files.is_empty() {
            return Ok(Vec::new());
        }
        let mut pause = Pause::default();
        loop {
            match self.parts.driver.attachments(self.ledger.run_id).await {
                Ok(attachments) => return Ok(attachments),
                Err(error) => {
                    warn!(run.id = %self.ledger.run_id, error = &error as &dyn std::error::Error, "cannot read the attachments; trying again");
                    pause.take().await;
                }
            }
            if self.word.borrow().lost {
                return Err(LetGo::NotMine);
            }
        }
    }

    fn spec(&self) -> SandboxSpec {
        let runs::Submitted { agent, input, .. } = &*self.ledger.run.submitted;
        // A conversation without the checkpoint that has it cannot be taken up.
        let conversation = self.claim.conversation.as_deref().filter(|_| self.claim.checkpoint.is_some());
        let program = launch::program(agent, input, self.claim.session, conversation);
        SandboxSpec {
            command: program.command,
            env: program.env,
            limits: Limits {
                memory: agent.limits.memory,
                cpus: agent.limits.cpus,
                processes: agent.limits.processes,
                disk: agent.limits.disk,
                time: std::time::Duration::from_millis(agent.limits.time),
            },
            network: network(agent),
            dead_man: self.parts.options.dead_man,
        }
    }
}

/// What the agent may reach. Nothing where this release cannot give what was asked for.
fn network(agent: &Agent) -> Network {
    match agent.network {
        runs::agents::Network::None | runs::agents::Network::Open => Network::None,
        runs::agents::Network::Isolated => Network::Isolated { upstreams: launch::upstreams(agent).iter().map(|name| (*name).to_owned()).collect() },
    }
}
