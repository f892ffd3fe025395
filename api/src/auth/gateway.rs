//! The identity that stands before the function: what the authorizer of an API gateway, or IAM at a function's URL, has established.
//!
//! It is in the event that Lambda invokes the function with, which whoever asks over HTTP cannot write; no header is looked at. A request that did not
//! come through Lambda has no such context, and so nobody behind it.

use std::collections::{BTreeSet, HashMap};

use axum::http::Extensions;
use lambda_http::request::RequestContext;
use serde_json::Value;

use super::{Caller, scopes};

pub(super) struct Gateway {
    /// IAM says who may invoke the function, and nothing of scopes.
    iam_scopes: BTreeSet<String>,
}

impl Gateway {
    pub(super) fn new(iam_scopes: BTreeSet<String>) -> Self {
        Self { iam_scopes }
    }

    pub(super) fn caller(&self, extensions: &Extensions) -> Option<Caller> {
        match extensions.get::<RequestContext>()? {
            RequestContext::ApiGatewayV2(context) => {
                let authorizer = context.authorizer.as_ref()?;
                if let Some(token) = &authorizer.jwt {
                    let claim = |name: &str| token.claims.get(name).map(String::as_str);
                    return told(claim);
                }
                if !authorizer.fields.is_empty() {
                    return by_function(&authorizer.fields);
                }
                self.by_iam(authorizer.iam.as_ref()?.user_arn.as_deref()?)
            }
            RequestContext::ApiGatewayV1(context) => match context.authorizer.fields.get("claims").and_then(Value::as_object) {
                Some(claims) => told(|name| claims.get(name).and_then(Value::as_str)),
                None if !context.authorizer.fields.is_empty() => by_function(&context.authorizer.fields),
                None => self.by_iam(context.identity.user_arn.as_deref()?),
            },
            _ => None,
        }
    }

    /// The whole ARN: with an assumed role, the session's name in it is what tells people apart.
    fn by_iam(&self, arn: &str) -> Option<Caller> {
        Caller::known(arn, self.iam_scopes.clone())
    }
}

/// A Lambda authorizer: what it calls the principal, or a `sub` in its context.
fn by_function(context: &HashMap<String, Value>) -> Option<Caller> {
    told(|name| {
        let name = if name == "sub" && !context.contains_key("sub") { "principalId" } else { name };
        context.get(name).and_then(Value::as_str)
    })
}

/// Claims as a gateway hands them on: lists are texts like `[a b]`. Who says nothing of scopes gives none.
fn told<'a>(claim: impl Fn(&str) -> Option<&'a str>) -> Option<Caller> {
    let held = ["scope", "scopes", "scp"].into_iter().filter_map(&claim);
    let held = held.flat_map(|text| scopes::written(text.trim_start_matches('[').trim_end_matches(']'))).collect();
    Caller::known(claim("sub")?, held)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn event(version: &str, context: Value) -> Value {
        let mut context = context;
        let more = if version == "1.0" {
            json!({ "httpMethod": "GET", "resourcePath": "/{proxy+}", "path": "/agents", "requestTimeEpoch": 1, "requestId": "r", "stage": "$default" })
        } else {
            json!({ "http": { "method": "GET", "path": "/agents", "protocol": "HTTP/1.1", "sourceIp": "127.0.0.1", "userAgent": "x" },
                    "requestId": "r", "timeEpoch": 1, "stage": "$default", "accountId": "1", "apiId": "a" })
        };
        context.as_object_mut().expect("an object").extend(more.as_object().cloned().unwrap_or_default());
        // A header that claims the same counts for nothing.
        let headers = json!({ "authorization": "Bearer x", "x-amzn-request-context": "{\"authorizer\":{\"principalId\":\"eve\"}}" });
        if version == "1.0" {
            json!({ "path": "/agents", "resource": "/{proxy+}", "httpMethod": "GET", "headers": headers, "requestContext": context })
        } else {
            json!({ "version": version, "routeKey": "$default", "rawPath": "/agents", "headers": headers, "requestContext": context })
        }
    }

    fn caller(version: &str, context: Value) -> Option<(String, Vec<String>)> {
        let request = lambda_http::request::from_str(&event(version, context).to_string()).expect("an event");
        match Gateway::new(["agents:run".to_owned()].into()).caller(request.extensions()) {
            Some(Caller::User { id, scopes }) => Some((id, scopes.into_iter().collect())),
            _ => None,
        }
    }

    fn is(id: &str, scopes: &[&str]) -> Option<(String, Vec<String>)> {
        Some((id.into(), scopes.iter().map(|scope| (*scope).to_owned()).collect()))
    }

    #[test]
    fn each_kind_of_authorizer_says_who_asks() {
        let token = json!({ "authorizer": { "jwt": { "claims": { "sub": "ann", "scope": "agents:read openid" }, "scopes": ["agents:run"] } } });
        assert_eq!(caller("2.0", token), is("ann", &["agents:read", "openid"]));
        let list = json!({ "authorizer": { "jwt": { "claims": { "sub": "ann", "scp": "[agents:read sessions:read]" } } } });
        assert_eq!(caller("2.0", list), is("ann", &["agents:read", "sessions:read"]));
        let function = json!({ "authorizer": { "lambda": { "sub": "bob", "scope": "agents:run" } } });
        assert_eq!(caller("2.0", function), is("bob", &["agents:run"]));
        let arn = "arn:aws:sts::1:assumed-role/reader/ann";
        let iam = json!({ "authorizer": { "iam": { "userArn": arn, "accountId": "1", "userId": "AIDA" } } });
        assert_eq!(caller("2.0", iam), is(arn, &["agents:run"]));
        let pool = json!({ "authorizer": { "claims": { "sub": "cleo", "scope": "sessions:read" } }, "identity": {} });
        assert_eq!(caller("1.0", pool), is("cleo", &["sessions:read"]));
        let function = json!({ "authorizer": { "principalId": "dan", "integrationLatency": 5 }, "identity": {} });
        assert_eq!(caller("1.0", function), is("dan", &[]));
        assert_eq!(caller("1.0", json!({ "identity": { "userArn": arn } })), is(arn, &["agents:run"]));
    }

    #[test]
    fn without_an_authorizer_nobody_is_there() {
        assert_eq!(caller("2.0", json!({})), None);
        assert_eq!(caller("2.0", json!({ "authorizer": {} })), None);
        assert_eq!(caller("2.0", json!({ "authorizer": { "lambda": { "scope": "agents:run" } } })), None);
        assert_eq!(caller("2.0", json!({ "authorizer": { "jwt": { "claims": { "sub": "" } } } })), None);
        assert_eq!(caller("1.0", json!({ "identity": {} })), None);
        assert_eq!(caller("1.0", json!({ "authorizer": { "claims": { "scope": "agents:run" } }, "identity": { "userArn": "arn" } })), None);
        assert_eq!(Gateway::new(BTreeSet::new()).caller(&Extensions::new()), None, "what came over a socket");
    }
}
