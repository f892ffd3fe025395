//! What schemathesis makes of the document: no request that it thinks of is answered by a 5xx, or by anything that the document does not say.

use std::fs;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use e2e::deployment::Folder;
use e2e::http::{Submit, text};
use e2e::{Deployment, Shape, binaries};
use serde_json::Value;
use tokio::process::Command;

const CHECKS: &str = "not_a_server_error,status_code_conformance,content_type_conformance,response_headers_conformance,\
                      response_schema_conformance,unsupported_method,allow_header_conformance";
const SEED: &str = "20250701";
/// Far beyond what it takes: a stream that never ends is noticed.
const LIMIT: Duration = Duration::from_secs(600);
const REQUESTS: u64 = 2000;

/// Runs it with a configuration; how many requests it made, and its whole report where it found something.
async fn run(url: &str, folder: &Path, configuration: &str, phases: &str, examples: &str) -> u64 {
    let (file, report) = (folder.join("schemathesis.toml"), folder.join("report.json"));
    fs::write(&file, configuration).expect("a configuration");
    let mut command = Command::new(binaries::packages("schemathesis").join("schemathesis"));
    command.arg("--config-file").arg(&file).args(["run", &format!("{url}/openapi.json"), "--checks", CHECKS, "--phases", phases]);
    // One worker: the parser of Python 3.11, which it asks how to name a strategy, breaks under two threads that recurse.
    command.args(["--max-examples", examples, "--seed", SEED, "--workers", "1", "--request-timeout", "60", "--continue-on-failure", "--no-color"]);
    command.args(["--generation-database", "none", "--report", "json", "--report-json-path"]).arg(&report);
    command.current_dir(folder).stdin(Stdio::null()).kill_on_drop(true);
    let output = tokio::time::timeout(LIMIT, command.output()).await.expect("schemathesis does not end").expect("schemathesis");
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{}\n{said}\n{}", output.status, String::from_utf8_lossy(&output.stderr));
    let report: Value = serde_json::from_slice(&fs::read(report).expect("a report")).expect("JSON");
    let generated = report.pointer("/test_cases/generated").and_then(Value::as_u64);
    generated.unwrap_or_else(|| panic!("no number of requests in {report}"))
}

#[tokio::test(flavor = "multi_thread")]
async fn schemathesis_finds_no_5xx_and_no_answer_that_is_not_in_the_document() {
    let deployment = Deployment::with(Shape::Embedded, &[("SANDLOG_WAIT_SECONDS", "1")]).await;
    let (http, folder) = (deployment.http(), Folder::new());
    let kept = http.background(Submit::message("say hi").field("session_id", "kept")).await;
    let run_id = text(&kept, "run_id");
    http.wait(&run_id, &["COMPLETED"]).await;
    http.background(Submit::message("say bye").field("session_id", "spare")).await;
    // Ids that are there, so that routes are not all 404; and what is erased is not what the others read.
    let known = format!(
        "[parameters]\n\"path.agent\" = \"echo\"\n\"path.run\" = \"{run_id}\"\n\"path.session\" = \"kept\"\n\
         [[operations]]\ninclude-operation-id = \"delete_session\"\n[operations.parameters]\n\"path.session\" = \"spare\"\n"
    );
    let url = deployment.apis[0].url.clone().expect("a url");
    let requests = run(&url, folder.path(), &known, "examples,coverage,fuzzing", "40").await + run(&url, folder.path(), "", "fuzzing", "25").await;
    assert!(requests >= REQUESTS, "{requests} requests");
    deployment.stop().await;
}
