//! What is written is read again; what is not ours is told apart.

use bytes::Bytes;
use proptest::collection::vec;
use proptest::prelude::*;

use super::strategies::{incidents, nonces, operations, records};
use super::*;
use crate::domain::decision::{Rule, Verdict};
use crate::domain::digest::ContentDigest;
use crate::domain::ids::{Holder, Kind, RequestId, ResourceId, StateName};
use crate::domain::outcome::StoredResult;
use crate::domain::record::{LeaseId, Raised, Round, RoundEnd, ValueHash, Visit};
use crate::domain::request::Ttl;
use crate::domain::token::Revision;
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
    let operation = Operation {
        id: OperationId::parse("evt_1NXWPnCo6bFb1KQto6").unwrap(),
        digest: ContentDigest::of_json(br#"{"amount":1000}"#).unwrap(),
        verdict: Verdict::Applied,
        rule: Rule::RanOnce,
        result: StoredResult {
            body: Bytes::from_static(br#"{"ok":true}"#),
            code: 200,
            ..StoredResult::default()
        },
        time_ms: 1_790_000_000_000,
        nonce: Nonce::from_bytes([7; 16]),
        round: None,
        state: None,
        expected: Vec::new(),
        raised: Raised::default(),
        resolved: None,
    };
    Record {
        operations: vec![operation],
        ..Record::default()
    }
}

#[test]
fn a_record_with_one_small_operation_takes_at_most_150_bytes() {
    let bytes = encode_record(&record_key(), &ordinary()).len();
    assert!(bytes <= 150, "{bytes}");
    let round = Round {
        nonce: Nonce::from_bytes([1; 16]),
        request: RequestId::from_bytes([2; 16]),
        holder: Some(Holder::parse("worker-7f9c").unwrap()),
        ttl: Ttl::from_seconds(30).unwrap(),
        lease: LeaseId(0x7587_8aa0_1122_3344),
        base: 1_790_000_000 << 21,
        granted: Revision::from_etcd(1_000_000),
        over: Some(RoundEnd::Released(Nonce::from_bytes([3; 16]))),
        claimed: None,
        claims: 0,
    };
    let state = |name: &str| StateName::parse(name).unwrap();
    let visit = |entered, left| Visit {
        entered,
        left,
        values: [ValueHash(u64::MAX)].into(),
    };
    let mut full = ordinary();
    full.round = Some(round);
    full.operations[0].round = Some(Nonce::from_bytes([1; 16]));
    full.operations[0].state = Some(state("pending"));
    full.state = Some(state("paid"));
    full.visits = [
        (state("pending"), visit(1, Some(2))),
        (state("paid"), visit(2, None)),
    ]
    .into();
    let bytes = encode_record(&record_key(), &full).len();
    assert!(bytes <= 360, "with a round and two states: {bytes}");
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
        evidence: Some(StoredResult::default()),
        state: None,
    };
    for evidence in [Some(StoredResult::default()), None] {
        incident.evidence = evidence;
        let value = encode_incident(&key, &incident);
        assert_eq!(
            decode_incident(&key, &incident.id, &value).unwrap(),
            incident
        );
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
    newer[2] = FORMAT_VERSION + 1;
    assert!(reason(&newer).contains("upgrade"));
    newer[2] = 0;
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
        state: "pa id".to_owned(),
        ..pb::Record::default()
    };
    assert!(read(spaced).starts_with("its field state may hold only"));
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
    let operation = |change: &dyn Fn(&mut pb::Operation)| {
        let mut message = operation::to_message(&ordinary().operations[0]);
        change(&mut message);
        read(pb::Record {
            operations: vec![message],
            ..pb::Record::default()
        })
    };
    assert!(operation(&|o| o.verdict = 11).contains("operation.verdict is 11"));
    assert!(operation(&|o| o.rule = "NEW".to_owned()).contains("operation.rule is \"NEW\""));
    assert!(operation(&|o| o.digest = None).contains("operation.digest is missing"));
    assert!(operation(&|o| o.id = " ".to_owned()).contains("operation.id is blank"));
    assert!(operation(&|o| o.digest.as_mut().unwrap().scheme = 99).contains("scheme 99"));
    assert!(
        operation(&|o| o.digest.as_mut().unwrap().bytes = Bytes::new()).contains("0 bytes long")
    );
    assert!(
        operation(&|o| o.result.as_mut().unwrap().code = 1000).contains("operation.result.code")
    );
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
        id in nonces(), base: u64, min_token: u64,
    ) {
        let key = keys().timeline();
        let timeline = Timeline { id, base, min_token };
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
            let mut value = [&MAGIC[..], &[FORMAT_VERSION, kind.code()]].concat();
            value.extend(checksum(&key, kind.code(), &bytes));
            value.extend(&bytes);
            let _ = decode_record(&key, &value);
            let _ = decode_operation(&key, &OperationId::parse("op").unwrap(), &value);
            let _ = decode_incident(&key, &IncidentId("inc".to_owned()), &value);
        }
    }
}
