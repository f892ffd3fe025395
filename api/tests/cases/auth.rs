//! Who may do what: every route, for everybody who could ask.

use api::auth::{Auth, Key, Settings};
use axum::body::Body;
use axum::http::{Request, StatusCode, header};
use serde_json::Value;

use crate::kit::{Answer, Stage, form};

const AGENTS_READ: &str = "agents:read";
const AGENTS_RUN: &str = "agents:run";
const SESSIONS_READ: &str = "sessions:read";
const SESSIONS_DELETE: &str = "sessions:delete";
const SCOPES: [&str; 4] = [AGENTS_READ, AGENTS_RUN, SESSIONS_READ, SESSIONS_DELETE];

/// Whoever may ask for something of a run of Ann's.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Who {
    Ann,
    Bob,
    /// Holds every scope, and is still not Ann.
    Operator,
    /// Ann, by a key that lacks this one scope.
    AnnWithout(&'static str),
}

impl Who {
    fn all() -> Vec<Who> {
        let mut all = vec![Who::Ann, Who::Bob, Who::Operator];
        all.extend(SCOPES.map(Who::AnnWithout));
        all
    }

    fn key(self) -> String {
        format!("key of {self:?}")
    }

    fn user(self) -> &'static str {
        match self {
            Who::Ann | Who::AnnWithout(_) => "ann",
            Who::Bob => "bob",
            Who::Operator => "operator",
        }
    }

    fn scopes(self) -> Vec<String> {
        match self {
            Who::Ann | Who::Bob => SCOPES.map(str::to_owned).to_vec(),
            Who::Operator => vec!["agent_os:admin".into()],
            Who::AnnWithout(missing) => SCOPES.into_iter().filter(|scope| *scope != missing).map(str::to_owned).collect(),
        }
    }
}

/// A stage that takes the keys of everybody above, and some more.
fn stage(more: &[(&str, &str, &[&str])]) -> Stage {
    let mut file: String =
        Who::all().into_iter().map(|who| Key::entry(&who.key(), &who.key(), Some(who.user()), &who.scopes()).expect("an entry")).collect();
    for (key, user, scopes) in more {
        let scopes: Vec<String> = scopes.iter().map(|scope| (*scope).to_owned()).collect();
        file.push_str(&Key::entry(key, key, Some(user), &scopes).expect("an entry"));
    }
    let keys = tempfile::NamedTempFile::new().expect("a file");
    std::fs::write(keys.path(), file).expect("a file");
    let path = keys.path().to_str().expect("a path").to_owned();
    let mut from = adapters::config::Variables::new(|name: &str| match name {
        "SANDLOG_AUTH" => Some("key".to_owned()),
        "SANDLOG_AUTH_KEYS" => Some(path.clone()),
        _ => None,
    });
    let settings = Settings::read(&mut from, None);
    from.done(()).expect("settings");
    Stage::guarded(Auth::new(&settings).expect("keys"))
}

fn with(mut request: Request<Body>, key: Option<&str>) -> Request<Body> {
    if let Some(key) = key {
        request.headers_mut().insert(header::AUTHORIZATION, format!("Bearer {key}").parse().expect("a header"));
    }
    request
}

async fn ask(stage: &Stage, method: &str, path: &str, key: Option<&str>) -> Answer {
    let request = if method == "POST" && path.ends_with("/runs") {
        form(path, &[("message", "x"), ("stream", "false"), ("background", "true")])
    } else {
        Request::builder().method(method).uri(path).body(Body::empty()).expect("a request")
    };
    stage.ask(with(request, key)).await
}

async fn submitted(stage: &Stage, who: Who, fields: &[(&str, &str)]) -> Answer {
    let fields = [fields, &[("message", "x"), ("stream", "false"), ("background", "true")]].concat();
    stage.ask(with(form("/agents/echo/runs", &fields), Some(&who.key()))).await
}

/// What a route does with who is not the owner of what it names.
#[derive(Clone, Copy, PartialEq)]
enum Others {
    /// They get an answer of their own, in which there is nothing of Ann's.
    Own,
    RunNotFound,
    SessionNotFound,
}

