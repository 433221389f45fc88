//! What this sidecar knows of the store's clock.
//!
//! The clock in etcd said so much when it was read, and since then so much has passed here: so late it is by now, at least.
//! That is all that anything is measured by. A time of day that jumps changes nothing, and what passed while nobody looked is
//! not counted, so that nothing is ever forgotten too early.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tracing::error;

use super::clock::{Boottime, Clock};
use super::sweeper::look_every;
use crate::domain::retention::{CLOCK_BOUND, Keeping, StoreTime, When};
use crate::domain::token::Timeline;
use crate::store::StoredClock;

/// A sidecar may know of so many looks more than one that has just come: one look's time that was not written down because
/// nothing was pending, one that was not yet worth a write, and one until it looks again.
const LAG_LOOKS: u32 = 3;

/// What this sidecar knows of the store's clock. Cheap to clone.
#[derive(Clone, Debug)]
pub(super) struct StoreClock {
    clock: Clock,
    keeping: Keeping,
    known: Arc<Mutex<Known>>,
}

#[derive(Debug)]
struct Known {
    /// What the clock said,
    said_ms: u64,
    /// and when that was read, here.
    at: Boottime,
    /// The time of day when it was last looked at, and the moment of that look.
    wall: (u64, Boottime),
    /// The timeline in which it said so: a store that is restored goes back, and its clock with it.
    timeline: Timeline,
}

/// Whether the time of day here can be right.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wall {
    /// It may be.
    Sound,
    /// It is not, or was not when it was last looked at.
    Off,
}

impl StoreClock {
    pub(super) fn new(
        clock: Clock,
        keeping: Keeping,
        opened: StoredClock,
        timeline: Timeline,
    ) -> Self {
        let at = clock.boottime();
        let known = Known {
            said_ms: opened.now_ms,
            at,
            wall: (clock.wall_ms(), at),
            timeline,
        };
        let known = Arc::new(Mutex::new(known));
        let store_clock = Self {
            clock,
            keeping,
            known,
        };
        // Said at the start too, not only when the first sweep is due.
        store_clock.look_at_wall();
        store_clock
    }

    pub(super) fn keeping(&self) -> Keeping {
        self.keeping
    }

    /// When it is, for a judgement.
    pub(super) fn when(&self) -> When {
        When {
            wall_ms: self.clock.wall_ms(),
            now: StoreTime::from_seconds(self.now_ms() / 1000),
            keeping: self.keeping,
            lag: LAG_LOOKS * look_every(self.keeping),
        }
    }

    /// How late it is at least, in milliseconds.
    pub(super) fn now_ms(&self) -> u64 {
        let now = self.clock.boottime();
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        known
            .said_ms
            .saturating_add(milliseconds(now.since(known.at)))
    }

    /// Takes over what the clock in etcd said just now, if that is later than was known.
    pub(super) fn learn(&self, said_ms: u64) {
        let now = self.clock.boottime();
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let reckoned = known
            .said_ms
            .saturating_add(milliseconds(now.since(known.at)));
        if said_ms > reckoned {
            known.said_ms = said_ms;
            known.at = now;
        }
    }

    /// Whether what is known was said in this timeline.
    pub(super) fn is_of(&self, timeline: Timeline) -> bool {
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        known.timeline == timeline
    }

    /// Goes back to what the clock says in another timeline. It went back with the store, and what is stored from now on is
    /// measured by it: a sidecar that stayed ahead would remove what another one has just stored. `None`: there is no clock.
    pub(super) fn begin_anew(&self, timeline: Timeline, said_ms: Option<u64>) {
        let now = self.clock.boottime();
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if known.timeline == timeline {
            return;
        }
        known.timeline = timeline;
        if let Some(said_ms) = said_ms {
            known.said_ms = said_ms;
            known.at = now;
        }
    }

    /// Goes back to what the clock in etcd says: while nothing is stored that has an end, no time is counted. Else a sidecar
    /// that had been idle for long would be far ahead of one that comes, and remove what that one has just stored. Answers
    /// how much is not counted, in milliseconds.
    pub(super) fn stand_still_at(&self, said_ms: u64) -> u64 {
        let now = self.clock.boottime();
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let reckoned = known
            .said_ms
            .saturating_add(milliseconds(now.since(known.at)));
        known.said_ms = said_ms;
        known.at = now;
        reckoned.saturating_sub(said_ms)
    }

    /// Whether the time of day here is certainly too early.
    pub(super) fn wall_is_behind(&self) -> bool {
        self.now_ms().saturating_sub(self.clock.wall_ms()) > milliseconds(CLOCK_BOUND)
    }

