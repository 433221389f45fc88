//! Reservations: one at a time, tokens that rise, and rounds that are over change nothing.

use super::message::{moves, reserve_as};
use super::play::{Play, answered};
use crate::domain::decision::{Advice, Rule, Verdict};
use crate::domain::ids::Nonce;
use crate::domain::judge::{Ask, Judged, Standing};
use crate::domain::record::{PAST_ROUNDS_MAX, RoundEnd};

fn verdict(answer: &crate::domain::judge::Answer) -> (Verdict, Rule) {
    (answer.decision().verdict, answer.decision().rule)
}

#[test]
fn only_one_holds_and_the_others_are_told_when_to_ask_again() {
    let mut play = Play::new();
    let (_, held) = play.hold(1);
    let other = play.reserve(2);
    let other = play.ask(other);
    assert_eq!(verdict(&other), (Verdict::Busy, Rule::Held));
    assert!(other.decision().retry_after.is_some());
    assert_eq!(
        other.snapshot().live.as_ref().unwrap().token,
        held.token,
        "shows whose it is"
    );
}

#[test]
fn each_grant_has_a_larger_token_however_the_one_before_it_ended() {
    let mut play = Play::new();
    let mut last = 0;
    for request in 1..20 {
        let (id, held) = play.hold(request);
        assert!(held.token.get() > last);
        last = held.token.get();
        if request % 2 == 0 {
            play.let_go(&id);
        } else {
            play.expire();
        }
    }
}

#[test]
fn the_token_is_that_of_the_grant_also_after_other_writes() {
    let mut play = Play::new();
    let (id, held) = play.hold(1);
    play.past(&[moves("a", "", "x").initially("new").under(&id)]);
    play.past(&[moves("b", "", "y").under(&id)]);
    let again = play.ask(Ask::Check(id));
    assert_eq!(again.held(), held);
}

#[test]
fn the_same_request_gets_its_own_round_back() {
    let mut play = Play::new();
    let (_, held) = play.hold(1);
    let retry = play.reserve(1);
    let retry = play.ask(retry);
    assert_eq!(verdict(&retry), (Verdict::Granted, Rule::SameRequest));
    assert_eq!(retry.held(), held);
}

#[test]
fn a_request_whose_round_is_over_is_not_granted_again() {
    let mut play = Play::new();
    let (id, _) = play.hold(1);
    play.let_go(&id);
    let retry = play.reserve(1);
    let retry = play.ask(retry);
    assert_eq!(verdict(&retry), (Verdict::Fenced, Rule::Released));
    assert_eq!(retry.decision().advice(), Advice::Abandon);
    let (_, _) = play.hold(2);
    play.expire();
    let retry = play.reserve(2);
    let retry = play.ask(retry);
    assert_eq!(verdict(&retry), (Verdict::Fenced, Rule::Lost));
}

#[test]
fn a_reserve_whose_reply_was_lost_gets_the_first_answer() {
    let mut play = Play::new();
    let ask = play.reserve(1);
    play.lose(&ask);
    let granted = play.reservation;
    let answer = play.ask(ask);
    assert_eq!(verdict(&answer), (Verdict::Granted, Rule::WasFree));
    assert_eq!(play.reservation, granted, "no second grant");
    let token = super::play::BASE + granted.unwrap().get();
    assert_eq!(answer.held().token.get(), token);
}

#[test]
fn a_lost_grant_that_ended_meanwhile_is_over_and_its_name_is_not_used_again() {
    let mut play = Play::new();
    let ask = play.reserve(1);
    play.lose(&ask);
    play.expire();
    assert_eq!(
        verdict(&play.ask(ask.clone())),
        (Verdict::Fenced, Rule::Lost)
    );
    let (id, _) = play.hold(2);
    assert_eq!(verdict(&play.ask(ask.clone())), (Verdict::Busy, Rule::Held));
    play.let_go(&id);
    assert_eq!(verdict(&play.ask(ask)), (Verdict::Fenced, Rule::Lost));
}

