//! Where a database is, and how its server is known: a URL with libpq's words.
//!
//! `sslmode` is `disable`, `prefer` (the default), `require`, `verify-ca` or `verify-full`; `sslrootcert` is a file of certificates, or `system`. As with
//! libpq, `require` alone encrypts and does not ask who answers, and with `sslrootcert` it is `verify-ca`.

use std::path::Path;

use percent_encoding::percent_decode_str;
use tokio_postgres::Config;
use tokio_postgres::config::{Host, SslMode};
use tokio_postgres_rustls::MakeRustlsConnect;

use super::tls::{self, Known};
use crate::LogError;

#[derive(Clone)]
pub(crate) struct Address {
    pub(crate) config: Config,
    pub(crate) tls: MakeRustlsConnect,
}

impl Address {
    pub(crate) fn parse(url: &str) -> Result<Address, LogError> {
        let unfit = |why: String| LogError::Unfit(format!("the database URL is not one: {why}"));
        if let Some((scheme, _)) = url.split_once("://").filter(|(scheme, _)| !matches!(*scheme, "postgres" | "postgresql")) {
            return Err(unfit(format!("it begins with {scheme}://, and has to begin with postgres://")));
        }
        let (plain, mode, roots) = taken(url);
        let mut config: Config = plain.parse().map_err(|error: tokio_postgres::Error| unfit(crate::program::chain(&error)))?;
        let roots = roots.map(|text| percent_decode_str(&text).decode_utf8_lossy().into_owned());
        let (required, known) = asked(mode.as_deref().unwrap_or("prefer"), roots.is_some()).ok_or_else(|| {
            unfit(format!("sslmode {} is none of disable, prefer, require, verify-ca, verify-full", mode.as_deref().unwrap_or_default()))
        })?;
        config.ssl_mode(required);
        let file = roots.as_deref().filter(|name| *name != "system").map(Path::new);
        let tls = MakeRustlsConnect::new(tls::client(known, file).map_err(unfit)?);
        Ok(Address { config, tls })
    }
}

/// A database URL for people: who connects where, and nothing else that may be in it.
pub fn place(url: &str) -> String {
    let Ok(Address { config, .. }) = Address::parse(url) else { return "DATABASE_URL".into() };
    // An `@` that should have been encoded splits a password.
    let hosts = if url.matches('@').count() > 1 { &[] } else { config.get_hosts() };
    let port = |n: usize| config.get_ports().get(n).or_else(|| config.get_ports().first()).map(|port| format!(":{port}")).unwrap_or_default();
    let told = hosts.iter().enumerate().map(|(n, host)| match host {
        Host::Tcp(name) => format!("{name}{}", port(n)),
        Host::Unix(folder) => folder.display().to_string(),
    });
    let told = told.collect::<Vec<_>>().join(",");
    format!("{} as {}", if told.is_empty() { "DATABASE_URL" } else { &told }, config.get_user().unwrap_or("nobody in particular"))
}

/// Who a database URL connects as.
pub fn user(url: &str) -> Option<String> {
    Address::parse(url).ok()?.config.get_user().map(str::to_owned)
}

/// What a mode asks of the connection and of the server's certificate.
fn asked(mode: &str, has_roots: bool) -> Option<(SslMode, Known)> {
    match mode {
        "disable" => Some((SslMode::Disable, Known::Anyone)),
        "allow" | "prefer" => Some((SslMode::Prefer, Known::Anyone)),
        "require" => Some((SslMode::Require, if has_roots { Known::ByRoot } else { Known::Anyone })),
        "verify-ca" => Some((SslMode::Require, Known::ByRoot)),
        "verify-full" => Some((SslMode::Require, Known::ByName)),
        _ => None,
    }
}

/// The URL without `sslmode` and `sslrootcert`, of which the client library knows less, and those two.
fn taken(url: &str) -> (String, Option<String>, Option<String>) {
    let (head, pairs, between) = match url.split_once('?') {
        Some((head, query)) if url.contains("://") => (format!("{head}?"), query.split('&').collect::<Vec<_>>(), "&"),
        None if url.contains("://") => (url.to_owned(), Vec::new(), "&"),
        _ => (String::new(), url.split_whitespace().collect(), " "),
    };
    let (mut mode, mut roots, mut rest) = (None, None, Vec::new());
    for pair in pairs {
        // The library decodes names too.
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        match percent_decode_str(name).decode_utf8_lossy().as_ref() {
            "sslmode" => mode = Some(value.to_owned()),
            "sslrootcert" => roots = Some(value.to_owned()),
            _ => rest.push(pair),
        }
    }
    (format!("{head}{}", rest.join(between)), mode, roots)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_client_library_does_not_know_is_taken_out_of_every_form() {
        let some = |text: &str| Some(text.to_owned());
        assert_eq!(taken("postgres://u@h/d"), ("postgres://u@h/d".into(), None, None));
        let url = "postgres://u@h/d?sslmode=verify-full&connect_timeout=3&sslrootcert=%2Fca.pem";
        assert_eq!(taken(url), ("postgres://u@h/d?connect_timeout=3".into(), some("verify-full"), some("%2Fca.pem")));
        assert_eq!(taken("host=h sslmode=require user=u"), ("host=h user=u".into(), some("require"), None));
    }

    #[test]
    fn a_url_is_told_without_its_password_wherever_that_stands() {
        assert_eq!(place("postgres://ann:secret@db:5432/log"), "db:5432 as ann");
        let secrets =
            ["postgres://127.0.0.1:1/x?user=u&password=SECRET", "postgres://u:AB@SECRET/SECRET@db/x", "host=db user=u password=SECRET", "SECRET"];
        for url in secrets {
            assert!(!place(url).contains("SECRET"), "{}", place(url));
        }
        assert_eq!(user("postgres://ann:secret@db/log").as_deref(), Some("ann"));
    }

    #[test]
    fn an_unknown_mode_and_a_file_that_is_not_there_are_refused_with_their_names() {
        let fault = |url: &str| Address::parse(url).err().map(|error| error.to_string()).unwrap_or_default();
        assert!(fault("postgres://h/d?sslmode=full").contains("sslmode full"));
        assert!(fault("postgres://h/d?sslmode=verify-full&sslrootcert=/no/such/file").contains("/no/such/file"));
        assert!(fault("postgres://h/d?sslm%6fde=full").contains("sslmode full"));
        assert!(fault("postgresql+psycopg://u:secret@h/d").ends_with("it begins with postgresql+psycopg://, and has to begin with postgres://"));
        assert!(fault("postgres://h/d?sslmod=require").contains("sslmod"));
        for mode in ["disable", "prefer", "require", "verify-ca", "verify-full"] {
            assert_eq!(fault(&format!("postgres://h/d?sslmode={mode}&sslrootcert=system")), "");
        }
    }

    #[test]
    fn encryption_without_roots_asks_nobody_and_with_them_it_asks_the_root() {
        assert_eq!(asked("require", false), Some((SslMode::Require, Known::Anyone)));
        assert_eq!(asked("require", true), Some((SslMode::Require, Known::ByRoot)));
        assert_eq!(asked("verify-full", true), Some((SslMode::Require, Known::ByName)));
    }
}
