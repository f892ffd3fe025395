//! Instances on one data folder and one database.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use tempfile::TempDir;

use crate::{Database, Http, Instance, Redis, binaries, eventually, pooler::Pooler, traces};

/// Which processes a deployment has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// One `up` with its own Postgres.
    Embedded,
    /// Roles apart, on a Postgres that they share.
    Apart { apis: usize, workers: usize },
    /// The same, with a transaction pooler before that Postgres.
    Pooled { apis: usize, workers: usize },
    /// The same as `Apart`, with a Redis.
    WithRedis { apis: usize, workers: usize },
}

/// Dropped without [`Deployment::stop`], it is killed; what that leaves is killed too.
#[derive(Debug)]
pub struct Deployment {
    pub apis: Vec<Instance>,
    pub workers: Vec<Instance>,
    pub database: Option<Arc<Database>>,
    pooler: Option<Pooler>,
    pub redis: Option<Redis>,
    folder: Folder,
    variables: Vec<(String, String)>,
}

/// A data folder that accounts without rights can enter, and whatever still has to do with it when a test fails.
#[derive(Debug)]
pub struct Folder(TempDir);

impl Folder {
    pub fn new() -> Folder {
        let folder = tempfile::Builder::new().prefix(traces::PREFIX).tempdir().expect("a folder");
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).expect("a mode");
        Folder(folder)
    }

    pub fn path(&self) -> &Path {
        self.0.path()
    }
}

impl Default for Folder {
    fn default() -> Self {
        Folder::new()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        for trace in traces::of(self.path()) {
            let pid = trace.split(':').next().and_then(|pid| pid.parse().ok()).and_then(rustix::process::Pid::from_raw);
            if let Some(pid) = pid {
                let _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
            }
        }
    }
}

impl Deployment {
    pub async fn start(shape: Shape) -> Deployment {
        Deployment::with(shape, &[]).await
    }

    /// With further variables, which go before the usual ones.
    pub async fn with(shape: Shape, more: &[(&str, &str)]) -> Deployment {
        Deployment::on(None, shape, more).await
    }

    /// The same on a server of the test's own, by its superuser's URL, unless it is embedded.
    pub async fn on(server: Option<&str>, shape: Shape, more: &[(&str, &str)]) -> Deployment {
        Deployment::within(|| Arc::new(server.map_or_else(Database::create, Database::on)), shape, more).await
    }

    /// Another one in the same database. `more` says in which schema, or they are one.
    pub async fn beside(&self, shape: Shape, more: &[(&str, &str)]) -> Deployment {
        Deployment::within(|| Arc::clone(self.database.as_ref().expect("a database that is shared")), shape, more).await
    }

