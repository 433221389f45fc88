//! What is measured, and what fits together. What etcd makes of it is tested on etcd.

use etcd_client::proto::{PbTxnRequest, PbTxnRequestOp};
use prost::Message as _;

use super::batch::BATCH_MEMBERS_MAX;
use super::*;
use crate::domain::decision::{Rule, Verdict};
use crate::domain::digest::{ContentDigest, FieldHashes};
use crate::domain::ids::{Kind, Mark, Nonce};
use crate::domain::incident::Incident;
use crate::domain::judge::Gone;
use crate::domain::outcome::StoredResult;
use crate::domain::record::{Deliveries, LeaseId, Operation, Raised, Record};
use crate::domain::timeline::Stored;
use crate::domain::token::Timeline;
use crate::domain::waiter::{Place, WaiterName};
use crate::store::keys::Prefix;

fn resource(id: usize) -> ResourceId {
    ResourceId::new(Kind::parse("order").unwrap(), &id.to_string()).unwrap()
}

fn operation(id: usize, body: usize) -> Operation {
    Operation {
        id: OperationId::parse(&format!("op-{id}")).unwrap(),
        digest: ContentDigest::none(),
        verdict: Verdict::Applied,
        rule: Rule::RanOnce,
        result: StoredResult {
            body: vec![b'x'; body].into(),
            ..StoredResult::default()
        },
        time_ms: 1,
        mark: Mark::from_bytes([1; 6]),
        round: None,
        state: None,
        expected: Vec::new(),
        raised: Raised::default(),
        resolved: None,
        fields: FieldHashes::default(),
        expiry: None,
        deliveries: Deliveries::default(),
        event: None,
        machine: None,
        keeps_retrying: false,
        outcome: None,
    }
}

fn incident(id: &str) -> Incident {
    Incident {
        id: IncidentId(id.to_owned()),
        resource: resource(0),
        operation: Some(OperationId::parse("op").unwrap()),
        verdict: Verdict::Conflict,
        rule: Rule::OtherContent,
        explanation: String::new(),
        time_ms: 1,
        first_digest: None,
        digest: Some(ContentDigest::none()),
        evidence: Vec::new(),
        more_evidence: 0,
        unkept: 0,
        state: None,
        sender: None,
        fields: Vec::new(),
        again: 0,
        last_ms: 1,
        last_digest: None,
        closing: None,
        expiry: None,
    }
}

/// A commit that writes so many operations of such a size.
fn commit(id: usize, operations: usize, body: usize) -> Commit {
    let operations: Vec<_> = (0..operations).map(|n| operation(n, body)).collect();
    Commit {
        resource: resource(id),
        seen: Revision::from_etcd(i64::MAX),
        reservation: ReservationGuard::Absent,
        machine: MachineGuard::Absent,
        queue: QueueGuard::None,
        leaves: None,
        absent_operations: operations.iter().map(|o| o.id.clone()).collect(),
        record: Some(Record::default()),
        reservation_write: ReservationWrite::Keep,
        operations,
        incidents: Vec::new(),
        gone: Gone::default(),
    }
}

/// The same, in the turn of one who waits.
fn in_turn(commit: Commit) -> Commit {
    let nonce = Nonce::from_bytes([255; 16]);
    let arrival = u64::MAX;
    let place = Place {
        since: Revision::from_etcd(i64::MAX).unwrap(),
        name: WaiterName { arrival, nonce },
    };
    Commit {
        queue: QueueGuard::First(place),
        leaves: Some(place.name),
        ..commit
    }
}

fn prepare(commit: &Commit) -> Prepared {
    let known = Known {
        stored: Stored::first(Timeline::first(Nonce::from_bytes([0; 16]), 1)),
        changed: Revision::from_etcd(1).unwrap(),
    };
    Prepared::new(
        &Keys::new(Prefix::default()),
        known,
        std::slice::from_ref(commit),
    )
}

