//! Open operations: their claims, and what persons said of them.

use super::operation::{digest_bytes, digest_from_bytes};
use super::{at_most, exactly, field, mark, nonce, nonce_bytes};
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

pub(super) fn to_message(open: &OpenOperation) -> pb::OpenOperation {
    let OpenOperation { intent, claim } = open;
    pb::OpenOperation {
        id: intent.operation.as_str().to_owned(),
        digest: digest_bytes(&intent.digest),
        round: nonce_bytes(claim.round),
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
    }
}

pub(super) fn from_message(message: pb::OpenOperation) -> Result<OpenOperation, Invalid> {
    at_most("open.from", message.from.len(), FROM_STATES_MAX)?;
    let round = nonce("open.round", &message.round)?;
    let states = message.from.iter();
    let intent = Intent {
        operation: field("open.id", OperationId::parse(&message.id))?,
        identity: identity_from_message("open.identity", &message.identity)?,
        digest: digest_from_bytes("open.digest", &message.digest)?,
        from: states
            .map(|state| field("open.from", StateName::parse(state)))
            .collect::<Result<_, _>>()?,
        movement: message
            .r#move
            .map(|movement| {
                Ok(Move {
                    to: maybe_state("open.move.to", &movement.to)?,
                    initial: maybe_state("open.move.initial", &movement.initial)?,
                    sets: identity_from_message("open.move.sets", &movement.sets)?,
                })
            })
            .transpose()?,
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
        attempts: message.attempts,
        time_ms: message.time_ms,
        returned: message.returned,
        raised: Raised::from_bits(message.raised),
        resolved: message
            .resolution
            .map(resolution_from_message)
            .transpose()?,
    };
    Ok(OpenOperation { intent, claim })
}

fn state_text(state: Option<&StateName>) -> String {
    state
        .map(|state| state.as_str().to_owned())
        .unwrap_or_default()
}

/// Empty: none.
fn maybe_state(name: &str, text: &str) -> Result<Option<StateName>, Invalid> {
    if text.is_empty() {
        return Ok(None);
    }
    field(name, StateName::parse(text)).map(Some)
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
