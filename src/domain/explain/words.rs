//! How times, spans, names and verdicts are written.

use super::NAMES_TOLD_MAX;
use crate::domain::decision::{Advice, Layer, Rule, Verdict};

/// The last moment with four digits of its year, in milliseconds since 1970.
const LAST_MS: u64 = 253_402_300_799_999;
const SECOND_MS: u64 = 1000;
const MINUTE: u64 = 60;
const HOUR: u64 = 60 * MINUTE;
const DAY: u64 = 24 * HOUR;

/// A point in time as RFC 3339, and how long ago it was.
pub(super) fn at(time_ms: u64, now_ms: u64) -> String {
    let told = match now_ms.checked_sub(time_ms) {
        Some(past) => format!("{} ago", span(past / SECOND_MS)),
        // Written by a sidecar whose clock is ahead.
        None => format!(
            "{} ahead of this sidecar's clock",
            span((time_ms - now_ms) / SECOND_MS)
        ),
    };
    format!("{} ({told})", rfc3339(time_ms))
}

/// To the second, in UTC.
fn rfc3339(time_ms: u64) -> String {
    let seconds = time_ms.min(LAST_MS) / SECOND_MS;
    let (year, month, day) = date(seconds / DAY);
    let (hour, minute, second) = (
        seconds % DAY / HOUR,
        seconds % HOUR / MINUTE,
        seconds % MINUTE,
    );
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z")
}

/// The date of a day counted from 1970. The years are taken to begin in March, so that the leap day is their last.
fn date(days: u64) -> (u64, u64, u64) {
    const TO_MARCH_OF_YEAR_0: u64 = 719_468;
    const DAYS_OF_400_YEARS: u64 = 146_097;
    let days = days + TO_MARCH_OF_YEAR_0;
    let (era, day) = (days / DAYS_OF_400_YEARS, days % DAYS_OF_400_YEARS);
    let year = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let day = day - (153 * month + 2) / 5 + 1;
    let (month, next) = if month < 10 {
        (month + 3, 0)
    } else {
        (month - 9, 1)
    };
    (era * 400 + year + next, month, day)
}

/// A span, in its two largest units at most.
pub(super) fn span(seconds: u64) -> String {
    let two = |large: u64, name: &str, small: u64, small_name: &str| match small {
        0 => format!("{large} {name}"),
        _ => format!("{large} {name} {small} {small_name}"),
    };
    if seconds < MINUTE {
        format!("{seconds} s")
    } else if seconds < HOUR {
        format!("{} min", seconds / MINUTE)
    } else if seconds < DAY {
        two(seconds / HOUR, "h", seconds % HOUR / MINUTE, "min")
    } else {
        let days = seconds / DAY;
        let name = if days == 1 { "day" } else { "days" };
        two(days, name, seconds % DAY / HOUR, "h")
    }
}

/// A number and what it counts.
pub(super) fn count(number: u64, one: &str, many: &str) -> String {
    format!("{number} {}", if number == 1 { one } else { many })
}

/// Names in a row, no more than fit a sentence.
pub(super) fn list<T: ToString>(names: impl IntoIterator<Item = T>) -> String {
    let mut names = names.into_iter();
    let told: Vec<String> = names
        .by_ref()
        .take(NAMES_TOLD_MAX)
        .map(|name| name.to_string())
        .collect();
    match names.count() {
        0 => told.join(", "),
        more => format!("{} … and {more} more", told.join(", ")),
    }
}

pub(super) fn verdict(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Granted => "GRANTED",
        Verdict::Applied => "APPLIED",
        Verdict::Replayed => "REPLAYED",
        Verdict::Busy => "BUSY",
        Verdict::InProgress => "IN_PROGRESS",
        Verdict::Interrupted => "INTERRUPTED",
        Verdict::Conflict => "CONFLICT",
        Verdict::Superseded => "SUPERSEDED",
        Verdict::OtherRound => "OTHER_ROUND",
        Verdict::TooEarly => "TOO_EARLY",
        Verdict::Rejected => "REJECTED",
        Verdict::Fenced => "FENCED",
        Verdict::Expired => "EXPIRED",
    }
}

