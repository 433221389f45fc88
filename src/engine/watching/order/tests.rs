use super::*;
use crate::domain::ids::{Mark, RequestId};
use crate::domain::record::{LeaseId, PastRound, Round};
use crate::domain::request::Ttl;
use crate::domain::together::Company;

fn at(revision: i64) -> Revision {
    Revision::from_etcd(revision).unwrap()
}

fn nonce(name: u8) -> Nonce {
    Nonce::from_bytes([name; 16])
}

/// A record whose last round is this one, after these.
fn record(name: u8, over: Option<RoundEnd>, past: &[(u8, RoundEnd)]) -> Record {
    let round = Round {
        nonce: nonce(name),
        request: RequestId::parse("6b1f3c2e-8a4d-4f0e-9b7a-0c5d1e2f3a4b").unwrap(),
        holder: None,
        ttl: Ttl::parse(None).unwrap(),
        lease: LeaseId(1),
        base: 0,
        granted: None,
        over,
        claimed: None,
        claims: 0,
        company: Company::Alone,
    };
    let past = past.iter().map(|(name, end)| PastRound {
        nonce: nonce(*name),
        end: *end,
    });
    Record {
        round: Some(round),
        past_rounds: past.collect(),
        ..Record::default()
    }
}

fn released() -> RoundEnd {
    RoundEnd::Released(Mark::from_bytes([9; 6]))
}

fn told(order: &mut Order) -> Vec<(u64, bool, bool)> {
    let mut told = Vec::new();
    while let Next::Tell(state) = order.next(true) {
        told.push((state.at.get(), state.live, state.gap));
    }
    told
}

fn held_since(revision: i64) -> Order {
    Order::after(&State {
        at: at(revision),
        record: Some((record(1, None, &[]), at(revision))),
        live: true,
        gap: false,
    })
}

#[test]
fn a_release_is_told_once_whichever_of_its_two_changes_is_heard_first() {
    let change = || vec![(Some(record(1, Some(released()), &[])), at(8))];
    let mut order = held_since(5);
    order.records(change());
    assert_eq!(told(&mut order), [(8, false, false)]);
    order.ends(vec![at(8)]);
    assert_eq!(order.next(true), Next::Nothing);
    let mut order = held_since(5);
    order.ends(vec![at(8)]);
    assert_eq!(order.next(true), Next::Look);
    order.looked(Some(at(8)));
    assert_eq!(order.next(true), Next::Nothing, "the record comes");
    order.records(change());
    assert_eq!(told(&mut order), [(8, false, false)]);
}

#[test]
fn a_release_and_the_next_grant_are_no_gap_when_the_end_is_heard_last() {
    let mut order = held_since(5);
    order.records(vec![
        (Some(record(1, Some(released()), &[])), at(8)),
        (Some(record(2, None, &[(1, released())])), at(9)),
        (Some(record(2, None, &[(1, released())])), at(12)),
    ]);
    let three = [(8, false, false), (9, true, false), (12, true, false)];
    assert_eq!(told(&mut order), three);
    order.ends(vec![at(8)]);
    order.records(vec![(Some(record(2, None, &[])), at(13))]);
    assert_eq!(told(&mut order), [(13, true, false)]);
}

#[test]
fn a_lease_that_ran_out_is_told_in_its_place_whatever_is_heard_first() {
    let next_grant = || vec![(Some(record(2, None, &[(1, RoundEnd::Lost)])), at(9))];
    // Nothing came after it.
    let mut order = held_since(5);
    order.ends(vec![at(7)]);
    assert_eq!(order.next(true), Next::Look);
    order.looked(Some(at(5)));
    assert_eq!(told(&mut order), [(7, false, false)]);
    // The next grant was seen when it was looked.
    let mut order = held_since(5);
    order.ends(vec![at(7)]);
    order.looked(Some(at(9)));
    assert_eq!(order.next(true), Next::Nothing);
    order.records(next_grant());
    assert_eq!(told(&mut order), [(7, false, false), (9, true, false)]);
    // The next grant is heard first: it shows that there was an end.
    let mut order = held_since(5);
    order.records(next_grant());
    assert_eq!(order.next(true), Next::Patience);
    order.ends(vec![at(7)]);
    assert_eq!(told(&mut order), [(7, false, false), (9, true, false)]);
}

#[test]
fn what_is_waited_for_in_vain_is_said_to_be_missing_at_once_and_once() {
    let mut order = held_since(5);
    let next = (Some(record(2, None, &[(1, RoundEnd::Lost)])), at(9));
    order.records(vec![next]);
    assert_eq!(order.next(true), Next::Patience);
    let Next::Tell(state) = order.next(false) else {
        panic!("it is told");
    };
    assert_eq!((state.at, state.live, state.gap), (at(9), true, true));
    // That it comes after all is nothing new; another one is.
    order.ends(vec![at(7)]);
    order.records(vec![(Some(record(2, None, &[])), at(11))]);
    assert_eq!(told(&mut order), [(11, true, false)]);
    order.ends(vec![at(8)]);
    order.records(vec![(Some(record(2, Some(released()), &[])), at(12))]);
    assert_eq!(told(&mut order), [(12, false, true)]);
}

#[test]
fn changes_before_an_end_are_told_before_it() {
    let mut order = held_since(5);
    order.ends(vec![at(9)]);
    order.looked(Some(at(7)));
    order.records(vec![(Some(record(1, None, &[])), at(6))]);
    assert_eq!(told(&mut order), [(6, true, false)]);
    assert_eq!(
        order.next(true),
        Next::Nothing,
        "that of 7 is still to come"
    );
    order.records(vec![(Some(record(1, None, &[])), at(7))]);
    assert_eq!(told(&mut order), [(7, true, false), (9, false, false)]);
}

#[test]
fn what_begins_behind_a_revision_shows_nothing_that_it_does_not_know() {
    // The record has not changed since: an end can be shown.
    let mut order = Order::behind(at(5), Some((record(1, None, &[]), at(4))));
    order.ends(vec![at(7)]);
    order.looked(Some(at(4)));
    assert_eq!(told(&mut order), [(7, false, false)]);
    // It has: what there was beside the end is not known.
    let mut order = Order::behind(at(5), None);
    order.ends(vec![at(7)]);
    order.looked(Some(at(9)));
    order.records(vec![(Some(record(2, None, &[(1, RoundEnd::Lost)])), at(9))]);
    assert_eq!(told(&mut order), [(9, true, true)]);
}

#[test]
fn a_record_that_is_removed_leaves_a_free_resource() {
    let mut order = Order::behind(at(5), None);
    order.records(vec![(None, at(8))]);
    assert_eq!(told(&mut order), [(8, false, false)]);
    assert_eq!(order.told(), at(8));
}
