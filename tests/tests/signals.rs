//! Between instances: what carries signals, what it changes, and what it must not.

use std::time::{Duration, Instant};

use e2e::http::{ENDED, Submit, body, text};
use e2e::{Deployment, Http, Redis, Shape, eventually, unique};
use rcgen::CertifiedKey;
use reqwest::StatusCode;
use serde_json::Value;

const APART: Shape = Shape::Apart { apis: 2, workers: 1 };

async fn health(http: &Http, instance: usize) -> Value {
    let answer = http.request(reqwest::Method::GET, instance, "/health").send().await.expect("an answer");
    body(answer, StatusCode::OK).await
}

async fn becomes(http: &Http, instance: usize, carrier: &str, status: &str) -> Value {
    eventually(&format!("signals by {carrier} are {status}"), Duration::from_secs(40), || async {
        let health = health(http, instance).await;
        (health["signals"]["carrier"] == carrier && health["signals"]["status"] == status).then_some(health)
    })
    .await
}

async fn endless(http: &Http) -> String {
    // Its harness is under way and has said all that it will: a holder that appends would meet the wish in the log.
    http.stream(Submit::message("tick 1 6000").field("session_id", unique("s")), Some(2)).await.run_id()
}

/// From the answer to the end.
async fn cancel(http: &Http, run_id: &str) -> Duration {
    let since = Instant::now();
    assert_eq!(http.cancel(run_id, 1).await.status(), StatusCode::OK);
    assert_eq!(http.wait(run_id, &ENDED).await["status"], "CANCELLED");
    since.elapsed()
}

