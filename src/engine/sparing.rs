//! Keeps the log readable when the same thing goes wrong for every call.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use super::clock::Boottime;

/// How long a span is in which lines are counted.
const SPAN: Duration = Duration::from_secs(1);
/// Most lines of one kind in a span. Further ones are counted, and the next line tells how many there were.
const LINES_MAX: u32 = 10;
/// Of what goes on for longer than a person reads single lines: one line in so long, once the first were written,
const TROUBLE_LINE_EVERY: Duration = Duration::from_secs(5);
/// until nothing was to be said for so long.
const TROUBLE_CALM: Duration = Duration::from_secs(10);

// What goes on with a line now and then must not count as over in between.
const _: () = assert!(TROUBLE_LINE_EVERY.as_millis() < TROUBLE_CALM.as_millis());

/// Decides which lines of one kind are written.
#[derive(Debug, Default)]
pub struct Sparing {
    lasts: Lasts,
    counted: Mutex<Counted>,
}

/// Of which kind a trouble is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Lasts {
    /// Each line tells of something else.
    #[default]
    No,
    /// One line tells nearly all that the next ones tell, for as long as it goes on.
    Yes,
}

#[derive(Debug, Default)]
struct Counted {
    began: Option<Boottime>,
    /// When a line was last written, or left out.
    asked: Option<Boottime>,
    /// When a line was last written.
    spoke: Option<Boottime>,
    lines: u32,
    unsaid: u64,
}

impl Sparing {
    /// For a trouble that goes on, such as a store that does not answer: callers ask again and again.
    pub fn of_what_lasts() -> Self {
        Self {
            lasts: Lasts::Yes,
            counted: Mutex::default(),
        }
    }

    /// How many lines were left out since the last one; `None`: this one is to be left out too.
    pub fn speak(&self) -> Option<u64> {
        self.speak_at(Boottime::now())
    }

    fn speak_at(&self, now: Boottime) -> Option<u64> {
        let mut counted = self.counted.lock().unwrap_or_else(PoisonError::into_inner);
        let past = |moment: Option<Boottime>, span| moment.is_none_or(|it| now.since(it) >= span);
        let anew = match self.lasts {
            Lasts::No => past(counted.began, SPAN),
            Lasts::Yes => past(counted.asked, TROUBLE_CALM),
        };
        counted.asked = Some(now);
        if anew {
            counted.began = Some(now);
            counted.lines = 0;
        }
        let goes_on = self.lasts == Lasts::Yes && past(counted.spoke, TROUBLE_LINE_EVERY);
        if counted.lines == LINES_MAX && !goes_on {
            counted.unsaid += 1;
            return None;
        }
        counted.lines = LINES_MAX.min(counted.lines + 1);
        counted.spoke = Some(now);
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

    #[test]
    fn of_what_goes_on_a_line_is_written_now_and_then_until_it_is_over() {
        let sparing = Sparing::of_what_lasts();
        let mut now = Boottime::now();
        let second = Duration::from_secs(1);
        let mut said = Vec::new();
        for _ in 0..10 {
            for _ in 0..4 {
                said.extend(sparing.speak_at(now).filter(|unsaid| *unsaid > 0));
                now = now.plus(second / 4);
            }
        }
        // Of 40 in 10 s the first 10, in the first 2.25 s, and one 5 s after the last.
        assert_eq!(said, [19]);
        now = now.plus(TROUBLE_CALM);
        for unsaid in [10, 0, 0] {
            assert_eq!(sparing.speak_at(now), Some(unsaid));
        }
    }
}
