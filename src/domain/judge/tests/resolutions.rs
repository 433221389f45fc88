//! What a person finds out about an operation that was interrupted.

use super::claims::{kept, lookup, pay, pending, state, verdict};
use super::message::{moves, resolution, result};
use crate::domain::claim::Finding;
use crate::domain::decision::{Rule, Verdict};
use crate::domain::judge::{Ask, OperationState};
use crate::domain::request::Running;

#[test]
fn a_person_says_that_it_was_done_that_it_was_not_or_that_it_must_not_be() {
    for finding in [Finding::Done, Finding::NotDone, Finding::Refused] {
        let mut play = pending();
        let (id, _) = play.claimed(&pay(), 1);
        play.expire();
        let ask = resolution(&play.resource, "pay", finding, Running::Spared);
        let nonce = play.nonce();
        let ask = Ask::Resolve(Box::new(ask), nonce);
        play.lose(&ask);
        let told = play.ask(ask);
        assert_eq!(verdict(&told), (Verdict::Applied, Rule::Resolved));
        let again = play.resolve("pay", finding);
        assert_eq!(verdict(&again), (Verdict::Replayed, Rule::Finished));
        let late = play.complete(&id, "late");
        assert_eq!(verdict(&late).0, Verdict::Fenced, "{finding:?}");
        kept(&play, &late, "late");
        let next = play.take(&pay(), 2);
        match finding {
            Finding::Done => {
                assert_eq!(verdict(&next), (Verdict::Replayed, Rule::SameContent));
                assert_eq!(next.decision().result, Some(result(b"as the books say")));
                assert_eq!(state(&play), "paid");
                let told = &next.decision().explanation;
                assert!(
                    told.contains("alice") && told.contains("looked into"),
                    "{told}"
                );
            }
            Finding::NotDone => {
                assert_eq!(verdict(&next), (Verdict::Granted, Rule::Claimed));
                assert_eq!(next.held().attempt, 2);
            }
            Finding::Refused => {
                assert_eq!(verdict(&next), (Verdict::Rejected, Rule::Voided));
                let told = &next.decision().explanation;
                assert!(told.contains("alice"), "{told}");
                play.past(&[moves("cancel", "pending", "cancelled")]);
            }
        }
        let contrary = play.resolve("place", Finding::Refused);
        assert_eq!(verdict(&contrary), (Verdict::Rejected, Rule::Finished));
        let unknown = play.resolve("never", Finding::Done);
        assert_eq!(verdict(&unknown), (Verdict::Rejected, Rule::NeverClaimed));
    }
}

#[test]
fn a_running_claim_is_resolved_only_on_demand_and_cannot_be_completed_after() {
    let mut play = pending();
    let (id, _) = play.claimed(&pay(), 1);
    let spared = play.resolve("pay", Finding::Refused);
    assert_eq!(verdict(&spared), (Verdict::InProgress, Rule::Running));
    let mut ask = resolution(&play.resource, "pay", Finding::Done, Running::Ended);
    ask.attempt = Some(2);
    let nonce = play.nonce();
    let other = play.ask(Ask::Resolve(Box::new(ask.clone()), nonce));
    assert_eq!(verdict(&other), (Verdict::Rejected, Rule::OtherAttempt));
    ask.attempt = Some(1);
    let nonce = play.nonce();
    let ended = play.ask(Ask::Resolve(Box::new(ask), nonce));
    assert_eq!(verdict(&ended), (Verdict::Applied, Rule::Resolved));
    assert_eq!((play.reservation, state(&play)), (None, "paid".to_owned()));
    let late = play.complete(&id, "late");
    assert_eq!(verdict(&late), (Verdict::Fenced, Rule::DoneWithoutRound));
    assert!(late.decision().incident.is_some());
}

#[test]
fn a_move_that_a_person_found_done_is_made_only_where_it_still_fits_and_nobody_holds() {
    let mut play = pending();
    play.claimed(&pay().reruns(), 1);
    play.expire();
    let (id, _) = play.hold(2);
    let busy = play.resolve("pay", Finding::Done);
    assert_eq!(verdict(&busy), (Verdict::Busy, Rule::Held));
    play.let_go(&id);
    play.past(&[moves("cancel", "pending", "cancelled")]);
    let passed = play.resolve("pay", Finding::Done);
    assert_eq!(verdict(&passed), (Verdict::Rejected, Rule::Passed));
    assert_eq!(lookup(&mut play, "pay"), OperationState::Interrupted);
    let refused = play.resolve("pay", Finding::Refused);
    assert_eq!(verdict(&refused), (Verdict::Applied, Rule::Resolved));
    assert_eq!(lookup(&mut play, "pay"), OperationState::Refused);
}
