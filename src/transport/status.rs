//! What has no answer, in the words of the wire: one table.

use std::collections::HashMap;
use std::time::Duration;

use tonic::{Code, Status};
use tonic_types::{ErrorDetails, StatusExt as _};

use crate::engine::{Fault, HowFar};

/// Who defines the reasons.
const DOMAIN: &str = "fencepost.dev";
/// When to ask again while everything is halted: a person has to come first.
const HALTED_RETRY: Duration = Duration::from_secs(30);
/// Longest message and longest text within the details, in bytes. Both travel in headers, of which clients take 8 KiB.
const TEXT_BYTES_MAX: usize = 1024;

/// When to open a stream again whose sidecar has stopped.
const STREAM_RETRY: Duration = Duration::from_secs(1);

/// The table. A new fault does not compile until it has a code and a reason.
fn code_and_reason(fault: &Fault) -> (Code, &'static str) {
    match fault {
        Fault::InvalidField { .. } => (Code::InvalidArgument, "INVALID_FIELD"),
        Fault::UnknownKind { .. } => (Code::NotFound, "UNKNOWN_KIND"),
        Fault::UnknownEvent { .. } => (Code::NotFound, "UNKNOWN_EVENT"),
        Fault::NoSuchMachine { .. } => (Code::NotFound, "NO_SUCH_MACHINE"),
        Fault::MachineMismatch { .. } => (Code::FailedPrecondition, "MACHINE_MISMATCH"),
        Fault::MachineChanged { .. } => (Code::Unavailable, "MACHINE_CHANGED"),
        Fault::LimitMet { .. } => (Code::ResourceExhausted, "LIMIT_MET"),
        Fault::NoSuchIncident => (Code::NotFound, "UNKNOWN_INCIDENT"),
        Fault::Overloaded { .. } => (Code::ResourceExhausted, "OVERLOADED"),
        Fault::RenewalsLate { .. } => (Code::ResourceExhausted, "RENEWALS_LATE"),
        Fault::StoreUnavailable { .. } => (Code::Unavailable, "STORE_UNAVAILABLE"),
        // Not FAILED_PRECONDITION: the caller need not change anything, it may ask again as it is.
        Fault::Halted { .. } => (Code::Unavailable, "HALTED"),
        Fault::TimelineSuperseded => (Code::Aborted, "TIMELINE_SUPERSEDED"),
        Fault::StoreFull { .. }
        | Fault::StartNeedsSpace {
            how_far: HowFar::Nothing,
            ..
        } => (Code::ResourceExhausted, "STORE_FULL"),
        // What was begun halts everything; another start makes it good.
        Fault::StartNeedsSpace {
            how_far: HowFar::Begun,
            ..
        } => (Code::Aborted, "STORE_FULL"),
        Fault::StoreDenied { .. } => (Code::Unavailable, "STORE_DENIED"),
        Fault::Stopping { .. } => (Code::Unavailable, "STOPPING"),
        Fault::DeadlinePassed => (Code::DeadlineExceeded, "DEADLINE_PASSED"),
        Fault::UnknownOutcome { .. } | Fault::AnswerUnkept { .. } => {
            (Code::Aborted, "UNKNOWN_OUTCOME")
        }
        Fault::CorruptRecord => (Code::DataLoss, "CORRUPT_RECORD"),
    }
}

fn retry_after(fault: &Fault) -> Option<Duration> {
    match fault {
        Fault::Overloaded { retry_after, .. }
        | Fault::AnswerUnkept { retry_after, .. }
        | Fault::RenewalsLate { retry_after }
        | Fault::MachineChanged { retry_after }
        | Fault::StoreUnavailable { retry_after }
        | Fault::StoreFull { retry_after }
        | Fault::StartNeedsSpace { retry_after, .. }
        | Fault::StoreDenied { retry_after }
        | Fault::Stopping { retry_after }
        | Fault::UnknownOutcome { retry_after } => Some(*retry_after),
        Fault::Halted { .. } => Some(HALTED_RETRY),
        Fault::InvalidField { .. }
        | Fault::UnknownKind { .. }
        | Fault::UnknownEvent { .. }
        | Fault::NoSuchMachine { .. }
        | Fault::MachineMismatch { .. }
        | Fault::LimitMet { .. }
        | Fault::NoSuchIncident
        | Fault::TimelineSuperseded
        | Fault::DeadlinePassed
        | Fault::CorruptRecord => None,
    }
}

/// The status of a fault, with its reason as `google.rpc.ErrorInfo`.
pub(super) fn of(fault: &Fault) -> Status {
    let (code, reason) = code_and_reason(fault);
    let mut details = ErrorDetails::new();
    details.set_error_info(reason, DOMAIN, HashMap::new());
    if let Some(after) = retry_after(fault) {
        details.set_retry_info(Some(after));
    }
    if let Fault::InvalidField { field, reason } = fault {
        details.add_bad_request_violation(clipped(field), clipped(reason));
    }
    Status::with_error_details(code, clipped(&fault.to_string()), details)
}

/// A stream ended because the sidecar stops.
pub(super) fn stream_stopped() -> Status {
    let mut details = ErrorDetails::new();
    details.set_error_info("STOPPING", DOMAIN, HashMap::new());
    details.set_retry_info(Some(STREAM_RETRY));
    let text = "this sidecar is stopping; open the stream anew at another one, or at the next";
    Status::with_error_details(Code::Unavailable, text, details)
}

