//! A parameter of the address that a route does not have is refused: dropped in silence, a filter that is misspelt would list everything.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use axum::extract::{MatchedPath, Request, State};
use axum::http::Method;
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use serde_json::Value;

use crate::fields::Query;
use crate::respond::{Fault, Refusal};

/// The parameters that each route takes behind its `?`, by path and method.
pub(super) struct Known(BTreeMap<String, BTreeMap<String, BTreeSet<String>>>);

impl Known {
    pub(super) fn of(document: &Value) -> Self {
        let mut known: BTreeMap<String, BTreeMap<_, _>> = BTreeMap::new();
        for (path, item) in document["paths"].as_object().into_iter().flatten() {
            for (method, operation) in item.as_object().into_iter().flatten() {
                let query = operation["parameters"].as_array().into_iter().flatten().filter(|parameter| parameter["in"] == "query");
                let names = query.filter_map(|parameter| parameter["name"].as_str().map(ToOwned::to_owned)).collect();
                known.entry(path.clone()).or_default().insert(method.to_ascii_uppercase(), names);
            }
        }
        Self(known)
    }

    fn check(&self, request: &Request) -> Result<(), Refusal> {
        let method = if request.method() == Method::HEAD { &Method::GET } else { request.method() };
        let path = request.extensions().get::<MatchedPath>().map_or("", MatchedPath::as_str);
        // What is not described is no route.
        let methods = self.0.get(path).ok_or(Refusal::NotFound)?;
        // A method that the route does not have is refused as that.
        let Some(names) = methods.get(method.as_str()) else { return Ok(()) };
        let query = Query::of(request.uri())?;
        let unknown: Vec<Fault> = query.names().filter(|name| !names.contains(*name)).map(Fault::unknown).collect();
        if unknown.is_empty() { Ok(()) } else { Err(Refusal::Invalid(unknown)) }
    }
}

pub(super) async fn strict(State(known): State<Arc<Known>>, request: Request, next: Next) -> Response {
    match known.check(&request) {
        Ok(()) => next.run(request).await,
        Err(refusal) => refusal.into_response(),
    }
}
