//! Claims together with what is kept for a time: open operations stay, and finished ones go like all others.

use std::time::Duration;

use super::claims::{lookup, pay, pending, state, verdict};
use super::message::{completing, moves, once, operation, result};
use super::play::{NOW, Play};
use crate::domain::claim::Finding;
use crate::domain::decision::{Layer, Rule, Verdict};
use crate::domain::ids::{Holder, Reason};
use crate::domain::judge::{Ask, OperationState, Standing};
use crate::domain::request::Purpose;

const RETENTION: Duration = Duration::from_secs(3600);
/// Longer than the retention, the drift and the bound together.
const OVER: Duration = Duration::from_secs(3630);

fn play() -> Play {
    let mut play = Play::new();
    play.when.keeping.operations = RETENTION;
    play.when.keeping.forget = Some(RETENTION);
    play
}

/// Time passes, and the resource is swept more than once.
fn long_after(play: &mut Play) {
    for _ in 0..3 {
        play.pass(OVER);
        play.sweep();
    }
}

#[test]
fn an_open_operation_outlives_every_retention_and_goes_like_others_once_it_is_finished() {
    for settle in [true, false] {
        let mut play = play();
        let (id, _) = play.claimed(&once("mail"), 1);
        if settle {
            play.expire();
        }
        long_after(&mut play);
        let (record, _) = play.record.clone().expect("an open operation was removed");
        assert_eq!(record.open.len(), 1);
        if settle {
            assert_eq!(lookup(&mut play, "mail"), OperationState::Interrupted);
            let told = play.resolve("mail", Finding::Done);
            assert_eq!(verdict(&told).0, Verdict::Applied);
        } else {
            assert_eq!(
                play.complete(&id, "sent").decision().verdict,
                Verdict::Applied
            );
        }
        let again = play.send(&once("mail"));
        assert_eq!(verdict(&again), (Verdict::Replayed, Rule::SameContent));
        long_after(&mut play);
        assert_eq!(play.record, None, "finished, and kept for good");
    }
}

#[test]
fn a_state_is_not_forgotten_under_an_open_move_and_its_record_goes_after_what_was_given_back() {
    let mut play = play();
    play.past(&[moves("place", "", "pending")
        .initially("new")
        .sets("attempt", "p1")]);
    play.claimed(&pay(), 1);
    play.expire();
    long_after(&mut play);
    assert_eq!(state(&play), "pending");
    let told = play.resolve("pay", Finding::NotDone);
    assert_eq!(verdict(&told).0, Verdict::Applied);
    long_after(&mut play);
    assert_eq!(play.record, None, "what was given back holds a record");
}

#[test]
fn an_old_message_is_granted_no_claim_and_one_that_is_claimed_is_completed_whatever_its_age() {
    let mut play = play();
    let made_ms = NOW * 1000;
    let young = pay_once(made_ms);
    let (id, _) = play.claimed(&young, 1);
    play.pass(OVER);
    assert_eq!(
        play.complete(&id, "ok").decision().verdict,
        Verdict::Applied
    );
    let old = once("other").made_at(made_ms);
    let refused = play.take(&old, 2);
    assert_eq!(verdict(&refused), (Verdict::Expired, Rule::TooOld));
    assert_eq!(refused.decision().layer, Layer::Key);
    assert!(refused.decision().incident.is_some());
    assert_eq!(play.reservation, None, "nothing is held for it");
    // What is known to have died is not forgotten, so its age is of no consequence.
    let rerun = pay_once(made_ms + OVER.as_millis() as u64).reruns();
    let rerun = super::message::Message {
        operation: operation("rerun"),
        ..rerun
    };
    play.claimed(&rerun, 3);
    play.expire();
    play.pass(OVER);
    let (_, held) = play.claimed(&rerun, 4);
    assert_eq!(held.attempt, 2);
}

fn pay_once(made_ms: u64) -> super::message::Message {
    once("mail").made_at(made_ms)
}

#[test]
fn who_only_asks_what_completing_would_do_completes_nothing() {
    let mut play = pending();
    let (id, _) = play.claimed(&pay(), 1);
    let before = play.record.clone();
    let named = pay().under(&id).saying("ok").only_asking();
    let mut bare = completing(id.clone(), Some(result(b"ok")), None);
    bare.purpose = Purpose::Validate;
    let nonce = play.nonce();
    for ask in [play.message(&named), Ask::Complete(bare, nonce)] {
        let folded = play.fold_now(std::slice::from_ref(&ask));
        assert!(folded.write.is_none(), "it writes");
        let told = play.ask(ask);
        assert_eq!(verdict(&told), (Verdict::Applied, Rule::Moved));
        assert!(told.decision().only_asked, "it reads as if it had been");
        let now = told.decision().now.clone().unwrap();
        assert!(now.live.is_some(), "its round has not ended");
        assert_eq!(now.state.unwrap().as_str(), "pending");
        assert_eq!(play.record, before);
    }
    assert_eq!(
        play.complete(&id, "ok").decision().verdict,
        Verdict::Applied
    );
}

