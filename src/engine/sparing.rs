//! Keeps the log readable when the same thing goes wrong for every call.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use super::clock::Boottime;

/// How long a span is in which lines are counted.
const SPAN: Duration = Duration::from_secs(1);
/// Most lines of one kind in a span. Further ones are counted, and the next line tells how many there were.
const LINES_MAX: u32 = 10;

/// Decides which lines of one kind are written.
#[derive(Debug, Default)]
pub(super) struct Sparing(Mutex<Counted>);

#[derive(Debug, Default)]
struct Counted {
    began: Option<Boottime>,
    lines: u32,
    unsaid: u64,
}

impl Sparing {
    /// How many lines were left out since the last one; `None`: this one is to be left out too.
    pub(super) fn speak(&self) -> Option<u64> {
        self.speak_at(Boottime::now())
    }

    fn speak_at(&self, now: Boottime) -> Option<u64> {
        let mut counted = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if counted.began.is_none_or(|began| now.since(began) >= SPAN) {
            counted.began = Some(now);
            counted.lines = 0;
        }
        if counted.lines == LINES_MAX {
            counted.unsaid += 1;
            return None;
        }
        counted.lines += 1;
        Some(std::mem::take(&mut counted.unsaid))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_beyond_the_limit_are_counted_and_told_with_the_next_one() {
        let sparing = Sparing::default();
        let now = Boottime::now();
        for _ in 0..LINES_MAX {
            assert_eq!(sparing.speak_at(now), Some(0));
        }
        assert_eq!(sparing.speak_at(now), None);
        assert_eq!(sparing.speak_at(now), None);
        assert_eq!(sparing.speak_at(now.plus(SPAN)), Some(2));
        assert_eq!(sparing.speak_at(now.plus(SPAN)), Some(0));
    }
}
