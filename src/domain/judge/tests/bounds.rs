//! Every fold, commit and record has limits, and nothing is lost at them.

use super::message::{moves, once, operation, result};
use super::play::{Play, answered};
use crate::domain::decision::Verdict;
use crate::domain::judge::{
    Ask, FOLD_BYTES_MAX, FOLD_REQUESTS_MAX, INLINE_BYTES_MAX, INLINE_OPERATION_BYTES_MAX, Judged,
};
use crate::domain::outcome::RESULT_BODY_BYTES_MAX;
use crate::domain::record::{
    IDENTITY_NAMES_REMEMBERED_MAX, Operation, REPLACED_VALUES_MAX, STATES_REMEMBERED_MAX,
};

fn inline_bytes(play: &Play) -> usize {
    let (record, _) = play.record.as_ref().unwrap();
    record.operations.iter().map(Operation::size).sum()
}

/// How many bytes one commit writes beside the record's fixed parts.
fn bytes_of(folded: &super::play::Folded) -> usize {
    let write = folded.write.as_ref().unwrap();
    let apart: usize = write.operations.iter().map(Operation::size).sum();
    let record = write.record.iter().flat_map(|record| &record.operations);
    let evidence = write
        .incidents
        .iter()
        .flat_map(|one| &one.evidence)
        .map(|evidence| evidence.result.size());
    apart + record.map(Operation::size).sum::<usize>() + evidence.sum::<usize>()
}

#[test]
fn a_fold_takes_a_limited_number_of_requests() {
    let mut play = Play::new();
    let asks: Vec<_> = (0..FOLD_REQUESTS_MAX + 1)
        .map(|at| play.message(&once(&format!("op {at}"))))
        .collect();
    let folded = play.fold_now(&asks);
    let later = |judged: &Judged| matches!(judged, Judged::Later);
    let first_later = folded.judged.iter().position(later);
    assert_eq!(first_later, Some(FOLD_REQUESTS_MAX));
    play.apply(&folded).unwrap();
    play.past(&[once(&format!("op {FOLD_REQUESTS_MAX}"))]);
}

#[test]
fn a_commit_adds_a_limited_number_of_bytes_whatever_makes_them() {
    let body = result(&vec![7; RESULT_BODY_BYTES_MAX]);
    let mut play = Play::new();
    let large: Vec<_> = (0..FOLD_REQUESTS_MAX)
        .map(|at| once(&format!("op {at}")).with_result(body.clone()))
        .collect();
    // New operations with large results, then incidents with large evidence about operations that are themselves large.
    let conflicts = large.iter().map(|message| message.clone().content("other"));
    for mut messages in [large.clone(), conflicts.collect()] {
        let one_more = 2 * (RESULT_BODY_BYTES_MAX + 1024);
        while !messages.is_empty() {
            let asks: Vec<_> = messages.iter().map(|one| play.message(one)).collect();
            let folded = play.fold_now(&asks);
            let bytes = bytes_of(&folded);
            let limit = FOLD_BYTES_MAX + one_more + INLINE_BYTES_MAX;
            assert!(bytes <= limit, "{bytes} bytes in one commit");
            play.apply(&folded).unwrap();
            let taken = folded.judged.iter();
            let taken = taken
                .filter(|one| matches!(one, Judged::Answered(_)))
                .count();
            assert!(taken > 0);
            messages.drain(..taken);
        }
    }
    assert_eq!(play.apart.len(), FOLD_REQUESTS_MAX);
    assert_eq!(play.incidents.len(), FOLD_REQUESTS_MAX);
    for message in &large {
        let copy = play.send(message);
        assert_eq!(copy.decision().result.as_ref(), Some(&body));
    }
}

#[test]
fn small_operations_stay_in_the_record_up_to_its_size_and_the_oldest_move_out_first() {
    let mut play = Play::new();
    let body = [7; 400];
    for at in 0..40 {
        play.past(&[once(&format!("op {at:02}")).with_result(result(&body))]);
        assert!(inline_bytes(&play) <= INLINE_BYTES_MAX);
    }
    let (record, _) = play.record.clone().unwrap();
    let inline: Vec<_> = record
        .operations
        .iter()
        .map(|one| one.id.as_str())
        .collect();
    let newest: Vec<_> = (40 - inline.len()..40)
        .map(|at| format!("op {at:02}"))
        .collect();
    assert_eq!(inline, newest);
    assert!(inline.len() > 5, "few are kept: {inline:?}");
    for at in 0..40 {
        let copy = play.send(&once(&format!("op {at:02}")));
        assert_eq!(copy.decision().verdict, Verdict::Replayed);
        assert_eq!(copy.decision().result, Some(result(&body)));
    }
}

#[test]
fn a_large_operation_moves_out_at_once_and_takes_no_small_one_with_it() {
    let mut play = Play::new();
    play.past(&[once("small"), once("small too")]);
    play.past(&[once("large").with_result(result(&vec![7; RESULT_BODY_BYTES_MAX]))]);
    let (record, _) = play.record.clone().unwrap();
    assert_eq!(record.operations.len(), 2);
    let apart: Vec<_> = play.apart.keys().collect();
    assert_eq!(apart, [&operation("large")]);
}