#[tokio::test]
async fn every_route_is_for_who_has_its_scope_and_shows_what_is_theirs() {
    use Others::{Own, RunNotFound, SessionNotFound};
    // The last one erases nothing: the run has not ended.
    let routes = [
        ("GET", "/agents", AGENTS_READ, 200, Own),
        ("HEAD", "/agents", AGENTS_READ, 200, Own),
        ("GET", "/agents/echo", AGENTS_READ, 200, Own),
        ("POST", "/agents/echo/runs", AGENTS_RUN, 202, Own),
        ("GET", "/agents/echo/runs", AGENTS_READ, 200, Own),
        ("GET", "/agents/echo/runs?session_id=SESSION", AGENTS_READ, 200, Own),
        ("GET", "/agents/echo/runs?user_id=ann", AGENTS_READ, 200, Own),
        ("GET", "/agents/echo/runs/RUN", AGENTS_READ, 200, RunNotFound),
        ("GET", "/agents/echo/runs/RUN?session_id=SESSION", AGENTS_READ, 200, RunNotFound),
        ("GET", "/agents/echo/runs/RUN/events", AGENTS_READ, 200, RunNotFound),
        ("GET", "/agents/echo/runs/RUN/resume", AGENTS_READ, 200, RunNotFound),
        ("POST", "/agents/echo/runs/RUN/resume", AGENTS_READ, 200, RunNotFound),
        ("POST", "/agents/echo/runs/RUN/cancel", AGENTS_RUN, 200, RunNotFound),
        ("GET", "/sessions", SESSIONS_READ, 200, Own),
        ("GET", "/sessions?user_id=ann", SESSIONS_READ, 200, Own),
        ("GET", "/sessions/SESSION", SESSIONS_READ, 200, SessionNotFound),
        ("GET", "/sessions/SESSION/runs", SESSIONS_READ, 200, SessionNotFound),
        ("GET", "/sessions/SESSION/runs/RUN", SESSIONS_READ, 200, SessionNotFound),
        ("DELETE", "/sessions/SESSION", SESSIONS_DELETE, 409, SessionNotFound),
    ];
    for (method, route, scope, status, others) in routes {
        let stage = stage(&[]);
        let accepted = submitted(&stage, Who::Ann, &[("session_id", "of-ann")]).await.json();
        let run = accepted["run_id"].as_str().expect("a run").to_owned();
        if route.ends_with("/resume") {
            stage.worker().await.complete_at_once().await;
        }
        let path = route.replace("RUN", &run).replace("SESSION", "of-ann");
        let what = format!("{method} {route}");

        let nobody = ask(&stage, method, &path, None).await;
        refused(&nobody, method, 401, "Authorization header required", &what);
        assert_eq!(nobody.headers["www-authenticate"], "Bearer", "{what}");
        for wrong in ["", "key of ann", "key of An", "KEY OF ANN", "key of \u{e4}"] {
            let answer = ask(&stage, method, &path, Some(wrong)).await;
            refused(&answer, method, 401, "Invalid authentication token", &what);
            assert_eq!(answer.headers["www-authenticate"], "Bearer", "{what}");
        }
        for who in Who::all().into_iter().filter(|who| *who != Who::Ann) {
            let answer = ask(&stage, method, &path, Some(&who.key())).await;
            let what = format!("{what} by {who:?}");
            if who == Who::AnnWithout(scope) {
                refused(&answer, method, 403, &format!("Insufficient permissions: the scope {scope} is required"), &what);
            } else if who.user() == "ann" {
                assert_eq!(answer.status.as_u16(), status, "{what}: {}", answer.text);
            } else {
                match others {
                    Own => assert!(
                        answer.status.is_success() && !answer.text.contains(&run) && !answer.text.contains("of-ann"),
                        "{what}: {}",
                        answer.text
                    ),
                    RunNotFound => refused(&answer, method, 404, "Run not found", &what),
                    SessionNotFound => refused(&answer, method, 404, "Session not found", &what),
                }
            }
        }
        let answer = ask(&stage, method, &path, Some(&Who::Ann.key())).await;
        assert_eq!(answer.status.as_u16(), status, "{what}: {}", answer.text);
        let left = ask(&stage, "GET", &format!("/agents/echo/runs/{run}"), Some(&Who::Ann.key())).await.json();
        let cancelled = route.ends_with("/cancel");
        assert_eq!(left["status"] == "CANCELLED", cancelled, "{what}: {left}");
    }
}

fn refused(answer: &Answer, method: &str, status: u16, detail: &str, what: &str) {
    assert_eq!(answer.status.as_u16(), status, "{what}: {}", answer.text);
    if method != "HEAD" {
        assert_eq!(answer.detail(), detail, "{what}");
    }
}

