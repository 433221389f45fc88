//! When the next transaction of commits goes out. A pure decision: time and numbers go in.
//!
//! 1. Nothing under way, and nothing just came back: at once. A commit never waits when idle.
//! 2. Something under way: commits gather behind it, for one large transaction costs etcd less than half of what two small ones
//!    do. Another goes out beside it once a whole batch waits, or once the first is so long under way that its reply may be lost.
//! 3. A large transaction just came back: those whom it answered are about to ask again. Sending the first of them alone would
//!    let all others wait behind it, so that each turn of the callers would take two transactions, one of them nearly empty. So
//!    the next one waits until most of as many have gathered, as long as they keep coming, and never longer than [`RETURN_MAX`].
//!    Few callers never wait, and whoever comes later finds nothing to wait for.

use std::time::Duration;

use tokio::time::Instant;

use crate::store::BATCH_MEMBERS_MAX;

/// Transactions to etcd in flight at once.
pub(super) const BATCHES_IN_FLIGHT_MAX: usize = 4;
/// How long commits gather behind a transaction under way. Longer than etcd usually takes, and short enough that a lost reply
/// holds up nobody else.
const PATIENCE: Duration = Duration::from_millis(10);
/// The fewest members of a transaction whose callers are waited for.
const RETURN_MEMBERS_MIN: usize = 8;
/// How long the callers of the last transaction are waited for at most.
const RETURN_MAX: Duration = Duration::from_millis(4);
/// How long nobody else may come before those who are still missing are given up. The timers are no finer.
const RETURN_GAP_MAX: Duration = Duration::from_millis(1);

/// A transaction that came back.
#[derive(Clone, Copy, Debug)]
pub(super) struct Returned {
    pub(super) members: usize,
    pub(super) at: Instant,
}

/// What there is to decide on.
#[derive(Clone, Copy, Debug)]
pub(super) struct Situation {
    /// Commits that wait; at least one does.
    pub(super) waiting: usize,
    /// Since when the first of them does.
    pub(super) since: Instant,
    /// When more of them were last found.
    pub(super) grew: Instant,
    /// Transactions under way.
    pub(super) in_flight: usize,
    /// The one that came back last.
    pub(super) last: Option<Returned>,
}

/// What to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Turn {
    /// Send what waits.
    Now,
    /// Look again when so many wait, when a transaction comes back, or at this time.
    Later { members: usize, at: Option<Instant> },
}

impl Situation {
    pub(super) fn turn(&self, now: Instant) -> Turn {
        if self.in_flight >= BATCHES_IN_FLIGHT_MAX {
            return Turn::Later {
                members: usize::MAX,
                at: None,
            };
        }
        let (members, at) = if self.in_flight > 0 {
            (BATCH_MEMBERS_MAX, self.since + PATIENCE)
        } else if let Some(last) = self.last.filter(|last| last.members >= RETURN_MEMBERS_MIN) {
            let until = (last.at + RETURN_MAX).min(self.grew + RETURN_GAP_MAX);
            (last.members * 3 / 4, until)
        } else {
            return Turn::Now;
        };
        if self.waiting >= members || now >= at {
            return Turn::Now;
        }
        Turn::Later {
            members,
            at: Some(at),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    /// One that came now.
    fn alone(now: Instant) -> Situation {
        Situation {
            waiting: 1,
            since: now,
            grew: now,
            in_flight: 0,
            last: None,
        }
    }

    fn returned(members: usize, at: Instant) -> Option<Returned> {
        Some(Returned { members, at })
    }

    #[test]
    fn a_commit_that_finds_nothing_under_way_never_waits() {
        let now = Instant::now();
        assert_eq!(alone(now).turn(now), Turn::Now);
        // Nor after a large batch, once its time is over.
        let last = returned(64, now - RETURN_MAX);
        assert_eq!(Situation { last, ..alone(now) }.turn(now), Turn::Now);
    }

    #[test]
    fn few_callers_never_wait_for_each_other() {
        let now = Instant::now();
        for members in 1..RETURN_MEMBERS_MIN {
            let last = returned(members, now);
            assert_eq!(Situation { last, ..alone(now) }.turn(now), Turn::Now);
        }
    }

    #[test]
    fn after_a_large_transaction_most_of_its_callers_are_waited_for_while_they_keep_coming() {
        let back = Instant::now();
        let at = |now: Instant, waiting, grew| {
            let waits = Situation {
                waiting,
                grew,
                last: returned(40, back),
                ..alone(back)
            };
            waits.turn(now)
        };
        let wait = |at| Turn::Later {
            members: 30,
            at: Some(at),
        };
        assert_eq!(at(back, 1, back), wait(back + RETURN_GAP_MAX));
        let later = back + MS / 2;
        assert_eq!(at(later, 29, later), wait(later + RETURN_GAP_MAX));
        assert_eq!(at(later, 30, later), Turn::Now, "most are there");
        let nobody = later + RETURN_GAP_MAX;
        assert_eq!(at(nobody, 29, later), Turn::Now, "nobody else comes");
        let late = back + RETURN_MAX - MS / 4;
        assert_eq!(at(late, 29, late), wait(back + RETURN_MAX));
        let end = back + RETURN_MAX;
        assert_eq!(at(end, 29, late), Turn::Now, "they take too long");
    }

    #[test]
    fn commits_gather_behind_a_transaction_until_a_batch_is_whole_or_it_takes_too_long() {
        let now = Instant::now();
        let behind = |waiting, in_flight, waited: Duration| {
            let behind = Situation {
                waiting,
                since: now - waited,
                grew: now,
                in_flight,
                // What came back before is of no matter while something is under way.
                last: returned(64, now),
            };
            behind.turn(now)
        };
        let gathers = Turn::Later {
            members: BATCH_MEMBERS_MAX,
            at: Some(now + PATIENCE),
        };
        assert_eq!(behind(BATCH_MEMBERS_MAX - 1, 1, Duration::ZERO), gathers);
        assert_eq!(behind(BATCH_MEMBERS_MAX, 1, Duration::ZERO), Turn::Now);
        assert_eq!(behind(1, 3, PATIENCE), Turn::Now);
        let full = Turn::Later {
            members: usize::MAX,
            at: None,
        };
        assert_eq!(
            behind(BATCH_MEMBERS_MAX, BATCHES_IN_FLIGHT_MAX, PATIENCE),
            full
        );
    }
}
