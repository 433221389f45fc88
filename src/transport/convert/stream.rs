//! What opens a stream, and what is told on it.

use std::collections::BTreeSet;

use crate::domain::ids::{Nonce, ReservationId, ResourceId};
use crate::domain::token::{Revision, TOKEN_MAX};
use crate::engine::{After, AtClose, Fault, HELD_PER_STREAM_MAX, Held, HoldNews, Shown};
use crate::proto::v1 as pb;

use super::{answer, ask, at, present, refused};

/// Reads a Hold.
pub(crate) fn hold(request: &pb::HoldRequest) -> Result<(Vec<ReservationId>, AtClose), Fault> {
    const FIELD: &str = "reservation_ids";
    let named = &request.reservation_ids;
    if named.is_empty() {
        return Err(refused(FIELD, "must name at least one reservation"));
    }
    if named.len() > HELD_PER_STREAM_MAX {
        let count = named.len();
        let reason = format!("are {count}; the limit is {HELD_PER_STREAM_MAX} for one stream");
        return Err(refused(FIELD, reason));
    }
    let mut once = BTreeSet::new();
    let mut reservations = Vec::with_capacity(named.len());
    for (index, text) in named.iter().enumerate() {
        let field = format!("{FIELD}[{index}]");
        let reservation = at(&field, ReservationId::parse(text))?;
        if !once.insert(text) {
            return Err(refused(field, "names a reservation that was named before"));
        }
        reservations.push(reservation);
    }
    let at_close = if request.release_on_close {
        AtClose::Release
    } else {
        AtClose::Keep
    };
    Ok((reservations, at_close))
}

/// Writes news of a reservation.
pub(crate) fn held(held: Held) -> pb::HoldResponse {
    use pb::hold_response::News;
    pb::HoldResponse {
        reservation_id: held.reservation.to_string(),
        news: Some(match held.news {
            HoldNews::Renewed(grant) => News::Renewed(answer::grant(grant)),
            HoldNews::Expiring(grant) => News::Expiring(answer::grant(grant)),
            HoldNews::Lost(decision) => News::Lost(answer::decision(*decision)),
        }),
    }
}

/// Reads a Watch.
pub(crate) fn watch(request: pb::WatchRequest) -> Result<(ResourceId, Option<After>), Fault> {
    let after = request.after_revision;
    if !u64::try_from(after).is_ok_and(|after| after <= TOKEN_MAX) {
        return Err(refused(
            "after_revision",
            "must be 0 to 9007199254740991 (2^53-1)",
        ));
    }
    const TIMELINE: &str = "timeline_id";
    let timeline = match present(&request.timeline_id) {
        Some(text) => Some(at(TIMELINE, Nonce::parse(text))?),
        None => None,
    };
    let after = Revision::from_etcd(after).map(|revision| After { revision, timeline });
    if after.is_none() && timeline.is_some() {
        return Err(refused(TIMELINE, "goes with an after_revision"));
    }
    let resource = ask::resource(request.resource)?;
    Ok((resource, after))
}

/// Writes a state of a resource.
pub(crate) fn shown(shown: Shown) -> pb::WatchResponse {
    pb::WatchResponse {
        snapshot: Some(answer::snapshot(shown.snapshot)),
        gap: shown.gap,
        timeline_id: format!("{:?}", shown.timeline),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::ids::Kind;

    fn id(at: usize) -> String {
        let resource = ResourceId::new(Kind::parse("seat").unwrap(), &at.to_string()).unwrap();
        ReservationId::new(resource, Nonce::from_bytes([7; 16])).to_string()
    }

    fn read(reservation_ids: Vec<String>) -> Result<(Vec<ReservationId>, AtClose), String> {
        let request = pb::HoldRequest {
            reservation_ids,
            release_on_close: true,
        };
        hold(&request).map_err(|fault| fault.to_string())
    }

    #[test]
    fn a_revision_to_watch_from_may_name_its_timeline_and_a_timeline_needs_one() {
        let read = |after_revision, timeline_id: &str| {
            let resource = Some(pb::Resource {
                kind: "seat".to_owned(),
                id: "1".to_owned(),
            });
            let timeline_id = timeline_id.to_owned();
            let request = pb::WatchRequest {
                resource,
                after_revision,
                timeline_id,
            };
            let read = watch(request).map_err(|fault| fault.to_string());
            read.map(|(_, after)| after.map(|after| (after.revision.get(), after.timeline)))
        };
        let timeline = Nonce::from_bytes([7; 16]);
        let shown = format!("{timeline:?}");
        assert_eq!(read(5, &shown), Ok(Some((5, Some(timeline)))));
        assert_eq!(read(5, ""), Ok(Some((5, None))));
        assert_eq!(read(0, ""), Ok(None));
        assert!(read(0, &shown).unwrap_err().starts_with("timeline_id goes"));
        for wrong in ["x", &shown[1..], &format!("{{{shown}}}")] {
            assert!(read(5, wrong).unwrap_err().starts_with("timeline_id is"));
        }
    }

    #[test]
    fn a_hold_names_each_reservation_once_and_no_more_than_the_limit() {
        let most: Vec<_> = (0..HELD_PER_STREAM_MAX).map(id).collect();
        let (reservations, at_close) = read(most.clone()).unwrap();
        assert_eq!(reservations.len(), HELD_PER_STREAM_MAX);
        assert_eq!(at_close, AtClose::Release);
        let more: Vec<_> = (0..=HELD_PER_STREAM_MAX).map(id).collect();
        assert!(read(more).unwrap_err().contains("the limit is 1024"));
        assert!(read(Vec::new()).unwrap_err().contains("at least one"));
        let twice = read(vec![id(1), id(2), id(1)]).unwrap_err();
        assert!(twice.starts_with("reservation_ids[2] names"), "{twice}");
        let bad = read(vec![id(1), "x".to_owned()]).unwrap_err();
        assert!(bad.starts_with("reservation_ids[1] is not"), "{bad}");
    }
}
