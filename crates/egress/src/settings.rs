//! What the environment says, read once at the start. The only place of Sandlog that reads keys; none is ever shown.

use std::fmt::Write;
use std::sync::Arc;

use hyper::Uri;
use hyper::header::{AUTHORIZATION, HeaderName, HeaderValue};
use hyper::http::uri::{Authority, Scheme};
use sha2::{Digest, Sha256};

use crate::route::{ANTHROPIC, Allowed, OPENAI};
use crate::secret::Secrets;

/// The variables that egress reads; nothing else of the environment is handed on to it.
pub const VARIABLES: [&str; 6] = [
    "ANTHROPIC_API_KEY",
    "OPENAI_API_KEY",
    "SANDLOG_UPSTREAM_ANTHROPIC",
    "SANDLOG_UPSTREAM_OPENAI",
    "SANDLOG_EGRESS_LINGER_SECONDS",
    "SSL_CERT_FILE",
];

/// What egress works with.
pub struct Settings {
    pub upstreams: Vec<Upstream>,
    /// A file of certificates to trust besides those that are built in.
    pub certificates: Option<String>,
    /// How long it stays after the last that needed it.
    pub linger: std::time::Duration,
    /// Of all upstreams: a gateway can have more than one of them.
    pub(crate) secrets: Arc<Secrets>,
    fingerprint: String,
}

/// A place outside that sandboxes may ask.
pub struct Upstream {
    pub name: &'static str,
    pub scheme: Scheme,
    pub authority: Authority,
    /// Before every path; without a slash at its end.
    pub base: String,
    /// The header with the key.
    pub key: Option<(HeaderName, HeaderValue)>,
    /// What to set where a key is needed and there is none.
    pub needs: Option<&'static str>,
    pub allowed: &'static [Allowed],
}

/// All that is wrong with the environment.
#[derive(Debug, thiserror::Error)]
#[error("{}", .0.join("\n"))]
pub struct Faults(pub Vec<String>);

struct Known {
    name: &'static str,
    base: &'static str,
    variable: &'static str,
    key: &'static str,
    header: HeaderName,
    bearer: bool,
    allowed: &'static [Allowed],
}

fn known() -> [Known; 2] {
    [
        Known {
            name: "anthropic",
            base: "https://api.anthropic.com",
            variable: "SANDLOG_UPSTREAM_ANTHROPIC",
            key: "ANTHROPIC_API_KEY",
            header: HeaderName::from_static("x-api-key"),
            bearer: false,
            allowed: &ANTHROPIC,
        },
        Known {
            name: "openai",
            base: "https://api.openai.com",
            variable: "SANDLOG_UPSTREAM_OPENAI",
            key: "OPENAI_API_KEY",
            header: AUTHORIZATION,
            bearer: true,
            allowed: &OPENAI,
        },
    ]
}

impl Settings {
    /// Reads them from `get`, which is the environment outside of tests. An empty variable is an unset one.
    pub fn read(get: impl Fn(&str) -> Option<String>) -> Result<Self, Faults> {
        let get = |name: &str| get(name).filter(|value| !value.is_empty());
        let (mut upstreams, mut faults) = (Vec::new(), Vec::new());
        for known in known() {
            match upstream(&known, get(known.variable), get(known.key)) {
                Ok(upstream) => upstreams.push(upstream),
                Err(fault) => faults.push(fault),
            }
        }
        let linger = get("SANDLOG_EGRESS_LINGER_SECONDS").map_or(Ok(10), |text| text.parse());
        if linger.is_err() {
            faults.push("SANDLOG_EGRESS_LINGER_SECONDS: not a whole number of seconds".into());
        }
        if !faults.is_empty() {
            return Err(Faults(faults));
        }
        let linger = std::time::Duration::from_secs(linger.unwrap_or(10));
        let keys: Vec<_> = known().iter().filter_map(|known| get(known.key)).collect();
        let secrets = Arc::new(Secrets::new(keys.iter().map(|key| key.trim())));
        Ok(Self { upstreams, certificates: get("SSL_CERT_FILE"), linger, secrets, fingerprint: fingerprint(get) })
    }

    /// Tells these settings, and this release, from others without telling them.
    pub fn fingerprint(&self) -> &str {
        &self.fingerprint
    }
}

fn upstream(known: &Known, base: Option<String>, key: Option<String>) -> Result<Upstream, String> {
    // A gateway of one's own may want none.
    let needs = (base.is_none() && key.is_none()).then_some(known.key);
    let (scheme, authority, path) = place(base.as_deref().unwrap_or(known.base)).map_err(|why| format!("{}: {why}", known.variable))?;
    let key = key.map(|key| {
        let text = if known.bearer { format!("Bearer {}", key.trim()) } else { key.trim().to_owned() };
        let mut value = HeaderValue::try_from(text).map_err(|_| format!("{}: it holds characters that no key has", known.key))?;
        value.set_sensitive(true);
        Ok::<_, String>((known.header.clone(), value))
    });
    Ok(Upstream { name: known.name, scheme, authority, base: path, key: key.transpose()?, needs, allowed: known.allowed })
}

