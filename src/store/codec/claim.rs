//! Open operations: their claims, and what persons said of them.

use super::operation::{digest_bytes, digest_from_bytes, fields, version_number};
use super::refer::{Names, numbered};
use super::{at_most, exactly, field, mark, nonce, nonce_bytes};
use crate::domain::claim::{Claim, Finding, JudgedAs, OpenOperation, PastClaim, Resolution, Seat};
use crate::domain::digest::Beside;
use crate::domain::ids::{
    EventName, Holder, IdentityName, IdentityValue, Nonce, OperationId, Reason, RequestId,
    StateName,
};
use crate::domain::invalid::Invalid;
use crate::domain::machine::{EVENT_IDENTITY_NAMES_MAX, MachineVersion, STATES_MAX};
use crate::domain::record::Raised;
use crate::domain::request::{IDENTITY_NAMES_MAX, Identity, Intent, Interrupted, Move};
use crate::proto::store_v1 as pb;

/// What it names is added to `names`. `base`: that of the record's last round.
pub(super) fn to_message<'a>(
    open: &'a OpenOperation,
    base: Option<u64>,
    names: &mut Names<'a>,
) -> pb::OpenOperation {
    let OpenOperation {
        intent,
        judged,
        claim,
        fields,
    } = open;
    let clears = judged.iter().flat_map(|judged| &judged.clears);
    pb::OpenOperation {
        id: intent.operation.as_str().to_owned(),
        digest: digest_bytes(&intent.digest),
        round: names.round(claim.round),
        nonce: if claim.nonce == claim.round {
            bytes::Bytes::new()
        } else {
            nonce_bytes(claim.nonce)
        },
        request: bytes::Bytes::copy_from_slice(claim.request.as_bytes()),
        attempts: claim.attempts,
        ridden: claim.seat == Seat::Ridden,
        returned: claim.returned,
        reruns: intent.interrupted == Interrupted::Rerun,
        time_ms: claim.time_ms,
        raised: claim.raised.bits(),
        identity: identity_to_message(&intent.identity),
        from: intent.from.iter().map(|state| names.state(state)).collect(),
        r#move: intent.movement.as_ref().map(|movement| pb::Move {
            to: movement.to.as_ref().map_or(0, |state| names.state(state)),
            initial: movement
                .initial
                .as_ref()
                .map_or(0, |state| names.state(state)),
            sets: identity_to_message(&movement.sets),
        }),
        resolution: claim.resolved.as_deref().map(resolution_to_message),
        fields: bytes::Bytes::copy_from_slice(fields.as_bytes()),
        event: judged
            .as_ref()
            .map(|judged| judged.event.as_str().to_owned())
            .unwrap_or_default(),
        machine_version: version_number(judged.as_ref().map(|judged| judged.version)),
        clears: clears.map(|name| name.as_str().to_owned()).collect(),
        keeps_retrying: judged.as_ref().is_some_and(|judged| judged.keeps_retrying),
        base: (base != Some(claim.base)).then_some(claim.base),
    }
}

fn judged_from(message: &pb::OpenOperation) -> Result<Option<JudgedAs>, Invalid> {
    let Some(version) = MachineVersion::new(message.machine_version) else {
        return Ok(None);
    };
    at_most(
        "open.clears",
        message.clears.len(),
        EVENT_IDENTITY_NAMES_MAX,
    )?;
    let clears = message.clears.iter();
    let clears = clears.map(|name| field("open.clears", IdentityName::parse(name)));
    Ok(Some(JudgedAs {
        event: field("open.event", EventName::parse(&message.event))?,
        version,
        clears: clears.collect::<Result<_, _>>()?,
        keeps_retrying: message.keeps_retrying,
    }))
}

