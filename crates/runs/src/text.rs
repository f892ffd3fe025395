//! Bytes of a program as text that JSON and Postgres take.

/// Invalid UTF-8 becomes U+FFFD and NUL the picture of NUL, U+2400: both are visible, neither ends the run.
pub fn visible(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    if text.contains('\0') { text.replace('\0', "\u{2400}") } else { text.into_owned() }
}

#[cfg(test)]
mod tests {
    use super::visible;

    #[test]
    fn what_json_or_postgres_dislikes_is_shown_in_its_place() {
        assert_eq!(visible(b"a\0b\n"), "a\u{2400}b\n");
        assert_eq!(visible(b"\xff\xfe x"), "\u{fffd}\u{fffd} x");
        assert_eq!(visible("grüße".as_bytes()), "grüße");
    }
}
