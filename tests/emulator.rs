//! The deployed stack: infra/template.yaml with the release zips, in an emulator of AWS whose functions are processes of this machine.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use reqwest::StatusCode;
use serde_json::Value;

use crate::functions::free_port;
use crate::group::Group;
use crate::http::{body, client, text};
use crate::{Http, binaries, eventually};

const PATIENCE: Duration = Duration::from_secs(60);

/// Dropped, it is killed with the functions that it started.
#[derive(Debug)]
pub struct Emulator {
    group: Group,
    url: String,
    /// What the stack says of itself.
    pub outputs: Value,
}

impl Emulator {
    /// Starts one and deploys with the given parameters.
    pub async fn deploy(parameters: &[(&str, String)], folder: &Path) -> Emulator {
        let port = free_port();
        let url = format!("http://127.0.0.1:{port}");
        let mut command = command("ministack", &url);
        command.env("BIND_HOST", "127.0.0.1").env("GATEWAY_PORT", port.to_string()).current_dir(folder);
        let mut emulator = Emulator { group: Group::spawn(command, folder), url, outputs: Value::Null };
        let (client, health) = (client().build().expect("a client"), format!("{}/_ministack/health", emulator.url));
        eventually("the emulator answers", PATIENCE, || async { client.get(&health).send().await.ok() }).await;
        let mut deploy = self::command("python", &emulator.url);
        deploy.args(["tests/emulator/deploy.py", "infra/template.yaml"]).current_dir(binaries::root());
        deploy.args(parameters.iter().map(|(name, value)| format!("{name}={value}")));
        let output = tokio::task::spawn_blocking(move || deploy.output()).await.expect("a thread").expect("python");
        assert!(output.status.success(), "{}\n{}", String::from_utf8_lossy(&output.stderr), emulator.group.log());
        emulator.outputs = serde_json::from_slice(&output.stdout).expect("the stack's outputs");
        emulator
    }

    /// A client of the api's function URL.
    pub fn http(&self) -> Http {
        let url = text(&self.outputs, "ApiUrl");
        let id = url.trim_start_matches("https://").split('.').next().expect("its id");
        Http::new(vec![format!("{}/_aws/lambda-url/{id}", self.url)])
    }

    /// What the worker's function answers to an event.
    pub async fn invoke_worker(&self, event: &Value) -> Value {
        let path = format!("{}/2015-03-31/functions/{}/invocations", self.url, text(&self.outputs, "WorkerName"));
        let request = client().build().expect("a client").post(path).timeout(PATIENCE).json(event);
        body(request.send().await.expect("an answer"), StatusCode::OK).await
    }
}

/// A program of the emulator's environment, which the functions inherit.
fn command(program: &str, url: &str) -> Command {
    let programs = binaries::packages("aws");
    let mut command = Command::new(programs.join(program));
    command.env_clear().env("PATH", format!("{}:{}", programs.display(), std::env::var("PATH").unwrap_or_default()));
    command.envs([("AWS_ENDPOINT_URL", url), ("AWS_ACCESS_KEY_ID", "test"), ("AWS_SECRET_ACCESS_KEY", "test")]);
    command.env("AWS_DEFAULT_REGION", "us-east-1").stdin(Stdio::null());
    command
}
