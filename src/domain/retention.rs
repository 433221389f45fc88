//! How long things are kept, and the clock that measures it.
//!
//! Nothing is forgotten by a wall clock. The store has a clock of its own, a number in etcd that sidecars move on, each by no
//! more than it has seen pass on a clock that never jumps. So it may fall behind the time of day (while no sidecar runs it
//! stands still), and is never ahead of what has really passed: what is kept by it is kept for its time, or longer.

use std::time::Duration;

/// By how much the store's clock, as two sidecars know it at one moment, may differ. What is over is removed only this much
/// later, so that no sidecar still answers from memory what another has removed.
pub const CLOCK_BOUND: Duration = Duration::from_secs(10);
/// Clocks that never jump still run a little fast or slow. This part of a span is added to it.
const DRIFT_PART: u32 = 1000;
/// How long operations are replayable, unless configured.
pub const RETENTION_DEFAULT: Duration = Duration::from_secs(96 * 60 * 60);
/// Shortest retention. Far longer than a request to etcd can be under way, so that none arrives after what it was judged by
/// has been removed.
pub const RETENTION_MIN: Duration = Duration::from_secs(60);
/// Longest retention: ten years.
pub const RETENTION_MAX: Duration = Duration::from_secs(3653 * 24 * 60 * 60);
/// How long incidents are kept, unless configured.
pub const INCIDENT_RETENTION_DEFAULT: Duration = Duration::from_secs(30 * 24 * 60 * 60);
/// The sender's clock may be wrong by this part of the retention,
const SENDER_SKEW_PART: u32 = 10;
/// but by no more than this.
pub const SENDER_SKEW_MAX: Duration = Duration::from_secs(5 * 60);

/// A moment on the store's clock, in whole seconds. It began at the time of day, in seconds since 1970.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StoreTime(u64);

impl StoreTime {
    /// From a stored record, or from a reading of the clock.
    pub fn from_seconds(seconds: u64) -> Self {
        Self(seconds)
    }

    /// In seconds.
    pub fn seconds(self) -> u64 {
        self.0
    }

    /// The end of a span that begins now. Rounded up, and longer by what clocks may drift.
    #[must_use]
    pub fn until(self, span: Duration) -> Self {
        let drifted = span.saturating_add(span / DRIFT_PART);
        Self(self.0.saturating_add(drifted.as_secs()).saturating_add(1))
    }

    /// Whether this moment has come: what ends here is no longer answered from memory.
    pub fn has_come(self, now: Self) -> bool {
        now >= self
    }

    /// Whether this moment has come on the clock of every sidecar: what ends here may be removed.
    pub fn is_over(self, now: Self) -> bool {
        now.0 >= self.0.saturating_add(CLOCK_BOUND.as_secs())
    }
}

/// How long what is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Keeping {
    /// How long finished operations are replayable.
    pub operations: Duration,
    /// How long incidents are kept.
    pub incidents: Duration,
    /// After how long untouched a resource that has a state is forgotten. `None`: never.
    pub forget: Option<Duration>,
}

impl Default for Keeping {
    fn default() -> Self {
        Self {
            operations: RETENTION_DEFAULT,
            incidents: INCIDENT_RETENTION_DEFAULT,
            forget: None,
        }
    }
}

/// When something is judged, and how long what comes of it is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct When {
    /// The time of day, in milliseconds since 1970. For people, and against the times that senders give.
    pub wall_ms: u64,
    /// The store's clock.
    pub now: StoreTime,
    /// How long.
    pub keeping: Keeping,
    /// By how much the store's clock may be further on for another sidecar that has run for longer.
    pub lag: Duration,
}

impl When {
    /// Until when an operation that is decided now is replayable.
    pub(super) fn operation_expiry(&self) -> StoreTime {
        let span = self.keeping.operations.saturating_add(self.lag);
        self.now.until(span)
    }

    /// Until when an incident that is raised now is kept.
    pub fn incident_expiry(&self) -> StoreTime {
        let span = self.keeping.incidents.saturating_add(self.lag);
        self.now.until(span)
    }