#[tokio::test]
async fn who_scrapes_may_do_nothing_else() {
    let stage = stage(&[("scraper", "prometheus", &["metrics:read"])]);
    assert_eq!(ask(&stage, "GET", "/metrics", Some("scraper")).await.status, StatusCode::OK);
    for path in ["/queue/stats", "/queue/jobs", "/agents", "/agents/echo/runs", "/sessions"] {
        assert_eq!(ask(&stage, "GET", path, Some("scraper")).await.status, StatusCode::FORBIDDEN, "{path}");
    }
    assert_eq!(ask(&stage, "POST", "/agents/echo/runs", Some("scraper")).await.status, StatusCode::FORBIDDEN);
    refused(&ask(&stage, "GET", "/metrics", None).await, "GET", 401, "Authorization header required", "nobody");
    let answer = ask(&stage, "GET", "/metrics", Some(&Who::Ann.key())).await;
    refused(&answer, "GET", 403, "Insufficient permissions: the scope metrics:read is required", "a user");
    assert_eq!(ask(&stage, "GET", "/metrics", Some(&Who::Operator.key())).await.status, StatusCode::OK);
}

#[tokio::test]
async fn the_queue_is_for_operators_and_shows_them_everybodys_runs() {
    let stage = stage(&[]);
    let accepted = submitted(&stage, Who::Ann, &[("session_id", "of-ann")]).await.json();
    let run = accepted["run_id"].as_str().expect("a run").to_owned();
    stage.worker().await.complete_at_once().await;
    let job = format!("/queue/jobs/{run}");
    let requeue = format!("{job}/requeue");
    for (method, path, status) in
        [("GET", "/queue/stats", 200), ("GET", "/queue/jobs", 200), ("GET", job.as_str(), 200), ("POST", requeue.as_str(), 202)]
    {
        refused(&ask(&stage, method, path, None).await, method, 401, "Authorization header required", path);
        for who in Who::all().into_iter().filter(|who| *who != Who::Operator) {
            let answer = ask(&stage, method, path, Some(&who.key())).await;
            refused(&answer, method, 403, "Insufficient permissions: the scope agent_os:admin is required", path);
        }
        let answer = ask(&stage, method, path, Some(&Who::Operator.key())).await;
        assert_eq!(answer.status.as_u16(), status, "{path}: {}", answer.text);
        assert!(path == "/queue/stats" || answer.text.contains(&run), "{path}: {}", answer.text);
    }
}

#[tokio::test]
async fn health_is_told_to_everybody_and_nothing_else_is() {
    let stage = stage(&[]);
    assert_eq!(ask(&stage, "GET", "/health", None).await.status, StatusCode::OK);
    assert_eq!(ask(&stage, "GET", "/health", Some("wrong")).await.status, StatusCode::OK);
    for path in
        ["/", "/nowhere", "/queue/stats", "/queue/jobs", "/health/", "/agents/", "/agents/nobody", "/agents/nobody/runs", "//agents", "/AGENTS"]
    {
        for method in ["GET", "POST", "PUT", "DELETE", "OPTIONS"] {
            let answer = ask(&stage, method, path, None).await;
            refused(&answer, method, 401, "Authorization header required", &format!("{method} {path}"));
        }
    }
    assert_eq!(ask(&stage, "GET", "/nowhere", Some(&Who::Bob.key())).await.status, StatusCode::NOT_FOUND);
}

#[tokio::test]
async fn who_asks_is_checked_before_the_agent_and_before_the_body() {
    let stage = stage(&[("reads", "ann", &[AGENTS_READ])]);
    let bad = |path: &str| form(path, &[("stream", "maybe"), ("nonsense", "1")]);
    for (key, status) in [(None, 401), (Some("wrong"), 401), (Some("reads"), 403)] {
        for path in ["/agents/echo/runs", "/agents/nobody/runs"] {
            assert_eq!(stage.ask(with(bad(path), key)).await.status.as_u16(), status, "{key:?} {path}");
        }
    }
    assert_eq!(stage.ask(with(bad("/agents/nobody/runs"), Some(&Who::Ann.key()))).await.status, StatusCode::NOT_FOUND);
    // A body that never comes is not waited for.
    let endless = Body::from_stream(futures_util::stream::pending::<Result<axum::body::Bytes, std::io::Error>>());
    let request = Request::post("/agents/echo/runs").header("expect", "100-continue").header("content-type", "application/json").body(endless);
    assert_eq!(stage.ask(request.expect("a request")).await.status, StatusCode::UNAUTHORIZED);
}

