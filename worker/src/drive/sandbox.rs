//! Making the sandbox that the log asks for.

use std::sync::Arc;

use runs::FailureClass;
use runs::agents::Harness;
use tracing::warn;

use super::ledger::LetGo;
use super::turn::{Pause, Turn};
use crate::files;
use crate::sandbox::{FillFn, Limits, Network, Paths, SandboxError, SandboxSpec};

/// All that egress has, since a command can be a client of either.
const UPSTREAMS: [&str; 2] = ["anthropic", "openai"];

impl Turn<'_> {
    /// Restores the checkpoint and starts the runner. What goes wrong with that is a failed attempt, not the turn's fault.
    pub(super) async fn create(&mut self) -> Result<(), LetGo> {
        let Some(place) = self.place() else { return Ok(()) };
        let mut pause = Pause::default();
        let attachments = loop {
            match self.parts.driver.attachments(self.ledger.run_id).await {
                Ok(attachments) => break attachments,
                Err(error) => {
                    warn!(run.id = %self.ledger.run_id, error = &error as &dyn std::error::Error, "cannot read the attachments; trying again");
                    pause.take().await;
                }
            }
            if self.word.borrow().lost {
                return Err(LetGo::NotMine);
            }
        };
        let (checkpoints, checkpoint) = (Arc::clone(&self.parts.checkpoints), self.claim.checkpoint.clone());
        let fill: FillFn = Box::new(move |paths: &Paths| {
            if let Some(checkpoint) = checkpoint {
                checkpoints.restore(&checkpoint, paths)?;
            }
            files::write(&attachments, &paths.files)
        });
        let spec = self.spec();
        match self.sandboxes.create(&place, self.claim.epoch, &spec, fill).await {
            Ok(()) => Ok(()),
            Err(SandboxError::Fenced { .. }) => Err(LetGo::NotMine),
            Err(error) => self.fail(FailureClass::Setup, &error.to_string()).await.and_then(|over| if over { Err(LetGo::Over) } else { Ok(()) }),
        }
    }

    fn spec(&self) -> SandboxSpec {
        let agent = &self.ledger.run.submitted.agent;
        let Harness::Command { command } = &agent.harness;
        SandboxSpec {
            command: command.clone(),
            env: Vec::new(),
            limits: Limits {
                memory: agent.limits.memory,
                cpus: agent.limits.cpus,
                processes: agent.limits.processes,
                disk: agent.limits.disk,
                time: std::time::Duration::from_millis(agent.limits.time),
            },
            network: network(agent.network),
            dead_man: self.parts.options.dead_man,
        }
    }
}

/// What the agent may reach. Nothing where this release cannot give what was asked for.
fn network(asked: runs::agents::Network) -> Network {
    match asked {
        runs::agents::Network::None | runs::agents::Network::Open => Network::None,
        runs::agents::Network::Isolated => Network::Isolated { upstreams: UPSTREAMS.map(String::from).to_vec() },
    }
}
