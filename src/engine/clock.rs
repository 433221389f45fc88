//! The two clocks: one that never jumps and runs through suspend, and the wall clock that people read.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rustix::time::{ClockId, clock_gettime};

/// A point on the clock that counts from the start of the machine and runs on while it is suspended. Deadlines and leases
/// are measured on it; a clock that stops during suspend would believe an old lease to be fresh.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Boottime(Duration);

impl Boottime {
    /// Now.
    pub fn now() -> Self {
        let now = clock_gettime(ClockId::Boottime);
        let seconds = u64::try_from(now.tv_sec).unwrap_or(0);
        let nanos = u32::try_from(now.tv_nsec).unwrap_or(0);
        Self(Duration::new(seconds, nanos))
    }

    /// Later by a span; stays at the end of time rather than overflow.
    pub fn plus(self, span: Duration) -> Self {
        Self(self.0.saturating_add(span))
    }

    /// How long after `earlier`; zero if it is not.
    pub fn since(self, earlier: Self) -> Duration {
        self.0.saturating_sub(earlier.0)
    }

    /// How long until then; zero if it has passed.
    pub fn left(self) -> Duration {
        self.since(Self::now())
    }
}

/// Milliseconds since 1970, for people: no decision reads them.
#[expect(
    clippy::disallowed_methods,
    reason = "the one place that reads the wall clock"
)]
pub fn wall_clock_ms() -> u64 {
    let since = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}
