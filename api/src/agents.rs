//! What is registered.

use std::sync::Arc;

use ::runs::agents::Agent;
use axum::Json;
use axum::extract::State;
use serde_json::{Value, json};

use crate::app::App;
use crate::auth::Caller;
use crate::edge::Ids;
use crate::respond::Refusal;

/// Those that the caller may read.
pub(crate) async fn list(State(app): State<Arc<App>>, caller: Caller) -> Json<Value> {
    Json(app.agents.values().filter(|agent| caller.may_read(&agent.id)).map(show).collect())
}

pub(crate) async fn one(State(app): State<Arc<App>>, Ids(agent_id): Ids<String>) -> Result<Json<Value>, Refusal> {
    Ok(Json(show(app.agent(&agent_id)?)))
}

/// Agno's client takes a model as an object only; the list calls its name `id`, the single agent `model`.
fn show(agent: &Agent) -> Value {
    json!({
        "id": agent.id,
        "name": agent.name,
        "description": agent.description,
        "harness": agent.harness.name(),
        "model": agent.model.as_ref().map(|model| json!({ "id": model, "name": model, "model": model })),
        "sandboxed": true,
    })
}
