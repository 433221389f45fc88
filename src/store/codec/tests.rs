//! What is written is read again; what is not ours is told apart.

use bytes::Bytes;
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;

use super::operation::Before;
use super::refer::Names;
use super::strategies::{halts, incidents, nonces, operations, records};
use super::*;
use crate::domain::claim::{Claim, OpenOperation, Seat};
use crate::domain::decision::{Rule, Verdict};
use crate::domain::digest::{Beside, ContentDigest, FieldHashes};
use crate::domain::ids::{Holder, Kind, RequestId, ResourceId, StateName};
use crate::domain::incident::Evidence;
use crate::domain::outcome::StoredResult;
use crate::domain::record::{Deliveries, LeaseId, Raised, Round, RoundEnd, ValueHash, Visit};
use crate::domain::request::{Identity, Intent, Interrupted, Move, Ttl};
use crate::domain::timeline::Stored;
use crate::domain::together::Company;
use crate::domain::token::{Revision, Timeline};
use crate::store::keys::{Keys, Prefix};

fn keys() -> Keys {
    Keys::new(Prefix::default())
}

fn resource() -> ResourceId {
    ResourceId::new(Kind::parse("order").unwrap(), "1001").unwrap()
}

fn record_key() -> Key {
    keys().record(&resource())
}

fn reason_of(error: StoreError) -> String {
    let StoreError::Corrupt { reason, .. } = error else {
        panic!("{error:?} is no corruption");
    };
    reason
}

/// A record as most are: one finished operation, with a small result.
fn ordinary() -> Record {
    Record {
        operations: vec![finished(
            "evt_1NXWPnCo6bFb1KQto6",
            Rule::RanOnce,
            br#"{"ok":true}"#,
        )],
        touched: Some(StoreTime::from_seconds(1_790_000_000)),
        ..Record::default()
    }
}

