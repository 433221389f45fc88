//! A result that is refused is kept, whoever brings it and however often; and what there is no room for is said.

use std::time::Duration;

use super::by_machine::{example, pay as paid, under, way_to};
use super::claims::{pay, pending, verdict};
use super::message::{Message, happens, moves, once, result};
use super::play::{Play, answered};
use crate::domain::claim::PAST_CLAIMS_MAX;
use crate::domain::decision::{Advice, Rule, Verdict};
use crate::domain::ids::Nonce;
use crate::domain::incident::{EVIDENCE_BYTES_MAX, EVIDENCE_PIECES_MAX, Incident};
use crate::domain::judge::{Answer, Ask, Fold, Judged, KeptEvidence, Queue};
use crate::domain::outcome::RESULT_BODY_BYTES_MAX;
use crate::domain::request::Left;
use crate::domain::token::Revision;
use crate::domain::waiter::{Place, WaiterName};

/// Longer than a retention of an hour.
const OVER: Duration = Duration::from_secs(3_700);

#[track_caller]
fn raised<'a>(play: &'a Play, answer: &Answer) -> &'a Incident {
    let id = answer.decision().incident.as_ref().expect("an incident");
    &play.incidents[id]
}

/// The results in the incident that the answer names, oldest first, without those of claims that died.
#[track_caller]
fn bodies(play: &Play, answer: &Answer) -> Vec<String> {
    let evidence = raised(play, answer).evidence.iter();
    let said = evidence.filter(|one| !one.result.is_empty());
    said.map(|one| String::from_utf8(one.result.body.to_vec()).unwrap())
        .collect()
}

fn cancelled() -> Play {
    let mut play = Play::new();
    play.past(&[
        moves("a", "", "pending").initially("pending"),
        moves("b", "pending", "cancelled"),
    ]);
    play
}

/// Sends the message with each of these results, twice; answers the last answer.
fn all_kept(play: &mut Play, message: &Message, first: &[&str]) -> Answer {
    let mut answers: Vec<Answer> = Vec::new();
    for _ in 0..2 {
        for body in first {
            answers.push(play.send(&message.clone().saying(body)));
        }
    }
    for answer in &answers {
        assert_eq!(verdict(answer), verdict(&answers[0]), "{answer:?}");
        assert!(!answer.decision().result_unkept);
        assert_eq!(bodies(play, answer), first, "{answer:?}");
    }
    assert_eq!(play.incidents.len(), 1, "{:?}", play.incidents);
    answers.pop().unwrap()
}

const CHARGED: [&str; 3] = ["charged 1", "charged 2", "charged 3"];

#[test]
fn each_result_of_what_is_refused_is_kept_without_a_round_and_under_one() {
    let mut play = cancelled();
    let charge = moves("pay", "pending", "paid");
    let last = all_kept(&mut play, &charge, &CHARGED);
    assert_eq!(verdict(&last), (Verdict::Rejected, Rule::Passed));
    let mut play = cancelled();
    let (round, _) = play.hold(1);
    let last = all_kept(&mut play, &charge.under(&round), &CHARGED);
    assert_eq!(verdict(&last), (Verdict::Rejected, Rule::Passed));
}

#[test]
fn each_result_with_another_content_is_kept_without_a_round() {
    let mut play = Play::new();
    play.past(&[once("op").saying("first")]);
    let other = once("op").content("other");
    let last = all_kept(&mut play, &other, &CHARGED);
    assert_eq!(verdict(&last), (Verdict::Conflict, Rule::OtherContent));
    // The same while the first is still under way.
    let mut play = pending();
    play.claimed(&pay(), 1);
    let last = all_kept(&mut play, &pay().content("other"), &CHARGED);
    assert_eq!(verdict(&last), (Verdict::Conflict, Rule::OtherContent));
}

#[test]
fn each_result_of_what_is_too_old_is_kept() {
    let mut play = Play::new();
    play.when.wall_ms = 365 * 24 * 3_600_000;
    let last = all_kept(&mut play, &once("op").made_at(0), &CHARGED);
    assert_eq!(verdict(&last), (Verdict::Expired, Rule::TooOld));
}

