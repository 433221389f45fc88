//! Any value that can be stored, for the tests.

mod claims;
mod company;

use std::collections::BTreeMap;

use bytes::Bytes;
use proptest::collection::{btree_map, btree_set, vec};
use proptest::option;
use proptest::prelude::*;
use proptest::sample::select;

use crate::domain::claim::PAST_CLAIMS_STORED_MAX;
use crate::domain::decision::{IncidentId, Rule, Verdict};
use crate::domain::digest::{Beside, ContentDigest, DigestScheme, FieldHashes};
use crate::domain::ids::{
    EventName, Holder, IdentityName, IdentityValue, Kind, Mark, Nonce, OperationId, Reason,
    RequestId, ResourceId, StateName,
};
use crate::domain::incident::{Closing, Evidence, Incident, verdict_from_code};
use crate::domain::machine::{
    DigestRule, Filed, KeptUntil, Lineage, MachineHash, MachineVersion, Renaming,
};
use crate::domain::outcome::StoredResult;
use crate::domain::record::{
    Deliveries, LeaseId, NamedValue, Operation, Outcome, PastRound, Raised, Record, Round,
    RoundEnd, ValueHash, Visit,
};
use crate::domain::request::{Identity, Intent, Interrupted, Move, Ttl};
use crate::domain::retention::StoreTime;
use crate::domain::timeline::Halt;
use crate::domain::token::Revision;

use claims::{open_operations, past_claims, resolutions};
use company::companies;

pub(super) fn nonces() -> impl Strategy<Value = Nonce> {
    any::<[u8; 16]>().prop_map(Nonce::from_bytes)
}

pub(super) fn halts() -> impl Strategy<Value = Halt> {
    (0..4_u8, any::<[u64; 3]>()).prop_map(|(which, [known, found, time_ms])| match which {
        0 => Halt::WentBack {
            known,
            found,
            time_ms,
        },
        1 => Halt::OtherCluster { time_ms },
        2 => Halt::OlderTimeline { time_ms },
        _ => Halt::Starting { time_ms },
    })
}

pub(super) fn marks() -> impl Strategy<Value = Mark> {
    any::<[u8; 6]>().prop_map(Mark::from_bytes)
}

pub(super) fn names() -> impl Strategy<Value = String> {
    "[a-zA-Z0-9][a-zA-Z0-9_.-]{0,12}"
}

pub(super) fn states() -> impl Strategy<Value = StateName> {
    names().prop_map(|name| StateName::parse(&name).unwrap())
}

pub(super) fn operation_ids() -> impl Strategy<Value = OperationId> {
    "[a-z]\\PC{0,20}".prop_map(|id| OperationId::parse(&id).unwrap())
}

pub(super) fn verdicts() -> impl Strategy<Value = Verdict> {
    select((0..=20).filter_map(verdict_from_code).collect::<Vec<_>>())
}

pub(super) fn rules() -> impl Strategy<Value = Rule> {
    select(vec![
        Rule::Moved,
        Rule::RanOnce,
        Rule::OtherContent,
        Rule::Passed,
        Rule::AlreadyMoved,
        Rule::TokenEnded,
        Rule::NoState,
        Rule::Voided,
    ])
}

pub(super) fn digests() -> impl Strategy<Value = ContentDigest> {
    (any::<u8>(), vec(any::<u8>(), 16..=64)).prop_filter_map("of the scheme", |(code, bytes)| {
        let scheme = DigestScheme::from_code(code % 4)?;
        let hash = bytes.get(..32).map(<[u8]>::to_vec);
        ContentDigest::from_parts(scheme, bytes)
            .or_else(|| ContentDigest::from_parts(scheme, hash?))
    })
}

pub(super) fn results() -> impl Strategy<Value = StoredResult> {
    (
        vec(any::<u8>(), 0..40),
        0..=999_u32,
        "[a-z/]{0,12}",
        vec(("[a-z-]{1,8}", "\\PC{0,8}"), 0..4),
    )
        .prop_map(|(body, code, content_type, headers)| StoredResult {
            body: Bytes::from(body),
            code,
            content_type,
            headers,
        })
}

/// Bytes as they are kept of a content's fields: none, of leaves, or of the outermost members.
pub(super) fn field_hashes() -> impl Strategy<Value = Vec<u8>> {
    let fields = (1..=2_u8, any::<[u8; 2]>(), vec(any::<[u8; 3]>(), 0..=16));
    option::of(fields).prop_map(|fields| {
        fields.map_or_else(Vec::new, |(grain, [first, second], fields)| {
            let mut bytes = vec![grain << 6 | first & 0x3f, second];
            bytes.extend(fields.concat());
            bytes
        })
    })
}