#[test]
fn a_release_whose_reply_was_lost_gets_the_first_answer_also_under_the_next_round() {
    let mut play = Play::new();
    let (first, _) = play.hold(1);
    let release = play.release(&first);
    play.lose(&release);
    let own = play.ask(release.clone());
    assert_eq!(verdict(&own), (Verdict::Applied, Rule::Ended));
    let (_, held) = play.hold(2);
    let own = play.ask(release);
    assert_eq!(verdict(&own), (Verdict::Applied, Rule::Ended));
    assert_eq!(own.snapshot().live.as_ref().unwrap().token, held.token);
}

#[test]
fn a_late_release_leaves_the_next_round_alone_and_shows_its_token() {
    for released in [true, false] {
        let mut play = Play::new();
        let (first, _) = play.hold(1);
        let rule = if released {
            play.let_go(&first);
            Rule::Released
        } else {
            play.expire();
            Rule::Lost
        };
        assert_eq!(verdict(&play.let_go(&first)), (Verdict::Replayed, rule));
        let (second, held) = play.hold(2);
        let late = play.let_go(&first);
        assert_eq!(verdict(&late), (Verdict::Replayed, rule));
        assert_eq!(late.snapshot().live.as_ref().unwrap().token, held.token);
        assert_eq!(play.ask(Ask::Check(second)).held(), held);
    }
}

#[test]
fn a_round_that_is_over_neither_renews_nor_moves_anything() {
    let mut play = Play::new();
    play.past(&[moves("place", "", "").initially("pending")]);
    let (first, _) = play.hold(1);
    play.expire();
    let message = moves("p", "pending", "paid").under(&first);
    for _ in 0..2 {
        let renewed = play.ask(Ask::Check(first.clone()));
        assert_eq!(verdict(&renewed), (Verdict::Fenced, Rule::Lost));
        let moved = play.send(&message);
        assert_eq!(verdict(&moved), (Verdict::Fenced, Rule::Lost));
        assert_eq!(moved.snapshot().state.as_ref().unwrap().as_str(), "pending");
        // The second time another round makes the resource look the same.
        play.hold(2);
    }
}

#[test]
fn a_resource_that_was_never_reserved_knows_no_round() {
    let mut play = Play::new();
    let made_up = play.id_of(Nonce::from_bytes([200; 16]));
    let (renew, release) = (play.ask(Ask::Check(made_up.clone())), play.let_go(&made_up));
    assert_eq!(verdict(&renew), (Verdict::Fenced, Rule::Over));
    assert_eq!(verdict(&release), (Verdict::Replayed, Rule::Over));
    assert!(play.record.is_none(), "a question created a record");
}

#[test]
fn while_held_only_the_live_round_moves_it() {
    let mut play = Play::new();
    play.past(&[moves("place", "", "").initially("pending")]);
    let (id, _) = play.hold(1);
    let message = moves("p", "pending", "paid");
    let outside = play.send(&message);
    assert_eq!(verdict(&outside), (Verdict::Busy, Rule::Held));
    let logged = play.send(&super::message::once("log"));
    assert_eq!(verdict(&logged), (Verdict::Busy, Rule::Held));
    play.past(&[message.under(&id)]);
}

#[test]
fn rounds_beyond_those_remembered_are_over_without_a_reason() {
    let mut play = Play::new();
    let rounds: Vec<_> = (0..12)
        .map(|request| {
            let (id, _) = play.hold(request + 1);
            play.let_go(&id);
            id
        })
        .collect();
    let record = &play.record.as_ref().unwrap().0;
    assert_eq!(record.past_rounds.len(), PAST_ROUNDS_MAX);
    for (age, id) in rounds.iter().rev().enumerate() {
        let known = age <= PAST_ROUNDS_MAX;
        let rule = if known { Rule::Released } else { Rule::Over };
        assert_eq!(verdict(&play.let_go(id)), (Verdict::Replayed, rule));
    }
}

