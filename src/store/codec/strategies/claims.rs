//! Open operations, and what persons said of them.

use super::*;
use crate::domain::claim::{Claim, Finding, JudgedAs, OpenOperation, PastClaim, Resolution, Seat};

pub(super) fn resolutions() -> impl Strategy<Value = Box<Resolution>> {
    let findings = select(vec![Finding::Done, Finding::NotDone, Finding::Refused]);
    (
        findings,
        "\\PC{1,20}",
        "[a-z]\\PC{0,20}",
        any::<u64>(),
        marks(),
    )
        .prop_map(|(finding, by, reason, time_ms, mark)| {
            Box::new(Resolution {
                finding,
                by: Holder::parse(&by).unwrap(),
                reason: Reason::parse(&reason).unwrap(),
                time_ms,
                mark,
            })
        })
}

fn asked() -> impl Strategy<Value = Identity> {
    let name = names().prop_map(|name| IdentityName::parse(&name).unwrap());
    let value = "\\PC{1,20}".prop_map(|value| IdentityValue::parse(&value).unwrap());
    btree_map(name, value, 0..4)
}

pub(super) fn open_operations() -> impl Strategy<Value = OpenOperation> {
    let movement = (option::of(states()), option::of(states()), asked());
    let movement = movement.prop_map(|(to, initial, sets)| Move { to, initial, sets });
    let intent = (
        (operation_ids(), asked(), digests()),
        (
            vec(states(), 0..4),
            option::of(movement),
            select(vec![Interrupted::Ask, Interrupted::Rerun]),
        ),
    )
        .prop_map(
            |((operation, identity, digest), (from, movement, interrupted))| Intent {
                operation,
                event: None,
                identity,
                digest,
                from,
                movement,
                interrupted,
                // Only of use while its request is judged.
                beside: Beside::default(),
                made_ms: None,
            },
        );
    let claim = (
        (nonces(), any::<[u8; 16]>(), nonces()),
        (
            (select(vec![Seat::Own, Seat::Ridden]), any::<u64>()),
            any::<u32>(),
            any::<u64>(),
            any::<bool>(),
        ),
        (any::<u32>(), option::of(resolutions())),
    )
        .prop_map(
            |(
                (nonce, request, round),
                ((seat, base), attempts, time_ms, returned),
                (raised, resolved),
            )| {
                Claim {
                    nonce,
                    request: RequestId::from_bytes(request),
                    round,
                    seat,
                    base,
                    attempts,
                    time_ms,
                    returned,
                    raised: Raised::from_bits(raised),
                    resolved,
                }
            },
        );
    let name = names().prop_map(|name| IdentityName::parse(&name).unwrap());
    let clears = vec(name, 0..3);
    let judged = (events(), versions(), clears, any::<bool>()).prop_map(
        |(event, version, clears, keeps_retrying)| {
            version.map(|version| JudgedAs {
                event,
                version,
                clears,
                keeps_retrying,
            })
        },
    );
    (intent, judged, claim, field_hashes()).prop_map(|(intent, judged, claim, fields)| {
        OpenOperation {
            intent,
            judged,
            claim,
            fields: FieldHashes::from_bytes(&fields).unwrap(),
        }
    })
}

pub(super) fn past_claims() -> impl Strategy<Value = PastClaim> {
    (nonces(), operation_ids()).prop_map(|(round, operation)| PastClaim { round, operation })
}
