//! A reservation of several resources, from the wire to the domain.

use crate::domain::ids::{RequestId, ReservationId, ResourceId};
use crate::domain::request::{Afterwards, Ttl};
use crate::domain::together::{ReserveTogether, Together};
use crate::engine::Fault;
use crate::proto::v1 as pb;

use super::ask::{holder, named as resource_at};
use super::{at, refused, span};

/// Reads a Reserve of `named` and others.
pub(super) fn reserve(
    named: ResourceId,
    attempt: RequestId,
    request: &pb::ReserveRequest,
    peer: &str,
) -> Result<ReserveTogether, Fault> {
    if request.intent.is_some() {
        return Err(refused(
            "also",
            "must be absent with an intent: an operation belongs to one resource",
        ));
    }
    if !request.reservation_id.is_empty() {
        return Err(refused(
            "also",
            "must be absent with a reservation_id: a reservation keeps the resources that it began with",
        ));
    }
    let also = request.also.iter().enumerate();
    let also = also.map(|(index, other)| resource_at(&format!("also[{index}]"), other));
    let also = also.collect::<Result<Vec<_>, _>>()?;
    let ttl = request.ttl.map(span::from_wire).transpose();
    Ok(ReserveTogether {
        together: at("also", Together::new(named, also))?,
        request: attempt,
        ttl: at("ttl", ttl.and_then(Ttl::parse))?,
        holder: holder(&request.holder, peer)?,
    })
}

/// What a Transition may say of a reservation, if it is one of several resources.
pub(super) fn check_transition(
    reservation: &ReservationId,
    afterwards: Option<Afterwards>,
    has_intent: bool,
) -> Result<(), Fault> {
    if !reservation.is_of_several() {
        return Ok(());
    }
    if afterwards == Some(Afterwards::Ends) {
        return Err(refused(
            "release",
            "must be absent or false: a reservation of several resources ends for all of them, by Release",
        ));
    }
    if !has_intent {
        return Err(refused(
            "intent",
            "is required: a reservation of several resources carries no claim, so the result belongs to no operation",
        ));
    }
    Ok(())
}
