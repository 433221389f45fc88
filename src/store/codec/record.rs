//! Records and rounds.

use std::collections::BTreeMap;

use super::claim;
use super::operation::{self, state_text};
use super::{at_most, field, maybe_nonce, maybe_state, nonce, nonce_bytes, sixteen};
use crate::domain::claim::{OPEN_OPERATIONS_MAX, PAST_CLAIMS_MAX, RETURNED_OPERATIONS_MAX};
use crate::domain::ids::{
    Holder, IdentityName, IdentityValue, Nonce, OperationId, RequestId, StateName,
};
use crate::domain::invalid::Invalid;
use crate::domain::record::{
    IDENTITY_NAMES_REMEMBERED_MAX, LeaseId, NamedValue, PAST_ROUNDS_MAX, PastRound,
    REPLACED_VALUES_MAX, Record, Round, RoundEnd, STATES_REMEMBERED_MAX, ValueHash, Visit,
};
use crate::domain::request::Ttl;
use crate::domain::token::Revision;
use crate::proto::store_v1 as pb;

/// Most open operations of a record: those whose claims count, and those given back.
const OPEN_MAX: usize = OPEN_OPERATIONS_MAX + RETURNED_OPERATIONS_MAX;

pub(super) fn to_message(record: &Record) -> pb::Record {
    // What is written must be read again: these limits are checked on decode.
    debug_assert!(record.visits.len() <= STATES_REMEMBERED_MAX);
    debug_assert!(record.identity.len() <= IDENTITY_NAMES_REMEMBERED_MAX);
    debug_assert!(record.past_rounds.len() <= PAST_ROUNDS_MAX);
    debug_assert!(record.open.len() <= OPEN_MAX);
    debug_assert!(record.past_claims.len() <= PAST_CLAIMS_MAX);
    pb::Record {
        moves: record.moves,
        state: state_text(record.state.as_ref()),
        visits: record.visits.iter().map(visit_to_message).collect(),
        identity: record.identity.iter().map(value_to_message).collect(),
        round: record.round.as_ref().map(round_to_message),
        past_rounds: record
            .past_rounds
            .iter()
            .map(|past| pb::PastRound {
                nonce: nonce_bytes(past.nonce),
                released_by: released_by(past.end),
            })
            .collect(),
        operations: record
            .operations
            .iter()
            .map(operation::to_message)
            .chain(record.open.iter().map(claim::to_message))
            .collect(),
        spilled: record.spilled,
        past_claims: record
            .past_claims
            .iter()
            .map(claim::past_to_message)
            .collect(),
    }
}

pub(super) fn from_message(message: pb::Record) -> Result<Record, Invalid> {
    at_most("visits", message.visits.len(), STATES_REMEMBERED_MAX)?;
    at_most(
        "identity",
        message.identity.len(),
        IDENTITY_NAMES_REMEMBERED_MAX,
    )?;
    at_most("past_rounds", message.past_rounds.len(), PAST_ROUNDS_MAX)?;
    let mut visits = BTreeMap::new();
    for visit in message.visits {
        let state = field("visits.state", StateName::parse(&visit.state))?;
        let visit = Visit {
            entered: visit.entered,
            left: visit.left,
            values: visit.values.into_iter().map(ValueHash).collect(),
        };
        if visits.insert(state, visit).is_some() {
            return Err(Invalid::new("visits names a state twice"));
        }
    }
    let mut identity = BTreeMap::new();
    for value in message.identity {
        let (name, value) = value_from_message(&value)?;
        if identity.insert(name, value).is_some() {
            return Err(Invalid::new("identity has a name twice"));
        }
    }
    let (open, finished): (Vec<_>, Vec<_>) =
        message.operations.into_iter().partition(claim::is_open);
    at_most("open operations", open.len(), OPEN_MAX)?;
    at_most("past_claims", message.past_claims.len(), PAST_CLAIMS_MAX)?;
    Ok(Record {
        moves: message.moves,
        state: maybe_state("state", &message.state)?,
        visits,
        identity,
        round: message.round.map(round_from_message).transpose()?,
        past_rounds: message
            .past_rounds
            .iter()
            .map(|past| {
                Ok(PastRound {
                    nonce: nonce("past_rounds.nonce", &past.nonce)?,
                    end: round_end("past_rounds.released_by", &past.released_by)?,
                })
            })
            .collect::<Result<_, Invalid>>()?,
        operations: finished
            .into_iter()
            .map(operation::from_message)
            .collect::<Result<_, _>>()?,
        open: open
            .into_iter()
            .map(claim::from_message)
            .collect::<Result<_, _>>()?,
        past_claims: message
            .past_claims
            .iter()
            .map(claim::past_from_message)
            .collect::<Result<_, _>>()?,
        spilled: message.spilled,
    })
}

