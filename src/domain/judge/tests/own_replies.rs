//! What a request that is asked once more is told, whatever others did meanwhile; and what may be told from memory.

use super::by_machine::{example, pay, under, way_to};
use super::claims::verdict;
use super::message::{Message, completing, happens, once, resolution, result};
use super::play::{Play, answered};
use crate::domain::claim::{Finding, RETURNED_OPERATIONS_MAX};
use crate::domain::decision::{Rule, Verdict};
use crate::domain::ids::ReservationId;
use crate::domain::judge::{Ask, Certainty, Judged};
use crate::domain::request::{Afterwards, Left, Running};

fn completes(play: &mut Play, claim: &ReservationId) -> Ask {
    let ask = completing(claim.clone(), Some(result(b"one")), Some(Afterwards::Stays));
    let nonce = play.nonce();
    Ask::Complete(ask, nonce)
}

fn rides(play: &mut Play, message: &Message, claim: &ReservationId) -> Ask {
    let nonce = play.nonce();
    message.clone().under(claim).claim(&play.resource, 9, nonce)
}

#[test]
fn a_completing_whose_reply_was_lost_is_answered_though_its_round_has_claimed_again() {
    for over in [false, true] {
        let mut play = Play::new();
        let (claim, _) = play.claimed(&once("one"), 1);
        let complete = completes(&mut play, &claim);
        play.lose(&complete);
        let ride = rides(&mut play, &once("two"), &claim);
        assert_eq!(play.ask(ride).decision().verdict, Verdict::Granted);
        if over {
            play.let_go(&claim);
            play.hold(7);
        }
        let told = play.ask(complete);
        assert_eq!(verdict(&told), (Verdict::Applied, Rule::RanOnce));
        assert_eq!(told.decision().result, Some(result(b"one")));
    }
}

#[test]
fn a_round_claims_again_only_once_its_completing_was_told() {
    // Its result has gone to a key of its own, where nothing but its name finds it.
    let mut play = Play::new();
    let (claim, _) = play.claimed(&once("one"), 1);
    let complete = completes(&mut play, &claim);
    let ride = rides(&mut play, &once("two"), &claim);
    let folded = play.fold_now(&[complete, ride]);
    assert!(matches!(folded.judged[0], Judged::Answered(_)));
    assert!(matches!(folded.judged[1], Judged::Later));
}

#[test]
fn what_a_live_round_has_carried_is_not_told_from_memory() {
    let mut play = Play::new();
    let (claim, _) = play.claimed(&once("one"), 1);
    let complete = completes(&mut play, &claim);
    play.ask(complete);
    let certainty = |play: &mut Play| {
        let again = completes(play, &claim);
        let folded = play.fold_now(&[again]);
        let draft = answered(folded.judged.into_iter().next().unwrap());
        draft.certainty
    };
    assert_eq!(certainty(&mut play), Certainty::Confirm);
    play.let_go(&claim);
    assert_eq!(certainty(&mut play), Certainty::Fact);
}

/// So many operations whose claims died.
fn died(play: &mut Play, count: usize) -> Vec<String> {
    let ids: Vec<String> = (0..count).map(|at| format!("op {at}")).collect();
    for (at, id) in ids.iter().enumerate() {
        play.claimed(&once(id), u8::try_from(at).unwrap());
        play.expire();
    }
    ids
}

fn not_done(play: &mut Play, id: &str) -> Ask {
    let ask = resolution(&play.resource, id, Finding::NotDone, Running::Spared);
    let nonce = play.nonce();
    Ask::Resolve(Box::new(ask), nonce)
}

#[test]
fn what_was_given_back_last_is_found_by_whoever_gave_it_back() {
    let mut play = Play::new();
    let ids = died(&mut play, RETURNED_OPERATIONS_MAX + 1);
    // The one that was claimed first is given back last.
    for id in ids.iter().rev() {
        let ask = not_done(&mut play, id);
        play.lose(&ask);
        let told = play.ask(ask);
        assert_eq!(verdict(&told), (Verdict::Applied, Rule::Resolved), "{id}");
    }
    let forgotten = not_done(&mut play, ids.last().unwrap());
    let told = play.ask(forgotten);
    assert_eq!(verdict(&told), (Verdict::Rejected, Rule::NeverClaimed));
}