    /// Compares the time of day with what is known, and says loudly if it cannot be right. Retention does not follow it, but
    /// the times that senders give are held against it, and a machine whose clock is wrong is not to remove anything.
    pub(super) fn look_at_wall(&self) -> Wall {
        let (now, wall_ms) = (self.clock.boottime(), self.clock.wall_ms());
        let least_ms = self.now_ms();
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let (before_ms, before) = std::mem::replace(&mut known.wall, (wall_ms, now));
        drop(known);
        let bound = milliseconds(CLOCK_BOUND);
        let expected_ms = before_ms.saturating_add(milliseconds(now.since(before)));
        let behind_ms = least_ms.saturating_sub(wall_ms);
        let jumped_ms = wall_ms.abs_diff(expected_ms);
        if behind_ms > bound {
            let behind = humantime::format_duration(Duration::from_secs(behind_ms / 1000));
            error!(%behind, "the clock of this machine is behind the store's by more than the bound of 10 s: nothing is \
                removed from here; set the clock, or, if the first sidecar of this store had begun with a clock that was \
                ahead, see ARCHITECTURE.md, Clocks");
            return Wall::Off;
        }
        if jumped_ms > bound {
            let jumped = humantime::format_duration(Duration::from_secs(jumped_ms / 1000));
            error!(%jumped, "the clock of this machine has jumped by more than the bound of 10 s: nothing is removed from \
                here before the next look");
            return Wall::Off;
        }
        Wall::Sound
    }
}

fn milliseconds(span: Duration) -> u64 {
    u64::try_from(span.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::ids::Nonce;

    const HOUR: Duration = Duration::from_secs(3600);
    const HOUR_MS: u64 = 3_600_000;

    /// A clock whose store began when the test did.
    fn begun_now() -> (Clock, StoreClock) {
        let clock = Clock::default();
        let opened = StoredClock {
            now_ms: clock.wall_ms(),
            swept_ms: 0,
        };
        let known = StoreClock::new(clock.clone(), Keeping::default(), opened, timeline(1));
        (clock, known)
    }

    fn timeline(id: u8) -> Timeline {
        Timeline::first(Nonce::from_bytes([id; 16]), id.into())
    }

    #[test]
    fn in_another_timeline_it_goes_back_with_the_store_once() {
        let (clock, known) = begun_now();
        let began = known.now_ms();
        clock.pass(HOUR);
        assert!(known.is_of(timeline(1)) && !known.is_of(timeline(2)));
        known.begin_anew(timeline(2), Some(began));
        assert!(known.is_of(timeline(2)) && known.now_ms() < began + HOUR_MS);
        // Another lane has read it meanwhile too; what passed since counts.
        clock.pass(HOUR);
        known.begin_anew(timeline(2), Some(began));
        assert!(known.now_ms() >= began + HOUR_MS);
    }

    #[test]
    fn only_what_has_passed_here_moves_it_on_and_no_time_of_day() {
        let (clock, known) = begun_now();
        let began = known.now_ms();
        clock.put_wall_off(1_000_000_000_000);
        assert!(known.now_ms() < began + HOUR_MS);
        clock.put_wall_off(-1_000_000_000_000);
        assert!(known.now_ms() >= began);
        clock.pass(HOUR);
        assert!((began + HOUR_MS..began + 2 * HOUR_MS).contains(&known.now_ms()));
    }

    #[test]
    fn what_others_have_seen_pass_is_taken_over_and_nothing_turns_it_back() {
        let (_, known) = begun_now();
        let began = known.now_ms();
        known.learn(began + HOUR_MS);
        assert!(known.now_ms() >= began + HOUR_MS);
        known.learn(began);
        assert!(known.now_ms() >= began + HOUR_MS);
    }

    #[test]
    fn a_time_of_day_that_is_behind_or_jumps_is_found_out() {
        let (clock, known) = begun_now();
        clock.pass(HOUR);
        assert_eq!(known.look_at_wall(), Wall::Sound);
        clock.put_wall_off(-60_000);
        assert_eq!(known.look_at_wall(), Wall::Off);
        assert_eq!(known.look_at_wall(), Wall::Off, "it is still behind");
        clock.put_wall_off(0);
        assert_eq!(known.look_at_wall(), Wall::Off, "it jumped back");
        assert_eq!(known.look_at_wall(), Wall::Sound);
        clock.put_wall_off(60_000);
        assert_eq!(known.look_at_wall(), Wall::Off, "it jumped ahead");
        assert_eq!(
            known.look_at_wall(),
            Wall::Sound,
            "while none ran, time passed too"
        );
        clock.put_wall_off(69_000);
        assert_eq!(known.look_at_wall(), Wall::Sound, "within the bound");
    }
}
