//! What an effect turned out to be is stored, told, and held against what is said of it later.

use super::by_machine::under;
use super::claims::{state, verdict};
use super::message::{Message, completing, happens, operation, result};
use super::play::Play;
use crate::domain::decision::{Rule, Verdict};
use crate::domain::ids::{EventName, ReservationId};
use crate::domain::judge::{Answer, Ask, OperationState};

const PAYMENT: &str = "\
kind: order
version: 1
retention: 1h
states: { open: {}, paid: { final: true } }
events:
  begin: { creates: open, sets: [attempt] }
  pay: { from: [open], to: paid, matches: [attempt] }
  decline: { from: [open], matches: [attempt], clears: [attempt] }
  retry: { from: [open], sets: [attempt] }
";

fn begun() -> Play {
    under(PAYMENT, &[happens("b", "begin").of("attempt", "a1")])
}

fn pay(id: &str, attempt: &str) -> Message {
    happens(id, "pay").of("attempt", attempt)
}

/// Completes by the round alone; an outcome that is not said is as was claimed.
fn end(play: &mut Play, claim: &ReservationId, outcome: &str, body: &str) -> Answer {
    let said = (!body.is_empty()).then(|| result(body.as_bytes()));
    let mut ask = completing(claim.clone(), said, None);
    ask.outcome = (!outcome.is_empty()).then(|| EventName::parse(outcome).unwrap());
    let nonce = play.nonce();
    play.ask(Ask::Complete(ask, nonce))
}

#[test]
fn another_outcome_is_answered_with_the_first_result_and_told_to_a_person() {
    for body in ["", "receipt"] {
        for (first, same, other) in [
            ("decline", "decline", ""),
            ("decline", "decline", "pay"),
            ("", "", "decline"),
            ("", "pay", "decline"),
            ("pay", "", "decline"),
        ] {
            let mut play = begun();
            let (claim, _) = play.claimed(&pay("p", "a1"), 1);
            let done = end(&mut play, &claim, first, body);
            assert_eq!(verdict(&done), (Verdict::Applied, Rule::Moved));
            let stands = state(&play);
            let again = end(&mut play, &claim, same, body);
            assert_eq!(verdict(&again), (Verdict::Replayed, Rule::SameContent));
            assert!(play.incidents.is_empty());
            for _ in 0..2 {
                let again = end(&mut play, &claim, other, body);
                assert_eq!(verdict(&again), (Verdict::Replayed, Rule::OtherOutcome));
                let decision = again.decision();
                assert_eq!(decision.result, done.decision().result, "{first} {other}");
                let incident = &play.incidents[decision.incident.as_ref().unwrap()];
                assert_eq!(incident.rule, Rule::OtherOutcome);
                assert!(incident.explanation.contains("decline"), "{incident:?}");
                assert_eq!((play.incidents.len(), state(&play)), (1, stands.clone()));
            }
        }
    }
}

#[test]
fn copies_and_lookups_are_told_how_it_turned_out() {
    let mut play = begun();
    let (claim, _) = play.claimed(&pay("p", "a1"), 1);
    end(&mut play, &claim, "decline", "no money");
    let copy = play.take(&pay("p", "a1"), 2);
    assert_eq!(verdict(&copy), (Verdict::Replayed, Rule::SameContent));
    assert_eq!(copy.decision().result, Some(result(b"no money")));
    let lookup = play.ask(Ask::Lookup(operation("p").into()));
    assert!(matches!(lookup, Answer::Known(OperationState::Done, _)));
    for told in [&copy, &lookup] {
        let text = &told.decision().explanation;
        assert!(text.ends_with("it turned out as event decline"), "{text}");
    }
}

#[test]
fn what_was_declined_has_not_done_what_a_second_try_does() {
    // With a way back, so that a second payment is judged at all.
    let text = PAYMENT
        .replace("paid: { final: true }", "paid: {}")
        .replace(
            "retry: { from: [open]",
            "back: { from: [paid], to: open }\n  retry: { from: [open]",
        )
        .replace(
            "states: { open: {},",
            "states: { open: {}, gone: { final: true },",
        )
        .replace(
            "events:\n",
            "events:\n  leave: { from: [open], to: gone }\n",
        );
    let twin = |outcome: &str| {
        let mut play = under(&text, &[happens("b", "begin").of("attempt", "a1")]);
        let (claim, _) = play.claimed(&pay("p", "a1"), 1);
        end(&mut play, &claim, outcome, "said");
        if outcome.is_empty() {
            play.past(&[happens("back", "back")]);
        }
        play.past(&[happens("r", "retry").of("attempt", "a2")]);
        let second = play.take(&pay("p2", "a2"), 2);
        assert_eq!(verdict(&second), (Verdict::Granted, Rule::Claimed));
        second.decision().same_content_as.clone()
    };
    assert_eq!(twin(""), Some(operation("p")));
    assert_eq!(twin("decline"), None);
}

#[test]
fn an_outcome_that_a_later_version_calls_otherwise_is_the_same() {
    let mut play = begun();
    let (claim, _) = play.claimed(&pay("p", "a1"), 1);
    end(&mut play, &claim, "decline", "no money");
    let later = PAYMENT
        .replace("version: 1", "version: 2")
        .replace("decline:", "refuse:")
        + "map: { events: { decline: refuse } }\n";
    play.law = super::versions::after(&[PAYMENT, &later]);
    for name in ["decline", "refuse"] {
        let again = end(&mut play, &claim, name, "no money");
        assert_eq!(verdict(&again), (Verdict::Replayed, Rule::SameContent));
    }
    let other = end(&mut play, &claim, "pay", "no money");
    assert_eq!(verdict(&other), (Verdict::Replayed, Rule::OtherOutcome));
}
