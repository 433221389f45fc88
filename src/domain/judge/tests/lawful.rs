//! Judging by a machine: holders, what a machine cannot judge, and what an operation is.

use super::by_machine::{example, held, pay, under, way_to};
use super::message::{Message, happens, identity, moves, once, state};
use super::play::{Play, answered};
use crate::domain::decision::{Advice, Layer, Rule, Verdict};
use crate::domain::judge::{Ask, Judged, Law, Unlawful};

pub(super) fn unlawful(play: &mut Play, message: &Message) -> Unlawful {
    let ask = play.message(message);
    let mut folded = play.fold_now(&[ask]);
    assert!(folded.write.is_none());
    match folded.judged.pop() {
        Some(Judged::Unlawful(why)) => why,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_holder_is_waited_for_but_not_by_people_and_not_by_what_changes_nothing() {
    let mut play = under(&example("order"), &way_to("pending_payment"));
    let (round, _) = play.hold(1);
    let busy = play.send(&pay("p", "p1"));
    let busy = busy.decision();
    assert_eq!(
        (busy.verdict, busy.advice()),
        (Verdict::Busy, Advice::Retry)
    );
    let person = play.send(&happens("c", "cancel"));
    let person = person.decision();
    assert_eq!(
        (person.verdict, person.advice()),
        (Verdict::Busy, Advice::Refuse)
    );
    play.past(&[happens("n", "note")]);
    assert!(play.reservation.is_some(), "the note ended the round");
    play.past(&[pay("p", "p1").under(&round)]);
}

#[test]
fn named_states_narrow_those_of_the_event() {
    let mut play = under(&example("order"), &way_to("paid"));
    let only = happens("n", "note").starting(&["pending_payment"]);
    let passed = play.send(&only);
    assert_eq!(passed.decision().rule, Rule::Passed);
    assert_eq!(passed.decision().expected, [state("pending_payment")]);
    play.past(&[happens("m", "note").starting(&["paid", "shipped"])]);
    let none = unlawful(&mut play, &happens("k", "note").starting(&["shipped"]));
    assert!(matches!(none, Unlawful::Field { field, .. } if field == "intent.from_states"));
}

#[test]
fn a_request_that_the_machine_cannot_judge_is_told_why_and_nothing_is_kept() {
    let mut play = under(&example("order"), &way_to("pending_payment"));
    let mut field = |message: &Message| match unlawful(&mut play, message) {
        Unlawful::Field { field, reason } => (field, reason),
        other => panic!("{other:?}"),
    };
    for (message, wanted, word) in [
        (once("x"), "intent.event", "kind order"),
        (moves("x", "", "paid"), "intent.move", "kind order"),
        (
            happens("x", "pay"),
            "intent.identity",
            "lacks payment_attempt_id",
        ),
        (happens("x", "start_payment"), "intent.identity", "sets"),
        (
            happens("x", "cancel").of("payment_id", "p"),
            "intent.identity[\"payment_id\"]",
            "no event",
        ),
    ] {
        let (name, reason) = field(&message);
        assert_eq!(name, wanted, "{reason}");
        assert!(reason.contains(word), "{reason}");
    }
    let unknown = unlawful(&mut play, &happens("x", "payed"));
    assert!(matches!(unknown, Unlawful::NoEvent { event, .. } if event.as_str() == "payed"));
    let mut bare = Play::new();
    assert_eq!(
        unlawful(&mut bare, &happens("x", "pay")),
        Unlawful::NoMachine
    );
    bare.law = Law::Unreadable("it is newer".into());
    assert!(
        matches!(unlawful(&mut bare, &once("x")), Unlawful::Mismatch(why) if why.contains("newer"))
    );
}

#[test]
fn one_operation_is_one_event() {
    let mut play = under(&example("order"), &way_to("pending_payment"));
    play.past(&[happens("k", "note")]);
    let other = play.send(&happens("k", "cancel"));
    let other = other.decision();
    assert_eq!(
        (other.verdict, other.rule),
        (Verdict::Conflict, Rule::OtherEvent)
    );
    assert_eq!(other.layer, Layer::Digest);
    assert!(other.incident.is_some());
    let same = play.send(&happens("k", "note"));
    assert_eq!(same.decision().verdict, Verdict::Replayed);
}

#[test]
fn content_that_tells_nothing_apart_is_not_compared() {
    let past = [happens("o", "open").content("one"), held("h", "a")];
    let mut play = under(&example("seat"), &past);
    let again = play.send(&happens("o", "open").content("another"));
    assert_eq!(again.decision().verdict, Verdict::Replayed);
    let other = play.send(&held("h", "a").content("another"));
    assert_eq!(other.decision().verdict, Verdict::Conflict);
}

// H2: reading never creates, and nothing begins anew.
#[test]
fn a_resource_is_created_by_its_event_and_never_again() {
    let mut play = under(&example("order"), &[]);
    let ask = Ask::Inspect;
    let shown = play.ask(ask.clone());
    let allowed: Vec<_> = shown.snapshot().allowed.iter().cloned().collect();
    assert_eq!(allowed.len(), 1);
    assert_eq!(allowed[0].as_str(), "place");
    assert!(play.record.is_none());
    play.past(&way_to("paid"));
    let restarted = play.send(&happens("again", "place"));
    assert_eq!(restarted.decision().verdict, Verdict::Superseded);
    let shown = play.ask(ask);
    assert_eq!(shown.snapshot().state, Some(state("paid")));
    let allowed: Vec<_> = shown
        .snapshot()
        .allowed
        .iter()
        .map(|e| e.as_str())
        .collect();
    assert_eq!(allowed, ["note", "ship"]);
    assert_eq!(
        shown.snapshot().identity,
        [identity("payment_attempt_id", "p1")]
    );
}

#[test]
fn what_the_law_decided_is_guarded_by_it_and_a_replay_is_not() {
    let mut play = under(&example("order"), &way_to("pending_payment"));
    let lawful = |play: &mut Play, message: &Message| {
        let ask = play.message(message);
        play.fold_now(&[ask]).lawful
    };
    assert!(lawful(&mut play, &pay("x", "p1")), "a move");
    assert!(lawful(&mut play, &happens("x", "ship")), "a no");
    assert!(!lawful(&mut play, &happens("w0", "place")), "a replay");
    let reserve = play.reserve(1);
    assert!(!play.fold_now(&[reserve]).lawful, "a reservation");
    let ask = play.message(&happens("x", "unknown"));
    let folded = play.fold_now(&[ask]);
    assert!(folded.lawful, "what it cannot judge");
    assert!(!matches!(folded.judged[0], Judged::Answered(_)));
}

#[test]
fn of_two_in_one_fold_the_second_sees_what_the_first_made() {
    let mut play = under(&example("order"), &way_to("pending_payment"));
    let asks = [
        play.message(&pay("a", "p1")),
        play.message(&happens("b", "cancel")),
    ];
    let folded = play.fold_now(&asks);
    let committed = play.apply(&folded).unwrap();
    let verdicts = folded.judged.into_iter().map(|judged| {
        let answer = answered(judged).finish(committed);
        answer.decision().verdict
    });
    assert_eq!(
        verdicts.collect::<Vec<_>>(),
        [Verdict::Applied, Verdict::Rejected]
    );
}
