//! A repeated operation: applied once, answered with the first result, never merged with other content.

use super::message::{moves, once, operation, result};
use super::play::Play;
use crate::domain::decision::{Layer, Rule, Verdict};
use crate::domain::ids::Nonce;
use crate::domain::judge::{Answer, Ask, OperationState};
use crate::domain::outcome::StoredResult;

fn verdict(answer: &Answer) -> (Verdict, Rule) {
    (answer.decision().verdict, answer.decision().rule)
}

const REPLAYED: (Verdict, Rule) = (Verdict::Replayed, Rule::SameContent);

#[test]
fn every_copy_gets_the_first_result_byte_for_byte() {
    let results = [
        StoredResult::default(),
        result(b""),
        result(&[0]),
        result(b"null"),
        result(b"false"),
        result(&[0xff, 0xfe]),
        StoredResult {
            content_type: "text/plain".to_owned(),
            headers: vec![("a".to_owned(), "1".to_owned()); 2],
            ..result(&[7; 5000])
        },
    ];
    for first in results {
        let mut play = Play::new();
        let message = once("op").with_result(first.clone());
        let applied = play.send(&message);
        assert_eq!(verdict(&applied), (Verdict::Applied, Rule::RanOnce));
        assert_eq!(applied.decision().result.as_ref(), Some(&first));
        for again in ["", "other"] {
            let copy = play.send(&message.clone().with_result(result(again.as_bytes())));
            assert_eq!(verdict(&copy), REPLAYED);
            assert_eq!(copy.decision().layer, Layer::Replay);
            assert_eq!(copy.decision().result.as_ref(), Some(&first));
            assert!(copy.decision().first_time_ms.is_some(), "seen as repeated");
        }
        assert!(play.incidents.is_empty());
    }
}

#[test]
fn a_copy_is_replayed_although_state_identity_and_holder_have_moved_on() {
    let mut play = Play::new();
    let pay = moves("p", "pending", "paid")
        .of("attempt", "p1")
        .saying("ok");
    play.past(&[
        moves("place", "", "")
            .initially("pending")
            .sets("attempt", "p1"),
        pay.clone(),
        moves("ship", "paid", "shipped").sets("attempt", "p2"),
    ]);
    play.hold(1);
    let copy = play.send(&pay);
    assert_eq!(verdict(&copy), REPLAYED);
    assert_eq!(copy.decision().result, Some(result(b"ok")));
}

#[test]
fn copies_in_one_fold_are_one_application() {
    let mut play = Play::new();
    let message = moves("p", "", "paid").initially("pending").saying("first");
    let asks = [
        play.message(&message),
        play.message(&message.clone().saying("second")),
        play.message(&message.content("99.00 EUR")),
        Ask::Lookup(operation("p").into()),
    ];
    let answers = play.ask_all(&asks);
    assert_eq!(verdict(&answers[0]), (Verdict::Applied, Rule::Moved));
    assert_eq!(verdict(&answers[1]), REPLAYED);
    assert_eq!(answers[1].decision().result, Some(result(b"first")));
    let conflict = (Verdict::Conflict, Rule::OtherContent);
    assert_eq!(verdict(&answers[2]), conflict);
    assert_eq!(answers[3].decision().result, Some(result(b"first")));
    assert_eq!(play.record.as_ref().unwrap().0.moves, 2);
    assert_eq!(play.incidents.len(), 1);
}

#[test]
fn other_content_is_a_conflict_that_alerts_once_and_changes_nothing() {
    let mut play = Play::new();
    let message = moves("p", "", "paid").initially("pending").saying("first");
    play.past(std::slice::from_ref(&message));
    let other = message.clone().content("100.00 EUR").saying("other");
    let mut ids = Vec::new();
    for _ in 0..3 {
        let conflict = play.send(&other);
        let decision = conflict.decision();
        assert_eq!(
            (decision.verdict, decision.layer),
            (Verdict::Conflict, Layer::Digest)
        );
        assert_eq!(decision.result, None, "another's result");
        ids.extend(decision.incident.clone());
        let copy = play.send(&message);
        assert_eq!(verdict(&copy), REPLAYED);
        assert_eq!(copy.decision().result, Some(result(b"first")));
    }
    assert_eq!(ids.len(), 3);
    assert!(ids.iter().all(|id| *id == ids[0]));
    let raised: Vec<_> = play.incidents.values().collect();
    assert_eq!(raised.len(), 1);
    assert_eq!(raised[0].id, ids[0]);
    assert!(raised[0].first_digest.is_some());
    assert_ne!(raised[0].first_digest.as_ref(), raised[0].digest.as_ref());
}

