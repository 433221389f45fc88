//! Counts, from the engine to the wire.

use crate::domain::ids::EventName;
use crate::engine::Count;
use crate::proto::v1 as pb;

use super::{answer, span};

/// Writes the counts.
pub(crate) fn told(since_ms: u64, all: Vec<Count>, narrow_keys: u64) -> pb::GetCountsResponse {
    let (known, other): (Vec<_>, Vec<_>) = all.into_iter().partition(|row| row.kind.is_some());
    pb::GetCountsResponse {
        start_time: Some(span::timestamp(since_ms)),
        counts: known.iter().map(row).collect(),
        other: other.first().map(row),
        narrow_keys: number(narrow_keys),
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

fn number(count: u64) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}