#[test]
fn a_result_for_a_claim_that_died_is_kept_whoever_brings_it() {
    for under_a_round in [false, true] {
        for (message, rule) in [(pay(), Rule::ClaimDied), (pay().reruns(), Rule::NeedsClaim)] {
            let mut play = pending();
            play.claimed(&message, 1);
            play.expire();
            let message = match under_a_round {
                true => message.under(&play.hold(2).0),
                false => message,
            };
            let last = all_kept(&mut play, &message, &CHARGED);
            assert_eq!(verdict(&last), (Verdict::Interrupted, rule));
            let evidence = &raised(&play, &last).evidence;
            let died = evidence.iter().filter(|one| one.result.is_empty());
            assert_eq!(died.count(), usize::from(rule == Rule::ClaimDied));
        }
    }
}

#[test]
fn whoever_waits_for_the_resource_is_not_refused_before_the_end_of_the_wait() {
    let mut play = under(&example("order"), &way_to("pending_payment"));
    play.hold(1);
    let nonce = play.nonce();
    let cancel = happens("c", "cancel")
        .saying("charged")
        .ask(&play.resource, nonce);
    for waits in [true, false] {
        let standing = play.standing(&[]);
        let fold = Fold::begin(&play.resource, &standing, play.timeline, play.when);
        let mut fold = fold.under(&play.law);
        let mut judged = fold.judge_placed(&cancel, None, waits);
        if let Some(unread) = fold.unread_evidence().first().cloned() {
            assert!(!waits, "a result is kept of one who waits: {judged:?}");
            let kept = [(unread, KeptEvidence::default())].into();
            let again = Fold::begin(&play.resource, &standing, play.timeline, play.when);
            fold = again.under(&play.law).knowing(&kept);
            judged = fold.judge_placed(&cancel, None, waits);
        }
        let Judged::Answered(draft) = judged else {
            panic!("{judged:?}")
        };
        let told = draft.finish(None);
        assert_eq!(verdict(&told), (Verdict::Busy, Rule::Held));
        // A wait that is cut short ends with what was told on the way.
        let (advice, keeps) = match waits {
            true => (Advice::Retry, 0),
            false => (Advice::Refuse, 1),
        };
        assert_eq!(told.decision().advice(), advice);
        assert_eq!(usize::from(told.decision().incident.is_some()), keeps);
        let written = fold.into_write();
        let incidents = written.map_or(0, |write| write.incidents.len());
        assert_eq!(incidents, keeps);
    }
}

#[test]
fn a_result_of_a_user_who_is_turned_away_while_another_holds_the_resource_is_kept() {
    let mut play = under(&example("order"), &way_to("pending_payment"));
    play.hold(1);
    let cancel = happens("c", "cancel");
    let silent = play.send(&cancel);
    assert_eq!(silent.decision().incident, None);
    let last = all_kept(&mut play, &cancel, &CHARGED);
    assert_eq!(verdict(&last), (Verdict::Busy, Rule::Held));
    assert_eq!(last.decision().advice(), Advice::Refuse);
    // Who is told to come again brings it again.
    let told = play.send(&paid("p", "p1").saying("charged"));
    assert_eq!(verdict(&told), (Verdict::Busy, Rule::Held));
    assert_eq!(told.decision().advice(), Advice::Retry);
    assert_eq!(told.decision().incident, None);
}

#[test]
fn a_user_who_goes_on_waiting_is_told_to_come_again_and_its_result_is_not_kept_yet() {
    let place = |since| Place {
        since: Revision::from_etcd(since).unwrap(),
        name: WaiterName {
            arrival: 1,
            nonce: Nonce::from_bytes([7; 16]),
        },
    };
    for rule in [Rule::Held, Rule::Queued] {
        let mut play = under(&example("order"), &way_to("pending_payment"));
        if rule == Rule::Held {
            play.hold(1);
        }
        let nonce = play.nonce();
        let cancel = happens("c", "cancel").saying("charged");
        let cancel = cancel.ask(&play.resource, nonce);
        // By whichever call: the message itself, or a claim of its effect.
        let nonce = play.nonce();
        let claim = happens("c", "cancel").claim(&play.resource, 3, nonce);
        let standing = play.standing(&[]);
        let standing = standing.with_queue(Some(Queue::First(place(4))));
        let fold = Fold::begin(&play.resource, &standing, play.timeline, play.when);
        let mut fold = fold.under(&play.law);
        for ask in [cancel, claim] {
            for (waits, advice) in [(true, Advice::Retry), (false, Advice::Refuse)] {
                let reserves = matches!(ask, Ask::Reserve(..));
                if !waits && !reserves {
                    continue;
                }
                let judged = fold.judge_placed(&ask, Some(place(5)), waits);
                let told = answered(judged).finish(None);
                assert_eq!(verdict(&told), (Verdict::Busy, rule));
                assert_eq!(told.decision().advice(), advice);
                assert_eq!(told.decision().incident, None);
            }
        }
        assert!(fold.into_write().is_none());
    }
}

