//! A database of a test's own on the server that `./dev test` started.

use std::process::Command;

use crate::unique;

pub(crate) const OWNER: &str = "sandlog_e2e_owner";
pub(crate) const FUNCTIONS: &str = "sandlog_e2e";

/// Dropped with its connections when the test ends.
#[derive(Debug)]
pub struct Database {
    name: String,
    server: String,
}

impl Database {
    /// With two roles, as a deployment should be: one owns the schema, the other may only do what it was granted.
    pub fn create() -> Database {
        Database::on(&std::env::var("SANDLOG_TEST_DATABASE_URL").expect("SANDLOG_TEST_DATABASE_URL: run the tests by ./dev test"))
    }

    /// The same on another server, by its superuser's URL.
    pub fn on(url: &str) -> Database {
        let (server, _) = url.rsplit_once('/').expect("postgres://USER@HOST:PORT/DATABASE");
        let name = unique("e2e").replace('-', "_");
        for role in [OWNER, FUNCTIONS] {
            // Many tests begin at once, and whoever comes second finds the role made.
            let made = format!("DO $$ BEGIN CREATE ROLE {role} LOGIN; EXCEPTION WHEN duplicate_object OR unique_violation THEN NULL; END $$");
            psql(url, &made).expect("a role");
        }
        psql(url, &format!("CREATE DATABASE {name} OWNER {OWNER}")).expect("a database");
        Database { name, server: server.to_owned() }
    }

    pub fn name(&self) -> &str {
        &self.name
    }

    /// DATABASE_URL.
    pub fn functions_url(&self) -> String {
        self.url(FUNCTIONS)
    }

    /// DATABASE_MIGRATE_URL.
    pub fn owner_url(&self) -> String {
        self.url(OWNER)
    }

    /// Rows of a query by a superuser, columns split at `|`.
    pub fn rows(&self, query: &str) -> Vec<Vec<String>> {
        let text = psql(&self.url("postgres"), query).expect("a query");
        text.lines().map(|line| line.split('|').map(str::to_owned).collect()).collect()
    }

    fn url(&self, role: &str) -> String {
        let host = self.server.rsplit_once('@').map_or(self.server.as_str(), |(_, host)| host);
        format!("postgres://{role}@{host}/{}", self.name)
    }
}

impl Drop for Database {
    fn drop(&mut self) {
        let dropped = psql(&format!("{}/postgres", self.server), &format!("DROP DATABASE IF EXISTS {} WITH (FORCE)", self.name));
        if let Err(why) = dropped {
            eprintln!("{why}");
        }
    }
}

fn psql(url: &str, sql: &str) -> Result<String, String> {
    let output = Command::new("psql").args(["-X", "-q", "-A", "-t", "-v", "ON_ERROR_STOP=1", "-d", url, "-c", sql]).output();
    let output = output.map_err(|cause| format!("psql: {cause}"))?;
    if output.status.success() {
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    } else {
        Err(format!("{sql}: {}", String::from_utf8_lossy(&output.stderr)))
    }
}