fn place(base: &str) -> Result<(Scheme, Authority, String), String> {
    let uri: Uri = base.parse().map_err(|_| "not a URL".to_owned())?;
    let parts = uri.into_parts();
    let (Some(scheme), Some(authority)) = (parts.scheme, parts.authority) else { return Err("not a URL like https://gateway.example".into()) };
    if authority.as_str().contains('@') {
        return Err("a URL with a name or a password in it".into());
    }
    let loopback = matches!(authority.host(), "localhost" | "[::1]") || authority.host().parse().is_ok_and(|ip: std::net::Ipv4Addr| ip.is_loopback());
    if scheme != Scheme::HTTPS && !(scheme == Scheme::HTTP && loopback) {
        return Err("https:// is needed, or http:// to a loopback address".into());
    }
    match parts.path_and_query {
        Some(path) if path.query().is_some() => Err("a URL with a query".into()),
        Some(path) => Ok((scheme, authority, path.path().trim_end_matches('/').to_owned())),
        None => Ok((scheme, authority, String::new())),
    }
}

fn fingerprint(get: impl Fn(&str) -> Option<String>) -> String {
    let mut hash = Sha256::new();
    hash.update(env!("CARGO_PKG_VERSION"));
    for name in VARIABLES {
        let value = get(name);
        hash.update(format!("\n{name} {} ", value.as_ref().map_or(0, |value| value.len() + 1)));
        hash.update(value.unwrap_or_default());
    }
    hash.finalize().iter().fold(String::new(), |mut text, byte| {
        // Into a string it cannot fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(variables: &[(&str, &str)]) -> Result<Settings, String> {
        let get = |name: &str| variables.iter().find(|(key, _)| *key == name).map(|(_, value)| (*value).to_owned());
        Settings::read(get).map_err(|faults| faults.to_string())
    }

    #[test]
    fn nothing_set_is_the_two_upstreams_without_keys() {
        let settings = read(&[("ANTHROPIC_API_KEY", "")]).unwrap();
        let all: Vec<_> = settings.upstreams.iter().map(|one| (one.name, one.authority.as_str(), one.needs)).collect();
        assert_eq!(all, [("anthropic", "api.anthropic.com", Some("ANTHROPIC_API_KEY")), ("openai", "api.openai.com", Some("OPENAI_API_KEY"))]);
    }

    #[test]
    fn a_key_goes_into_the_header_of_its_upstream_and_is_never_shown() {
        let settings = read(&[("ANTHROPIC_API_KEY", "a-key\n"), ("OPENAI_API_KEY", "b-key")]).unwrap();
        let header = |at: usize| settings.upstreams[at].key.clone().unwrap();
        assert_eq!((header(0).0.as_str(), header(0).1.as_bytes()), ("x-api-key", b"a-key".as_slice()));
        assert_eq!((header(1).0.as_str(), header(1).1.as_bytes()), ("authorization", b"Bearer b-key".as_slice()));
        assert!(!format!("{:?}", header(0)).contains("a-key"));
        let fault = read(&[("ANTHROPIC_API_KEY", "a\nkey")]).err().unwrap();
        assert!(fault.starts_with("ANTHROPIC_API_KEY: ") && !fault.contains("key\n") && !fault.contains("a\n"), "{fault}");
    }

    #[test]
    fn a_place_is_https_or_on_loopback() {
        let place = |base: &str| read(&[("SANDLOG_UPSTREAM_OPENAI", base)]).map(|settings| settings.upstreams[1].base.clone());
        assert_eq!(place("https://gateway.example/team/"), Ok("/team".into()));
        for good in ["http://127.0.0.1:9", "http://127.9.9.9/x", "http://localhost:1", "http://[::1]:1"] {
            assert!(place(good).is_ok(), "{good}");
        }
        for bad in [
            "http://gateway.example",
            "http://127.0.0.1.evil.example",
            "https://u:p@h",
            "h",
            "/x",
            "ftp://127.0.0.1",
            "https://h/?q",
            "http://0.0.0.0:1",
        ] {
            assert!(place(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn other_settings_have_another_fingerprint() {
        let of = |variables: &[(&str, &str)]| read(variables).unwrap().fingerprint().to_owned();
        let all = [
            of(&[]),
            of(&[("ANTHROPIC_API_KEY", "a")]),
            of(&[("OPENAI_API_KEY", "a")]),
            of(&[("ANTHROPIC_API_KEY", "b")]),
            of(&[("SANDLOG_UPSTREAM_OPENAI", "https://a")]),
        ];
        let different: std::collections::BTreeSet<_> = all.iter().collect();
        assert_eq!(different.len(), all.len());
        assert_eq!(of(&[("SANDLOG_OTHER", "a")]), all[0]);
    }
}
