//! What tells an event of this deployment's log from one that somebody put into Redis: a code that only who reads the log can make.

use ring::hmac;
use uuid::Uuid;

/// Of a deployment. Two that differ do not believe each other's events, and without one no event is written or believed: indexes alone go through.
#[derive(Clone, Debug, Default)]
pub struct Seal(Option<hmac::Key>);

impl Seal {
    pub fn new(secret: Option<&str>) -> Self {
        Self(secret.map(|secret| hmac::Key::new(hmac::HMAC_SHA256, secret.as_bytes())))
    }

    pub fn is_there(&self) -> bool {
        self.0.is_some()
    }

    pub(super) fn make(&self, run_id: Uuid, next: u32, text: &str) -> Option<Vec<u8>> {
        let key = self.0.as_ref()?;
        Some(hmac::sign(key, &message(run_id, next, text)).as_ref().to_vec())
    }

    pub(super) fn fits(&self, run_id: Uuid, next: u32, text: &str, code: &[u8]) -> bool {
        self.0.as_ref().is_some_and(|key| hmac::verify(key, &message(run_id, next, text), code).is_ok())
    }
}

/// Of one run and one place in it: an entry that is true elsewhere is not true here.
fn message(run_id: Uuid, next: u32, text: &str) -> Vec<u8> {
    [&run_id.as_bytes()[..], &next.to_be_bytes(), text.as_bytes()].concat()
}
