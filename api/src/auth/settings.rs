//! What the environment says of authentication. Every fault is told with the others.

use std::collections::BTreeSet;
use std::fmt;
use std::net::IpAddr;
use std::path::PathBuf;

use adapters::config::Variables;
use axum::http::Uri;

use super::keys::Key;
use super::keyset;
use super::scopes::{self, Scope};

/// Shorter secrets can be found by trying (RFC 7518, 3.2).
const SHORTEST_SECRET: usize = 32;
const IAM_SCOPES: &str = "agents:read agents:run sessions:read sessions:delete";

/// Each way, and the variables that are for it.
const WAYS: [(&str, &[&str]); 4] = [
    ("none", &[]),
    ("key", &["SANDLOG_AUTH_KEYS"]),
    ("jwt", &["SANDLOG_AUTH_JWT_SECRET", "SANDLOG_AUTH_JWKS", "SANDLOG_AUTH_AUDIENCE", "SANDLOG_AUTH_ISSUER"]),
    ("gateway", &["SANDLOG_AUTH_IAM_SCOPES"]),
];

/// How requests are authenticated.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings(pub(super) How);

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum How {
    None,
    Keys(Vec<Key>),
    Tokens(Tokens),
    Gateway { iam_scopes: BTreeSet<String> },
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Tokens {
    pub(super) signed: Signed,
    pub(super) audience: Option<String>,
    pub(super) issuer: Option<String>,
}

/// What tokens are verified with. Which algorithms may be, follows from it alone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Signed {
    Secret(Secret),
    File(PathBuf),
    Address(Uri),
}

/// Not to be seen in a log.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct Secret(Vec<u8>);

impl Secret {
    pub(super) fn bytes(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret")
    }
}

impl Settings {
    pub fn none() -> Self {
        Self(How::None)
    }

    /// `SANDLOG_AUTH` and what belongs to it. `listens` is the address of a listener; a function has none.
    pub fn read<F: Fn(&str) -> Option<String>>(from: &mut Variables<F>, listens: Option<IpAddr>) -> Self {
        let named = from.text("SANDLOG_AUTH");
        let way = named.as_deref().unwrap_or("none");
        for (other, variables) in WAYS.iter().filter(|(name, _)| *name != way) {
            for variable in variables.iter().filter(|variable| from.text(variable).is_some()).collect::<Vec<_>>() {
                from.fault(format!("{variable}: it is for SANDLOG_AUTH={other}, and SANDLOG_AUTH is `{way}`"));
            }
        }
        Self(match way {
            "none" => {
                open(from, listens, named.is_some());
                How::None
            }
            "key" => How::Keys(keys(from)),
            "jwt" => tokens(from).map_or(How::None, How::Tokens),
            "gateway" => {
                if listens.is_some() {
                    from.fault(
                        "SANDLOG_AUTH: `gateway` is what stands before a Lambda function; a listener has nothing before it that could be trusted",
                    );
                }
                How::Gateway { iam_scopes: iam_scopes(from) }
            }
            other => {
                from.fault(format!("SANDLOG_AUTH: `{other}` is not a way to authenticate; there are none, key, jwt and gateway"));
                How::None
            }
        })
    }
}

/// Without authentication only what nobody else can reach is served: a loopback address; or a function, where somebody has said that they mean it, or
/// that an emulator runs. AWS sets these variables itself, and lets nobody unset them.
fn open<F: Fn(&str) -> Option<String>>(from: &mut Variables<F>, listens: Option<IpAddr>, meant: bool) {
    let in_lambda = || ["LAMBDA_TASK_ROOT", "AWS_LAMBDA_INITIALIZATION_TYPE"].into_iter().any(|name| from.text(name).is_some());
    match listens {
        Some(host) if !host.is_loopback() => from.fault(format!(
            "SANDLOG_HOST: {host} is not a loopback address, and without authentication (SANDLOG_AUTH is `none`) anybody who reaches it could run agents; \
             set SANDLOG_AUTH to key or jwt"
        )),
        None if !meant && in_lambda() => from.fault(
            "SANDLOG_AUTH: missing; in Lambda it is gateway, jwt or key, or none where what stands before the function lets nobody through that may not run agents",
        ),
        _ => {}
    }
}

