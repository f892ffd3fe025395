//! Urlencoded pairs, in a body or behind a `?`, and what the routes ask of them. Bytes that are not UTF-8 are refused, never replaced.

use uuid::Uuid;

use crate::respond::{Fault, Refusal};

/// The pairs of `application/x-www-form-urlencoded`, in order. `None`: not UTF-8.
pub(crate) fn pairs(text: &[u8]) -> Option<Vec<(String, String)>> {
    let pair = |part: &[u8]| {
        let cut = part.iter().position(|byte| *byte == b'=');
        let (name, value) = cut.map_or((part, &b""[..]), |cut| (&part[..cut], &part[cut + 1..]));
        Some((decoded(name)?, decoded(value)?))
    };
    text.split(|byte| *byte == b'&').filter(|part| !part.is_empty()).map(pair).collect()
}

/// A `%` without two digits stands for itself, as browsers have it.
fn decoded(text: &[u8]) -> Option<String> {
    let digit = |at: usize| text.get(at).and_then(|byte| char::from(*byte).to_digit(16));
    let (mut bytes, mut at) = (Vec::with_capacity(text.len()), 0);
    while at < text.len() {
        let (byte, length) = match (text[at], digit(at + 1), digit(at + 2)) {
            (b'%', Some(high), Some(low)) => (u8::try_from(high * 16 + low).unwrap_or(b'%'), 3),
            (b'+', ..) => (b' ', 1),
            (byte, ..) => (byte, 1),
        };
        bytes.push(byte);
        at += length;
    }
    String::from_utf8(bytes).ok()
}

/// The index after the one that was seen last. -1 has seen nothing; what is larger than any index is past every end.
pub(crate) fn index_after(text: &str) -> Option<u32> {
    let text = text.trim();
    if text == "-1" {
        return Some(0);
    }
    let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    digits.then(|| text.parse::<u32>().unwrap_or(u32::MAX).saturating_add(1))
}

/// The parameters of one request.
#[derive(Debug, Default)]
pub(crate) struct Query(Vec<(String, String)>);

impl Query {
    pub(crate) fn of(uri: &axum::http::Uri) -> Result<Self, Refusal> {
        let text = uri.query().unwrap_or_default();
        let pairs = pairs(text.as_bytes()).ok_or_else(|| Refusal::invalid(Fault::query("query", "is not UTF-8")))?;
        Ok(Self(pairs))
    }

    pub(crate) fn extend(&mut self, more: Vec<(String, String)>) {
        self.0.extend(more);
    }

    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(|(name, _)| name.as_str())
    }

    /// The one value of a parameter; an empty one counts as absent.
    pub(crate) fn get(&self, name: &str) -> Result<Option<&str>, Refusal> {
        let mut values = self.0.iter().filter(|(key, value)| key == name && !value.is_empty()).map(|(_, value)| value.as_str());
        let value = values.next();
        if values.any(|other| Some(other) != value) {
            return Err(Refusal::invalid(Fault::query(name, "is given more than once")));
        }
        if value.is_some_and(|value| value.contains('\0')) {
            return Err(Refusal::invalid(Fault::query(name, "holds a NUL character")));
        }
        Ok(value)
    }

    pub(crate) fn parsed<T>(&self, name: &str, rule: &str, parse: impl Fn(&str) -> Option<T>) -> Result<Option<T>, Refusal> {
        self.get(name)?.map(|value| parse(value).ok_or_else(|| Refusal::invalid(Fault::query(name, rule)))).transpose()
    }

    pub(crate) fn limit(&self, default: u32, most: u32) -> Result<u32, Refusal> {
        let rule = format!("must be a number from 1 to {most}");
        let limit = self.parsed("limit", &rule, |text| text.parse().ok().filter(|limit| (1..=most).contains(limit)))?;
        Ok(limit.unwrap_or(default))
    }

    pub(crate) fn cursor(&self) -> Result<Option<adapters::Cursor>, Refusal> {
        let cursor = self.parsed("cursor", "must be the next_cursor of a page", |text| Uuid::try_parse(text).ok())?;
        Ok(cursor.map(adapters::Cursor))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(text: &str) -> Query {
        Query(pairs(text.as_bytes()).unwrap())
    }

    #[test]
    fn pairs_are_decoded_as_browsers_encode_them() {
        let expected = [("a", "1 2"), ("b", "ü&="), ("c", ""), ("d", "%zz%")].map(|(name, value)| (name.to_owned(), value.to_owned()));
        assert_eq!(pairs(b"a=1+2&&b=%C3%BC%26%3d&c&d=%zz%").unwrap(), expected);
        assert_eq!(pairs(b"a=%ff"), None);
    }

    #[test]
    fn a_parameter_has_one_value() {
        assert_eq!(of("a=1&a=1&b=").get("a").unwrap(), Some("1"));
        assert_eq!(of("a=1&b=").get("b").unwrap(), None);
        assert!(of("a=1&a=2").get("a").is_err());
        assert!(of("a=%00").get("a").is_err());
    }

    #[test]
    fn the_index_after_the_last_one_comes_next() {
        assert_eq!(["0", "41", "-1", "99999999999999"].map(index_after), [Some(1), Some(42), Some(0), Some(u32::MAX)]);
        assert!(["", "x", "1.5", "-2", "+1", "0x1"].into_iter().all(|bad| index_after(bad).is_none()));
    }

    #[test]
    fn a_limit_is_bounded() {
        assert_eq!(of("").limit(20, 100).unwrap(), 20);
        assert_eq!(of("limit=100").limit(20, 100).unwrap(), 100);
        for bad in ["limit=0", "limit=101", "limit=x", "limit=-1", "limit=1.5"] {
            assert!(of(bad).limit(20, 100).is_err(), "{bad}");
        }
    }
}
