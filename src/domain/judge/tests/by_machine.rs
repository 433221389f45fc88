//! Judging by a machine: every event in every state, identity, and what the file says of senders.

use std::sync::Arc;

use super::message::{Message, happens, state};
use super::play::Play;
use crate::domain::decision::{Advice, Layer, Rule, Verdict};
use crate::domain::judge::{Answer, Law};
use crate::domain::machine::{InForce, Lineage, Machine};

/// A law from a file.
pub(super) fn law(text: &str) -> Law {
    let reading = Machine::read(text.as_bytes());
    let told: Vec<String> = reading.findings.iter().map(ToString::to_string).collect();
    let machine = reading.machine.unwrap_or_else(|| panic!("{told:#?}"));
    let lineage = Lineage::default().followed_by(&machine);
    Law::Machine(Arc::new(InForce::new(machine, lineage)))
}

pub(super) fn example(name: &str) -> String {
    let path = format!("{}/machines/{name}.yaml", env!("CARGO_MANIFEST_DIR"));
    std::fs::read_to_string(path).unwrap()
}

pub(super) fn under(text: &str, past: &[Message]) -> Play {
    let mut play = Play::new();
    play.law = law(text);
    play.past(past);
    play
}

fn start(id: &str, attempt: &str) -> Message {
    happens(id, "start_payment").of("payment_attempt_id", attempt)
}

pub(super) fn pay(id: &str, attempt: &str) -> Message {
    happens(id, "pay").of("payment_attempt_id", attempt)
}

/// The ways to each state of an order.
pub(super) fn way_to(place: &str) -> Vec<Message> {
    let placed = [happens("w0", "place"), start("w1", "p1")];
    let paid = [&placed[..], &[pay("w2", "p1")]].concat();
    let shipped = [&paid[..], &[happens("w3", "ship")]].concat();
    match place {
        "none" => Vec::new(),
        "pending_payment" => placed.to_vec(),
        "paid" => paid,
        "shipped" => shipped,
        "delivered" => [&shipped[..], &[happens("w4", "deliver")]].concat(),
        "cancelled" => [&placed[..], &[happens("w2", "cancel")]].concat(),
        other => panic!("{other}"),
    }
}

/// One sign for what an answer says: `+` APPLIED, `=` SUPERSEDED, `~` TOO_EARLY, `-` REJECTED; `!` after it: an incident.
fn sign(answer: &Answer) -> String {
    let decision = answer.decision();
    let sign = match decision.verdict {
        Verdict::Applied => "+",
        Verdict::Superseded => "=",
        Verdict::TooEarly => "~",
        Verdict::Rejected => "-",
        other => panic!("{other:?}"),
    };
    let alert = decision.incident.is_some();
    format!("{sign}{}", if alert { "!" } else { "" })
}

#[test]
fn every_event_of_an_order_in_every_state() {
    let events = [
        "place",
        "start_payment",
        "pay",
        "note",
        "ship",
        "deliver",
        "cancel",
        "expire",
    ];
    let table = [
        ("none", "+ ~ ~ ~ ~ ~ ~ ~"),
        ("pending_payment", "=! + + + ~ ~ + +"),
        ("paid", "=! - =! + + ~ - -"),
        ("shipped", "=! - =! -! =! + - -"),
        ("delivered", "=! - =! -! =! =! - -"),
        // The timer's own move was made by the customer: void, and nobody has to hear of it.
        ("cancelled", "=! - -! -! -! -! =! ="),
    ];
    for (place, row) in table {
        let row: Vec<&str> = row.split(' ').collect();
        for (event, wanted) in events.iter().zip(row) {
            let mut play = under(&example("order"), &way_to(place));
            let message = match *event {
                "start_payment" => start("x", "p2"),
                "pay" => pay("x", "p1"),
                other => happens("x", other),
            };
            let answer = play.send(&message);
            assert_eq!(sign(&answer), wanted, "{event} in {place}: {answer:?}");
            assert_eq!(
                answer
                    .decision()
                    .now
                    .as_ref()
                    .unwrap()
                    .machine
                    .unwrap()
                    .get(),
                1
            );
        }
    }
}

