//! Records and rounds.

use std::collections::BTreeMap;

use super::claim;
use super::operation::{self, Before, version_number};
use super::refer::{Names, numbered};
use super::{at_most, exactly, field, less, mark, moment, nonce, nonce_bytes, plus, seconds};
use crate::domain::claim::{OPEN_OPERATIONS_MAX, PAST_CLAIMS_STORED_MAX, RETURNED_OPERATIONS_MAX};
use crate::domain::ids::{
    Holder, IdentityName, IdentityValue, Kind, Nonce, OperationId, RequestId, ResourceId, StateName,
};
use crate::domain::invalid::Invalid;
use crate::domain::machine::MachineVersion;
use crate::domain::record::{
    IDENTITY_NAMES_REMEMBERED_MAX, LeaseId, NamedValue, PAST_ROUNDS_MAX, PastRound,
    REPLACED_VALUES_MAX, Record, Round, RoundEnd, STATES_REMEMBERED_MAX, ValueHash, Visit,
};
use crate::domain::request::Ttl;
use crate::domain::together::{Company, TOGETHER_MAX};
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
    debug_assert!(record.past_claims.len() <= PAST_CLAIMS_STORED_MAX);
    let mut visits: Vec<_> = record.visits.iter().collect();
    visits.sort_by_key(|(_, visit)| visit.entered);
    let last_round = record.round.iter().map(|round| round.nonce);
    let past_rounds = record.past_rounds.iter().map(|past| past.nonce);
    let mut names = Names {
        states: visits.iter().map(|(state, _)| *state).collect(),
        rounds: last_round.chain(past_rounds).collect(),
    };
    let rounds_remembered = names.rounds.len();
    let last_visit = visits.last();
    let last_entered = last_visit.map_or(0, |(_, visit)| visit.entered);
    let usual_state = last_visit.map(|(state, _)| *state);
    let state = record.state.as_ref();
    let state_number = (state != usual_state).then(|| state.map_or(0, |state| names.state(state)));
    let mut before = Before::default();
    let mut operations = Vec::with_capacity(record.operations.len());
    for operation in &record.operations {
        operations.push(operation::to_message(operation, &mut names, before));
        before = before.then(operation);
    }
    let past_claims = record
        .past_claims
        .iter()
        .map(|past| claim::past_to_message(past, &mut names))
        .collect();
    let base = record.round.as_ref().map(|round| round.base);
    let open = record
        .open
        .iter()
        .map(|open| claim::to_message(open, base, &mut names))
        .collect();
    pb::Record {
        moves: (record.moves != last_entered).then_some(record.moves),
        state: state_number,
        visits: visits_to_messages(&visits),
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
        operations,
        spilled: record.spilled,
        touched: less(record.touched, before.time_s()),
        forgotten: seconds(record.forgotten),
        machine_version: version_number(record.machine),
        past_claims,
        open,
        other_states: names.states_beyond(visits.len()),
        other_rounds: names.rounds_beyond(rounds_remembered),
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
    at_most("open", message.open.len(), OPEN_MAX)?;
    at_most(
        "past_claims",
        message.past_claims.len(),
        PAST_CLAIMS_STORED_MAX,
    )?;
    let visits = visits_from_messages(message.visits)?;
    let last_entered = visits.last().map_or(0, |(_, visit)| visit.entered);
    let mut states: Vec<StateName> = visits.iter().map(|(state, _)| state.clone()).collect();
    let usual_state = states.last().cloned();
    states.extend(operation::states("other_states", &message.other_states)?);
    let mut identity = BTreeMap::new();
    for value in message.identity {
        let (name, value) = value_from_message(&value)?;
        if identity.insert(name, value).is_some() {
            return Err(Invalid::new("identity has a name twice"));
        }
    }
    let round = message.round.map(round_from_message).transpose()?;
    let past_rounds = message.past_rounds.iter().map(past_from_message);
    let past_rounds = past_rounds.collect::<Result<Vec<_>, _>>()?;
    let mut rounds: Vec<Nonce> = round.iter().map(|round| round.nonce).collect();
    rounds.extend(past_rounds.iter().map(|past| past.nonce));
    rounds.extend(operation::rounds("other_rounds", &message.other_rounds)?);
    let mut before = Before::default();
    let mut operations = Vec::with_capacity(message.operations.len());
    for operation in message.operations {
        let operation = operation::from_message(operation, &states, &rounds, before)?;
        before = before.then(&operation);
        operations.push(operation);
    }
    let base = round.as_ref().map(|round| round.base);
    Ok(Record {
        moves: message.moves.unwrap_or(last_entered),
        state: match message.state {
            Some(number) => numbered("state", &states, number)?,
            None => usual_state,
        },
        visits: in_order_of_names(visits)?,
        identity,
        round,
        past_rounds,
        operations,
        open: message
            .open
            .into_iter()
            .map(|open| claim::from_message(open, base, &states, &rounds))
            .collect::<Result<_, _>>()?,
        past_claims: message
            .past_claims
            .iter()
            .map(|past| claim::past_from_message(past, &rounds))
            .collect::<Result<_, _>>()?,
        spilled: message.spilled,
        touched: plus(message.touched, before.time_s()),
        forgotten: moment(message.forgotten),
        machine: MachineVersion::new(message.machine_version),
    })
}

