//! The environment, read once and in one place. Every fault is told at once.
//!
//! | variable | default | what it is |
//! |---|---|---|
//! | `SANDLOG_PORT` | 7777 | the port of the HTTP API; 0: a free one |
//! | `SANDLOG_HOST` | 127.0.0.1 | its address; without authentication a loopback one |
//! | `SANDLOG_DATA_DIR` | .dev | what this host keeps: sandboxes, checkpoints, the embedded Postgres |
//! | `DATABASE_URL` | the embedded Postgres | the functions' role on a Postgres of yours |
//! | `DATABASE_MIGRATE_URL` | `DATABASE_URL` | the role that owns the schema, where that is another one |
//! | `SANDLOG_SCHEMA` | sandlog | the schema of a deployment in that database |
//! | `SANDLOG_AGENTS` | infra/agents.toml | the registered agents |
//! | `SANDLOG_CHECKPOINTS` | DATA/checkpoints | where checkpoints are kept: `file:///FOLDER` |
//! | `SANDLOG_QUEUE_URL` | none | the SQS queue that rings workers that are functions |
//! | `SANDLOG_QUEUE_LIMIT` | 10000 | how many runs may wait for a worker before submissions are refused; 0: any number |
//! | `REDIS_URL` | none | the Redis that carries signals between processes |
//! | `SANDLOG_REDIS_PREFIX` | of the deployment's id | what every key there begins with |
//! | `SANDLOG_LISTEN` | on, but for functions | whether Postgres carries signals where there is no Redis: `on` or `off` |
//! | `SANDLOG_AUTH` | none | who may ask: `none` (on loopback), `key`, `jwt` |
//! | `SANDLOG_AUTH_KEYS` | | `key`: the file of keys |
//! | `SANDLOG_AUTH_JWKS` | | `jwt`: the file or the https:// address of the issuer's public keys |
//! | `SANDLOG_AUTH_JWT_SECRET` | | `jwt`: the secret that tokens are signed with, instead |
//! | `SANDLOG_AUTH_AUDIENCE` | any | `jwt`: the audience that a token must name |
//! | `SANDLOG_AUTH_ISSUER` | any | `jwt`: the issuer that a token must name |
//! | `SANDLOG_LEASE_SECONDS` | 15 | how long a silent worker keeps a session |
//! | `SANDLOG_WORKERS` | 8 | how many runs this process drives at a time |
//! | `SANDLOG_WAIT_SECONDS` | 25 | how long a foreground submission waits for its result |
//! | `SANDLOG_STREAM_SECONDS` | 0 | how long a stream may last; 0: as long as its run |
//! | `SANDLOG_DRAIN_SECONDS` | 0 | how long an api that is told to stop goes on serving, while `/health` is 503 |
//! | `SANDLOG_METRICS_PORT` | none | `up --only worker`: a port for `GET /metrics`, at `SANDLOG_HOST`; 0: a free one, which is logged |
//! | `SANDLOG_RUNNER` | beside `sandlog` | the program `sandlog-runner` |
//! | `SANDLOG_TOOLS` | none | a folder of programs that sandboxes see read-only, with its `bin` in their `PATH` |
//! | `SANDLOG_EGRESS` | beside `sandlog` | the program `sandlog-egress`, which reads variables of its own (see `.env.sample`) |
//! | `SANDLOG_POSTGRES_BIN` | looked for | the folder with `initdb` and `postgres` |
//! | `SANDLOG_URL` | http://127.0.0.1:SANDLOG_PORT | the server that `submit`, `follow`, `cancel` and `runs` ask |
//! | `SANDLOG_TOKEN` | none | the key or token that `run` and these send |
//! | `SANDLOG_LOG` | warn,info for our own | what is logged to standard error, as `RUST_LOG` |

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;

use adapters::config::{Carrying, Faults, Variables};
use api::auth::Settings;

use crate::cli::Role;

/// What `up` and `run` need to know.
#[derive(Clone, Debug)]
pub(crate) struct Config {
    pub(crate) listen: SocketAddr,
    pub(crate) data: PathBuf,
    pub(crate) database: Database,
    pub(crate) schema: String,
    pub(crate) agents: PathBuf,
    pub(crate) checkpoints: PathBuf,
    /// Nobody said where: other hosts cannot read there.
    pub(crate) checkpoints_by_default: bool,
    /// Of a worker alone: what else serves tells it there.
    pub(crate) metrics: Option<SocketAddr>,
    pub(crate) queue: Option<String>,
    pub(crate) carrying: Carrying,
    pub(crate) auth: Settings,
    /// What `run` sends to the server that it finds or makes.
    pub(crate) token: Option<String>,
    pub(crate) api: api::Options,
    pub(crate) worker: worker::config::Settings,
    pub(crate) postgres_bin: Option<PathBuf>,
    /// Whether there is a key of Anthropic's API; what it is concerns egress alone.
    pub(crate) anthropic_key: bool,
}

/// Where the log is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Database {
    Embedded,
    Given { url: String, migrate_url: String },
}

