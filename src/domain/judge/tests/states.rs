//! Identity and state: what a message that comes late, early or for another round is told.

use super::message::{Message, moves, once};
use super::play::Play;
use crate::domain::decision::{Layer, Rule, Verdict};

/// The life of an order, as the messages that make it.
fn placed() -> Message {
    moves("place", "", "").initially("pending")
}

fn attempt(id: &str, value: &str) -> Message {
    moves(id, "pending|paid|shipped", "").sets("attempt", value)
}

fn pay(id: &str, value: &str) -> Message {
    moves(id, "pending", "paid").of("attempt", value)
}

/// After `before`, `message` must be judged as said and change nothing.
#[track_caller]
fn is_told(before: &[Message], message: &Message, verdict: Verdict, rule: Rule) {
    let mut play = Play::new();
    play.past(before);
    let state = play.record.as_ref().and_then(|(r, _)| r.state.clone());
    let answer = play.send(message);
    let decision = answer.decision();
    assert_eq!((decision.verdict, decision.rule), (verdict, rule));
    let layer = match rule {
        Rule::Replaced | Rule::NotYetKnown => Layer::Identity,
        _ => Layer::State,
    };
    assert_eq!(decision.layer, layer);
    assert_eq!(answer.snapshot().state, state, "the state moved");
    let alerts = matches!(verdict, Verdict::Rejected | Verdict::Superseded);
    assert_eq!(decision.incident.is_some(), alerts, "an incident");
    assert_eq!(play.incidents.len(), usize::from(alerts));
    let early = verdict == Verdict::TooEarly;
    assert_eq!(decision.retry_after.is_some(), early, "when to ask again");

    let again = play.send(message);
    let again = again.decision();
    assert_eq!((again.verdict, again.rule), (verdict, rule));
    assert_eq!(again.incident, decision.incident);
    assert_eq!(again.expected, decision.expected);
    assert_eq!(again.explanation, decision.explanation);
    assert_eq!(
        again.first_time_ms.is_some(),
        !early,
        "stored exactly if final"
    );
    assert_eq!(play.incidents.len(), usize::from(alerts), "raised again");
}

#[test]
fn a_payment_for_a_cancelled_order_is_rejected_and_alerts() {
    let before = [
        placed(),
        attempt("s1", "p1"),
        moves("c", "pending", "cancelled"),
    ];
    is_told(&before, &pay("x", "p1"), Verdict::Rejected, Rule::Passed);
}

#[test]
fn a_cancellation_after_payment_is_rejected_and_that_of_an_older_attempt_is_not_ours() {
    let before = [
        placed(),
        attempt("s0", "p0"),
        attempt("s1", "p1"),
        pay("p", "p1"),
    ];
    let cancel = |value| moves("c", "pending", "cancelled").of("attempt", value);
    is_told(&before, &cancel("p1"), Verdict::Rejected, Rule::Passed);
    is_told(&before, &cancel("p0"), Verdict::OtherRound, Rule::Replaced);
}

#[test]
fn a_second_payment_of_a_paid_order_is_acknowledged_and_alerts() {
    let before = [placed(), attempt("s1", "p1"), pay("p", "p1")];
    let (verdict, rule) = (Verdict::Superseded, Rule::AlreadyMoved);
    is_told(&before, &pay("x", "p1"), verdict, rule);
    let shipped = [&before[..], &[moves("ship", "paid", "shipped")]].concat();
    is_told(&shipped, &pay("x", "p1"), verdict, rule);
}

#[test]
fn a_move_counts_as_made_only_under_the_values_that_the_message_gives() {
    // Paid under p1; the attempt was changed afterwards, so p2 never paid.
    let before = [
        placed(),
        attempt("s1", "p1"),
        pay("p", "p1"),
        attempt("s2", "p2"),
    ];
    is_told(&before, &pay("x", "p2"), Verdict::Rejected, Rule::Passed);
    is_told(
        &before,
        &pay("x", "p1"),
        Verdict::OtherRound,
        Rule::Replaced,
    );
    let other_bill = moves("x", "pending", "paid").sets("bill", "b1");
    is_told(&before, &other_bill, Verdict::Rejected, Rule::Passed);
}

#[test]
fn a_move_counts_as_made_under_values_that_came_with_the_move_itself() {
    let with_bill = |id| moves(id, "pending", "paid").sets("bill", "b1");
    let before = [placed(), with_bill("p")];
    is_told(
        &before,
        &with_bill("x"),
        Verdict::Superseded,
        Rule::AlreadyMoved,
    );
}

#[test]
fn a_target_entered_before_the_start_was_left_again_does_not_count() {
    let before = [
        placed(),
        pay_plain("p"),
        moves("back", "paid", "pending"),
        moves("c", "pending", "cancelled"),
    ];
    is_told(&before, &pay_plain("x"), Verdict::Rejected, Rule::Passed);
}

fn pay_plain(id: &str) -> Message {
    moves(id, "pending", "paid")
}

#[test]
fn a_target_entered_again_after_the_start_was_left_counts() {
    let before = [
        placed(),
        pay_plain("p"),
        moves("ship", "paid", "shipped"),
        moves("return", "shipped", "paid"),
        moves("ship2", "paid", "shipped"),
    ];
    is_told(
        &before,
        &pay_plain("x"),
        Verdict::Superseded,
        Rule::AlreadyMoved,
    );
}

