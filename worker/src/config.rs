//! The environment of the program `worker`, read once. Every fault is told at once.
//!
//! | variable | default | what it is |
//! |---|---|---|
//! | `DATABASE_URL` | | the functions' role on the deployment's Postgres |
//! | `DATABASE_MIGRATE_URL` | | the role that owns the schema: with it, a start brings an older schema up to date |
//! | `SANDLOG_SCHEMA` | sandlog | the schema of a deployment in that database |
//! | `SANDLOG_DATA_DIR` | .dev | what this host keeps; a function that has none makes no namespace sandboxes |
//! | `SANDLOG_CHECKPOINTS` | DATA/checkpoints | where checkpoints are kept: `file:///FOLDER` |
//! | `SANDLOG_QUEUE_URL` | none | the SQS queue that rings workers that are functions |
//! | `REDIS_URL` | none | the Redis that carries signals between processes |
//! | `SANDLOG_REDIS_PREFIX` | of the deployment's id | what every key there begins with |
//! | `SANDLOG_LISTEN` | on, but for functions | whether Postgres carries signals where there is no Redis: `on` or `off` |
//! | `SANDLOG_LEASE_SECONDS` | 15 | how long a silent worker keeps a session |
//! | `SANDLOG_WORKERS` | 8 | how many runs this process drives at a time |
//! | `SANDLOG_METRICS_PORT` | none | a port for `GET /metrics`, at `SANDLOG_HOST`; 0: a free one, which is logged |
//! | `SANDLOG_HOST` | 127.0.0.1 | its address |
//! | `SANDLOG_RUNNER` | beside `worker` | the program `sandlog-runner` |
//! | `SANDLOG_TOOLS` | none | a folder of programs that sandboxes see read-only, with its `bin` in their `PATH` |
//! | `SANDLOG_EGRESS` | beside `worker` | the program `sandlog-egress`, which reads variables of its own (see `.env.sample`) |
//! | `SANDLOG_LOG` | warn,info for our own | what is logged to standard error, as `RUST_LOG` |

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use adapters::config::{Carrying, Database, Faults, Variables};
use tracing::warn;
use uuid::Uuid;

use crate::Options;
use crate::sandbox::namespace::{self, Namespace};
use crate::sandbox::{SandboxError, Sandboxes};

#[derive(Clone, Debug)]
pub struct Config {
    /// Of AWS Lambda, or of what emulates it.
    pub is_function: bool,
    pub database: Database,
    pub schema: String,
    /// None: this host keeps nothing, so it can make no namespace sandboxes.
    pub data: Option<PathBuf>,
    pub checkpoints: PathBuf,
    pub queue: Option<String>,
    pub carrying: Carrying,
    pub metrics: Option<SocketAddr>,
    pub settings: Settings,
}

/// What may be set of a worker, whatever it is a part of.
#[derive(Clone, Debug)]
pub struct Settings {
    pub lease: Duration,
    pub turns: usize,
    runner: Option<PathBuf>,
    tools: Option<PathBuf>,
    egress: Option<PathBuf>,
}

impl Config {
    pub fn read(get: impl Fn(&str) -> Option<String>) -> Result<Config, Faults> {
        let mut from = Variables::new(get);
        let is_function = from.is_function();
        let given = from.text("SANDLOG_DATA_DIR").map(PathBuf::from);
        // What a function writes is lost with its environment, unless somebody says otherwise.
        let data = if is_function { given } else { Some(given.unwrap_or_else(|| ".dev".into())) };
        let here = data.clone().unwrap_or_else(|| std::env::temp_dir().join("sandlog"));
        let config = Config {
            is_function,
            database: from.database_given(),
            schema: from.schema(),
            checkpoints: from.checkpoints().unwrap_or_else(|| here.join("checkpoints")),
            data,
            queue: from.queue(),
            carrying: from.carrying(),
            metrics: from.metrics(),
            settings: Settings::read(&mut from),
        };
        from.done(config)
    }

    /// The sandboxes that this host can make. A process without any is of no use and does not start; a function sweeps and leaves the runs alone.
    pub async fn sandboxes(&self) -> Result<Vec<Arc<dyn Sandboxes>>, SandboxError> {
        let Some(data) = self.data.clone() else {
            warn!("no namespace sandboxes here: a function that is to make them needs SANDLOG_DATA_DIR");
            return Ok(Vec::new());
        };
        match self.settings.namespace(data, &self.schema).await {
            Ok(namespace) => Ok(vec![namespace]),
            Err(error) if self.is_function => {
                warn!(error = &error as &dyn std::error::Error, "no namespace sandboxes here");
                Ok(Vec::new())
            }
            Err(error) => Err(error),
        }
    }

    /// Before anything is driven: the data folder is this log's.
    pub fn belong(&self, deployment: Uuid) -> Result<(), SandboxError> {
        self.data.as_deref().map_or(Ok(()), |data| namespace::belong(data, deployment))
    }
}

