//! The checks that are about the deployment and not about the request: a log that can be written, tables of this build, checkpoints that every worker
//! reads. Where all is well they cost nothing: the log itself refuses in the call that accepts. Only a request that is to be refused for something that
//! comes after them asks first.

use adapters::{LogError, Refused, Terms};

use crate::app::App;
use crate::respond::Refusal;
use crate::{Checkpoints, Options};

/// What the log is to see to when it accepts a run.
pub(crate) fn terms(options: &Options) -> Terms {
    Terms { queue_limit: options.queue_limit, one_host: matches!(options.checkpoints, Checkpoints::OneHost(_)) }
}

/// Whether a submission could be accepted at all, whatever it is.
pub(crate) async fn open(app: &App) -> Result<(), Refusal> {
    app.intake.fit(terms(&app.options)).await.map_err(|refused| told(refused, &app.options))?;
    match &app.options.checkpoints {
        Checkpoints::OneFunction(folder) => Err(Refusal::Checkpoints(folder.clone())),
        Checkpoints::OneHost(_) | Checkpoints::Named => Ok(()),
    }
}

/// What holds for every submission here, as far as it is known without the log; and then what the caller looks at next.
pub(super) async fn first<T>(app: &App, next: Result<T, Refusal>) -> Result<T, Refusal> {
    if next.is_err() || matches!(app.options.checkpoints, Checkpoints::OneFunction(_)) {
        open(app).await?;
    }
    next
}

pub(super) fn told(refused: Refused, options: &Options) -> Refusal {
    match refused {
        Refused::SessionNotFound => Refusal::SessionNotFound,
        Refused::QueueFull => Refusal::Full,
        Refused::KeyScope => Refusal::KeyScope,
        Refused::KeyInput => Refusal::KeyInput,
        Refused::ManyHosts => many_hosts(options),
        Refused::Log(LogError::Missing(reason)) => {
            tracing::error!(reason, "api.submit: the log takes no runs");
            Refusal::NoQueue
        }
        Refused::Log(error) => Refusal::Log(error),
    }
}

pub(crate) fn many_hosts(options: &Options) -> Refusal {
    match &options.checkpoints {
        Checkpoints::OneHost(folder) | Checkpoints::OneFunction(folder) => Refusal::Checkpoints(folder.clone()),
        Checkpoints::Named => Refusal::Crashed,
    }
}
