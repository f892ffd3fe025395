//! `agents.toml`: text in, definitions or faults out. A fault names its line and the reason.

use std::fmt;
use std::ops::Range;

use serde::Deserialize;
use toml::Spanned;

use super::{Agent, Agents, Limits, Network, SandboxKind};

mod harness;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    pub line: usize,
    pub reason: String,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}: {}", self.line, self.reason)
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(default)]
    agents: toml::map::Map<String, toml::Value>,
}

/// The same file, read a second time for the places of its values: the first reading has shown that it is well formed.
#[derive(Deserialize)]
struct Placed {
    #[serde(default)]
    agents: std::collections::BTreeMap<Spanned<String>, Spanned<Entry>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    name: Option<Spanned<String>>,
    #[serde(default)]
    description: String,
    harness: Spanned<String>,
    command: Option<Spanned<Vec<String>>>,
    model: Option<Spanned<String>>,
    permission_mode: Option<Spanned<String>>,
    max_turns: Option<Spanned<i64>>,
    repository: Option<Spanned<toml::Value>>,
    image: Option<Spanned<toml::Value>>,
    sandbox: Option<Spanned<String>>,
    network: Option<Spanned<String>>,
    limits: Option<RawLimits>,
    attempts: Option<Spanned<i64>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawLimits {
    memory: Option<Spanned<String>>,
    processes: Option<Spanned<i64>>,
    cpus: Option<Spanned<toml::Value>>,
    disk: Option<Spanned<String>>,
    time: Option<Spanned<String>>,
    output: Option<Spanned<String>>,
}

pub fn parse(text: &str) -> Result<Agents, Vec<Fault>> {
    let at = |span: Option<Range<usize>>| line(text, span.map_or(0, |span| span.start));
    let fault = |error: &toml::de::Error| vec![Fault { line: at(error.span()), reason: error.message().trim().replace('\n', "; ") }];
    let file: File = toml::from_str(text).map_err(|error| fault(&error))?;
    if file.agents.is_empty() {
        return Err(vec![Fault { line: 1, reason: "no agent is defined: a section [agents.NAME] is needed".into() }]);
    }
    let placed: Placed = toml::from_str(text).map_err(|error| fault(&error))?;
    let mut reader = Reader { text, faults: Vec::new() };
    let agents = placed.agents.into_iter().filter_map(|(id, entry)| reader.agent(id, entry.into_inner())).collect::<Vec<_>>();
    if reader.faults.is_empty() { Ok(agents.into_iter().map(|agent| (agent.id.clone(), agent)).collect()) } else { Err(reader.faults) }
}

struct Reader<'a> {
    text: &'a str,
    faults: Vec<Fault>,
}