#[test]
fn a_full_commit_moves_large_operations_out_before_old_ones() {
    let mut play = Play::new();
    // As many small operations as the record keeps, and then a fold of nothing but new ones.
    let mut names = Vec::new();
    for at in 0..44 {
        names.push(format!("old {at}"));
        play.past(&[once(&names[at])]);
    }
    let body = result(&[7; INLINE_OPERATION_BYTES_MAX]);
    let middling = result(&[7; 900]);
    let asks: Vec<_> = (0..FOLD_REQUESTS_MAX)
        .map(|at| {
            names.push(format!("new {at}"));
            let last = at + 1 == FOLD_REQUESTS_MAX;
            let result = if last { &body } else { &middling };
            let message = once(names.last().unwrap()).with_result(result.clone());
            play.message(&message)
        })
        .collect();
    play.ask_all(&asks);
    let (record, _) = play.record.as_ref().unwrap();
    let largest = record.operations.iter().map(Operation::size).max().unwrap();
    assert!(largest <= INLINE_OPERATION_BYTES_MAX, "{largest}");
    for name in &names {
        let copy = play.send(&once(name));
        assert_eq!(copy.decision().verdict, Verdict::Replayed, "{name}");
    }
    // What found no room goes with the next commits.
    play.past(&[once("next"), once("and next")]);
    assert!(inline_bytes(&play) <= INLINE_BYTES_MAX);
}

#[test]
fn a_fold_of_refusals_and_conflicts_stays_below_the_writes_of_a_commit() {
    let mut play = Play::new();
    play.past(&[moves("c", "", "cancelled").initially("pending")]);
    for at in 0..12 {
        play.past(&[once(&format!("op {at}")).with_result(result(&[7; 2000]))]);
    }
    // The play counts the writes of each commit.
    let mut asks = Vec::new();
    for at in 0..12 {
        let refused = moves(&format!("no {at}"), "pending", "paid").with_result(result(&[7; 1100]));
        let conflict = once(&format!("op {at}")).content("other");
        asks.extend([play.message(&refused), play.message(&conflict)]);
    }
    play.ask_all(&asks);
    assert_eq!(play.incidents.len(), 24);
    assert_eq!(play.apart.len(), 12, "refusals store no result");
}

#[test]
fn a_resource_remembers_a_limited_number_of_states_and_says_so() {
    let mut play = Play::new();
    for at in 0..STATES_REMEMBERED_MAX - 1 {
        play.past(&[moves(&format!("op {at}"), "", &format!("s{at}")).initially("new")]);
    }
    let ask = play.message(&moves("over", "", "one-more"));
    let folded = play.fold_now(&[ask]);
    let Judged::Limit { limit, .. } = folded.judged[0] else {
        panic!("not refused: {:?}", folded.judged)
    };
    assert_eq!(limit, STATES_REMEMBERED_MAX);
    assert!(folded.write.is_none(), "something was taken up");
    play.past(&[moves("again", "", "s0")]);
}

#[test]
fn an_initial_state_counts_towards_the_limit_only_while_there_is_none() {
    let mut play = Play::new();
    for at in 0..STATES_REMEMBERED_MAX - 1 {
        let message = moves(&format!("op {at}"), "", &format!("s{at}"));
        play.past(&[message.initially("new")]);
    }
    play.past(&[moves("x", "", "s1").initially("never-entered")]);
}

#[test]
fn a_resource_remembers_a_limited_number_of_identity_names_and_says_so() {
    let mut play = Play::new();
    play.past(&[moves("c", "", "").initially("new")]);
    for at in 0..IDENTITY_NAMES_REMEMBERED_MAX {
        play.past(&[moves(&format!("op {at}"), "", "").sets(&format!("n{at}"), "v")]);
    }
    let ask = play.message(&moves("over", "", "x").sets("n0", "w").sets("one-more", "v"));
    let folded = play.fold_now(&[ask, Ask::Inspect]);
    assert!(matches!(folded.judged[0], Judged::Limit { .. }));
    assert!(folded.write.is_none());
    let now = answered(folded.judged[1].clone()).finish(None);
    assert_eq!(now.snapshot().state.as_ref().unwrap().as_str(), "new");
    play.past(&[moves("again", "", "").sets("n0", "w")]);
}

#[test]
fn the_oldest_replaced_values_are_forgotten_first() {
    let mut play = Play::new();
    play.past(&[moves("c", "", "").initially("new")]);
    for at in 0..REPLACED_VALUES_MAX + 2 {
        play.past(&[moves(&format!("op {at}"), "", "").sets("attempt", &format!("p{at}"))]);
    }
    let mut told = |value: &str| {
        let message = once(&format!("of {value}")).of("attempt", value);
        play.send(&message).decision().verdict
    };
    assert_eq!(told("p0"), Verdict::TooEarly);
    assert_eq!(told("p1"), Verdict::OtherRound);
    assert_eq!(
        told(&format!("p{REPLACED_VALUES_MAX}")),
        Verdict::OtherRound
    );
    let current = format!("p{}", REPLACED_VALUES_MAX + 1);
    assert_eq!(told(&current), Verdict::Applied);
}
