//! How long to wait between tries.

use std::sync::LazyLock;
use std::time::Duration;

use backon::{BackoffBuilder, ExponentialBackoff, ExponentialBuilder};
use tokio::time::Instant;

/// The first wait. Most trouble is over at once: an election's last moments, one lost reply.
const FIRST: Duration = Duration::from_millis(20);
/// The longest wait.
const LONGEST: Duration = Duration::from_secs(1);

/// Waits end at the ticks of this process, so that those of it which end close to each other are sent together: jitter spreads
/// lanes, and one request carries what is ready at one moment. Each process ticks from its own start on.
const TICK: Duration = Duration::from_millis(10);

static FIRST_TICK: LazyLock<Instant> = LazyLock::new(Instant::now);

/// Waits that grow, with jitter so that many lanes do not come back at the same moment, and never end.
#[derive(Debug)]
pub(super) struct Pace(ExponentialBackoff);

impl Pace {
    pub(super) fn new() -> Self {
        let waits = ExponentialBuilder::new()
            .with_min_delay(FIRST)
            .with_max_delay(LONGEST);
        Self(waits.with_jitter().without_max_times().build())
    }

    pub(super) async fn wait(&mut self) {
        let wait = self.0.next().unwrap_or(LONGEST);
        let due = FIRST_TICK.elapsed().saturating_add(wait);
        let left = to_the_tick(due).saturating_sub(FIRST_TICK.elapsed());
        tokio::time::sleep(left).await;
    }
}

/// The first tick that is not before this moment, both counted from the first.
fn to_the_tick(due: Duration) -> Duration {
    let ticks = due.as_nanos().div_ceil(TICK.as_nanos());
    let ticks = u32::try_from(ticks).unwrap_or(u32::MAX);
    TICK.saturating_mul(ticks).max(due)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn lanes_that_lose_etcd_at_one_moment_do_not_come_back_at_one() {
        const LANES: usize = 64;
        const TRIES: usize = 8;
        for tries in 1..=TRIES {
            let back = (0..LANES).map(|_| {
                let waits = Pace::new().0.take(tries);
                waits.sum::<Duration>()
            });
            // What jitter adds is any number of nanoseconds, so two are hardly ever alike.
            let moments: BTreeSet<Duration> = back.collect();
            assert!(moments.len() > LANES / 2, "{tries} tries: {moments:?}");
            let (first, last) = (moments.first().unwrap(), moments.last().unwrap());
            assert!(*last - *first > FIRST / 2, "{tries} tries: {moments:?}");
        }
    }

    #[test]
    fn waits_that_end_close_to_each_other_end_at_one_moment() {
        let at = Duration::from_micros;
        for (due, tick) in [
            (0, 0),
            (1, 10_000),
            (9_999, 10_000),
            (10_000, 10_000),
            (10_001, 20_000),
            (25_500, 30_000),
        ] {
            assert_eq!(to_the_tick(at(due)), at(tick), "{due} µs");
        }
        // Whatever comes, nothing waits for less than it was told.
        let late = Duration::from_secs(u64::from(u32::MAX));
        assert!(to_the_tick(late) >= late);
        assert_eq!(to_the_tick(Duration::MAX), Duration::MAX);
    }

    #[test]
    fn waits_grow_to_a_bound_and_never_end() {
        let waits: Vec<Duration> = Pace::new().0.take(1_000).collect();
        assert_eq!(waits.len(), 1_000);
        assert!(waits[0] < 2 * FIRST + FIRST, "{:?}", waits[0]);
        assert!(waits.iter().all(|wait| *wait <= 2 * LONGEST), "{waits:?}");
        assert!(waits[999] >= LONGEST, "{:?}", waits[999]);
    }
}
