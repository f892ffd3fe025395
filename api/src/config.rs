//! The environment of the program `api`, read once. Every fault is told at once.
//!
//! | variable | default | what it is |
//! |---|---|---|
//! | `DATABASE_URL` | | the functions' role on the deployment's Postgres |
//! | `DATABASE_MIGRATE_URL` | | the role that owns the schema: with it, a start brings an older schema up to date |
//! | `SANDLOG_SCHEMA` | sandlog | the schema of a deployment in that database |
//! | `SANDLOG_AGENTS` | infra/agents.toml | the registered agents |
//! | `SANDLOG_QUEUE_URL` | none | the SQS queue that rings workers that are functions |
//! | `REDIS_URL` | none | the Redis that carries signals between processes |
//! | `SANDLOG_REDIS_PREFIX` | of the deployment's id | what every key there begins with |
//! | `SANDLOG_LISTEN` | on, but for functions | whether Postgres carries signals where there is no Redis: `on` or `off` |
//! | `SANDLOG_AUTH` | none | who may ask: `none` (on loopback, or where it is said on purpose in Lambda), `key`, `jwt`, `gateway` (in Lambda) |
//! | `SANDLOG_AUTH_KEYS` | | `key`: the file of keys |
//! | `SANDLOG_AUTH_JWKS` | | `jwt`: the file or the https:// address of the issuer's public keys |
//! | `SANDLOG_AUTH_JWT_SECRET` | | `jwt`: the secret that tokens are signed with, instead |
//! | `SANDLOG_AUTH_AUDIENCE` | any | `jwt`: the audience that a token must name |
//! | `SANDLOG_AUTH_ISSUER` | any | `jwt`: the issuer that a token must name |
//! | `SANDLOG_AUTH_IAM_SCOPES` | all but `agent_os:admin` | `gateway`: the scopes of who was let through by IAM |
//! | `SANDLOG_QUEUE_LIMIT` | 10000 | how many runs may wait for a worker before submissions are refused; 0: any number |
//! | `SANDLOG_CHECKPOINTS` | DATA/checkpoints | where the workers keep checkpoints; a function, or an api of workers on several hosts, has to be told |
//! | `SANDLOG_DATA_DIR` | .dev | what the workers' host keeps, by default with the checkpoints |
//! | `SANDLOG_HOST` | 127.0.0.1 | a listener's address |
//! | `SANDLOG_PORT` | 7777 | a listener's port; 0: a free one |
//! | `SANDLOG_WAIT_SECONDS` | 25 | how long a foreground submission waits for its result |
//! | `SANDLOG_STREAM_SECONDS` | 0 | how long a stream may last; 0: as long as its run, or as its invocation |
//! | `SANDLOG_DRAIN_SECONDS` | 0 | how long a listener that is told to stop goes on serving, while `/health` is 503 |
//! | `SANDLOG_LOG` | warn,info for our own | what is logged to standard error, as `RUST_LOG` |

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::time::Duration;

use ::runs::agents::{Agents, parse};
use adapters::config::{Carrying, Database, Faults, Variables};

use crate::auth::Settings;
use crate::{Checkpoints, Options};

/// Why the agents cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum AgentsError {
    #[error("the agents file {} cannot be read: {cause}. SANDLOG_AGENTS names it", .file.display())]
    Unreadable { file: PathBuf, cause: std::io::Error },
    #[error("the agents file {} is refused:\n  {}", .file.display(), .reasons.join("\n  "))]
    Refused { file: PathBuf, reasons: Vec<String> },
}

#[derive(Clone, Debug)]
pub struct Config {
    /// Where it listens; nothing for a function.
    pub listen: Option<SocketAddr>,
    pub database: Database,
    pub schema: String,
    pub agents: PathBuf,
    pub queue: Option<String>,
    pub carrying: Carrying,
    pub auth: Settings,
    pub options: Options,
}

impl Config {
    pub fn read(get: impl Fn(&str) -> Option<String>) -> Result<Config, Faults> {
        let mut from = Variables::new(get);
        let host = from.parsed("SANDLOG_HOST", IpAddr::V4(Ipv4Addr::LOCALHOST), "an IP address");
        let port = from.parsed("SANDLOG_PORT", 7777, "a port number");
        let listen = if from.is_function() { None } else { Some(SocketAddr::new(host, port)) };
        let auth = Settings::read(&mut from, listen.map(|address| address.ip()));
        let data = from
            .text("SANDLOG_DATA_DIR")
            .map_or_else(|| if from.is_function() { std::env::temp_dir().join("sandlog") } else { ".dev".into() }, PathBuf::from);
        let checkpoints = match (from.checkpoints(), from.is_function()) {
            (Some(_), _) => Checkpoints::Named,
            (None, true) => Checkpoints::OneFunction(data.join("checkpoints")),
            (None, false) => Checkpoints::OneHost(data.join("checkpoints")),
        };
        let options = Options { checkpoints, is_function: listen.is_none(), ..options(&mut from) };
        let config = Config {
            listen,
            database: from.database_given(),
            schema: from.schema(),
            agents: from.text("SANDLOG_AGENTS").unwrap_or_else(|| "infra/agents.toml".into()).into(),
            queue: from.queue(),
            auth,
            carrying: from.carrying(),
            options,
        };
        from.done(config)
    }
}

