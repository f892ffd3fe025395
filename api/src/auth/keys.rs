//! Named keys. A file has their names, scopes and hashes; the keys themselves are nowhere but with their holders.
//!
//! A key is 256 random bits, so there is nothing to guess and one SHA-256 hides it as well as a slow hash would: those are for what people make up.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use serde::Deserialize;
use sha2::{Digest, Sha256};
use subtle::{Choice, ConstantTimeEq};

use super::scopes::Scope;
use super::{Caller, is_a_name};

/// What every key begins with, so that whoever finds one knows what it is.
pub const PREFIX: &str = "sandlog_";

/// A key as the file has it.
#[derive(Clone, PartialEq, Eq)]
pub struct Key {
    name: String,
    digest: [u8; 32],
    user: String,
    scopes: BTreeSet<String>,
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Key").field("name", &self.name).field("user", &self.user).field("scopes", &self.scopes).finish_non_exhaustive()
    }
}

#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum KeyFault {
    #[error("{0}")]
    File(String),
    #[error("key `{}`: its name is empty, too long, or holds a control character", shown(.0))]
    Name(String),
    #[error("key `{}`: its user is empty, too long, or holds a control character", shown(.0))]
    User(String),
    #[error("key `{}`: sha256 is not 64 hexadecimal digits", shown(.0))]
    Hash(String),
    #[error("key `{}`: `{}` is not a scope; there are {scopes}, and agents:AGENT:read, agents:AGENT:run", shown(.0), shown(.1), scopes = Scope::ALL.map(Scope::name).join(", "))]
    Scope(String, String),
    #[error("key `{}`: it has no scopes, so it is of no use", shown(.0))]
    Useless(String),
    #[error("key `{}`: it has the same hash as `{}`", shown(.0), shown(.1))]
    Twice(String, String),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(default)]
    keys: BTreeMap<String, Entry>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    sha256: String,
    scopes: BTreeSet<String>,
    user: Option<String>,
}

impl Key {
    /// All keys of a file, or every fault in it.
    pub fn parse(text: &str) -> Result<Vec<Key>, Vec<KeyFault>> {
        let file: File = toml::from_str(text).map_err(|error| vec![KeyFault::File(told(text, &error))])?;
        let (mut keys, mut faults) = (Vec::<Key>::new(), Vec::new());
        for (name, Entry { sha256, scopes, user }) in file.keys {
            let user = user.unwrap_or_else(|| name.clone());
            if !is_a_name(&name) {
                faults.push(KeyFault::Name(name.clone()));
            } else if !is_a_name(&user) {
                faults.push(KeyFault::User(name.clone()));
            }
            if scopes.is_empty() {
                faults.push(KeyFault::Useless(name.clone()));
            }
            faults.extend(scopes.iter().filter(|scope| !Scope::is_known(scope)).map(|scope| KeyFault::Scope(name.clone(), scope.clone())));
            match bytes(&sha256) {
                None => faults.push(KeyFault::Hash(name)),
                Some(digest) => {
                    if let Some(twin) = keys.iter().find(|key| key.digest == digest) {
                        faults.push(KeyFault::Twice(name.clone(), twin.name.clone()));
                    }
                    keys.push(Key { name, digest, user, scopes });
                }
            }
        }
        if faults.is_empty() { Ok(keys) } else { Err(faults) }
    }

    /// What the file has to say of a new key, checked as it will be when it is read.
    pub fn entry(key: &str, name: &str, user: Option<&str>, scopes: &[String]) -> Result<String, Vec<KeyFault>> {
        let text = |text: &str| toml::Value::from(text).to_string();
        let hash: String = Sha256::digest(key.as_bytes()).iter().map(|byte| format!("{byte:02x}")).collect();
        let scopes = scopes.iter().map(|scope| text(scope)).collect::<Vec<_>>().join(", ");
        let mut entry = format!("[keys.{}]\nsha256 = \"{hash}\"\nscopes = [{scopes}]\n", text(name));
        if let Some(user) = user {
            entry.push_str(&format!("user = {}\n", text(user)));
        }
        Key::parse(&entry).map(|_| entry)
    }
}

/// What a reason may quote.
const OURS: [&str; 8] = ["keys", "sha256", "scopes", "user", "=", ".", "]", "}"];

/// Where and why a file is none of keys, without anything that is in it: it may be a key, pasted where its hash belongs.
fn told(text: &str, error: &toml::de::Error) -> String {
    // From the first quote on it may be the file's, unless it is a sign or a name of ours.
    let (reason, rest) = error.message().split_once(['`', '"']).unwrap_or_else(|| (error.message(), ""));
    let quoted = rest.split(['`', '"']).next().filter(|quoted| OURS.contains(quoted));
    let reason = quoted.map_or_else(|| reason.trim_end().to_owned(), |quoted| format!("{reason}`{quoted}`"));
    let line = error.span().and_then(|span| text.get(..span.start)).map(|before| before.matches('\n').count() + 1);
    line.map_or_else(|| reason.clone(), |line| format!("line {line}: {reason}"))
}

/// A name or a scope, unless it is a key.
fn shown(text: &str) -> &str {
    if text.contains(PREFIX) { "(a key that does not belong there)" } else { text }
}

fn bytes(hex: &str) -> Option<[u8; 32]> {
    if hex.len() != 64 || !hex.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return None;
    }
    let mut bytes = [0; 32];
    for (at, byte) in bytes.iter_mut().enumerate() {
        *byte = u8::from_str_radix(hex.get(2 * at..2 * at + 2)?, 16).ok()?;
    }
    Some(bytes)
}

