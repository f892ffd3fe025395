//! What an agent says of its harness: each has keys of its own, and the others' are faults.

use std::ops::Range;

use toml::Spanned;

use super::{Entry, Reader};
use crate::agents::{Harness, Limits, Network};

/// The modes that the CLI knows.
const PERMISSION_MODES: [&str; 7] = ["default", "acceptEdits", "auto", "bypassPermissions", "dontAsk", "manual", "plan"];
/// With less the CLI is killed before it can say anything.
const CLAUDE_MEMORY: u64 = 192 * 1024 * 1024;

/// The keys that are for one harness or the other.
pub(super) struct Said {
    pub(super) harness: Spanned<String>,
    pub(super) command: Option<Spanned<Vec<String>>>,
    pub(super) model: Option<Spanned<String>>,
    pub(super) permission_mode: Option<Spanned<String>>,
    pub(super) max_turns: Option<Spanned<i64>>,
}

/// Where what a harness asks of the rest is said: the agent's own line where it is not.
pub(super) struct Places {
    network: Range<usize>,
    memory: Range<usize>,
}

impl Places {
    pub(super) fn of(agent: &Range<usize>, entry: &Entry) -> Self {
        let memory = entry.limits.as_ref().and_then(|limits| limits.memory.as_ref());
        Self {
            network: entry.network.as_ref().map_or_else(|| agent.clone(), Spanned::span),
            memory: memory.map_or_else(|| agent.clone(), Spanned::span),
        }
    }
}

impl Reader<'_> {
    /// The harness and its model.
    pub(super) fn harness(&mut self, place: &Range<usize>, said: Said) -> Option<(Harness, Option<String>)> {
        match said.harness.get_ref().as_str() {
            "command" => self.command(place, said),
            "claude" => self.claude(place, said),
            "codex" => self.refuse(said.harness.span(), "harness = \"codex\" is not in this release, which has: command and claude".into()),
            other => {
                let reason = format!("harness = {other:?}: this release has command and claude");
                self.refuse(said.harness.span(), reason)
            }
        }
    }

    fn command(&mut self, place: &Range<usize>, said: Said) -> Option<(Harness, Option<String>)> {
        let mode = self.not_of("permission_mode", "command", said.permission_mode.map(|value| value.span()));
        let turns = self.not_of("max_turns", "command", said.max_turns.map(|value| value.span()));
        let Some(command) = said.command else {
            return self.refuse(place.clone(), "harness = \"command\" needs command = [\"program\", \"argument\", ...]".into());
        };
        let span = command.span();
        let command = command.into_inner();
        if command.first().is_none_or(String::is_empty) {
            return self.refuse(span, "command is empty: its first word is the program".into());
        }
        if command.iter().any(|word| word.contains('\0')) {
            return self.refuse(span, "command holds a NUL character".into());
        }
        mode.and(turns)?;
        Some((Harness::Command { command }, said.model.map(Spanned::into_inner)))
    }

    fn claude(&mut self, place: &Range<usize>, said: Said) -> Option<(Harness, Option<String>)> {
        let command = self.not_of("command", "claude", said.command.map(|value| value.span()));
        let model = match said.model {
            None => self.refuse(place.clone(), "harness = \"claude\" needs model = \"...\"".into()),
            Some(model) if model.get_ref().is_empty() || model.get_ref().starts_with('-') || model.get_ref().contains('\0') => {
                let reason = format!("model = {:?} is no model's name", model.get_ref());
                self.refuse(model.span(), reason)
            }
            Some(model) => Some(model.into_inner()),
        };
        let permission_mode = match said.permission_mode {
            Some(mode) if !PERMISSION_MODES.contains(&mode.get_ref().as_str()) => {
                let reason = format!("permission_mode = {:?}: one of {}", mode.get_ref(), PERMISSION_MODES.join(", "));
                self.refuse(mode.span(), reason)
            }
            mode => Some(mode.map(Spanned::into_inner)),
        };
        let max_turns = match said.max_turns {
            Some(turns) if !(1..=10_000).contains(turns.get_ref()) => {
                let reason = format!("max_turns = {}: 1 to 10000", turns.get_ref());
                self.refuse(turns.span(), reason)
            }
            turns => Some(turns.and_then(|turns| u32::try_from(turns.into_inner()).ok())),
        };
        command?;
        Some((Harness::Claude { permission_mode: permission_mode?, max_turns: max_turns? }, Some(model?)))
    }

    fn not_of(&mut self, key: &str, harness: &str, given: Option<Range<usize>>) -> Option<()> {
        match given {
            Some(span) => self.refuse(span, format!("{key} is not for harness = \"{harness}\"")),
            None => Some(()),
        }
    }

    /// What the harness asks of network and limits.
    pub(super) fn fits_harness(&mut self, harness: &Harness, network: Network, limits: &Limits, places: Places) -> Option<()> {
        if matches!(harness, Harness::Command { .. }) {
            return Some(());
        }
        let reached = match network {
            Network::None => {
                self.refuse(places.network, "harness = \"claude\" needs a model: network = \"isolated\" leads to it and nowhere else".into())
            }
            Network::Isolated | Network::Open => Some(()),
        };
        let fits = if limits.memory < CLAUDE_MEMORY {
            self.refuse(places.memory, "memory: harness = \"claude\" needs at least 192MiB".into())
        } else {
            Some(())
        };
        reached.and(fits)
    }
}
