//! `Authorization: Bearer ...`.

use axum::http::HeaderMap;
use axum::http::header::AUTHORIZATION;

use crate::respond::Refusal;

/// Far more than any token has. What is longer is not looked at.
const LONGEST: usize = 16 * 1024;

/// The one token of a request.
pub(super) fn token(headers: &HeaderMap) -> Result<&str, Refusal> {
    let mut values = headers.get_all(AUTHORIZATION).iter();
    let value = values.next().ok_or(Refusal::NoIdentity)?;
    if values.next().is_some() || value.len() > LONGEST {
        return Err(Refusal::WrongIdentity);
    }
    let (scheme, token) = value.to_str().ok().and_then(|text| text.split_once(' ')).ok_or(Refusal::WrongIdentity)?;
    let token = token.trim();
    if scheme.eq_ignore_ascii_case("bearer") && !token.is_empty() { Ok(token) } else { Err(Refusal::WrongIdentity) }
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;

    use super::*;

    fn of(values: &[&str]) -> Result<String, bool> {
        let mut headers = HeaderMap::new();
        for value in values {
            headers.append(AUTHORIZATION, HeaderValue::from_str(value).expect("a header"));
        }
        token(&headers).map(str::to_owned).map_err(|refusal| matches!(refusal, Refusal::NoIdentity))
    }

    #[test]
    fn a_token_is_what_stands_behind_bearer_however_that_is_written() {
        for written in ["Bearer abc", "bearer abc", "BEARER  abc "] {
            assert_eq!(of(&[written]), Ok("abc".into()), "{written}");
        }
    }

    #[test]
    fn only_a_header_that_is_not_there_counts_as_missing() {
        assert_eq!(of(&[]), Err(true));
        let long = format!("Bearer {}", "x".repeat(LONGEST));
        for wrong in [&[""][..], &["Bearer"], &["Bearer "], &["abc"], &["Basic abc"], &["Bearer abc", "Bearer abc"], &[&long]] {
            assert_eq!(of(wrong), Err(false), "{wrong:?}");
        }
    }
}
