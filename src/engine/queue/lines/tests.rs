//! Whose turn it is, when a session ends at the wrong moment.

use super::*;
use crate::domain::ids::Kind;
use crate::domain::waiter::WaitingCall;
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

fn at(revision: i64) -> Revision {
    Revision::from_etcd(revision).unwrap()
}

fn resource() -> ResourceId {
    ResourceId::new(Kind::parse("order").unwrap(), "1001").unwrap()
}

/// So many who wait for the resource, in the order of their arrival.
fn waiting(lines: &mut Lines, callers: usize) -> Vec<u64> {
    let seats = Arc::new(Semaphore::new(callers));
    let enter = |_| {
        let seat = Arc::clone(&seats).try_acquire_owned().unwrap();
        let waiter = Waiter {
            holder: None,
            call: WaitingCall::Reserve,
            operation: None,
            request: None,
            also: 0,
            time_ms: 0,
        };
        let follow = |_: &ResourceId| (Arc::default(), CancellationToken::new().drop_guard());
        let resources: Arc<[ResourceId]> = Arc::from([resource()]);
        let (arrival, _, _) = lines.enter(&resources, waiter, Arc::new(seat), follow);
        arrival
    };
    (0..callers).map(enter).collect()
}

/// All who have no place yet get one.
fn entered(lines: &mut Lines, since: i64) {
    let Work::Enter(batch) = lines.work(&mut None) else {
        panic!("they are to be entered")
    };
    lines.written(batch, at(since));
}

fn wakes(lines: &mut Lines, since: i64) -> Option<Place> {
    let known = lines.followed.get(&resource()).unwrap();
    let offer = Offer {
        first: Some(First::OfThose(at(since))),
        changes: known.offer.changes + 1,
    };
    lines.wake(&resource(), offer)
}

#[test]
fn whoever_was_woken_when_the_session_ended_is_woken_again_under_its_new_place() {
    let mut lines = Lines::default();
    let all = waiting(&mut lines, 2);
    entered(&mut lines, 5);
    assert!(wakes(&mut lines, 5).is_some());
    // Before it has looked.
    lines.lost();
    assert_eq!(lines.turn(all[0]), None);
    entered(&mut lines, 9);
    let woken = wakes(&mut lines, 9);
    assert!(woken.is_some(), "nobody is woken any more");
    assert_eq!(lines.turn(all[0]), woken);
    assert_eq!(lines.turn(all[1]), None);
}

#[test]
fn a_question_that_ends_after_its_place_was_lost_ends_no_turn_of_the_next_place() {
    let mut lines = Lines::default();
    let all = waiting(&mut lines, 1);
    entered(&mut lines, 5);
    let old = wakes(&mut lines, 5);
    assert_eq!(lines.turn(all[0]), old);
    lines.lost();
    entered(&mut lines, 9);
    let new = wakes(&mut lines, 9);
    lines.back(all[0], old);
    assert_eq!(lines.turn(all[0]), new);
    lines.back(all[0], new);
    assert_eq!(lines.turn(all[0]), None);
    assert_eq!(wakes(&mut lines, 9), new);
}

#[test]
fn whoever_leaves_gives_its_turn_to_the_next() {
    let mut lines = Lines::default();
    let all = waiting(&mut lines, 2);
    entered(&mut lines, 5);
    assert!(wakes(&mut lines, 5).is_some());
    assert_eq!(wakes(&mut lines, 5), None, "one asks at a time");
    lines.leave(all[0], Left::EmptyHanded);
    let next = wakes(&mut lines, 5);
    assert_eq!(lines.turn(all[1]), next);
    assert!(next.is_some());
}