fn keys<F: Fn(&str) -> Option<String>>(from: &mut Variables<F>) -> Vec<Key> {
    let Some(file) = from.text("SANDLOG_AUTH_KEYS") else {
        from.fault("SANDLOG_AUTH_KEYS: missing; it names the file of keys (`sandlog key` makes them)");
        return Vec::new();
    };
    let text = match std::fs::read_to_string(&file) {
        Ok(text) => text,
        Err(cause) => {
            from.fault(format!("SANDLOG_AUTH_KEYS: {file} cannot be read: {cause}"));
            return Vec::new();
        }
    };
    match Key::parse(&text) {
        Ok(keys) => {
            if keys.is_empty() {
                from.fault(format!("SANDLOG_AUTH_KEYS: {file} has no keys (`sandlog key` makes them)"));
            }
            keys
        }
        Err(faults) => {
            faults.iter().for_each(|fault| from.fault(format!("SANDLOG_AUTH_KEYS: {file}: {fault}")));
            Vec::new()
        }
    }
}

fn tokens<F: Fn(&str) -> Option<String>>(from: &mut Variables<F>) -> Option<Tokens> {
    let (audience, issuer) = (from.text("SANDLOG_AUTH_AUDIENCE"), from.text("SANDLOG_AUTH_ISSUER"));
    let signed = match (from.text("SANDLOG_AUTH_JWT_SECRET"), from.text("SANDLOG_AUTH_JWKS")) {
        (Some(secret), None) if secret.len() >= SHORTEST_SECRET => Some(Signed::Secret(Secret(secret.into_bytes()))),
        (Some(_), None) => {
            from.fault(format!("SANDLOG_AUTH_JWT_SECRET: it has fewer than {SHORTEST_SECRET} bytes, so it can be guessed"));
            None
        }
        (None, Some(set)) => key_set(&set).map_err(|why| from.fault(format!("SANDLOG_AUTH_JWKS: {why}"))).ok(),
        (Some(_), Some(_)) => {
            from.fault("SANDLOG_AUTH_JWT_SECRET: given beside SANDLOG_AUTH_JWKS; tokens are signed in one of the two ways");
            None
        }
        (None, None) => {
            from.fault(
                "SANDLOG_AUTH_JWKS: missing; it is the file or the https:// address of the issuer's public keys (or set SANDLOG_AUTH_JWT_SECRET)",
            );
            None
        }
    };
    signed.map(|signed| Tokens { signed, audience, issuer })
}

fn key_set(text: &str) -> Result<Signed, String> {
    if text.starts_with("https://") || text.starts_with("http://") {
        let uri: Uri = text.parse().map_err(|error| format!("`{text}` is not an address: {error}"))?;
        let host = uri.host().unwrap_or_default().trim_matches(['[', ']']);
        let loopback = host == "localhost" || host.parse().is_ok_and(|address: IpAddr| address.is_loopback());
        if uri.scheme_str() == Some("http") && !loopback {
            return Err(format!("`{text}` is not https://, so that anybody on the way could put in keys of their own"));
        }
        return Ok(Signed::Address(uri));
    }
    let path = PathBuf::from(text.strip_prefix("file://").unwrap_or(text));
    let read = std::fs::read(&path).map_err(|cause| format!("{} cannot be read: {cause}", path.display()))?;
    keyset::parse(&read).map_err(|why| format!("{}: {why}", path.display()))?;
    Ok(Signed::File(path))
}

fn iam_scopes<F: Fn(&str) -> Option<String>>(from: &mut Variables<F>) -> BTreeSet<String> {
    let text = from.text("SANDLOG_AUTH_IAM_SCOPES").unwrap_or_else(|| IAM_SCOPES.into());
    let held: BTreeSet<String> = scopes::written(&text).collect();
    for wrong in held.iter().filter(|scope| !Scope::is_known(scope)) {
        from.fault(format!("SANDLOG_AUTH_IAM_SCOPES: `{wrong}` is not a scope"));
    }
    held
}

#[cfg(test)]
#[path = "settings_tests.rs"]
mod tests;
