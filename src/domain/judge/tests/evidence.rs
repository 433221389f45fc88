//! Results under a round, and what becomes of those that are not taken.

use super::message::{moves, once, result};
use super::play::Play;
use crate::domain::decision::{Rule, Verdict};
use crate::domain::incident::{Evidence, Incident};
use crate::domain::judge::Answer;

fn verdict(answer: &Answer) -> (Verdict, Rule) {
    (answer.decision().verdict, answer.decision().rule)
}

/// The incident that the answer names, as it was written.
#[track_caller]
fn raised<'a>(play: &'a Play, answer: &Answer) -> &'a Incident {
    let id = answer.decision().incident.as_ref().expect("an incident");
    &play.incidents[id]
}

/// The bodies of the evidence in the incident that the answer names.
#[track_caller]
fn bodies(play: &Play, answer: &Answer) -> Vec<String> {
    let evidence = &raised(play, answer).evidence;
    let body = |one: &Evidence| String::from_utf8(one.result.body.to_vec()).unwrap();
    evidence.iter().map(body).collect()
}

#[track_caller]
fn kept(play: &Play, answer: &Answer, body: &str) {
    let evidence = &raised(play, answer).evidence;
    let same = evidence
        .iter()
        .filter(|one| one.result == result(body.as_bytes()));
    assert_eq!(same.count(), 1, "{evidence:?}");
}

fn cancelled() -> Play {
    let mut play = Play::new();
    play.past(&[
        moves("a", "", "pending")
            .initially("pending")
            .sets("attempt", "p0"),
        moves("b", "pending", "").sets("attempt", "p1"),
        moves("c", "pending", "cancelled"),
    ]);
    play
}

#[test]
fn the_round_that_completed_an_operation_is_replayed_also_when_it_is_over() {
    let mut play = Play::new();
    let (id, _) = play.hold(1);
    let message = once("op").under(&id).saying("first");
    play.past(std::slice::from_ref(&message));
    for next in 2..4 {
        let again = play.send(&message);
        assert_eq!(verdict(&again), (Verdict::Replayed, Rule::SameContent));
        let silent = once("op").under(&id);
        let again = play.send(&silent);
        assert_eq!(verdict(&again), (Verdict::Replayed, Rule::SameContent));
        play.expire();
        play.hold(next);
    }
    assert!(play.incidents.is_empty());
}

#[test]
fn another_result_from_the_same_round_is_kept_and_the_first_is_answered() {
    for first in ["first", &"f".repeat(3000)] {
        let mut play = Play::new();
        let (id, _) = play.hold(1);
        play.past(&[once("op").under(&id).saying(first)]);
        for _ in 0..2 {
            let second = play.send(&once("op").under(&id).saying("second"));
            assert_eq!(verdict(&second), (Verdict::Replayed, Rule::OtherResult));
            assert_eq!(second.decision().result, Some(result(first.as_bytes())));
            kept(&play, &second, "second");
            assert_eq!(play.incidents.len(), 1);
        }
    }
}

#[test]
fn a_result_of_a_round_that_is_over_is_kept_for_each_round_and_never_applied() {
    let mut play = Play::new();
    let mut rounds = Vec::new();
    for request in 1..=2 {
        rounds.push(play.hold(request).0);
        play.expire();
    }
    for (at, id) in rounds.iter().enumerate() {
        let body = format!("ran {at}");
        let message = once("op").under(id).saying(&body);
        for _ in 0..2 {
            let late = play.send(&message);
            assert_eq!(verdict(&late), (Verdict::Fenced, Rule::Lost));
            kept(&play, &late, &body);
        }
    }
    assert_eq!(play.incidents.len(), 1);
    let silent = play.send(&once("op").under(&rounds[0]));
    assert_eq!(silent.decision().incident, None);
    play.past(&[once("op")]);
}

#[test]
fn each_different_result_of_a_round_that_is_over_is_kept_once() {
    let mut play = Play::new();
    let (id, _) = play.hold(1);
    play.expire();
    let told = [("ran", 1), ("ran again", 2), ("ran", 2), ("ran again", 2)];
    for (body, written) in told {
        let late = play.send(&once("op").under(&id).saying(body));
        assert_eq!(verdict(&late), (Verdict::Fenced, Rule::Lost));
        kept(&play, &late, body);
        assert_eq!(bodies(&play, &late).len(), written);
        assert_eq!(play.incidents.len(), 1);
    }
}

