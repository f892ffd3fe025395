//! Who may import whom, on what cargo itself says of the workspace (docs/ARCHITECTURE.md, "Where things are").

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use cargo_metadata::{DependencyKind, MetadataCommand};
use e2e::binaries::root;

/// Each crate of ours and what it may import of ours. `tests` holds every crate to this: a new crate needs a line here.
const MAY_IMPORT: [(&str, &[&str]); 9] = [
    ("runs", &[]),
    ("runner", &[]),
    ("egress", &["runner"]),
    ("adapters", &["runs"]),
    ("api", &["runs", "adapters"]),
    ("worker", &["runs", "adapters", "runner"]),
    ("local", &["runs", "adapters", "runner", "api", "worker"]),
    ("e2e", &["runs", "adapters", "runner", "api", "worker", "local"]),
    ("bench", &["runs", "adapters", "e2e"]),
];

/// Clients of the world, which only `adapters` names.
const OF_ADAPTERS: [&str; 5] = ["tokio_postgres", "deadpool_postgres", " redis::", "aws_sdk_sqs", "aws_config"];

/// What stands behind a port: named where a program is wired, and nowhere else.
const CONCRETE: [&str; 5] = ["adapters::postgres", "adapters::memory", "adapters::redis", "adapters::sqs", "signals::Hub"];

#[test]
fn crates_import_only_what_they_may() {
    let metadata = MetadataCommand::new().manifest_path(root().join("Cargo.toml")).no_deps().exec().expect("cargo metadata");
    let allowed: BTreeMap<&str, &[&str]> = MAY_IMPORT.into();
    let ours: BTreeSet<&str> = metadata.packages.iter().map(|package| package.name.as_str()).collect();
    assert_eq!(ours, allowed.keys().copied().collect(), "the crates of the workspace and those with a rule");
    for package in &metadata.packages {
        // What only tests of a crate import is their business: the adapters' suite runs over api and worker.
        let imports =
            package.dependencies.iter().filter(|dependency| dependency.kind == DependencyKind::Normal).map(|dependency| dependency.name.as_str());
        let wrong: Vec<&str> = imports.filter(|name| ours.contains(name) && !allowed[package.name.as_str()].contains(name)).collect();
        assert!(wrong.is_empty(), "{} may not import {wrong:?}", package.name);
    }
}

#[test]
fn runs_is_pure() {
    let metadata = MetadataCommand::new().manifest_path(root().join("Cargo.toml")).no_deps().exec().expect("cargo metadata");
    let runs = metadata.packages.iter().find(|package| package.name.as_str() == "runs").expect("the crate runs");
    let impure = ["tokio", "futures-util", "rustix", "rand", "tracing", "reqwest"];
    let imports = runs.dependencies.iter().filter(|dependency| dependency.kind == DependencyKind::Normal);
    let wrong: Vec<&str> = imports.map(|dependency| dependency.name.as_str()).filter(|name| impure.contains(name)).collect();
    assert!(wrong.is_empty(), "{wrong:?}");
    let words = ["std::fs", "std::net", "std::process", "std::thread", "std::env", "SystemTime::now", "Instant::now", "now_v7", "new_v4"];
    let found = uses("crates/runs/src", &words, |_| false);
    assert!(found.is_empty(), "{found:#?}");
}

#[test]
fn only_adapters_names_the_clients_of_the_world() {
    let found = sources().iter().flat_map(|folder| uses(folder, &OF_ADAPTERS, |file| file.starts_with("crates/adapters"))).collect::<Vec<_>>();
    assert!(found.is_empty(), "{found:#?}");
}

#[test]
fn concrete_adapters_are_named_where_programs_are_wired() {
    // A benchmark measures the one that it names.
    let may = ["crates/adapters", "crates/local/src/wiring.rs", "tests/bench/src"];
    let wired = |file: &Path| may.iter().any(|place| file.starts_with(place)) || file.ends_with("src/main.rs");
    let found = sources().iter().flat_map(|folder| uses(folder, &CONCRETE, wired)).collect::<Vec<_>>();
    assert!(found.is_empty(), "{found:#?}");
}

#[test]
fn programs_begin_small() {
    for file in files(&root(), &|file| file.ends_with("src/main.rs")) {
        let lines = fs::read_to_string(&file).expect("a source file").lines().count();
        assert!(lines < 60, "{}: {lines} lines", file.display());
    }
}

/// The source folders of what is shipped.
fn sources() -> [&'static str; 8] {
    ["api/src", "worker/src", "crates/runs/src", "crates/adapters/src", "crates/runner/src", "crates/egress/src", "crates/local/src", "tests"]
}

/// Lines below `folder` that use one of `words`, but for comments and for files that may.
fn uses(folder: &str, words: &[&str], may: impl Fn(&Path) -> bool) -> Vec<String> {
    let mut found = Vec::new();
    let this = Path::new("tests/tests/imports.rs");
    for file in files(&root().join(folder), &|_| true) {
        let name = file.strip_prefix(root()).expect("a file of the project").to_owned();
        if may(&name) || name == this {
            continue;
        }
        let text = fs::read_to_string(&file).expect("a source file");
        let code = text.lines().enumerate().filter(|(_, line)| !line.trim_start().starts_with("//"));
        found.extend(
            code.filter(|(_, line)| words.iter().any(|word| line.contains(word)))
                .map(|(number, line)| format!("{}:{}: {line}", name.display(), number + 1)),
        );
    }
    found
}

/// All Rust files below a folder that is there, but for what cargo built.
fn files(folder: &Path, wanted: &dyn Fn(&Path) -> bool) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(folder) else { return Vec::new() };
    let mut found = Vec::new();
    for path in entries.map(|entry| entry.expect("an entry").path()) {
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        if path.is_dir() && name != "target" && !name.starts_with('.') {
            found.extend(files(&path, wanted));
        } else if name.ends_with(".rs") && wanted(&path) {
            found.push(path);
        }
    }
    found
}
