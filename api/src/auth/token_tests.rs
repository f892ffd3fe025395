//! Tokens that are good, and every way in which one is not.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use axum::Router;
use axum::http::StatusCode;
use axum::routing::get;
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::rand::SystemRandom;
use ring::signature::{
    ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, Ed25519KeyPair, KeyPair, RSA_PKCS1_SHA256, RSA_PSS_SHA256, RsaKeyPair, RsaPublicKeyComponents,
};
use ring::{hmac, signature};
use serde_json::{Value, json};
use tokio::net::TcpListener;

use super::super::settings::{How, Settings};
use super::*;

const SECRET: &str = "a secret of 32 bytes, or of more.";

fn encoded(bytes: impl AsRef<[u8]>) -> String {
    URL_SAFE_NO_PAD.encode(bytes)
}

fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).expect("a clock").as_secs()
}

/// Good for an hour.
fn claims() -> Value {
    json!({ "sub": "ann", "exp": now() + 3600, "scope": "agents:run openid", "scopes": ["agents:read"], "scp": "sessions:read" })
}

fn token(header: &Value, claims: &Value, sign: impl Fn(&[u8]) -> Vec<u8>) -> String {
    let message = format!("{}.{}", encoded(header.to_string()), encoded(claims.to_string()));
    format!("{message}.{}", encoded(sign(message.as_bytes())))
}

fn by_secret(secret: &[u8], algorithm: hmac::Algorithm) -> impl Fn(&[u8]) -> Vec<u8> {
    let key = hmac::Key::new(algorithm, secret);
    move |message| hmac::sign(&key, message).as_ref().to_vec()
}

fn hs256(claims: &Value) -> String {
    token(&json!({ "alg": "HS256", "typ": "JWT" }), claims, by_secret(SECRET.as_bytes(), hmac::HMAC_SHA256))
}

fn verifier(variables: &[(&str, &str)], pace: Pace) -> Verifier {
    let all: Vec<_> = variables.iter().chain(&[("SANDLOG_AUTH", "jwt")]).map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    let get = |name: &str| all.iter().find(|(key, _)| key == name).map(|(_, value)| value.clone());
    let mut from = adapters::config::Variables::new(get);
    let settings = Settings::read(&mut from, None);
    from.done(()).expect("settings");
    let How::Tokens(tokens) = &settings.0 else { panic!("{settings:?}") };
    Verifier::paced(tokens, pace).expect("a verifier")
}

fn of_secret(more: &[(&str, &str)]) -> Verifier {
    verifier(&[more, &[("SANDLOG_AUTH_JWT_SECRET", SECRET)]].concat(), Pace::default())
}

async fn user(verifier: &Verifier, token: &str) -> Option<String> {
    verifier.caller(token).await.expect("keys").and_then(|caller| caller.user().map(ToOwned::to_owned))
}

/// The keys of an issuer, and how each signs.
struct Issuer {
    rsa: RsaKeyPair,
    ec: EcdsaKeyPair,
    ed: Ed25519KeyPair,
    random: SystemRandom,
}

impl Issuer {
    fn new() -> Self {
        let random = SystemRandom::new();
        let text: String = include_str!("fixtures/rsa.pkcs8.base64").split_whitespace().collect();
        let rsa = RsaKeyPair::from_pkcs8(&base64::engine::general_purpose::STANDARD.decode(text).expect("base64")).expect("a key");
        let made = EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &random).expect("a key");
        let ec = EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, made.as_ref(), &random).expect("a key");
        let ed = Ed25519KeyPair::from_pkcs8(Ed25519KeyPair::generate_pkcs8(&random).expect("a key").as_ref()).expect("a key");
        Self { rsa, ec, ed, random }
    }

    fn modulus(&self) -> Vec<u8> {
        RsaPublicKeyComponents::<Vec<u8>>::from(self.rsa.public()).n
    }

    fn set(&self) -> Value {
        let public = RsaPublicKeyComponents::<Vec<u8>>::from(self.rsa.public());
        let point = &self.ec.public_key().as_ref()[1..];
        json!({ "keys": [
            { "kty": "RSA", "kid": "rsa", "use": "sig", "alg": "RS256", "n": encoded(public.n), "e": encoded(public.e) },
            { "kty": "EC", "kid": "ec", "crv": "P-256", "x": encoded(&point[..32]), "y": encoded(&point[32..]) },
            { "kty": "OKP", "kid": "ed", "crv": "Ed25519", "x": encoded(self.ed.public_key()) },
            { "kty": "oct", "kid": "oct", "k": encoded(SECRET) },
            { "kty": "EC", "kid": "enc", "use": "enc", "crv": "P-256", "x": encoded(&point[..32]), "y": encoded(&point[32..]) },
            { "kty": "something new", "kid": "new" },
        ] })
    }

    fn sign(&self, kid: &str, algorithm: &str, claims: &Value) -> String {
        let rsa = |padding: &'static dyn signature::RsaEncoding, message: &[u8]| {
            let mut signed = vec![0; self.rsa.public().modulus_len()];
            self.rsa.sign(padding, &self.random, message, &mut signed).expect("a signature");
            signed
        };
        token(&json!({ "alg": algorithm, "kid": kid }), claims, |message| match algorithm {
            "RS256" => rsa(&RSA_PKCS1_SHA256, message),
            "PS256" => rsa(&RSA_PSS_SHA256, message),
            "ES256" => self.ec.sign(&self.random, message).expect("a signature").as_ref().to_vec(),
            "EdDSA" => self.ed.sign(message).as_ref().to_vec(),
            other => panic!("{other}"),
        })
    }
}

