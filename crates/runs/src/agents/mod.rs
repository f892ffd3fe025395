//! Agents: what is registered under a name, and how `agents.toml` says it.

mod file;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

pub use file::{Fault, parse};

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Network {
    None,
    Isolated,
    Open,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum SandboxKind {
    Namespace,
    Docker,
}

impl SandboxKind {
    pub fn name(self) -> &'static str {
        match self {
            Self::Namespace => "namespace",
            Self::Docker => "docker",
        }
    }
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase", tag = "harness")]
pub enum Harness {
    Command {
        command: Vec<String>,
    },
    /// The Claude Code CLI. It asks the agent's model.
    Claude {
        /// The CLI's own default where there is none.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        permission_mode: Option<String>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        max_turns: Option<u32>,
    },
}

impl Harness {
    pub fn name(&self) -> &'static str {
        match self {
            Self::Command { .. } => "command",
            Self::Claude { .. } => "claude",
        }
    }
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Limits {
    /// Bytes.
    pub memory: u64,
    pub processes: u64,
    pub cpus: f64,
    /// Bytes.
    pub disk: u64,
    /// Milliseconds.
    pub time: u64,
    /// Bytes of frames.
    pub output: u64,
}

impl Default for Limits {
    fn default() -> Self {
        const MIB: u64 = 1024 * 1024;
        Self { memory: 2048 * MIB, processes: 256, cpus: 2.0, disk: 2048 * MIB, time: 15 * 60 * 1000, output: 16 * MIB }
    }
}

/// A definition as it is recorded in `run.submitted`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Agent {
    pub id: String,
    pub name: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub description: String,
    #[serde(flatten)]
    pub harness: Harness,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    pub sandbox: SandboxKind,
    pub network: Network,
    pub limits: Limits,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attempts: Option<u32>,
}

/// All that are registered, by id.
pub type Agents = BTreeMap<String, Agent>;
