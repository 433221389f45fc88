//! The two clocks: one that never jumps and runs through suspend, and the wall clock that people read.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rustix::time::{ClockId, clock_gettime};

/// Who waits for a moment looks at the clock this often: it is found to have passed so long after a suspend, at the latest.
const LOOK_AT_CLOCK_EVERY: Duration = Duration::from_secs(2);

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

    /// Earlier by a span; stays at the start of the machine rather than go below it.
    pub fn minus(self, span: Duration) -> Self {
        Self(self.0.saturating_sub(span))
    }

    /// How long after `earlier`; zero if it is not.
    pub fn since(self, earlier: Self) -> Duration {
        self.0.saturating_sub(earlier.0)
    }

    /// How long until then; zero if it has passed.
    pub fn left(self) -> Duration {
        self.since(Self::now())
    }

    /// Waits until it has passed. The runtime's timers stand still while the machine is suspended.
    pub(super) async fn passed(self) {
        none_left(|| self.left()).await;
    }
}

async fn none_left(left: impl Fn() -> Duration) {
    loop {
        let left = left();
        if left.is_zero() {
            return;
        }
        tokio::time::sleep(left.min(LOOK_AT_CLOCK_EVERY)).await;
    }
}

/// The clocks that retention is measured by, which a test may move by hand. Leases and deadlines are not measured by it.
#[derive(Clone, Debug, Default)]
pub struct Clock(Arc<Moved>);

#[derive(Debug, Default)]
struct Moved {
    passed_ms: AtomicU64,
    wall_off_ms: AtomicI64,
}

impl Clock {
    /// Lets time pass, on both clocks.
    pub fn pass(&self, span: Duration) {
        let span = u64::try_from(span.as_millis()).unwrap_or(u64::MAX);
        self.0.passed_ms.fetch_add(span, Ordering::AcqRel);
    }

    /// Puts the time of day wrong by so many milliseconds.
    pub fn put_wall_off(&self, off_ms: i64) {
        self.0.wall_off_ms.store(off_ms, Ordering::Release);
    }

    /// Now, on the clock that never jumps.
    pub(super) fn boottime(&self) -> Boottime {
        let passed = Duration::from_millis(self.0.passed_ms.load(Ordering::Acquire));
        Boottime::now().plus(passed)
    }

    /// The time of day, in milliseconds since 1970.
    pub(super) fn wall_ms(&self) -> u64 {
        let passed = self.0.passed_ms.load(Ordering::Acquire);
        let off = self.0.wall_off_ms.load(Ordering::Acquire);
        wall_clock_ms()
            .saturating_add(passed)
            .saturating_add_signed(off)
    }
}

/// Milliseconds since 1970, for people, and against the times that senders give.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_moment_that_passes_in_a_suspend_is_found_soon_after_it() {
        let (began, suspended) = (tokio::time::Instant::now(), Duration::from_secs(550));
        let wait = Duration::from_secs(600);
        // The runtime's clock goes on from where it stood; the other has run on meanwhile.
        let left = || {
            let passed = tokio::time::Instant::now() - began;
            let slept = passed > Duration::from_secs(20);
            wait.saturating_sub(passed + if slept { suspended } else { Duration::ZERO })
        };
        none_left(left).await;
        let took = tokio::time::Instant::now() - began;
        assert!(took >= wait - suspended, "{took:?}");
        assert!(took <= wait - suspended + LOOK_AT_CLOCK_EVERY, "{took:?}");
    }
}
