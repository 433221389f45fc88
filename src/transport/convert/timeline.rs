//! Timelines, in and out.

use crate::domain::ids::{Holder, Reason};
use crate::domain::token::{FencingToken, Timeline};
use crate::engine::{Fault, NewTimeline, StartAsk, Started, TimelineNow};
use crate::proto::v1 as pb;

use super::{at, present, span};

/// Reads a start. `peer` names the caller where it does not name itself.
pub(crate) fn start(request: &pb::StartTimelineRequest, peer: &str) -> Result<StartAsk, Fault> {
    let by = present(&request.started_by).unwrap_or(peer);
    Ok(StartAsk {
        by: at("started_by", Holder::parse(by))?,
        reason: at("reason", Reason::parse(&request.reason))?,
        above: match request.above {
            0 => None,
            token => Some(at("above", FencingToken::shown(token))?),
        },
    })
}

/// Writes what came of it.
pub(crate) fn started(new: &NewTimeline) -> pb::StartTimelineResponse {
    pb::StartTimelineResponse {
        timeline: Some(to_wire(new.timeline)),
        ended_reservations: i64::try_from(new.ended).unwrap_or(i64::MAX),
    }
}

/// Writes what is in force.
pub(crate) fn now(now: &TimelineNow) -> pb::GetTimelineResponse {
    pb::GetTimelineResponse {
        timeline: Some(to_wire(now.timeline)),
        halted: now.halt.map_or_else(String::new, |halt| halt.to_string()),
        halt_time: now.halt.map(|halt| span::timestamp(halt.time_ms())),
        starts: now.starts.iter().map(start_to_wire).collect(),
    }
}

fn to_wire(timeline: Timeline) -> pb::Timeline {
    pb::Timeline {
        timeline_id: format!("{:?}", timeline.id),
        base: number(timeline.base),
        min_token: number(timeline.min_token),
    }
}

fn start_to_wire(start: &Started) -> pb::TimelineStart {
    pb::TimelineStart {
        timeline_id: format!("{:?}", start.id),
        base: number(start.base),
        started_by: start.by.to_string(),
        reason: start.reason.to_string(),
        start_time: Some(span::timestamp(start.time_ms)),
        halted: start.halt.map_or_else(String::new, |halt| halt.to_string()),
    }
}

fn number(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}
