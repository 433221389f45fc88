//! Durations from and to the wire, where seconds and nanos are signed and need not agree.

use std::time::Duration;

use prost_types::{Duration as Wire, Timestamp};

use super::refused;
use crate::domain::invalid::Invalid;
use crate::engine::Fault;

/// Nanoseconds in a second.
const NANOS_PER_SECOND: u32 = 1_000_000_000;
/// Shortest `retry_after`: a zero would read as "at once".
const RETRY_AFTER_MIN: Duration = Duration::from_millis(1);

/// Reads a duration that must not be negative.
pub(super) fn from_wire(span: Wire) -> Result<Duration, Invalid> {
    let signs_differ = (span.seconds > 0 && span.nanos < 0) || (span.seconds < 0 && span.nanos > 0);
    if signs_differ {
        return Err(Invalid::new(
            "has seconds and nanos of different signs, which is no duration",
        ));
    }
    let (Ok(seconds), Ok(nanos)) = (u64::try_from(span.seconds), u32::try_from(span.nanos)) else {
        return Err(Invalid::new("is negative"));
    };
    if nanos >= NANOS_PER_SECOND {
        return Err(Invalid::new(format!(
            "has {nanos} nanos; a duration has at most 999999999"
        )));
    }
    Ok(Duration::new(seconds, nanos))
}

/// Writes a duration; one beyond the wire's range becomes the longest that fits.
pub(super) fn to_wire(span: Duration) -> Wire {
    Wire {
        seconds: i64::try_from(span.as_secs()).unwrap_or(i64::MAX),
        nanos: i32::try_from(span.subsec_nanos()).unwrap_or(0),
    }
}

/// Writes when to ask again.
pub(super) fn retry_to_wire(after: Duration) -> Wire {
    to_wire(after.max(RETRY_AFTER_MIN))
}

/// Reads a point in time, in milliseconds since 1970.
pub(super) fn moment(field: &str, moment: Option<Timestamp>) -> Result<Option<u64>, Fault> {
    let Some(moment) = moment else {
        return Ok(None);
    };
    let (Ok(seconds), Ok(nanos)) = (u64::try_from(moment.seconds), u32::try_from(moment.nanos))
    else {
        return Err(refused(field, "lies before 1970"));
    };
    if nanos >= NANOS_PER_SECOND {
        let why = format!("has {nanos} nanos; a timestamp has at most 999999999");
        return Err(refused(field, why));
    }
    let milliseconds = seconds.saturating_mul(1000);
    Ok(Some(
        milliseconds.saturating_add((nanos / 1_000_000).into()),
    ))
}

/// Writes a point in time.
pub(super) fn timestamp(unix_ms: u64) -> Timestamp {
    let nanos = u32::try_from(unix_ms % 1000).unwrap_or(0) * 1_000_000;
    Timestamp {
        seconds: i64::try_from(unix_ms / 1000).unwrap_or(i64::MAX),
        nanos: i32::try_from(nanos).unwrap_or(0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(seconds: i64, nanos: i32) -> Result<Duration, String> {
        from_wire(Wire { seconds, nanos }).map_err(|invalid| invalid.to_string())
    }

    #[test]
    fn no_pair_of_seconds_and_nanos_panics_or_changes_its_sign() {
        for (seconds, nanos) in [
            (0, -1),
            (i64::MIN, 0),
            (i64::MIN, -1),
            (-1, 0),
            (-1, i32::MIN),
        ] {
            assert_eq!(read(seconds, nanos), Err("is negative".to_owned()));
        }
        for (seconds, nanos) in [(1, -1), (-1, 1), (i64::MAX, i32::MIN), (i64::MIN, i32::MAX)] {
            assert!(
                read(seconds, nanos)
                    .unwrap_err()
                    .contains("different signs")
            );
        }
        for nanos in [1_000_000_000, i32::MAX] {
            assert!(read(0, nanos).unwrap_err().contains("at most 999999999"));
        }
        assert_eq!(
            read(i64::MAX, 999_999_999),
            Ok(Duration::new(9_223_372_036_854_775_807, 999_999_999))
        );
    }

    #[test]
    fn a_point_in_time_is_read_to_the_millisecond_and_none_is_turned_round() {
        let read = |seconds, nanos| moment("t", Some(Timestamp { seconds, nanos }));
        assert_eq!(moment("t", None), Ok(None));
        assert_eq!(read(1, 999_999_999), Ok(Some(1_999)));
        assert_eq!(read(i64::MAX, 0), Ok(Some(u64::MAX)));
        for (seconds, nanos) in [(-1, 0), (0, -1), (i64::MIN, i32::MIN), (0, 1_000_000_000)] {
            assert!(read(seconds, nanos).is_err(), "{seconds} {nanos}");
        }
    }

    #[test]
    fn a_span_out_of_the_wires_range_is_written_as_the_longest() {
        assert_eq!(to_wire(Duration::MAX).seconds, i64::MAX);
        assert_eq!(retry_to_wire(Duration::ZERO).nanos, 1_000_000);
        assert_eq!(
            timestamp(1_500),
            Timestamp {
                seconds: 1,
                nanos: 500_000_000
            }
        );
    }
}
