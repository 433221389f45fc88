//! Claims of events: judged by the machine in force at the grant, completed as judged, whatever version is in force by then.

use std::sync::Arc;

use super::by_machine::{example, pay, under, way_to};
use super::claims::{state, verdict};
use super::lawful::unlawful;
use super::message::{Message, completing, happens, result};
use super::play::Play;
use crate::domain::claim::Finding;
use crate::domain::decision::{Advice, Rule, Verdict};
use crate::domain::ids::{EventName, ReservationId};
use crate::domain::judge::{Answer, Ask, Judged, Law, Unlawful};
use crate::domain::machine::{InForce, Lineage, Machine};
use crate::domain::request::Purpose;

const JOB: &str = "\
kind: job
version: 1
retention: 1h
states: { open: {}, done: {}, closed: { final: true } }
events:
  start: { creates: open, interrupted: rerun }
  work: { from: [open], to: done, sets: [worker], interrupted: rerun }
  shut: { from: [done], to: closed, clears: [worker] }
";

const LATER: &str = "\
kind: job
version: 2
retention: 1h
states: { open: {}, finished: {}, closed: { final: true } }
events:
  start: { creates: open }
  finish: { from: [open], to: finished, sets: [worker] }
  shut: { from: [finished], to: closed, clears: [worker] }
map: { states: { done: finished }, events: { work: finish } }
";

fn machine(text: &str) -> Machine {
    Machine::read(text.as_bytes()).machine.unwrap()
}

/// The second version, as it knows the first.
fn later() -> Law {
    let (first, second) = (machine(JOB), machine(LATER));
    let lineage = Lineage::default().followed_by(&first);
    let lineage = lineage.remembering(&first, &second).followed_by(&second);
    Law::Machine(Arc::new(InForce::new(second, lineage)))
}

fn work(id: &str) -> Message {
    happens(id, "work").of("worker", "w1")
}

#[test]
fn a_claimed_event_is_completed_as_it_was_judged_and_replayed_to_every_copy() {
    let mut play = under(&example("order"), &way_to("pending_payment"));
    let (claim, held) = play.claimed(&pay("p", "p1"), 1);
    assert_eq!(held.attempt, 1);
    let copy = play.take(&pay("p", "p1"), 2);
    assert_eq!(verdict(&copy), (Verdict::InProgress, Rule::Running));
    // Even its holder waits: the claim comes first.
    let cancel = play.send(&happens("c", "cancel").under(&claim));
    assert_eq!(verdict(&cancel), (Verdict::Busy, Rule::ClaimOpen));
    let done = play.complete(&claim, "receipt");
    assert_eq!(verdict(&done), (Verdict::Applied, Rule::Moved));
    assert_eq!(done.decision().event.as_ref().unwrap().as_str(), "pay");
    assert_eq!((state(&play), play.reservation), ("paid".to_owned(), None));
    let late = play.complete(&claim, "receipt");
    assert_eq!(verdict(&late), (Verdict::Replayed, Rule::SameContent));
    for copy in [play.take(&pay("p", "p1"), 3), play.send(&pay("p", "p1"))] {
        assert_eq!(verdict(&copy), (Verdict::Replayed, Rule::SameContent));
        assert_eq!(copy.decision().result, Some(result(b"receipt")));
    }
    assert!(play.incidents.is_empty());
}

#[test]
fn what_comes_under_the_key_of_a_claimed_event_is_the_same_or_a_conflict() {
    let mut play = under(&example("order"), &way_to("pending_payment"));
    let (claim, _) = play.claimed(&pay("p", "p1"), 1);
    let other = play.take(&pay("p", "p1").content("other"), 2);
    assert_eq!(verdict(&other), (Verdict::Conflict, Rule::OtherContent));
    // Its machine says that the sender would come again for ever.
    assert_eq!(other.decision().advice(), Advice::Acknowledge);
    let event = play.send(&happens("p", "cancel"));
    assert_eq!(verdict(&event), (Verdict::Conflict, Rule::OtherEvent));
    assert_eq!(
        verdict(&play.complete(&claim, "ok")),
        (Verdict::Applied, Rule::Moved)
    );
    let event = play.send(&happens("p", "cancel"));
    assert_eq!(verdict(&event), (Verdict::Conflict, Rule::OtherEvent));
}