// D1: the money of a cancelled order is never booked as its payment, and a person hears of it.
#[test]
fn a_late_payment_is_rejected_by_the_state_and_its_sender_is_told_that_it_is_settled() {
    let mut play = under(&example("order"), &way_to("cancelled"));
    let first = play.send(&pay("x", "p1"));
    let decision = first.decision();
    assert_eq!(
        (decision.verdict, decision.layer),
        (Verdict::Rejected, Layer::State)
    );
    assert_eq!(decision.rule, Rule::Passed);
    // Its provider sends again for ever on a "no".
    assert_eq!(decision.advice(), Advice::Acknowledge);
    assert_eq!(decision.expected, [state("pending_payment")]);
    let again = play.send(&pay("x", "p1"));
    let again = again.decision();
    assert_eq!(
        (again.verdict, again.rule, again.advice(), &again.incident),
        (
            decision.verdict,
            decision.rule,
            decision.advice(),
            &decision.incident
        )
    );
    assert_eq!(again.explanation, decision.explanation);
    let record = &play.record.as_ref().unwrap().0;
    let stored = record.operations.last().unwrap();
    assert_eq!(stored.event.as_ref().unwrap().as_str(), "pay");
    assert_eq!(stored.machine.unwrap().get(), 1);
    // Other content under the key of a sender that never stops is settled, too.
    let conflict = play.send(&pay("x", "p1").content("99 EUR"));
    let conflict = conflict.decision();
    assert_eq!(
        (conflict.verdict, conflict.advice()),
        (Verdict::Conflict, Advice::Acknowledge)
    );
}

// D2: a cancellation after payment, of this attempt and of an older one.
#[test]
fn a_late_cancellation_is_refused_and_that_of_an_older_attempt_is_not_ours() {
    let mut past = way_to("pending_payment");
    past.push(start("w5", "p2"));
    past.push(pay("w6", "p2"));
    let mut play = under(&example("order"), &past);
    let ours = play.send(&happens("c1", "cancel").of("payment_attempt_id", "p2"));
    assert_eq!(
        (sign(&ours).as_str(), ours.decision().advice()),
        ("-", Advice::Refuse)
    );
    let old = play.send(&happens("c0", "cancel").of("payment_attempt_id", "p1"));
    let old = old.decision();
    assert_eq!(
        (old.verdict, old.layer),
        (Verdict::OtherRound, Layer::Identity)
    );
    assert_eq!((old.advice(), &old.incident), (Advice::Acknowledge, &None));
}

// D5: what is compared is the round, not the version.
#[test]
fn an_edited_note_does_not_turn_a_payment_away() {
    let mut past = way_to("pending_payment");
    past.push(happens("n", "note"));
    past.push(pay("p", "p1"));
    under(&example("order"), &past);
}

#[test]
fn with_a_refund_in_the_file_a_payment_of_a_cancelled_and_never_paid_order_still_alerts() {
    let text = example("order").replace(
        "  ship:",
        "  refund: { from: [paid], to: cancelled }\n  ship:",
    );
    let mut never_paid = under(&text, &way_to("cancelled"));
    assert_eq!(sign(&never_paid.send(&pay("x", "p1"))), "-!");
    let refunded = [&way_to("paid")[..], &[happens("r", "refund")]].concat();
    let mut refunded = under(&text, &refunded);
    assert_eq!(sign(&refunded.send(&pay("x", "p1"))), "=!");
}

#[test]
fn a_value_that_can_still_come_makes_a_message_early_and_one_that_cannot_makes_it_wrong() {
    let mut placed = under(&example("order"), &[happens("w", "place")]);
    let early = placed.send(&pay("x", "p1"));
    let early = early.decision();
    assert_eq!(
        (early.verdict, early.rule),
        (Verdict::TooEarly, Rule::NotYetKnown)
    );
    assert_eq!(early.advice(), Advice::Retry);
    placed.past(&[start("s", "p1"), pay("x", "p1")]);
    let mut paid = under(&example("order"), &way_to("paid"));
    let never = paid.send(&pay("x", "p9"));
    let never = never.decision();
    assert_eq!(
        (never.verdict, never.rule),
        (Verdict::Rejected, Rule::NeverKnown)
    );
    assert_eq!(never.layer, Layer::Identity);
    assert!(never.incident.is_some());
    let again = paid.send(&pay("x", "p9"));
    assert_eq!(again.decision().layer, Layer::Identity);
    assert_eq!(again.decision().explanation, never.explanation);
}

