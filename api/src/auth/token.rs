//! JSON Web Tokens: whose they are and what they allow, once it is certain who signed them.

use std::collections::BTreeSet;
use std::io;

use jsonwebtoken::{Algorithm, DecodingKey, Validation, decode, decode_header};
use serde::Deserialize;
use serde_json::Value;

use super::fetch::Fetcher;
use super::keyset::{KeySet, Pace, Source};
use super::settings::{Signed, Tokens};
use super::{Caller, crypto, scopes};
use crate::respond::Refusal;

/// Between the issuer's clock and ours, in seconds.
const LEEWAY: u64 = 30;

pub(super) struct Verifier {
    keys: Keys,
    validation: Validation,
}

enum Keys {
    Secret(DecodingKey),
    Set(Box<KeySet>),
}

#[derive(Deserialize)]
struct Claims {
    sub: String,
    scope: Option<Value>,
    scopes: Option<Value>,
    scp: Option<Value>,
}

impl Claims {
    /// Issuers differ in the claim's name, and in whether it is a text or a list.
    fn scopes(&self) -> BTreeSet<String> {
        let texts = |value: &Value| match value {
            Value::String(text) => scopes::written(text).collect(),
            Value::Array(items) => items.iter().filter_map(Value::as_str).map(ToOwned::to_owned).collect(),
            _ => Vec::new(),
        };
        [&self.scope, &self.scopes, &self.scp].into_iter().flatten().flat_map(texts).collect()
    }
}

impl Verifier {
    pub(super) fn new(tokens: &Tokens) -> io::Result<Self> {
        Self::paced(tokens, Pace::default())
    }

    pub(super) fn paced(tokens: &Tokens, pace: Pace) -> io::Result<Self> {
        crypto::install();
        let keys = match &tokens.signed {
            Signed::Secret(secret) => Keys::Secret(DecodingKey::from_secret(secret.bytes()).map_err(io::Error::other)?),
            Signed::File(path) => Keys::Set(Box::new(KeySet::new(Source::File(path.clone()), pace))),
            Signed::Address(uri) => Keys::Set(Box::new(KeySet::new(Source::Address(Box::new(Fetcher::new(uri.clone())?)), pace))),
        };
        if tokens.audience.is_none() && matches!(keys, Keys::Set(_)) {
            tracing::warn!("api.auth: tokens that the issuer made for others are taken too, as no audience is named (SANDLOG_AUTH_AUDIENCE)");
        }
        let mut validation = Validation::new(Algorithm::HS256);
        (validation.leeway, validation.validate_nbf, validation.validate_aud) = (LEEWAY, true, tokens.audience.is_some());
        let mut required = vec!["exp", "sub"];
        if let Some(audience) = &tokens.audience {
            validation.set_audience(&[audience]);
            required.push("aud");
        }
        if let Some(issuer) = &tokens.issuer {
            validation.set_issuer(&[issuer]);
            required.push("iss");
        }
        validation.set_required_spec_claims(&required);
        Ok(Self { keys, validation })
    }

    pub(super) async fn caller(&self, token: &str) -> Result<Option<Caller>, Refusal> {
        // Not to be believed yet: it only says which key is to decide.
        let Ok(header) = decode_header(token) else { return Ok(None) };
        let (key, algorithms) = match &self.keys {
            Keys::Secret(secret) => (secret.clone(), vec![Algorithm::HS256, Algorithm::HS384, Algorithm::HS512]),
            Keys::Set(set) => match set.find(header.kid.as_deref(), header.alg).await {
                Ok(Some(signer)) => (signer.key, signer.algorithms),
                Ok(None) => return Ok(None),
                Err(super::keyset::NoKeys) => return Err(Refusal::NoKeys),
            },
        };
        let validation = Validation { algorithms, ..self.validation.clone() };
        let decoded = decode::<Claims>(token, &key, &validation).ok();
        Ok(decoded.and_then(|token| Caller::known(&token.claims.sub, token.claims.scopes())))
    }
}

#[cfg(test)]
#[path = "token_tests.rs"]
mod tests;
