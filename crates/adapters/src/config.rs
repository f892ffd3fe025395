//! The environment, as every program reads it: once, in one place, with every fault told at once.
//!
//! Each program has a `config` of its own that says which variables it reads; here is what they have in common.

use std::fmt::Display;
use std::path::PathBuf;
use std::str::FromStr;

/// All that is wrong with the environment.
#[derive(Debug, thiserror::Error)]
#[error("the configuration cannot be used:\n  {}", .0.join("\n  "))]
pub struct Faults(Vec<String>);

/// A Postgres that somebody gave.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Database {
    /// `DATABASE_URL`: the functions' role.
    pub url: String,
    /// `DATABASE_MIGRATE_URL`: the role that owns the schema, where that is another one.
    pub owner_url: Option<String>,
}

/// What carries signals between processes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Carrying {
    /// `REDIS_URL`, and `SANDLOG_REDIS_PREFIX` where keys are not to begin with the deployment's own id.
    Redis {
        url: String,
        prefix: Option<String>,
    },
    Listen,
    Poll,
}

/// The variables, with the faults found so far.
pub struct Variables<F> {
    get: F,
    faults: Vec<String>,
}

impl<F: Fn(&str) -> Option<String>> Variables<F> {
    /// `get` is the environment outside of tests.
    pub fn new(get: F) -> Self {
        Self { get, faults: Vec::new() }
    }

    /// What was read, unless something was wrong with it.
    pub fn done<T>(self, config: T) -> Result<T, Faults> {
        if self.faults.is_empty() { Ok(config) } else { Err(Faults(self.faults)) }
    }

    /// An empty variable is an unset one: that is what a line of `.env` without a value makes.
    pub fn text(&self, name: &str) -> Option<String> {
        (self.get)(name).filter(|value| !value.is_empty())
    }

    pub fn fault(&mut self, text: impl Display) {
        self.faults.push(text.to_string());
    }

    pub fn parsed<T: FromStr>(&mut self, name: &str, default: T, what: &str) -> T {
        match self.text(name).map(|value| (value.parse(), value)) {
            None => default,
            Some((Ok(parsed), _)) => parsed,
            Some((Err(_), value)) => {
                self.fault(format!("{name}: `{value}` is not {what}"));
                default
            }
        }
    }

    pub fn within(&mut self, name: &str, default: u64, least: u64, most: u64) -> u64 {
        let value = self.parsed(name, default, &format!("a whole number from {least} to {most}"));
        if !(least..=most).contains(&value) {
            self.fault(format!("{name}: {value} is not within {least} to {most}"));
        }
        value
    }

    /// Whether the process is a function of AWS Lambda, or of what emulates it.
    pub fn is_function(&self) -> bool {
        self.text("AWS_LAMBDA_RUNTIME_API").is_some()
    }

    /// `DATABASE_URL` and `DATABASE_MIGRATE_URL`.
    pub fn database(&mut self) -> Option<Database> {
        let owner_url = self.text("DATABASE_MIGRATE_URL");
        match self.text("DATABASE_URL") {
            Some(url) => Some(Database { url, owner_url }),
            None => {
                if owner_url.is_some() {
                    self.fault("DATABASE_MIGRATE_URL: given without DATABASE_URL");
                }
                None
            }
        }
    }

    /// The same of a program that has no Postgres of its own.
    pub fn database_given(&mut self) -> Database {
        self.database().unwrap_or_else(|| {
            self.fault("DATABASE_URL: missing; it names the Postgres that api and worker share");
            Database { url: String::new(), owner_url: None }
        })
    }

    /// `SANDLOG_SCHEMA`. It is part of SQL text, so it is a plain lower-case name.
    pub fn schema(&mut self) -> String {
        let schema = self.text("SANDLOG_SCHEMA").unwrap_or_else(|| "sandlog".into());
        let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
        if schema.len() > 40 || !schema.chars().all(plain) || schema.starts_with(|c: char| c.is_ascii_digit()) || schema.starts_with("pg_") {
            self.fault(format!(
                "SANDLOG_SCHEMA: `{schema}` is not a name of at most 40 of a-z, 0-9 and _, beginning with a letter, and not with pg_"
            ));
        }
        schema
    }

    /// `SANDLOG_CHECKPOINTS`: a folder.
    pub fn checkpoints(&mut self) -> Option<PathBuf> {
        let value = self.text("SANDLOG_CHECKPOINTS")?;
        match value.strip_prefix("file://") {
            Some(path) if path.starts_with('/') => return Some(path.into()),
            _ if value.starts_with("s3://") => self.fault("SANDLOG_CHECKPOINTS: s3:// is not in this release; it has file:///FOLDER"),
            _ => self.fault(format!("SANDLOG_CHECKPOINTS: `{value}` is not of the form file:///FOLDER")),
        }
        None
    }

    /// `SANDLOG_QUEUE_LIMIT`: how many runs may wait; 0 is any number.
    pub fn queue_limit(&mut self) -> Option<u32> {
        u32::try_from(self.within("SANDLOG_QUEUE_LIMIT", 10_000, 0, u64::from(u32::MAX))).ok().filter(|limit| *limit > 0)
    }

    /// `SANDLOG_QUEUE_URL`: the SQS queue that rings workers that are functions.
    pub fn queue(&mut self) -> Option<String> {
        let url = self.text("SANDLOG_QUEUE_URL")?;
        if !url.starts_with("https://") && !url.starts_with("http://") {
            self.fault(format!("SANDLOG_QUEUE_URL: `{url}` is not the URL of an SQS queue"));
        }
        Some(url)
    }

    /// `REDIS_URL`, `SANDLOG_REDIS_PREFIX` and `SANDLOG_LISTEN`. A function is frozen between invocations, so it cannot listen.
    pub fn carrying(&mut self) -> Carrying {
        let prefix = self.text("SANDLOG_REDIS_PREFIX").map(|prefix| if prefix.ends_with(':') { prefix } else { format!("{prefix}:") });
        let listen = match (self.text("SANDLOG_LISTEN").as_deref(), self.is_function()) {
            (None, is_function) => !is_function,
            (Some("off"), _) => false,
            (Some("on"), false) => true,
            (Some("on"), true) => {
                self.fault("SANDLOG_LISTEN: `on` is not for functions: they are frozen between invocations");
                false
            }
            (Some(other), _) => {
                self.fault(format!("SANDLOG_LISTEN: `{other}` is neither `on` nor `off`"));
                false
            }
        };
        match self.text("REDIS_URL") {
            Some(url) => {
                const SCHEMES: [&str; 4] = ["redis://", "rediss://", "valkey://", "valkeys://"];
                if !SCHEMES.iter().any(|scheme| url.starts_with(scheme)) {
                    // Not told: it may have a password in it.
                    self.fault("REDIS_URL: not of the form redis://USER:PASSWORD@HOST:PORT (rediss:// with TLS)");
                }
                Carrying::Redis { url, prefix }
            }
            None if listen => Carrying::Listen,
            None => Carrying::Poll,
        }
    }
}
