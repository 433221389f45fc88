//! What each setting may be. A reason completes the sentence "SETTING …".

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use http::Uri;
use tracing::level_filters::LevelFilter;
use tracing_subscriber::EnvFilter;

use super::{AdminSocket, LogFormat};
use crate::domain::retention::{RETENTION_MAX, RETENTION_MIN};

/// Most etcd members.
const ENDPOINTS_MAX: usize = 9;
/// Longest path of a socket, in bytes: what `sockaddr_un` takes, less its end and the suffix of a socket being made.
const SOCKET_PATH_BYTES_MAX: usize = 96;
/// Shortest and longest time of one call to etcd. Below the shortest, a commit to disk would look like a lost reply.
const ETCD_TIMEOUT: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(60));
/// Shortest and longest wait for etcd at the start.
const ETCD_WAIT: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(3600));
/// Shortest and longest time for calls under way at the stop.
const DRAIN_LIMIT: (Duration, Duration) = (Duration::ZERO, Duration::from_secs(3600));

pub(super) fn listen(text: &str) -> Result<SocketAddr, String> {
    let address: SocketAddr = text.parse().map_err(|_| {
        format!("is {text:?}; give an IP address and a port, such as 127.0.0.1:7411")
    })?;
    if !address.ip().is_loopback() {
        return Err(format!(
            "is {text:?}, which other machines may reach; there is no authentication yet, so only loopback \
             (127.0.0.1 or [::1]) is taken"
        ));
    }
    Ok(address)
}

pub(super) fn endpoints(text: &str) -> Result<Vec<String>, String> {
    let endpoints: Vec<String> = text.split(',').map(endpoint).collect::<Result<_, _>>()?;
    if endpoints.len() > ENDPOINTS_MAX {
        return Err(format!(
            "has {} addresses; the limit is {ENDPOINTS_MAX}",
            endpoints.len()
        ));
    }
    let encrypted = endpoints.iter().filter(|url| is_encrypted(url)).count();
    if encrypted != 0 && encrypted != endpoints.len() {
        return Err(
            "has addresses with https:// and with http://; either all calls to etcd are encrypted or none"
                .to_owned(),
        );
    }
    Ok(endpoints)
}

pub(super) fn is_encrypted(url: &str) -> bool {
    url.starts_with("https://")
}

fn endpoint(text: &str) -> Result<String, String> {
    const FORM: &str = "give http://host:port or https://host:port, several separated by commas";
    let text = text.trim();
    if text.is_empty() {
        return Err(format!("has an empty address; {FORM}"));
    }
    // Before anything is repeated in an error: it may hold a password.
    if text.contains('@') {
        return Err(
            "has a user name in an address; give it with --etcd-user, and the password in a file with --etcd-password-file"
                .to_owned(),
        );
    }
    let no_url = || format!("has {text:?}; {FORM}");
    let uri: Uri = text.parse().map_err(|_| no_url())?;
    let scheme = uri
        .scheme_str()
        .filter(|it| matches!(*it, "http" | "https"));
    let Some(scheme) = scheme.filter(|_| matches!(uri.path(), "" | "/") && uri.query().is_none())
    else {
        return Err(no_url());
    };
    match (uri.host(), uri.port_u16()) {
        (Some(host), Some(port)) if !host.is_empty() => Ok(format!("{scheme}://{host}:{port}")),
        (Some(host), None) if !host.is_empty() => Err(format!(
            "has {text:?} without a port; etcd listens on 2379 unless told otherwise"
        )),
        (Some(_) | None, Some(_) | None) => Err(no_url()),
    }
}

pub(super) fn etcd_timeout(text: &str) -> Result<Duration, String> {
    within(text, ETCD_TIMEOUT)
}

pub(super) fn etcd_wait(text: &str) -> Result<Duration, String> {
    within(text, ETCD_WAIT)
}

pub(super) fn drain_limit(text: &str) -> Result<Duration, String> {
    within(text, DRAIN_LIMIT)
}

pub(super) fn retention(text: &str) -> Result<Duration, String> {
    within(text, (RETENTION_MIN, RETENTION_MAX))
}

pub(super) fn no_shorter_than_retention(text: &str, least: Duration) -> Result<Duration, String> {
    let span = retention(text)?;
    if span < least {
        return Err(format!(
            "is {text:?}; it must not be shorter than --retention ({})",
            humantime::format_duration(least)
        ));
    }
    Ok(span)
}

pub(super) fn forget(text: &str, least: Duration) -> Result<Option<Duration>, String> {
    if text == "never" {
        return Ok(None);
    }
    no_shorter_than_retention(text, least).map(Some)
}

fn within(text: &str, (least, most): (Duration, Duration)) -> Result<Duration, String> {
    let text = text.trim();
    if !text.is_empty()
        && text
            .bytes()
            .all(|byte| byte.is_ascii_digit() || byte == b'.')
    {
        return Err(format!("is {text:?}; it needs a unit, such as 30s"));
    }
    let span = humantime::parse_duration(text)
        .map_err(|_| format!("is {text:?}; give a duration, such as 30s, 500ms or 1m"))?;
    if !(least..=most).contains(&span) {
        return Err(format!(
            "is {text:?}; it must be {} to {}",
            humantime::format_duration(least),
            humantime::format_duration(most)
        ));
    }
    Ok(span)
}

