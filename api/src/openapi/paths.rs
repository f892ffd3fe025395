//! The ids in paths. What cannot be one is not found, so none of them has a format.
#![expect(dead_code, reason = "read by name where they are needed; here they are described")]

#[derive(utoipa::IntoParams)]
#[into_params(parameter_in = Path)]
pub(crate) struct OfAgent {
    /// A registered agent.
    agent: String,
}

#[derive(utoipa::IntoParams)]
#[into_params(parameter_in = Path)]
pub(crate) struct OfRun {
    /// A registered agent.
    agent: String,
    /// A run of it.
    run: String,
}

#[derive(utoipa::IntoParams)]
#[into_params(parameter_in = Path)]
pub(crate) struct OfSession {
    session: String,
}

#[derive(utoipa::IntoParams)]
#[into_params(parameter_in = Path)]
pub(crate) struct OfSessionRun {
    session: String,
    /// A run of it.
    run: String,
}

#[derive(utoipa::IntoParams)]
#[into_params(parameter_in = Path)]
pub(crate) struct OfJob {
    /// A run of any agent.
    run: String,
}
