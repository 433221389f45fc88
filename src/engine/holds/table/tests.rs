use super::*;
use crate::domain::decision::{Layer, Rule, Verdict};
use crate::domain::ids::Kind;
use crate::domain::record::LeaseId;
use crate::domain::request::Ttl;
use crate::domain::token::FencingToken;

const TTL: Duration = Duration::from_secs(30);

fn resource(name: &str) -> ResourceId {
    ResourceId::new(Kind::parse("seat").unwrap(), name).unwrap()
}

fn entry(name: &str, ttl: Duration, arrived: Boottime, certain: Option<Boottime>) -> Entry {
    let nonce = Nonce::from_bytes([7; 16]);
    let reservation = ReservationId::new(resource(name), nonce);
    let holding = Holding {
        reservation: reservation.clone(),
        round: HeldRound {
            nonce,
            token: FencingToken::shown(7).unwrap(),
            ttl: Ttl::parse(Some(ttl)).unwrap(),
            lease: LeaseId(7),
            attempt: 0,
            several: false,
        },
        granted: None,
    };
    let mailbox = Arc::new(Mailbox::new([reservation]));
    Entry::new(holding, mailbox, 0, arrived, certain)
}

fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

fn name(tried: &Try) -> &str {
    tried.holding.reservation.resource().id()
}

#[test]
fn of_those_that_are_due_the_one_that_ends_first_is_renewed_first() {
    let now = Boottime::now();
    let mut table = Table::default();
    table.insert(entry("long", seconds(60), now, None));
    table.insert(entry("short", seconds(3), now, None));
    table.insert(entry("known", TTL, now, Some(now.plus(seconds(1)))));
    let mut order = Vec::new();
    while let Some(due) = table.take_due(now) {
        order.push(name(&due).to_owned());
    }
    assert_eq!(order, ["known", "short", "long"]);
    assert!(!table.has_due(), "what is tried is not tried twice");
}

#[test]
fn what_is_not_confirmed_is_given_up_before_its_time_is_over_also_while_it_is_tried() {
    let now = Boottime::now();
    let mut table = Table::default();
    let id = table.insert(entry("a", TTL, now, None));
    assert!(table.take_due(now).is_some());
    let until = now.plus(seconds(40));
    table.confirmed(id, until, now.plus(seconds(10)));
    assert!(table.take_due(now.plus(seconds(9))).is_none());
    assert!(table.take_due(now.plus(seconds(10))).is_some());
    table.failed(id, now.plus(seconds(11)));
    assert!(table.take_due(now.plus(seconds(11))).is_some());
    let just_before = until.minus(LOST_BEFORE);
    assert!(
        table
            .given_up(just_before.minus(Duration::from_millis(1)))
            .is_empty()
    );
    assert_eq!(table.given_up(just_before).len(), 1);
    assert_eq!((table.len(), table.next_moment()), (0, None));
    // A renewal that comes back now finds nothing to prolong.
    assert!(table.confirmed(id, until.plus(TTL), until).is_none());
    assert_eq!(table.len(), 0);
}

#[test]
fn a_renewal_never_shortens_what_is_certain_and_the_holder_counts_from_the_opening() {
    let opened = Boottime::now();
    let mut table = Table::default();
    let id = table.insert(entry("a", TTL, opened, Some(opened.plus(seconds(20)))));
    let told = |table: &mut Table, until: u64| {
        let next = opened.plus(seconds(1000));
        let entry = table.confirmed(id, opened.plus(seconds(until)), next);
        entry.unwrap().grant().safe_for
    };
    assert_eq!(told(&mut table, 30), seconds(30));
    assert_eq!(told(&mut table, 25), seconds(30));
    assert_eq!(told(&mut table, 400), seconds(400));
}

