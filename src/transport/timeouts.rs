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

/// How long a caller waits, as far as it says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Said(Option<Duration>);

impl Said {
    /// A caller that says so.
    #[cfg(test)]
    pub(super) fn within(span: Duration) -> Self {
        Self(Some(span))
    }

    /// How long a call may take.
    pub(super) fn span(self) -> Duration {
        self.span_with(Duration::ZERO)
    }

    /// How long a stream may stay open: as long as its caller says, and if it does not, for ever.
    pub(super) fn span_of_stream(self) -> Option<Duration> {
        self.0
    }

    /// How long a call may take that asks for a wait.
    pub(super) fn span_with(self, wait: Duration) -> Duration {
        let span = self.0.unwrap_or(DEADLINE_DEFAULT + wait);
        span.min(DEADLINE_MAX + wait)
    }
}

/// As `grpc-timeout` says.
pub(super) fn of_grpc(headers: &HeaderMap) -> Result<Said, Fault> {
    bounded(
        headers.get(GRPC_TIMEOUT),
        grpc_span,
        GRPC_TIMEOUT,
        "must be 1 to 8 digits and one of H M S m u n, such as 500m",
    )
}

/// As `connect-timeout-ms` says.
pub(super) fn of_connect(headers: &HeaderMap) -> Result<Said, Fault> {
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
) -> Result<Said, Fault> {
    let Some(value) = header else {
        return Ok(Said(None));
    };
    let span = value.to_str().ok().and_then(parse);
    span.map(|span| Said(Some(span)))
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
        of_grpc(&headers).ok().map(Said::span)
    }

    #[test]
    fn a_call_without_a_deadline_gets_ten_seconds() {
        for said in [of_grpc(&HeaderMap::new()), of_connect(&HeaderMap::new())] {
            assert_eq!(said.unwrap().span(), Duration::from_secs(10));
        }
    }

    #[test]
    fn a_wait_comes_on_top_of_what_a_call_may_take_but_not_of_what_its_caller_says() {
        let (second, minute) = (Duration::from_secs(1), Duration::from_secs(60));
        assert_eq!(Said(None).span_with(minute), Duration::from_secs(70));
        assert_eq!(Said(Some(second)).span_with(minute), second);
        assert_eq!(Said(Some(10 * minute)).span_with(minute), 2 * minute);
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
