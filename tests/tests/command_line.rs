//! `sandlog` as a client, and `sandlog run`.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use e2e::deployment::{Folder, agents};
use e2e::http::{ENDED, Submit, body};
use e2e::instance::{Ended, command, finish};
use e2e::{Deployment, Shape, eventually, traces};
use rcgen::CertifiedKey;
use reqwest::StatusCode;
use rustix::process::{Pid, Signal, kill_process};
use rustls::ServerConfig;
use rustls::crypto::ring;
use tokio::io::{AsyncBufReadExt, BufReader, copy_bidirectional};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;

async fn sandlog(deployment: &Deployment, args: &[&str]) -> Ended {
    let mut variables = deployment.variables().to_vec();
    variables.push(("SANDLOG_URL".into(), deployment.apis[0].url.clone().expect("a url")));
    finish(command(args, &variables)).await
}

fn alone(folder: &Folder) -> Vec<(String, String)> {
    vec![("SANDLOG_DATA_DIR".to_owned(), folder.path().join("data").display().to_string()), ("SANDLOG_AGENTS".into(), agents().display().to_string())]
}

#[tokio::test]
async fn run_twice_in_a_folder_of_its_own() {
    let folder = Folder::new();
    for word in ["once", "again"] {
        let message = format!("say {word}");
        let ended = finish(command(&["run", "echo", &message], &alone(&folder))).await;
        assert!(ended.status.success(), "{ended:?}");
        assert!(ended.stdout.contains(&format!("\n{word}\n-- COMPLETED after ")), "{}", ended.stdout);
        assert!(!ended.stderr.contains("ERROR"), "{}", ended.stderr);
        traces::gone(folder.path(), Duration::from_secs(30)).await;
    }
}

#[tokio::test]
async fn the_demo_shows_what_it_does() {
    let folder = Folder::new();
    let mut variables = alone(&folder);
    variables.retain(|(name, _)| name != "SANDLOG_AGENTS");
    let ended = finish(command(&["run"], &variables)).await;
    assert!(ended.status.success(), "{ended:?}");
    for part in ["wrote notes/turn-1.txt", "The workspace now:", "-- COMPLETED after "] {
        assert!(ended.stdout.contains(part), "{part:?} is not in: {}", ended.stdout);
    }
    traces::gone(folder.path(), Duration::from_secs(30)).await;
}

#[tokio::test]
async fn two_runs_at_once_in_one_folder_both_end() {
    let folder = Folder::new();
    let variables = alone(&folder);
    let run = || finish(command(&["run", "echo", "tick 3 0.1"], &variables));
    let (one, two) = tokio::join!(run(), run());
    assert!(one.status.success() && two.status.success(), "{one:?} {two:?}");
    traces::gone(folder.path(), Duration::from_secs(30)).await;
}

#[tokio::test]
async fn run_beside_up_submits_to_it() {
    let deployment = Deployment::start(Shape::Embedded).await;
    let ended = finish(command(&["run", "echo", "say there"], deployment.variables())).await;
    assert!(ended.status.success() && ended.stdout.contains("\nthere\n"), "{ended:?}");
    let session = ended.stdout.lines().next().and_then(|line| line.rsplit(' ').next()).expect("the first line names the session").to_owned();
    let runs = deployment.http().runs(&session).await;
    assert_eq!(runs.len(), 1, "{session}");
    deployment.stop().await;
}

#[tokio::test]
async fn an_interrupted_run_is_cancelled_and_leaves_nothing() {
    let folder = Folder::new();
    let mut child = command(&["run", "echo", "tick 6000 0.1"], &alone(&folder)).stdout(Stdio::piped()).spawn().expect("sandlog");
    let mut lines = BufReader::new(child.stdout.take().expect("its output")).lines();
    let mut seen = String::new();
    while let Some(line) = lines.next_line().await.expect("a line") {
        if line == "tick 2" {
            let pid = child.id().and_then(|pid| i32::try_from(pid).ok()).and_then(Pid::from_raw).expect("a process");
            kill_process(pid, Signal::INT).expect("a signal");
        }
        seen = line;
    }
    assert!(seen.starts_with("-- CANCELLED after "), "{seen}");
    assert_eq!(child.wait().await.expect("a status").code(), Some(1));
    traces::gone(folder.path(), Duration::from_secs(30)).await;
}

