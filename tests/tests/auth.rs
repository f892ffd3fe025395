//! Authentication over real binaries: keys that `sandlog key` makes, clients that send them, and two apis that agree on whose a run is.

use std::path::Path;

use e2e::deployment::Folder;
use e2e::http::{ENDED, Submit, frames, refused, text};
use e2e::instance::{Ended, command, finish};
use e2e::{Deployment, Http, Shape};
use reqwest::{Method, StatusCode};

const SCOPES: [&str; 4] = ["agents:read", "agents:run", "sessions:read", "sessions:delete"];

/// Makes a key by the command line, which adds it to the file.
async fn key(file: &Path, name: &str, scopes: &[&str]) -> String {
    let args: Vec<&str> = ["key", name].into_iter().chain(scopes.iter().flat_map(|scope| ["--scope", *scope])).collect();
    let ended = finish(command(&args, &[])).await;
    assert!(ended.status.success(), "{ended:?}");
    let key = ended.stderr.split_whitespace().find(|word| word.starts_with("sandlog_")).expect("a key").to_owned();
    assert!(key.len() == "sandlog_".len() + 64 && !ended.stdout.contains(&key), "{ended:?}");
    let before = std::fs::read_to_string(file).unwrap_or_default();
    std::fs::write(file, before + &ended.stdout).expect("a file");
    key
}

async fn sandlog(deployment: &Deployment, args: &[&str], token: &str) -> Ended {
    let mut variables = deployment.variables().to_vec();
    variables.push(("SANDLOG_URL".into(), deployment.apis[0].url.clone().expect("a url")));
    variables.push(("SANDLOG_TOKEN".into(), token.into()));
    finish(command(args, &variables)).await
}

#[tokio::test]
async fn each_key_sees_what_is_its_users_on_every_instance() {
    let folder = Folder::new();
    let file = folder.path().join("keys.toml");
    let (ann, bob) = (key(&file, "ann", &SCOPES).await, key(&file, "bob", &SCOPES).await);
    let reader = key(&file, "reader", &["agents:read"]).await;
    let given = [("SANDLOG_AUTH", "key"), ("SANDLOG_AUTH_KEYS", file.to_str().expect("a path"))];
    let deployment = Deployment::with(Shape::Apart { apis: 2, workers: 1 }, &given).await;
    let (nobody, of_ann, of_bob) = (deployment.http(), deployment.http().known_by(&ann), deployment.http().known_by(&bob));

    let run = of_ann.foreground(Submit::message("say mine").field("session_id", "s").field("user_id", "bob")).await;
    let id = text(&run, "run_id");
    assert_eq!((text(&run, "user_id"), text(&run, "content")), ("ann".into(), "mine\n".into()));
    let path = format!("/agents/echo/runs/{id}");
    for instance in [0, 1] {
        let get = async |http: &Http, path: &str| http.request(Method::GET, instance, path).send().await.expect("an answer");
        assert_eq!(frames(get(&of_ann, &format!("{path}/resume")).await, None).await.whole(0).text(), "mine\n");
        refused(get(&nobody, &path).await, 401, "Authorization header required").await;
        refused(get(&nobody.clone().known_by("sandlog_0"), &path).await, 401, "Invalid authentication token").await;
        for of in [path.clone(), format!("{path}/events"), format!("{path}/resume")] {
            refused(get(&of_bob, &of).await, 404, "Run not found").await;
        }
        refused(of_bob.cancel(&id, instance).await, 404, "Run not found").await;
        refused(get(&of_bob, "/sessions/s").await, 404, "Session not found").await;
        assert_eq!(of_bob.runs("s").await, Vec::<serde_json::Value>::new());
        assert_eq!(of_ann.runs("s").await.len(), 1);
        assert_eq!(get(&nobody, "/health").await.status(), StatusCode::OK);
    }
    refused(of_bob.submit(Submit::message("say x").field("session_id", "s")).await, 404, "Session not found").await;
    let refusal = "Insufficient permissions: the scope agents:run is required";
    refused(deployment.http().known_by(&reader).submit(Submit::message("say x")).await, 403, refusal).await;

    // What was refused is not in the log.
    let database = deployment.database.as_ref().expect("a database");
    assert_eq!(database.rows("select (select count(*) from sandlog.runs), (select count(*) from sandlog.sessions)"), [["1", "1"]]);

    let ended = sandlog(&deployment, &["submit", "echo", "say", "there"], &ann).await;
    assert!(ended.status.success() && ended.stdout.contains("there"), "{ended:?}");
    let ended = sandlog(&deployment, &["submit", "echo", "say", "there"], "wrong").await;
    assert!(!ended.status.success() && ended.stderr.contains("SANDLOG_TOKEN"), "{ended:?}");
    let ended = sandlog(&deployment, &["follow", "echo", &id], &bob).await;
    assert!(!ended.status.success() && ended.stderr.contains("Run not found"), "{ended:?}");
    assert!(ENDED.contains(&text(&of_ann.wait(&id, &ENDED).await, "status").as_str()));
    deployment.stop().await;
}

#[tokio::test]
async fn what_is_no_scope_makes_no_key() {
    let ended = finish(command(&["key", "ann", "--scope", "agents:fly", "--scope", "openid"], &[])).await;
    assert!(!ended.status.success() && ended.stdout.is_empty(), "{ended:?}");
    assert!(ended.stderr.contains("agents:fly") && ended.stderr.contains("openid") && !ended.stderr.contains("sandlog_"), "{ended:?}");
}