#[test]
fn a_no_of_the_machine_is_no_claim() {
    let mut play = under(&example("order"), &way_to("cancelled"));
    let refused = play.take(&pay("p", "p1"), 1);
    assert_eq!(verdict(&refused), (Verdict::Rejected, Rule::Passed));
    assert_eq!(refused.decision().advice(), Advice::Acknowledge);
    assert!(refused.decision().incident.is_some());
    assert_eq!(play.reservation, None);
    let mut play = under(&example("order"), &way_to("pending_payment"));
    play.hold(9);
    let person = play.take(&happens("c", "cancel"), 1);
    assert_eq!(verdict(&person), (Verdict::Busy, Rule::Held));
    assert_eq!(person.decision().advice(), Advice::Refuse);
}

#[test]
fn a_person_is_advised_alike_however_often_and_by_whichever_call_it_asks() {
    let mut play = under(&example("order"), &way_to("pending_payment"));
    play.hold(9);
    let cancel = happens("c", "cancel");
    // The same attempt again, another one, and another message.
    let asked = [
        (cancel.clone(), 1),
        (cancel.clone(), 1),
        (cancel, 2),
        (happens("d", "cancel"), 3),
    ];
    for (message, request) in asked {
        for told in [play.take(&message, request), play.send(&message)] {
            assert_eq!(verdict(&told), (Verdict::Busy, Rule::Held));
            assert_eq!(told.decision().advice(), Advice::Refuse);
        }
    }
}

#[test]
fn the_event_says_what_becomes_of_an_interruption() {
    // A person decides.
    let mut play = under(&example("order"), &way_to("pending_payment"));
    play.claimed(&pay("p", "p1"), 1);
    play.expire();
    let asked = play.take(&pay("p", "p1"), 2);
    assert_eq!(verdict(&asked), (Verdict::Interrupted, Rule::ClaimDied));
    let waits = play.send(&happens("c", "cancel"));
    assert_eq!(
        verdict(&waits),
        (Verdict::Interrupted, Rule::OtherInterrupted)
    );
    // What neither moves nor sets need not wait.
    play.past(&[happens("n", "note")]);
    let resolved = play.resolve("p", Finding::Done);
    assert_eq!(verdict(&resolved), (Verdict::Applied, Rule::Resolved));
    assert_eq!(state(&play), "paid");

    // It may run again.
    let mut play = under(JOB, &[happens("s", "start")]);
    let (first, _) = play.claimed(&work("w"), 1);
    play.expire();
    let (second, held) = play.claimed(&work("w"), 2);
    assert_eq!(held.attempt, 2);
    assert_eq!(
        play.complete(&first, "late").decision().verdict,
        Verdict::Fenced
    );
    let done = play.complete(&second, "ok");
    assert_eq!(verdict(&done), (Verdict::Applied, Rule::Moved));

    // Which is for the machine alone to say.
    let told = unlawful(&mut play, &work("x").reruns());
    assert!(
        matches!(told, Unlawful::Field { field, .. } if field == "intent.rerun_if_interrupted")
    );
}

const PAYMENT: &str = "\
kind: payment
version: 1
retention: 1h
states: { open: {}, paid: { final: true }, failed: { final: true } }
events:
  begin: { creates: open, sets: [attempt] }
  pay: { from: [open], to: paid, matches: [attempt] }
  pay_failed: { from: [open], to: failed, matches: [attempt], clears: [attempt] }
  retried: { from: [open], sets: [retry] }
  reopened: { from: [failed], to: open }
";

fn outcome(play: &mut Play, claim: &ReservationId, event: &str) -> Result<Answer, Unlawful> {
    let mut ask = completing(claim.clone(), Some(result(b"declined")), None);
    ask.outcome = Some(EventName::parse(event).unwrap());
    let nonce = play.nonce();
    let ask = Ask::Complete(ask, nonce);
    let mut folded = play.fold_now(std::slice::from_ref(&ask));
    match folded.judged.pop() {
        Some(Judged::Unlawful(why)) => Err(why),
        Some(_) => Ok(play.ask(ask)),
        None => panic!("not judged"),
    }
}

