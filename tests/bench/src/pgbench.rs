//! The limit: Postgres' own load generator on the same server.

use std::process::Command;

/// How long each measurement takes.
pub(crate) const SECONDS: u64 = 4;

/// Transactions a second of a script.
pub(crate) fn run(url: &str, script: &str, clients: usize) -> f64 {
    let file = std::env::temp_dir().join(format!("sandlog-bench-{}-{clients}.sql", std::process::id()));
    std::fs::write(&file, script).expect("a script");
    let output = Command::new(std::env::var_os("SANDLOG_PGBENCH").unwrap_or_else(|| "pgbench".into()))
        .args(["-n", "-M", "extended", "-D", "seq=0", "-j", "2", "-c", &clients.to_string(), "-T", &SECONDS.to_string(), "-f"])
        .arg(&file)
        .arg(url)
        .output()
        .expect("pgbench");
    // What is left is in the temporary folder.
    let _ = std::fs::remove_file(file);
    let text = String::from_utf8_lossy(&output.stdout);
    let tps = text.lines().find_map(|line| line.strip_prefix("tps = ")?.split(' ').next()?.parse().ok());
    tps.unwrap_or_else(|| panic!("pgbench: {}", String::from_utf8_lossy(&output.stderr)))
}
