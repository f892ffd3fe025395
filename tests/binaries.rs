//! The programs under test, as cargo built them beside the test binary.

use std::path::PathBuf;

/// The built `sandlog`.
pub fn sandlog() -> PathBuf {
    // target/debug/deps/TEST-HASH, whatever target is called.
    let me = std::env::current_exe().expect("the path of this test");
    let folder = me.ancestors().nth(2).expect("target/debug");
    let program = folder.join("sandlog");
    for built in [&program, &folder.join("sandlog-runner")] {
        assert!(built.is_file(), "{} is not built: run the tests by ./dev test", built.display());
    }
    program
}

/// The project's root.
pub fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).parent().expect("a workspace").to_owned()
}