fn finished(id: &str, rule: Rule, body: &'static [u8]) -> Operation {
    Operation {
        id: OperationId::parse(id).unwrap(),
        digest: ContentDigest::of_json(br#"{"amount":1000}"#).unwrap(),
        verdict: Verdict::Applied,
        rule,
        result: StoredResult {
            body: Bytes::from_static(body),
            code: 200,
            content_type: "application/json".to_owned(),
            headers: Vec::new(),
        },
        time_ms: 1_790_000_000_000,
        mark: Mark::from_bytes([7; 6]),
        round: None,
        state: None,
        expected: Vec::new(),
        raised: Raised::default(),
        resolved: None,
        // As three fields leave them.
        fields: FieldHashes::from_bytes(&[0x40, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9]).unwrap(),
        expiry: Some(StoreTime::from_seconds(1_790_345_947)),
        deliveries: Deliveries::default(),
        event: None,
        machine: None,
        keeps_retrying: false,
        outcome: None,
    }
}

fn state(name: &str) -> StateName {
    StateName::parse(name).unwrap()
}

/// An order after so many of its moves, each with a result of 96 bytes.
fn order(moves: u8) -> Record {
    const RESULT: &[u8] = &[b'x'; 96];
    let states = ["pending", "paid", "shipped", "delivered"];
    let moved = || (1_u64..).zip(states).take(moves.into());
    let visit = |(entered, name): (u64, &str)| {
        let left = (entered < moves.into()).then_some(entered + 1);
        let visit = Visit {
            entered,
            left,
            values: [].into(),
        };
        (state(name), visit)
    };
    let operation = |(number, name): (u64, &str)| Operation {
        id: OperationId::parse(&format!("evt_{name}")).unwrap(),
        time_ms: 1_790_000_000_000 + 60_000 * number,
        expiry: Some(StoreTime::from_seconds(1_790_345_946 + 60 * number)),
        ..finished("op", Rule::Moved, RESULT)
    };
    Record {
        moves: moves.into(),
        state: Some(state(states[usize::from(moves) - 1])),
        visits: moved().map(visit).collect(),
        operations: moved().map(operation).collect(),
        touched: Some(StoreTime::from_seconds(
            1_790_000_000 + 60 * u64::from(moves),
        )),
        ..Record::default()
    }
}

/// The most that these may take, in bytes; 4 of them say how long the operations are kept. What lifts them makes every resource cost more disk: find another way first.
#[test]
fn the_usual_records_take_no_more_bytes_than_they_did() {
    let at_most = |bytes: usize, what: &str, record: &Record| {
        let found = encode_record(&record_key(), record).len();
        assert!(found <= bytes, "{what}: {found} bytes");
    };
    at_most(112, "an operation that only ran once", &ordinary());
    at_most(196, "an order with one move", &order(1));
    at_most(746, "an order with four moves", &order(4));

    let mut held = order(2);
    held.round = Some(Round {
        nonce: Nonce::from_bytes([1; 16]),
        request: RequestId::from_bytes([2; 16]),
        holder: Some(Holder::parse("worker-7f9c").unwrap()),
        ttl: Ttl::from_seconds(30).unwrap(),
        lease: LeaseId(0x7587_8aa0_1122_3344),
        base: 1_790_000_000 << 21,
        granted: Revision::from_etcd(1_000_000),
        over: Some(RoundEnd::Released(Mark::from_bytes([3; 6]))),
        claimed: None,
        claims: 0,
        company: Company::Alone,
    });
    for operation in &mut held.operations {
        operation.round = Some(Nonce::from_bytes([1; 16]));
    }
    for visit in held.visits.values_mut() {
        visit.values = [ValueHash(u64::MAX)].into();
    }
    at_most(483, "two moves under a round, with identity values", &held);
    held.open.push(OpenOperation {
        judged: None,
        intent: Intent {
            event: None,
            operation: OperationId::parse("evt_1NXWPnCo6bFb1KQto6").unwrap(),
            identity: Identity::new(),
            digest: ContentDigest::of_json(br#"{"amount":1000}"#).unwrap(),
            from: vec![state("paid")],
            movement: Some(Move {
                to: Some(state("shipped")),
                ..Move::default()
            }),
            interrupted: Interrupted::Ask,
            beside: Beside::default(),
            made_ms: None,
        },
        claim: Claim {
            nonce: Nonce::from_bytes([1; 16]),
            request: RequestId::from_bytes([2; 16]),
            round: Nonce::from_bytes([1; 16]),
            seat: Seat::Own,
            base: held.round.as_ref().map_or(0, |round| round.base),
            attempts: 1,
            time_ms: 1_790_000_000_000,
            returned: false,
            raised: Raised::default(),
            resolved: None,
        },
        // As one field leaves it.
        fields: FieldHashes::from_bytes(&[0x40, 0, 1, 2, 3]).unwrap(),
    });
    at_most(633, "the same with an open claim", &held);
}

#[test]
fn an_empty_result_that_was_reported_differs_from_none() {
    let key = keys().incident(&IncidentId("inc-1".to_owned()));
    let mut incident = Incident {
        id: IncidentId("inc-1".to_owned()),
        resource: resource(),
        operation: Some(OperationId::parse("op").unwrap()),
        verdict: Verdict::Fenced,
        rule: Rule::Overtaken,
        explanation: String::new(),
        time_ms: 0,
        first_digest: None,
        digest: Some(ContentDigest::none()),
        evidence: Vec::new(),
        more_evidence: 0,
        unkept: 0,
        state: None,
        sender: None,
        fields: Vec::new(),
        again: 0,
        last_ms: 0,
        last_digest: None,
        closing: None,
        expiry: None,
    };
    let empty = Evidence {
        result: StoredResult::default(),
        round: None,
        digest: Some(ContentDigest::none()),
        sender: None,
        time_ms: 0,
    };
    for evidence in [vec![empty], Vec::new()] {
        incident.evidence = evidence;
        let value = encode_incident(&key, &incident);
        assert_eq!(
            decode_incident(&key, &incident.id, &value).unwrap(),
            incident
        );
    }
}

proptest! {
    #[test]
    fn every_machine_is_read_as_it_was_written(filed in strategies::filed()) {
        let key = keys().machine(&filed.kind);
        let value = encode_machine(&key, &filed);
        prop_assert_eq!(&decode_machine(&key, &filed.kind, &value).unwrap(), &filed);
        let other = Kind::parse("another-kind").unwrap();
        prop_assert!(decode_machine(&key, &other, &value).is_err());
    }
}

#[test]
fn each_way_to_be_foreign_is_said_in_words() {
    let key = record_key();
    let good = encode_record(&key, &ordinary());
    let reason = |value: &[u8]| reason_of(decode_record(&key, value).unwrap_err());

    assert!(reason(b"").contains("too short"));
    assert!(reason(b"{\"state\":\"paid\"}").contains("foreign"));
    assert!(reason(&good[..good.len() - 1]).contains("checksum"));
    let mut newer = good.clone();
    newer[0] += KINDS;
    assert!(reason(&newer).contains("upgrade"));
    newer[0] = good[0] - KINDS;
    assert!(reason(&newer).contains("never existed"));
    let operation = &ordinary().operations[0];
    assert!(reason(&encode_operation(&key, operation)).contains("not a record"));

    // Copied by hand to the key of another resource.
    let other = keys().record(&ResourceId::new(Kind::parse("order").unwrap(), "1002").unwrap());
    let error = decode_record(&other, &good).unwrap_err();
    assert!(error.to_string().contains("/fencepost/r/order/1002"));
    assert!(reason_of(error).contains("copied from another key"));

    // A copy of the whole tree under another prefix stays good.
    let moved = Keys::new(Prefix::parse("/else").unwrap()).record(&resource());
    assert_eq!(decode_record(&moved, &good).unwrap(), ordinary());
}

#[test]
fn a_field_outside_its_limits_is_named() {
    let key = record_key();
    let read = |message: pb::Record| {
        let value = seal(&key, RecordKind::Record, &message);
        reason_of(decode_record(&key, &value).unwrap_err())
    };
    let visit = pb::Visit {
        state: "paid".to_owned(),
        ..pb::Visit::default()
    };
    let twice = pb::Record {
        visits: vec![visit.clone(), visit.clone()],
        ..pb::Record::default()
    };
    assert_eq!(read(twice), "its field visits names a state twice");
    let many = pb::Record {
        visits: vec![visit; 65],
        ..pb::Record::default()
    };
    assert_eq!(
        read(many),
        "its field visits has 65 entries; the limit is 64"
    );
    let spaced = pb::Record {
        other_states: vec!["pa id".to_owned()],
        ..pb::Record::default()
    };
    assert!(read(spaced).starts_with("its field other_states may hold only"));
    let round = pb::Record {
        round: Some(pb::Round {
            nonce: Bytes::from_static(b"short"),
            ..pb::Round::default()
        }),
        ..pb::Record::default()
    };
    assert_eq!(
        read(round),
        "its field round.nonce is 5 bytes long instead of 16"
    );
    let held = pb::HeldTogether {
        kind: "order".to_owned(),
        id: "7".to_owned(),
    };
    let round = |others: usize, lead: bool| pb::Record {
        round: Some(pb::Round {
            others: vec![held.clone(); others],
            lead: lead.then(|| held.clone()),
            ..pb::Round::default()
        }),
        ..pb::Record::default()
    };
    assert!(read(round(16, false)).contains("round.others has 16 entries; the limit is 15"));
    assert!(read(round(1, true)).contains("round leads others and follows one"));
    let record = ordinary();
    let operation = |change: &dyn Fn(&mut pb::Operation)| {
        let mut message = operation::to_message(
            &record.operations[0],
            &mut Names::default(),
            Before::default(),
        );
        change(&mut message);
        read(pb::Record {
            operations: vec![message],
            ..pb::Record::default()
        })
    };
    assert!(operation(&|o| o.verdict = 11).contains("operation.verdict is 11"));
    assert!(operation(&|o| o.rule = 99).contains("operation.rule is 99"));
    let named = |o: &mut pb::Operation| (o.rule, o.rule_name) = (0, "NEW".to_owned());
    assert!(operation(&named).contains("operation.rule_name is \"NEW\""));
    assert!(operation(&|o| o.code_and_type = 99).contains("operation.code_and_type is 99"));
    assert!(operation(&|o| o.round = 1).contains("operation.round is 1, and there are only 0"));
    assert!(operation(&|o| o.state = 2).contains("operation.state is 2"));
    assert!(operation(&|o| o.expected = vec![0]).contains("operation.expected names no state"));
    assert!(operation(&|o| o.mark_and_digest = Bytes::new()).contains("operation.mark is missing"));
    assert!(operation(&|o| o.id = " ".to_owned()).contains("operation.id is blank"));
    assert!(operation(&|o| o.scheme = 99).contains("scheme 99"));
    assert!(operation(&|o| o.mark_and_digest.truncate(6)).contains("0 bytes long"));
    let code = |o: &mut pb::Operation| (o.code_and_type, o.code) = (0, 1000);
    assert!(operation(&code).contains("operation.result.code"));
    let state = pb::Record {
        state: Some(1),
        ..pb::Record::default()
    };
    assert_eq!(read(state), "its field state is 1, and there are only 0");
}

#[test]
fn an_operation_under_another_id_is_refused() {
    let operation = &ordinary().operations[0];
    let other = OperationId::parse("other").unwrap();
    let key = keys().operation(&resource(), &other);
    let value = encode_operation(&key, operation);
    let reason = reason_of(decode_operation(&key, &other, &value).unwrap_err());
    assert!(reason.contains("another operation"), "{reason}");
}

proptest! {
    #[test]
    fn every_record_is_read_as_it_was_written(record in records()) {
        let key = record_key();
        let value = encode_record(&key, &record);
        prop_assert_eq!(decode_record(&key, &value).unwrap(), record);
    }

    #[test]
    fn every_operation_is_read_as_it_was_written(operation in operations()) {
        let key = keys().operation(&resource(), &operation.id);
        let value = encode_operation(&key, &operation);
        prop_assert_eq!(decode_operation(&key, &operation.id, &value).unwrap(), operation);
    }

    #[test]
    fn every_incident_is_read_as_it_was_written(incident in incidents()) {
        let key = keys().incident(&incident.id);
        let value = encode_incident(&key, &incident);
        prop_assert_eq!(decode_incident(&key, &incident.id, &value).unwrap(), incident);
    }

    #[test]
    fn every_timeline_and_reservation_is_read_as_it_was_written(
        id in nonces(), base: u64, min_token: u64, began_s: u64, largest: u64, halt in option::of(halts()),
    ) {
        let key = keys().timeline();
        let timeline = Stored { timeline: Timeline { id, base, min_token }, began_s, halt, largest };
        let value = encode_timeline(&key, &timeline);
        prop_assert_eq!(decode_timeline(&key, &value).unwrap(), timeline);
        let key = keys().reservation(&resource());
        prop_assert_eq!(decode_reservation(&key, &encode_reservation(&key, id)).unwrap(), id);
    }

    #[test]
    fn a_flipped_bit_or_a_cut_is_always_noticed(
        record in records(), at: prop::sample::Index, bit in 0..8_u8,
    ) {
        let key = record_key();
        let good = encode_record(&key, &record);
        let mut flipped = good.clone();
        flipped[at.index(good.len())] ^= 1 << bit;
        prop_assert!(decode_record(&key, &flipped).is_err());
        prop_assert!(decode_record(&key, &good[..at.index(good.len())]).is_err());
    }

    #[test]
    fn arbitrary_bytes_are_reported_and_never_panic(bytes in vec(any::<u8>(), 0..200)) {
        let key = record_key();
        prop_assert!(decode_record(&key, &bytes).is_err());
        // Also behind a header and a checksum that are right.
        for kind in [RecordKind::Record, RecordKind::Operation, RecordKind::Incident] {
            let mut value = vec![first_byte(FORMAT_VERSION, kind)];
            value.extend(checksum(&key, kind.code(), &bytes));
            value.extend(&bytes);
            let _ = decode_record(&key, &value);
            let _ = decode_operation(&key, &OperationId::parse("op").unwrap(), &value);
            let _ = decode_incident(&key, &IncidentId("inc".to_owned()), &value);
        }
    }
}
