//! Text on its way from the CLI to JSON and Postgres. Pure.

use std::borrow::Cow;

use serde_json::{Value, json};

/// JSON text without what a parser or Postgres refuses: the escape of NUL becomes U+2400 and half a surrogate pair U+FFFD. Both are visible, and the line
/// is not lost for one character.
pub(super) fn mend(text: &str) -> Cow<'_, str> {
    if !text.contains("\\u") && !text.contains('\0') {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find(['\\', '\0']) {
        out.push_str(&rest[..at]);
        rest = &rest[at..];
        let (mended, taken) = match unit(rest) {
            Some(0) => ("\u{2400}", 6),
            Some(0xD800..=0xDBFF) if rest.get(6..).and_then(unit).is_some_and(|low| (0xDC00..=0xDFFF).contains(&low)) => (&rest[..12], 12),
            Some(0xD800..=0xDFFF) => ("\u{fffd}", 6),
            Some(_) => (&rest[..6], 6),
            None if rest.starts_with('\0') => ("\u{2400}", 1),
            // Another escape: what it escapes is no start of one.
            None => {
                let taken = 1 + rest[1..].chars().next().map_or(0, char::len_utf8);
                (&rest[..taken], taken)
            }
        };
        out.push_str(mended);
        rest = &rest[taken..];
    }
    out.push_str(rest);
    Cow::Owned(out)
}

/// The code unit of an escape at the start.
fn unit(text: &str) -> Option<u32> {
    let digits = text.strip_prefix("\\u")?.get(..4)?;
    if digits.bytes().all(|digit| digit.is_ascii_hexdigit()) { u32::from_str_radix(digits, 16).ok() } else { None }
}

/// The start of a text, and how much is left out.
pub(super) fn bounded(text: &str, limit: usize) -> String {
    if text.len() <= limit {
        return text.into();
    }
    let kept = &text[..text.floor_char_boundary(limit)];
    format!("{kept}\n[{} more bytes are left out]", text.len() - kept.len())
}

/// A value of at most about `limit` bytes: long texts in it are cut, and where that is not enough it becomes the start of its own text.
pub(super) fn shortened(value: &Value, limit: usize) -> Value {
    if value.to_string().len() <= limit {
        return value.clone();
    }
    let cut = cut_texts(value, limit / 4);
    let text = cut.to_string();
    if text.len() <= limit { cut } else { json!({ "left out": bounded(&text, limit / 2) }) }
}

fn cut_texts(value: &Value, limit: usize) -> Value {
    match value {
        Value::String(text) => bounded(text, limit).into(),
        Value::Array(items) => items.iter().map(|item| cut_texts(item, limit)).collect(),
        Value::Object(fields) => fields.iter().map(|(name, value)| (name.clone(), cut_texts(value, limit))).collect::<serde_json::Map<_, _>>().into(),
        other => other.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn what_a_parser_or_postgres_refuses_is_shown_in_its_place() {
        for (from, to) in [
            (r#""a\u0000b""#, "a\u{2400}b"),
            (r#""\ud83d\ude00""#, "\u{1f600}"),
            (r#""\ud83d""#, "\u{fffd}"),
            (r#""\ud83dx\ude00""#, "\u{fffd}x\u{fffd}"),
            (r#""\ud83d\ud83d\ude00""#, "\u{fffd}\u{1f600}"),
            (r#""\\u0000 \u00fc""#, "\\u0000 \u{fc}"),
            ("\"\0\"", "\u{2400}"),
        ] {
            assert_eq!(serde_json::from_str::<String>(&mend(from)).unwrap(), to, "{from}");
        }
        assert_eq!(serde_json::from_str::<Value>(&mend(r#"{"\u0000":1}"#)).unwrap(), json!({ "\u{2400}": 1 }));
        assert_eq!(mend("\\"), "\\");
        assert_eq!(mend("\\u12"), "\\u12");
    }

    proptest! {
        #[test]
        fn what_is_right_stays_as_it_is(text in any::<String>()) {
            let json = serde_json::to_string(&text).unwrap();
            prop_assert_eq!(serde_json::from_str::<String>(&mend(&json)).unwrap(), text.replace('\0', "\u{2400}"));
            let _ = mend(&text);
        }

        #[test]
        fn nothing_grows_beyond_its_limit(texts in prop::collection::vec("\\PC{0,60}", 0..30), limit in 100usize..400) {
            let value = json!({ "texts": texts, "more": { "x": texts } });
            let short = shortened(&value, limit);
            prop_assert!(short.to_string().len() <= limit * 2, "{short}");
            prop_assert!(value.to_string().len() > limit || short == value);
        }
    }
}
