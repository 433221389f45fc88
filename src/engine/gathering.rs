//! When the next transaction of commits goes out. A pure decision: time and numbers go in.
//!
//! 1. Nothing under way, and nothing just came back: at once. A commit never waits when idle.
//! 2. Something under way: commits gather behind it, for one large transaction costs etcd less than half of what two small ones
//!    do. Another goes out beside it once a whole batch waits, or once the first is so long under way that its reply may be lost.
//! 3. A transaction of many just came back: those whom it answered are about to ask again. Sending what gathered meanwhile at
//!    once would keep the callers in two halves for ever, each waiting behind the other, at twice the transactions. So the next
//!    one waits until most of all have gathered: at most as long as the last transaction took, and never longer than
//!    [`RETURN_MAX`]. Few callers never wait, and whoever comes later finds nothing to wait for.

use std::time::Duration;

use tokio::time::Instant;

use crate::store::BATCH_MEMBERS_MAX;

/// Transactions to etcd in flight at once.
pub(super) const BATCHES_IN_FLIGHT_MAX: usize = 4;
/// How long commits gather behind a transaction under way. Longer than etcd usually takes, and short enough that a lost reply
/// holds up nobody else.
const PATIENCE: Duration = Duration::from_millis(10);
/// Fewer callers than this are not waited for.
const CALLERS_MIN: usize = 16;
/// How long the callers of the last transaction are waited for at most.
const RETURN_MAX: Duration = Duration::from_millis(2);

/// A transaction that came back.
#[derive(Clone, Copy, Debug)]
pub(super) struct Returned {
    /// How many commits there were then, those that it carried and those that waited behind it.
    pub(super) callers: usize,
    /// How long it was under way.
    pub(super) took: Duration,
    pub(super) at: Instant,
}

/// What there is to decide on.
#[derive(Clone, Copy, Debug)]
pub(super) struct Situation {
    /// Commits that wait; at least one does.
    pub(super) waiting: usize,
    /// Since when the first of them does.
    pub(super) since: Instant,
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
        } else if let Some(last) = self.last.filter(|last| last.callers >= CALLERS_MIN) {
            let most = (last.callers * 3 / 4).min(BATCH_MEMBERS_MAX);
            (most, last.at + last.took.min(RETURN_MAX))
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
            in_flight: 0,
            last: None,
        }
    }

    fn returned(callers: usize, took: Duration, at: Instant) -> Option<Returned> {
        Some(Returned { callers, took, at })
    }

    #[test]
    fn a_commit_that_finds_nothing_under_way_never_waits() {
        let now = Instant::now();
        assert_eq!(alone(now).turn(now), Turn::Now);
        // Nor after a transaction of many, once its time is over.
        let last = returned(64, 60 * MS, now - RETURN_MAX);
        assert_eq!(Situation { last, ..alone(now) }.turn(now), Turn::Now);
    }

    #[test]
    fn few_callers_never_wait_for_each_other() {
        let now = Instant::now();
        for callers in 1..CALLERS_MIN {
            let last = returned(callers, 4 * MS, now);
            assert_eq!(Situation { last, ..alone(now) }.turn(now), Turn::Now);
        }
    }

    #[test]
    fn most_of_many_callers_are_waited_for_but_not_long() {
        let back = Instant::now();
        let at = |now: Instant, took, callers, waiting| {
            let waits = Situation {
                waiting,
                last: returned(callers, took, back),
                ..alone(back)
            };
            waits.turn(now)
        };
        let wait = |members, at| Turn::Later {
            members,
            at: Some(at),
        };
        assert_eq!(at(back, MS, 64, 1), wait(48, back + MS));
        assert_eq!(at(back, MS * 3 / 2, 64, 47), wait(48, back + MS * 3 / 2));
        assert_eq!(at(back, 60 * MS, 64, 47), wait(48, back + RETURN_MAX));
        assert_eq!(at(back, MS, 64, 48), Turn::Now, "most are there");
        let end = back + MS;
        assert_eq!(at(end, MS, 64, 1), Turn::Now, "they take too long");
        // Never for more than one batch holds.
        assert_eq!(at(back, MS, 256, BATCH_MEMBERS_MAX), Turn::Now);
    }

    #[test]
    fn commits_gather_behind_a_transaction_until_a_batch_is_whole_or_it_takes_too_long() {
        let now = Instant::now();
        let behind = |waiting, in_flight, waited: Duration| {
            let behind = Situation {
                waiting,
                since: now - waited,
                in_flight,
                // What came back before is of no matter while something is under way.
                last: returned(64, MS, now),
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