/// What may be set of an api, whatever it is a part of.
pub fn options<F: Fn(&str) -> Option<String>>(from: &mut Variables<F>) -> Options {
    Options {
        wait_limit: Duration::from_secs(from.within("SANDLOG_WAIT_SECONDS", 25, 0, 3600)),
        stream_limit: Some(from.within("SANDLOG_STREAM_SECONDS", 0, 0, 86_400)).filter(|seconds| *seconds > 0).map(Duration::from_secs),
        drain: Duration::from_secs(from.within("SANDLOG_DRAIN_SECONDS", 0, 0, 3600)),
        queue_limit: from.queue_limit(),
        ..Options::default()
    }
}

/// The agents file, refused with every fault's line.
pub fn agents(file: &Path) -> Result<Agents, AgentsError> {
    let text = std::fs::read_to_string(file).map_err(|cause| AgentsError::Unreadable { file: file.to_owned(), cause })?;
    parse(&text).map_err(|faults| AgentsError::Refused { file: file.to_owned(), reasons: faults.iter().map(ToString::to_string).collect() })
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
            ("SANDLOG_PORT", "70000"),
            ("SANDLOG_AUTH", "token"),
            ("SANDLOG_STREAM_SECONDS", "x"),
            ("SANDLOG_QUEUE_URL", "queue"),
            ("SANDLOG_LISTEN", "yes"),
        ];
        let faults = read(&wrong).expect_err("faults").to_string();
        for name in ["DATABASE_URL", "SANDLOG_PORT", "SANDLOG_AUTH", "SANDLOG_STREAM_SECONDS", "SANDLOG_QUEUE_URL", "SANDLOG_LISTEN"] {
            assert!(faults.contains(&format!("{name}: ")), "{name} is not in: {faults}");
        }
    }

    #[test]
    fn a_listener_without_authentication_is_on_loopback_and_a_function_has_none() {
        let given = ("DATABASE_URL", "postgres://a");
        assert!(read(&[given, ("SANDLOG_HOST", "0.0.0.0")]).is_err());
        assert_eq!(read(&[given]).expect("a configuration").listen.map(|address| address.to_string()).as_deref(), Some("127.0.0.1:7777"));
        assert_eq!(read(&[given, ("AWS_LAMBDA_RUNTIME_API", "127.0.0.1:9001")]).expect("a configuration").listen, None);
    }

    #[test]
    fn redis_goes_before_listen_and_a_function_does_not_listen() {
        let with = |more: &[(&str, &str)]| read(&[&[("DATABASE_URL", "postgres://a")], more].concat()).map(|config| config.carrying);
        assert_eq!(with(&[]).expect("a configuration"), Carrying::Listen);
        assert_eq!(with(&[("SANDLOG_LISTEN", "off")]).expect("a configuration"), Carrying::Poll);
        assert_eq!(with(&[("AWS_LAMBDA_RUNTIME_API", "127.0.0.1:9001")]).expect("a configuration"), Carrying::Poll);
        assert!(with(&[("AWS_LAMBDA_RUNTIME_API", "127.0.0.1:9001"), ("SANDLOG_LISTEN", "on")]).is_err());
        let redis = with(&[("REDIS_URL", "redis://r"), ("SANDLOG_REDIS_PREFIX", "blue")]).expect("a configuration");
        assert_eq!(redis, Carrying::Redis { url: "redis://r".into(), prefix: Some("blue:".into()) });
        let told = with(&[("REDIS_URL", "http://:secret@r")]).expect_err("a fault").to_string();
        assert!(!told.contains("secret"), "{told}");
    }

    #[test]
    fn without_a_folder_that_somebody_named_checkpoints_are_on_one_host() {
        let of = |more: &[(&str, &str)]| read(&[&[("DATABASE_URL", "postgres://a")], more].concat()).expect("a configuration").options;
        assert_eq!(of(&[]).checkpoints, Checkpoints::OneHost(".dev/checkpoints".into()));
        assert_eq!(of(&[("SANDLOG_DATA_DIR", "/d")]).checkpoints, Checkpoints::OneHost("/d/checkpoints".into()));
        let function = ("AWS_LAMBDA_RUNTIME_API", "127.0.0.1:9001");
        assert_eq!(of(&[function, ("SANDLOG_DATA_DIR", "/d")]).checkpoints, Checkpoints::OneFunction("/d/checkpoints".into()));
        assert_eq!(of(&[function, ("SANDLOG_CHECKPOINTS", "file:///mnt")]).checkpoints, Checkpoints::Named);
        assert_eq!([of(&[]).queue_limit, of(&[("SANDLOG_QUEUE_LIMIT", "0")]).queue_limit], [Some(10_000), None]);
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