#[test]
fn an_effect_may_turn_out_otherwise_than_was_intended() {
    let begin = happens("b", "begin").of("attempt", "a1");
    let text = PAYMENT.replace("from: [failed]", "from: [paid]").replace(
        "paid: { final: true }, failed: { final: true }",
        "paid: {}, failed: { final: true }",
    );
    let mut play = under(&text, &[begin]);
    let pay = happens("p", "pay").of("attempt", "a1");
    let (claim, _) = play.claimed(&pay, 1);
    for (event, word) in [
        ("reopened", "does not allow"),
        ("retried", "sets retry"),
        ("begin", "does not allow"),
    ] {
        match outcome(&mut play, &claim, event) {
            Err(Unlawful::Field { field, reason }) => {
                assert_eq!(field, "outcome_event");
                assert!(reason.contains(word), "{reason}");
            }
            other => panic!("{event}: {other:?}"),
        }
    }
    let unknown = outcome(&mut play, &claim, "declined");
    assert!(matches!(unknown, Err(Unlawful::NoEvent { .. })));
    let copy = play.take(&pay, 2);
    assert_eq!(verdict(&copy), (Verdict::InProgress, Rule::Running));

    let failed = outcome(&mut play, &claim, "pay_failed").unwrap();
    assert_eq!(verdict(&failed), (Verdict::Applied, Rule::Moved));
    assert_eq!(state(&play), "failed");
    let record = &play.record.as_ref().unwrap().0;
    assert!(
        record
            .identity
            .values()
            .all(|known| known.current.is_none())
    );
    // Copies of the message get what came of it, and so does a repeated completing.
    let copy = play.take(&pay, 3);
    assert_eq!(verdict(&copy), (Verdict::Replayed, Rule::SameContent));
    assert_eq!(copy.decision().result, Some(result(b"declined")));
    let again = outcome(&mut play, &claim, "pay_failed").unwrap();
    assert_eq!(verdict(&again), (Verdict::Replayed, Rule::SameContent));
}

#[test]
fn a_resource_may_begin_with_a_claim() {
    let mut play = under(JOB, &[]);
    let (claim, _) = play.claimed(&happens("s", "start"), 1);
    assert_eq!(
        verdict(&play.complete(&claim, "made")),
        (Verdict::Applied, Rule::Moved)
    );
    assert_eq!(state(&play), "open");
    let mut play = under(JOB, &[]);
    play.claimed(&happens("s", "start"), 1);
    play.expire();
    let resolved = play.resolve("s", Finding::Done);
    assert_eq!(verdict(&resolved), (Verdict::Applied, Rule::Resolved));
    assert_eq!(state(&play), "open");
}

#[test]
fn what_was_created_meanwhile_is_not_created_again_by_what_a_person_says() {
    let mut play = under(JOB, &[]);
    let (claim, _) = play.claimed(&happens("s", "start"), 1);
    play.give_back(&claim);
    play.past(&[happens("other", "start"), work("w")]);
    let resolved = play.resolve("s", Finding::Done);
    assert_eq!(verdict(&resolved), (Verdict::Rejected, Rule::Passed));
    assert_eq!(state(&play), "done");
}

#[test]
fn what_would_come_of_completing_ends_no_round() {
    let mut play = under(JOB, &[happens("s", "start")]);
    let (claim, _) = play.claimed(&work("w"), 1);
    let mut ask = completing(claim.clone(), None, None);
    ask.purpose = Purpose::Validate;
    let nonce = play.nonce();
    let told = play.ask(Ask::Complete(ask, nonce));
    assert!(matches!(told, Answer::Judged(_)), "{told:?}");
    assert_eq!(verdict(&told), (Verdict::Applied, Rule::Moved));
    assert!(play.reservation.is_some());
}

#[test]
fn a_claim_goes_on_under_a_later_version_with_its_target_led_along() {
    let mut play = under(JOB, &[happens("s", "start")]);
    let (claim, _) = play.claimed(&work("w"), 1);
    play.law = later();
    // The event as the sender still calls it, and as it is called now.
    for name in ["work", "finish"] {
        let copy = play.take(&happens("w", name).of("worker", "w1"), 7);
        assert_eq!(verdict(&copy), (Verdict::InProgress, Rule::Running));
    }
    assert_eq!(
        verdict(&play.complete(&claim, "ok")),
        (Verdict::Applied, Rule::Moved)
    );
    assert_eq!(state(&play), "finished");
    let again = play.take(&work("w"), 8);
    assert_eq!(verdict(&again), (Verdict::Replayed, Rule::SameContent));
    let shut = play.claimed(&happens("z", "shut"), 9).0;
    assert_eq!(
        verdict(&play.complete(&shut, "bye")),
        (Verdict::Applied, Rule::Moved)
    );
    let worker = play.record.as_ref().unwrap().0.identity.values().next();
    assert_eq!(
        worker.unwrap().current,
        None,
        "its round ends with the move"
    );
}

#[test]
fn what_a_person_says_was_done_is_led_along_too() {
    let mut play = under(JOB, &[happens("s", "start")]);
    play.claimed(&work("w"), 1);
    play.expire();
    play.law = later();
    let resolved = play.resolve("w", Finding::Done);
    assert_eq!(verdict(&resolved), (Verdict::Applied, Rule::Resolved));
    assert_eq!(state(&play), "finished");
}