#[tokio::test(flavor = "multi_thread")]
async fn health_says_what_carries_signals_and_whether_it_does() {
    let mut redis = Redis::start().await;
    let deployment = Deployment::with(APART, &[("REDIS_URL", &redis.url())]).await;
    let http = deployment.http();
    assert_eq!(becomes(&http, 0, "redis", "ok").await["redis"]["status"], "ok");
    redis.kill();
    assert_eq!(becomes(&http, 0, "redis", "late").await["redis"]["status"], "unreachable");
    assert_eq!(http.foreground(Submit::message("say still")).await["content"], "still\n");
    redis.restart().await;
    becomes(&http, 1, "redis", "ok").await;
    deployment.stop().await;

    let deployment = Deployment::start(APART).await;
    assert!(becomes(&deployment.http(), 0, "listen", "ok").await.get("redis").is_none());
    deployment.stop().await;
    let deployment = Deployment::start(Shape::Pooled { apis: 1, workers: 1 }).await;
    let told = becomes(&deployment.http(), 0, "poll", "off").await;
    assert!(text(&told["signals"], "reason").contains("pooler"), "{told}");
    deployment.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wish_to_cancel_is_carried_and_without_a_carrier_the_heartbeat_brings_it() {
    // A heartbeat every thirty seconds, which nothing that is carried waits for.
    let slow = ("SANDLOG_LEASE_SECONDS", "90");
    let mut redis = Redis::start().await;
    let url = redis.url();
    for more in [&[slow, ("REDIS_URL", url.as_str())][..], &[slow]] {
        let deployment = Deployment::with(APART, more).await;
        let http = deployment.http();
        let took = cancel(&http, &endless(&http).await).await;
        assert!(took < Duration::from_secs(20), "{more:?}: {took:?}");
        deployment.stop().await;
    }
    // With Redis gone and a heartbeat a second: sooner than any sweep.
    let deployment = Deployment::with(APART, &[("REDIS_URL", &url)]).await;
    let http = deployment.http();
    let run_id = endless(&http).await;
    redis.kill();
    let took = cancel(&http, &run_id).await;
    assert!(took < Duration::from_secs(15), "{took:?}");
    deployment.stop().await;
}

/// With everything that they could take for the other's: one Postgres, one Redis, the same session, key and message, and a prefix that begins like the other.
#[tokio::test(flavor = "multi_thread")]
async fn two_deployments_in_two_schemas_and_under_two_prefixes_do_not_see_each_other() {
    let redis = Redis::start().await;
    let url = redis.url();
    let named = |schema, prefix| [("REDIS_URL", url.as_str()), ("SANDLOG_SCHEMA", schema), ("SANDLOG_REDIS_PREFIX", prefix)];
    let one = Deployment::with(APART, &named("ours", "team")).await;
    let other = one.beside(APART, &named("theirs", "team:b")).await;
    are_strangers(&one, &other).await;
    let keys = redis.ask(&["KEYS", "*:run:*"]).await;
    for http in [one.http(), other.http()] {
        assert_eq!(keys.matches(&newest(&http).await).count(), 1, "{keys}");
    }
    one.stop().await;
    other.stop().await;

    // By LISTEN it is the schema alone.
    let one = Deployment::with(APART, &[("SANDLOG_SCHEMA", "ours")]).await;
    let other = one.beside(APART, &[("SANDLOG_SCHEMA", "theirs")]).await;
    are_strangers(&one, &other).await;
    one.stop().await;
    other.stop().await;
}

async fn newest(http: &Http) -> String {
    text(&body(http.get("/agents/echo/runs").await, StatusCode::OK).await["data"][0], "run_id")
}

async fn are_strangers(one: &Deployment, other: &Deployment) {
    let https = [one.http(), other.http()];
    let submission = || Submit::message("tick 6000 0.05").field("session_id", "the-same").key("the-same");
    let mut runs = Vec::new();
    for http in &https {
        runs.push(http.stream(submission(), Some(3)).await.run_id());
    }
    assert_ne!(runs[0], runs[1], "a key is one deployment's");
    for (mine, http) in https.iter().enumerate() {
        let foreign = &runs[1 - mine];
        for instance in 0..2 {
            assert_eq!(http.run(foreign, instance).await.status(), StatusCode::NOT_FOUND);
            assert_eq!(http.cancel(foreign, instance).await.status(), StatusCode::NOT_FOUND);
            for tail in ["resume", "events"] {
                let path = format!("/agents/echo/runs/{foreign}/{tail}");
                let answer = http.request(reqwest::Method::GET, instance, &path).send().await.expect("an answer");
                assert_eq!(answer.status(), StatusCode::NOT_FOUND, "{path}");
            }
        }
        for list in ["/agents/echo/runs", "/sessions/the-same/runs", "/queue/jobs"] {
            let listed = body(http.get(list).await, StatusCode::OK).await;
            let listed = listed.get("data").unwrap_or(&listed);
            let ids: Vec<&str> = listed.as_array().expect("a list").iter().filter_map(|one| one["run_id"].as_str()).collect();
            assert_eq!(ids, [runs[mine].as_str()], "{list}: {listed}");
        }
    }
    // Only the one that is meant stops, and the other goes on.
    cancel(&https[0], &runs[0]).await;
    assert_eq!(body(https[1].run(&runs[1], 0).await, StatusCode::OK).await["status"], "RUNNING");
    cancel(&https[1], &runs[1]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn redis_is_reached_by_tls_as_a_user_and_only_where_its_certificate_is_known() {
    let folder = tempfile::tempdir().expect("a folder");
    let CertifiedKey { cert, signing_key } = rcgen::generate_simple_self_signed(["localhost".to_owned()]).expect("a certificate");
    let file = |name: &str, text: String| {
        let file = folder.path().join(name);
        std::fs::write(&file, text).expect("a file");
        file.display().to_string()
    };
    let (cert, key) = (file("cert.pem", cert.pem()), file("key.pem", signing_key.serialize_pem()));
    let port = std::net::TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr()).expect("a port").port().to_string();
    let arguments = ["--tls-port", &port, "--tls-cert-file", &cert, "--tls-key-file", &key, "--tls-auth-clients", "no"];
    let redis = Redis::with(&arguments).await;
    let rule = ["ACL", "SETUSER", "sandlog", "on", ">se:cret", "~sandlog:*", "+xadd", "+xread", "+pexpire"];
    assert_eq!(redis.ask(&rule).await, "+OK\r\n");
    let url = format!("rediss://sandlog:se%3Acret@localhost:{port}");
    let known = Deployment::with(APART, &[("REDIS_URL", &url), ("SSL_CERT_FILE", &cert)]).await;
    becomes(&known.http(), 0, "redis", "ok").await;
    assert_eq!(known.http().foreground(Submit::message("say hi")).await["content"], "hi\n");
    known.stop().await;
    let unknown = Deployment::with(Shape::Apart { apis: 1, workers: 0 }, &[("REDIS_URL", &url)]).await;
    let told = eventually("it says why", Duration::from_secs(20), || async {
        let health = health(&unknown.http(), 0).await;
        health["signals"]["reason"].as_str().is_some_and(|why| why != "not connected yet").then_some(health)
    })
    .await;
    assert_eq!(told["redis"]["status"], "unreachable", "{told}");
    unknown.stop().await;
}
