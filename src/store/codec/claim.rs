//! Open operations: their claims, and what persons said of them.

use super::operation::{digest_from_message, digest_to_message, state_text};
use super::{at_most, field, maybe_state, missing, nonce, nonce_bytes, sixteen};
use crate::domain::claim::{Claim, Finding, OpenOperation, PastClaim, Resolution, Seat};
use crate::domain::ids::{
    Holder, IdentityName, IdentityValue, OperationId, Reason, RequestId, StateName,
};
use crate::domain::invalid::Invalid;
use crate::domain::record::Raised;
use crate::domain::request::{
    FROM_STATES_MAX, IDENTITY_NAMES_MAX, Identity, Intent, Interrupted, Move,
};
use crate::proto::store_v1 as pb;

/// An open operation has no verdict yet.
pub(super) fn is_open(message: &pb::Operation) -> bool {
    message.verdict == 0
}

pub(super) fn to_message(open: &OpenOperation) -> pb::Operation {
    let OpenOperation { intent, claim } = open;
    let stored = pb::Claim {
        request: bytes::Bytes::copy_from_slice(claim.request.as_bytes()),
        attempts: claim.attempts,
        ridden: claim.seat == Seat::Ridden,
        returned: claim.returned,
        reruns: intent.interrupted == Interrupted::Rerun,
        identity: identity_to_message(&intent.identity),
        from: intent
            .from
            .iter()
            .map(|state| state.as_str().to_owned())
            .collect(),
        r#move: intent.movement.as_ref().map(|movement| pb::Move {
            to: state_text(movement.to.as_ref()),
            initial: state_text(movement.initial.as_ref()),
            sets: identity_to_message(&movement.sets),
        }),
        resolution: claim.resolved.as_deref().map(resolution_to_message),
    };
    pb::Operation {
        id: intent.operation.as_str().to_owned(),
        digest: Some(digest_to_message(&intent.digest)),
        time_ms: claim.time_ms,
        nonce: nonce_bytes(claim.nonce),
        round: nonce_bytes(claim.round),
        raised: claim.raised.bits(),
        claim: Some(stored),
        ..pb::Operation::default()
    }
}

pub(super) fn from_message(message: pb::Operation) -> Result<OpenOperation, Invalid> {
    let stored = message.claim.ok_or_else(|| missing("operation.claim"))?;
    at_most("claim.from", stored.from.len(), FROM_STATES_MAX)?;
    let states = stored.from.iter();
    let intent = Intent {
        operation: field("operation.id", OperationId::parse(&message.id))?,
        identity: identity_from_message("claim.identity", &stored.identity)?,
        digest: digest_from_message("operation.digest", message.digest)?
            .ok_or_else(|| missing("operation.digest"))?,
        from: states
            .map(|state| field("claim.from", StateName::parse(state)))
            .collect::<Result<_, _>>()?,
        movement: stored
            .r#move
            .map(|movement| {
                Ok(Move {
                    to: maybe_state("claim.move.to", &movement.to)?,
                    initial: maybe_state("claim.move.initial", &movement.initial)?,
                    sets: identity_from_message("claim.move.sets", &movement.sets)?,
                })
            })
            .transpose()?,
        interrupted: if stored.reruns {
            Interrupted::Rerun
        } else {
            Interrupted::Ask
        },
    };
    let claim = Claim {
        nonce: nonce("operation.nonce", &message.nonce)?,
        request: RequestId::from_bytes(sixteen("claim.request", &stored.request)?),
        round: nonce("operation.round", &message.round)?,
        seat: if stored.ridden {
            Seat::Ridden
        } else {
            Seat::Own
        },
        attempts: stored.attempts,
        time_ms: message.time_ms,
        returned: stored.returned,
        raised: Raised::from_bits(message.raised),
        resolved: stored.resolution.map(resolution_from_message).transpose()?,
    };
    Ok(OpenOperation { intent, claim })
}

pub(super) fn past_to_message(past: &PastClaim) -> pb::PastClaim {
    pb::PastClaim {
        round: nonce_bytes(past.round),
        operation: past.operation.as_str().to_owned(),
    }
}

pub(super) fn past_from_message(message: &pb::PastClaim) -> Result<PastClaim, Invalid> {
    Ok(PastClaim {
        round: nonce("past_claims.round", &message.round)?,
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
        nonce: nonce_bytes(resolution.nonce),
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
        nonce: nonce("resolution.nonce", &message.nonce)?,
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