#[test]
fn one_commit_forgets_nothing_that_it_gave_back_itself() {
    let mut play = Play::new();
    let ids = died(&mut play, RETURNED_OPERATIONS_MAX + 1);
    let asks: Vec<_> = ids.iter().map(|id| not_done(&mut play, id)).collect();
    let folded = play.fold_now(&asks);
    let (last, before) = folded.judged.split_last().unwrap();
    assert!(
        before
            .iter()
            .all(|judged| matches!(judged, Judged::Answered(_)))
    );
    assert!(matches!(last, Judged::Later), "{last:?}");
    play.apply(&folded).unwrap();
    for ask in asks {
        let told = play.ask(ask);
        assert_eq!(verdict(&told), (Verdict::Applied, Rule::Resolved));
    }
}

#[test]
fn a_release_with_nothing_done_forgets_nothing_of_its_own_commit_either() {
    let mut play = Play::new();
    let ids = died(&mut play, RETURNED_OPERATIONS_MAX);
    let (claim, _) = play.claimed(&once("last"), 99);
    let mut asks: Vec<_> = ids.iter().map(|id| not_done(&mut play, id)).collect();
    asks.push(Ask::Release(claim, Left::NothingDone, play.nonce()));
    let folded = play.fold_now(&asks);
    assert!(matches!(folded.judged.last(), Some(Judged::Later)));
}

#[test]
fn two_kinds_of_conflict_are_two_incidents() {
    for claimed in [false, true] {
        let mut play = under(&example("order"), &way_to("pending_payment"));
        if claimed {
            play.claimed(&pay("p", "p1"), 1);
        } else {
            play.past(&[pay("p", "p1")]);
        }
        for (message, rule) in [
            (happens("p", "cancel"), Rule::OtherEvent),
            (
                pay("p", "p1").content(r#"{"amount": 1, "currency": "EUR"}"#),
                Rule::OtherContent,
            ),
            (happens("p", "cancel"), Rule::OtherEvent),
        ] {
            let told = play.take(&message, 2);
            assert_eq!(verdict(&told), (Verdict::Conflict, rule), "{claimed}");
            let incident = told.decision().incident.clone().unwrap();
            assert_eq!(play.incidents[&incident].rule, rule, "{claimed}");
        }
        assert_eq!(play.incidents.len(), 2);
    }
}

#[test]
fn every_answer_about_a_claim_knows_the_event_though_only_the_round_is_named() {
    let event = |answer: &crate::domain::judge::Answer| {
        let event = answer.decision().event.as_ref();
        event.map(|event| event.as_str().to_owned())
    };
    let mut play = under(&example("order"), &way_to("pending_payment"));
    let (dead, _) = play.claimed(&pay("p", "p1"), 1);
    play.expire();
    // Late, while it is open.
    let late = play.complete(&dead, "late");
    assert_eq!(late.decision().verdict, Verdict::Fenced);
    assert_eq!(event(&late).as_deref(), Some("pay"));
    play.resolve("p", Finding::NotDone);
    let (claim, _) = play.claimed(&pay("p", "p1"), 2);
    for (body, rule) in [
        ("done", Rule::Moved),
        ("done", Rule::SameContent),
        ("else", Rule::OtherResult),
    ] {
        let told = play.complete(&claim, body);
        assert_eq!(told.decision().rule, rule);
        assert_eq!(event(&told).as_deref(), Some("pay"), "{rule:?}");
    }
    let late = play.complete(&dead, "late");
    assert_eq!(verdict(&late), (Verdict::Fenced, Rule::DoneWithoutRound));
    assert_eq!(event(&late).as_deref(), Some("pay"));
}
