//! What is registered.

use std::sync::Arc;

use ::runs::agents::Agent;
use axum::Json;
use axum::extract::State;
use serde::Serialize;
use utoipa::ToSchema;

use crate::app::App;
use crate::auth::Caller;
use crate::edge::Ids;
use crate::openapi::paths::OfAgent;
use crate::respond::Refusal;

/// A registered agent.
#[derive(Serialize, ToSchema)]
#[schema(as = Agent)]
pub(crate) struct Shown {
    id: String,
    name: String,
    description: String,
    harness: &'static str,
    #[schema(required)]
    model: Option<Model>,
    /// Always true.
    sandboxed: bool,
}

/// Agno's client takes a model as an object only; the list calls its name `id`, the single agent `model`.
#[derive(Serialize, ToSchema)]
struct Model {
    id: String,
    name: String,
    model: String,
}

/// The registered agents, as far as the caller may read them
#[utoipa::path(get, path = "/agents", tag = "agents", operation_id = "list_agents", responses((status = 200, description = "All of them", body = [Shown])))]
pub(crate) async fn list(State(app): State<Arc<App>>, caller: Caller) -> Json<Vec<Shown>> {
    Json(app.agents.values().filter(|agent| caller.may_read(&agent.id)).map(show).collect())
}

/// One agent
#[utoipa::path(
    get,
    path = "/agents/{agent}",
    tag = "agents",
    operation_id = "read_agent",
    params(OfAgent),
    responses((status = 200, description = "The agent", body = Shown), (status = 404, description = "No such agent"))
)]
pub(crate) async fn one(State(app): State<Arc<App>>, Ids(agent_id): Ids<String>) -> Result<Json<Shown>, Refusal> {
    Ok(Json(show(app.agent(&agent_id)?)))
}

fn show(agent: &Agent) -> Shown {
    Shown {
        id: agent.id.clone(),
        name: agent.name.clone(),
        description: agent.description.clone(),
        harness: agent.harness.name(),
        model: agent.model.as_ref().map(|model| Model { id: model.clone(), name: model.clone(), model: model.clone() }),
        sandboxed: true,
    }
}
