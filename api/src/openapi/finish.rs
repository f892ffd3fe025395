//! What holds for every route, written into the document in one place.

use std::collections::BTreeSet;

use axum::http::Method;
use serde_json::{Value, json};
use utoipa::openapi::OpenApi;

use crate::auth::scopes::Need;

/// The document as it is served.
pub(super) fn finish(openapi: OpenApi) -> Value {
    // Our own types of strings and numbers: writing them cannot fail.
    let mut document = serde_json::to_value(openapi).unwrap_or_default();
    document["components"]["securitySchemes"] = json!({ "bearer": {
        "type": "http", "scheme": "bearer",
        "description": "A key or a JSON Web Token, where the deployment asks for one. A route needs the scope beside it, or `agent_os:admin`.",
    }});
    document["components"]["headers"] = headers();
    document["components"]["schemas"]["StreamEvent"]["properties"]["data"]["contentSchema"] =
        json!({ "anyOf": [{ "$ref": "#/components/schemas/StreamFrame" }, { "$ref": "#/components/schemas/ControlFrame" }] });
    for schema in forms(&document) {
        if let Some(schema) = document.pointer_mut(&schema) {
            no_nulls(schema);
        }
    }
    for (path, item) in document["paths"].as_object_mut().into_iter().flatten() {
        for (method, operation) in item.as_object_mut().into_iter().flatten() {
            let method = Method::from_bytes(method.to_ascii_uppercase().as_bytes()).unwrap_or_default();
            operation_of(Need::of(&method, Some(path)), operation);
        }
    }
    document
}

fn headers() -> Value {
    let text = |description: &str| json!({ "description": description, "required": true, "schema": { "type": "string" } });
    let seconds = |description: &str, required: bool| json!({ "description": description, "required": required, "schema": { "type": "integer", "minimum": 1 } });
    json!({
        "RequestId": text("The request's own id, if it has one that is fit for a log, or a new one"),
        "RetryAfter": seconds("In so many seconds", true),
        "MayRetryAfter": seconds("In so many seconds, where that may help", false),
        "Challenge": text("`Bearer`"),
    })
}

/// Where the schemas of forms are.
fn forms(document: &Value) -> BTreeSet<String> {
    let operations = document["paths"].as_object().into_iter().flatten().flat_map(|(_, item)| item.as_object().into_iter().flatten());
    let contents = operations.flat_map(|(_, operation)| operation["requestBody"]["content"].as_object().into_iter().flatten());
    let forms = contents.filter(|(kind, _)| kind.as_str() != "application/json");
    forms.filter_map(|(_, content)| Some(content["schema"]["$ref"].as_str()?.trim_start_matches('#').to_owned())).collect()
}

/// What is optional may be null in JSON. In an address, a header or a form there is no null.
fn no_nulls(value: &mut Value) {
    match value {
        Value::Array(items) => items.iter_mut().for_each(no_nulls),
        Value::Object(fields) => {
            if let Some(Value::Array(types)) = fields.get_mut("type") {
                types.retain(|kind| kind != "null");
                if let [only] = types.as_slice() {
                    let only = only.clone();
                    fields.insert("type".into(), only);
                }
            }
            if let Some(Value::Array(choices)) = fields.get_mut("oneOf") {
                choices.retain(|choice| choice["type"] != "null");
                if let [Value::Object(only)] = choices.as_slice() {
                    let only = only.clone();
                    fields.remove("oneOf");
                    fields.extend(only);
                }
            }
            fields.values_mut().for_each(no_nulls);
        }
        _ => {}
    }
}

fn operation_of(need: Need, operation: &mut Value) {
    let requires_identity = need != Need::Nothing;
    operation["security"] = match need {
        Need::Nothing => json!([]),
        Need::Identity => json!([{ "bearer": [] }]),
        Need::One(scope) => json!([{ "bearer": [scope.name()] }]),
    };
    let id = json!({ "name": "x-request-id", "in": "header", "description": "Comes back with the answer", "schema": { "type": "string" } });
    if let Some(parameters) = operation["parameters"].as_array_mut() {
        parameters.iter_mut().for_each(no_nulls);
        parameters.push(id);
    } else {
        operation["parameters"] = json!([id]);
    }
    let responses = &mut operation["responses"];
    let mut common = vec![("422", "What does not validate, each with its place"), ("500", "Something that an operator has to see to")];
    if requires_identity {
        common.extend([("401", "It is not known who asks"), ("403", "The scope is missing")]);
        common.push(("503", "The log, or the issuer of tokens, does not answer"));
    }
    for (status, description) in common {
        if responses[status].is_null() {
            responses[status] = json!({ "description": description });
        }
    }
    for (status, response) in responses.as_object_mut().into_iter().flatten() {
        response_of(status, response);
    }
}

fn response_of(status: &str, response: &mut Value) {
    let refused = status.starts_with(['4', '5']);
    if refused && response["content"].is_null() {
        let shape = if status == "422" { "Faults" } else { "Detail" };
        response["content"] = json!({ "application/json": { "schema": { "$ref": format!("#/components/schemas/{shape}") } } });
    }
    if let Some(headers) = response.get_mut("headers") {
        no_nulls(headers);
    }
    let named = |name: &str| json!({ "$ref": format!("#/components/headers/{name}") });
    response["headers"]["x-request-id"] = named("RequestId");
    match status {
        "401" => response["headers"]["www-authenticate"] = named("Challenge"),
        "429" => response["headers"]["retry-after"] = named("RetryAfter"),
        "503" => response["headers"]["retry-after"] = named("MayRetryAfter"),
        _ => {}
    }
}