/// A file with a key set.
fn written(set: &Value) -> tempfile::NamedTempFile {
    let file = tempfile::NamedTempFile::new().expect("a file");
    std::fs::write(file.path(), set.to_string()).expect("a file");
    file
}

fn of_file(file: &tempfile::NamedTempFile, pace: Pace) -> Verifier {
    verifier(&[("SANDLOG_AUTH_JWKS", file.path().to_str().expect("a path"))], pace)
}

#[tokio::test]
async fn the_subject_is_the_user_and_every_way_to_write_scopes_counts() {
    let caller = of_secret(&[]).caller(&hs256(&claims())).await.expect("keys").expect("a caller");
    let scopes: BTreeSet<String> = ["agents:read", "agents:run", "openid", "sessions:read"].map(str::to_owned).into();
    assert_eq!(caller, Caller::User { id: "ann".into(), scopes });
    let more = [("HS384", hmac::HMAC_SHA384), ("HS512", hmac::HMAC_SHA512)];
    for (name, algorithm) in more {
        let token = token(&json!({ "alg": name }), &claims(), by_secret(SECRET.as_bytes(), algorithm));
        assert_eq!(user(&of_secret(&[]), &token).await.as_deref(), Some("ann"), "{name}");
    }
    let mut none = claims();
    none.as_object_mut().expect("an object").retain(|name, _| name == "sub" || name == "exp");
    let caller = of_secret(&[]).caller(&hs256(&none)).await.expect("keys").expect("a caller");
    assert_eq!(caller, Caller::User { id: "ann".into(), scopes: BTreeSet::new() });
}

#[tokio::test]
async fn a_claim_that_is_wrong_or_missing_makes_nobody_of_it() {
    let verifier = of_secret(&[("SANDLOG_AUTH_AUDIENCE", "sandlog"), ("SANDLOG_AUTH_ISSUER", "https://issuer")]);
    let mut good = claims();
    good.as_object_mut().expect("an object").extend([("aud".into(), json!(["x", "sandlog"])), ("iss".into(), json!("https://issuer"))]);
    assert_eq!(user(&verifier, &hs256(&good)).await.as_deref(), Some("ann"));
    let wrong: [(&str, Value); 19] = [
        ("exp", json!(now() - 31)),
        ("exp", json!("never")),
        ("exp", Value::Null),
        ("exp", json!(-1)),
        ("nbf", json!(now() + 90)),
        ("aud", json!("sandlogs")),
        ("aud", json!([])),
        ("aud", Value::Null),
        ("aud", json!({ "sandlog": true })),
        ("iss", json!("https://issuer/")),
        ("iss", Value::Null),
        ("sub", Value::Null),
        ("sub", json!("")),
        ("sub", json!(" ")),
        ("sub", json!(7)),
        ("sub", json!(["ann"])),
        ("sub", json!("a\0b")),
        ("sub", json!("a\nb")),
        ("sub", json!("x".repeat(256))),
    ];
    for (name, value) in wrong {
        let mut claims = good.clone();
        claims[name] = value.clone();
        if value.is_null() {
            claims.as_object_mut().expect("an object").remove(name);
        }
        assert_eq!(user(&verifier, &hs256(&claims)).await, None, "{name} is {value}");
    }
    // Clocks differ a little.
    let mut late = good.clone();
    (late["exp"], late["nbf"]) = (json!(now() - 5), json!(now() + 5));
    assert!(user(&verifier, &hs256(&late)).await.is_some());
}

