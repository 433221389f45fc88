//! Counts, from the engine to the wire.

use crate::domain::ids::EventName;
use crate::engine::{Count, HELD_MAX, Holdings, Places, Waiters};
use crate::proto::v1 as pb;

use super::{answer, span};

/// What is counted beside deliveries, and how much goes on now.
pub(crate) struct Load {
    pub(crate) narrow_keys: u64,
    pub(crate) waiters: Waiters,
    pub(crate) places: Places,
    pub(crate) holdings: Holdings,
}

/// Writes the counts.
pub(crate) fn told(since_ms: u64, all: Vec<Count>, load: &Load) -> pb::GetCountsResponse {
    let (known, other): (Vec<_>, Vec<_>) = all.into_iter().partition(|row| row.kind.is_some());
    pb::GetCountsResponse {
        start_time: Some(span::timestamp(since_ms)),
        counts: known.iter().map(row).collect(),
        other: other.first().map(row),
        narrow_keys: number(load.narrow_keys),
        waiting: Some(waiting(load.waiters, load.places)),
        holdings: Some(holdings(load.holdings)),
    }
}

fn waiting(waiters: Waiters, places: Places) -> pb::Waiting {
    pb::Waiting {
        calls: number(waiters.calls),
        followed: number(waiters.followed),
        places: number(places.taken),
        places_max: number(places.most),
        missed: number(places.missed),
    }
}

fn holdings(now: Holdings) -> pb::Holdings {
    pb::Holdings {
        held: number(now.held),
        held_max: number(HELD_MAX),
        due: number(now.due),
        late: number(now.late),
        strained: now.strained,
        refused: number(now.refused),
        renewed: number(now.renewed),
        failed: number(now.failed),
        lost: number(now.lost),
    }
}

fn row(count: &Count) -> pb::Count {
    let verdicts = count.verdicts.iter();
    pb::Count {
        kind: count
            .kind
            .as_ref()
            .map(|kind| kind.as_str().to_owned())
            .unwrap_or_default(),
        event: count
            .event
            .as_ref()
            .map_or_else(String::new, EventName::to_string),
        deliveries: number(count.deliveries()),
        verdicts: verdicts
            .map(|(verdict, count)| pb::VerdictCount {
                verdict: answer::verdict(*verdict).into(),
                count: number(*count),
            })
            .collect(),
    }
}

fn number(count: impl TryInto<i64>) -> i64 {
    count.try_into().unwrap_or(i64::MAX)
}
