//! From the command line to what is done.

use std::process::ExitCode;

use adapters::program;
use serde_json::Value;

use crate::cli::{Ask, Command};
use crate::client::{Accepted, Client, ClientError, Ending, Screen};
use crate::config::Config;
use crate::faults::Fault;
use crate::key;
use crate::run::{self, Turn};
use crate::up;

pub(crate) async fn execute(command: Command) -> Result<ExitCode, Fault> {
    program::log(if matches!(command, Command::Up { .. }) { program::USUAL } else { "warn" });
    let variable = |name: &str| std::env::var(name).ok();
    match command {
        Command::Up { only } => {
            let config = Config::read(variable, only)?;
            up::up(&config, only).await?;
            Ok(ExitCode::SUCCESS)
        }
        Command::Run { agent, message, session } => {
            let config = Config::read(variable, None)?;
            let message = if message.is_empty() { "Show me what you do.".to_owned() } else { message.join(" ") };
            let turn = Turn { agent: &agent, message: &message, session: session.as_deref() };
            Ok(code(run::run(&config, &turn).await?))
        }
        Command::Key { name, scope, user } => {
            key::make(&name, &scope, user.as_deref())?;
            Ok(ExitCode::SUCCESS)
        }
        Command::Ask(request) => Ok(ask(&server(variable)?, request).await?),
    }
}

fn server(variable: impl Fn(&str) -> Option<String>) -> Result<Client, ClientError> {
    let given = |name: &str| variable(name).filter(|value| !value.is_empty());
    let here = || format!("http://127.0.0.1:{}", given("SANDLOG_PORT").unwrap_or_else(|| "7777".into()));
    Client::new(&given("SANDLOG_URL").unwrap_or_else(here), given("SANDLOG_TOKEN").as_deref())
}

/// The commands that are requests to a server.
async fn ask(client: &Client, request: Ask) -> Result<ExitCode, ClientError> {
    match request {
        Ask::Submit { agent, message, session, background } => {
            let message = message.join(" ");
            let turn = Turn { agent: &agent, message: &message, session: session.as_deref() };
            if background {
                let run = client.submit(&agent, &message, session.as_deref()).await?;
                println!("{} {}", run.run_id, run.session_id);
                return Ok(ExitCode::SUCCESS);
            }
            Ok(code(run::submit_and_follow(client, &turn).await?))
        }
        Ask::Follow { agent, run_id } => {
            let run = Accepted { agent, run_id, session_id: String::new() };
            Ok(code(client.follow(&run, &mut Screen::on_stdout()).await?))
        }
        Ask::Cancel { agent, run_id } => {
            let told = client.cancel(&agent, &run_id).await?;
            println!("{} {}", run_id, text(&told, "status"));
            Ok(ExitCode::SUCCESS)
        }
        Ask::Runs { agent, session_id } => {
            for run in client.runs(&agent, &session_id).await? {
                let message = run["input"]["input_content"].as_str().unwrap_or_default();
                let first: String = message.lines().next().unwrap_or_default().chars().take(60).collect();
                println!("{} {:<9} {first}", text(&run, "run_id"), text(&run, "status"));
            }
            Ok(ExitCode::SUCCESS)
        }
    }
}

fn text<'a>(value: &'a Value, key: &str) -> &'a str {
    value[key].as_str().unwrap_or_default()
}

/// Only a completed run is a success.
fn code(ending: Ending) -> ExitCode {
    match ending {
        Ending::Completed => ExitCode::SUCCESS,
        Ending::Failed | Ending::Cancelled => ExitCode::FAILURE,
        // What a shell says of a command that was interrupted.
        Ending::Left => ExitCode::from(130),
    }
}
