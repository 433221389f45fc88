//! What became of deliveries: counted in memory, since the sidecar started.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use crate::domain::decision::Verdict;
use crate::domain::ids::{EventName, Kind};

/// Most rows: pairs of a kind and an event. Deliveries of further ones are counted together.
pub const COUNT_ROWS_MAX: usize = 512;

/// How often each verdict was given.
type Row = BTreeMap<Verdict, u64>;

/// What became of the deliveries of one kind and event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Count {
    /// Of resources of this kind. `None`: of all kinds beyond the limit.
    pub kind: Option<Kind>,
    /// The event that was named. `None`: none was.
    pub event: Option<EventName>,
    /// How often each verdict was given. Together these are all deliveries.
    pub verdicts: Row,
}

impl Count {
    /// All of them: whatever was delivered was given exactly one verdict.
    pub fn deliveries(&self) -> u64 {
        self.verdicts.values().sum()
    }
}

/// Counts deliveries. Cheap to clone.
#[derive(Clone, Debug)]
pub(super) struct Counts {
    since_ms: u64,
    rows: Arc<Mutex<Rows>>,
}

#[derive(Debug, Default)]
struct Rows {
    known: BTreeMap<(Kind, Option<EventName>), Row>,
    other: Row,
}

impl Counts {
    pub(super) fn since(since_ms: u64) -> Self {
        Self {
            since_ms,
            rows: Arc::default(),
        }
    }

    /// When counting began, in milliseconds since 1970.
    pub(super) fn since_ms(&self) -> u64 {
        self.since_ms
    }

    /// A delivery was judged.
    pub(super) fn judged(&self, kind: &Kind, event: Option<&EventName>, verdict: Verdict) {
        let mut rows = self.rows.lock().unwrap_or_else(PoisonError::into_inner);
        let key = (kind.clone(), event.cloned());
        let room = rows.known.len() < COUNT_ROWS_MAX || rows.known.contains_key(&key);
        let row = if room {
            rows.known.entry(key).or_default()
        } else {
            &mut rows.other
        };
        *row.entry(verdict).or_default() += 1;
    }

    /// All rows, by kind and event; that of what is beyond the limit comes last, if there is any.
    pub(super) fn all(&self) -> Vec<Count> {
        let rows = self.rows.lock().unwrap_or_else(PoisonError::into_inner);
        let known = rows.known.iter().map(|((kind, event), row)| Count {
            kind: Some(kind.clone()),
            event: event.clone(),
            verdicts: row.clone(),
        });
        let other = (!rows.other.is_empty()).then(|| Count {
            kind: None,
            event: None,
            verdicts: rows.other.clone(),
        });
        known.chain(other).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kind(name: &str) -> Kind {
        Kind::parse(name).unwrap()
    }

    #[test]
    fn verdicts_add_up_to_the_deliveries_of_their_kind_and_event() {
        let counts = Counts::since(7);
        let pay = EventName::parse("pay").unwrap();
        for verdict in [Verdict::Applied, Verdict::Replayed, Verdict::Replayed] {
            counts.judged(&kind("order"), None, verdict);
        }
        counts.judged(&kind("order"), Some(&pay), Verdict::Busy);
        counts.judged(&kind("seat"), None, Verdict::Applied);
        let all = counts.all();
        let told: Vec<_> = all
            .iter()
            .map(|row| {
                let kind = row.kind.as_ref().unwrap().as_str();
                (kind, row.event.as_ref(), row.deliveries())
            })
            .collect();
        assert_eq!(
            told,
            [
                ("order", None, 3),
                ("order", Some(&pay), 1),
                ("seat", None, 1)
            ]
        );
        assert_eq!(all[0].verdicts[&Verdict::Replayed], 2);
        assert_eq!(counts.since_ms(), 7);
    }

    #[test]
    fn kinds_beyond_the_limit_are_counted_together() {
        let counts = Counts::since(0);
        for at in 0..COUNT_ROWS_MAX + 3 {
            counts.judged(&kind(&format!("k{at:04}")), None, Verdict::Applied);
        }
        counts.judged(&kind("k0000"), None, Verdict::Busy);
        let all = counts.all();
        assert_eq!(all.len(), COUNT_ROWS_MAX + 1);
        assert_eq!(all[0].deliveries(), 2, "a known one is still told apart");
        let other = all.last().unwrap();
        assert_eq!((other.kind.as_ref(), other.deliveries()), (None, 3));
    }
}