pub(super) fn admin_socket(text: &str) -> Result<AdminSocket, String> {
    match text {
        "" => Ok(AdminSocket::Default),
        "none" => Ok(AdminSocket::None),
        path if path.len() > SOCKET_PATH_BYTES_MAX => Err(format!(
            "is a path of {} bytes; a socket takes at most {SOCKET_PATH_BYTES_MAX}",
            path.len()
        )),
        path => Ok(AdminSocket::At(PathBuf::from(path))),
    }
}

pub(super) fn log_format(text: &str) -> Result<LogFormat, String> {
    match text {
        "text" => Ok(LogFormat::Text),
        "json" => Ok(LogFormat::Json),
        _ => Err(format!("is {text:?}; give text or json")),
    }
}

pub(super) fn log_level(text: &str) -> Result<String, String> {
    // A bare word is read as the name of a module if it is no level, and a slip of the pen would be silence.
    let known = |level: &str| level.trim().parse::<LevelFilter>().is_ok();
    let slip = |part: &str| match part.rsplit_once('=') {
        // The level of a module comes last; a span in brackets may hold further signs of equality.
        Some((_, level)) => !known(level) && !part.ends_with(']'),
        None => !known(part) || part.trim().is_empty(),
    };
    match EnvFilter::builder().parse(text) {
        Ok(_) if !text.split(',').any(slip) => Ok(text.to_owned()),
        Ok(_) | Err(_) => Err(format!(
            "is {text:?}; give error, warn, info, debug or trace, or directives such as fencepost=debug,info"
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_duration_needs_a_unit() {
        assert_eq!(etcd_wait("30s"), Ok(Duration::from_secs(30)));
        assert_eq!(etcd_wait(" 1m 30s "), Ok(Duration::from_secs(90)));
        assert_eq!(drain_limit("0s"), Ok(Duration::ZERO));
        for bare in ["30", "0", "1.5"] {
            assert!(
                etcd_wait(bare)
                    .unwrap_err()
                    .contains("needs a unit, such as 30s"),
                "{bare}"
            );
        }
        for bad in [
            "",
            "s",
            "-1s",
            "30 parsecs",
            "99999999999999999999s",
            "2h",
            "1ms",
        ] {
            assert!(etcd_wait(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn what_is_kept_for_the_sake_of_operations_is_kept_no_shorter() {
        let hour = Duration::from_secs(3600);
        assert_eq!(retention("1m"), Ok(Duration::from_secs(60)));
        for bad in ["59s", "0s", "96", "never", "20y"] {
            assert!(retention(bad).is_err(), "{bad}");
        }
        assert_eq!(forget("never", hour), Ok(None));
        assert_eq!(forget("1h", hour), Ok(Some(hour)));
        assert_eq!(no_shorter_than_retention("1h", hour), Ok(hour));
        for short in [
            forget("59m", hour).unwrap_err(),
            no_shorter_than_retention("59m", hour).unwrap_err(),
        ] {
            assert!(
                short.contains("not be shorter than --retention (1h)"),
                "{short}"
            );
        }
    }

    #[test]
    fn only_loopback_is_taken_and_the_reason_is_told() {
        assert!(listen("127.0.0.1:0").is_ok());
        assert!(listen("[::1]:7411").is_ok());
        for open in [
            "0.0.0.0:7411",
            "[::]:7411",
            "10.0.0.1:7411",
            "[::ffff:10.0.0.1]:1",
        ] {
            assert!(
                listen(open).unwrap_err().contains("no authentication"),
                "{open}"
            );
        }
        for bad in [
            "",
            "7411",
            ":7411",
            "localhost:7411",
            "127.0.0.1",
            "127.0.0.1:99999",
        ] {
            assert!(
                listen(bad).unwrap_err().contains("such as 127.0.0.1:7411"),
                "{bad}"
            );
        }
    }

    #[test]
    fn an_address_of_etcd_has_a_scheme_and_a_port() {
        assert_eq!(
            endpoints("http://a:2379, http://[::1]:1/"),
            Ok(vec![
                "http://a:2379".to_owned(),
                "http://[::1]:1".to_owned()
            ])
        );
        for (bad, why) in [
            ("", "empty"),
            ("http://a:1,", "empty"),
            ("a:2379", "give http://"),
            ("https://a:2379,http://b:2379", "either all"),
            ("http://a", "without a port"),
            ("http://a:1/x", "give http://"),
            ("unix:///x", "give http://"),
        ] {
            assert!(endpoints(bad).unwrap_err().contains(why), "{bad}");
        }
    }

    #[test]
    fn a_level_that_is_misspelled_is_told_instead_of_silencing_the_log() {
        for fine in ["info", "WARN", "off", "fencepost=debug,info", "h2=warn"] {
            assert!(log_level(fine).is_ok(), "{fine}");
        }
        for bad in [
            "",
            " ",
            "inof",
            "info,",
            "fencepost",
            "a=b",
            "debug,fencepots",
        ] {
            assert!(log_level(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn a_password_in_an_address_is_not_repeated() {
        let reason = endpoints("http://root:hunter2@a:2379").unwrap_err();
        assert!(!reason.contains("hunter2"), "{reason}");
    }
}
