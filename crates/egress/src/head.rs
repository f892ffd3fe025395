//! Which headers go out and which come back. Pure.

use hyper::HeaderMap;
use hyper::header::{
    ACCEPT_ENCODING, CONNECTION, CONTENT_ENCODING, CONTENT_LENGTH, HeaderName, HeaderValue, PROXY_AUTHENTICATE, PROXY_AUTHORIZATION, SET_COOKIE, TE,
    TRAILER, TRANSFER_ENCODING, UPGRADE,
};

/// Of one connection, not of the message. The length is known of the body itself.
const HOP: [HeaderName; 8] = [CONNECTION, CONTENT_LENGTH, PROXY_AUTHENTICATE, PROXY_AUTHORIZATION, TE, TRAILER, TRANSFER_ENCODING, UPGRADE];
/// What the models' APIs are told of a request. Nothing else goes out: neither who the sandbox says it is, or for whom (`x_api_key`,
/// `anthropic-workspace-id`), nor what has a gateway do another request than the one that was looked at (`x-http-method-override`, `x-original-url`).
const KNOWN: [&str; 13] = [
    "accept",
    "content-encoding",
    "content-type",
    "user-agent",
    "anthropic-beta",
    "anthropic-dangerous-direct-browser-access",
    "anthropic-version",
    "idempotency-key",
    "openai-beta",
    "originator",
    "x-app",
    "x-client-app",
    "x-client-request-id",
];
/// Of the official clients, which have more of them with each release.
const KNOWN_STARTS: [&str; 2] = ["x-claude-code-", "x-stainless-"];

/// Those of the sandbox's headers that the upstream needs, and the key.
pub(crate) fn outgoing(from: &HeaderMap, key: Option<&(HeaderName, HeaderValue)>) -> HeaderMap {
    let known = |name: &str| KNOWN.contains(&name) || KNOWN_STARTS.iter().any(|start| name.starts_with(start));
    let from = without_hop(from);
    let mut to: HeaderMap = from.iter().filter(|(name, _)| known(name.as_str())).map(|(name, value)| (name.clone(), value.clone())).collect();
    // It is read on the way back: for its usage, and for keys.
    to.insert(ACCEPT_ENCODING, HeaderValue::from_static("identity"));
    if let Some((name, value)) = key {
        to.insert(name, value.clone());
    }
    to
}

/// The upstream's headers without what is between it and us.
pub(crate) fn incoming(from: &HeaderMap) -> HeaderMap {
    let mut to = without_hop(from);
    to.remove(SET_COOKIE);
    to.remove("keep-alive");
    to
}

/// Whether the body is not what it says as it stands: compressed, or in a transfer coding besides chunks.
pub(crate) fn is_coded(from: &HeaderMap) -> bool {
    let codings = [(CONTENT_ENCODING, "identity"), (TRANSFER_ENCODING, "chunked")];
    codings.iter().any(|(name, plain)| {
        let coded = |value: &HeaderValue| {
            let plain = |coding: &str| coding.trim().is_empty() || coding.trim().eq_ignore_ascii_case(plain);
            !value.to_str().is_ok_and(|value| value.split(',').all(plain))
        };
        from.get_all(name).iter().any(coded)
    })
}

fn without_hop(from: &HeaderMap) -> HeaderMap {
    let mut to = from.clone();
    let named = from.get_all(CONNECTION).iter().filter_map(|value| value.to_str().ok()).flat_map(|value| value.split(','));
    for name in named.filter_map(|name| HeaderName::try_from(name.trim()).ok()) {
        to.remove(name);
    }
    for name in HOP {
        to.remove(name);
    }
    to
}

#[cfg(test)]
mod tests {
    use super::*;

    fn map(pairs: &[(&str, &str)]) -> HeaderMap {
        pairs.iter().map(|(name, value)| (HeaderName::try_from(*name).unwrap(), HeaderValue::try_from(*value).unwrap())).collect()
    }

    fn names(map: &HeaderMap) -> Vec<&str> {
        let mut names: Vec<_> = map.keys().map(HeaderName::as_str).collect();
        names.sort_unstable();
        names
    }

    #[test]
    fn a_sandboxs_own_credentials_and_its_connection_stay_behind() {
        let from = map(&[
            ("Host", "127.0.0.1:8787"),
            ("Authorization", "Bearer placeholder"),
            ("X-Api-Key", "placeholder"),
            ("Cookie", "a=b"),
            ("Proxy-Authorization", "x"),
            ("Connection", "close, X-Hop"),
            ("X-Hop", "1"),
            ("Transfer-Encoding", "chunked"),
            ("Content-Length", "5"),
            ("Upgrade", "websocket"),
            ("Expect", "100-continue"),
            ("X-Forwarded-For", "1.2.3.4"),
            ("OpenAI-Organization", "other"),
            ("Accept-Encoding", "gzip"),
            ("x_api_key", "mine"),
            ("X-Goog-Api-Key", "mine"),
            ("Anthropic-Workspace-Id", "other"),
            ("X-Http-Method-Override", "DELETE"),
            ("X-Original-Url", "/v1/organizations"),
            ("X-Rewrite-Url", "/v1/organizations"),
            ("Range", "bytes=0-9"),
            ("X-Stainless", "no start of theirs"),
            ("Content-Type", "application/json"),
            ("Anthropic-Version", "2023-06-01"),
        ]);
        let key = (HeaderName::from_static("x-api-key"), HeaderValue::from_static("real"));
        let to = outgoing(&from, Some(&key));
        assert_eq!(names(&to), ["accept-encoding", "anthropic-version", "content-type", "x-api-key"]);
        assert_eq!((&to["x-api-key"], &to["accept-encoding"]), (&key.1, &HeaderValue::from_static("identity")));
        assert_eq!(names(&outgoing(&from, None)), ["accept-encoding", "anthropic-version", "content-type"]);
    }

    #[test]
    fn what_the_coding_agent_sends_goes_out() {
        let sent = [
            ("accept", "application/json"),
            ("anthropic-beta", "claude-code-20250219,effort-2025-11-24"),
            ("anthropic-dangerous-direct-browser-access", "true"),
            ("anthropic-version", "2023-06-01"),
            ("content-type", "application/json"),
            ("user-agent", "claude-cli/2.1.332 (external, sdk-cli)"),
            ("x-app", "cli"),
            ("x-claude-code-session-id", "d4d3cdb5-0d3e-419f-a6aa-3bc292190fb4"),
            ("x-stainless-retry-count", "0"),
            ("x-stainless-runtime-version", "v26.12.1"),
        ];
        let mut to = outgoing(&map(&sent), None);
        to.remove(ACCEPT_ENCODING);
        assert_eq!(to, map(&sent));
    }

    #[test]
    fn what_is_compressed_in_any_way_is_coded() {
        for (name, value, coded) in [
            ("content-encoding", "gzip", true),
            ("content-encoding", "identity, br", true),
            ("transfer-encoding", "gzip, chunked", true),
            ("content-encoding", "Identity", false),
            ("content-encoding", "", false),
            ("transfer-encoding", "chunked", false),
            ("content-type", "gzip", false),
        ] {
            assert_eq!(is_coded(&map(&[(name, value)])), coded, "{name}: {value}");
        }
    }

    #[test]
    fn an_answers_headers_come_back_without_cookies() {
        let from = map(&[
            ("Set-Cookie", "a"),
            ("Connection", "keep-alive"),
            ("Keep-Alive", "5"),
            ("Retry-After", "1"),
            ("Content-Type", "text/event-stream"),
        ]);
        assert_eq!(names(&incoming(&from)), ["content-type", "retry-after"]);
    }
}
