use super::*;
use base64::Engine;
use base64::prelude::{BASE64_STANDARD, BASE64_URL_SAFE_NO_PAD};
use proptest::prelude::*;

const KEY: &str = "sk-ant-api03-e2fc714c4727ee93";

fn secrets(keys: &[&str]) -> Arc<Secrets> {
    Arc::new(Secrets::new(keys.iter().copied()))
}

/// What comes out of these chunks, and of the end.
fn masked(keys: &[&str], chunks: &[&[u8]]) -> Vec<String> {
    let mut mask = Mask::new(secrets(keys));
    let mut out: Vec<_> = chunks.iter().map(|chunk| mask.feed(Bytes::copy_from_slice(chunk)).to_vec()).collect();
    out.push(mask.end());
    out.into_iter().map(|bytes| String::from_utf8(bytes).unwrap()).collect()
}

#[test]
fn a_key_becomes_as_many_fillers_wherever_a_chunk_ends() {
    let text = format!("{{\"got\":\"Bearer {KEY}\"}}");
    let expected = format!("{{\"got\":\"Bearer {}\"}}", "*".repeat(KEY.len()));
    for at in 0..=text.len() {
        let (before, after) = text.as_bytes().split_at(at);
        assert_eq!(masked(&[KEY], &[before, after]).concat(), expected);
    }
    let bytes: Vec<&[u8]> = text.as_bytes().chunks(1).collect();
    assert_eq!(masked(&[KEY], &bytes).concat(), expected);
}

#[test]
fn a_key_is_found_in_the_forms_that_a_gateway_writes_it_in() {
    let key = "a/key+with\"all/of~it=\\";
    let all = [
        key.to_owned(),
        r#"a/key+with\"all/of~it=\\"#.into(),
        r#"a\/key+with\"all\/of~it=\\"#.into(),
        "a%2Fkey%2Bwith%22all%2Fof~it%3D%5C".into(),
        "a%2fkey%2bwith%22all%2fof~it%3d%5c".into(),
        key.bytes().map(|byte| format!("{byte:02x}")).collect(),
        key.bytes().map(|byte| format!("{byte:02X}")).collect(),
    ];
    for text in all {
        assert_eq!(masked(&[key], &[text.as_bytes()]).concat(), "*".repeat(text.len()), "{text}");
    }
    for before in ["", "u", "u:", "Bearer ", "name:"] {
        let text = format!("{before}{key}!");
        for text in [BASE64_STANDARD.encode(&text), BASE64_URL_SAFE_NO_PAD.encode(&text)] {
            let out = masked(&[key], &[text.as_bytes()]).concat();
            assert!(out.len() == text.len() && out.matches('*').count() >= key.len() * 4 / 3 - 1, "{text} {out}");
        }
    }
}

#[test]
fn keys_that_overlap_hide_each_other_whole() {
    let keys = ["abcdefgh", "abcdefghijkl", "ghijklmnop"];
    assert_eq!(masked(&keys, &[b"-abcdefghijklmnop-"]).concat(), format!("-{}-", "*".repeat(16)));
    assert_eq!(masked(&keys, &[b"-abcdefghijk", b"x-"]).concat(), "-********ijkx-");
    assert_eq!(masked(&["abababab"], &[b"ababab", b"ababx"]).concat(), "**********x");
}

#[test]
fn only_what_may_be_the_start_of_a_key_waits() {
    let out = masked(&[KEY], &[b"data: 1\n\n", b"sk-a", b" s", b"mall"]);
    assert_eq!(out, ["data: 1\n\n", "", "sk-a ", "small", ""]);
}

#[test]
fn the_end_lets_a_few_bytes_go_and_not_most_of_a_key() {
    assert_eq!(masked(&[KEY], &[b"as sk"]).concat(), "as sk");
    assert_eq!(masked(&[KEY], &[&KEY.as_bytes()[..KEY.len() - 1]]).concat(), "*".repeat(KEY.len() - 1));
}

#[test]
fn a_key_that_is_in_every_answer_is_not_looked_for() {
    assert_eq!(masked(&["data"], &[b"data: 1"]).concat(), "data: 1");
}

#[test]
fn headers_lose_a_key_in_a_value_and_go_with_one_in_their_name() {
    let mut headers = HeaderMap::new();
    headers.append("x-echo", HeaderValue::from_str(&format!("x-api-key: {KEY}, more")).unwrap());
    headers.append("x-echo", HeaderValue::from_static("as it was"));
    headers.append("x-aAbBcCdD", HeaderValue::from_static("1"));
    secrets(&[KEY, "AaBbCcDd"]).mask_headers(&mut headers);
    let values: Vec<_> = headers.values().map(|value| value.to_str().unwrap().to_owned()).collect();
    assert_eq!(values, [format!("x-api-key: {}, more", "*".repeat(KEY.len())), "as it was".into()]);
}

proptest! {
    #[test]
    fn no_key_comes_through_and_nothing_else_changes(parts in prop::collection::vec(prop_oneof!["[abc]{0,9}", Just("abcabcaab".to_owned()), Just("bcaabbcc".into())], 0..12), cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..8)) {
        let keys = ["abcabcaab", "bcaabbcc"];
        let text = parts.concat();
        let mut expected = text.clone().into_bytes();
        for key in keys {
            for (at, _) in (0..text.len()).map(|at| (at, ())).filter(|(at, ())| text[*at..].starts_with(key)) {
                expected[at..at + key.len()].fill(FILLER);
            }
        }
        let mut cuts: Vec<_> = cuts.iter().map(|cut| cut.index(text.len() + 1)).collect();
        cuts.extend([0, text.len()]);
        cuts.sort_unstable();
        let chunks: Vec<&[u8]> = cuts.windows(2).map(|pair| &text.as_bytes()[pair[0]..pair[1]]).collect();
        let out = masked(&keys, &chunks).concat().into_bytes();
        prop_assert_eq!(out.len(), text.len());
        // The end may hide the start of one.
        let whole = text.len().saturating_sub(SHORTEST);
        prop_assert_eq!(&out[..whole], &expected[..whole]);
        prop_assert!(out.iter().zip(&expected).all(|(out, expected)| out == expected || *out == FILLER));
    }
}