fn visit_to_message((state, visit): (&StateName, &Visit)) -> pb::Visit {
    pb::Visit {
        state: state.as_str().to_owned(),
        entered: visit.entered,
        left: visit.left,
        values: visit.values.iter().map(|hash| hash.0).collect(),
    }
}

fn value_to_message((name, value): (&IdentityName, &NamedValue)) -> pb::NamedValue {
    debug_assert!(value.replaced.len() <= REPLACED_VALUES_MAX);
    pb::NamedValue {
        name: name.as_str().to_owned(),
        value: value.current.as_str().to_owned(),
        replaced: value.replaced.iter().map(|hash| hash.0).collect(),
    }
}

fn value_from_message(message: &pb::NamedValue) -> Result<(IdentityName, NamedValue), Invalid> {
    at_most(
        "identity.replaced",
        message.replaced.len(),
        REPLACED_VALUES_MAX,
    )?;
    let name = field("identity.name", IdentityName::parse(&message.name))?;
    let value = NamedValue {
        current: field("identity.value", IdentityValue::parse(&message.value))?,
        replaced: message.replaced.iter().copied().map(ValueHash).collect(),
    };
    Ok((name, value))
}

fn round_to_message(round: &Round) -> pb::Round {
    pb::Round {
        nonce: nonce_bytes(round.nonce),
        request: bytes::Bytes::copy_from_slice(round.request.as_bytes()),
        holder: round
            .holder
            .as_ref()
            .map(|holder| holder.as_str().to_owned())
            .unwrap_or_default(),
        ttl_seconds: round.ttl.seconds(),
        lease: round.lease.0,
        base: round.base,
        granted: round.granted.map_or(0, Revision::get),
        over: round.over.map(|end| pb::RoundEnd {
            released_by: released_by(end),
        }),
        claimed: round
            .claimed
            .as_ref()
            .map(|operation| operation.as_str().to_owned())
            .unwrap_or_default(),
        claims: round.claims,
    }
}

fn round_from_message(message: pb::Round) -> Result<Round, Invalid> {
    let granted = i64::try_from(message.granted)
        .map_err(|_| Invalid::new("round.granted is no revision of etcd"))?;
    Ok(Round {
        nonce: nonce("round.nonce", &message.nonce)?,
        request: RequestId::from_bytes(sixteen("round.request", &message.request)?),
        holder: if message.holder.is_empty() {
            None
        } else {
            Some(field("round.holder", Holder::parse(&message.holder))?)
        },
        ttl: Ttl::from_seconds(message.ttl_seconds).ok_or_else(|| {
            Invalid::new(format!(
                "round.ttl_seconds is {}, outside its limits",
                message.ttl_seconds
            ))
        })?,
        lease: LeaseId(message.lease),
        base: message.base,
        granted: Revision::from_etcd(granted),
        over: message
            .over
            .map(|over| round_end("round.over", &over.released_by))
            .transpose()?,
        claimed: if message.claimed.is_empty() {
            None
        } else {
            Some(field(
                "round.claimed",
                OperationId::parse(&message.claimed),
            )?)
        },
        claims: message.claims,
    })
}

fn released_by(end: RoundEnd) -> bytes::Bytes {
    match end {
        RoundEnd::Released(nonce) => nonce_bytes(nonce),
        RoundEnd::Lost => bytes::Bytes::new(),
    }
}

fn round_end(name: &str, released_by: &[u8]) -> Result<RoundEnd, Invalid> {
    let released: Option<Nonce> = maybe_nonce(name, released_by)?;
    Ok(released.map_or(RoundEnd::Lost, RoundEnd::Released))
}