    async fn within(database: impl FnOnce() -> Arc<Database>, shape: Shape, more: &[(&str, &str)]) -> Deployment {
        let folder = Folder::new();
        let mut variables = vec![
            ("SANDLOG_DATA_DIR".to_owned(), folder.path().join("data").display().to_string()),
            ("SANDLOG_AGENTS".into(), agents().display().to_string()),
            ("SANDLOG_PORT".into(), "0".into()),
            ("SANDLOG_LEASE_SECONDS".into(), "3".into()),
        ];
        variables.extend(more.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())));
        let mut deployment = Deployment { apis: Vec::new(), workers: Vec::new(), database: None, pooler: None, redis: None, folder, variables };
        match shape {
            Shape::Embedded => deployment.add_up().await,
            Shape::Apart { apis, workers } | Shape::Pooled { apis, workers } | Shape::WithRedis { apis, workers } => {
                let database = database();
                let (mut functions_url, mut owner_url) = (database.functions_url(), database.owner_url());
                if matches!(shape, Shape::Pooled { .. }) {
                    let server = server_of(&functions_url).to_owned();
                    let pooler = Pooler::start(&server).await;
                    let pooled = format!("127.0.0.1:{}", pooler.port);
                    (functions_url, owner_url) = (functions_url.replace(&server, &pooled), owner_url.replace(&server, &pooled));
                    deployment.pooler = Some(pooler);
                }
                if matches!(shape, Shape::WithRedis { .. }) {
                    let redis = Redis::start().await;
                    // Unless the test has a URL of its own, through something that it can spoil.
                    deployment.variables.insert(0, ("REDIS_URL".into(), redis.url()));
                    deployment.redis = Some(redis);
                }
                deployment.variables.push(("DATABASE_URL".into(), functions_url));
                deployment.variables.push(("DATABASE_MIGRATE_URL".into(), owner_url));
                deployment.database = Some(database);
                for _ in 0..apis {
                    deployment.add_api().await;
                }
                for _ in 0..workers {
                    deployment.add_worker().await;
                }
            }
        }
        deployment
    }

    pub async fn add_up(&mut self) {
        let up = Instance::start(&[], &self.variables, self.folder.path()).await;
        self.apis.push(up);
    }

    pub async fn add_api(&mut self) {
        let api = Instance::start(&["--only", "api"], &self.variables, self.folder.path()).await;
        self.apis.push(api);
    }

    /// An api on a port that one had before.
    pub async fn add_api_on(&mut self, port: &str) {
        let mut variables = self.variables.clone();
        variables.push(("SANDLOG_PORT".into(), port.into()));
        let api = Instance::start(&["--only", "api"], &variables, self.folder.path()).await;
        self.apis.push(api);
    }

    pub async fn add_worker(&mut self) {
        let worker = Instance::start(&["--only", "worker"], &self.variables, self.folder.path()).await;
        self.workers.push(worker);
    }

    /// A worker with variables that go before the deployment's.
    pub async fn add_worker_with(&mut self, more: &[(&str, &str)]) {
        let mut variables = self.variables.clone();
        variables.extend(more.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())));
        let worker = Instance::start(&["--only", "worker"], &variables, self.folder.path()).await;
        self.workers.push(worker);
    }

    /// Where the database's server is, as `HOST:PORT`, and the functions' URL through another port.
    pub fn database_through_a_proxy(&self) -> (String, impl Fn(u16) -> String + use<>) {
        let url = self.database.as_ref().expect("a database that is shared").functions_url();
        let server = server_of(&url).to_owned();
        let (before, after) = url.split_once(&server).map(|(before, after)| (before.to_owned(), after.to_owned())).expect("its parts");
        (server, move |port| format!("{before}127.0.0.1:{port}{after}"))
    }

    /// A client of the instances that serve.
    pub fn http(&self) -> Http {
        Http::new(self.apis.iter().filter_map(|api| api.url.clone()).collect())
    }

    pub fn data(&self) -> PathBuf {
        self.folder.path().join("data")
    }

    pub fn variables(&self) -> &[(String, String)] {
        &self.variables
    }

    /// Waits until workers have cleared away every sandbox: what one left that was killed at the end of a turn, the next one sweeps.
    pub async fn cleared(&self) {
        let below = |folder: PathBuf| fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path());
        let sessions = self.data().join("sandboxes");
        let standing = || below(sessions.clone()).flat_map(below).any(|path| path.is_dir());
        eventually("no sandbox", Duration::from_secs(40), || async { (!standing()).then_some(()) }).await;
    }

    /// How many processes of runners there are.
    pub fn runners(&self) -> usize {
        traces::of(self.folder.path()).iter().filter(|trace| trace.contains("sandlog-runner")).count()
    }

    /// Waits until every run has ended and the workers have removed every sandbox.
    async fn idle(&self) {
        eventually("all runs end, and their sandboxes with them", Duration::from_secs(60), || async {
            let schema = self.variables.iter().rev().find(|(name, _)| name == "SANDLOG_SCHEMA").map_or("sandlog", |(_, schema)| schema);
            let unended = self.database.as_ref()?.rows(&format!("select count(*) from {schema}.runs where ended_at is null"));
            (unended == [["0"]] && self.runners() == 0).then_some(())
        })
        .await;
    }

    /// Stops all, and asserts that each ended well and that nothing is left. Workers alone leave sandboxes of runs that go on, so these end first.
    pub async fn stop(mut self) {
        if !self.workers.is_empty() {
            self.idle().await;
        }
        for instance in self.apis.drain(..).chain(self.workers.drain(..)) {
            let log = instance.log();
            let status = instance.stop().await;
            assert!(status.success(), "{status}:\n{log}");
        }
        traces::gone(self.folder.path(), Duration::from_secs(30)).await;
    }
}

/// `HOST:PORT` of a URL that has both.
fn server_of(url: &str) -> &str {
    url.split(['@', '/']).find(|part| part.contains(':') && !part.ends_with(':')).expect("HOST:PORT")
}

/// The agents of the tests.
pub fn agents() -> PathBuf {
    binaries::root().join("tests/agents.toml")
}
