//! How long a caller waits, as its headers say. Read here and not by the gRPC library, which answers CANCELLED and drops the
//! call.

use std::time::Duration;

use http::HeaderMap;
use http::header::HeaderValue;

use crate::engine::Fault;

use super::convert::refused;

/// How long a call may take if the caller does not say.
const DEADLINE_DEFAULT: Duration = Duration::from_secs(10);
/// How long a call may take at most.
const DEADLINE_MAX: Duration = Duration::from_secs(60);
/// Most digits of a `grpc-timeout`.
const GRPC_DIGITS_MAX: usize = 8;
/// Most digits of a `connect-timeout-ms`.
const CONNECT_DIGITS_MAX: usize = 10;

const GRPC_TIMEOUT: &str = "grpc-timeout";
const CONNECT_TIMEOUT: &str = "connect-timeout-ms";

/// As `grpc-timeout` says.
pub(super) fn of_grpc(headers: &HeaderMap) -> Result<Duration, Fault> {
    bounded(
        headers.get(GRPC_TIMEOUT),
        grpc_span,
        GRPC_TIMEOUT,
        "must be 1 to 8 digits and one of H M S m u n, such as 500m",
    )
}

/// As `connect-timeout-ms` says.
pub(super) fn of_connect(headers: &HeaderMap) -> Result<Duration, Fault> {
    bounded(
        headers.get(CONNECT_TIMEOUT),
        |text| digits(text, CONNECT_DIGITS_MAX).map(Duration::from_millis),
        CONNECT_TIMEOUT,
        "must be 1 to 10 digits, in milliseconds",
    )
}

fn bounded(
    header: Option<&HeaderValue>,
    parse: fn(&str) -> Option<Duration>,
    name: &str,
    expected: &str,
) -> Result<Duration, Fault> {
    let Some(value) = header else {
        return Ok(DEADLINE_DEFAULT);
    };
    let span = value.to_str().ok().and_then(parse);
    span.map(|span| span.min(DEADLINE_MAX))
        .ok_or_else(|| refused(format!("header {name}"), expected))
}

fn grpc_span(text: &str) -> Option<Duration> {
    let (number, unit) = text.split_at_checked(text.len().checked_sub(1)?)?;
    let number = digits(number, GRPC_DIGITS_MAX)?;
    match unit {
        "H" => Some(Duration::from_secs(number * 3600)),
        "M" => Some(Duration::from_secs(number * 60)),
        "S" => Some(Duration::from_secs(number)),
        "m" => Some(Duration::from_millis(number)),
        "u" => Some(Duration::from_micros(number)),
        "n" => Some(Duration::from_nanos(number)),
        _ => None,
    }
}

fn digits(text: &str, most: usize) -> Option<u64> {
    let plain = (1..=most).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_digit());
    plain.then(|| text.parse().ok()).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn grpc(text: &'static str) -> Option<Duration> {
        let headers = HeaderMap::from_iter([(
            http::HeaderName::from_static(GRPC_TIMEOUT),
            HeaderValue::from_bytes(text.as_bytes()).unwrap(),
        )]);
        of_grpc(&headers).ok()
    }

    #[test]
    fn a_call_without_a_deadline_gets_ten_seconds() {
        assert_eq!(of_grpc(&HeaderMap::new()), Ok(Duration::from_secs(10)));
        assert_eq!(of_connect(&HeaderMap::new()), Ok(Duration::from_secs(10)));
    }

    #[test]
    fn every_unit_is_read_and_a_minute_is_the_most() {
        assert_eq!(grpc("500m"), Some(Duration::from_millis(500)));
        assert_eq!(grpc("7u"), Some(Duration::from_micros(7)));
        assert_eq!(grpc("7n"), Some(Duration::from_nanos(7)));
        assert_eq!(grpc("0S"), Some(Duration::ZERO));
        assert_eq!(grpc("1M"), Some(Duration::from_secs(60)));
        assert_eq!(grpc("99999999H"), Some(Duration::from_secs(60)));
    }

    #[test]
    fn what_is_no_timeout_is_refused() {
        for text in ["", "S", "1", "1s", "-1S", "+1S", "123456789S", "1 S", "1é"] {
            assert_eq!(grpc(text), None, "{text:?}");
        }
        for text in ["", "1s", "-1", "+1", "12345678901"] {
            assert_eq!(digits(text, CONNECT_DIGITS_MAX), None, "{text:?}");
        }
    }
}
