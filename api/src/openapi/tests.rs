use std::collections::BTreeSet;

use super::*;

fn operations(document: &Value) -> Vec<(String, String, Value)> {
    let paths = document["paths"].as_object().expect("paths");
    let items = paths.iter().flat_map(|(path, item)| item.as_object().expect("an item").iter().map(move |(method, it)| (path, method, it)));
    items.map(|(path, method, it)| (path.clone(), method.clone(), it.clone())).collect()
}

#[test]
fn the_document_is_openapi_3_1_of_this_release() {
    let document = document();
    assert_eq!(document["openapi"], "3.1.0");
    assert_eq!(document["info"]["version"], env!("CARGO_PKG_VERSION"));
    assert_eq!(document["servers"][0]["url"], "/");
}

#[test]
fn every_operation_has_a_name_of_its_own_and_says_what_it_refuses() {
    let document = document();
    let operations = operations(&document);
    let names: BTreeSet<&str> = operations.iter().map(|(.., it)| it["operationId"].as_str().expect("a name")).collect();
    assert_eq!(names.len(), operations.len());
    for (path, method, it) in &operations {
        assert!(it["summary"].is_string() && it["tags"].is_array(), "{method} {path}");
        for (status, response) in it["responses"].as_object().expect("responses") {
            assert!(response["headers"]["x-request-id"].is_object(), "{method} {path} {status}");
            assert_eq!(response["content"].is_object(), status != "204", "{method} {path} {status}");
        }
    }
}

#[test]
fn every_reference_leads_somewhere() {
    fn references<'a>(value: &'a Value, found: &mut Vec<&'a str>) {
        match value {
            Value::Object(fields) => {
                found.extend(fields.get("$ref").and_then(Value::as_str));
                fields.values().for_each(|value| references(value, found));
            }
            Value::Array(items) => items.iter().for_each(|item| references(item, found)),
            _ => {}
        }
    }
    let (document, mut found) = (document(), Vec::new());
    references(&document, &mut found);
    for reference in found {
        let pointer = reference.strip_prefix('#').expect("a reference into the document");
        assert!(document.pointer(pointer).is_some(), "{reference}");
    }
}

#[test]
fn the_document_asks_for_what_the_router_asks_for() {
    let document = document();
    let security = |path: &str, method: &str| &document["paths"][path][method]["security"];
    assert_eq!(security("/health", "get"), &serde_json::json!([]));
    assert_eq!(security("/openapi.json", "get"), &serde_json::json!([]));
    for (path, method, scope) in [
        ("/agents/{agent}/runs", "post", "agents:run"),
        ("/agents/{agent}/runs", "get", "agents:read"),
        ("/agents/{agent}/runs/{run}/resume", "post", "agents:read"),
        ("/sessions/{session}", "delete", "sessions:delete"),
        ("/queue/stats", "get", "agent_os:admin"),
    ] {
        assert_eq!(security(path, method), &serde_json::json!([{ "bearer": [scope] }]), "{method} {path}");
    }
}
