//! How long a call may wait for an operation that is in progress, or for a busy resource.

use std::time::Duration;

use prost::Message as _;
use prost_types::Duration as Wire;

use crate::engine::{Fault, WAIT_MAX};
use crate::proto::v1 as pb;

use super::{at, refused, span};

/// Largest request that waits, in bytes. All who may wait hold half of the room for messages at most.
pub(crate) const WAITING_BYTES_MAX: usize = 8 * 1024;

/// Of a Reserve.
pub(crate) fn of_reserve(request: &pb::ReserveRequest) -> Result<Duration, Fault> {
    if request.intent.is_none() && !request.reservation_id.is_empty() {
        return without_an_intent(request.wait);
    }
    of_message(request.wait, request.encoded_len())
}

/// Of a Transition.
pub(crate) fn of_transition(request: &pb::TransitionRequest) -> Result<Duration, Fault> {
    if request.intent.is_none() {
        return without_an_intent(request.wait);
    }
    of_message(request.wait, request.encoded_len())
}

/// Of a Lookup.
pub(crate) fn of_lookup(request: &pb::LookupRequest) -> Result<Duration, Fault> {
    wait(request.wait)
}

/// It holds the resource, and names nothing that could be in progress elsewhere.
fn without_an_intent(wire: Option<Wire>) -> Result<Duration, Fault> {
    let span = wait(wire)?;
    if !span.is_zero() {
        return Err(refused(
            "wait",
            "must be absent without an intent: a reservation of your own is not waited for",
        ));
    }
    Ok(span)
}

fn of_message(wire: Option<Wire>, request_bytes: usize) -> Result<Duration, Fault> {
    let span = wait(wire)?;
    if request_bytes > WAITING_BYTES_MAX {
        // It would hold the room of those who only want to renew or release.
        return Ok(Duration::ZERO);
    }
    Ok(span)
}

fn wait(wire: Option<Wire>) -> Result<Duration, Fault> {
    let span = at("wait", wire.map_or(Ok(Duration::ZERO), span::from_wire))?;
    if span > WAIT_MAX {
        let most = humantime::format_duration(WAIT_MAX);
        return Err(refused("wait", format!("is too long; the most is {most}")));
    }
    Ok(span)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lookup(seconds: i64, nanos: i32) -> Result<Duration, String> {
        let wait = Some(Wire { seconds, nanos });
        let request = pb::LookupRequest {
            wait,
            ..pb::LookupRequest::default()
        };
        of_lookup(&request).map_err(|fault| fault.to_string())
    }

    #[test]
    fn a_wait_is_neither_negative_nor_longer_than_its_limit() {
        assert_eq!(of_lookup(&pb::LookupRequest::default()), Ok(Duration::ZERO));
        assert_eq!(lookup(0, 0), Ok(Duration::ZERO));
        assert_eq!(lookup(600, 0), Ok(WAIT_MAX));
        let long = lookup(600, 1).unwrap_err();
        assert!(long.contains("the most is 10m"), "{long}");
        assert!(lookup(-1, 0).unwrap_err().contains("negative"));
    }

    #[test]
    fn what_completes_a_claim_or_names_a_reservation_alone_does_not_wait() {
        let wait = |seconds| Some(Wire { seconds, nanos: 0 });
        let mut reserve = pb::ReserveRequest {
            wait: wait(1),
            ..pb::ReserveRequest::default()
        };
        assert_eq!(of_reserve(&reserve), Ok(Duration::from_secs(1)));
        reserve.reservation_id = "r1.x".to_owned();
        let told = of_reserve(&reserve).unwrap_err().to_string();
        assert!(told.starts_with("wait must be absent"), "{told}");
        reserve.intent = Some(pb::Intent::default());
        assert_eq!(of_reserve(&reserve), Ok(Duration::from_secs(1)));
        let mut complete = pb::TransitionRequest {
            wait: wait(1),
            ..pb::TransitionRequest::default()
        };
        assert!(of_transition(&complete).is_err());
        complete.wait = wait(0);
        assert_eq!(of_transition(&complete), Ok(Duration::ZERO));
    }
}
