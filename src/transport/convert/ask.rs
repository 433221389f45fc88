//! Requests, from the wire to the domain.

use crate::domain::claim::Finding;
use crate::domain::ids::{
    EventName, Holder, Kind, OperationId, Reason, RequestId, ReservationId, ResourceId,
};
use crate::domain::request::{
    Afterwards, Complete, EndedRounds, Fence, Intent, Left, Lookup, Purpose, Reserve, Resolve,
    Ride, Running, Transition, Ttl,
};
use crate::domain::together::ReserveTogether;
use crate::domain::token::FencingToken;
use crate::engine::{Counted, Fault};
use crate::proto::v1 as pb;
use crate::proto::v1::intent::Content;

use super::{at, intent, present, refused, result, span, together};

/// Largest JSON content that is digested between other calls, in bytes. A larger one takes milliseconds, and goes to a thread
/// where nobody waits behind it.
const JSON_BYTES_INLINE_MAX: usize = 64 * 1024;

/// What a Reserve asks for.
#[derive(Debug)]
pub(crate) enum Reserving {
    /// A round of its own.
    New(Reserve),
    /// A round of several resources.
    Together(ReserveTogether),
    /// A claim on a round that the caller has.
    Ride(Box<Ride>),
}

impl Reserving {
    /// The operation to be claimed, if there is one.
    pub(crate) fn intent(&self) -> Option<(&ResourceId, &Intent)> {
        match self {
            Self::New(ask) => Some((&ask.resource, ask.intent.as_deref()?)),
            Self::Together(_) => None,
            Self::Ride(ask) => Some((ask.reservation.resource(), &ask.intent)),
        }
    }
}

/// Reads a Reserve. `peer` names the caller where it does not name itself; `counted` says what of its content counts, and how
/// long a claim of the event lasts.
pub(crate) fn reserve(
    mut request: pb::ReserveRequest,
    peer: &str,
    counted: impl FnOnce(&Kind, Option<&EventName>) -> Counted,
) -> Result<Reserving, Fault> {
    let named = resource(request.resource.take())?;
    let attempt = at("request_id", RequestId::parse(&request.request_id))?;
    if !request.also.is_empty() {
        return together::reserve(named, attempt, &request, peer).map(Reserving::Together);
    }
    if let Some(text) = present(&request.reservation_id) {
        let reservation = reservation_of(&named, text)?;
        if reservation.is_of_several() {
            return Err(refused(
                "reservation_id",
                "is that of several resources, under which nothing can be claimed: an operation belongs to one",
            ));
        }
        if request.ttl.is_some() {
            return Err(refused(
                "ttl",
                "must be absent with a reservation_id: the claim lasts as long as that reservation",
            ));
        }
        if !request.holder.is_empty() {
            return Err(refused(
                "holder",
                "must be absent with a reservation_id: the holder is that of the reservation",
            ));
        }
        let Some(wire) = request.intent else {
            return Err(refused(
                "intent",
                "is required with a reservation_id: to prolong a reservation, call Renew",
            ));
        };
        return Ok(Reserving::Ride(Box::new(Ride {
            reservation,
            request: attempt,
            intent: intent::from_wire(wire, |event| counted(named.kind(), event))?,
        })));
    }
    let mut said = None;
    let intent = request
        .intent
        .map(|wire| {
            intent::from_wire(wire, |event| {
                let counted = counted(named.kind(), event);
                said = counted.claim;
                counted
            })
        })
        .transpose()?
        .map(Box::new);
    let ttl = request
        .ttl
        .map(span::from_wire)
        .transpose()
        .and_then(|asked| Ttl::parse(asked.or(said)));
    Ok(Reserving::New(Reserve {
        resource: named,
        request: attempt,
        ttl: at("ttl", ttl)?,
        holder: holder(&request.holder, peer)?,
        intent,
    }))
}

