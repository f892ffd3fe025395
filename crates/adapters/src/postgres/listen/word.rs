//! Signals as the text of a NOTIFY: words, of which a reader passes over those that it does not know.

use uuid::Uuid;

use crate::signals::{Advance, Batch, Signal};

/// Postgres takes less than 8000 bytes.
const LONGEST: usize = 7900;

/// What the words of a text say.
#[derive(Debug, PartialEq)]
pub(super) enum Word {
    Signal(Signal),
    /// Somebody tries whether words get through.
    Probe(Uuid),
}

/// As few texts as hold the batch. No events: a NOTIFY wakes, and is read by everybody.
pub(super) fn write(batch: &Batch) -> Vec<String> {
    let run = |(run_id, next): (Uuid, Option<u32>)| match next {
        Some(next) => format!("a{}:{next}", run_id.simple()),
        None => format!("a{}", run_id.simple()),
    };
    let words = batch.furthest().into_iter().map(run).chain(batch.cancels.iter().map(|run_id| format!("c{}", run_id.simple())));
    let mut texts: Vec<String> = Vec::new();
    for word in words.chain(batch.work.then(|| "w".to_owned())) {
        match texts.last_mut() {
            Some(text) if text.len() + 1 + word.len() <= LONGEST => {
                text.push(' ');
                text.push_str(&word);
            }
            _ => texts.push(word),
        }
    }
    texts
}

pub(super) fn probe(number: Uuid) -> String {
    format!("p{}", number.simple())
}

pub(super) fn read(text: &str) -> impl Iterator<Item = Word> {
    text.split(' ').filter_map(word)
}

fn word(text: &str) -> Option<Word> {
    let (kind, rest) = text.split_at_checked(1)?;
    match kind {
        "a" => {
            let (run_id, next) = rest.split_once(':').map_or((rest, None), |(run_id, next)| (run_id, Some(next)));
            let next = next.map(str::parse).transpose().ok()?;
            Some(Word::Signal(Signal::Advanced(Advance { run_id: rest_id(run_id)?, next, event: None })))
        }
        "c" => rest_id(rest).map(Signal::Cancel).map(Word::Signal),
        "w" if rest.is_empty() => Some(Word::Signal(Signal::Work)),
        "p" => rest_id(rest).map(Word::Probe),
        _ => None,
    }
}

fn rest_id(text: &str) -> Option<Uuid> {
    text.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_batch_is_read_as_it_was_written() {
        let mut batch = Batch::default();
        for n in 0..1000_u128 {
            batch.advances.push(Advance { run_id: Uuid::from_u128(n), next: (!n.is_multiple_of(3)).then_some(n as u32), event: None });
            batch.advances.push(Advance { run_id: Uuid::from_u128(n), next: Some(5), event: None });
        }
        batch.cancels.insert(Uuid::max());
        batch.work = true;
        let texts = write(&batch);
        assert!(texts.len() < 10 && texts.iter().all(|text| text.len() <= LONGEST));
        let words: Vec<Word> = texts.iter().flat_map(|text| read(text)).collect();
        assert_eq!(words.len(), 1002);
        let furthest = |n: u128| (!n.is_multiple_of(3)).then_some((n as u32).max(5));
        for n in 0..1000 {
            assert!(words.contains(&Word::Signal(Signal::Advanced(Advance { run_id: Uuid::from_u128(n), next: furthest(n), event: None }))));
        }
        assert!(words.contains(&Word::Signal(Signal::Cancel(Uuid::max()))) && words.contains(&Word::Signal(Signal::Work)));
    }

    #[test]
    fn words_that_nobody_knows_are_passed_over() {
        assert_eq!(read("x1 w a12 aé  cz w2 w").collect::<Vec<_>>(), [Word::Signal(Signal::Work), Word::Signal(Signal::Work)]);
    }
}