pub(super) fn advice(advice: Advice) -> &'static str {
    match advice {
        Advice::Proceed => "PROCEED",
        Advice::Acknowledge => "ACKNOWLEDGE",
        Advice::Retry => "RETRY",
        Advice::Refuse => "REFUSE",
        Advice::Abandon => "ABANDON",
    }
}

pub(super) fn layer(layer: Layer) -> &'static str {
    match layer {
        Layer::Key => "KEY",
        Layer::Digest => "DIGEST",
        Layer::Replay => "REPLAY",
        Layer::Fence => "FENCE",
        Layer::Identity => "IDENTITY",
        Layer::State => "STATE",
        Layer::Result => "RESULT",
    }
}

/// The layer that finds this.
pub(super) fn layer_of(verdict: Verdict, rule: Rule) -> Layer {
    let by_identity = rule == Rule::NeverKnown || rule == Rule::NotYetKnown;
    match verdict {
        Verdict::Expired => Layer::Key,
        Verdict::Conflict => Layer::Digest,
        Verdict::Replayed | Verdict::InProgress => Layer::Replay,
        Verdict::Interrupted if rule == Rule::OtherInterrupted => Layer::Fence,
        Verdict::Interrupted => Layer::Replay,
        Verdict::Fenced if rule == Rule::DoneWithoutRound => Layer::Replay,
        Verdict::Fenced | Verdict::Busy | Verdict::Granted => Layer::Fence,
        Verdict::OtherRound => Layer::Identity,
        Verdict::Rejected | Verdict::TooEarly if by_identity => Layer::Identity,
        Verdict::Rejected | Verdict::TooEarly | Verdict::Superseded => Layer::State,
        Verdict::Applied => Layer::Result,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_written_as_the_calendar_has_them() {
        for (ms, text) in [
            (0, "1970-01-01T00:00:00Z"),
            (951_782_399_999, "2000-02-28T23:59:59Z"),
            (951_782_400_000, "2000-02-29T00:00:00Z"),
            (951_868_800_000, "2000-03-01T00:00:00Z"),
            (1_709_210_096_000, "2024-02-29T12:34:56Z"),
            (4_107_542_400_000, "2100-03-01T00:00:00Z"),
            (LAST_MS, "9999-12-31T23:59:59Z"),
            (u64::MAX, "9999-12-31T23:59:59Z"),
        ] {
            assert_eq!(rfc3339(ms), text);
            // Told by another's calendar.
            let of = std::time::Duration::from_millis(ms.min(LAST_MS) / 1000 * 1000);
            let other = humantime::format_rfc3339_seconds(std::time::UNIX_EPOCH + of);
            assert_eq!(other.to_string(), text);
        }
    }

    #[test]
    fn spans_are_told_in_two_units_and_never_as_a_moment_that_is_to_come() {
        for (seconds, text) in [
            (0, "0 s"),
            (59, "59 s"),
            (60, "1 min"),
            (3_599, "59 min"),
            (3_600, "1 h"),
            (7_500, "2 h 5 min"),
            (86_400, "1 day"),
            (3 * 86_400 + 3_600, "3 days 1 h"),
        ] {
            assert_eq!(span(seconds), text);
        }
        assert_eq!(at(0, 180_000), "1970-01-01T00:00:00Z (3 min ago)");
        let ahead = at(5_000, 0);
        assert!(
            ahead.ends_with("(5 s ahead of this sidecar's clock)"),
            "{ahead}"
        );
    }

    #[test]
    fn a_long_list_ends_with_how_many_are_left() {
        let names: Vec<usize> = (0..NAMES_TOLD_MAX + 3).collect();
        assert_eq!(list(&names[..2]), "0, 1");
        assert!(
            list(&names).ends_with("31 … and 3 more"),
            "{}",
            list(&names)
        );
    }
}
