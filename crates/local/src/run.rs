//! `sandlog run`: one message, in the stack that serves this data folder, or in one of its own.

use std::net::{Ipv4Addr, SocketAddr};
use std::time::{Duration, Instant};

use ::runs::agents::Harness;

use crate::beacon::{self, Held};
use crate::client::{Accepted, Client, ClientError, Ending, Screen};
use crate::config::Config;
use crate::faults::Fault;
use crate::signals::Orders;
use crate::stack::Stack;

/// How long another process in the folder may take to serve or to go.
const PATIENCE: Duration = Duration::from_secs(120);

/// What to run.
pub(crate) struct Turn<'a> {
    pub(crate) agent: &'a str,
    pub(crate) message: &'a str,
    pub(crate) session: Option<&'a str>,
}

/// Where it runs.
enum Where {
    There(Client),
    Here(Held),
}

pub(crate) async fn run(config: &Config, turn: &Turn<'_>) -> Result<Ending, Fault> {
    match find(config).await? {
        Where::There(client) => Ok(submit_and_follow(&client, turn).await?),
        Where::Here(held) => alone(config, held, turn).await,
    }
}

/// Submits and shows the run to its end. Who stops looking is told that the run, which is the server's, goes on.
pub(crate) async fn submit_and_follow(client: &Client, turn: &Turn<'_>) -> Result<Ending, ClientError> {
    let mut orders = Orders::listen().map_err(ClientError::Signals)?;
    let mut screen = Screen::on_stdout();
    let run = tokio::select! {
        run = submit(client, turn, &mut screen) => run?,
        () = orders.next() => return Ok(Ending::Left),
    };
    tokio::select! {
        ended = client.follow(&run, &mut screen) => ended,
        () = orders.next() => {
            let (agent, id) = (&run.agent, &run.run_id);
            eprintln!("sandlog: the run goes on. `sandlog follow {agent} {id}` shows it, `sandlog cancel {agent} {id}` ends it");
            Ok(Ending::Left)
        }
    }
}

async fn submit(client: &Client, turn: &Turn<'_>, screen: &mut Screen) -> Result<Accepted, ClientError> {
    let run = client.submit(turn.agent, turn.message, turn.session).await?;
    screen.line(&format!("-- run {} of agent {}, session {}", run.run_id, run.agent, run.session_id))?;
    Ok(run)
}

/// The server of this folder, or the folder for ourselves. Who has the folder without serving is about to serve, or runs a message of its own.
async fn find(config: &Config) -> Result<Where, Fault> {
    let end = Instant::now() + PATIENCE;
    let mut told = false;
    loop {
        let held = beacon::hold(&config.data).map_err(|cause| Fault::Data { folder: config.data.clone(), cause })?;
        if let Some(held) = held {
            return Ok(Where::Here(held));
        }
        if let Some(url) = beacon::announced(&config.data) {
            let client = Client::new(&url, config.token.as_deref())?;
            if client.healthy().await {
                return Ok(Where::There(client));
            }
        }
        if Instant::now() > end {
            return Err(Fault::Taken { folder: config.data.clone(), at: " that does not serve".into() });
        }
        if !std::mem::replace(&mut told, true) {
            tracing::warn!("another sandlog has {} and does not serve yet: waiting for it", config.data.display());
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

/// In a stack of our own, on a free port: it is nobody else's.
async fn alone(config: &Config, held: Held, turn: &Turn<'_>) -> Result<Ending, Fault> {
    let agents = api::config::agents(&config.agents)?;
    let asks = |agent: &::runs::agents::Agent| matches!(agent.harness, Harness::Claude { .. });
    if agents.get(turn.agent).is_some_and(asks) && !config.anthropic_key {
        return Err(Fault::NoKey { agent: turn.agent.into() });
    }
    let config = Config { listen: SocketAddr::from((Ipv4Addr::LOCALHOST, 0)), ..config.clone() };
    let mut orders = Orders::listen().map_err(|cause| Fault::Ended { what: "listening for signals", cause: cause.to_string() })?;
    let mut stack = tokio::select! {
        started = Stack::start(&config, None, Some(held)) => started?,
        () = orders.next() => return Ok(Ending::Cancelled),
    };
    let client = Client::new(stack.url.as_deref().unwrap_or_default(), config.token.as_deref())?;
    let ended = tokio::select! {
        ended = show(&client, turn, &mut orders) => ended.map_err(Fault::from),
        fault = stack.ended() => Err(fault),
    };
    stack.stop().await;
    ended
}

/// Follows the run; a first signal cancels it, since nobody else would go on with it, a second one leaves it where it is.
async fn show(client: &Client, turn: &Turn<'_>, orders: &mut Orders) -> Result<Ending, ClientError> {
    let mut screen = Screen::on_stdout();
    let run = tokio::select! {
        run = submit(client, turn, &mut screen) => run?,
        () = orders.next() => return Ok(Ending::Cancelled),
    };
    let cancel = async {
        orders.next().await;
        let told = client.cancel(&run.agent, &run.run_id).await;
        tracing::debug!(?told, "cancelled by a signal");
        orders.next().await;
    };
    tokio::select! {
        ended = client.follow(&run, &mut screen) => ended,
        () = cancel => Ok(Ending::Cancelled),
    }
}
