//! `sandlog key`: a new key for a client of the HTTP API.

use std::io::Write;

use api::auth::{KEY_PREFIX, Key};

use crate::client::ClientError;
use crate::faults::Fault;
use crate::random;

/// 256 bits: nobody guesses it, so its plain hash can lie about.
const BYTES: usize = 32;

/// The entry can go into the file as it is (`>> keys.toml`), and the key does not go along.
pub(crate) fn make(name: &str, scopes: &[String], user: Option<&str>) -> Result<(), Fault> {
    let key = format!("{KEY_PREFIX}{}", random::hex(BYTES).map_err(ClientError::Random)?);
    let entry = Key::entry(&key, name, user, scopes).map_err(|faults| Fault::Key(faults.iter().map(ToString::to_string).collect()))?;
    std::io::stdout().write_all(entry.as_bytes()).map_err(ClientError::Output)?;
    eprintln!("The key, which is not shown again:\n{key}");
    Ok(())
}