pub(super) fn moments() -> impl Strategy<Value = Option<StoreTime>> {
    option::of((1..=u64::MAX).prop_map(StoreTime::from_seconds))
}

fn events() -> impl Strategy<Value = EventName> {
    names().prop_map(|name| EventName::parse(&name).unwrap())
}

fn versions() -> impl Strategy<Value = Option<MachineVersion>> {
    (0..=MachineVersion::MAX).prop_map(MachineVersion::new)
}

/// Machines as they are kept; what their files say is not looked at.
pub(super) fn filed() -> impl Strategy<Value = Filed> {
    let events = btree_map(events(), option::of(events()), 0..4);
    let pointers = || vec("[a-z]{1,3}", 1..3);
    let rules = prop_oneof![
        Just(DigestRule::Whole),
        pointers().prop_map(DigestRule::Include),
        pointers().prop_map(DigestRule::Exclude),
        Just(DigestRule::None),
    ];
    let digests = btree_map(self::events(), rules, 0..3);
    let kept = option::of((1..=u64::from(u32::MAX), any::<u64>()));
    let renaming = (btree_map(states(), states(), 0..4), events, digests, kept);
    let renaming = renaming.prop_map(|(states, events, digests, kept)| Renaming {
        states,
        events,
        digests,
        kept: kept.map(|(seconds, until_ms)| KeptUntil {
            retention: std::time::Duration::from_secs(seconds),
            until_ms,
        }),
    });
    let version = (1..=MachineVersion::MAX).prop_map(|number| MachineVersion::new(number).unwrap());
    let lineage = vec((version.clone(), renaming), 0..4).prop_map(Lineage::of);
    let kind = names().prop_map(|name| Kind::parse(&name).unwrap());
    let source = vec(any::<u8>(), 0..40).prop_map(Bytes::from);
    let what = (kind, version, any::<[u8; 32]>(), source);
    (what, any::<u64>(), lineage).prop_map(|((kind, version, hash, source), time_ms, lineage)| {
        Filed {
            kind,
            version,
            hash: MachineHash::from_bytes(hash),
            source,
            time_ms,
            lineage,
        }
    })
}

pub(super) fn operations() -> impl Strategy<Value = Operation> {
    (
        (operation_ids(), digests(), verdicts(), rules(), results()),
        (any::<u64>(), marks(), option::of(nonces())),
        (
            option::of(states()),
            vec(states(), 0..4),
            any::<u32>(),
            option::of(resolutions()),
            (field_hashes(), option::of(any::<[u8; 6]>())),
            moments(),
            any::<u32>(),
        ),
        (
            option::of(events()),
            versions(),
            any::<bool>(),
            option::of((events(), versions())),
        ),
    )
        .prop_map(
            |((id, digest, verdict, rule, result), (time_ms, mark, round), rest, law)| {
                let (event, machine, keeps_retrying, outcome) = law;
                let outcome = outcome.and_then(|(event, version)| {
                    let version = version?;
                    Some(Box::new(Outcome { event, version }))
                });
                let (state, expected, raised, resolved, fields, expiry, deliveries) = rest;
                let (fields, salt) = fields;
                let fields = FieldHashes::from_bytes(&fields).unwrap();
                Operation {
                    id,
                    digest,
                    verdict,
                    rule,
                    result,
                    time_ms,
                    mark,
                    round,
                    state,
                    expected,
                    raised: Raised::from_bits(raised),
                    resolved,
                    // Nothing is kept that could be salted.
                    fields: match salt {
                        Some(salt) => fields.salted_by(Mark::from_bytes(salt)),
                        None => fields,
                    },
                    expiry,
                    deliveries: Deliveries::said(deliveries),
                    event,
                    machine,
                    keeps_retrying,
                    outcome,
                }
            },
        )
}

pub(super) fn round_ends() -> impl Strategy<Value = RoundEnd> {
    option::of(marks()).prop_map(|by| by.map_or(RoundEnd::Lost, RoundEnd::Released))
}

pub(super) fn rounds() -> impl Strategy<Value = Round> {
    (
        (nonces(), any::<[u8; 16]>(), option::of("\\PC{1,20}")),
        (3..=86_400_u32, any::<i64>(), any::<u64>()),
        (0..=i64::MAX, option::of(round_ends())),
        (option::of(operation_ids()), any::<u32>(), companies()),
    )
        .prop_map(
            |((nonce, request, holder), (ttl, lease, base), (granted, over), claimed)| {
                let (claimed, claims, company) = claimed;
                Round {
                    nonce,
                    request: RequestId::from_bytes(request),
                    holder: holder.map(|holder| Holder::parse(&holder).unwrap()),
                    ttl: Ttl::from_seconds(ttl).unwrap(),
                    lease: LeaseId(lease),
                    base,
                    granted: Revision::from_etcd(granted),
                    over,
                    claimed,
                    claims,
                    company,
                }
            },
        )
}

