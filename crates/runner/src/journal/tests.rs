use std::io::Write;

use proptest::prelude::*;

use super::*;

fn samples() -> Vec<Record> {
    let bodies = [
        Body::Started,
        Body::StartFailed { message: "/x: No such file or directory".into() },
        Body::SetupFailed { message: "no namespaces".into() },
        Body::Out { bytes: b"a\0\xff\n".to_vec(), end_of_line: true },
        Body::Err { bytes: Vec::new(), end_of_line: false },
        Body::Out { bytes: vec![MAGIC; PIECE], end_of_line: false },
        Body::Door(Box::new(Door { upstream: "anthropic".into(), status: Some(200), cut: true, ..Door::default() })),
        Body::Exit(Exit { code: Some(1), signal: None, reason: Some("killed:user".into()), oom: true }),
    ];
    (1..).zip(bodies).map(|(at_ms, body)| Record { at_ms, body }).collect()
}

fn bytes(records: &[Record]) -> Vec<u8> {
    let mut bytes = Vec::new();
    records.iter().for_each(|record| encode(record, &mut bytes));
    bytes
}

fn drain(decoder: &mut Decoder) -> Result<Vec<(Record, u64)>, Corrupt> {
    let mut got = Vec::new();
    while let Some(record) = decoder.next_record()? {
        got.push(record);
    }
    Ok(got)
}

fn small() -> Vec<Record> {
    samples().into_iter().filter(|record| bytes(std::slice::from_ref(record)).len() < 1000).collect()
}

#[test]
fn what_is_written_is_read_with_the_offsets_of_its_ends() {
    let mut decoder = Decoder::new(100);
    decoder.feed(&bytes(&samples()));
    let got = drain(&mut decoder).unwrap();
    let mut end = 100;
    assert_eq!(got.len(), samples().len());
    for ((record, at), sample) in got.into_iter().zip(samples()) {
        end += bytes(std::slice::from_ref(&sample)).len() as u64;
        assert_eq!((record, at), (sample, end));
    }
}

#[test]
fn the_checksum_is_the_usual_one() {
    assert_eq!(crc::crc32(b"123456789"), 0xCBF4_3926);
}

#[test]
fn a_tail_torn_at_any_byte_ends_the_stream_before_it() {
    let whole = bytes(&small());
    let first = bytes(&small()[..small().len() - 1]).len();
    for cut in first..whole.len() {
        let mut decoder = Decoder::new(0);
        decoder.feed(&whole[..cut]);
        assert_eq!(drain(&mut decoder).unwrap().len(), small().len() - 1);
        assert_eq!(decoder.offset(), first as u64);
        decoder.feed(&whole[cut..]);
        assert_eq!(drain(&mut decoder).unwrap().len(), 1);
    }
}

#[test]
fn a_flipped_bit_anywhere_is_never_read_as_a_record() {
    let record = Record { at_ms: 7, body: Body::Out { bytes: b"hello\n".to_vec(), end_of_line: true } };
    let good = bytes(std::slice::from_ref(&record));
    for bit in 0..good.len() * 8 {
        let mut bad = good.clone();
        bad[bit / 8] ^= 1 << (bit % 8);
        // A longer length can look like a torn tail; enough bytes after it show that it is not.
        bad.resize(bad.len() + MAX_PAYLOAD + 64, 0);
        let mut decoder = Decoder::new(0);
        decoder.feed(&bad);
        assert!(decoder.next_record().is_err(), "bit {bit}");
    }
}

#[test]
fn the_exit_is_found_behind_a_hole_and_not_in_what_a_harness_printed() {
    let mut file = tempfile::NamedTempFile::new().unwrap();
    let exit = samples().pop().unwrap();
    let forged = Body::Out { bytes: bytes(std::slice::from_ref(&exit)), end_of_line: false };
    file.write_all(&vec![0; 300_000]).unwrap();
    file.write_all(&bytes(&[Record { at_ms: 1, body: forged }])).unwrap();
    assert!(!has_exit(file.path()).unwrap());
    let real = bytes(&[exit]);
    file.write_all(&real[..real.len() - 1]).unwrap();
    assert!(!has_exit(file.path()).unwrap());
    file.write_all(&real[real.len() - 1..]).unwrap();
    assert!(has_exit(file.path()).unwrap());
}

#[test]
fn a_journal_of_nothing_has_no_exit() {
    let file = tempfile::NamedTempFile::new().unwrap();
    assert!(!has_exit(file.path()).unwrap());
    file.as_file().set_len(1 << 20).unwrap();
    assert!(!has_exit(file.path()).unwrap());
}

fn any_record() -> impl Strategy<Value = Record> {
    let bytes = || prop::collection::vec(any::<u8>(), 0..300);
    let body = prop_oneof![
        Just(Body::Started),
        ".{0,40}".prop_map(|message| Body::StartFailed { message }),
        (bytes(), any::<bool>()).prop_map(|(bytes, end_of_line)| Body::Out { bytes, end_of_line }),
        (bytes(), any::<bool>()).prop_map(|(bytes, end_of_line)| Body::Err { bytes, end_of_line }),
        (".{0,40}", any::<u64>()).prop_map(|(path, ms)| Body::Door(Box::new(Door { path, ms, ..Door::default() }))),
        (any::<Option<i32>>(), any::<bool>()).prop_map(|(code, oom)| Body::Exit(Exit { code, signal: None, reason: None, oom })),
    ];
    (any::<u64>(), body).prop_map(|(at_ms, body)| Record { at_ms, body })
}

proptest! {
    #[test]
    fn chunks_do_not_show(records in prop::collection::vec(any_record(), 0..12), cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..8)) {
        let whole = bytes(&records);
        let mut cuts: Vec<_> = cuts.iter().map(|cut| cut.index(whole.len() + 1)).collect();
        cuts.extend([0, whole.len()]);
        cuts.sort_unstable();
        let mut decoder = Decoder::new(0);
        let mut got = Vec::new();
        for pair in cuts.windows(2) {
            decoder.feed(&whole[pair[0]..pair[1]]);
            got.extend(drain(&mut decoder).unwrap().into_iter().map(|(record, _)| record));
        }
        prop_assert_eq!(got, records);
        prop_assert_eq!(decoder.offset(), whole.len() as u64);
    }

    #[test]
    fn no_bytes_make_the_reader_panic(
        records in prop::collection::vec(any_record(), 0..6), at in any::<prop::sample::Index>(), length in 0usize..40,
        put in prop::collection::vec(any::<u8>(), 0..40), cut in any::<prop::sample::Index>(),
    ) {
        let mut changed = bytes(&records);
        let at = at.index(changed.len() + 1);
        let end = (at + length).min(changed.len());
        changed.splice(at..end, put);
        let mut decoder = Decoder::new(0);
        let (head, tail) = changed.split_at(cut.index(changed.len() + 1));
        let (mut got, mut corrupt) = (Vec::new(), false);
        for chunk in [head, tail] {
            decoder.feed(chunk);
            match drain(&mut decoder) {
                Ok(more) if !corrupt => got.extend(more.into_iter().map(|(record, _)| record)),
                _ => corrupt = true,
            }
        }
        prop_assert!(decoder.offset() <= changed.len() as u64);
        // What stood before the change is read as it was, up to where a reader gave up.
        let whole = (0..=records.len()).rev().find(|n| bytes(&records[..*n]).len() <= at).unwrap_or(0);
        prop_assert!(corrupt || got.len() >= whole);
        let common = whole.min(got.len());
        prop_assert_eq!(&got[..common], &records[..common]);
    }
}