#[tokio::test]
async fn a_client_submits_follows_lists_and_cancels() {
    let deployment = Deployment::start(Shape::Embedded).await;
    let ended = sandlog(&deployment, &["submit", "echo", "say", "several", "words", "--session", "s1"]).await;
    assert!(ended.status.success() && ended.stdout.contains("\nseveral words\n-- COMPLETED"), "{ended:?}");

    let ended = sandlog(&deployment, &["submit", "--background", "echo", "tick 6000 0.1", "--session", "s1"]).await;
    let run_id = ended.stdout.split(' ').next().expect("an id").to_owned();
    deployment.http().wait(&run_id, &["RUNNING"]).await;
    let listed = sandlog(&deployment, &["runs", "echo", "s1"]).await.stdout;
    let lines: Vec<&str> = listed.lines().collect();
    assert!(lines.len() == 2 && lines[0].starts_with(&format!("{run_id} RUNNING")) && lines[1].contains("COMPLETED say several words"), "{listed}");

    let follow = ["follow", "echo", &run_id];
    let (followed, cancelled) = tokio::join!(sandlog(&deployment, &follow), async {
        eventually("a frame", Duration::from_secs(20), || async {
            let run = deployment.http().get(&format!("/agents/echo/runs/{run_id}/events?limit=3")).await;
            run.text().await.is_ok_and(|text| text.contains("tick 1")).then_some(())
        })
        .await;
        sandlog(&deployment, &["cancel", "echo", &run_id]).await
    });
    assert!(cancelled.status.success(), "{cancelled:?}");
    assert_eq!(followed.status.code(), Some(1));
    assert!(followed.stdout.contains("tick 1\n") && followed.stdout.contains("-- CANCELLED"), "{followed:?}");
    deployment.stop().await;
}

#[tokio::test]
async fn who_stops_looking_at_a_run_is_told_that_it_goes_on() {
    let deployment = Deployment::start(Shape::Embedded).await;
    let mut variables = deployment.variables().to_vec();
    variables.push(("SANDLOG_URL".into(), deployment.apis[0].url.clone().expect("a url")));
    let mut command = command(&["submit", "echo", "tick 600 0.1"], &variables);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("sandlog");
    let mut lines = BufReader::new(child.stdout.take().expect("its output")).lines();
    while lines.next_line().await.expect("its output").expect("a line") != "tick 1" {}
    kill_process(child.id().and_then(|pid| Pid::from_raw(pid.cast_signed())).expect("a process"), Signal::INT).expect("a signal");
    let ended = child.wait_with_output().await.expect("its end");
    let told = String::from_utf8_lossy(&ended.stderr).into_owned();
    assert_eq!(ended.status.code(), Some(130), "{told}");
    let run_id = told.split("sandlog cancel echo ").nth(1).and_then(|rest| rest.split('`').next()).expect("how to end it").to_owned();
    assert_eq!(body(deployment.http().run(&run_id, 0).await, StatusCode::OK).await["status"], "RUNNING");
    assert!(sandlog(&deployment, &["cancel", "echo", &run_id]).await.status.success());
    deployment.http().wait(&run_id, &ENDED).await;
    deployment.stop().await;
}

