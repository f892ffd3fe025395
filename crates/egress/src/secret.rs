//! Keys, and answers without them. Upstreams and gateways repeat requests, most of all in errors; what they repeat of a key would be in the sandbox, and from
//! there in the log. Pure.
//!
//! Looked for is each key that egress has, whole: as it is, as JSON or a percent-encoding has it, in hex, and in base64 at any place of what is encoded
//! (so also in `Bearer KEY` and in `name:KEY`). Each is overwritten with as many [`FILLER`]s, so lengths stay true. Not found: a piece of a key, another
//! encoding, and a key under [`SHORTEST`] bytes, whose like is in every answer.

use std::sync::Arc;

use bytes::Bytes;
use hyper::HeaderMap;
use hyper::header::HeaderValue;

const FILLER: u8 = b'*';
/// The shortest key that is looked for, and the shortest start of one that does not stay at the end of an answer.
const SHORTEST: usize = 8;
const STANDARD: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
const URL_SAFE: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

/// All that must not be in an answer.
pub(crate) struct Secrets {
    forms: Vec<Vec<u8>>,
    /// Whether a form begins with the byte.
    begins: [bool; 256],
}

impl Secrets {
    pub(crate) fn new<'a>(keys: impl Iterator<Item = &'a str>) -> Self {
        let mut forms: Vec<_> = keys.filter(|key| key.len() >= SHORTEST).flat_map(forms).collect();
        forms.sort_unstable();
        forms.dedup();
        let mut begins = [false; 256];
        forms.iter().for_each(|form| begins[usize::from(form[0])] = true);
        Self { forms, begins }
    }

    /// A text that is here as a whole.
    pub(crate) fn mask(self: &Arc<Self>, text: &[u8]) -> Vec<u8> {
        let mut mask = Mask::new(Arc::clone(self));
        let mut masked = mask.feed(Bytes::copy_from_slice(text)).to_vec();
        masked.extend(mask.end());
        masked
    }

    /// Headers: a value is masked, and a name that has a key in it goes with its value.
    pub(crate) fn mask_headers(self: &Arc<Self>, headers: &mut HeaderMap) {
        let names: Vec<_> = headers.keys().filter(|name| self.is_in_name(name.as_str())).cloned().collect();
        names.iter().for_each(|name| drop(headers.remove(name)));
        for value in headers.values_mut() {
            let masked = self.mask(value.as_bytes());
            if masked != value.as_bytes() {
                // Fillers fit where any byte does.
                *value = HeaderValue::from_bytes(&masked).unwrap_or(HeaderValue::from_static(""));
            }
        }
    }

    /// Names come in lower case.
    fn is_in_name(&self, name: &str) -> bool {
        self.forms.iter().any(|form| name.as_bytes().windows(form.len()).any(|part| part.eq_ignore_ascii_case(form)))
    }
}

fn forms(key: &str) -> Vec<Vec<u8>> {
    let json = serde_json::Value::from(key).to_string();
    let json = &json[1..json.len() - 1];
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.~".contains(&byte);
    let written = |form: fn(u8) -> String, stays: &dyn Fn(u8) -> bool| -> Vec<u8> {
        key.bytes().flat_map(|byte| if stays(byte) { vec![byte] } else { form(byte).into_bytes() }).collect()
    };
    let mut forms = vec![key.as_bytes().to_vec(), json.as_bytes().to_vec(), json.replace('/', "\\/").into_bytes()];
    forms.extend([written(|byte| format!("%{byte:02X}"), &plain), written(|byte| format!("%{byte:02x}"), &plain)]);
    forms.extend([written(|byte| format!("{byte:02X}"), &|_| false), written(|byte| format!("{byte:02x}"), &|_| false)]);
    for alphabet in [STANDARD, URL_SAFE] {
        forms.extend((0..3).map(|before| base64(key.as_bytes(), before, alphabet)));
    }
    forms
}

/// The digits that are made of these bytes alone, where so many are encoded before them.
fn base64(bytes: &[u8], before: usize, alphabet: &[u8; 64]) -> Vec<u8> {
    let bit = |at: usize| (bytes[at / 8] >> (7 - at % 8)) & 1;
    let first = (6 - before * 8 % 6) % 6;
    let digits = (bytes.len() * 8 - first) / 6;
    let digit = |at: usize| (0..6).fold(0, |digit, n| digit << 1 | bit(first + at * 6 + n));
    (0..digits).map(|at| alphabet[usize::from(digit(at))]).collect()
}

/// A body on its way. Held back is only what may be the start of a key, until it is known.
pub(crate) struct Mask {
    secrets: Arc<Secrets>,
    held: Vec<u8>,
    /// So many of the next bytes are of a key.
    over: usize,
}

impl Mask {
    pub(crate) fn new(secrets: Arc<Secrets>) -> Self {
        Self { secrets, held: Vec::new(), over: 0 }
    }

    /// How many bytes are held back.
    pub(crate) fn held(&self) -> usize {
        self.held.len()
    }

    /// What can go of all that came.
    pub(crate) fn feed(&mut self, data: Bytes) -> Bytes {
        let none = |data: &[u8]| !data.iter().any(|byte| self.secrets.begins[usize::from(*byte)]);
        if self.held.is_empty() && self.over == 0 && none(&data) {
            return data;
        }
        let mut all = std::mem::take(&mut self.held);
        all.extend_from_slice(&data);
        for at in 0..all.len() {
            if self.may_begin(&all[at..]) {
                self.held = all.split_off(at);
                break;
            }
            if self.over > 0 {
                self.over -= 1;
                all[at] = FILLER;
            }
        }
        all.into()
    }

    /// Whether a form begins here that has not all come. One that has is noted: forms can overlap.
    fn may_begin(&mut self, rest: &[u8]) -> bool {
        if !self.secrets.begins[usize::from(rest[0])] {
            return false;
        }
        for form in &self.secrets.forms {
            if rest.starts_with(form) {
                self.over = self.over.max(form.len());
            }
        }
        self.secrets.forms.iter().any(|form| rest.len() < form.len() && form.starts_with(rest))
    }

    /// What was held, where no more comes.
    pub(crate) fn end(&mut self) -> Vec<u8> {
        let mut held = std::mem::take(&mut self.held);
        for at in 0..held.len() {
            if held.len() - at >= SHORTEST && self.may_begin(&held[at..]) {
                self.over = held.len() - at;
            }
            if self.over > 0 {
                self.over -= 1;
                held[at] = FILLER;
            }
        }
        held
    }
}

#[cfg(test)]
mod tests;