#[test]
fn the_measure_is_never_below_what_is_sent() {
    let mut commits = vec![commit(1, 0, 0), commit(2, 1, 10), commit(3, 40, 70_000)];
    commits[1].incidents = vec![incident("inc-1"), incident("inc-2")];
    commits[1].reservation = ReservationGuard::GrantedAt(Revision::from_etcd(i64::MAX).unwrap());
    commits[1].reservation_write = ReservationWrite::Delete;
    commits[0].record = None;
    commits.push(in_turn(commit(7, 0, 0)));
    let mut together = 0;
    let mut members = Vec::new();
    for commit in &commits {
        let member = prepare(commit);
        let op = PbTxnRequestOp {
            request: Some(TxnOp::txn(member.0.txn.clone()).into()),
        };
        let sent = op.encoded_len();
        assert!(member.bytes_sent() >= sent, "{sent}");
        assert!(member.bytes_sent() <= sent + 100 * member.operation_count());
        together += member.bytes_sent();
        members.push(member);
    }
    let timeline = Keys::new(Prefix::default()).timeline();
    let txn = batch_txn(&timeline, Revision::from_etcd(7).unwrap(), &members);
    assert!(PbTxnRequest::from(txn).encoded_len() <= together + 256);
}

#[test]
fn operations_are_counted_as_etcd_counts_them() {
    // Guards: record, reservation, machine; gets: the same.
    assert_eq!(prepare(&commit(1, 0, 0)).operation_count(), 3);
    // Beside them three guards and two gets for a turn.
    let turn = in_turn(commit(1, 0, 0));
    assert_eq!(prepare(&turn).operation_count(), 5);
    let mut one = commit(1, 5, 0);
    assert_eq!(prepare(&one).operation_count(), 8);
    one.machine = MachineGuard::None;
    assert_eq!(prepare(&one).operation_count(), 7);
    one.absent_operations.clear();
    assert_eq!(prepare(&one).operation_count(), 6);
    one.incidents = vec![incident("a"), incident("b")];
    assert_eq!(prepare(&one).operation_count(), 9);
}

#[test]
fn a_grant_must_write_the_round_that_it_begins() {
    let mut grant = commit(1, 0, 0);
    grant.reservation_write = ReservationWrite::Grant(LeaseId(7));
    let written = std::panic::catch_unwind(|| prepare(&grant));
    assert!(written.is_err(), "it was prepared");
}

#[test]
fn a_batch_takes_no_two_members_that_share_a_key() {
    let mut batch = Batch::new();
    batch.try_add(prepare(&commit(1, 0, 0))).unwrap();
    let again = prepare(&commit(1, 1, 0));
    assert!(batch.members()[0].conflicts_with(&again));
    let back = batch.try_add(again).unwrap_err();
    assert_eq!(back.resources(), [resource(1)]);

    let mut second = commit(2, 0, 0);
    second.incidents = vec![incident("inc-1")];
    let mut third = commit(3, 0, 0);
    third.incidents = vec![incident("inc-2"), incident("inc-1")];
    let (second, third) = (prepare(&second), prepare(&third));
    assert!(second.conflicts_with(&third));
    batch.try_add(second).unwrap();
    assert!(batch.try_add(third).is_err());
    assert_eq!(batch.len(), 2);
}

#[test]
fn a_batch_stays_within_each_of_its_limits() {
    let mut full = Batch::new();
    for id in 0..BATCH_MEMBERS_MAX {
        full.try_add(prepare(&commit(id, 0, 0))).unwrap();
    }
    assert!(full.try_add(prepare(&commit(99, 0, 0))).is_err());

    // 61 operations beside record, reservation and machine are 64 of 128, one more is too many.
    let mut batch = Batch::new();
    batch.try_add(prepare(&commit(1, 0, 0))).unwrap();
    assert!(batch.fits(&prepare(&commit(2, 61, 0))));
    assert!(!batch.fits(&prepare(&commit(2, 62, 0))));

    // By bytes sent: ten of 70 kB each, six times.
    let mut big = commit(2, 14, 60_000);
    big.absent_operations.clear();
    batch.try_add(prepare(&big)).unwrap();
    big.resource = resource(3);
    assert!(!batch.fits(&prepare(&big)));

    // By bytes that could come back: each absent operation may turn out to be there.
    let mut looking = Batch::new();
    let mut look = commit(1, 0, 0);
    look.absent_operations = (0..60).map(|n| operation(n, 0).id).collect();
    looking.try_add(prepare(&look)).unwrap();
    look.resource = resource(2);
    assert!(!looking.fits(&prepare(&look)));
    look.absent_operations.truncate(10);
    assert!(looking.fits(&prepare(&look)));
}

#[test]
fn an_empty_batch_takes_any_member_and_then_no_other() {
    let mut batch = Batch::new();
    batch.try_add(prepare(&commit(1, 100, 0))).unwrap();
    assert!(batch.try_add(prepare(&commit(2, 0, 0))).is_err());
    assert!(!batch.is_empty());
}
