//! The programs under test, as cargo built them beside the test binary.

use std::path::{Path, PathBuf};

/// The built `sandlog`.
pub fn sandlog() -> PathBuf {
    // In target/debug, whatever target is called: a test is in the folder deps below it, a benchmark beside.
    let me = std::env::current_exe().expect("the path of this test");
    let built = |folder: &Path| ["sandlog", "sandlog-runner", "sandlog-egress"].iter().all(|name| folder.join(name).is_file());
    let folder = me.ancestors().skip(1).take(2).find(|folder| built(folder));
    folder.unwrap_or_else(|| panic!("sandlog is not built beside {}: run the tests by ./dev test", me.display())).join("sandlog")
}

/// The project's root.
pub fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).parent().expect("a workspace").to_owned()
}

/// The folder of tools for sandboxes, with the Claude Code CLI in it.
pub fn tools() -> PathBuf {
    let tools = std::env::var_os("SANDLOG_TEST_TOOLS").map(PathBuf::from).unwrap_or_else(|| root().join(".dev/harness"));
    assert!(tools.join("bin/claude").is_file(), "the Claude Code CLI is not at {}/bin/claude: run the tests by ./dev test", tools.display());
    tools
}

/// A folder with programs that `./dev test` installed.
pub fn packages(what: &str) -> PathBuf {
    let packages = std::env::var_os("SANDLOG_TEST_PACKAGES").map_or_else(|| root().join(".dev/packages"), PathBuf::from);
    let folder = packages.join(what).join("bin");
    assert!(folder.is_dir(), "{} is not there: run the tests by ./dev test", folder.display());
    folder
}
