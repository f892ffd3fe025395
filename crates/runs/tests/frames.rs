use proptest::prelude::*;
use runs::{Event, frame};

use crate::arbitrary;

proptest! {
    #[test]
    fn frames_are_counted_without_making_them(event in arbitrary::any_event()) {
        prop_assert_eq!(frame::count(&event) as usize, frame::frames(&event).len());
    }

    #[test]
    fn the_indexes_of_a_run_have_no_gaps(log in arbitrary::legal_log()) {
        let indexes: Vec<u32> = log.iter().flat_map(|recorded| frame::indexed(recorded).map(|(index, _)| index).collect::<Vec<_>>()).collect();
        prop_assert_eq!(&indexes, &(0..indexes.len() as u32).collect::<Vec<_>>());
        prop_assert_eq!(log.last().map(|last| last.next_index() as usize), Some(indexes.len()));
    }

    #[test]
    fn a_terminal_frame_is_the_last_and_there_is_one_for_an_ended_run(log in arbitrary::legal_log()) {
        let frames: Vec<_> = log.iter().flat_map(|recorded| frame::frames(&recorded.event)).collect();
        let ended = log.last().is_some_and(|last| last.event.is_terminal());
        let terminal = frames.iter().filter(|frame| frame.is_terminal()).count();
        prop_assert_eq!(terminal, usize::from(ended));
        prop_assert_eq!(frames.last().is_some_and(|frame| frame.is_terminal()), ended);
    }

    #[test]
    fn only_text_of_the_harness_counts_for_the_output_limit(event in arbitrary::any_event()) {
        let bytes: u64 = frame::frames(&event).iter().map(|frame| frame.bytes()).sum();
        prop_assert!(matches!(event, Event::Output(_)) || bytes == 0);
    }
}
