//! Variables that look like ours and are not: a slip of the pen that would otherwise be silence.

use std::collections::BTreeMap;
use std::ffi::OsString;

use super::setting::VARIABLES;

/// What the client commands read.
const CLIENT_VARIABLES: &[&str] = &[
    "FENCEPOST_ABOVE",
    "FENCEPOST_ADDR",
    "FENCEPOST_AFTER_REVISION",
    "FENCEPOST_ALSO",
    "FENCEPOST_ATTEMPT",
    "FENCEPOST_BUSY_CODE",
    "FENCEPOST_BY",
    "FENCEPOST_DEMO_ADDR",
    "FENCEPOST_DEMO_ADMIN_SOCKET",
    "FENCEPOST_DIGEST",
    "FENCEPOST_DONE",
    "FENCEPOST_DONE_CODE",
    "FENCEPOST_EVENT",
    "FENCEPOST_EVEN_IF_ENDED",
    "FENCEPOST_EVEN_IF_RUNNING",
    "FENCEPOST_EXCLUDE",
    "FENCEPOST_FORCE",
    "FENCEPOST_FORMAT",
    "FENCEPOST_FROM",
    "FENCEPOST_GRACE",
    "FENCEPOST_HOLDER",
    "FENCEPOST_IDENTITY",
    "FENCEPOST_INCLUDE",
    "FENCEPOST_INITIAL",
    "FENCEPOST_JSON",
    "FENCEPOST_KIND",
    "FENCEPOST_NOTHING_DONE",
    "FENCEPOST_NOT_DONE",
    "FENCEPOST_ONCE",
    "FENCEPOST_ONCE_KEY",
    "FENCEPOST_ON_FAILURE",
    "FENCEPOST_OPEN",
    "FENCEPOST_OPERATION",
    "FENCEPOST_OPERATION_TIME",
    "FENCEPOST_OUTCOME_EVENT",
    "FENCEPOST_OUTPUT",
    "FENCEPOST_RAW",
    "FENCEPOST_REASON",
    "FENCEPOST_REFUSED",
    "FENCEPOST_RELEASE",
    "FENCEPOST_RELEASE_ON_CLOSE",
    "FENCEPOST_REQUEST_ID",
    "FENCEPOST_RERUN_IF_INTERRUPTED",
    "FENCEPOST_RESERVATION",
    "FENCEPOST_RESULT",
    "FENCEPOST_RESULT_CODE",
    "FENCEPOST_RESULT_HEADER",
    "FENCEPOST_RESULT_TYPE",
    "FENCEPOST_SET",
    "FENCEPOST_STAY",
    "FENCEPOST_TIMELINE_ID",
    "FENCEPOST_TIMEOUT",
    "FENCEPOST_TO",
    "FENCEPOST_TTL",
    "FENCEPOST_VALIDATE_ONLY",
    "FENCEPOST_VERBOSE",
    "FENCEPOST_WAIT",
];
/// What `exec` tells the command that it runs. No flag reads them.
const TOLD_BY_EXEC: [&str; 5] = [
    "FENCEPOST_HELD_ATTEMPT",
    "FENCEPOST_HELD_ID",
    "FENCEPOST_HELD_KIND",
    "FENCEPOST_HELD_RESERVATION",
    "FENCEPOST_HELD_TOKEN",
];
/// How all our variables begin.
const PREFIX: &str = "FENCEPOST_";
/// A name further than this from a known one is no slip of the pen, in letters,
const SLIP_LETTERS_MAX: usize = 4;
/// nor is one that differs in more than this part of what follows the prefix.
const SLIP_PART: usize = 2;

/// A warning for each variable that begins like ours and that nothing reads. Those that Kubernetes sets for a service named
/// `fencepost` are not ours and are passed over.
pub fn unknown(environment: &BTreeMap<OsString, OsString>) -> Vec<String> {
    environment
        .iter()
        .filter_map(|(name, value)| Some((name.to_str()?, value.to_str().unwrap_or_default())))
        .filter(|(name, _)| name.starts_with(PREFIX))
        .filter(|(name, _)| !known().chain(told_by_exec()).any(|known| known == *name))
        .filter(|(name, value)| !is_service_link(name, value))
        .map(|(name, _)| match nearest(name) {
            Some(near) => format!("{name} is not read by anything; did you mean {near}?"),
            None => format!("{name} is not read by anything"),
        })
        .collect()
}

/// What `exec` tells the command that it runs.
pub fn told_by_exec() -> impl Iterator<Item = &'static str> {
    TOLD_BY_EXEC.iter().copied()
}

