//! The timeline, its starts, and the probe.

use super::{RecordKind, field, nonce, nonce_bytes, open, seal};
use crate::domain::ids::{Holder, Reason};
use crate::domain::invalid::Invalid;
use crate::domain::timeline::{Halt, Stored};
use crate::domain::token::{TOKENS_PER_SECOND, Timeline};
use crate::proto::store_v1 as pb;
use crate::store::StoreError;
use crate::store::keys::Key;
use crate::store::new_timeline::Started;

/// As stored; they never change.
const WENT_BACK: u32 = 1;
const OTHER_CLUSTER: u32 = 2;
const OLDER_TIMELINE: u32 = 3;
const STARTING: u32 = 4;

pub(in crate::store) fn encode_timeline(key: &Key, stored: &Stored) -> Vec<u8> {
    let Stored {
        timeline,
        began_s,
        halt,
        largest,
    } = stored;
    let by_base = timeline.base / TOKENS_PER_SECOND;
    let message = pb::Timeline {
        id: nonce_bytes(timeline.id),
        base: timeline.base,
        min_token: timeline.min_token,
        halt: halt.map(halt_to_message),
        began: (*began_s != by_base).then_some(*began_s),
        largest: *largest,
    };
    seal(key, RecordKind::Timeline, &message)
}

pub(in crate::store) fn decode_timeline(key: &Key, value: &[u8]) -> Result<Stored, StoreError> {
    open(key, RecordKind::Timeline, value, |message: pb::Timeline| {
        let by_base = message.base / TOKENS_PER_SECOND;
        Ok(Stored {
            timeline: Timeline {
                id: nonce("id", &message.id)?,
                base: message.base,
                min_token: message.min_token,
            },
            began_s: message.began.unwrap_or(by_base),
            halt: message.halt.map(halt_from_message).transpose()?,
            largest: message.largest,
        })
    })
}

pub(in crate::store) fn encode_start(key: &Key, started: &Started) -> Vec<u8> {
    let message = pb::TimelineStart {
        id: nonce_bytes(started.id),
        base: started.base,
        by: started.by.as_str().to_owned(),
        reason: started.reason.as_str().to_owned(),
        time_ms: started.time_ms,
        halt: started.halt.map(halt_to_message),
        before: nonce_bytes(started.before),
    };
    seal(key, RecordKind::TimelineStart, &message)
}

pub(in crate::store) fn decode_start(key: &Key, value: &[u8]) -> Result<Started, StoreError> {
    let kind = RecordKind::TimelineStart;
    open(key, kind, value, |message: pb::TimelineStart| {
        Ok(Started {
            id: nonce("id", &message.id)?,
            base: message.base,
            by: field("by", Holder::parse(&message.by))?,
            reason: field("reason", Reason::parse(&message.reason))?,
            time_ms: message.time_ms,
            halt: message.halt.map(halt_from_message).transpose()?,
            before: nonce("before", &message.before)?,
        })
    })
}

pub(in crate::store) fn encode_probe(key: &Key) -> Vec<u8> {
    seal(key, RecordKind::Probe, &pb::Probe {})
}

fn halt_to_message(halt: Halt) -> pb::Halt {
    let mut message = pb::Halt {
        why: 0,
        time_ms: halt.time_ms(),
        known: 0,
        found: 0,
    };
    message.why = match halt {
        Halt::WentBack { known, found, .. } => {
            (message.known, message.found) = (known, found);
            WENT_BACK
        }
        Halt::OtherCluster { .. } => OTHER_CLUSTER,
        Halt::OlderTimeline { .. } => OLDER_TIMELINE,
        Halt::Starting { .. } => STARTING,
    };
    message
}

fn halt_from_message(message: pb::Halt) -> Result<Halt, Invalid> {
    let pb::Halt {
        why,
        time_ms,
        known,
        found,
    } = message;
    match why {
        WENT_BACK => Ok(Halt::WentBack {
            known,
            found,
            time_ms,
        }),
        OTHER_CLUSTER => Ok(Halt::OtherCluster { time_ms }),
        OLDER_TIMELINE => Ok(Halt::OlderTimeline { time_ms }),
        STARTING => Ok(Halt::Starting { time_ms }),
        other => Err(Invalid::new(format!(
            "halt.why is {other}, which this version of Fencepost does not know"
        ))),
    }
}
