//! What is told to a caller that goes on waiting is no answer to its delivery, and a Reserve without a lease is taken up only when
//! there is one.

use super::claims::{pay, pending, verdict};
use super::message::reserve_as;
use super::play::Play;
use crate::domain::decision::{Rule, Verdict};
use crate::domain::judge::{Answer, Ask, Fold, Judged, ReservationChange};

/// The same, as a caller sends it that has taken no lease.
fn unleased(ask: Ask) -> Ask {
    match ask {
        Ask::Reserve(reserve, nonce, _) => Ask::Reserve(reserve, nonce, None),
        other => other,
    }
}

fn answer(judged: Judged) -> Answer {
    match judged {
        Judged::Answered(draft) => draft.finish(None),
        other => panic!("{other:?}"),
    }
}

fn deliveries(play: &Play, ask: &Ask, waits: usize) -> Option<u32> {
    let standing = play.standing(&[]);
    let mut fold = Fold::begin(&play.resource, &standing, play.timeline, play.when);
    for _ in 0..waits {
        let waits = answer(fold.judge_waiting(ask));
        assert_eq!(verdict(&waits), (Verdict::InProgress, Rule::Running));
    }
    let told = answer(fold.judge(ask));
    assert_eq!(verdict(&told), (Verdict::InProgress, Rule::Running));
    assert!(fold.into_write().is_none());
    told.decision().deliveries
}

#[test]
fn only_what_a_caller_is_told_last_is_a_delivery() {
    let mut play = pending();
    play.take(&pay(), 1);
    let nonce = play.nonce();
    let copy = pay().claim(&play.resource, 2, nonce);
    let once = deliveries(&play, &copy, 0);
    assert_eq!(once, Some(2));
    assert_eq!(deliveries(&play, &copy, 3), once);
}

#[test]
fn a_reserve_without_a_lease_is_left_alone_only_if_it_would_be_granted() {
    let mut play = pending();
    let nonce = play.nonce();
    let claim = unleased(pay().claim(&play.resource, 1, nonce));
    let plain = unleased(reserve_as(&play.resource, 2, nonce));
    for ask in [&claim, &plain] {
        let standing = play.standing(&[]);
        let mut fold = Fold::begin(&play.resource, &standing, play.timeline, play.when);
        assert!(matches!(fold.judge(ask), Judged::Unleased));
        assert!(fold.into_write().is_none(), "nothing of it was taken up");
    }
    play.take(&pay(), 3);
    for (ask, expected) in [(&claim, Verdict::InProgress), (&plain, Verdict::Busy)] {
        let folded = play.fold_now(std::slice::from_ref(ask));
        let [judged] = <[_; 1]>::try_from(folded.judged).unwrap();
        assert_eq!(verdict(&answer(judged)).0, expected);
        let granted = folded.write.map(|write| write.reservation);
        assert!(!matches!(granted, Some(ReservationChange::Grant(_))));
    }
}
