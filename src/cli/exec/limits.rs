//! When a command is told to stop, and when it is killed, so that nothing of it runs past the bound of its reservation.

use std::time::Duration;

use super::super::trouble::Trouble;
use crate::engine::Boottime;

/// How long before the bound whatever still runs is killed.
const KILL_MARGIN: Duration = Duration::from_millis(300);
/// How long before the bound the guard kills, if nobody else did.
const GUARD_MARGIN: Duration = Duration::from_millis(100);
/// The longest grace, as a part of the TTL: the whole by this.
const GRACE_PART_MAX: u32 = 3;
/// The grace if none is given, as a part of the TTL: the whole by this,
const GRACE_PART_DEFAULT: u32 = 6;
/// and at most so long.
const GRACE_DEFAULT_MAX: Duration = Duration::from_secs(10);

/// How the time before a bound is divided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Limits {
    grace: Duration,
}

impl Limits {
    /// A command must not be told to stop while its reservation is renewed in time. Renewals come about every third of the
    /// TTL, so the grace has to fit, with room for one that fails, into what is then left.
    pub(super) fn new(grace: Option<Duration>, ttl: Duration) -> Result<Self, Trouble> {
        let most = ttl / GRACE_PART_MAX;
        let grace = grace.unwrap_or_else(|| (ttl / GRACE_PART_DEFAULT).min(GRACE_DEFAULT_MAX));
        if grace > most {
            return Err(Trouble::usage(format!(
                "--grace is {}; the most is a third of --ttl, here {}, so that a renewal has time to fail and be tried again",
                humantime::format_duration(grace),
                humantime::format_duration(most)
            )));
        }
        Ok(Self { grace })
    }

    /// How long a command may take to end once it was told to.
    pub(super) fn grace(self) -> Duration {
        self.grace
    }

    /// When it is told to stop unless the bound has moved by then.
    pub(super) fn stop_at(self, bound: Boottime) -> Boottime {
        bound.minus(KILL_MARGIN).minus(self.grace)
    }

    /// When it is killed, having been told to stop at `told`: never later than the bound allows.
    pub(super) fn kill_at(self, told: Boottime, bound: Boottime) -> Boottime {
        told.plus(self.grace).min(bound.minus(KILL_MARGIN))
    }
}

/// When the guard kills.
pub(super) fn guard_at(bound: Boottime) -> Boottime {
    bound.minus(GUARD_MARGIN)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TTLS: [u64; 4] = [3, 30, 60, 86_400];

    #[test]
    fn whoever_is_told_to_stop_is_killed_before_the_bound() {
        for ttl in TTLS.map(Duration::from_secs) {
            for grace in [None, Some(Duration::ZERO), Some(ttl / GRACE_PART_MAX)] {
                let limits = Limits::new(grace, ttl).unwrap();
                let bound = Boottime::now().plus(ttl);
                let told = limits.stop_at(bound);
                assert_eq!(limits.kill_at(told, bound), told.plus(limits.grace()));
                // Told too late, by a loss that is known or after a suspend, it has less.
                for late in [told.plus(Duration::from_millis(1)), bound.plus(ttl)] {
                    assert!(limits.kill_at(late, bound) < guard_at(bound));
                }
                assert!(guard_at(bound) < bound);
            }
        }
    }

    #[test]
    fn a_reservation_that_is_renewed_in_time_stops_nobody() {
        for ttl in TTLS.map(Duration::from_secs) {
            let limits = Limits::new(Some(ttl / GRACE_PART_MAX), ttl).unwrap();
            let renewed = Boottime::now();
            // The latest renewal, and one more try a tenth of the TTL later.
            let next = renewed.plus(ttl / 3 + ttl / 12 + ttl / 10);
            assert!(next < limits.stop_at(renewed.plus(ttl)), "{ttl:?}");
        }
    }

    #[test]
    fn a_grace_that_leaves_no_time_for_renewals_is_refused() {
        let ttl = Duration::from_secs(30);
        let told = Limits::new(Some(Duration::from_secs(11)), ttl).unwrap_err();
        assert!(told.message.contains("10s"), "{}", told.message);
        assert_eq!(
            Limits::new(None, ttl).unwrap().grace,
            Duration::from_secs(5)
        );
        let long = Limits::new(None, Duration::from_secs(3_600)).unwrap();
        assert_eq!(long.grace, GRACE_DEFAULT_MAX);
    }
}
