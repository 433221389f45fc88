//! Whoever waits comes before whoever comes, and leaves the queue with what it waited for.

use super::claims::{pay, pending, verdict};
use super::message::reserve_as;
use super::play::Play;
use crate::domain::decision::{Rule, Verdict};
use crate::domain::ids::Nonce;
use crate::domain::judge::{Ask, Fold, Judged, Queue, RecordWrite, Turn};
use crate::domain::token::Revision;
use crate::domain::waiter::{Place, WaiterName};

fn place(since: i64) -> Place {
    Place {
        since: Revision::from_etcd(since).unwrap(),
        name: WaiterName {
            arrival: 1,
            nonce: Nonce::from_bytes([7; 16]),
        },
    }
}

/// Somebody who asks, with a place or without, and waits or does not.
type Asks<'a> = (&'a Ask, Option<Place>, bool);

fn fold(
    play: &Play,
    queue: Option<Queue>,
    asks: &[Asks<'_>],
) -> (Vec<Judged>, Option<RecordWrite>) {
    let standing = play.standing(&[]).with_queue(queue);
    let mut fold = Fold::begin(&play.resource, &standing, play.timeline, play.when);
    let judged = asks
        .iter()
        .map(|(ask, place, waits)| fold.judge_placed(ask, *place, *waits));
    (judged.collect(), fold.into_write())
}

fn turn(play: &Play, queue: Option<Queue>, asks: Asks<'_>) -> (Verdict, Rule, Option<Turn>) {
    let (judged, write) = fold(play, queue, &[asks]);
    let [Judged::Answered(draft)] = <[_; 1]>::try_from(judged).unwrap() else {
        panic!("it is judged")
    };
    let at = Revision::from_etcd(1_000);
    let (verdict, rule) = verdict(&draft.finish(at));
    (verdict, rule, write.map(|write| write.turn))
}

#[test]
fn a_grant_says_of_the_queue_whose_turn_it_takes() {
    let mut play = pending();
    let nonce = play.nonce();
    let plain = reserve_as(&play.resource, 1, nonce);
    let claim = pay().claim(&play.resource, 2, nonce);
    let (mine, other) = (place(5), place(4));
    for (ask, rule) in [(&plain, Rule::WasFree), (&claim, Rule::Claimed)] {
        let granted = |turn| (Verdict::Granted, rule, Some(turn));
        let queued = (Verdict::Busy, Rule::Queued, None);
        let first = |place| Some(Queue::First(place));
        let one_of = |since: i64, gone| {
            let since = place(since).since;
            Some(Queue::OneOf { since, gone })
        };
        for (queue, place, waits, expected) in [
            (None, None, false, granted(Turn::OfNobody)),
            (Some(Queue::Nobody), None, false, granted(Turn::OfNobody)),
            (first(other), None, false, queued),
            (Some(Queue::Untrusted), None, false, granted(Turn::None)),
            // Of those who were entered together with it anyone may have been found: only its own commit shows whether it is the first.
            (one_of(5, None), None, false, queued),
            (
                one_of(5, None),
                Some(mine),
                true,
                granted(Turn::OfFirst(mine)),
            ),
            (
                one_of(5, None),
                Some(mine),
                false,
                granted(Turn::OfFirst(mine)),
            ),
            (one_of(4, None), Some(mine), true, queued),
            (one_of(5, Some(mine)), Some(mine), true, queued),
            (None, Some(mine), true, granted(Turn::OfFirst(mine))),
            (first(mine), Some(mine), true, granted(Turn::OfFirst(mine))),
            (first(other), Some(mine), true, queued),
            (first(other), Some(mine), false, queued),
            // Whoever is no longer in the queue may have left: it is granted nothing by its old place,
            (Some(Queue::Nobody), Some(mine), true, queued),
            // unless it is its last question.
            (
                Some(Queue::Nobody),
                Some(mine),
                false,
                granted(Turn::OfNobody),
            ),
            (
                Some(Queue::Untrusted),
                Some(mine),
                true,
                granted(Turn::OutOfOrder(mine)),
            ),
        ] {
            let found = turn(&play, queue, (ask, place, waits));
            assert_eq!(found, expected, "{queue:?} {place:?} {waits}");
        }
    }
}

#[test]
fn those_who_wait_hold_up_nobody_who_has_the_resource_already() {
    let mut play = pending();
    play.take(&pay(), 1);
    let nonce = play.nonce();
    let queue = Some(Queue::First(place(4)));
    let again = pay().claim(&play.resource, 1, nonce);
    let (verdict, rule, _) = turn(&play, queue, (&again, None, false));
    assert_eq!((verdict, rule), (Verdict::Granted, Rule::SameRequest));
}

#[test]
fn a_move_is_judged_at_once_and_one_that_was_queued_keeps_to_the_order() {
    let mut play = pending();
    let nonce = play.nonce();
    let ask = pay().ask(&play.resource, nonce);
    let (mine, other) = (place(5), place(4));
    let moved = |turn| (Verdict::Applied, Rule::Moved, Some(turn));
    let queue = |place| Some(Queue::First(place));
    for (queue, place, waits, expected) in [
        (queue(other), None, false, moved(Turn::None)),
        (queue(mine), Some(mine), true, moved(Turn::OfFirst(mine))),
        (
            queue(other),
            Some(mine),
            true,
            (Verdict::Busy, Rule::Queued, None),
        ),
        (
            queue(other),
            Some(mine),
            false,
            moved(Turn::OutOfOrder(mine)),
        ),
    ] {
        let found = turn(&play, queue, (&ask, place, waits));
        assert_eq!(found, expected, "{queue:?} {place:?} {waits}");
    }
}

#[test]
fn one_commit_takes_one_turn() {
    let mut play = pending();
    let nonce = play.nonce();
    let moves = pay().ask(&play.resource, nonce);
    let nonce = play.nonce();
    let reserve = reserve_as(&play.resource, 2, nonce);
    let mine = place(4);
    let asks: [Asks<'_>; 2] = [(&moves, Some(mine), true), (&reserve, None, false)];
    for queue in [None, Some(Queue::First(mine))] {
        let (judged, write) = fold(&play, queue, &asks);
        assert!(matches!(judged[1], Judged::Later), "{judged:?}");
        assert_eq!(write.unwrap().turn, Turn::OfFirst(mine));
    }
    let reversed = [asks[1], asks[0]];
    let (judged, write) = fold(&play, None, &reversed);
    assert_eq!(write.unwrap().turn, Turn::OfNobody);
    let [_, Judged::Answered(busy)] = <[_; 2]>::try_from(judged).unwrap() else {
        panic!("it is judged")
    };
    let busy = busy.finish(Revision::from_etcd(1_000));
    assert_eq!(verdict(&busy), (Verdict::Busy, Rule::Held));
}