/// What [`to_message`] wrote, with the states and rounds that its numbers stand for.
pub(super) fn from_message(
    message: pb::OpenOperation,
    base: Option<u64>,
    states: &[StateName],
    rounds: &[Nonce],
) -> Result<OpenOperation, Invalid> {
    at_most("open.from", message.from.len(), STATES_MAX)?;
    let round = named_round("open.round", rounds, message.round)?;
    let state = |name: &str, number| numbered(name, states, number);
    let from = message.from.iter();
    let from = from.map(|number| {
        let found = state("open.from", *number)?;
        found.ok_or_else(|| Invalid::new("open.from names no state"))
    });
    let judged = judged_from(&message)?;
    let intent = Intent {
        event: None,
        operation: field("open.id", OperationId::parse(&message.id))?,
        identity: identity_from_message("open.identity", &message.identity)?,
        digest: digest_from_bytes("open.digest", &message.digest)?,
        from: from.collect::<Result<_, _>>()?,
        movement: message
            .r#move
            .map(|movement| {
                Ok(Move {
                    to: state("open.move.to", movement.to)?,
                    initial: state("open.move.initial", movement.initial)?,
                    sets: identity_from_message("open.move.sets", &movement.sets)?,
                })
            })
            .transpose()?,
        // Only of use while its request is judged.
        beside: Beside::default(),
        made_ms: None,
        interrupted: if message.reruns {
            Interrupted::Rerun
        } else {
            Interrupted::Ask
        },
    };
    let claim = Claim {
        nonce: if message.nonce.is_empty() {
            round
        } else {
            nonce("open.nonce", &message.nonce)?
        },
        request: RequestId::from_bytes(exactly("open.request", &message.request)?),
        round,
        seat: if message.ridden {
            Seat::Ridden
        } else {
            Seat::Own
        },
        base: message
            .base
            .or(base)
            .ok_or_else(|| Invalid::new("open.base is missing, and there is no round"))?,
        attempts: message.attempts,
        time_ms: message.time_ms,
        returned: message.returned,
        raised: Raised::from_bits(message.raised),
        resolved: message
            .resolution
            .map(resolution_from_message)
            .transpose()?,
    };
    Ok(OpenOperation {
        intent,
        judged,
        claim,
        fields: fields("open.fields", &message.fields)?,
    })
}

fn named_round(name: &str, rounds: &[Nonce], number: u32) -> Result<Nonce, Invalid> {
    numbered(name, rounds, number)?.ok_or_else(|| Invalid::new(format!("{name} names no round")))
}

pub(super) fn past_to_message(past: &PastClaim, names: &mut Names<'_>) -> pb::PastClaim {
    pb::PastClaim {
        round: names.round(past.round),
        operation: past.operation.as_str().to_owned(),
    }
}

pub(super) fn past_from_message(
    message: &pb::PastClaim,
    rounds: &[Nonce],
) -> Result<PastClaim, Invalid> {
    Ok(PastClaim {
        round: named_round("past_claims.round", rounds, message.round)?,
        operation: field(
            "past_claims.operation",
            OperationId::parse(&message.operation),
        )?,
    })
}

pub(super) fn resolution_to_message(resolution: &Resolution) -> pb::Resolution {
    pb::Resolution {
        finding: match resolution.finding {
            Finding::Done => 1,
            Finding::NotDone => 2,
            Finding::Refused => 3,
        },
        by: resolution.by.as_str().to_owned(),
        reason: resolution.reason.as_str().to_owned(),
        time_ms: resolution.time_ms,
        mark: bytes::Bytes::copy_from_slice(resolution.mark.as_bytes()),
    }
}

pub(super) fn resolution_from_message(message: pb::Resolution) -> Result<Box<Resolution>, Invalid> {
    let finding = match message.finding {
        1 => Finding::Done,
        2 => Finding::NotDone,
        3 => Finding::Refused,
        other => {
            return Err(Invalid::new(format!(
                "resolution.finding is {other}, which is none"
            )));
        }
    };
    Ok(Box::new(Resolution {
        finding,
        by: field("resolution.by", Holder::parse(&message.by))?,
        reason: field("resolution.reason", Reason::parse(&message.reason))?,
        time_ms: message.time_ms,
        mark: mark("resolution.mark", &message.mark)?,
    }))
}

fn identity_to_message(identity: &Identity) -> Vec<pb::NamedValue> {
    let each = identity.iter();
    each.map(|(name, value)| pb::NamedValue {
        name: name.as_str().to_owned(),
        value: value.as_str().to_owned(),
        replaced: Vec::new(),
    })
    .collect()
}

fn identity_from_message(name: &str, values: &[pb::NamedValue]) -> Result<Identity, Invalid> {
    at_most(name, values.len(), IDENTITY_NAMES_MAX)?;
    let mut identity = Identity::new();
    for value in values {
        let key = field(name, IdentityName::parse(&value.name))?;
        let text = field(name, IdentityValue::parse(&value.value))?;
        identity.insert(key, text);
    }
    Ok(identity)
}
