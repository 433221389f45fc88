//! Answers, from the domain to the wire.

use crate::domain::decision::{Advice, Decision, Grant, Layer, Snapshot, Verdict};
use crate::domain::ids::ResourceId;
use crate::domain::token::{FencingToken, Revision};
use crate::engine::{Known, OperationState, Reserved};
use crate::proto::v1 as pb;

use super::{result, span};

/// Writes the answer to Reserve.
pub(crate) fn reserved(reserved: Reserved) -> pb::ReserveResponse {
    pb::ReserveResponse {
        decision: Some(decision(reserved.decision)),
        reservation: reserved.grant.map(grant),
    }
}

/// Writes the answer to Renew.
pub(crate) fn renewed(renewed: Reserved) -> pb::RenewResponse {
    pb::RenewResponse {
        decision: Some(decision(renewed.decision)),
        reservation: renewed.grant.map(grant),
    }
}

/// Writes the answer to Lookup.
pub(crate) fn known(known: Known) -> pb::LookupResponse {
    let state = match known.state {
        OperationState::NeverSeen => pb::OperationState::NeverSeen,
        OperationState::Running => pb::OperationState::Running,
        OperationState::Interrupted => pb::OperationState::Interrupted,
        OperationState::Done => pb::OperationState::Done,
        OperationState::DoneEmpty => pb::OperationState::DoneEmpty,
        OperationState::Refused => pb::OperationState::Refused,
        OperationState::Expired => pb::OperationState::Expired,
    };
    pb::LookupResponse {
        state: state.into(),
        decision: known.decision.map(decision),
    }
}

/// Writes a judgement.
pub(crate) fn decision(decision: Decision) -> pb::Decision {
    pb::Decision {
        advice: advice(decision.advice()).into(),
        verdict: verdict(decision.verdict).into(),
        layer: layer(decision.layer).into(),
        rule: decision.rule.as_str().to_owned(),
        explanation: decision.explanation,
        result: decision.result.map(result::to_wire),
        retry_after: decision.retry_after.map(span::retry_to_wire),
        incident_id: decision.incident.map(|id| id.0).unwrap_or_default(),
        now: decision.now.map(snapshot),
        expected_states: decision
            .expected
            .iter()
            .map(|state| state.as_str().to_owned())
            .collect(),
        differing_fields: decision.differing,
        first_time: decision.first_time_ms.map(span::timestamp),
        deliveries: decision
            .deliveries
            .map_or(0, |count| i32::try_from(count).unwrap_or(i32::MAX)),
        result_not_kept: decision.result_unkept,
        validate_only: decision.only_asked,
        resolution: decision.resolution.unwrap_or_default(),
    }
}

/// Writes a resource as it stands.
pub(crate) fn snapshot(snapshot: Snapshot) -> pb::Snapshot {
    let (live_token, live_holder, live_for, live_also) = match snapshot.live {
        Some(live) => (
            token(live.token),
            live.holder
                .map(|holder| holder.as_str().to_owned())
                .unwrap_or_default(),
            Some(span::to_wire(live.at_most)),
            live.also.iter().map(resource).collect(),
        ),
        None => (0, String::new(), None, Vec::new()),
    };
    pb::Snapshot {
        resource: Some(resource(&snapshot.resource)),
        state: snapshot
            .state
            .map(|state| state.as_str().to_owned())
            .unwrap_or_default(),
        identity: snapshot
            .identity
            .iter()
            .map(|(name, value)| (name.as_str().to_owned(), value.as_str().to_owned()))
            .collect(),
        live_token,
        live_holder,
        live_for,
        live_also,
        revision: snapshot.revision.map_or(0, revision),
        machine_version: snapshot.machine.map_or(0, |version| {
            i32::try_from(version.get()).unwrap_or(i32::MAX)
        }),
        allowed_events: snapshot
            .allowed
            .iter()
            .map(|event| event.as_str().to_owned())
            .collect(),
    }
}

/// Writes the name of a resource.
pub(super) fn resource(resource: &ResourceId) -> pb::Resource {
    pb::Resource {
        kind: resource.kind().as_str().to_owned(),
        id: resource.id().to_owned(),
    }
}

/// Writes what was found.
pub(super) fn verdict(verdict: Verdict) -> pb::Verdict {
    match verdict {
        Verdict::Granted => pb::Verdict::Granted,
        Verdict::Applied => pb::Verdict::Applied,
        Verdict::Replayed => pb::Verdict::Replayed,
        Verdict::InProgress => pb::Verdict::InProgress,
        Verdict::Busy => pb::Verdict::Busy,
        Verdict::Interrupted => pb::Verdict::Interrupted,
        Verdict::Conflict => pb::Verdict::Conflict,
        Verdict::Superseded => pb::Verdict::Superseded,
        Verdict::OtherRound => pb::Verdict::OtherRound,
        Verdict::TooEarly => pb::Verdict::TooEarly,
        Verdict::Rejected => pb::Verdict::Rejected,
        Verdict::Fenced => pb::Verdict::Fenced,
        Verdict::Expired => pb::Verdict::Expired,
    }
}

pub(super) fn grant(grant: Grant) -> pb::Reservation {
    pb::Reservation {
        reservation_id: grant.id.to_string(),
        token: token(grant.token),
        ttl: Some(span::to_wire(grant.ttl.as_duration())),
        safe_for: Some(span::to_wire(grant.safe_for)),
        attempt: i32::try_from(grant.attempt).unwrap_or(i32::MAX),
    }
}

fn advice(advice: Advice) -> pb::Advice {
    match advice {
        Advice::Proceed => pb::Advice::Proceed,
        Advice::Acknowledge => pb::Advice::Acknowledge,
        Advice::Retry => pb::Advice::Retry,
        Advice::Refuse => pb::Advice::Refuse,
        Advice::Abandon => pb::Advice::Abandon,
    }
}

fn layer(layer: Layer) -> pb::Layer {
    match layer {
        Layer::Key => pb::Layer::Key,
        Layer::Digest => pb::Layer::Digest,
        Layer::Replay => pb::Layer::Replay,
        Layer::Fence => pb::Layer::Fence,
        Layer::Identity => pb::Layer::Identity,
        Layer::State => pb::Layer::State,
        Layer::Result => pb::Layer::Result,
    }
}

fn token(token: FencingToken) -> i64 {
    i64::try_from(token.get()).unwrap_or(i64::MAX)
}

fn revision(revision: Revision) -> i64 {
    i64::try_from(revision.get()).unwrap_or(i64::MAX)
}