/// Beside what is told by `exec`, which is of no use to set and so is never what a slip of the pen meant.
fn known() -> impl Iterator<Item = &'static str> {
    VARIABLES.iter().chain(CLIENT_VARIABLES).copied()
}

/// `FENCEPOST_PORT=tcp://10.0.0.1:80` and its companions, also of a service such as `fencepost-dev`.
fn is_service_link(name: &str, value: &str) -> bool {
    let ends = |suffix: &str| name.ends_with(suffix);
    if ends("_PORT") && value.contains("://") || ends("_SERVICE_HOST") {
        return true;
    }
    if ends("_SERVICE_PORT") || name.contains("_SERVICE_PORT_") {
        return true;
    }
    // FENCEPOST_PORT_7411_TCP, …_TCP_PROTO, …_TCP_PORT, …_TCP_ADDR
    name.split_once("_PORT_").is_some_and(|(_, rest)| {
        let (number, rest) = rest.split_once('_').unwrap_or((rest, ""));
        let protocol = rest.split('_').next().unwrap_or_default();
        !number.is_empty()
            && number.bytes().all(|byte| byte.is_ascii_digit())
            && matches!(protocol, "TCP" | "UDP" | "SCTP")
    })
}

fn nearest(name: &str) -> Option<&'static str> {
    let most = (name.len() - PREFIX.len()) / SLIP_PART;
    known()
        .map(|known| (distance(name, known), known))
        .filter(|(distance, _)| *distance <= most.min(SLIP_LETTERS_MAX))
        .min()
        .map(|(_, known)| known)
}

/// How many letters must be put in, taken out or replaced to make one of the other.
fn distance(one: &str, other: &str) -> usize {
    let mut row: Vec<usize> = (0..=other.len()).collect();
    for (taken, letter) in one.bytes().enumerate() {
        let mut diagonal = taken;
        let mut left = taken + 1;
        for (cell, against) in row.iter_mut().skip(1).zip(other.bytes()) {
            let replaced = diagonal + usize::from(letter != against);
            diagonal = *cell;
            left = replaced.min(left + 1).min(*cell + 1);
            *cell = left;
        }
        if let Some(first) = row.first_mut() {
            *first = taken + 1;
        }
    }
    row.last().copied().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn warnings(name: &str, value: &str) -> Vec<String> {
        unknown(&BTreeMap::from([(name.into(), value.into())]))
    }

    #[test]
    fn a_slip_of_the_pen_is_told_with_the_nearest_name() {
        assert_eq!(
            warnings("FENCEPOST_ETCD_ENDPOINT", "x"),
            [
                "FENCEPOST_ETCD_ENDPOINT is not read by anything; did you mean FENCEPOST_ETCD_ENDPOINTS?"
            ]
        );
        assert_eq!(
            warnings("FENCEPOST_XYZZY_PLUGH", ""),
            ["FENCEPOST_XYZZY_PLUGH is not read by anything"]
        );
        // Somebody who means the port, not Kubernetes. Nothing that is read is near enough to be meant.
        assert_eq!(
            warnings("FENCEPOST_PORT", "7411"),
            ["FENCEPOST_PORT is not read by anything"]
        );
        for fine in ["FENCEPOST_LISTEN", "FENCEPOST_ADDR", "PATH", "FENCE"] {
            assert!(warnings(fine, "").is_empty(), "{fine}");
        }
    }

    #[test]
    fn what_kubernetes_sets_for_a_service_of_our_name_is_passed_over() {
        for (name, value) in [
            ("FENCEPOST_PORT", "tcp://10.0.0.1:7411"),
            ("FENCEPOST_SERVICE_HOST", "10.0.0.1"),
            ("FENCEPOST_SERVICE_PORT", "7411"),
            ("FENCEPOST_SERVICE_PORT_GRPC", "7411"),
            ("FENCEPOST_PORT_7411_TCP", "tcp://10.0.0.1:7411"),
            ("FENCEPOST_PORT_7411_TCP_PROTO", "tcp"),
            ("FENCEPOST_PORT_7411_TCP_PORT", "7411"),
            ("FENCEPOST_PORT_7411_TCP_ADDR", "10.0.0.1"),
            ("FENCEPOST_DEV_PORT_53_UDP_ADDR", "10.0.0.1"),
            ("FENCEPOST_DEV_SERVICE_HOST", "10.0.0.1"),
        ] {
            assert!(warnings(name, value).is_empty(), "{name}");
        }
    }

    #[test]
    fn distance_counts_letters() {
        for (one, other, letters) in [
            ("", "ab", 2),
            ("ab", "", 2),
            ("kitten", "sitting", 3),
            ("a", "a", 0),
        ] {
            assert_eq!(distance(one, other), letters, "{one} {other}");
        }
    }
}
