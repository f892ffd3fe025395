//! Where the server's programs are.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::PostgresError;

/// A folder with `initdb` and `postgres`, and what version they are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Binaries {
    pub(super) folder: PathBuf,
    /// `15` for 15.18; what a cluster's PG_VERSION holds.
    pub(super) major: String,
}

/// Patterns of the folders of distributions; `*` stands for one path component's rest.
const PLACES: [&str; 6] = [
    "/usr/lib/postgresql/*/bin",
    "/usr/pgsql-*/bin",
    "/opt/homebrew/opt/postgresql@*/bin",
    "/usr/local/opt/postgresql@*/bin",
    "/usr/local/pgsql/bin",
    "/usr/lib/postgresql/bin",
];

/// The newest server here, or the one of the version that `wanted` (a cluster's) names.
pub(super) fn find(named: Option<&Path>, wanted: Option<&str>, cluster: &Path) -> Result<Binaries, PostgresError> {
    let folders: Vec<PathBuf> = match named {
        Some(folder) => vec![folder.to_owned()],
        None => PLACES.iter().flat_map(|pattern| expand(pattern)).chain(on_path()).collect(),
    };
    let found: Vec<Binaries> = folders.iter().filter_map(|folder| probe(folder)).collect();
    if found.is_empty() {
        let looked = match named {
            Some(folder) => folder.display().to_string(),
            None => format!("{} and PATH", PLACES.join(", ")),
        };
        return Err(PostgresError::NoServer { looked });
    }
    choose(&found, wanted).cloned().ok_or_else(|| PostgresError::OtherVersion {
        folder: cluster.to_owned(),
        made: wanted.unwrap_or_default().to_owned(),
        found: found.iter().map(|one| one.major.as_str()).collect::<Vec<_>>().join(", "),
    })
}

fn choose<'a>(found: &'a [Binaries], wanted: Option<&str>) -> Option<&'a Binaries> {
    match wanted {
        Some(version) => found.iter().find(|one| one.major == version),
        // The first of equals: a distribution's own folder before a copy on PATH.
        None => found.iter().rev().max_by_key(|one| one.major.parse::<u32>().unwrap_or(0)),
    }
}

/// All folders that a pattern with at most one `*` names.
fn expand(pattern: &str) -> Vec<PathBuf> {
    let Some((before, after)) = pattern.split_once('*') else { return vec![PathBuf::from(pattern)] };
    let (parent, prefix) = before.rsplit_once('/').unwrap_or(("", before));
    let Ok(entries) = fs::read_dir(parent) else { return Vec::new() };
    entries
        .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
        .filter(|name| name.starts_with(prefix))
        .map(|name| PathBuf::from(format!("{parent}/{name}{after}")))
        .collect()
}

/// Folders on PATH that hold `initdb`, with links followed: Debian and Homebrew put links there.
fn on_path() -> Vec<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).filter_map(|folder| fs::canonicalize(folder.join("initdb")).ok()?.parent().map(Path::to_owned)).collect()
}

fn probe(folder: &Path) -> Option<Binaries> {
    if !folder.join("initdb").is_file() {
        return None;
    }
    let said = Command::new(folder.join("postgres")).arg("--version").stdin(Stdio::null()).stderr(Stdio::null()).output().ok()?;
    let major = major(&String::from_utf8_lossy(&said.stdout))?;
    Some(Binaries { folder: folder.to_owned(), major })
}

/// `postgres (PostgreSQL) 15.18 (Debian ...)` is of version `15`; so is `16beta1` of `16`.
fn major(said: &str) -> Option<String> {
    let version = said.split_whitespace().nth(2)?;
    let digits: String = version.chars().take_while(char::is_ascii_digit).collect();
    (!digits.is_empty()).then_some(digits)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(major: &str, folder: &str) -> Binaries {
        Binaries { folder: folder.into(), major: major.into() }
    }

    #[test]
    fn the_version_is_read_as_servers_print_it() {
        assert_eq!(major("postgres (PostgreSQL) 15.18 (Debian 15.18-0+deb12u1)\n").as_deref(), Some("15"));
        assert_eq!(major("postgres (PostgreSQL) 19beta2").as_deref(), Some("19"));
        assert_eq!(major("command not found"), None);
    }

    #[test]
    fn the_newest_is_taken_by_number_and_the_first_of_equals() {
        let found = [of("9", "/a"), of("15", "/b"), of("15", "/c")];
        assert_eq!(choose(&found, None), Some(&found[1]));
    }

    #[test]
    fn a_cluster_keeps_its_version() {
        let found = [of("15", "/b"), of("17", "/c")];
        assert_eq!(choose(&found, Some("15")), Some(&found[0]));
        assert_eq!(choose(&found, Some("16")), None);
    }

    #[test]
    fn a_pattern_names_what_stands_there() {
        let folder = tempfile::tempdir().expect("a folder");
        for name in ["pgsql-15", "pgsql-16", "other"] {
            fs::create_dir(folder.path().join(name)).expect("a folder");
        }
        let mut found = expand(&format!("{}/pgsql-*/bin", folder.path().display()));
        found.sort();
        assert_eq!(found, ["pgsql-15/bin", "pgsql-16/bin"].map(|name| folder.path().join(name)));
    }
}
