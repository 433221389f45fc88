//! Points in time as RFC 3339 and proto3 JSON write them, strictly: the library's reader also takes dates without a time, times
//! without an offset and spaces, and cuts off digits that do not fit.

use prost_types::Timestamp;

/// Most digits of a part of a second.
const NANOS_DIGITS_MAX: usize = 9;
/// The largest hour and minute of an offset from UTC.
const OFFSET_HOURS_MAX: u8 = 23;
const OFFSET_MINUTES_MAX: u8 = 59;
/// What proto3 JSON can tell: the years 1 to 9999, in seconds since 1970.
const SECONDS_MIN: i64 = -62_135_596_800;
const SECONDS_MAX: i64 = 253_402_300_799;

/// Reads a time such as `2026-01-31T12:00:00.5+01:00`. `None`: it is none.
pub fn timestamp(text: &str) -> Option<Timestamp> {
    is_written_so(text).then_some(())?;
    // That there is such a day and such an hour is for the library to say.
    let read: Timestamp = text.parse().ok()?;
    (SECONDS_MIN..=SECONDS_MAX)
        .contains(&read.seconds)
        .then_some(read)
}

fn is_written_so(text: &str) -> bool {
    const FORM: &[u8] = b"dddd-dd-ddTdd:dd:dd";
    let Some((front, rest)) = text.as_bytes().split_at_checked(FORM.len()) else {
        return false;
    };
    let mut pairs = front.iter().zip(FORM);
    let fits = |(byte, form): (&u8, &u8)| match form {
        b'd' => byte.is_ascii_digit(),
        sign => byte == sign,
    };
    if !pairs.all(fits) {
        return false;
    }
    let offset = match rest {
        [b'.', part @ ..] => {
            let digits = part.iter().take_while(|byte| byte.is_ascii_digit()).count();
            if !(1..=NANOS_DIGITS_MAX).contains(&digits) {
                return false;
            }
            part.get(digits..).unwrap_or_default()
        }
        whole => whole,
    };
    match offset {
        [b'Z'] => true,
        [b'+' | b'-', h1, h2, b':', m1, m2] => {
            let number = |tens: &u8, ones: &u8| {
                let digit = |byte: &u8| byte.is_ascii_digit().then(|| byte - b'0');
                Some(digit(tens)? * 10 + digit(ones)?)
            };
            number(h1, h2).is_some_and(|hours| hours <= OFFSET_HOURS_MAX)
                && number(m1, m2).is_some_and(|minutes| minutes <= OFFSET_MINUTES_MAX)
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_read_to_the_nanosecond_wherever_it_was_taken() {
        let noon = 1_769_860_800;
        for (text, seconds, nanos) in [
            ("2026-01-31T12:00:00Z", noon, 0),
            ("2026-01-31T12:00:00.5Z", noon, 500_000_000),
            ("2026-01-31T12:00:00.123456789Z", noon, 123_456_789),
            ("2026-01-31T13:30:00+01:30", noon, 0),
            ("2026-01-31T12:00:00-00:00", noon, 0),
            ("1970-01-01T00:00:00Z", 0, 0),
            ("2024-02-29T00:00:00Z", 1_709_164_800, 0),
            ("0001-01-01T00:00:00Z", SECONDS_MIN, 0),
            ("9999-12-31T23:59:59Z", SECONDS_MAX, 0),
        ] {
            assert_eq!(
                timestamp(text),
                Some(Timestamp { seconds, nanos }),
                "{text}"
            );
        }
    }

    #[test]
    fn what_is_nearly_a_time_is_none() {
        for text in [
            "",
            "2026-01-31",
            "2026-01-31T12:00Z",
            "2026-01-31T12:00:00",
            "2026-01-31 12:00:00Z",
            "2026-01-31t12:00:00Z",
            "2026-01-31T12:00:00z",
            "2026-01-31T12:00:00 Z",
            "2026-01-31T12:00:00Z ",
            " 2026-01-31T12:00:00Z",
            "2026-01-31T12:00:00.Z",
            "2026-01-31T12:00:00,5Z",
            "2026-01-31T12:00:00.1234567891Z",
            "2026-01-31T12:00:00.0000000000Z",
            "2026-01-31T12:00:00+0100",
            "2026-01-31T12:00:00+01",
            "2026-01-31T12:00:00+24:00",
            "2026-01-31T12:00:00+01:60",
            "2026-01-31T24:00:00Z",
            "2026-01-31T12:60:00Z",
            "2026-01-31T12:00:61Z",
            "2026-02-29T12:00:00Z",
            "2026-13-01T12:00:00Z",
            "2026-00-10T12:00:00Z",
            "2026-01-00T12:00:00Z",
            "0000-12-31T23:59:59Z",
            "0001-01-01T00:00:00+00:01",
            "9999-12-31T23:59:59-00:01",
            "12026-01-31T12:00:00Z",
            "+2026-01-31T12:00:00Z",
            "20٢6-01-31T12:00:00Z",
            "1769860800",
        ] {
            assert_eq!(timestamp(text), None, "{text}");
        }
    }
}
