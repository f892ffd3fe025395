//! Which requests go out, and where to. Pure.

use hyper::http::uri::PathAndQuery;
use hyper::{Method, Uri};

use crate::settings::Upstream;

/// A request that may go out.
pub struct Allowed {
    method: Method,
    path: &'static str,
    /// Whether one more plain name may follow.
    name_follows: bool,
}

const fn allow(method: Method, path: &'static str) -> Allowed {
    Allowed { method, path, name_follows: false }
}

/// What the model's API has for an agent.
pub(crate) static ANTHROPIC: [Allowed; 4] = [
    allow(Method::POST, "/v1/messages"),
    allow(Method::POST, "/v1/messages/count_tokens"),
    allow(Method::GET, "/v1/models"),
    Allowed { method: Method::GET, path: "/v1/models/", name_follows: true },
];
pub(crate) static OPENAI: [Allowed; 3] = [
    allow(Method::POST, "/v1/responses"),
    allow(Method::GET, "/v1/models"),
    Allowed { method: Method::GET, path: "/v1/models/", name_follows: true },
];

/// Where a request goes.
pub(crate) struct Route<'a> {
    pub(crate) upstream: &'a Upstream,
    pub(crate) to: PathAndQuery,
}

/// Why a request does not go out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// No upstream of that name, or not one for this sandbox.
    Upstream,
    /// The upstream has this path, but it is not for sandboxes.
    Path,
    /// The upstream's key is not set.
    Key(&'static str),
    /// Not a plain request to this server.
    Request,
}

/// The upstream and the path there, as a request's path names them.
pub(crate) fn split(path: &str) -> (&str, &str) {
    let path = path.strip_prefix('/').unwrap_or(path);
    match path.find('/') {
        Some(at) => (&path[..at], &path[at..]),
        None => (path, ""),
    }
}

/// Paths are compared as they are: what is written in another way than the list has it is another path.
pub(crate) fn route<'a>(upstreams: &'a [Upstream], may: &[String], method: &Method, uri: &Uri) -> Result<Route<'a>, Refusal> {
    if uri.authority().is_some() || uri.scheme().is_some() || method == Method::CONNECT {
        return Err(Refusal::Request);
    }
    let (name, path) = split(uri.path());
    let upstream = upstreams.iter().find(|one| one.name == name && may.iter().any(|may| may == name)).ok_or(Refusal::Upstream)?;
    if !upstream.allowed.iter().any(|allowed| allowed.method == *method && fits(allowed, path)) {
        return Err(Refusal::Path);
    }
    if let Some(variable) = upstream.needs {
        return Err(Refusal::Key(variable));
    }
    let query = uri.query().map(|query| format!("?{query}")).unwrap_or_default();
    let to = PathAndQuery::try_from(format!("{}{path}{query}", upstream.base)).map_err(|_| Refusal::Request)?;
    Ok(Route { upstream, to })
}

fn fits(allowed: &Allowed, path: &str) -> bool {
    let plain = |name: &str| {
        !name.is_empty() && !name.starts_with('.') && name.len() <= 200 && name.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_.:@".contains(&b))
    };
    if allowed.name_follows { path.strip_prefix(allowed.path).is_some_and(plain) } else { path == allowed.path }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::Settings;
    use proptest::prelude::*;

    fn asked(method: &str, uri: &str) -> Result<(String, String), Refusal> {
        let variables = [("ANTHROPIC_API_KEY", "a"), ("SANDLOG_UPSTREAM_ANTHROPIC", "https://gateway.example/team")];
        let settings = Settings::read(|name| variables.iter().find(|(key, _)| *key == name).map(|(_, value)| (*value).to_owned())).unwrap();
        let may = ["anthropic".to_owned(), "openai".to_owned(), "other".to_owned()];
        let route = route(&settings.upstreams, &may, &method.parse().unwrap(), &uri.parse().unwrap())?;
        Ok((route.upstream.name.to_owned(), route.to.to_string()))
    }

    #[test]
    fn what_is_on_the_list_goes_to_its_upstream() {
        for (method, uri, to) in [
            ("POST", "/anthropic/v1/messages", "/team/v1/messages"),
            ("POST", "/anthropic/v1/messages?beta=true", "/team/v1/messages?beta=true"),
            ("POST", "/anthropic/v1/messages/count_tokens", "/team/v1/messages/count_tokens"),
            ("GET", "/anthropic/v1/models?limit=1", "/team/v1/models?limit=1"),
            ("GET", "/anthropic/v1/models/claude-sonnet-4-6", "/team/v1/models/claude-sonnet-4-6"),
        ] {
            assert_eq!(asked(method, uri), Ok(("anthropic".into(), to.into())));
        }
    }

    #[test]
    fn all_else_is_refused() {
        for (method, uri, why) in [
            ("GET", "/anthropic/v1/messages", Refusal::Path),
            ("DELETE", "/anthropic/v1/models/x", Refusal::Path),
            ("POST", "/anthropic/v1/messages/", Refusal::Path),
            ("POST", "/anthropic//v1/messages", Refusal::Path),
            ("POST", "/anthropic/v1/messages/batches", Refusal::Path),
            ("POST", "/anthropic/v1/organizations", Refusal::Path),
            ("GET", "/anthropic/v1/models/..", Refusal::Path),
            ("GET", "/anthropic/v1/models/a/b", Refusal::Path),
            ("GET", "/anthropic/v1/models/%2e%2e", Refusal::Path),
            ("POST", "/anthropic/v1/%6dessages", Refusal::Path),
            ("POST", "/anthropic/../v1/messages", Refusal::Path),
            ("POST", "/anthropic", Refusal::Path),
            ("POST", "/", Refusal::Upstream),
            ("POST", "/Anthropic/v1/messages", Refusal::Upstream),
            ("POST", "/other/v1/messages", Refusal::Upstream),
            ("POST", "/openai/v1/responses", Refusal::Key("OPENAI_API_KEY")),
            ("POST", "http://evil.example/anthropic/v1/messages", Refusal::Request),
            ("CONNECT", "evil.example:443", Refusal::Request),
        ] {
            assert_eq!(asked(method, uri), Err(why), "{method} {uri}");
        }
    }

    #[test]
    fn an_upstream_that_is_not_the_sandboxs_is_none() {
        let settings = Settings::read(|_| None).unwrap();
        let refused = route(&settings.upstreams, &[], &Method::POST, &"/anthropic/v1/messages".parse().unwrap());
        assert_eq!(refused.err(), Some(Refusal::Upstream));
    }

    proptest! {
        #[test]
        fn nothing_but_the_list_ever_goes_out(method in "GET|POST|PUT|HEAD", path in "/(anthropic|openai|x)?(/|//|/v1|/messages|/models|/\\.\\.|%2f|;|[a-z.]{0,4}){0,6}") {
            if let Ok(uri) = path.parse::<Uri>() && uri.authority().is_none() && let Ok((_, to)) = asked(&method, &uri.to_string()) {
                let list = ["/team/v1/messages", "/team/v1/messages/count_tokens", "/team/v1/models"];
                let model = to.strip_prefix("/team/v1/models/").is_some_and(|name| !name.contains(['/', '%', ';']) && !name.starts_with('.'));
                prop_assert!(list.contains(&to.as_str()) || model, "{}", to);
            }
        }
    }
}
