//! Requests, from the wire to the domain.

use crate::domain::ids::{
    EventName, Holder, Kind, OperationId, RequestId, ReservationId, ResourceId,
};
use crate::domain::request::{EndedRounds, Fence, Lookup, Purpose, Reserve, Transition, Ttl};
use crate::domain::token::FencingToken;
use crate::engine::{Counted, Fault};
use crate::proto::v1 as pb;
use crate::proto::v1::intent::Content;

use super::{at, intent, present, refused, result, span};

/// Largest JSON content that is digested between other calls, in bytes. A larger one takes milliseconds, and goes to a thread
/// where nobody waits behind it.
const JSON_BYTES_INLINE_MAX: usize = 64 * 1024;

/// Reads a Reserve. `peer` names the caller where it does not name itself.
pub(crate) fn reserve(request: pb::ReserveRequest, peer: &str) -> Result<Reserve, Fault> {
    let ttl = request
        .ttl
        .map(span::from_wire)
        .transpose()
        .and_then(Ttl::parse);
    Ok(Reserve {
        resource: resource(request.resource)?,
        request: at("request_id", RequestId::parse(&request.request_id))?,
        ttl: at("ttl", ttl)?,
        holder: match present(&request.holder) {
            Some(name) => Some(at("holder", Holder::parse(name))?),
            None => Holder::parse(peer).ok(),
        },
    })
}

/// Reads a Transition. `peer` names the caller; `counted` says what of its content counts.
pub(crate) fn transition(
    request: pb::TransitionRequest,
    peer: &str,
    counted: impl FnOnce(&Kind, Option<&EventName>) -> Counted,
) -> Result<Transition, Fault> {
    let resource = resource(request.resource)?;
    let reservation = present(&request.reservation_id)
        .map(reservation)
        .transpose()?;
    if let Some(reservation) = &reservation
        && *reservation.resource() != resource
    {
        return Err(refused(
            "reservation_id",
            "is that of another resource than `resource`",
        ));
    }
    let stored = request
        .result
        .map(|wire| result::from_wire("result", wire))
        .transpose()?;
    let Some(wire) = request.intent else {
        return Err(refused("intent", "is required"));
    };
    let intent = intent::from_wire(wire, |event| counted(resource.kind(), event))?;
    Ok(Transition {
        resource,
        intent,
        reservation,
        result: stored,
        sender: Holder::parse(peer).ok(),
        purpose: if request.validate_only {
            Purpose::Validate
        } else {
            Purpose::Commit
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
pub(crate) fn release(request: pb::ReleaseRequest) -> Result<ReservationId, Fault> {
    reservation(&request.reservation_id)
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

/// Reads an Inspect.
pub(crate) fn inspect(request: pb::InspectRequest) -> Result<ResourceId, Fault> {
    resource(request.resource)
}

fn reservation(text: &str) -> Result<ReservationId, Fault> {
    at("reservation_id", ReservationId::parse(text))
}

pub(super) fn resource(resource: Option<pb::Resource>) -> Result<ResourceId, Fault> {
    let Some(resource) = resource else {
        return Err(refused("resource", "is required"));
    };
    let kind = at("resource.kind", Kind::parse(&resource.kind))?;
    at("resource.id", ResourceId::new(kind, &resource.id))
}

/// Whether reading it takes so long that it should not be done between other calls.
pub(crate) fn digests_slowly(request: &pb::TransitionRequest) -> bool {
    let content = request
        .intent
        .as_ref()
        .and_then(|intent| intent.content.as_ref());
    match content {
        Some(Content::Json(text)) => text.len() > JSON_BYTES_INLINE_MAX,
        Some(Content::Raw(_) | Content::Digest(_)) | None => false,
    }
}
