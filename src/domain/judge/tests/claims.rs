//! Side effects run once: claims, what completes them, and what becomes of those that die.

use super::message::{completing, moves, once, result};
use super::play::{Play, operation_of};
use crate::domain::claim::{
    CLAIM_ATTEMPTS_MAX, OPEN_OPERATIONS_MAX, PAST_CLAIMS_MAX, RETURNED_OPERATIONS_MAX,
};
use crate::domain::decision::{Advice, Rule, Verdict};
use crate::domain::incident::Incident;
use crate::domain::judge::{Answer, Ask, INLINE_BYTES_MAX, Judged, OperationState};
use crate::domain::request::Afterwards;

pub(super) fn verdict(answer: &Answer) -> (Verdict, Rule) {
    (answer.decision().verdict, answer.decision().rule)
}

pub(super) fn pending() -> Play {
    let mut play = Play::new();
    play.past(&[moves("place", "", "pending")
        .initially("new")
        .sets("attempt", "p1")]);
    play
}

pub(super) fn pay() -> super::message::Message {
    moves("pay", "pending", "paid").of("attempt", "p1")
}

pub(super) fn state(play: &Play) -> String {
    let record = &play.record.as_ref().unwrap().0;
    record.state.as_ref().unwrap().as_str().to_owned()
}

pub(super) fn lookup(play: &mut Play, id: &str) -> OperationState {
    match play.ask(Ask::Lookup(super::message::operation(id).into())) {
        Answer::Known(state, _) => state,
        other => panic!("{other:?}"),
    }
}

/// The incident that the answer names, which must have this result as its newest evidence.
#[track_caller]
pub(super) fn kept<'a>(play: &'a Play, answer: &Answer, body: &str) -> &'a Incident {
    let incident = &play.incidents[answer.decision().incident.as_ref().unwrap()];
    let newest = incident.evidence.last().map(|one| &one.result);
    assert_eq!(newest, Some(&result(body.as_bytes())));
    incident
}

#[test]
fn of_ten_copies_one_runs_and_all_get_its_result() {
    let mut play = pending();
    let asks: Vec<_> = (1..=10)
        .map(|request| {
            let nonce = play.nonce();
            pay().claim(&play.resource, request, nonce)
        })
        .collect();
    let answers = play.ask_all(&asks);
    assert_eq!(verdict(&answers[0]), (Verdict::Granted, Rule::Claimed));
    let held = answers[0].held();
    assert_eq!(held.attempt, 1);
    for copy in &answers[1..] {
        assert_eq!(verdict(copy), (Verdict::InProgress, Rule::Running));
        assert_eq!(copy.decision().advice(), Advice::Retry);
        assert!(copy.decision().retry_after.is_some());
    }
    assert_eq!(lookup(&mut play, "pay"), OperationState::Running);
    let id = play.id_of(held.nonce);
    let done = play.complete(&id, "receipt");
    assert_eq!(verdict(&done), (Verdict::Applied, Rule::Moved));
    assert_eq!((state(&play), play.reservation), ("paid".to_owned(), None));
    for request in 1..=10 {
        let again = play.take(&pay(), request);
        assert_eq!(verdict(&again), (Verdict::Replayed, Rule::SameContent));
        assert_eq!(again.decision().result, Some(result(b"receipt")));
    }
    assert!(play.incidents.is_empty());
}

#[test]
fn a_claim_is_judged_like_a_message_and_a_no_leaves_no_reservation() {
    let mut play = pending();
    let early = play.take(&moves("ship", "paid", "shipped"), 1);
    assert_eq!(verdict(&early), (Verdict::TooEarly, Rule::NotYetReached));
    play.past(&[pay()]);
    let second = play.take(&moves("pay 2", "pending", "paid"), 2);
    assert_eq!(verdict(&second), (Verdict::Superseded, Rule::AlreadyMoved));
    let other = play.take(&pay().content("other"), 3);
    assert_eq!(verdict(&other), (Verdict::Conflict, Rule::OtherContent));
    let cancel = play.take(&moves("cancel", "pending", "cancelled"), 4);
    assert_eq!(verdict(&cancel), (Verdict::Rejected, Rule::Passed));
    assert!(cancel.decision().incident.is_some());
    assert_eq!(play.reservation, None);
    assert!(play.record.as_ref().unwrap().0.open.is_empty());
    play.hold(5);
    let busy = play.take(&moves("ship", "paid", "shipped"), 6);
    assert_eq!(verdict(&busy), (Verdict::Busy, Rule::Held));
}

