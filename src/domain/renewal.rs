//! When reservations that somebody holds are renewed, and when renewals come too late.
//!
//! A renewal that was confirmed makes a reservation last for its TTL from the moment before it was asked for. The next is due
//! about a third of the TTL later; so two thirds are left for what may go wrong. Of these, the first part is the margin: who
//! still waits for a renewal when only half of the TTL is left is *late*.

use std::time::Duration;

/// A renewal is due after about so much of the TTL,
const DUE_PART: u32 = 3;
/// sooner or later by so much of it, so that those that began together do not stay together.
const SPREAD_PART: u32 = 12;
/// One try takes at most so much of the TTL.
const TRY_PART: u32 = 6;
/// After a failed try the next comes so much of the TTL later,
const RETRY_PART: u32 = 20;
/// and within these bounds.
const RETRY_BOUNDS: (Duration, Duration) = (Duration::from_millis(200), Duration::from_secs(2));
/// Who has less than so much of the TTL left is late.
const LATE_PART: u32 = 2;
/// So many late ones, and
const STRAINED_LEAST: usize = 8;
/// so much of all that are held, are strain.
const STRAINED_PART: usize = 64;

/// How long after a confirmed renewal was asked for the next one is due. `draw`: a random number.
pub fn next_due(ttl: Duration, draw: u8) -> Duration {
    let spread = ttl / SPREAD_PART;
    ttl / DUE_PART - spread + 2 * spread * u32::from(draw) / u32::from(u8::MAX)
}

/// The same after the first renewal: earlier at random, for many are often taken up at the same moment.
pub fn first_due(ttl: Duration, draw: u8) -> Duration {
    let spread = ttl / SPREAD_PART;
    spread + ttl / DUE_PART * u32::from(draw) / u32::from(u8::MAX)
}

/// How long one try may take.
pub fn try_limit(ttl: Duration) -> Duration {
    ttl / TRY_PART
}

/// How long after a failed try the next one comes. `draw`: a random number.
pub fn retry_due(ttl: Duration, draw: u8) -> Duration {
    let (least, most) = RETRY_BOUNDS;
    let pause = (ttl / RETRY_PART).clamp(least, most);
    pause / 2 + pause / 2 * u32::from(draw) / u32::from(u8::MAX)
}

/// With how much of the TTL left a reservation that still waits for its renewal is late.
pub fn late_with(ttl: Duration) -> Duration {
    ttl / LATE_PART
}

/// How many late ones are too many, so that no new ones are granted.
pub fn strained_from(held: usize) -> usize {
    (held / STRAINED_PART).max(STRAINED_LEAST)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::request::Ttl;

    fn ttls() -> impl Iterator<Item = Duration> {
        let all = [3, 5, 15, 30, 3600, 86_400].into_iter();
        all.map(|seconds| Ttl::parse(Some(Duration::from_secs(seconds))).unwrap())
            .map(Ttl::as_duration)
    }

    #[test]
    fn a_renewal_is_due_about_a_third_of_the_ttl_later_and_not_for_all_at_once() {
        for ttl in ttls() {
            let (soonest, latest) = (next_due(ttl, 0), next_due(ttl, u8::MAX));
            assert!(soonest >= ttl / 4 && latest <= ttl * 5 / 12, "{ttl:?}");
            assert!(latest - soonest >= ttl / 7, "{ttl:?}");
            assert!(first_due(ttl, 0) >= ttl / 12 && first_due(ttl, u8::MAX) <= ttl * 5 / 12);
        }
    }

    #[test]
    fn at_the_latest_due_moment_at_least_two_slow_tries_and_a_pause_fit_before_the_end() {
        for ttl in ttls() {
            let left = ttl - next_due(ttl, u8::MAX);
            assert!(
                2 * try_limit(ttl) + retry_due(ttl, u8::MAX) < left,
                "{ttl:?}"
            );
        }
    }

    #[test]
    fn a_failed_try_is_followed_by_another_soon_and_never_at_once() {
        for ttl in ttls() {
            assert!(retry_due(ttl, 0) >= RETRY_BOUNDS.0 / 2);
            assert!(retry_due(ttl, u8::MAX) <= RETRY_BOUNDS.1);
            assert!(retry_due(ttl, u8::MAX) <= ttl / 10, "{ttl:?}");
        }
    }

    #[test]
    fn who_is_renewed_when_it_is_due_in_a_try_or_its_repetition_is_not_late() {
        for ttl in ttls() {
            let left = ttl - next_due(ttl, u8::MAX / 2);
            assert!(left - try_limit(ttl) >= late_with(ttl), "{ttl:?}");
        }
    }

    #[test]
    fn a_few_late_ones_among_many_are_no_strain() {
        assert_eq!([1, 100, 512].map(strained_from), [8; 3]);
        assert_eq!(strained_from(50_000), 781);
    }
}