#[test]
fn nothing_is_promised_of_a_reservation_that_no_renewal_was_confirmed_of() {
    let now = Boottime::now();
    let mut table = Table::default();
    let id = table.insert(entry("a", TTL, now, None));
    assert_eq!(
        table.failed(id, now).unwrap().grant().safe_for,
        Duration::ZERO
    );
    assert!(table.given_up(now.plus(TTL / 2)).is_empty());
    assert_eq!(table.given_up(now.plus(TTL)).len(), 1);
}

#[test]
fn who_waits_for_a_renewal_with_half_its_time_left_is_late_until_it_is_renewed() {
    let now = Boottime::now();
    let mut table = Table::default();
    let ids: Vec<_> = (0..10)
        .map(|at| table.insert(entry(&at.to_string(), TTL, now, None)))
        .collect();
    let half = now.plus(TTL / 2);
    assert_eq!(table.late(half.minus(seconds(1)), usize::MAX), 0);
    assert_eq!(table.late(half, usize::MAX), 10);
    assert_eq!(table.late(half, 3), 3);
    for id in &ids[..4] {
        table.confirmed(*id, now.plus(TTL * 2), half);
    }
    assert_eq!(table.late(half, usize::MAX), 6);
}

#[test]
fn a_reservation_that_is_said_to_be_over_is_looked_at_now_and_once() {
    let now = Boottime::now();
    let mut table = Table::default();
    let id = table.insert(entry("a", TTL, now, None));
    assert!(!table.take_due(now).unwrap().suspect);
    let later = now.plus(TTL / 3);
    table.confirmed(id, now.plus(TTL), later);
    table.suspect(&resource("other"));
    assert!(table.take_due(now).is_none());
    table.suspect(&resource("a"));
    assert!(table.take_due(now).unwrap().suspect);
    // Said again while it is looked at: once more, for that look may have come before.
    table.suspect(&resource("a"));
    table.confirmed(id, now.plus(TTL), later);
    assert!(table.take_due(now).unwrap().suspect);
    table.confirmed(id, now.plus(TTL), later);
    assert!(table.take_due(now).is_none());
}

#[test]
fn the_loss_that_is_decided_here_says_that_the_time_ran_out() {
    let lost = crate::engine::holds::ran_out();
    let said = (lost.verdict, lost.layer, lost.rule);
    assert_eq!(said, (Verdict::Fenced, Layer::Fence, Rule::Lost));
}

#[test]
fn who_is_taken_up_late_in_its_time_is_late_only_after_it_could_be_tried() {
    let now = Boottime::now();
    let mut table = Table::default();
    // A third of its time is left.
    let certain = now.plus(TTL / 3);
    let id = table.insert(entry("a", TTL, now, Some(certain)));
    assert_eq!(table.late(now, 1), 0);
    let tried = now.plus(renewal::try_limit(TTL));
    assert_eq!(table.late(tried.minus(Duration::from_millis(1)), 1), 0);
    assert_eq!(table.late(tried, 1), 1);
    // From its first renewal on it is late as any other.
    table.confirmed(id, now.plus(TTL), now.plus(TTL / 3));
    let late = now.plus(TTL).minus(renewal::late_with(TTL));
    assert_eq!(table.late(late.minus(Duration::from_millis(1)), 1), 0);
    assert_eq!(table.late(late, 1), 1);
}

#[test]
fn a_renewal_is_due_from_its_time_on_while_it_is_tried_and_until_it_is_confirmed_or_has_failed() {
    let now = Boottime::now();
    let mut table = Table::default();
    let id = table.insert(entry("a", TTL, now, None));
    table.insert(entry("b", TTL, now, None));
    assert_eq!(table.due(now), 2);
    assert!(table.take_due(now).is_some() && table.take_due(now).is_some());
    assert_eq!(table.due(now), 2, "they are tried");
    let next = now.plus(seconds(10));
    table.confirmed(id, now.plus(TTL), next);
    assert_eq!(table.due(now), 1);
    assert_eq!(table.due(next), 2, "though nobody has looked since");
    table.remove(id);
    assert_eq!(table.due(next), 1);
}