#[test]
fn my_own_retry_gets_my_claim_back_and_a_lost_grant_the_first_answer() {
    let mut play = pending();
    let nonce = play.nonce();
    let ask = pay().claim(&play.resource, 1, nonce);
    play.lose(&ask);
    let first = play.ask(ask);
    assert_eq!(verdict(&first), (Verdict::Granted, Rule::Claimed));
    let again = play.take(&pay(), 1);
    assert_eq!(verdict(&again), (Verdict::Granted, Rule::SameRequest));
    assert_eq!(again.held(), first.held());
    let conflict = play.take(&pay().content("other"), 1);
    assert_eq!(verdict(&conflict), (Verdict::Conflict, Rule::OtherContent));
    let twice = play.take(&pay().content("other"), 1);
    assert_eq!(twice.decision().incident, conflict.decision().incident);
    assert_eq!(play.incidents.len(), 1);
}

#[test]
fn while_a_claim_is_open_nothing_else_moves_not_even_its_holder() {
    let mut play = pending();
    let (id, _) = play.claimed(&pay(), 1);
    let cancel = moves("cancel", "pending", "cancelled");
    let outside = play.send(&cancel);
    assert_eq!(verdict(&outside), (Verdict::Busy, Rule::Held));
    let inside = play.send(&cancel.under(&id));
    assert_eq!(verdict(&inside), (Verdict::Busy, Rule::ClaimOpen));
    play.past(&[once("log").under(&id)]);
    let bare = play.send(&pay());
    assert_eq!(verdict(&bare), (Verdict::InProgress, Rule::Running));
    let done = play.send(&pay().under(&id).saying("receipt"));
    assert_eq!(verdict(&done), (Verdict::Applied, Rule::Moved));
}

#[test]
fn completing_ends_a_round_of_its_own_and_leaves_one_that_it_rides_on() {
    for (ridden, afterwards, stays) in [
        (false, None, false),
        (false, Some(Afterwards::Stays), true),
        (true, None, true),
        (true, Some(Afterwards::Ends), false),
    ] {
        let mut play = pending();
        let mut message = pay();
        let mut token = None;
        if ridden {
            let (id, held) = play.hold(1);
            token = Some(held.token);
            message = message.under(&id);
        }
        let (id, held) = play.claimed(&message, 2);
        assert!(
            token.is_none_or(|token| token == held.token),
            "another round"
        );
        let ask = completing(id.clone(), None, afterwards);
        let nonce = play.nonce();
        let ask = Ask::Complete(ask, nonce);
        play.lose(&ask);
        for _ in 0..2 {
            let done = play.ask(ask.clone());
            assert_eq!(verdict(&done), (Verdict::Applied, Rule::Moved));
        }
        assert_eq!(play.reservation.is_some(), stays, "{ridden} {afterwards:?}");
        let again = play.complete(&id, "");
        assert_eq!(verdict(&again), (Verdict::Replayed, Rule::OtherResult));
    }
}

#[test]
fn a_round_carries_one_claim_at_a_time_and_then_only_the_operation_tells_which_is_meant() {
    let mut play = pending();
    let (id, _) = play.hold(1);
    let nonce = play.nonce();
    let bare = completing(id.clone(), None, None);
    let bare = Ask::Complete(bare, nonce);
    let folded = play.fold_now(std::slice::from_ref(&bare));
    assert!(matches!(
        folded.judged[0],
        Judged::Unfit {
            field: "intent",
            ..
        }
    ));
    play.claimed(&once("mail 1").under(&id), 2);
    let second = play.take(&once("mail 2").under(&id), 3);
    assert_eq!(verdict(&second), (Verdict::Busy, Rule::ClaimOpen));
    assert_eq!(
        verdict(&play.complete(&id, "1")),
        (Verdict::Applied, Rule::RanOnce)
    );
    play.claimed(&once("mail 2").under(&id), 4);
    // A repetition of the first completing must not complete the second.
    let folded = play.fold_now(&[bare]);
    assert!(matches!(folded.judged[0], Judged::Unfit { .. }));
    let again = play.send(&once("mail 1").under(&id).saying("1"));
    assert_eq!(verdict(&again), (Verdict::Replayed, Rule::SameContent));
    let done = play.send(&once("mail 2").under(&id).saying("2"));
    assert_eq!(verdict(&done), (Verdict::Applied, Rule::RanOnce));
}

#[test]
fn an_operation_whose_claim_died_waits_for_a_person_and_so_do_other_moves() {
    let mut play = pending();
    play.claimed(&pay(), 1);
    play.expire();
    assert_eq!(lookup(&mut play, "pay"), OperationState::Interrupted);
    assert!(play.incidents.is_empty(), "a question writes nothing");
    let cancel = moves("cancel", "pending", "cancelled");
    let waits = play.send(&cancel);
    assert_eq!(
        verdict(&waits),
        (Verdict::Interrupted, Rule::OtherInterrupted)
    );
    let found = play.take(&pay(), 2);
    assert_eq!(verdict(&found), (Verdict::Interrupted, Rule::ClaimDied));
    let retry = found.decision().retry_after.unwrap();
    assert!(retry.as_secs() >= 30, "{retry:?} is not long");
    assert_eq!(found.decision().incident, waits.decision().incident);
    assert!(found.decision().incident.is_some());
    assert_eq!(verdict(&play.send(&pay())), verdict(&found));
    assert_eq!(play.incidents.len(), 1);
    assert_eq!(state(&play), "pending");
    play.past(&[once("log")]);
    play.hold(3);
}