pub(super) fn hashes() -> impl Strategy<Value = ValueHash> {
    any::<u64>().prop_map(ValueHash)
}

pub(super) fn visits() -> impl Strategy<Value = BTreeMap<StateName, Visit>> {
    let visit = (
        any::<u64>(),
        option::of(any::<u64>()),
        btree_set(hashes(), 0..4),
    )
        .prop_map(|(entered, left, values)| Visit {
            entered,
            left,
            values,
        });
    btree_map(states(), visit, 0..5)
}

pub(super) fn identities() -> impl Strategy<Value = BTreeMap<IdentityName, NamedValue>> {
    let name = names().prop_map(|name| IdentityName::parse(&name).unwrap());
    let current = option::of("\\PC{1,20}");
    let value = (current, vec(hashes(), 0..5)).prop_map(|(current, replaced)| NamedValue {
        current: current.map(|current| IdentityValue::parse(&current).unwrap()),
        replaced,
    });
    btree_map(name, value, 0..4)
}

pub(super) fn records() -> impl Strategy<Value = Record> {
    let past = (nonces(), round_ends()).prop_map(|(nonce, end)| PastRound { nonce, end });
    (
        (any::<u64>(), option::of(states()), visits(), identities()),
        (option::of(rounds()), vec(past, 0..=8)),
        (
            vec(operations(), 0..4),
            vec(open_operations(), 0..4),
            vec(past_claims(), 0..=PAST_CLAIMS_STORED_MAX),
            any::<u64>(),
            moments(),
            moments(),
            versions(),
        ),
    )
        .prop_map(
            |((moves, state, visits, identity), (round, past_rounds), rest)| {
                let (operations, open, past_claims, spilled, touched, forgotten, machine) = rest;
                Record {
                    moves,
                    state,
                    visits,
                    identity,
                    round,
                    past_rounds,
                    operations,
                    open,
                    past_claims,
                    spilled,
                    touched,
                    forgotten,
                    machine,
                }
            },
        )
}

pub(super) fn closings() -> impl Strategy<Value = Closing> {
    (
        any::<u64>(),
        "\\PC{1,20}",
        "[a-z]\\PC{0,40}",
        0..1_000_usize,
    )
        .prop_map(|(time_ms, by, reason, evidence)| Closing {
            time_ms,
            by: Holder::parse(&by).unwrap(),
            reason: Reason::parse(&reason).unwrap(),
            evidence,
        })
}

pub(super) fn incidents() -> impl Strategy<Value = Incident> {
    (
        (
            "\\PC{1,12}",
            "[a-z]{1,4}",
            "\\PC{1,12}",
            option::of(operation_ids()),
        ),
        (verdicts(), rules(), "\\PC{0,40}", 1..=u64::MAX),
        (
            option::of(digests()),
            option::of(digests()),
            option::of((results(), option::of(nonces()))),
            option::of(states()),
            moments(),
        ),
        (
            (
                option::of("\\PC{1,20}"),
                vec("(/[a-z~0é]{0,12}){0,2}", 0..4),
            ),
            (any::<u32>(), 1..=u64::MAX, any::<u32>()),
            (option::of(digests()), option::of(closings())),
        ),
    )
        .prop_map(|(names, found, content, since)| {
            let (id, kind, resource, operation) = names;
            let (verdict, rule, explanation, time_ms) = found;
            let (first_digest, digest, evidence, state, expiry) = content;
            let ((sender, fields), (again, last_ms, unkept), (last_digest, closing)) = since;
            let sender = sender.map(|sender| Holder::parse(&sender).unwrap());
            let evidence = evidence.map(|(result, round)| Evidence {
                result,
                round,
                digest: digest.clone(),
                sender: sender.clone(),
                time_ms,
            });
            Incident {
                id: IncidentId(id),
                resource: ResourceId::new(Kind::parse(&kind).unwrap(), &resource).unwrap(),
                operation,
                verdict,
                rule,
                explanation,
                time_ms,
                first_digest,
                digest,
                evidence: evidence.into_iter().collect(),
                more_evidence: 0,
                unkept,
                state,
                sender,
                fields,
                again,
                last_ms,
                last_digest,
                closing,
                expiry,
            }
        })
}