#[test]
fn with_several_starts_the_one_left_last_decides() {
    let before = [
        placed(),
        pay_plain("p"),
        moves("hold", "paid", "held"),
        moves("c", "held", "cancelled"),
    ];
    let from_both = moves("x", "pending|held", "paid");
    is_told(&before, &from_both, Verdict::Rejected, Rule::Passed);
}

#[test]
fn an_initial_state_is_a_state_that_was_left() {
    let first = moves("first", "new", "paid").initially("new");
    let second = moves("x", "new", "paid").initially("new");
    is_told(&[first], &second, Verdict::Superseded, Rule::AlreadyMoved);
}

#[test]
fn a_stay_counts_as_made_only_if_its_values_were_in_force() {
    let start = |id: &str, value| moves(id, "pending", "").sets("attempt", value);
    let before = [
        placed(),
        start("s1", "p1"),
        start("s2", "p2"),
        pay("p", "p2"),
    ];
    let (made, passed) = (
        (Verdict::Superseded, Rule::AlreadyMoved),
        (Verdict::Rejected, Rule::Passed),
    );
    is_told(&before, &start("x", "p1"), made.0, made.1);
    is_told(&before, &start("x", "p2"), made.0, made.1);
    is_told(&before, &start("x", "p3"), passed.0, passed.1);
    is_told(&before, &moves("x", "pending", ""), passed.0, passed.1);
}

#[test]
fn what_may_still_become_allowed_is_too_early_and_nothing_is_stored() {
    let placed = [placed()];
    let ship = moves("x", "paid", "shipped");
    is_told(&placed, &ship, Verdict::TooEarly, Rule::NotYetReached);
    is_told(&[], &pay_plain("x"), Verdict::TooEarly, Rule::NoState);
    is_told(
        &[],
        &moves("x", "", "paid"),
        Verdict::TooEarly,
        Rule::NoState,
    );
    let elsewhere = moves("x", "paid", "shipped").initially("pending");
    is_told(&[], &elsewhere, Verdict::TooEarly, Rule::NotYetReached);
    is_told(
        &placed,
        &pay("x", "p1"),
        Verdict::TooEarly,
        Rule::NotYetKnown,
    );
}

#[test]
fn what_was_too_early_is_applied_once_it_is_time() {
    let mut play = Play::new();
    play.past(&[placed()]);
    let early = play.send(&pay("p", "p1")).decision().verdict;
    assert_eq!(early, Verdict::TooEarly);
    play.past(&[attempt("s1", "p1"), pay("p", "p1")]);
}

#[test]
fn a_value_known_to_be_replaced_outweighs_one_that_is_not_known() {
    let before = [placed(), attempt("s0", "p0"), attempt("s1", "p1")];
    let both = pay("x", "p0").of("a_first", "unknown");
    is_told(&before, &both, Verdict::OtherRound, Rule::Replaced);
    let both = pay("x", "p0").of("z_last", "unknown");
    is_told(&before, &both, Verdict::OtherRound, Rule::Replaced);
}

#[test]
fn identity_is_asked_before_the_state() {
    let before = [
        placed(),
        attempt("s0", "p0"),
        attempt("s1", "p1"),
        moves("c", "pending", "cancelled"),
    ];
    is_told(
        &before,
        &pay("x", "p0"),
        Verdict::OtherRound,
        Rule::Replaced,
    );
    is_told(
        &before,
        &pay("x", "p9"),
        Verdict::TooEarly,
        Rule::NotYetKnown,
    );
}

#[test]
fn a_value_that_comes_into_force_again_is_not_replaced_any_more() {
    let mut play = Play::new();
    play.past(&[
        placed(),
        attempt("s1", "p1"),
        attempt("s2", "p2"),
        attempt("s3", "p1"),
    ]);
    let other = play.send(&pay("x", "p2")).decision().verdict;
    assert_eq!(other, Verdict::OtherRound);
    play.past(&[pay("p", "p1")]);
}

#[test]
fn an_unrelated_change_does_not_turn_a_message_away() {
    let mut play = Play::new();
    play.past(&[placed(), attempt("s1", "p1")]);
    play.past(&[moves("note", "pending", "").sets("note", "ring twice")]);
    play.past(&[pay("p", "p1")]);
}

#[test]
fn an_acknowledged_no_never_becomes_a_yes() {
    let mut play = Play::new();
    play.past(&[placed(), pay_plain("p")]);
    let second = play.send(&pay_plain("x"));
    assert_eq!(second.decision().verdict, Verdict::Superseded);
    play.past(&[moves("back", "paid", "pending")]);
    let again = play.send(&pay_plain("x"));
    assert_eq!(again.decision().verdict, Verdict::Superseded);
    assert_eq!(again.decision().incident, second.decision().incident);
    play.past(&[pay_plain("fresh")]);
}

#[test]
fn no_starts_named_means_from_anywhere_and_no_move_means_once() {
    let mut play = Play::new();
    play.past(&[once("log")]);
    assert_eq!(play.record.as_ref().unwrap().0.state, None);
    play.past(&[placed(), moves("any", "", "cancelled"), once("log2")]);
    let again = play.send(&once("log"));
    assert_eq!(again.decision().verdict, Verdict::Replayed);
    let now = play.record.as_ref().unwrap().0.state.clone();
    assert_eq!(now.unwrap().as_str(), "cancelled");
}