    /// How wrong a sender's clock may be.
    fn sender_skew_ms(&self) -> u64 {
        let skew = (self.keeping.operations / SENDER_SKEW_PART).min(SENDER_SKEW_MAX);
        milliseconds(skew)
    }

    /// The latest that it may be now: a time of day that is behind does not make an old message young.
    fn latest_ms(&self) -> u64 {
        self.wall_ms.max(self.now.0.saturating_mul(1000))
    }

    /// Whether what a sender made then may have been done, answered and forgotten since.
    pub fn too_old(&self, made_ms: u64) -> bool {
        self.too_old_if_kept(made_ms, self.keeping.operations)
    }

    /// The same, had it been kept for so long.
    fn too_old_if_kept(&self, made_ms: u64, retention: Duration) -> bool {
        let forgotten = made_ms.saturating_add(milliseconds(retention));
        forgotten <= self.latest_ms().saturating_add(self.sender_skew_ms())
    }

    /// Whether what a sender made then may have been done, answered and forgotten while operations were kept for a shorter time.
    pub fn too_old_before(&self, made_ms: u64, retention: Duration, until_ms: u64) -> bool {
        let before = made_ms <= until_ms.saturating_add(self.sender_skew_ms());
        before && self.too_old_if_kept(made_ms, retention)
    }

    /// Whether a sender's time lies further ahead than a clock may be wrong.
    pub fn too_far_ahead(&self, made_ms: u64) -> bool {
        made_ms > self.latest_ms().saturating_add(self.sender_skew_ms())
    }
}

fn milliseconds(span: Duration) -> u64 {
    u64::try_from(span.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: Duration = Duration::from_secs(3600);
    const HOUR_MS: u64 = 3_600_000;

    fn at(wall_ms: u64, now: u64) -> When {
        When {
            wall_ms,
            now: StoreTime::from_seconds(now),
            keeping: Keeping {
                operations: HOUR,
                ..Keeping::default()
            },
            lag: Duration::ZERO,
        }
    }

    #[test]
    fn a_span_ends_no_sooner_than_it_should_and_is_over_later_still() {
        let now = StoreTime::from_seconds(1_000);
        let end = now.until(HOUR);
        assert!(end.seconds() >= 1_000 + 3_600 + 3);
        let before = StoreTime::from_seconds(end.seconds() - 1);
        assert!(!end.has_come(before) && end.has_come(end) && !end.is_over(end));
        let all_know = StoreTime::from_seconds(end.seconds() + CLOCK_BOUND.as_secs());
        assert!(end.is_over(all_know));
        let a_second_before = StoreTime::from_seconds(all_know.seconds() - 1);
        assert!(!end.is_over(a_second_before));
        // The longest span at the end of time does not wrap.
        let last = StoreTime::from_seconds(u64::MAX);
        assert!(!last.until(RETENTION_MAX).is_over(now));
    }

    #[test]
    fn a_message_is_too_old_when_its_first_answer_may_be_forgotten() {
        let when = at(10 * HOUR_MS, 0);
        let skew = 5 * 60 * 1000;
        assert!(when.too_old(0));
        assert!(when.too_old(9 * HOUR_MS));
        assert!(when.too_old(9 * HOUR_MS + skew));
        assert!(!when.too_old(9 * HOUR_MS + skew + 1));
        // A time of day that is behind the store's clock does not make it young.
        assert!(at(0, 36_000).too_old(9 * HOUR_MS));
    }

    #[test]
    fn a_message_out_of_the_future_is_told_from_a_clock_that_is_a_little_fast() {
        let when = at(10 * HOUR_MS, 0);
        let skew = 5 * 60 * 1000;
        assert!(!when.too_far_ahead(10 * HOUR_MS + skew));
        assert!(when.too_far_ahead(10 * HOUR_MS + skew + 1));
        // Seconds taken for milliseconds, and the end of time.
        assert!(when.too_far_ahead(u64::MAX));
        assert!(!when.too_old(u64::MAX));
    }
}