/// Visits in the order in which they were entered. What follows from the neighbours is left out.
fn visits_to_messages(visits: &[(&StateName, &Visit)]) -> Vec<pb::Visit> {
    let mut before = 0_u64;
    let mut messages = Vec::with_capacity(visits.len());
    for (at, (state, visit)) in visits.iter().enumerate() {
        let next = visits.get(at + 1).map(|(_, next)| next.entered);
        messages.push(pb::Visit {
            state: state.as_str().to_owned(),
            entered: (visit.entered != before.wrapping_add(1)).then_some(visit.entered),
            left: visit.left.filter(|_| visit.left != next),
            values: visit.values.iter().map(|hash| hash.0).collect(),
            never_left: visit.left.is_none() && next.is_some(),
        });
        before = visit.entered;
    }
    messages
}

fn visits_from_messages(messages: Vec<pb::Visit>) -> Result<Vec<(StateName, Visit)>, Invalid> {
    let mut visits: Vec<(StateName, Visit)> = Vec::with_capacity(messages.len());
    let mut before = 0_u64;
    let mut stays_until_next = false;
    for message in messages {
        let entered = message.entered.unwrap_or(before.wrapping_add(1));
        if let Some((_, last)) = visits.last_mut().filter(|_| stays_until_next) {
            last.left = Some(entered);
        }
        stays_until_next = message.left.is_none() && !message.never_left;
        before = entered;
        let visit = Visit {
            entered,
            left: message.left,
            values: message.values.into_iter().map(ValueHash).collect(),
        };
        let state = field("visits.state", StateName::parse(&message.state))?;
        visits.push((state, visit));
    }
    Ok(visits)
}

fn in_order_of_names(
    visits: Vec<(StateName, Visit)>,
) -> Result<BTreeMap<StateName, Visit>, Invalid> {
    let count = visits.len();
    let by_name: BTreeMap<_, _> = visits.into_iter().collect();
    if by_name.len() != count {
        return Err(Invalid::new("visits names a state twice"));
    }
    Ok(by_name)
}

fn past_from_message(past: &pb::PastRound) -> Result<PastRound, Invalid> {
    Ok(PastRound {
        nonce: nonce("past_rounds.nonce", &past.nonce)?,
        end: round_end("past_rounds.released_by", &past.released_by)?,
    })
}

fn value_to_message((name, value): (&IdentityName, &NamedValue)) -> pb::NamedValue {
    debug_assert!(value.replaced.len() <= REPLACED_VALUES_MAX);
    pb::NamedValue {
        name: name.as_str().to_owned(),
        value: value
            .current
            .as_ref()
            .map(|value| value.as_str().to_owned())
            .unwrap_or_default(),
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
        current: if message.value.is_empty() {
            None
        } else {
            Some(field(
                "identity.value",
                IdentityValue::parse(&message.value),
            )?)
        },
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
        others: match &round.company {
            Company::Leads(others) => others.iter().map(held_to_message).collect(),
            Company::Alone | Company::Follows(_) => Vec::new(),
        },
        lead: match &round.company {
            Company::Follows(lead) => Some(held_to_message(lead)),
            Company::Alone | Company::Leads(_) => None,
        },
    }
}

fn held_to_message(resource: &ResourceId) -> pb::HeldTogether {
    pb::HeldTogether {
        kind: resource.kind().as_str().to_owned(),
        id: resource.id().to_owned(),
    }
}

fn held_from_message(message: &pb::HeldTogether) -> Result<ResourceId, Invalid> {
    let kind = field("round.others.kind", Kind::parse(&message.kind))?;
    field("round.others.id", ResourceId::new(kind, &message.id))
}

fn company_from_message(message: &pb::Round) -> Result<Company, Invalid> {
    at_most("round.others", message.others.len(), TOGETHER_MAX - 1)?;
    match (message.others.as_slice(), &message.lead) {
        ([], None) => Ok(Company::Alone),
        ([], Some(lead)) => held_from_message(lead).map(Company::Follows),
        (others, None) => {
            let others = others.iter().map(held_from_message);
            others.collect::<Result<_, _>>().map(Company::Leads)
        }
        (_, Some(_)) => Err(Invalid::new("round leads others and follows one")),
    }
}

fn round_from_message(message: pb::Round) -> Result<Round, Invalid> {
    let granted = i64::try_from(message.granted)
        .map_err(|_| Invalid::new("round.granted is no revision of etcd"))?;
    let company = company_from_message(&message)?;
    Ok(Round {
        nonce: nonce("round.nonce", &message.nonce)?,
        request: RequestId::from_bytes(exactly("round.request", &message.request)?),
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
        company,
    })
}

fn released_by(end: RoundEnd) -> bytes::Bytes {
    match end {
        RoundEnd::Released(mark) => bytes::Bytes::copy_from_slice(mark.as_bytes()),
        RoundEnd::Lost => bytes::Bytes::new(),
    }
}

fn round_end(name: &str, released_by: &[u8]) -> Result<RoundEnd, Invalid> {
    if released_by.is_empty() {
        return Ok(RoundEnd::Lost);
    }
    mark(name, released_by).map(RoundEnd::Released)
}