#[tokio::test]
async fn a_refused_submission_leaves_nothing() {
    let stage = stage(&[("reads", "ann", &[AGENTS_READ, SESSIONS_READ])]);
    for key in [None, Some("wrong"), Some("reads")] {
        let mut request = form("/agents/echo/runs", &[("message", "x"), ("session_id", "s"), ("user_id", "ann")]);
        request.headers_mut().insert("idempotency-key", "k".parse().expect("a header"));
        assert!(stage.ask(with(request, key)).await.status.is_client_error());
    }
    for path in ["/sessions", "/agents/echo/runs"] {
        let listed = ask(&stage, "GET", path, Some("reads")).await.json();
        assert_eq!(listed["data"], Value::Array(Vec::new()), "{path}");
    }
    // The key and the session are free.
    let mut request = form("/agents/echo/runs", &[("message", "y"), ("session_id", "s"), ("stream", "false"), ("background", "true")]);
    request.headers_mut().insert("idempotency-key", "k".parse().expect("a header"));
    assert_eq!(stage.ask(with(request, Some(&Who::Bob.key()))).await.status, StatusCode::ACCEPTED);
}

#[tokio::test]
async fn the_identity_stands_in_place_of_any_user_that_is_named() {
    let stage = stage(&[]);
    let accepted = submitted(&stage, Who::Ann, &[("user_id", "bob"), ("session_id", "s")]).await.json();
    let run = accepted["run_id"].as_str().expect("a run");
    let path = format!("/agents/echo/runs/{run}");
    assert_eq!(ask(&stage, "GET", &path, Some(&Who::Ann.key())).await.json()["user_id"], "ann");
    assert_eq!(ask(&stage, "GET", &path, Some(&Who::Bob.key())).await.status, StatusCode::NOT_FOUND);
    for list in ["/sessions?user_id=bob", "/agents/echo/runs?user_id=bob", "/sessions/s/runs?user_id=bob"] {
        let text = ask(&stage, "GET", list, Some(&Who::Ann.key())).await.text;
        assert!(text.contains("\"ann\"") && !text.contains("\"bob\""), "{list}: {text}");
    }
}

#[tokio::test]
async fn another_users_session_is_not_there_to_go_on_with() {
    let stage = stage(&[]);
    assert_eq!(submitted(&stage, Who::Ann, &[("session_id", "s")]).await.status, StatusCode::ACCEPTED);
    for who in [Who::Bob, Who::Operator] {
        let answer = submitted(&stage, who, &[("session_id", "s"), ("user_id", "ann")]).await;
        assert_eq!((answer.status, answer.detail().as_str()), (StatusCode::NOT_FOUND, "Session not found"), "{who:?}");
    }
    // Neither is it listed from where a cursor of it stands.
    let more = submitted(&stage, Who::Ann, &[("session_id", "s")]).await.json();
    let cursor = more["run_id"].as_str().expect("a run");
    for list in ["/agents/echo/runs", "/sessions", "/agents/echo/runs?session_id=s"] {
        let glue = if list.contains('?') { '&' } else { '?' };
        let listed = ask(&stage, "GET", &format!("{list}{glue}cursor={cursor}&limit=1"), Some(&Who::Bob.key())).await.json();
        assert_eq!(listed["data"], Value::Array(Vec::new()), "{list}");
        assert_eq!(listed["meta"]["next_cursor"], Value::Null, "{list}");
    }
}

#[tokio::test]
async fn another_users_idempotency_key_tells_nothing_of_their_run() {
    let stage = stage(&[]);
    let ask = |who: Who, message: &'static str| {
        let mut request = form("/agents/echo/runs", &[("message", message), ("stream", "false"), ("background", "true")]);
        request.headers_mut().insert("idempotency-key", "k".parse().expect("a header"));
        stage.ask(with(request, Some(&who.key())))
    };
    let first = ask(Who::Ann, "x").await;
    for message in ["x", "y"] {
        let answer = ask(Who::Bob, message).await;
        assert_eq!((answer.status, answer.detail().as_str()), (StatusCode::CONFLICT, "Idempotency-Key belongs to a different submission scope"));
    }
    let again = ask(Who::AnnWithout(SESSIONS_READ), "x").await;
    assert_eq!(again.json()["run_id"], first.json()["run_id"], "the user is what counts, not the key that they came with");
}