pub(super) fn held(id: &str, hold: &str) -> Message {
    happens(id, "hold").of("hold_id", hold)
}

fn of_hold(id: &str, event: &str, hold: &str) -> Message {
    happens(id, event).of("hold_id", hold)
}

// The seat that looks the same again.
#[test]
fn what_was_cleared_belongs_to_another_round_for_ever() {
    let past = [
        happens("o", "open"),
        held("h1", "a"),
        of_hold("r1", "release", "a"),
        held("h2", "b"),
    ];
    let mut play = under(&example("seat"), &past);
    let late = play.send(&of_hold("r1-again", "release", "a"));
    assert_eq!(late.decision().verdict, Verdict::OtherRound);
    assert_eq!(late.decision().incident, None);
    let bought = play.send(&of_hold("b1", "buy", "a"));
    assert_eq!(bought.decision().verdict, Verdict::OtherRound);
    assert!(
        bought.decision().incident.is_some(),
        "somebody must give the money back"
    );
    assert_eq!(play.record.as_ref().unwrap().0.state, Some(state("held")));
    play.past(&[of_hold("r2", "release", "b")]);
    let record = &play.record.as_ref().unwrap().0;
    assert!(
        record
            .identity
            .values()
            .all(|known| known.current.is_none())
    );
    let gone = play.send(&of_hold("x", "release", "b"));
    assert_eq!(gone.decision().verdict, Verdict::OtherRound);
    assert_eq!(gone.snapshot().identity, []);
    // Nobody ever held it under this name.
    let never = play.send(&of_hold("y", "buy", "c"));
    assert_eq!(never.decision().rule, Rule::NotYetKnown);
    play.past(&[held("h3", "c"), of_hold("y", "buy", "c")]);
}

#[test]
fn what_the_file_says_outweighs_what_would_be_derived() {
    let past = [happens("o", "open"), held("h1", "a")];
    let mut play = under(&example("seat"), &past);
    let taken = play.send(&held("h2", "b"));
    let taken = taken.decision();
    assert_eq!(
        (taken.verdict, taken.rule),
        (Verdict::Rejected, Rule::AsSaid)
    );
    assert_eq!((taken.advice(), &taken.incident), (Advice::Refuse, &None));
    let text = example("seat").replace("held: reject, sold", "held: too_early, sold");
    let mut play = under(&text, &past);
    let waits = play.send(&held("h2", "b"));
    assert_eq!(waits.decision().verdict, Verdict::TooEarly);
    assert_eq!(waits.decision().rule, Rule::AsSaid);
    let text = example("seat").replace("held: reject, sold", "held: supersede, sold");
    let mut play = under(&text, &past);
    let done = play.send(&held("h2", "b"));
    assert_eq!(done.decision().verdict, Verdict::Superseded);
    assert_eq!(done.decision().rule, Rule::AsSaid);
}

#[test]
fn a_second_key_for_the_same_move_alerts_unless_the_file_says_that_it_is_the_same() {
    let past = [
        happens("o", "open"),
        held("h1", "a"),
        of_hold("b1", "buy", "a"),
    ];
    let mut play = under(&example("seat"), &past);
    assert_eq!(sign(&play.send(&of_hold("b2", "buy", "a"))), "=!");
    play.past(&[of_hold("a1", "admit", "a")]);
    assert_eq!(sign(&play.send(&of_hold("a2", "admit", "a"))), "=");
}

// An acknowledged "no" never becomes a "yes", though the seat is sold again and again.
#[test]
fn what_was_acknowledged_stays_so_when_its_state_comes_again() {
    let past = [
        happens("o", "open"),
        held("h1", "a"),
        of_hold("b1", "buy", "a"),
    ];
    let mut play = under(&example("seat"), &past);
    let second = play.send(&of_hold("b2", "buy", "a"));
    assert_eq!(second.decision().verdict, Verdict::Superseded);
    play.past(&[of_hold("f", "refund", "a"), held("h2", "a")]);
    let again = play.send(&of_hold("b2", "buy", "a"));
    assert_eq!(again.decision().verdict, Verdict::Superseded);
    play.past(&[of_hold("b3", "buy", "a")]);
}
