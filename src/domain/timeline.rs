//! What is known of the timeline in force, why it may be halted, and the one that follows it after a restore.

use std::fmt;

use super::ids::Nonce;
use super::invalid::Invalid;
use super::token::{FencingToken, Revision, TOKEN_MAX, TOKENS_PER_SECOND, Timeline};

/// Largest base of a timeline. Above it there are tokens left for 2^46 revisions, which is two hundred years of ten thousand a
/// second.
pub const BASE_MAX: u64 = TOKEN_MAX - (1 << 46);
/// The largest token that a person may give for a timeline to begin above: the clock leads there in 2072. What is left above it is for
/// the timelines that follow, each of which begins above the one before it.
pub const ABOVE_MAX: u64 = 3 << 51;

/// Why nothing is judged until a person has started a new timeline.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Halt {
    /// The store had come to one revision and was found at a lower one, by a write.
    WentBack {
        /// The highest revision that the sidecar which halted it knew of.
        known: u64,
        /// The revision that a write came to after that.
        found: u64,
        /// When that was found, in milliseconds since 1970.
        time_ms: u64,
    },
    /// Another etcd cluster answers, with the keys of this one.
    OtherCluster {
        /// When that was found, in milliseconds since 1970.
        time_ms: u64,
    },
    /// An earlier timeline was in force again.
    OlderTimeline {
        /// When that was found, in milliseconds since 1970.
        time_ms: u64,
    },
    /// A new timeline is being started, or its start was interrupted.
    Starting {
        /// Since when, in milliseconds since 1970.
        time_ms: u64,
    },
}

impl fmt::Display for Halt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::WentBack { known, found, .. } => write!(
                f,
                "etcd went back from revision {known} to {found}, so it was restored from a backup"
            ),
            Self::OtherCluster { .. } => f.write_str(
                "another etcd cluster answers with the keys of this store, so it was restored from a backup",
            ),
            Self::OlderTimeline { .. } => f.write_str(
                "an earlier timeline is in force again, so etcd was restored from a backup",
            ),
            Self::Starting { .. } => {
                f.write_str("a new timeline is being started, or its start was interrupted")
            }
        }
    }
}

impl Halt {
    /// Since when, in milliseconds since 1970.
    pub fn time_ms(self) -> u64 {
        match self {
            Self::WentBack { time_ms, .. }
            | Self::OtherCluster { time_ms }
            | Self::OlderTimeline { time_ms }
            | Self::Starting { time_ms } => time_ms,
        }
    }

    /// The highest revision that the history before is known to have come to, as far as this says.
    fn known(self) -> u64 {
        match self {
            Self::WentBack { known, .. } => known,
            Self::OtherCluster { .. } | Self::OlderTimeline { .. } | Self::Starting { .. } => 0,
        }
    }
}

/// The timeline as it is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stored {
    /// It.
    pub timeline: Timeline,
    /// When it began, in seconds since 1970 by the clock of the machine that began it.
    pub began_s: u64,
    /// Why nothing is judged in it. `None`: it is in force.
    pub halt: Option<Halt>,
    /// While it is halted: the largest token that may have been granted before, as far as any sidecar knows. It may be of a later
    /// timeline, which a restore has undone. 0: nothing more is known than what `timeline` and `halt` say.
    pub largest: u64,
}

impl Stored {
    /// The first one of a store, whose base says when it began.
    pub fn first(timeline: Timeline) -> Self {
        Self {
            timeline,
            began_s: timeline.base / TOKENS_PER_SECOND,
            halt: None,
            largest: 0,
        }
    }

    /// Whether this one may follow another one without anything having been restored behind our backs: bases only rise.
    pub fn may_follow(&self, before: &Self) -> bool {
        self.timeline.id == before.timeline.id || self.timeline.base > before.timeline.base
    }
}

/// What is known when a new timeline is started.
#[derive(Clone, Copy, Debug)]
pub struct Start {
    /// Names the new one.
    pub id: Nonce,
    /// The time of day, in seconds since 1970.
    pub now_s: u64,
    /// Whether that is known to be too early: the store's clock is ahead of it.
    pub clock_is_behind: bool,
    /// The highest revision that etcd is known to have come to, before or after it was restored.
    pub known: u64,
    /// The largest token that may have been granted in any timeline that is known here. 0: none is known.
    pub largest: u64,
    /// A token that is known from elsewhere to have been granted.
    pub above: Option<FencingToken>,
}