#[tokio::test]
async fn a_key_for_one_agent_reaches_and_lists_that_one() {
    let stage = stage(&[("one", "ann", &["agents:echo:read", "agents:echo:run"]), ("all", "ann", &["agents:*:read"])]);
    let ids = |list: Value| list.as_array().expect("a list").iter().map(|agent| agent["id"].as_str().expect("an id").to_owned()).collect::<Vec<_>>();
    assert_eq!(ids(ask(&stage, "GET", "/agents", Some("one")).await.json()), ["echo"]);
    assert_eq!(ids(ask(&stage, "GET", "/agents", Some("all")).await.json()), ["echo", "other"]);
    assert_eq!(ask(&stage, "POST", "/agents/echo/runs", Some("one")).await.status, StatusCode::ACCEPTED);
    assert_eq!(ask(&stage, "POST", "/agents/%65cho/runs", Some("one")).await.status, StatusCode::ACCEPTED);
    for path in ["/agents/other/runs", "/agents/nobody/runs", "/agents/ech%6f%2f/runs", "/agents/*/runs"] {
        assert_eq!(ask(&stage, "POST", path, Some("one")).await.status, StatusCode::FORBIDDEN, "{path}");
    }
    assert_eq!(ask(&stage, "POST", "/agents/echo/runs", Some("all")).await.status, StatusCode::FORBIDDEN);
}

#[tokio::test]
async fn what_stands_before_a_function_says_who_asks_and_a_header_does_not() {
    let mut from = adapters::config::Variables::new(|name: &str| (name == "SANDLOG_AUTH").then(|| "gateway".to_owned()));
    let stage = Stage::guarded(Auth::new(&Settings::read(&mut from, None)).expect("a gateway"));
    let event = |authorizer: &Value| {
        let http = serde_json::json!({ "method": "GET", "path": "/sessions", "protocol": "HTTP/1.1", "sourceIp": "127.0.0.1", "userAgent": "x" });
        let context = serde_json::json!({ "http": http, "timeEpoch": 1, "stage": "$default", "authorizer": authorizer });
        let headers = serde_json::json!({ "authorization": "Bearer x", "x-amzn-oidc-identity": "eve" });
        let event = serde_json::json!({ "version": "2.0", "rawPath": "/sessions", "headers": headers, "requestContext": context });
        let (parts, _) = lambda_http::request::from_str(&event.to_string()).expect("an event").into_parts();
        Request::from_parts(parts, Body::empty())
    };
    let none = stage.ask(event(&Value::Null)).await;
    assert_eq!((none.status, none.detail().as_str()), (StatusCode::UNAUTHORIZED, "Authorization header required"));
    let iam = serde_json::json!({ "iam": { "userArn": "arn:aws:iam::1:user/ann" } });
    assert_eq!(stage.ask(event(&iam)).await.status, StatusCode::OK);
    let token = serde_json::json!({ "jwt": { "claims": { "sub": "ann", "scope": "agents:read" } } });
    assert_eq!(stage.ask(event(&token)).await.status, StatusCode::FORBIDDEN);
    // What came over a socket has no event, whatever it says of itself.
    assert_eq!(ask(&stage, "GET", "/sessions", Some("x")).await.status, StatusCode::UNAUTHORIZED);
}

#[tokio::test]
async fn a_token_that_nobody_can_judge_yet_is_not_called_wrong() {
    let closed = tokio::net::TcpListener::bind("127.0.0.1:0").await.and_then(|listener| listener.local_addr()).expect("a port");
    let set = format!("http://{closed}/keys");
    let mut from = adapters::config::Variables::new(|name: &str| match name {
        "SANDLOG_AUTH" => Some("jwt".to_owned()),
        "SANDLOG_AUTH_JWKS" => Some(set.clone()),
        _ => None,
    });
    let stage = Stage::guarded(Auth::new(&Settings::read(&mut from, None)).expect("a verifier"));
    // {"alg":"ES256","kid":"k"} and {"sub":"ann"}
    let answer = ask(&stage, "GET", "/sessions", Some("eyJhbGciOiJFUzI1NiIsImtpZCI6ImsifQ.eyJzdWIiOiJhbm4ifQ.AAAA")).await;
    assert_eq!((answer.status, answer.detail().contains("keys")), (StatusCode::SERVICE_UNAVAILABLE, true), "{}", answer.text);
    assert!(answer.headers.contains_key("retry-after") && !answer.headers.contains_key("www-authenticate"));
    // What is no token needs no key to be refused, and no token needs none either.
    refused(&ask(&stage, "GET", "/sessions", Some("x")).await, "GET", 401, "Invalid authentication token", "no token");
    refused(&ask(&stage, "GET", "/sessions", None).await, "GET", 401, "Authorization header required", "no header");
}
