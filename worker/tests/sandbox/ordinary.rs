//! The same for a worker that is not root.

use std::process::Command;

use super::rig::runner;

/// This test program again under another user, with all tests that do not need root.
#[test]
fn an_ordinary_user_can_do_all_of_it() {
    if !rustix::process::geteuid().is_root() {
        return;
    }
    runner();
    let program = std::env::current_exe().unwrap();
    let mut again = Command::new("setpriv");
    again.args(["--reuid=65534", "--regid=65534", "--clear-groups"]).arg(&program);
    again.args(["sandbox::turn", "sandbox::kill", "sandbox::inside", "sandbox::limits::the_", "sandbox::egress", "sandbox::tools"]);
    again.args(["a_runner_killed", "a_dead_runner", "look_waits", "--test-threads=2"]);
    again.env("SANDLOG_TEST_ORDINARY", "1").env("TMPDIR", "/tmp").current_dir("/");
    let output = match again.output() {
        Ok(output) => output,
        Err(error) => panic!("setpriv: {error}"),
    };
    let said = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    if said.contains("failed to execute") && said.contains("Permission denied") {
        // Below a folder that the other user cannot enter.
        return;
    }
    assert!(output.status.success() && said.contains("test result: ok"), "{said}");
}