impl Reader<'_> {
    fn refuse<T>(&mut self, span: Range<usize>, reason: String) -> Option<T> {
        self.faults.push(Fault { line: line(self.text, span.start), reason });
        None
    }

    fn agent(&mut self, id: Spanned<String>, entry: Entry) -> Option<Agent> {
        let (place, id) = (id.span(), id.into_inner());
        let fits = !id.is_empty() && id.len() <= 64 && id.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_.".contains(&b));
        if !fits {
            self.refuse::<()>(place.clone(), format!("agent name {id:?}: 1 to 64 letters, digits, '-', '_' or '.'"));
        }
        for (key, given) in [("repository", &entry.repository), ("image", &entry.image)] {
            if let Some(given) = given {
                self.refuse::<()>(given.span(), format!("{key} is not in this release"));
            }
        }
        let places = harness::Places::of(&place, &entry);
        let said = harness::Said {
            harness: entry.harness,
            command: entry.command,
            model: entry.model,
            permission_mode: entry.permission_mode,
            max_turns: entry.max_turns,
        };
        let harness = self.harness(&place, said);
        let sandbox = self.sandbox(entry.sandbox);
        let network = self.network(entry.network);
        let limits = entry.limits.map_or_else(|| Some(Limits::default()), |raw| self.limits(raw));
        let attempts = match entry.attempts {
            Some(value) if !(1..=10).contains(value.get_ref()) => {
                let reason = format!("attempts = {}: 1 to 10", value.get_ref());
                self.refuse(value.span(), reason)
            }
            value => Some(value.and_then(|value| u32::try_from(value.into_inner()).ok())),
        };
        let name = match entry.name {
            Some(name) if name.get_ref().trim().is_empty() => self.refuse(name.span(), "name is empty".into()),
            name => Some(name.map_or_else(|| id.clone(), Spanned::into_inner)),
        };
        let ((harness, model), sandbox, network, limits, attempts, name) = (harness?, sandbox?, network?, limits?, attempts?, name?);
        self.fits_harness(&harness, network, &limits, places)?;
        fits.then_some(Agent { id, name, description: entry.description, harness, model, sandbox, network, limits, attempts })
    }

    fn sandbox(&mut self, value: Option<Spanned<String>>) -> Option<SandboxKind> {
        let Some(value) = value else { return Some(SandboxKind::Namespace) };
        match value.get_ref().as_str() {
            "namespace" => Some(SandboxKind::Namespace),
            "docker" => self.refuse(value.span(), "sandbox = \"docker\" is not in this release, which has: namespace".into()),
            other => {
                let reason = format!("sandbox = {other:?}: this release has namespace");
                self.refuse(value.span(), reason)
            }
        }
    }

    fn network(&mut self, value: Option<Spanned<String>>) -> Option<Network> {
        let Some(value) = value else { return Some(Network::Isolated) };
        match value.get_ref().as_str() {
            "none" => Some(Network::None),
            "isolated" => Some(Network::Isolated),
            "open" => self.refuse(value.span(), "network = \"open\" is not in this release, which has: none, isolated".into()),
            other => {
                let reason = format!("network = {other:?}: this release has none and isolated");
                self.refuse(value.span(), reason)
            }
        }
    }

    fn limits(&mut self, raw: RawLimits) -> Option<Limits> {
        const MIB: u64 = 1024 * 1024;
        let default = Limits::default();
        let memory = self.size("memory", raw.memory, default.memory, 8 * MIB..=1024 * 1024 * MIB);
        let disk = self.size("disk", raw.disk, default.disk, MIB..=1024 * 1024 * MIB);
        let output = self.size("output", raw.output, default.output, 1024..=1024 * MIB);
        let processes = match raw.processes {
            Some(value) if !(1..=65_536).contains(value.get_ref()) => {
                let reason = format!("processes = {}: 1 to 65536", value.get_ref());
                self.refuse(value.span(), reason)
            }
            value => Some(value.and_then(|value| u64::try_from(value.into_inner()).ok()).unwrap_or(default.processes)),
        };
        let cpus = match raw.cpus {
            None => Some(default.cpus),
            Some(value) => {
                let number = value.get_ref().as_float().or_else(|| value.get_ref().as_integer().map(|n| n as f64));
                match number {
                    Some(number) if (0.01..=1024.0).contains(&number) => Some(number),
                    _ => {
                        let reason = format!("cpus = {}: a number from 0.01 to 1024", value.get_ref());
                        self.refuse(value.span(), reason)
                    }
                }
            }
        };
        let time = match raw.time {
            None => Some(default.time),
            Some(value) => match humantime::parse_duration(value.get_ref()) {
                Ok(time) if (1..=24 * 3600).contains(&time.as_secs()) => Some(time.as_secs() * 1000 + u64::from(time.subsec_millis())),
                _ => {
                    let reason = format!("time = {:?}: a duration like \"15m\", from 1s to 24h", value.get_ref());
                    self.refuse(value.span(), reason)
                }
            },
        };
        Some(Limits { memory: memory?, processes: processes?, cpus: cpus?, disk: disk?, time: time?, output: output? })
    }

    fn size(&mut self, key: &str, value: Option<Spanned<String>>, default: u64, range: std::ops::RangeInclusive<u64>) -> Option<u64> {
        let Some(value) = value else { return Some(default) };
        match value.get_ref().parse::<bytesize::ByteSize>() {
            Ok(size) if range.contains(&size.as_u64()) => Some(size.as_u64()),
            _ => {
                let (from, to) = (bytesize::ByteSize(*range.start()), bytesize::ByteSize(*range.end()));
                let reason = format!("{key} = {:?}: a size like \"2GiB\", from {from} to {to}", value.get_ref());
                self.refuse(value.span(), reason)
            }
        }
    }
}

fn line(text: &str, offset: usize) -> usize {
    text.as_bytes().iter().take(offset).filter(|byte| **byte == b'\n').count() + 1
}