#[tokio::test]
async fn a_failing_run_fails_the_command_and_says_why() {
    let deployment = Deployment::start(Shape::Embedded).await;
    let ended = sandlog(&deployment, &["submit", "echo", "fail no luck today"]).await;
    assert_eq!(ended.status.code(), Some(1));
    assert!(ended.stderr.contains("no luck today"), "{ended:?}");
    let ended = sandlog(&deployment, &["submit", "nobody", "hi"]).await;
    assert_eq!(ended.status.code(), Some(1));
    assert!(ended.stderr.contains("no agent `nobody`") && ended.stderr.contains("echo"), "{}", ended.stderr);
    let ended = sandlog(&deployment, &["follow", "echo", "01890a5d-ac96-774b-bcce-b302099a8057"]).await;
    assert!(ended.status.code() == Some(1) && ended.stderr.contains("Run not found"), "{ended:?}");
    deployment.stop().await;
}

#[tokio::test]
async fn following_goes_on_when_the_api_is_killed_and_comes_back() {
    let mut deployment = Deployment::start(Shape::Apart { apis: 1, workers: 1 }).await;
    let http = deployment.http();
    let run = http.background(Submit::message("tick 60 0.1")).await;
    let run_id = run["run_id"].as_str().expect("an id").to_owned();
    let url = deployment.apis[0].url.clone().expect("a url");
    let port = url.rsplit(':').next().expect("a port").to_owned();
    let follow = tokio::spawn(finish(command(&["follow", "echo", &run_id], &[("SANDLOG_URL".to_owned(), url)])));
    eventually("frames", Duration::from_secs(20), || async {
        let page = http.get(&format!("/agents/echo/runs/{run_id}/events?after=3&limit=1")).await;
        page.text().await.is_ok_and(|text| text.contains("tick")).then_some(())
    })
    .await;
    deployment.apis.remove(0).kill().await;
    deployment.add_api_on(&port).await;
    let ended = follow.await.expect("the client");
    assert!(ended.status.success(), "{ended:?}");
    let ticks: Vec<&str> = ended.stdout.lines().filter(|line| line.starts_with("tick")).collect();
    let expected: Vec<String> = (1..=60).map(|tick| format!("tick {tick}")).collect();
    assert_eq!(ticks, expected);
    deployment.stop().await;
}

/// What a gateway does: TLS for `localhost`, and the api behind it. The port, and the file of its certificate.
async fn gateway(folder: &Path, api: &str) -> (u16, PathBuf) {
    let CertifiedKey { cert, signing_key } = rcgen::generate_simple_self_signed(["localhost".to_owned()]).expect("a certificate");
    let file = folder.join("cert.pem");
    std::fs::write(&file, cert.pem()).expect("a file");
    let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider())).with_safe_default_protocol_versions().expect("versions");
    let key = signing_key.serialize_der().try_into().expect("a key");
    let config = config.with_no_client_auth().with_single_cert(vec![cert.der().clone()], key).expect("its certificate");
    let (acceptor, listener) = (TlsAcceptor::from(Arc::new(config)), TcpListener::bind("127.0.0.1:0").await.expect("a port"));
    let (port, api) = (listener.local_addr().expect("an address").port(), api.trim_start_matches("http://").to_owned());
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let (acceptor, api) = (acceptor.clone(), api.clone());
            tokio::spawn(async move { copy_bidirectional(&mut acceptor.accept(stream).await?, &mut TcpStream::connect(api).await?).await });
        }
    });
    (port, file)
}

#[tokio::test]
async fn a_server_behind_tls_is_asked_and_only_where_its_certificate_is_known() {
    let deployment = Deployment::start(Shape::Embedded).await;
    let folder = Folder::new();
    let (port, certificate) = gateway(folder.path(), deployment.apis[0].url.as_deref().expect("a url")).await;
    let url = ("SANDLOG_URL".to_owned(), format!("https://localhost:{port}"));
    let known = [url.clone(), ("SSL_CERT_FILE".into(), certificate.display().to_string())];
    let ended = finish(command(&["submit", "echo", "say hi"], &known)).await;
    assert!(ended.status.success() && ended.stdout.contains("\nhi\n-- COMPLETED"), "{ended:?}");
    let ended = finish(command(&["submit", "echo", "say hi"], &[url])).await;
    assert!(!ended.status.success() && ended.stderr.contains("certificate"), "{ended:?}");
    deployment.stop().await;
}