#[test]
fn an_interrupted_operation_that_moves_nothing_holds_up_no_move() {
    let mut play = pending();
    play.claimed(&once("mail"), 1);
    play.expire();
    play.past(&[moves("cancel", "pending", "cancelled")]);
    let found = play.take(&once("mail"), 2);
    assert_eq!(verdict(&found), (Verdict::Interrupted, Rule::ClaimDied));
}

#[test]
fn what_may_run_again_does_so_a_few_times_and_then_a_person_decides() {
    let mut play = pending();
    let mut late = Vec::new();
    for attempt in 1..=CLAIM_ATTEMPTS_MAX {
        let (id, held) = play.claimed(&pay().reruns(), attempt as u8);
        assert_eq!(held.attempt, attempt);
        late.push(id);
        play.expire();
        if attempt < CLAIM_ATTEMPTS_MAX {
            let plain = play.send(&pay());
            assert_eq!(verdict(&plain), (Verdict::Interrupted, Rule::NeedsClaim));
            assert!(play.incidents.is_empty());
        }
    }
    let last = play.take(&pay().reruns(), 9);
    assert_eq!(verdict(&last), (Verdict::Interrupted, Rule::ClaimDied));
    assert_eq!(play.incidents.len(), 1);
    for (at, id) in late.iter().enumerate() {
        let body = format!("ran {at}");
        let fenced = play.complete(id, &body);
        assert_eq!(verdict(&fenced), (Verdict::Fenced, Rule::Lost));
        let incident = kept(&play, &fenced, &body);
        assert_eq!(incident.operation, Some(pay().operation));
    }
    assert_eq!(state(&play), "pending");
}

#[test]
fn a_rerun_is_judged_anew_and_a_no_is_reported_because_the_effect_may_have_run() {
    let mut play = pending();
    play.claimed(&pay().reruns(), 1);
    play.expire();
    play.past(&[moves("again", "pending", "").sets("attempt", "p2")]);
    let again = play.take(&pay().reruns(), 2);
    assert_eq!(verdict(&again), (Verdict::OtherRound, Rule::Replaced));
    assert!(again.decision().incident.is_some());
}

#[test]
fn a_late_result_is_kept_while_the_next_attempt_runs_and_after_it_has_finished() {
    let mut play = pending();
    let (first, _) = play.claimed(&pay().reruns(), 1);
    play.expire();
    let (second, _) = play.claimed(&pay().reruns(), 2);
    for (body, rule) in [("a", Rule::Lost), ("b", Rule::DoneWithoutRound)] {
        let late = play.complete(&first, body);
        assert_eq!(verdict(&late), (Verdict::Fenced, rule));
        kept(&play, &late, body);
        if body == "a" {
            assert_eq!(verdict(&play.complete(&second, "ok")).0, Verdict::Applied);
        }
    }
    assert_eq!(play.take(&pay(), 3).decision().result, Some(result(b"ok")));
}

#[test]
fn a_result_of_a_round_too_old_to_tell_what_it_claimed_is_kept_all_the_same() {
    let mut play = pending();
    let (old, _) = play.claimed(&once("mail"), 1);
    play.give_back(&old);
    for request in 2..PAST_CLAIMS_MAX as u8 + 3 {
        let (id, _) = play.claimed(&once(&format!("other {request}")), request);
        play.complete(&id, "");
    }
    let late = play.complete(&old, "ran");
    assert_eq!(verdict(&late).0, Verdict::Fenced);
    let incident = kept(&play, &late, "ran");
    assert_eq!((&incident.operation, &incident.digest), (&None, &None));
}