/// The keys that are taken.
pub(super) struct Keys(Vec<Key>);

impl Keys {
    pub(super) fn new(keys: Vec<Key>) -> Self {
        Self(keys)
    }

    /// Looks at every key to its end, whichever it is: how long that takes tells nothing.
    pub(super) fn caller(&self, token: &str) -> Option<Caller> {
        let digest: [u8; 32] = Sha256::digest(token.as_bytes()).into();
        let mut found = None;
        for key in &self.0 {
            let same: Choice = key.digest.ct_eq(&digest);
            if bool::from(same) {
                found = Some(key);
            }
        }
        found.and_then(|key| Caller::known(&key.user, key.scopes.clone()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_its_name_unless_it_says_who_it_is() {
        let scopes = ["agents:run".to_owned()];
        let mut file = Key::entry("one", "ci \"1\"", None, &scopes).expect("an entry");
        file.push_str(&Key::entry("two", "phone", Some("ann@example.com"), &scopes).expect("an entry"));
        let keys = Keys::new(Key::parse(&file).expect("the file that they make"));
        let who = |token| keys.caller(token).and_then(|caller| caller.user().map(ToOwned::to_owned));
        assert_eq!(who("one").as_deref(), Some("ci \"1\""));
        assert_eq!(who("two").as_deref(), Some("ann@example.com"));
        assert_eq!(["", "on", "one ", "ONE", "three"].map(who), [const { None }; 5]);
        assert!(!file.contains("one\"\n"), "the key itself is not in it: {file}");
    }

    #[test]
    fn a_hash_is_no_key() {
        let file = Key::entry("one", "ci", None, &["agents:run".into()]).expect("an entry");
        let hash = file.lines().find_map(|line| line.strip_prefix("sha256 = \"")?.strip_suffix('"')).expect("a hash").to_owned();
        assert_eq!(Keys::new(Key::parse(&file).expect("keys")).caller(&hash), None);
    }

    #[test]
    fn every_fault_of_a_file_is_told() {
        let hash = "0".repeat(64);
        let file = format!(
            "[keys.a]\nsha256 = \"x\"\nscopes = [\"agents:runs\", \"openid\"]\n[keys.b]\nsha256 = \"{hash}\"\nscopes = []\n\
             [keys.c]\nsha256 = \"{hash}\"\nscopes = [\"agents:run\"]\nuser = \"\""
        );
        let faults = Key::parse(&file).expect_err("faults");
        let expected = [
            KeyFault::Scope("a".into(), "agents:runs".into()),
            KeyFault::Scope("a".into(), "openid".into()),
            KeyFault::Hash("a".into()),
            KeyFault::Useless("b".into()),
            KeyFault::User("c".into()),
            KeyFault::Twice("c".into(), "b".into()),
        ];
        assert_eq!(faults, expected);
        for wrong in ["keys = 1", "[keys.a]\nsha256 = \"\"\nscopes = []\nkey = \"oops\"", "[key.a]", "["] {
            assert!(matches!(Key::parse(wrong).expect_err("a fault").as_slice(), [KeyFault::File(_)]), "{wrong}");
        }
        assert_eq!(Key::parse("").expect("no keys"), []);
    }

    #[test]
    fn a_fault_names_its_line_and_never_a_key_that_was_pasted_there() {
        let secret = "5c0ffee5c0ffee5c0ffee5c0ffee5c0ffee5c0ffee5c0ffee5c0ffee5c0ffee5c";
        let (key, hash) = (format!("{PREFIX}{secret}"), "0".repeat(64));
        let entry = |name: &str, rest: &str| format!("[keys.{name}]\n{rest}\n");
        let syntax = [
            entry("a", &format!("sha256 = {key}")),
            entry("a", &key),
            entry("a", &format!("{key} = 1")),
            entry("a", &format!("sha256 = \"{key}")),
            entry("a", &format!("sha256 = [\"{key}\"]\nscopes = []")),
            entry("a", &format!("scopes = \"{key}\"")),
            entry("a", &format!("\"=`{key}\" = 1")),
            entry("a", &format!("scopes = \"=\\\"{key}\"")),
            entry("a", &format!("scopes = \"a`{key}\"")),
            entry("a", &format!("sha256 = \"x`{key}\"\nscopes = \"a`\\\"{key}\"")),
        ];
        let told = |text: &str| Key::parse(text).expect_err("faults").iter().map(|fault| format!("{fault} {fault:?}\n")).collect::<String>();
        for text in syntax {
            let told = told(&text);
            assert!(told.starts_with("line ") && !told.contains("5c0ffee"), "{text}: {told}");
        }
        assert!(told("[keys.a]\nsha256 = \"\"").contains("missing field `scopes`"));
        assert_eq!(told("[keys.a]\nsha256 = \"\"\n[").lines().next().and_then(|told| told.split(':').next()), Some("line 3"));
        for text in [
            entry(&key, ""),
            entry(&key, &format!("sha256 = \"{key}\"\nscopes = [\"{key}\"]\nuser = \"\"")),
            entry(&key, &format!("sha256 = \"{hash}\"\nscopes = []")),
            entry("a", &format!("sha256 = \"{hash}\"\nscopes = [\"{key}\"]\nuser = \"{key}\"")),
        ] {
            let said: String = Key::parse(&text).expect_err("faults").iter().map(|fault| format!("{fault}\n")).collect();
            assert!(!said.contains("5c0ffee"), "{text}: {said}");
        }
    }
}