#[test]
fn a_release_and_the_next_grant_are_never_one_commit() {
    let mut play = Play::new();
    let (id, _) = play.hold(1);
    let asks = [play.release(&id), play.reserve(2)];
    let folded = play.fold_now(&asks);
    assert!(matches!(folded.judged[1], Judged::Later));
    play.apply(&folded).unwrap();
    assert_eq!(play.reservation, None);
    let (_, _) = play.hold(2);
}

#[test]
fn a_grant_and_its_own_end_are_never_one_commit() {
    let mut play = Play::new();
    let grant = play.reserve(1);
    let Ask::Reserve(_, nonce, _) = &grant else {
        panic!("not a reserve")
    };
    let id = play.id_of(*nonce);
    let asks = [grant, play.release(&id), Ask::Check(id)];
    let folded = play.fold_now(&asks);
    assert!(matches!(folded.judged[1], Judged::Later));
    assert!(matches!(folded.judged[2], Judged::Later));
    play.apply(&folded).unwrap();
    assert!(play.reservation.is_some());
}

#[test]
fn two_reserves_in_one_fold_are_one_grant() {
    let mut play = Play::new();
    let asks = [play.reserve(1), play.reserve(2), play.reserve(1)];
    let answers = play.ask_all(&asks);
    assert_eq!(verdict(&answers[0]), (Verdict::Granted, Rule::WasFree));
    assert_eq!(verdict(&answers[1]), (Verdict::Busy, Rule::Held));
    assert_eq!(verdict(&answers[2]), (Verdict::Granted, Rule::SameRequest));
    assert_eq!(answers[0].held(), answers[2].held());
    let live = answers[1].snapshot().live.clone().unwrap();
    assert_eq!(live.token, answers[0].held().token);
}

#[test]
fn two_releases_in_one_fold_end_the_round_once() {
    let mut play = Play::new();
    let (id, _) = play.hold(1);
    let asks = [play.release(&id), play.release(&id), Ask::Check(id)];
    let answers = play.ask_all(&asks);
    assert_eq!(verdict(&answers[0]), (Verdict::Applied, Rule::Ended));
    assert_eq!(verdict(&answers[1]), (Verdict::Replayed, Rule::Released));
    assert_eq!(verdict(&answers[2]), (Verdict::Fenced, Rule::Released));
}

#[test]
fn in_one_fold_a_released_round_no_longer_moves_the_resource() {
    let mut play = Play::new();
    let (id, _) = play.hold(1);
    let message = moves("p", "", "paid").initially("pending").under(&id);
    let asks = [play.release(&id), play.message(&message)];
    let answers = play.ask_all(&asks);
    assert_eq!(verdict(&answers[1]), (Verdict::Fenced, Rule::Released));
    assert_eq!(play.record.as_ref().unwrap().0.state, None);
}

#[test]
fn a_commit_that_passes_a_dead_round_writes_down_how_it_ended() {
    let mut play = Play::new();
    play.hold(1);
    play.expire();
    play.past(&[super::message::once("log")]);
    let round = play.record.as_ref().unwrap().0.round.clone().unwrap();
    assert_eq!(round.over, Some(RoundEnd::Lost));
    assert!(round.granted.is_some(), "the token is kept");
}

#[test]
fn a_reservation_key_that_the_record_does_not_name_is_reported() {
    let mut play = Play::new();
    let foreign = play.step();
    assert!(Standing::seen(None, Some(foreign)).is_err());
    let (id, _) = play.hold(1);
    let foreign = play.step();
    assert!(Standing::seen(play.record.clone(), Some(foreign)).is_err());
    let live = play.reservation;
    play.let_go(&id);
    assert!(Standing::seen(play.record.clone(), live).is_err());
}

#[test]
fn a_guess_that_nothing_was_written_falls_at_the_guards() {
    let mut play = Play::new();
    play.hold(1);
    let ask = reserve_as(&play.resource, 2, Nonce::from_bytes([99; 16]));
    let folded = play.fold(&Standing::absent(), &[ask]);
    assert!(play.apply(&folded).is_err());
    let draft = answered(folded.judged[0].clone());
    assert_eq!(draft.certainty, crate::domain::judge::Certainty::Confirm);
}