#[test]
fn a_result_that_is_kept_already_is_not_written_again() {
    let mut play = cancelled();
    let charge = moves("pay", "pending", "paid");
    for body in CHARGED {
        play.send(&charge.clone().saying(body));
    }
    for body in CHARGED {
        let ask = play.message(&charge.clone().saying(body));
        let folded = play.fold_now(std::slice::from_ref(&ask));
        assert!(folded.write.is_none(), "{folded:?}");
    }
}

#[test]
fn an_incident_that_is_full_takes_no_more_and_whoever_brings_more_is_told() {
    let mut play = cancelled();
    let charge = moves("pay", "pending", "paid");
    let body = |at: usize| format!("charged at {at}");
    for at in 0..EVIDENCE_PIECES_MAX {
        let told = play.send(&charge.clone().saying(&body(at)));
        assert!(!told.decision().result_unkept, "{at}");
    }
    for at in EVIDENCE_PIECES_MAX..EVIDENCE_PIECES_MAX + 3 {
        let told = play.send(&charge.clone().saying(&body(at)));
        assert_eq!(verdict(&told), (Verdict::Rejected, Rule::Passed));
        assert!(told.decision().result_unkept);
        assert!(told.decision().explanation.contains("NOT kept"));
        assert_eq!(bodies(&play, &told).len(), EVIDENCE_PIECES_MAX);
    }
    // What is kept is still known to be.
    let known = play.send(&charge.clone().saying(&body(7)));
    assert!(!known.decision().result_unkept);
    let silent = play.send(&charge);
    assert!(!silent.decision().result_unkept);
}

#[test]
fn an_incident_is_full_of_few_large_results_too_and_small_ones_still_find_room() {
    let mut play = cancelled();
    let charge = moves("pay", "pending", "paid");
    let large = |at: u8| {
        let said = result(&vec![at; RESULT_BODY_BYTES_MAX]);
        charge.clone().with_result(said)
    };
    let fit = (EVIDENCE_BYTES_MAX / RESULT_BODY_BYTES_MAX) as u8;
    for at in 0..fit {
        let told = play.send(&large(at));
        assert!(!told.decision().result_unkept, "{at}");
    }
    assert!(play.send(&large(fit)).decision().result_unkept);
    assert!(!play.send(&large(0)).decision().result_unkept);
}

#[test]
fn that_a_claim_died_is_kept_in_an_incident_that_is_full() {
    let mut play = pending();
    play.claimed(&pay(), 1);
    play.expire();
    for at in 0..=EVIDENCE_PIECES_MAX {
        play.send(&pay().saying(&format!("charged at {at}")));
    }
    play.resolve("pay", crate::domain::claim::Finding::NotDone);
    play.claimed(&pay(), 2);
    play.expire();
    let found = play.take(&pay(), 3);
    assert_eq!(verdict(&found), (Verdict::Interrupted, Rule::ClaimDied));
    let evidence = &raised(&play, &found).evidence;
    let died = evidence.iter().filter(|one| one.result.is_empty());
    assert_eq!(died.count(), 2);
}

#[test]
fn how_an_effect_ended_is_kept_with_the_release_and_that_it_did_also_where_there_is_no_room() {
    let mut play = pending();
    let ended = |play: &mut Play, request: u8, body: &str| {
        let (round, _) = play.claimed(&pay(), request);
        let left = Left::Ended(Box::new(result(body.as_bytes())));
        let nonce = play.nonce();
        let told = play.ask(Ask::Release(round, left, nonce));
        assert_eq!(verdict(&told), (Verdict::Applied, Rule::Ended));
        play.resolve("pay", crate::domain::claim::Finding::NotDone);
        told
    };
    let first = ended(&mut play, 1, "exit code 3");
    assert_eq!(bodies(&play, &first), ["exit code 3"]);
    for at in 1..EVIDENCE_PIECES_MAX {
        ended(&mut play, 1 + at as u8, &format!("exit code {at}"));
    }
    let beyond = ended(&mut play, 200, "exit code 4");
    assert_eq!(bodies(&play, &beyond).len(), EVIDENCE_PIECES_MAX);
    let all = &raised(&play, &beyond).evidence;
    assert_eq!(all.len(), EVIDENCE_PIECES_MAX + 1);
}