impl Settings {
    pub fn read<F: Fn(&str) -> Option<String>>(from: &mut Variables<F>) -> Settings {
        Settings {
            lease: Duration::from_secs(from.within("SANDLOG_LEASE_SECONDS", 15, 1, 3600)),
            turns: usize::try_from(from.within("SANDLOG_WORKERS", 8, 1, 1000)).unwrap_or(8),
            runner: from.text("SANDLOG_RUNNER").map(PathBuf::from),
            tools: from.text("SANDLOG_TOOLS").map(PathBuf::from),
            egress: from.text("SANDLOG_EGRESS").map(PathBuf::from),
        }
    }

    /// The namespace sandboxes of a host, with its programs beside this one unless they were named.
    pub async fn namespace(&self, data: PathBuf, schema: &str) -> Result<Arc<dyn Sandboxes>, SandboxError> {
        let beside = |program: std::io::Result<PathBuf>| program.map_err(SandboxError::io("the program's folder"));
        let runner = self.runner.clone().map_or_else(|| beside(namespace::runner_beside()), Ok)?;
        let egress = self.egress.clone().map_or_else(|| beside(namespace::egress_beside()), Ok)?;
        let options =
            namespace::Options { deployment: schema.to_owned(), runner, egress, bwrap: None, tools: self.tools.clone(), user: namespace::USER };
        let opened = tokio::task::spawn_blocking(move || Namespace::open(&data, options)).await;
        let namespace = opened.unwrap_or_else(|panic| Err(SandboxError::Unreachable(panic.to_string())))?;
        let missing = &namespace.capabilities().missing;
        if !missing.is_empty() {
            warn!("not all limits of sandboxes can be kept on this host: {}", missing.join("; "));
        }
        Ok(Arc::new(namespace))
    }

    pub fn options(&self) -> Options {
        let label = rustix::system::uname().nodename().to_string_lossy().into_owned();
        let name = format!("{label}-{}", std::process::id());
        Options { name, label, lease: self.lease, turns: self.turns, ..Options::default() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(variables: &[(&str, &str)]) -> Result<Config, Faults> {
        let get = |name: &str| variables.iter().find(|(key, _)| *key == name).map(|(_, value)| (*value).to_owned());
        Config::read(get)
    }

    #[test]
    fn every_fault_is_told_at_once() {
        let wrong = [
            ("SANDLOG_LEASE_SECONDS", "0"),
            ("SANDLOG_QUEUE_URL", "queue"),
            ("SANDLOG_SCHEMA", "a;b"),
            ("REDIS_URL", "localhost"),
            ("SANDLOG_METRICS_PORT", "x"),
            ("SANDLOG_HOST", "here"),
        ];
        let faults = read(&wrong).expect_err("faults").to_string();
        for name in
            ["DATABASE_URL", "REDIS_URL", "SANDLOG_HOST", "SANDLOG_METRICS_PORT", "SANDLOG_LEASE_SECONDS", "SANDLOG_QUEUE_URL", "SANDLOG_SCHEMA"]
        {
            assert!(faults.contains(&format!("{name}: ")), "{name} is not in: {faults}");
        }
    }

    #[tokio::test]
    async fn a_function_without_a_data_folder_makes_no_namespaces() {
        let config = read(&[("DATABASE_URL", "postgres://a"), ("AWS_LAMBDA_RUNTIME_API", "127.0.0.1:9001")]).expect("a configuration");
        assert_eq!(config.carrying, Carrying::Poll);
        assert!(config.is_function && config.sandboxes().await.expect("none").is_empty());
        let process = read(&[("DATABASE_URL", "postgres://a")]).expect("a configuration");
        assert_eq!(process.data, Some(".dev".into()));
        let settings = Settings { runner: Some("/no/such/program".into()), ..process.settings.clone() };
        let nowhere = Config { settings, ..process };
        assert!(nowhere.sandboxes().await.is_err(), "a process that can do nothing does not start");
        let function = Config { is_function: true, ..nowhere };
        assert!(function.sandboxes().await.expect("none").is_empty(), "a function leaves the runs alone");
    }

    #[test]
    fn counts_are_told_on_loopback_where_somebody_asks_for_it_and_never_by_a_function() {
        let of = |more: &[(&str, &str)]| {
            read(&[&[("DATABASE_URL", "postgres://a")], more].concat()).expect("a configuration").metrics.map(|address| address.to_string())
        };
        let port = ("SANDLOG_METRICS_PORT", "9100");
        assert_eq!(of(&[]), None);
        assert_eq!(of(&[port]).as_deref(), Some("127.0.0.1:9100"));
        assert_eq!(of(&[port, ("SANDLOG_HOST", "0.0.0.0")]).as_deref(), Some("0.0.0.0:9100"));
        assert_eq!(of(&[port, ("AWS_LAMBDA_RUNTIME_API", "127.0.0.1:9001")]), None);
    }

    #[test]
    fn every_variable_is_in_the_sample_file() {
        let sample = include_str!("../../.env.sample");
        let documented = include_str!("config.rs").lines().filter_map(|line| line.strip_prefix("//! | `")?.split('`').next());
        for name in documented {
            assert!(sample.contains(&format!("# {name}=")), "{name} is not in .env.sample");
        }
    }
}
