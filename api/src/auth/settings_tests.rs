use adapters::config::Faults;

use super::*;

const LOOPBACK: Option<IpAddr> = Some(IpAddr::V4(std::net::Ipv4Addr::LOCALHOST));
const OPEN: Option<IpAddr> = Some(IpAddr::V4(std::net::Ipv4Addr::UNSPECIFIED));

fn read(variables: &[(&str, &str)], listens: Option<IpAddr>) -> Result<Settings, Faults> {
    let mut from = Variables::new(|name: &str| variables.iter().find(|(key, _)| *key == name).map(|(_, value)| (*value).to_owned()));
    let settings = Settings::read(&mut from, listens);
    from.done(settings)
}

fn faults(variables: &[(&str, &str)], listens: Option<IpAddr>) -> Vec<String> {
    let text = read(variables, listens).expect_err("faults").to_string();
    text.lines().skip(1).map(|line| line.trim().split(": ").next().unwrap_or_default().to_owned()).collect()
}

fn file(text: &str) -> tempfile::NamedTempFile {
    let file = tempfile::NamedTempFile::new().expect("a file");
    std::fs::write(file.path(), text).expect("a file");
    file
}

#[test]
fn without_authentication_only_loopback_is_served() {
    assert_eq!(read(&[], LOOPBACK).expect("settings"), Settings::none());
    assert_eq!(read(&[("SANDLOG_AUTH", "none")], LOOPBACK).expect("settings"), Settings::none());
    for variables in [&[][..], &[("SANDLOG_AUTH", "none")]] {
        assert_eq!(faults(variables, OPEN), ["SANDLOG_HOST"]);
    }
    let secret = "x".repeat(32);
    assert!(read(&[("SANDLOG_AUTH", "jwt"), ("SANDLOG_AUTH_JWT_SECRET", &secret)], OPEN).is_ok());
}

#[test]
fn in_lambda_none_is_what_somebody_has_said() {
    let aws = [("LAMBDA_TASK_ROOT", "/var/task")];
    assert_eq!(faults(&aws, None), ["SANDLOG_AUTH"]);
    assert_eq!(faults(&[("AWS_LAMBDA_INITIALIZATION_TYPE", "on-demand")], None), ["SANDLOG_AUTH"]);
    assert_eq!(read(&[aws[0], ("SANDLOG_AUTH", "none")], None).expect("settings"), Settings::none());
    assert_eq!(read(&[], None).expect("an emulator on a machine of one's own"), Settings::none());
}

#[test]
fn a_gateway_stands_before_functions_only() {
    let settings = read(&[("SANDLOG_AUTH", "gateway")], None).expect("settings");
    let usual = ["agents:read", "agents:run", "sessions:read", "sessions:delete"].map(str::to_owned).into();
    assert_eq!(settings, Settings(How::Gateway { iam_scopes: usual }));
    assert_eq!(faults(&[("SANDLOG_AUTH", "gateway")], LOOPBACK), ["SANDLOG_AUTH"]);
    assert_eq!(faults(&[("SANDLOG_AUTH", "gateway"), ("SANDLOG_AUTH_IAM_SCOPES", "agents:run x y")], None), ["SANDLOG_AUTH_IAM_SCOPES"; 2]);
}

#[test]
fn every_fault_of_a_way_is_told() {
    let short = ("SANDLOG_AUTH_JWT_SECRET", "short");
    let (key, jwt) = (("SANDLOG_AUTH", "key"), ("SANDLOG_AUTH", "jwt"));
    let bad = file("[keys.a]\nsha256 = \"x\"\nscopes = [\"y\"]");
    let (bad, empty) = (bad.path().to_str().expect("a path"), file(""));
    let empty = empty.path().to_str().expect("a path");
    assert_eq!(faults(&[("SANDLOG_AUTH", "basic")], LOOPBACK), ["SANDLOG_AUTH"]);
    assert_eq!(faults(&[key], LOOPBACK), ["SANDLOG_AUTH_KEYS"]);
    assert_eq!(faults(&[key, ("SANDLOG_AUTH_KEYS", "/nowhere/keys.toml")], LOOPBACK), ["SANDLOG_AUTH_KEYS"]);
    assert_eq!(faults(&[key, ("SANDLOG_AUTH_KEYS", bad)], LOOPBACK), ["SANDLOG_AUTH_KEYS"; 2]);
    assert_eq!(faults(&[key, ("SANDLOG_AUTH_KEYS", empty)], LOOPBACK), ["SANDLOG_AUTH_KEYS"]);
    assert_eq!(faults(&[jwt], LOOPBACK), ["SANDLOG_AUTH_JWKS"]);
    assert_eq!(faults(&[jwt, short], LOOPBACK), ["SANDLOG_AUTH_JWT_SECRET"]);
    assert_eq!(faults(&[jwt, short, ("SANDLOG_AUTH_JWKS", "https://issuer/keys")], LOOPBACK), ["SANDLOG_AUTH_JWT_SECRET"]);
    for set in ["/nowhere/keys.json", bad, "http://issuer/keys", "http://10.0.0.1/keys", "https://"] {
        assert_eq!(faults(&[jwt, ("SANDLOG_AUTH_JWKS", set)], LOOPBACK), ["SANDLOG_AUTH_JWKS"], "{set}");
    }
    for set in ["https://issuer/keys", "http://localhost:1/keys", "http://[::1]:1/keys"] {
        assert!(read(&[jwt, ("SANDLOG_AUTH_JWKS", set)], LOOPBACK).is_ok(), "{set}");
    }
}

#[test]
fn what_is_for_another_way_is_not_left_aside_in_silence() {
    let variables = [("SANDLOG_AUTH_KEYS", "keys.toml"), ("SANDLOG_AUTH_ISSUER", "x"), ("SANDLOG_AUTH_IAM_SCOPES", "agents:run")];
    assert_eq!(faults(&variables, LOOPBACK), ["SANDLOG_AUTH_KEYS", "SANDLOG_AUTH_ISSUER", "SANDLOG_AUTH_IAM_SCOPES"]);
}

#[test]
fn a_secret_does_not_show() {
    let secret = "a secret that nobody is to see in a log";
    let settings = read(&[("SANDLOG_AUTH", "jwt"), ("SANDLOG_AUTH_JWT_SECRET", secret)], LOOPBACK).expect("settings");
    assert!(!format!("{settings:?}").contains("nobody"));
    let faults = read(&[("SANDLOG_AUTH", "jwt"), ("SANDLOG_AUTH_JWT_SECRET", "hunter2")], LOOPBACK).expect_err("a fault");
    assert!(!faults.to_string().contains("hunter2"));
}
