//! The document and the router: each route is described, what is described is routed, and what is not described is refused.

use axum::body::Body;
use axum::http::{Method, Request, StatusCode};

use crate::kit::described::document;
use crate::kit::{Stage, json as json_body};

/// Every operation as a request for ids that are not there.
async fn operations(stage: &Stage) -> Vec<(Method, String)> {
    let paths = document(&stage.router).await["paths"].as_object().unwrap();
    let items = paths.iter().flat_map(|(path, item)| item.as_object().unwrap().keys().map(move |method| (method, path)));
    let filled = |path: &str| path.replace("{agent}", "echo").replace("{run}", "0190a1b2-0000-7000-8000-000000000000").replace("{session}", "s");
    items.map(|(method, path)| (method.to_uppercase().parse().unwrap(), filled(path))).collect()
}

#[tokio::test]
async fn what_is_described_is_routed() {
    let stage = Stage::new();
    let operations = operations(&stage).await;
    assert!(operations.len() > 15, "{operations:?}");
    for (method, path) in operations {
        let request = Request::builder().method(method.clone()).uri(&path).body(Body::empty()).unwrap();
        let answer = stage.ask(request).await;
        assert_ne!(answer.status, StatusCode::METHOD_NOT_ALLOWED, "{method} {path}");
        assert!(answer.status != StatusCode::NOT_FOUND || answer.detail() != "Not Found", "{method} {path}");
    }
}

#[tokio::test]
async fn a_parameter_that_a_route_does_not_have_is_refused_by_name() {
    let stage = Stage::new();
    for (method, path) in operations(&stage).await {
        let request = Request::builder().method(method.clone()).uri(format!("{path}?limits=5&b=")).body(Body::empty()).unwrap();
        assert_eq!(stage.ask(request).await.faulty(), ["limits", "b"], "{method} {path}");
    }
    let head = stage.ask(Request::head("/agents?x=1").body(Body::empty()).unwrap()).await;
    assert_eq!(head.status, StatusCode::UNPROCESSABLE_ENTITY);
    assert_eq!(stage.get("/sessions?%ff=1").await.faulty(), ["query"]);
}

#[tokio::test]
async fn a_field_that_resume_does_not_have_is_refused_by_name() {
    let stage = Stage::new();
    let run = stage.accepted(&[("message", "x")]).await;
    let answer = stage.ask(json_body(&format!("/agents/echo/runs/{run}/resume"), &serde_json::json!({ "last_index": 1 }))).await;
    assert_eq!(answer.faulty(), ["last_index"]);
}

#[tokio::test]
async fn a_method_that_a_route_does_not_have_is_405_with_those_that_it_has() {
    let stage = Stage::new();
    for (method, path, allowed) in [
        ("PUT", "/agents/echo/runs", ["GET", "HEAD", "POST"].as_slice()),
        ("OPTIONS", "/health", &["GET", "HEAD"]),
        ("TRACE", "/queue/stats", &["GET", "HEAD"]),
    ] {
        let answer = stage.ask(Request::builder().method(method).uri(path).body(Body::empty()).unwrap()).await;
        assert_eq!((answer.status, answer.detail().as_str()), (StatusCode::METHOD_NOT_ALLOWED, "Method Not Allowed"), "{method} {path}");
        let mut named: Vec<&str> = answer.headers["allow"].to_str().unwrap().split(',').map(str::trim).collect();
        named.sort_unstable();
        assert_eq!(named, allowed, "{method} {path}");
    }
}

#[tokio::test]
async fn one_session_of_a_user_is_read_as_that_users() {
    let stage = Stage::new();
    let run = stage.accepted(&[("message", "x"), ("session_id", "s"), ("user_id", "ann")]).await;
    for path in ["/sessions/s".to_owned(), "/sessions/s/runs".into(), format!("/sessions/s/runs/{run}")] {
        assert_eq!(stage.get(&format!("{path}?user_id=ann&type=agent")).await.status, StatusCode::OK, "{path}");
        let answer = stage.get(&format!("{path}?user_id=bob")).await;
        assert_eq!((answer.status, answer.detail().as_str()), (StatusCode::NOT_FOUND, "Session not found"), "{path}");
        assert_eq!(stage.get(&format!("{path}?type=team")).await.faulty(), ["type"], "{path}");
    }
    let erased = stage.ask(Request::delete("/sessions/s?user_id=bob").body(Body::empty()).unwrap()).await;
    assert_eq!(erased.status, StatusCode::NOT_FOUND);
}