#[test]
fn other_content_of_a_refused_operation_is_a_conflict_too() {
    let mut play = Play::new();
    play.past(&[moves("c", "", "cancelled").initially("pending")]);
    let pay = moves("p", "pending", "paid");
    assert_eq!(play.send(&pay).decision().verdict, Verdict::Rejected);
    let other = play.send(&pay.content("other"));
    assert_eq!(verdict(&other), (Verdict::Conflict, Rule::OtherContent));
}

#[test]
fn a_conflict_raised_before_writes_nothing_again() {
    for apart in [false, true] {
        let mut play = Play::new();
        let size = if apart { 3000 } else { 3 };
        let message = once("op").with_result(result(&vec![7; size]));
        play.past(std::slice::from_ref(&message));
        assert_eq!(play.apart.len(), usize::from(apart));
        let other = message.content("other");
        play.send(&other);
        let ask = play.message(&other);
        assert!(play.fold_now(&[ask]).write.is_none());
    }
}

#[test]
fn a_transition_whose_reply_was_lost_gets_the_first_answer() {
    let messages = [
        moves("x", "pending", "paid").saying("first"),
        once("x").with_result(result(&[1; 9000])),
        moves("x", "old", "paid"),
        moves("x", "pending", "").of("attempt", "p0"),
    ];
    let verdicts = [
        Verdict::Applied,
        Verdict::Applied,
        Verdict::Rejected,
        Verdict::OtherRound,
    ];
    for (message, expected) in messages.iter().zip(verdicts) {
        let before = [
            moves("a", "", "old").initially("old").sets("attempt", "p0"),
            moves("b", "", "pending").sets("attempt", "p1"),
        ];
        let (mut lucky, mut unlucky) = (Play::new(), Play::new());
        lucky.past(&before);
        unlucky.past(&before);
        let ask = unlucky.message(message);
        unlucky.lose(&ask);
        assert_eq!(lucky.message(message).nonce(), ask.nonce());
        let first = lucky.ask(ask.clone());
        let settled = unlucky.ask(ask.clone());
        assert_eq!(first.decision().verdict, expected);
        assert_eq!(settled.decision(), first.decision());
        assert!(unlucky.fold_now(&[ask]).write.is_none(), "written twice");
    }
}

impl Ask {
    fn nonce(&self) -> Option<Nonce> {
        match self {
            Self::Reserve(_, nonce, _)
            | Self::Release(_, _, nonce)
            | Self::Transition(_, nonce) => Some(*nonce),
            _ => None,
        }
    }
}

#[test]
fn after_a_lost_reply_another_copy_is_still_a_replay_and_the_true_first_is_known() {
    let mut play = Play::new();
    let message = once("op").saying("first");
    let first = play.message(&message);
    play.lose(&first);
    let copy = play.message(&message.saying("second"));
    let answers = play.ask_all(&[copy, first]);
    assert_eq!(verdict(&answers[0]), REPLAYED);
    assert_eq!(verdict(&answers[1]), (Verdict::Applied, Rule::RanOnce));
    assert_eq!(answers[0].decision().result, Some(result(b"first")));
}

#[test]
fn a_commit_that_did_not_arrive_leaves_the_operation_to_whoever_comes_first() {
    let mut play = Play::new();
    let first = play.message(&once("op").saying("a"));
    let in_flight = play.fold_now(std::slice::from_ref(&first));
    play.send(&once("op").saying("b"));
    assert!(play.apply(&in_flight).is_err(), "the late one must fall");
    let settled = play.ask(first);
    assert_eq!(verdict(&settled), REPLAYED);
    assert_eq!(settled.decision().result, Some(result(b"b")));
}

#[test]
fn lookup_tells_what_became_of_an_operation_and_changes_nothing() {
    let mut play = Play::new();
    play.past(&[
        moves("empty", "", "cancelled").initially("pending"),
        once("full").saying("x"),
        once("large").with_result(result(&[1; 4000])),
    ]);
    play.send(&moves("no", "pending", "paid"));
    play.send(&moves("early", "shipped", "delivered"));
    let expected = [
        ("empty", OperationState::DoneEmpty, Some(Verdict::Replayed)),
        ("full", OperationState::Done, Some(Verdict::Replayed)),
        ("large", OperationState::Done, Some(Verdict::Replayed)),
        ("no", OperationState::Refused, Some(Verdict::Rejected)),
        ("early", OperationState::NeverSeen, None),
        ("other", OperationState::NeverSeen, None),
    ];
    for (id, state, told) in expected {
        let folded = play.fold_now(&[Ask::Lookup(operation(id).into())]);
        assert!(folded.write.is_none());
        let Answer::Known(known, decision) = play.ask(Ask::Lookup(operation(id).into())) else {
            panic!("not an answer to Lookup")
        };
        assert_eq!(known, state, "{id}");
        assert_eq!(decision.map(|told| told.verdict), told, "{id}");
    }
}