impl Start {
    /// The timeline that follows. `changed`: at which revision the one before was last written. All its tokens are above
    /// every token that was ever granted before.
    ///
    /// What was granted in the part of the history that is lost is not in the store. But no etcd makes [`TOKENS_PER_SECOND`]
    /// revisions in a second, so that the time that has passed since the timeline began bounds it, unless the clock is wrong.
    pub fn after(&self, before: &Stored, changed: Revision) -> Result<Timeline, Invalid> {
        let base = before.timeline.base;
        // The seconds are rounded down on both sides.
        let passed_s = self.now_s.checked_sub(before.began_s);
        let passed_s = passed_s.filter(|_| !self.clock_is_behind);
        let lost = passed_s.map(|passed| {
            (passed.saturating_add(1))
                .saturating_mul(TOKENS_PER_SECOND)
                .saturating_add(base)
                .saturating_add(changed.get())
        });
        let Some(lost) = lost.or(self.above.map(FencingToken::get)) else {
            return Err(Invalid::new(
                "is required: the clock of this machine is behind, so that it does not bound the tokens that were granted and \
                 are lost; set the clock, or give the largest token that anybody has seen",
            ));
        };
        if self.above.is_some_and(|above| above.get() > ABOVE_MAX) {
            return Err(Invalid::new(format!(
                "is more than {ABOVE_MAX}, to which the clock leads in 2072: tokens end below 2^53, and later timelines need \
                 what is left; is there a digit too many?"
            )));
        }
        let halted = before.halt.map_or(0, Halt::known);
        let largest = [
            lost,
            base.saturating_add(self.known.max(halted)),
            self.largest.max(before.largest),
            self.now_s.saturating_mul(TOKENS_PER_SECOND),
            self.above.map_or(0, FencingToken::get),
        ];
        // Bases rise with each timeline, also if the token that was given is an old one.
        let least = base.saturating_add(changed.get());
        let next = largest.into_iter().fold(least, u64::max);
        if next > BASE_MAX {
            return Err(Invalid::new(format!(
                "leads to tokens from {next} on, which leaves too few below 2^53; the largest token that a timeline may begin \
                 above is {BASE_MAX}"
            )));
        }
        Ok(Timeline {
            id: self.id,
            base: next,
            min_token: next.saturating_add(1),
        })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const NOW_S: u64 = 1_800_000_000;

    fn id(byte: u8) -> Nonce {
        Nonce::from_bytes([byte; 16])
    }

    fn revision(number: u64) -> Revision {
        Revision::from_etcd(i64::try_from(number).unwrap()).unwrap()
    }

    fn first() -> Stored {
        Stored::first(Timeline::first(id(1), NOW_S))
    }

    fn start(now_s: u64) -> Start {
        Start {
            id: id(2),
            now_s,
            clock_is_behind: false,
            known: 0,
            largest: 0,
            above: None,
        }
    }

    fn token(number: u64) -> FencingToken {
        FencingToken::shown(i64::try_from(number).unwrap()).unwrap()
    }

    proptest! {
        #[test]
        fn every_token_of_the_next_timeline_is_above_all_that_were_granted(
            passed in 0..3_000_000_000_u64,
            changed in 1..1_000_000_000_000_u64,
            granted in 0..TOKENS_PER_SECOND,
            seconds in 0..100_000_000_u64,
            restored in 1..1_000_000_000_000_u64,
            above in prop::option::of(1..=ABOVE_MAX),
        ) {
            // Granted at most so many seconds after the timeline began, at the highest rate there can be.
            let seconds = seconds.min(passed);
            let last = FencingToken::of_grant(
                first().timeline.base,
                revision(changed + seconds * TOKENS_PER_SECOND + granted),
            ).unwrap();
            let start = Start { above: above.map(token), ..start(NOW_S + passed) };
            match start.after(&first(), revision(changed)) {
                Ok(next) => {
                    let lowest = FencingToken::of_grant(next.base, revision(restored)).unwrap();
                    prop_assert!(lowest > last);
                    prop_assert!(above.is_none_or(|above| lowest > token(above)));
                    prop_assert!(last.get() < next.min_token && lowest.get() >= next.min_token);
                    prop_assert!(next.base <= BASE_MAX);
                }
                Err(_) => prop_assert!(NOW_S + passed > BASE_MAX / TOKENS_PER_SECOND - 1_000_000),
            }
        }

        #[test]
        fn each_start_is_above_the_one_before(gaps in prop::collection::vec(0..1_000_000_u64, 1..20)) {
            let mut now_s = NOW_S;
            let mut before = first();
            for gap in gaps {
                now_s += gap;
                let next = start(now_s).after(&before, revision(50)).unwrap();
                prop_assert!(next.base > before.timeline.base);
                before = Stored { timeline: next, began_s: now_s, ..first() };
            }
        }
    }

    #[test]
    fn what_is_known_of_the_lost_history_counts_whatever_the_clock_says() {
        let known = u64::pow(2, 45);
        let halt = Halt::WentBack {
            known,
            found: 7,
            time_ms: 0,
        };
        let halted = Stored {
            halt: Some(halt),
            ..first()
        };
        let next = start(NOW_S).after(&halted, revision(5)).unwrap();
        assert!(next.base >= first().timeline.base + known);
        let seen = Start {
            known,
            ..start(NOW_S)
        };
        let next = seen.after(&first(), revision(5)).unwrap();
        assert!(next.base >= first().timeline.base + known);
    }

    #[test]
    fn what_a_timeline_that_was_undone_may_have_granted_counts_whoever_knows_it() {
        let largest = first().timeline.base + u64::pow(2, 45);
        let halted = Stored { largest, ..first() };
        let told = start(NOW_S).after(&halted, revision(5)).unwrap();
        let known = Start {
            largest,
            ..start(NOW_S)
        };
        let known = known.after(&first(), revision(5)).unwrap();
        assert_eq!([told.base, known.base], [largest; 2]);
    }

    #[test]
    fn a_clock_that_is_behind_needs_a_token_to_begin_above() {
        let late = start(NOW_S - 1);
        let told = late.after(&first(), revision(5)).unwrap_err().to_string();
        assert!(
            told.contains("clock") && told.contains("largest token"),
            "{told}"
        );
        let behind = Start {
            clock_is_behind: true,
            ..start(NOW_S + 1)
        };
        assert!(behind.after(&first(), revision(5)).is_err());
        let above = token(first().timeline.base + 1_000_000_000);
        for start in [late, behind] {
            let start = Start {
                above: Some(above),
                ..start
            };
            let next = start.after(&first(), revision(5)).unwrap();
            assert_eq!(next.base, above.get());
            assert_eq!(next.min_token, above.get() + 1);
        }
    }

    #[test]
    fn a_token_that_leaves_no_room_is_refused_and_the_largest_is_named() {
        let at = |above| Start {
            above: Some(token(above)),
            ..start(NOW_S)
        };
        let next = at(ABOVE_MAX).after(&first(), revision(5)).unwrap();
        assert_eq!(next.base, ABOVE_MAX);
        for above in [ABOVE_MAX + 1, BASE_MAX, TOKEN_MAX] {
            let told = at(above).after(&first(), revision(5)).unwrap_err();
            assert!(told.to_string().contains(&ABOVE_MAX.to_string()), "{told}");
        }
        // The largest is no end: timelines follow for decades.
        let years = 30 * 365 * 24 * 3_600;
        let mut before = first();
        before.timeline = next;
        let later = start(NOW_S + years).after(&before, revision(5)).unwrap();
        assert!(later.base > next.base);
    }

    #[test]
    fn only_a_larger_base_may_follow() {
        let next = Stored {
            timeline: start(NOW_S).after(&first(), revision(5)).unwrap(),
            began_s: NOW_S,
            ..first()
        };
        assert!(next.may_follow(&first()) && !first().may_follow(&next));
        let halt = Some(Halt::OtherCluster { time_ms: 1 });
        assert!(Stored { halt, ..first() }.may_follow(&first()));
    }
}
