//! The public keys of whoever signs tokens, from a file or an address: kept, and asked for anew when a token names one that is not there.

use std::io;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use jsonwebtoken::jwk::{AlgorithmParameters, EllipticCurve, Jwk, PublicKeyUse};
use jsonwebtoken::{Algorithm, DecodingKey};
use serde::Deserialize;
use serde_json::Value;
use tokio::time::Instant;

use super::fetch::Fetcher;

/// A key, and what it may have signed with: a token does not choose.
#[derive(Clone)]
pub(super) struct Signer {
    kid: Option<String>,
    pub(super) algorithms: Vec<Algorithm>,
    pub(super) key: DecodingKey,
}

/// The keys of a JSON Web Key Set that can verify tokens. What else is in it is of no concern here; secrets do not belong there, and are none of them.
pub(super) fn parse(text: &[u8]) -> Result<Vec<Signer>, String> {
    #[derive(Deserialize)]
    struct Set {
        keys: Vec<Value>,
    }
    let set: Set = serde_json::from_slice(text).map_err(|error| format!("it is no JSON Web Key Set: {error}"))?;
    let signers: Vec<Signer> = set.keys.into_iter().filter_map(|key| signer(&serde_json::from_value(key).ok()?)).collect();
    if signers.is_empty() { Err("it has no key that can verify a token (RSA, P-256, P-384 or Ed25519)".into()) } else { Ok(signers) }
}

fn signer(jwk: &Jwk) -> Option<Signer> {
    use Algorithm::{ES256, ES384, EdDSA, PS256, PS384, PS512, RS256, RS384, RS512};
    if jwk.common.public_key_use.as_ref().is_some_and(|used| *used != PublicKeyUse::Signature) {
        return None;
    }
    let mut algorithms = match &jwk.algorithm {
        AlgorithmParameters::RSA(_) => vec![RS256, RS384, RS512, PS256, PS384, PS512],
        AlgorithmParameters::EllipticCurve(key) if key.curve == EllipticCurve::P256 => vec![ES256],
        AlgorithmParameters::EllipticCurve(key) if key.curve == EllipticCurve::P384 => vec![ES384],
        AlgorithmParameters::OctetKeyPair(key) if key.curve == EllipticCurve::Ed25519 => vec![EdDSA],
        _ => return None,
    };
    if let Some(named) = jwk.common.key_algorithm {
        let named = Algorithm::try_from(named).ok()?;
        algorithms.retain(|algorithm| *algorithm == named);
    }
    let key = DecodingKey::from_jwk(jwk).ok().filter(|_| !algorithms.is_empty())?;
    Some(Signer { kid: jwk.common.key_id.clone(), algorithms, key })
}

/// How often the source is asked.
#[derive(Clone, Copy)]
pub(super) struct Pace {
    /// At most so often for a key that is not there: whoever makes up names of keys costs nobody more.
    pub(super) unknown: Duration,
    /// The same while there are none at all.
    pub(super) none: Duration,
    /// Keys that are older are asked for again: one that was withdrawn is not to be taken for ever.
    pub(super) old: Duration,
}

impl Default for Pace {
    fn default() -> Self {
        Self { unknown: Duration::from_secs(60), none: Duration::from_secs(2), old: Duration::from_secs(3600) }
    }
}

pub(super) enum Source {
    File(PathBuf),
    Address(Box<Fetcher>),
}

impl Source {
    async fn load(&self) -> Result<Vec<Signer>, String> {
        match self {
            Self::File(path) => parse(&tokio::fs::read(path).await.map_err(|error: io::Error| error.to_string())?),
            Self::Address(fetcher) => parse(&fetcher.get().await?),
        }
    }
}

/// There are no keys yet, and so no saying whether a token is good.
#[derive(Debug)]
pub(super) struct NoKeys;

pub(super) struct KeySet {
    source: Source,
    pace: Pace,
    state: Mutex<State>,
    /// Held by the one that asks the source.
    turn: tokio::sync::Mutex<()>,
}

#[derive(Default)]
struct State {
    signers: Option<Arc<[Signer]>>,
    loaded: Option<Instant>,
    tried: Option<Instant>,
}

impl KeySet {
    pub(super) fn new(source: Source, pace: Pace) -> Self {
        Self { source, pace, state: Mutex::default(), turn: tokio::sync::Mutex::default() }
    }

    /// The key that a token names. One that names none means the only one that could have signed it.
    pub(super) async fn find(&self, kid: Option<&str>, algorithm: Algorithm) -> Result<Option<Signer>, NoKeys> {
        let known = self.look(kid, algorithm).unwrap_or_default();
        let old = self.state().loaded.is_some_and(|at| at.elapsed() >= self.pace.old);
        if known.is_some() && !old {
            return Ok(known);
        }
        if known.is_none() {
            self.renew(self.turn.lock().await).await;
        } else if let Ok(turn) = self.turn.try_lock() {
            self.renew(turn).await;
        }
        self.look(kid, algorithm)
    }

    fn look(&self, kid: Option<&str>, algorithm: Algorithm) -> Result<Option<Signer>, NoKeys> {
        let signers = self.state().signers.clone().ok_or(NoKeys)?;
        let mut fitting = signers.iter().filter(|one| one.algorithms.contains(&algorithm) && kid.is_none_or(|kid| one.kid.as_deref() == Some(kid)));
        let first = fitting.next();
        Ok(if kid.is_none() && fitting.next().is_some() { None } else { first.cloned() })
    }

    /// What is there stays where the source does not answer.
    async fn renew(&self, _turn: tokio::sync::MutexGuard<'_, ()>) {
        {
            let mut state = self.state();
            let pause = if state.signers.is_some() { self.pace.unknown } else { self.pace.none };
            if state.tried.is_some_and(|at| at.elapsed() < pause) {
                return;
            }
            state.tried = Some(Instant::now());
        }
        let loaded = self.source.load().await;
        let (mut state, now) = (self.state(), Instant::now());
        // Counted from its end too: those who waited for it do not each wait for one of their own.
        state.tried = Some(now);
        match loaded {
            Ok(signers) => (state.signers, state.loaded) = (Some(signers.into()), Some(now)),
            Err(why) => tracing::warn!(why, "api.auth: the keys of the tokens' issuer did not come (SANDLOG_AUTH_JWKS)"),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // Whole after every step, so good after a panic too.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