#[test]
fn a_conflict_names_the_fields_while_the_operation_is_open_and_once_it_is_finished() {
    let mut play = pending();
    let first = pay().content(r#"{"amount":1,"to":"alice"}"#);
    let other = pay().content(r#"{"amount":2,"to":"alice"}"#);
    let (id, _) = play.claimed(&first, 1);
    for finished in [false, true] {
        if finished {
            play.complete(&id, "paid");
        }
        for found in [play.take(&other, 2), play.send(&other)] {
            assert_eq!(verdict(&found), (Verdict::Conflict, Rule::OtherContent));
            assert_eq!(found.decision().differing, ["/amount"], "{finished}");
            let incident = found.decision().incident.as_ref().unwrap();
            assert_eq!(play.incidents[incident].fields, ["/amount"]);
        }
    }
    assert_eq!(play.incidents.len(), 1, "one for the operation");
}

#[test]
fn a_grant_tells_that_another_operation_did_the_same_before_its_effect_runs() {
    let mut play = Play::new();
    let content = r#"{"amount":1,"to":"alice"}"#;
    let (id, _) = play.claimed(&once("first").content(content), 1);
    play.complete(&id, "paid");
    let second = play.take(&once("second").content(content), 2);
    let twin = second.decision().same_content_as.clone();
    assert_eq!(twin, Some(operation("first")));
    let ridden = second.held();
    play.complete(&play.id_of(ridden.nonce), "paid twice");
    let other = play.take(&once("third").content(r#"{"amount":2}"#), 3);
    assert_eq!(other.decision().same_content_as, None);
}

#[test]
fn each_attempt_that_dies_opens_the_closed_incident_again() {
    let mut play = pending();
    for attempt in 1..=3_usize {
        play.claimed(&pay(), attempt as u8);
        play.expire();
        let found = play.take(&pay(), 9);
        assert_eq!(verdict(&found), (Verdict::Interrupted, Rule::ClaimDied));
        let id = found.decision().incident.clone().unwrap();
        let incident = play.incidents.get_mut(&id).unwrap();
        assert!(incident.is_open(), "nobody is told of attempt {attempt}");
        assert_eq!(incident.evidence_count(), attempt);
        let reason = Reason::parse("looked").unwrap();
        incident.close(Holder::parse("alice").unwrap(), reason, 1);
        let again = play.take(&pay(), 9);
        assert_eq!(again.decision().incident.as_ref(), Some(&id));
        assert!(!play.incidents[&id].is_open(), "it was judged");
        play.resolve("pay", Finding::NotDone);
    }
}

#[test]
fn deliveries_of_an_open_operation_are_those_of_the_finished_one() {
    let mut play = pending();
    let (id, _) = play.claimed(&pay(), 1);
    let mut known = play.standing(&[]);
    for delivery in 2..4 {
        let nonce = play.nonce();
        let copy = pay().claim(&play.resource.clone(), 2, nonce);
        let folded = play.fold(&known, &[copy]);
        let draft = super::play::answered(folded.judged.into_iter().next().unwrap());
        known.delivered_again(draft.repeats().unwrap());
        let told = draft.finish(None);
        assert_eq!(verdict(&told), (Verdict::InProgress, Rule::Running));
        assert_eq!(told.decision().deliveries, Some(delivery));
    }
    let nonce = play.nonce();
    let done = Ask::Complete(completing(id, None, None), nonce);
    let folded = play.fold(&known, &[done]);
    play.apply(&folded).unwrap();
    assert_eq!(folded.write.unwrap().counted, [operation("pay")]);
    // Completing brought a result, and not the message once more.
    let again = play.send(&pay());
    assert_eq!(again.decision().deliveries, Some(4));
}

#[test]
fn what_was_remembered_and_is_found_removed_is_known_to_be_absent() {
    let mut play = Play::new();
    play.past(&[once("x")]);
    let operation = play.record.as_ref().unwrap().0.operations[0].clone();
    let id = operation.id.clone();
    let before = Standing::default().with_operations([operation]);
    let now = Standing::absent()
        .remembering(before)
        .with_absent([id.clone()]);
    assert!(now.knows_absent(&[id].into()));
}