#[tokio::test]
async fn what_is_not_signed_with_the_secret_is_nobodys() {
    let verifier = of_secret(&[]);
    let good = hs256(&claims());
    assert!(user(&verifier, &good).await.is_some());
    let parts: Vec<&str> = good.split('.').collect();
    let other = encoded(json!({ "sub": "bob", "exp": now() + 3600 }).to_string());
    let unsigned = |algorithm: &str| token(&json!({ "alg": algorithm }), &claims(), |_| Vec::new());
    let forged = [
        String::new(),
        "..".into(),
        "a.b.c".into(),
        good.replace('.', ""),
        format!("{good}."),
        format!("{}.{}.", parts[0], parts[1]),
        format!("{}.{}", parts[0], parts[1]),
        format!("{}.{other}.{}", parts[0], parts[2]),
        format!("{}.{}.{}", parts[0], parts[1], encoded([0; 32])),
        unsigned("none"),
        unsigned("None"),
        unsigned("nOnE"),
        unsigned("HS256"),
        unsigned("RS256"),
        token(&json!({ "alg": "HS256" }), &claims(), by_secret(b"another secret of the same length", hmac::HMAC_SHA256)),
        token(&json!({ "alg": "HS256" }), &claims(), by_secret(b"", hmac::HMAC_SHA256)),
        token(&json!({ "alg": "HS256", "crit": ["b64"], "b64": false }), &claims(), by_secret(SECRET.as_bytes(), hmac::HMAC_SHA256)),
        Issuer::new().sign("rsa", "RS256", &claims()),
        "x".repeat(15_000),
        format!("{}.{}", "x".repeat(5000), "y.".repeat(5000)),
    ];
    for forged in forged {
        assert_eq!(user(&verifier, &forged).await, None, "{forged:.80}");
    }
}

#[tokio::test]
async fn each_key_of_a_set_verifies_what_it_signed_and_nothing_else() {
    let issuer = Issuer::new();
    let file = written(&issuer.set());
    let verifier = of_file(&file, Pace::default());
    for (kid, algorithm) in [("rsa", "RS256"), ("ec", "ES256"), ("ed", "EdDSA")] {
        assert_eq!(user(&verifier, &issuer.sign(kid, algorithm, &claims())).await.as_deref(), Some("ann"), "{kid}");
    }
    // The set says that this key signs RS256; these are not its own, are for something else, or do not say which of several they mean.
    for (kid, algorithm) in [("rsa", "PS256"), ("ec", "RS256"), ("rsa", "ES256"), ("enc", "ES256"), ("unknown", "RS256"), ("ec", "EdDSA")] {
        assert_eq!(user(&verifier, &issuer.sign(kid, algorithm, &claims())).await, None, "{kid} {algorithm}");
    }
    assert_eq!(user(&verifier, &Issuer { ec: Issuer::new().ec, ..issuer }.sign("ec", "ES256", &claims())).await, None, "a key of somebody else");
}

#[tokio::test]
async fn a_public_key_is_never_a_secret() {
    let issuer = Issuer::new();
    let file = written(&issuer.set());
    let verifier = of_file(&file, Pace::default());
    let public = issuer.rsa.public().as_ref().to_vec();
    for known in
        [public, issuer.modulus(), encoded(issuer.modulus()).into_bytes(), issuer.ec.public_key().as_ref().to_vec(), SECRET.as_bytes().to_vec()]
    {
        for kid in ["rsa", "ec", "ed", "oct"] {
            let token = token(&json!({ "alg": "HS256", "kid": kid }), &claims(), by_secret(&known, hmac::HMAC_SHA256));
            assert_eq!(user(&verifier, &token).await, None, "{kid}");
        }
    }
    // Nor does a token bring its own key.
    let stranger = Issuer::new();
    let jwk = &stranger.set()["keys"][1];
    for header in [json!({ "alg": "ES256", "jwk": jwk }), json!({ "alg": "ES256", "kid": "ec", "jku": "http://127.0.0.1:1/", "jwk": jwk })] {
        let token = token(&header, &claims(), |message| stranger.ec.sign(&stranger.random, message).expect("a signature").as_ref().to_vec());
        assert_eq!(user(&verifier, &token).await, None, "{header}");
    }
}