#[test]
fn a_result_for_what_was_finished_without_the_round_is_kept() {
    let mut play = Play::new();
    let (id, _) = play.hold(1);
    play.expire();
    play.past(&[once("op").saying("theirs")]);
    let late = play.send(&once("op").under(&id).saying("mine"));
    assert_eq!(verdict(&late), (Verdict::Fenced, Rule::DoneWithoutRound));
    assert_eq!(late.decision().result, None);
    kept(&play, &late, "mine");
}

#[test]
fn a_live_round_gets_the_first_result_of_another_and_its_own_is_kept() {
    let mut play = Play::new();
    play.past(&[once("op").saying("theirs")]);
    let (id, _) = play.hold(1);
    let same = play.send(&once("op").under(&id).saying("theirs"));
    assert_eq!(verdict(&same), (Verdict::Replayed, Rule::SameContent));
    assert_eq!(same.decision().incident, None);
    let late = play.send(&once("op").under(&id).saying("mine"));
    assert_eq!(late.decision().verdict, Verdict::Replayed);
    assert_eq!(late.decision().result, Some(result(b"theirs")));
    kept(&play, &late, "mine");
}

#[test]
fn a_result_with_other_content_is_kept_for_each_round() {
    let mut play = Play::new();
    play.past(&[once("op").saying("theirs")]);
    for (request, body) in [(1, "mine"), (2, "mine too")] {
        let (id, _) = play.hold(request);
        let message = once("op").content("other").under(&id).saying(body);
        for _ in 0..2 {
            let conflict = play.send(&message);
            assert_eq!(verdict(&conflict), (Verdict::Conflict, Rule::OtherContent));
            kept(&play, &conflict, body);
        }
        play.let_go(&id);
    }
    assert_eq!(play.incidents.len(), 1);
}

#[test]
fn a_refused_result_is_kept_in_the_incident_of_the_refusal() {
    for (value, expected) in [("p1", Verdict::Rejected), ("p0", Verdict::OtherRound)] {
        let mut play = cancelled();
        let message = moves("p", "pending", "paid")
            .of("attempt", value)
            .saying("paid");
        let refused = play.send(&message);
        assert_eq!(refused.decision().verdict, expected);
        kept(&play, &refused, "paid");
        let again = play.send(&message);
        assert_eq!(again.decision().incident, refused.decision().incident);
        assert_eq!(play.incidents.len(), 1);
    }
}

#[test]
fn a_result_of_another_round_for_what_was_refused_is_kept_too() {
    for value in ["p1", "p0"] {
        let mut play = cancelled();
        let message = moves("p", "pending", "paid").of("attempt", value);
        let refused = play.send(&message);
        let (id, _) = play.hold(1);
        let late = play.send(&message.under(&id).saying("ran"));
        assert_eq!(verdict(&late), verdict(&refused));
        assert_eq!(bodies(&play, &late), ["ran"]);
        assert_eq!(play.incidents.len(), 1);
    }
}

#[test]
fn a_message_of_a_replaced_round_without_a_result_alerts_nobody() {
    let mut play = cancelled();
    let old = play.send(&moves("p", "pending", "paid").of("attempt", "p0"));
    assert_eq!(verdict(&old), (Verdict::OtherRound, Rule::Replaced));
    assert!(play.incidents.is_empty());
}

#[test]
fn an_incident_tells_what_a_person_needs() {
    let mut play = cancelled();
    let refused = play.send(&moves("p", "pending", "paid").saying("paid"));
    let incident = raised(&play, &refused);
    assert_eq!(incident.operation.as_ref().unwrap().as_str(), "p");
    assert_eq!(incident.resource, play.resource);
    assert_eq!(incident.state.as_ref().unwrap().as_str(), "cancelled");
    assert_eq!((incident.verdict, incident.rule), verdict(&refused));
    assert_eq!(incident.explanation, refused.decision().explanation);
    assert_eq!(incident.first_digest, None);
    let expected = &refused.decision().expected;
    assert_eq!(expected[0].as_str(), "pending");
}
