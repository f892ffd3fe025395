//! Every answer that a case gets is held to the document: its status, its kind of content and the headers that it must have.

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::http::{HeaderMap, Method, Request, StatusCode};
use serde_json::Value;
use tokio::sync::OnceCell;
use tower::ServiceExt;

/// The document as the routes serve it, which is the same for all cases.
pub(crate) async fn document(router: &Router) -> &'static Value {
    static DOCUMENT: OnceCell<Value> = OnceCell::const_new();
    let read = async || {
        let answer = router.clone().oneshot(Request::get("/openapi.json").body(Body::empty()).unwrap()).await.unwrap();
        assert_eq!(answer.status(), StatusCode::OK);
        serde_json::from_slice(&to_bytes(answer.into_body(), usize::MAX).await.unwrap()).unwrap()
    };
    DOCUMENT.get_or_init(read).await
}

/// What is said of the operation that a request is for; nothing where there is none.
fn operation<'a>(document: &'a Value, method: &Method, path: &str) -> Option<&'a Value> {
    let fits = |template: &str| {
        let (asked, given): (Vec<_>, Vec<_>) = (template.split('/').collect(), path.split('/').collect());
        asked.len() == given.len()
            && asked.iter().zip(&given).all(|(part, value)| if part.starts_with('{') { !value.is_empty() } else { part == value })
    };
    let item = document["paths"].as_object().unwrap().iter().find(|(template, _)| fits(template))?.1;
    // What is answered to GET is answered to HEAD, without the body.
    let method = if method == Method::HEAD { Method::GET } else { method.clone() };
    item.get(method.as_str().to_lowercase())
}

pub(crate) fn check(document: &Value, method: &Method, path: &str, status: StatusCode, headers: &HeaderMap) {
    // Of any route: no route, no such method, an id of a path that is none.
    let Some(operation) = operation(document, method, path) else {
        assert!([400, 401, 403, 404, 405, 500, 503].contains(&status.as_u16()), "{method} {path}: {status}");
        return;
    };
    let response = &operation["responses"][status.as_str()];
    assert!(response.is_object(), "{method} {path}: {status} is not in the document");
    let kind = headers.get("content-type").map(|kind| kind.to_str().unwrap().split(';').next().unwrap());
    match response["content"].as_object() {
        None => assert_eq!(kind, None, "{method} {path}: {status}"),
        Some(content) => assert!(kind.is_some_and(|kind| content.contains_key(kind)), "{method} {path}: {status} as {kind:?}"),
    }
    for (name, header) in response["headers"].as_object().unwrap() {
        let header = header["$ref"].as_str().map_or(header, |at| document.pointer(at.strip_prefix('#').unwrap()).unwrap());
        let required = header["required"] == true;
        assert!(!required || headers.contains_key(name.as_str()), "{method} {path}: {status} without {name}");
    }
}
