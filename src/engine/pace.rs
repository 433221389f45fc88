//! How long to wait between tries.

use std::time::Duration;

use backon::{BackoffBuilder, ExponentialBackoff, ExponentialBuilder};

/// The first wait. Most trouble is over at once: an election's last moments, one lost reply.
const FIRST: Duration = Duration::from_millis(20);
/// The longest wait.
const LONGEST: Duration = Duration::from_secs(1);

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
        tokio::time::sleep(self.0.next().unwrap_or(LONGEST)).await;
    }
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
    fn waits_grow_to_a_bound_and_never_end() {
        let waits: Vec<Duration> = Pace::new().0.take(1_000).collect();
        assert_eq!(waits.len(), 1_000);
        assert!(waits[0] < 2 * FIRST + FIRST, "{:?}", waits[0]);
        assert!(waits.iter().all(|wait| *wait <= 2 * LONGEST), "{waits:?}");
        assert!(waits[999] >= LONGEST, "{:?}", waits[999]);
    }
}