#[test]
fn how_an_effect_ended_that_may_run_again_or_was_not_begun_asks_nobody() {
    for (left, message) in [
        (
            Left::Ended(Box::new(result(b"exit code 3"))),
            pay().reruns(),
        ),
        (Left::NothingDone, pay()),
    ] {
        let mut play = pending();
        let (round, _) = play.claimed(&message, 1);
        let nonce = play.nonce();
        let told = play.ask(Ask::Release(round, left, nonce));
        assert_eq!(verdict(&told), (Verdict::Applied, Rule::Ended));
        assert_eq!(told.decision().incident, None);
        assert!(play.incidents.is_empty());
    }
}

#[test]
fn what_is_too_old_is_settled_for_a_sender_that_would_come_again_for_ever() {
    let mut play = under(&example("order"), &way_to("pending_payment"));
    play.when.wall_ms = 365 * 24 * 3_600_000;
    let late = play.send(&paid("p", "p1").made_at(0).saying("charged"));
    assert_eq!(verdict(&late), (Verdict::Expired, Rule::TooOld));
    assert_eq!(late.decision().advice(), Advice::Acknowledge);
    assert_eq!(bodies(&play, &late), ["charged"]);
    let claim = play.take(&paid("q", "p1").made_at(0), 1);
    assert_eq!(verdict(&claim), (Verdict::Expired, Rule::TooOld));
    assert_eq!(claim.decision().advice(), Advice::Acknowledge);
    // Others are refused, as by any other "no".
    let ship = play.send(&happens("s", "ship").made_at(0));
    assert_eq!(ship.decision().advice(), Advice::Refuse);
    let unknown = play.send(&happens("u", "nonsense").made_at(0));
    assert_eq!(unknown.decision().advice(), Advice::Refuse);
}

#[test]
fn a_live_round_is_not_told_that_it_is_over_because_what_it_did_is_forgotten() {
    let mut play = pending();
    play.when.keeping.operations = Duration::from_secs(3_600);
    let (round, _) = play.hold(1);
    play.take(&once("mail").under(&round), 2).held();
    let done = play.complete(&round, "sent");
    assert_eq!(verdict(&done), (Verdict::Applied, Rule::RanOnce));
    play.pass(OVER);
    play.past(&[once("other").under(&round)]);
    let again = play.complete(&round, "sent once more");
    assert_eq!(verdict(&again), (Verdict::Expired, Rule::TooOld));
    assert_eq!(bodies(&play, &again), ["sent once more"]);
    assert_eq!(
        raised(&play, &again).operation.as_ref().unwrap().as_str(),
        "mail"
    );
    assert!(play.reservation.is_some());
    play.past(&[once("yet another").under(&round)]);
    play.let_go(&round);
    let over = play.complete(&round, "sent once more");
    assert_eq!(over.decision().verdict, Verdict::Fenced);
}

#[test]
fn a_late_result_finds_its_operation_as_long_as_that_is_open() {
    for ridden in [false, true] {
        let mut play = pending();
        let round = match ridden {
            true => {
                let (round, _) = play.hold(1);
                play.take(&once("mail").under(&round), 2).held();
                round
            }
            false => play.claimed(&once("mail"), 1).0,
        };
        play.expire();
        for request in 3..PAST_CLAIMS_MAX as u8 + 6 {
            let (id, _) = play.claimed(&once(&format!("other {request}")), request);
            play.complete(&id, "");
        }
        let late = play.complete(&round, "sent");
        assert_eq!(late.decision().verdict, Verdict::Fenced);
        let incident = raised(&play, &late);
        assert_eq!(incident.operation.as_ref().unwrap().as_str(), "mail");
        assert_eq!(bodies(&play, &late), ["sent"]);
    }
}

#[test]
fn an_event_that_is_to_be_put_off_when_it_is_interrupted_asks_a_person_until_there_are_tasks() {
    let text = "\
kind: job
version: 1
retention: 1h
states: { open: {}, done: { final: true } }
events:
  start: { creates: open }
  work: { from: [open], to: done, interrupted: defer }
";
    let mut play = under(text, &[happens("s", "start")]);
    play.claimed(&happens("w", "work"), 1);
    play.expire();
    let found = play.take(&happens("w", "work"), 2);
    assert_eq!(verdict(&found), (Verdict::Interrupted, Rule::ClaimDied));
    assert_eq!(found.decision().advice(), Advice::Retry);
    assert!(found.decision().incident.is_some());
    assert_eq!(play.reservation, None);
}