/// Who will hold what is asked for.
pub(super) fn holder(said: &str, peer: &str) -> Result<Option<Holder>, Fault> {
    match present(said) {
        Some(name) => Ok(Some(at("holder", Holder::parse(name))?)),
        None => Ok(Holder::parse(peer).ok()),
    }
}

/// What a Transition asks for.
#[derive(Debug)]
pub(crate) enum Moving {
    /// A move that it names.
    Message(Box<Transition>),
    /// The completing of a claim.
    Claim(Complete),
}

impl Moving {
    /// What it names, if it names an operation.
    pub(crate) fn intent(&self) -> Option<(&ResourceId, &Intent)> {
        match self {
            Self::Message(ask) => Some((&ask.resource, &ask.intent)),
            Self::Claim(_) => None,
        }
    }
}

/// Reads a Transition. `peer` names the caller; `counted` says what of its content counts.
pub(crate) fn transition(
    request: pb::TransitionRequest,
    peer: &str,
    counted: impl FnOnce(&Kind, Option<&EventName>) -> Counted,
) -> Result<Moving, Fault> {
    let resource = resource(request.resource)?;
    let reservation = present(&request.reservation_id)
        .map(|text| reservation_of(&resource, text))
        .transpose()?;
    let afterwards = request.release.map(|release| {
        if release {
            Afterwards::Ends
        } else {
            Afterwards::Stays
        }
    });
    if afterwards.is_some() && reservation.is_none() {
        return Err(refused(
            "release",
            "must be absent without a reservation_id: there is no reservation to end or to keep",
        ));
    }
    if let Some(reservation) = &reservation {
        together::check_transition(reservation, afterwards, request.intent.is_some())?;
    }
    let outcome = present(&request.outcome_event)
        .map(|event| at("outcome_event", EventName::parse(event)))
        .transpose()?;
    if outcome.is_some() && reservation.is_none() {
        return Err(refused(
            "outcome_event",
            "must be absent without a reservation_id: only the effect of a claim can turn out otherwise",
        ));
    }
    let result = request
        .result
        .map(|wire| result::from_wire("result", wire))
        .transpose()?;
    let sender = Holder::parse(peer).ok();
    let purpose = if request.validate_only {
        Purpose::Validate
    } else {
        Purpose::Commit
    };
    match (request.intent, reservation) {
        (Some(wire), reservation) => Ok(Moving::Message(Box::new(Transition {
            intent: intent::from_wire(wire, |event| counted(resource.kind(), event))?,
            resource,
            reservation,
            result,
            afterwards,
            outcome,
            sender,
            purpose,
        }))),
        (None, Some(reservation)) => Ok(Moving::Claim(Complete {
            reservation,
            result,
            afterwards,
            outcome,
            sender,
            purpose,
        })),
        (None, None) => Err(refused(
            "intent",
            "is required, unless reservation_id names a reservation that carries a claim",
        )),
    }
}

/// Reads a ResolveOperation.
pub(crate) fn resolve(request: pb::ResolveOperationRequest) -> Result<Resolve, Fault> {
    let finding = match request.finding() {
        pb::Finding::Done => Finding::Done,
        pb::Finding::NotDone => Finding::NotDone,
        pb::Finding::Refused => Finding::Refused,
        pb::Finding::Unspecified => {
            return Err(refused(
                "finding",
                "is required: DONE, NOT_DONE or REFUSED; what was found out?",
            ));
        }
    };
    if request.result.is_some() && finding != Finding::Done {
        return Err(refused(
            "result",
            "must be absent unless the finding is DONE: only what was done has a result",
        ));
    }
    let attempt = u32::try_from(request.attempt)
        .map_err(|_| refused("attempt", "is negative; 0 means whichever is the last"))?;
    Ok(Resolve {
        resource: resource(request.resource)?,
        operation: at("operation_id", OperationId::parse(&request.operation_id))?,
        finding,
        result: request
            .result
            .map(|wire| result::from_wire("result", wire))
            .transpose()?
            .unwrap_or_default(),
        by: at("resolver", Holder::parse(&request.resolver))?,
        reason: at("reason", Reason::parse(&request.reason))?,
        attempt: (attempt > 0).then_some(attempt),
        running: if request.even_if_running {
            Running::Ended
        } else {
            Running::Spared
        },
    })
}

