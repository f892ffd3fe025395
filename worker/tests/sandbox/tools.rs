//! Programs that the host gives to its sandboxes.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use super::rig::{Outcome, Rig, out_text, script};

#[tokio::test]
async fn the_hosts_tools_are_found_first_and_cannot_be_changed() -> Outcome {
    let folder = tempfile::tempdir()?;
    // Where the sandbox's user could not go by itself.
    let tools = folder.path().join("private/tools");
    fs::create_dir_all(tools.join("bin"))?;
    fs::set_permissions(folder.path().join("private"), fs::Permissions::from_mode(0o700))?;
    for name in ["tool", "ls"] {
        let program = tools.join("bin").join(name);
        fs::write(&program, format!("#!/bin/sh\necho the {name} of the host: $1\n"))?;
        fs::set_permissions(&program, fs::Permissions::from_mode(0o755))?;
    }
    let rig = Rig::with_tools(&tools);
    let tried = "touch /opt/sandlog/tools/new; rm -f /opt/sandlog/tools/bin/tool; echo x > /opt/sandlog/tools/bin/ls; chmod 700 /opt/sandlog/tools";
    let records = rig.run(&script(&format!("tool a; ls b; ({tried}) 2>/dev/null; tool again; echo $PATH")).spec).await;
    let said = out_text(&records);
    let lines: Vec<&str> = said.lines().collect();
    assert_eq!(lines[..3], ["the tool of the host: a", "the ls of the host: b", "the tool of the host: again"]);
    assert!(lines[3].starts_with("/opt/sandlog/tools/bin:/usr/"), "{said}");
    assert_eq!(fs::read_dir(&tools)?.count(), 1);
    Ok(())
}

#[tokio::test]
async fn without_tools_nothing_is_there() {
    let records = Rig::new().run(&script("ls /opt; echo $PATH").spec).await;
    assert!(!out_text(&records).contains("sandlog"), "{}", out_text(&records));
}