#[test]
fn a_release_is_taken_for_the_worst_unless_it_says_that_nothing_was_done() {
    let mut play = pending();
    let (id, _) = play.claimed(&pay(), 1);
    let back = play.give_back(&id);
    assert_eq!(verdict(&back), (Verdict::Applied, Rule::Ended));
    assert_eq!(back.decision().incident, None);
    assert_eq!(lookup(&mut play, "pay"), OperationState::NeverSeen);
    let (id, held) = play.claimed(&pay(), 2);
    assert_eq!(held.attempt, 2, "the attempt was not counted");
    let ask = play.release(&id);
    play.lose(&ask);
    let ended = play.ask(ask);
    assert_eq!(verdict(&ended), (Verdict::Applied, Rule::Ended));
    let incident = ended.decision().incident.clone().unwrap();
    assert!(play.incidents.contains_key(&incident));
    assert_eq!(lookup(&mut play, "pay"), OperationState::Interrupted);
    let found = play.take(&pay(), 3);
    assert_eq!(found.decision().incident, Some(incident));
    let too_late = play.give_back(&id);
    assert_eq!(verdict(&too_late), (Verdict::Replayed, Rule::Released));
    assert_eq!(lookup(&mut play, "pay"), OperationState::Interrupted);
}

#[test]
fn what_was_given_back_is_forgotten_in_the_end_and_what_died_is_not() {
    let mut play = Play::new();
    for at in 0..2 * RETURNED_OPERATIONS_MAX {
        let (id, _) = play.claimed(&once(&format!("back {at}")), at as u8);
        play.give_back(&id);
    }
    let open = play.record.as_ref().unwrap().0.open.len();
    assert_eq!(open, RETURNED_OPERATIONS_MAX);
    for at in 0..OPEN_OPERATIONS_MAX {
        play.claimed(&once(&format!("dead {at}")), 100 + at as u8);
        play.expire();
    }
    let nonce = play.nonce();
    let more = once("more").claim(&play.resource, 200, nonce);
    let folded = play.fold_now(&[more]);
    assert!(matches!(folded.judged[0], Judged::Limit { .. }));
    assert_eq!(lookup(&mut play, "dead 0"), OperationState::Interrupted);
}

#[test]
fn an_open_operation_never_leaves_the_record_and_counts_to_its_size() {
    let mut play = Play::new();
    let (id, _) = play.claimed(&once("mail"), 1);
    for at in 0..40 {
        play.past(&[once(&format!("log {at}"))
            .under(&id)
            .saying(&"x".repeat(300))]);
        let record = &play.record.as_ref().unwrap().0;
        assert!(record.open(&super::message::operation("mail")).is_some());
        let open: usize = record.open.iter().map(|open| open.size()).sum();
        let inline: usize = record.operations.iter().map(|done| done.size()).sum();
        assert!(open + inline <= INLINE_BYTES_MAX, "{open} + {inline}");
    }
    assert!(play.record.as_ref().unwrap().0.spilled > 0);
    let done = play.complete(&id, &"y".repeat(3000));
    assert_eq!(verdict(&done), (Verdict::Applied, Rule::RanOnce));
    let again = play.complete(&id, &"y".repeat(3000));
    assert_eq!(verdict(&again), (Verdict::Replayed, Rule::SameContent));
}

#[test]
fn a_claim_over_old_knowledge_falls_at_the_guards() {
    let mut play = pending();
    let nonce = play.nonce();
    let ask = pay().claim(&play.resource, 1, nonce);
    let known = play.standing(&operation_of(&ask).into_iter().collect::<Vec<_>>());
    let folded = play.fold(&known, &[ask]);
    play.claimed(&pay(), 2);
    assert!(play.apply(&folded).is_err(), "two claims of one operation");
    // A claim that dies changes the reservation key alone.
    let id = play.id_of(
        play.record
            .as_ref()
            .unwrap()
            .0
            .round
            .as_ref()
            .unwrap()
            .nonce,
    );
    let complete = completing(id, None, None);
    let nonce = play.nonce();
    let folded = play.fold_now(&[Ask::Complete(complete, nonce)]);
    play.expire();
    assert!(
        play.apply(&folded).is_err(),
        "completed by a claim that had died"
    );
}

#[test]
fn a_claim_that_was_granted_before_a_restore_is_left_to_a_person_whatever_was_declared() {
    for declared in [pay(), pay().reruns()] {
        let mut play = pending();
        let (round, _) = play.claimed(&declared, 1);
        // The store was restored: all reservations ended, and another timeline began.
        play.reservation = None;
        play.timeline.base = 3 * super::play::BASE;
        play.timeline.min_token = play.timeline.base + 1;
        let found = play.take(&declared, 2);
        let told = (Verdict::Interrupted, Rule::OlderTimeline);
        assert_eq!(verdict(&found), told);
        assert!(found.decision().explanation.contains("restored"));
        assert_eq!(lookup(&mut play, "pay"), OperationState::Interrupted);
        let late = play.complete(&round, "receipt");
        assert_eq!(verdict(&late).0, Verdict::Fenced);
        kept(&play, &late, "receipt");
        // Another round comes in the new timeline; the claim stays one of the old.
        let (other, _) = play.hold(7);
        play.let_go(&other);
        assert_eq!(verdict(&play.take(&declared, 3)), told);
    }
}