/// A stream ended because its caller said so when it was opened.
pub(super) fn stream_deadline() -> Status {
    let mut details = ErrorDetails::new();
    details.set_error_info("DEADLINE_PASSED", DOMAIN, HashMap::new());
    let text = "the deadline of the stream passed; open it without one, or anew";
    Status::with_error_details(Code::DeadlineExceeded, text, details)
}

fn clipped(text: &str) -> String {
    if text.len() <= TEXT_BYTES_MAX {
        return text.to_owned();
    }
    let start = (0..=TEXT_BYTES_MAX).rev().find_map(|end| text.get(..end));
    format!("{}…", start.unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::machine::MachineVersion;
    use crate::domain::timeline::Halt;

    const SOON: Duration = Duration::from_millis(250);

    #[test]
    fn every_fault_has_the_code_that_the_interface_promises() {
        let table = [
            (
                Fault::LimitMet {
                    what: "x",
                    limit: 1,
                },
                Code::ResourceExhausted,
                "LIMIT_MET",
            ),
            (
                Fault::UnknownKind {
                    kind: "order".to_owned(),
                },
                Code::NotFound,
                "UNKNOWN_KIND",
            ),
            (
                Fault::NoSuchMachine {
                    what: "there is none".to_owned(),
                },
                Code::NotFound,
                "NO_SUCH_MACHINE",
            ),
            (
                Fault::UnknownEvent {
                    kind: "order".to_owned(),
                    event: "pay".to_owned(),
                    version: MachineVersion::new(1).unwrap(),
                },
                Code::NotFound,
                "UNKNOWN_EVENT",
            ),
            (
                Fault::MachineMismatch {
                    reason: "older".to_owned(),
                },
                Code::FailedPrecondition,
                "MACHINE_MISMATCH",
            ),
            (
                Fault::MachineChanged { retry_after: SOON },
                Code::Unavailable,
                "MACHINE_CHANGED",
            ),
            (
                Fault::Overloaded {
                    what: "x",
                    limit: 1,
                    retry_after: SOON,
                },
                Code::ResourceExhausted,
                "OVERLOADED",
            ),
            (
                Fault::RenewalsLate { retry_after: SOON },
                Code::ResourceExhausted,
                "RENEWALS_LATE",
            ),
            (
                Fault::StoreUnavailable { retry_after: SOON },
                Code::Unavailable,
                "STORE_UNAVAILABLE",
            ),
            (
                Fault::StoreFull { retry_after: SOON },
                Code::ResourceExhausted,
                "STORE_FULL",
            ),
            (
                Fault::StartNeedsSpace {
                    how_far: HowFar::Nothing,
                    retry_after: SOON,
                },
                Code::ResourceExhausted,
                "STORE_FULL",
            ),
            (
                Fault::StartNeedsSpace {
                    how_far: HowFar::Begun,
                    retry_after: SOON,
                },
                Code::Aborted,
                "STORE_FULL",
            ),
            (
                Fault::StoreDenied { retry_after: SOON },
                Code::Unavailable,
                "STORE_DENIED",
            ),
            (
                Fault::Stopping { retry_after: SOON },
                Code::Unavailable,
                "STOPPING",
            ),
            (
                Fault::Halted {
                    halt: Halt::OtherCluster { time_ms: 1 },
                },
                Code::Unavailable,
                "HALTED",
            ),
            (
                Fault::TimelineSuperseded,
                Code::Aborted,
                "TIMELINE_SUPERSEDED",
            ),
            (
                Fault::DeadlinePassed,
                Code::DeadlineExceeded,
                "DEADLINE_PASSED",
            ),
            (
                Fault::UnknownOutcome { retry_after: SOON },
                Code::Aborted,
                "UNKNOWN_OUTCOME",
            ),
            (
                Fault::AnswerUnkept {
                    limit: 1,
                    retry_after: SOON,
                },
                Code::Aborted,
                "UNKNOWN_OUTCOME",
            ),
            (Fault::CorruptRecord, Code::DataLoss, "CORRUPT_RECORD"),
            (Fault::NoSuchIncident, Code::NotFound, "UNKNOWN_INCIDENT"),
        ];
        for (fault, code, reason) in table {
            let status = of(&fault);
            let details = status.get_error_details();
            let info = details.error_info().unwrap();
            assert_eq!((status.code(), info.reason.as_str()), (code, reason));
            assert_eq!(info.domain, "fencepost.dev");
            let retry = details.retry_info().and_then(|info| info.retry_delay);
            assert_eq!(retry, retry_after(&fault), "{reason}");
        }
    }

    #[test]
    fn an_invalid_field_is_named_and_stays_below_the_limit_of_headers() {
        let status = of(&Fault::InvalidField {
            field: "é".repeat(100_000),
            reason: "x".repeat(100_000),
        });
        assert!(status.details().len() < 4096, "{}", status.details().len());
        assert!(status.message().len() <= TEXT_BYTES_MAX + "…".len());
        let status = of(&Fault::InvalidField {
            field: "ttl".to_owned(),
            reason: "is 500ms; the least is 3s".to_owned(),
        });
        assert_eq!(status.message(), "ttl is 500ms; the least is 3s");
        let details = status.get_error_details();
        let violation = details
            .bad_request()
            .unwrap()
            .field_violations
            .first()
            .unwrap()
            .clone();
        assert_eq!(violation.field, "ttl");
    }
}