/// Reads a Fence.
pub(crate) fn fence(request: pb::FenceRequest) -> Result<Fence, Fault> {
    Ok(Fence {
        resource: resource(request.resource)?,
        token: at("token", FencingToken::shown(request.token))?,
        ended: if request.even_if_ended {
            EndedRounds::Accepted
        } else {
            EndedRounds::Refused
        },
    })
}

/// Reads a Renew.
pub(crate) fn renew(request: pb::RenewRequest) -> Result<ReservationId, Fault> {
    reservation(&request.reservation_id)
}

/// Reads a Release.
pub(crate) fn release(request: pb::ReleaseRequest) -> Result<(ReservationId, Left), Fault> {
    let left = match (request.nothing_done, request.result) {
        (true, Some(_)) => {
            return Err(refused(
                "result",
                "must be absent with nothing_done: what was not begun has not ended either",
            ));
        }
        (true, None) => Left::NothingDone,
        (false, Some(wire)) => Left::Ended(Box::new(result::from_wire("result", wire)?)),
        (false, None) => Left::Unsaid,
    };
    Ok((reservation(&request.reservation_id)?, left))
}

/// Reads a Lookup.
pub(crate) fn lookup(request: pb::LookupRequest) -> Result<(ResourceId, Lookup), Fault> {
    let resource = resource(request.resource)?;
    let lookup = Lookup {
        operation: at("operation_id", OperationId::parse(&request.operation_id))?,
        made_ms: span::moment("operation_time", request.operation_time)?,
    };
    Ok((resource, lookup))
}

/// Reads an Inspect: of which resource, and whether it is to tell who waits.
pub(crate) fn inspect(request: pb::InspectRequest) -> Result<(ResourceId, bool), Fault> {
    Ok((resource(request.resource)?, request.with_queue))
}

fn reservation(text: &str) -> Result<ReservationId, Fault> {
    at("reservation_id", ReservationId::parse(text))
}

/// A reservation that must be of the resource that the request names. Which resources one of several has, only their records say.
fn reservation_of(resource: &ResourceId, text: &str) -> Result<ReservationId, Fault> {
    let reservation = reservation(text)?;
    if reservation.resource() != resource && !reservation.is_of_several() {
        return Err(refused(
            "reservation_id",
            "is that of another resource than `resource`",
        ));
    }
    Ok(reservation)
}

pub(super) fn resource(resource: Option<pb::Resource>) -> Result<ResourceId, Fault> {
    let Some(resource) = resource else {
        return Err(refused("resource", "is required"));
    };
    named("resource", &resource)
}

/// A resource at this place of the request.
pub(super) fn named(field: &str, resource: &pb::Resource) -> Result<ResourceId, Fault> {
    let kind = at(&format!("{field}.kind"), Kind::parse(&resource.kind))?;
    at(&format!("{field}.id"), ResourceId::new(kind, &resource.id))
}

/// Whether reading a Reserve takes so long that it should not be done between other calls.
pub(crate) fn reserve_is_slow(request: &pb::ReserveRequest) -> bool {
    digests_slowly(request.intent.as_ref())
}

/// Whether reading a Transition takes so long that it should not be done between other calls.
pub(crate) fn transition_is_slow(request: &pb::TransitionRequest) -> bool {
    digests_slowly(request.intent.as_ref())
}

fn digests_slowly(intent: Option<&pb::Intent>) -> bool {
    match intent.and_then(|intent| intent.content.as_ref()) {
        Some(Content::Json(text)) => text.len() > JSON_BYTES_INLINE_MAX,
        Some(Content::Raw(_) | Content::Digest(_)) | None => false,
    }
}
