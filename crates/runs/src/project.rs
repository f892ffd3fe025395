//! The row of `runs` as a function of the log. The database keeps it in the same calls; a test rebuilds it and compares.

use serde::{Deserialize, Serialize};

use crate::event::{Event, Recorded};

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "UPPERCASE")]
pub enum Status {
    Pending,
    Running,
    Completed,
    Error,
    Cancelled,
}

impl Status {
    pub fn name(self) -> &'static str {
        match self {
            Self::Pending => "PENDING",
            Self::Running => "RUNNING",
            Self::Completed => "COMPLETED",
            Self::Error => "ERROR",
            Self::Cancelled => "CANCELLED",
        }
    }

    pub fn parse(name: &str) -> Option<Self> {
        [Self::Pending, Self::Running, Self::Completed, Self::Error, Self::Cancelled].into_iter().find(|status| status.name() == name)
    }

    pub fn has_ended(self) -> bool {
        matches!(self, Self::Completed | Self::Error | Self::Cancelled)
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Projection {
    pub status: Status,
    pub attempt: u32,
    pub cancel_requested: bool,
    pub started_at: Option<i64>,
    pub ended_at: Option<i64>,
}

/// The status that a terminal event gives its run.
pub fn terminal_status(event: &Event) -> Option<Status> {
    match event {
        Event::Completed { .. } => Some(Status::Completed),
        Event::Failed { .. } => Some(Status::Error),
        Event::Cancelled { .. } => Some(Status::Cancelled),
        _ => None,
    }
}

pub fn project<'a>(log: impl IntoIterator<Item = &'a Recorded>) -> Projection {
    let mut row = Projection { status: Status::Pending, attempt: 0, cancel_requested: false, started_at: None, ended_at: None };
    for recorded in log {
        match &recorded.event {
            Event::Claimed(_) if row.started_at.is_none() => (row.status, row.started_at) = (Status::Running, Some(recorded.at)),
            Event::SandboxRequested(asked) => row.attempt = asked.attempt,
            Event::CancelRequested => row.cancel_requested = true,
            _ => {}
        }
        if let Some(status) = terminal_status(&recorded.event) {
            (row.status, row.ended_at) = (status, Some(recorded.at));
        }
    }
    row
}