#[tokio::test]
async fn a_token_that_names_no_key_means_the_only_one_that_fits() {
    let issuer = Issuer::new();
    let file = written(&issuer.set());
    let unnamed =
        token(&json!({ "alg": "ES256" }), &claims(), |message| issuer.ec.sign(&issuer.random, message).expect("a signature").as_ref().to_vec());
    assert!(user(&of_file(&file, Pace::default()), &unnamed).await.is_some());
    let mut two = issuer.set();
    let mut twin = Issuer::new().set()["keys"][1].clone();
    twin["kid"] = json!("ec2");
    two["keys"].as_array_mut().expect("keys").push(twin);
    let file = written(&two);
    assert_eq!(user(&of_file(&file, Pace::default()), &unnamed).await, None, "two could have");
}

/// An address that gives a key set, or fails, and counts how often it is asked.
async fn published(state: Arc<tokio::sync::Mutex<Option<Value>>>) -> (String, Arc<AtomicUsize>) {
    let asked = Arc::new(AtomicUsize::new(0));
    let counts = asked.clone();
    let answer = get(move || {
        let (state, counts) = (state.clone(), counts.clone());
        async move {
            counts.fetch_add(1, Ordering::SeqCst);
            state.lock().await.as_ref().map(Value::to_string).ok_or(StatusCode::INTERNAL_SERVER_ERROR)
        }
    });
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = format!("http://{}/keys", listener.local_addr().expect("an address"));
    tokio::spawn(async move { axum::serve(listener, Router::new().route("/keys", answer)).await });
    (address, asked)
}

#[tokio::test]
async fn an_unknown_key_is_asked_for_but_not_again_and_again() {
    let (first, second) = (Issuer::new(), Issuer::new());
    let state = Arc::new(tokio::sync::Mutex::new(Some(first.set())));
    let (address, asked) = published(state.clone()).await;
    let patient = verifier(&[("SANDLOG_AUTH_JWKS", &address)], Pace::default());
    let good = first.sign("ec", "ES256", &claims());
    let (one, two, three) = tokio::join!(user(&patient, &good), user(&patient, &good), user(&patient, &good));
    assert!(one.is_some() && two.is_some() && three.is_some());
    assert_eq!(asked.load(Ordering::SeqCst), 1, "all three waited for one answer");
    for kid in ["a", "b", "c"] {
        assert_eq!(user(&patient, &first.sign(kid, "ES256", &claims())).await, None);
    }
    assert_eq!(asked.load(Ordering::SeqCst), 1, "a minute has not passed");

    // Without that minute: the issuer has changed its keys.
    let quick = verifier(&[("SANDLOG_AUTH_JWKS", &address)], Pace { unknown: Duration::ZERO, ..Pace::default() });
    assert!(user(&quick, &good).await.is_some());
    let mut changed = second.set();
    changed["keys"][1]["kid"] = json!("ec-2");
    *state.lock().await = Some(changed);
    assert!(user(&quick, &second.sign("ec-2", "ES256", &claims())).await.is_some());
    assert_eq!(user(&quick, &good).await, None, "the old key was withdrawn");
}

#[tokio::test]
async fn an_issuer_that_does_not_answer_costs_nobody_whose_key_is_known() {
    let issuer = Issuer::new();
    let state = Arc::new(tokio::sync::Mutex::new(None));
    let (address, asked) = published(state.clone()).await;
    let eager = verifier(&[("SANDLOG_AUTH_JWKS", &address)], Pace { unknown: Duration::ZERO, none: Duration::ZERO, old: Duration::ZERO });
    let good = issuer.sign("ed", "EdDSA", &claims());
    assert!(matches!(eager.caller(&good).await, Err(Refusal::NoKeys)), "nobody knows yet");
    *state.lock().await = Some(issuer.set());
    assert!(user(&eager, &good).await.is_some());
    for broken in [None, Some(json!({ "keys": [] })), Some(json!("what?"))] {
        *state.lock().await = broken;
        let before = asked.load(Ordering::SeqCst);
        assert!(user(&eager, &good).await.is_some(), "the keys that there were");
        assert!(asked.load(Ordering::SeqCst) > before, "it was asked");
    }
}
