//! Any value that can be stored, for the tests.

use std::collections::BTreeMap;

use bytes::Bytes;
use proptest::collection::{btree_map, btree_set, vec};
use proptest::option;
use proptest::prelude::*;
use proptest::sample::select;

use crate::domain::decision::{IncidentId, Rule, Verdict};
use crate::domain::digest::{ContentDigest, DigestScheme};
use crate::domain::ids::{
    EventName, Holder, IdentityName, IdentityValue, Kind, Mark, Nonce, OperationId, RequestId,
    ResourceId, StateName,
};
use crate::domain::incident::{Incident, verdict_from_code};
use crate::domain::machine::{Filed, Lineage, MachineHash, MachineVersion, Renaming};
use crate::domain::outcome::StoredResult;
use crate::domain::record::{
    LeaseId, NamedValue, Operation, PastRound, Raised, Record, Round, RoundEnd, ValueHash, Visit,
};
use crate::domain::request::Ttl;
use crate::domain::token::Revision;

pub(super) fn nonces() -> impl Strategy<Value = Nonce> {
    any::<[u8; 16]>().prop_map(Nonce::from_bytes)
}

pub(super) fn marks() -> impl Strategy<Value = Mark> {
    any::<[u8; 8]>().prop_map(Mark::from_bytes)
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

fn events() -> impl Strategy<Value = EventName> {
    names().prop_map(|name| EventName::parse(&name).unwrap())
}

fn versions() -> impl Strategy<Value = Option<MachineVersion>> {
    (0..=MachineVersion::MAX).prop_map(MachineVersion::new)
}

/// Machines as they are kept; what their files say is not looked at.
pub(super) fn filed() -> impl Strategy<Value = Filed> {
    let events = btree_map(events(), option::of(events()), 0..4);
    let renaming = (btree_map(states(), states(), 0..4), events);
    let renaming = renaming.prop_map(|(states, events)| Renaming { states, events });
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
        (option::of(states()), vec(states(), 0..4), any::<u32>()),
        (option::of(events()), versions(), any::<bool>()),
    )
        .prop_map(
            |((id, digest, verdict, rule, result), (time_ms, mark, round), rest, law)| {
                let (event, machine, keeps_retrying) = law;
                let (state, expected, raised) = rest;
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
                    event,
                    machine,
                    keeps_retrying,
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
    )
        .prop_map(
            |((nonce, request, holder), (ttl, lease, base), (granted, over))| Round {
                nonce,
                request: RequestId::from_bytes(request),
                holder: holder.map(|holder| Holder::parse(&holder).unwrap()),
                ttl: Ttl::from_seconds(ttl).unwrap(),
                lease: LeaseId(lease),
                base,
                granted: Revision::from_etcd(granted),
                over,
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
        (vec(operations(), 0..4), any::<u64>(), versions()),
    )
        .prop_map(
            |((moves, state, visits, identity), (round, past_rounds), rest)| {
                let (operations, spilled, machine) = rest;
                Record {
                    moves,
                    state,
                    visits,
                    identity,
                    round,
                    past_rounds,
                    operations,
                    spilled,
                    machine,
                }
            },
        )
}

pub(super) fn incidents() -> impl Strategy<Value = Incident> {
    (
        ("\\PC{1,12}", "[a-z]{1,4}", "\\PC{1,12}", operation_ids()),
        (verdicts(), rules(), "\\PC{0,40}", any::<u64>()),
        (
            option::of(digests()),
            digests(),
            option::of(results()),
            option::of(states()),
        ),
    )
        .prop_map(
            |((id, kind, resource, operation), (verdict, rule, explanation, time_ms), rest)| {
                let (first_digest, digest, evidence, state) = rest;
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
                    evidence,
                    state,
                }
            },
        )
}