impl Config {
    /// Reads it from `get`, which is the environment outside of tests.
    pub(crate) fn read(get: impl Fn(&str) -> Option<String>, only: Option<Role>) -> Result<Config, Faults> {
        let mut from = Variables::new(get);
        let host = from.parsed("SANDLOG_HOST", IpAddr::V4(Ipv4Addr::LOCALHOST), "an IP address");
        let port = from.parsed("SANDLOG_PORT", 7777, "a port number");
        // A worker alone serves nobody.
        let auth = if only == Some(Role::Worker) { Settings::none() } else { Settings::read(&mut from, Some(host)) };
        let database = match from.database() {
            Some(given) => Database::Given { migrate_url: given.owner_url.unwrap_or_else(|| given.url.clone()), url: given.url },
            None => {
                if only.is_some() {
                    from.fault("DATABASE_URL: missing; one role alone (--only) needs a Postgres that the other role reaches too");
                }
                Database::Embedded
            }
        };
        let data = PathBuf::from(from.text("SANDLOG_DATA_DIR").unwrap_or_else(|| ".dev".into()));
        let checkpoints = from.checkpoints();
        let config = Config {
            listen: SocketAddr::new(host, port),
            database,
            schema: from.schema(),
            agents: from.text("SANDLOG_AGENTS").unwrap_or_else(|| "infra/agents.toml".into()).into(),
            checkpoints_by_default: checkpoints.is_none(),
            checkpoints: checkpoints.unwrap_or_else(|| data.join("checkpoints")),
            data,
            metrics: from.metrics().filter(|_| only == Some(Role::Worker)),
            queue: from.queue(),
            carrying: from.carrying(),
            auth,
            token: from.text("SANDLOG_TOKEN"),
            api: api::config::options(&mut from),
            worker: worker::config::Settings::read(&mut from),
            anthropic_key: from.text("ANTHROPIC_API_KEY").is_some(),
            postgres_bin: from.text("SANDLOG_POSTGRES_BIN").map(PathBuf::from),
        };
        from.done(config)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(variables: &[(&str, &str)], only: Option<Role>) -> Result<Config, Faults> {
        let get = |name: &str| variables.iter().find(|(key, _)| *key == name).map(|(_, value)| (*value).to_owned());
        Config::read(get, only)
    }

    #[test]
    fn nothing_set_is_the_embedded_stack_on_loopback() {
        let config = read(&[("SANDLOG_PORT", "")], None).expect("a configuration");
        assert_eq!(config.listen.to_string(), "127.0.0.1:7777");
        assert_eq!(config.database, Database::Embedded);
        assert_eq!(config.checkpoints, PathBuf::from(".dev/checkpoints"));
        assert!(config.checkpoints_by_default);
    }

    #[test]
    fn every_fault_is_told_at_once() {
        let faults = read(
            &[
                ("SANDLOG_PORT", "70000"),
                ("SANDLOG_LEASE_SECONDS", "0"),
                ("SANDLOG_AUTH", "token"),
                ("SANDLOG_SCHEMA", "a;b"),
                ("SANDLOG_CHECKPOINTS", "s3://bucket"),
            ],
            Some(Role::Api),
        )
        .expect_err("faults")
        .to_string();
        for name in ["SANDLOG_PORT", "SANDLOG_LEASE_SECONDS", "SANDLOG_AUTH", "SANDLOG_SCHEMA", "SANDLOG_CHECKPOINTS", "DATABASE_URL"] {
            assert!(faults.contains(&format!("{name}: ")), "{name} is not in: {faults}");
        }
    }

    #[test]
    fn an_open_address_without_authentication_is_refused() {
        assert!(read(&[("SANDLOG_HOST", "0.0.0.0")], None).is_err());
        assert!(read(&[("SANDLOG_HOST", "::1")], None).is_ok());
    }

    #[test]
    fn a_worker_alone_needs_no_keys_of_clients() {
        let variables = [("DATABASE_URL", "postgres://a"), ("SANDLOG_AUTH", "key")];
        assert!(read(&variables, Some(Role::Worker)).is_ok());
        assert!(read(&variables, Some(Role::Api)).is_err());
    }

    #[test]
    fn one_url_is_both_roles_unless_the_owner_has_its_own() {
        let config = read(&[("DATABASE_URL", "postgres://a")], Some(Role::Api)).expect("a configuration");
        assert_eq!(config.database, Database::Given { url: "postgres://a".into(), migrate_url: "postgres://a".into() });
        assert!(read(&[("DATABASE_MIGRATE_URL", "postgres://a")], None).is_err());
    }

    #[test]
    fn every_variable_is_in_the_sample_file() {
        let sample = include_str!("../../../.env.sample");
        let documented = include_str!("config.rs").lines().filter_map(|line| line.strip_prefix("//! | `")?.split('`').next());
        for name in documented {
            assert!(sample.contains(&format!("# {name}=")), "{name} is not in .env.sample");
        }
    }
}
