//! What a failed call to etcd means: one table.
//!
//! A definite "no" is one that etcd gives before it proposes the write, or in place of applying it. Whatever is not
//! known to be definite is unknown: a server that stops waiting does not withdraw what it proposed. A write for which there was
//! no space lies between: it may have been applied, but it is over, so a read tells.

use std::error::Error as _;

use etcd_client::Error;
use tonic::{Code, ConnectError, Status};

use super::error::{NotApplied, StoreError};

/// What a failed call means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Meaning {
    /// The request never left, or the member certainly cannot take any. Another member may.
    TryAnother,
    /// etcd said no; nothing was changed.
    No(NotApplied),
    /// It may have been done, or may still be done, and the member is to be avoided for a while.
    Unknown,
    /// etcd has no space left. It was applied, or never will be; any member would say so.
    Full,
    /// etcd wants to know who asks, or does not know the token; nothing was done.
    WhoAsks,
    /// Rights were changed while the request was on its way; nothing was done.
    RightsMoved,
}

impl Meaning {
    /// Whether etcd would answer somebody whose token it knows, and who asks under the rights of now. Nothing was done, and nothing
    /// is wrong with the member.
    pub(super) fn is_about_who_asks(self) -> bool {
        match self {
            Self::WhoAsks | Self::RightsMoved => true,
            Self::TryAnother | Self::No(_) | Self::Unknown | Self::Full => false,
        }
    }
}

pub(super) fn meaning_of(error: &Error) -> Meaning {
    match error {
        Error::GRpcStatus(status) => meaning_of_status(status),
        // Raised by the client before it sends.
        Error::InvalidArgs(_) | Error::InvalidUri(_) | Error::InvalidMetadataValue(_) => {
            Meaning::No(NotApplied::Refused)
        }
        Error::EndpointError(_) | Error::EndpointsNotManaged => Meaning::TryAnother,
        Error::IoError(_)
        | Error::TransportError(_)
        | Error::WatchError(_)
        | Error::Utf8Error(_)
        | Error::LeaseKeepAliveError(_)
        | Error::ElectError(_)
        | Error::Internal(_) => Meaning::Unknown,
    }
}

/// Texts by which a definite answer is known, and what it means. etcd's texts are part of its interface: its own client
/// finds its errors by them.
const DEFINITE: [(&str, Meaning); 17] = [
    (
        "etcdserver: too many requests",
        Meaning::No(NotApplied::Overloaded),
    ),
    ("etcdserver: no leader", Meaning::TryAnother),
    (
        "etcdserver: rpc not supported for learner",
        Meaning::TryAnother,
    ),
    (
        "etcdserver: too many operations",
        Meaning::No(NotApplied::TooLarge),
    ),
    (
        "etcdserver: request is too large",
        Meaning::No(NotApplied::TooLarge),
    ),
    // The server's gRPC library, before etcd sees the request.
    (
        "grpc: received message larger than max",
        Meaning::No(NotApplied::TooLarge),
    ),
    (
        "etcdserver: duplicate key given",
        Meaning::No(NotApplied::Refused),
    ),
    (
        "etcdserver: requested lease not found",
        Meaning::No(NotApplied::LeaseGone),
    ),
    (
        "etcdserver: lease already exists",
        Meaning::No(NotApplied::Refused),
    ),
    (
        "etcdserver: permission denied",
        Meaning::No(NotApplied::Denied),
    ),
    ("etcdserver: invalid auth token", Meaning::WhoAsks),
    ("etcdserver: user name is empty", Meaning::WhoAsks),
    (
        "etcdserver: revision of auth store is old",
        Meaning::RightsMoved,
    ),
    (
        "etcdserver: authentication failed",
        Meaning::No(NotApplied::Denied),
    ),
    // tonic, when the connection's task is gone: the request was not handed over.
    ("Service was not ready", Meaning::TryAnother),
    // A read at a revision that is gone. Every member says the same.
    (
        "etcdserver: mvcc: required revision has been compacted",
        Meaning::No(NotApplied::Refused),
    ),
    // etcd says so before it proposes, in place of applying, or right after it applied the write that went over the limit.
    // In each case nothing is on its way any more.
    ("etcdserver: mvcc: database space exceeded", Meaning::Full),
];

fn meaning_of_status(status: &Status) -> Meaning {
    if was_never_sent(status) {
        return Meaning::TryAnother;
    }
    let message = status.message();
    if let Some((_, meaning)) = DEFINITE.iter().find(|(text, _)| message.starts_with(text)) {
        return *meaning;
    }
    match status.code() {
        // etcd checks requests and rights before it proposes.
        Code::InvalidArgument => Meaning::No(NotApplied::Refused),
        Code::PermissionDenied => Meaning::No(NotApplied::Denied),
        Code::Unauthenticated => Meaning::WhoAsks,
        // Whatever answered does not know the call at all.
        Code::Unimplemented => Meaning::No(NotApplied::Refused),
        // Timeouts of all forms, a stopping server, resets, and whatever a later etcd may say.
        Code::Ok
        | Code::Cancelled
        | Code::Unknown
        | Code::DeadlineExceeded
        | Code::NotFound
        | Code::AlreadyExists
        | Code::ResourceExhausted
        | Code::FailedPrecondition
        | Code::Aborted
        | Code::OutOfRange
        | Code::Internal
        | Code::Unavailable
        | Code::DataLoss => Meaning::Unknown,
    }
}

/// No connection could be made, so nothing was sent.
fn was_never_sent(status: &Status) -> bool {
    let mut cause = status.source();
    while let Some(error) = cause {
        if error.is::<ConnectError>() {
            return true;
        }
        cause = error.source();
    }
    false
}

/// All that is known of an error, for the log. Layers that only repeat what is inside them are left out.
pub(super) fn detail_of(endpoint: &str, error: &Error) -> String {
    let Error::GRpcStatus(status) = error else {
        return format!("{endpoint}: {error}");
    };
    let mut said = status.message().to_owned();
    let mut cause = status.source();
    while let Some(error) = cause {
        let text = error.to_string();
        if !said.contains(&text) {
            said.push_str(&format!(": {text}"));
        }
        cause = error.source();
    }
    if was_never_sent(status) {
        // The code would be the client's guess, not a word of etcd's.
        return format!("{endpoint}: {said}");
    }
    format!("{endpoint}: {:?}: {said}", status.code())
}

pub(super) fn not_applied(reason: NotApplied, detail: impl Into<String>) -> StoreError {
    StoreError::NotApplied {
        reason,
        detail: detail.into(),
    }
}

pub(super) fn full(detail: impl Into<String>) -> StoreError {
    StoreError::Full {
        detail: detail.into(),
    }
}

pub(super) fn indeterminate(detail: impl Into<String>) -> StoreError {
    StoreError::Indeterminate {
        detail: detail.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn meaning(code: Code, message: &str) -> Meaning {
        meaning_of(&Error::GRpcStatus(Status::new(code, message)))
    }

    #[test]
    fn what_etcd_rejects_before_it_proposes_is_a_definite_no() {
        use NotApplied::{Denied, LeaseGone, Overloaded, Refused, TooLarge};
        for (code, message, reason) in [
            (
                Code::ResourceExhausted,
                "etcdserver: too many requests",
                Overloaded,
            ),
            (
                Code::InvalidArgument,
                "etcdserver: too many operations in txn request",
                TooLarge,
            ),
            (
                Code::InvalidArgument,
                "etcdserver: request is too large",
                TooLarge,
            ),
            (
                Code::ResourceExhausted,
                "grpc: received message larger than max (2097161 vs. 2097152)",
                TooLarge,
            ),
            (
                Code::InvalidArgument,
                "etcdserver: duplicate key given in txn request",
                Refused,
            ),
            (
                Code::InvalidArgument,
                "etcdserver: key is not provided",
                Refused,
            ),
            (
                Code::NotFound,
                "etcdserver: requested lease not found",
                LeaseGone,
            ),
            (
                Code::FailedPrecondition,
                "etcdserver: lease already exists",
                Refused,
            ),
            (
                Code::OutOfRange,
                "etcdserver: mvcc: required revision has been compacted",
                Refused,
            ),
            (
                Code::PermissionDenied,
                "etcdserver: permission denied",
                Denied,
            ),
            (
                Code::InvalidArgument,
                "etcdserver: authentication failed, invalid user ID or password",
                Denied,
            ),
            (
                Code::Unimplemented,
                "unknown service etcdserverpb.KV",
                Refused,
            ),
        ] {
            assert_eq!(meaning(code, message), Meaning::No(reason), "{message}");
        }
    }

    #[test]
    fn a_token_that_is_not_known_asks_for_a_login_and_moved_rights_for_another_try() {
        for (code, message) in [
            (Code::Unauthenticated, "etcdserver: invalid auth token"),
            // Some servers lose the code and keep the text.
            (Code::Unknown, "etcdserver: invalid auth token"),
            (Code::InvalidArgument, "etcdserver: user name is empty"),
        ] {
            assert_eq!(meaning(code, message), Meaning::WhoAsks, "{message}");
            assert!(meaning(code, message).is_about_who_asks(), "{message}");
        }
        let moved = "etcdserver: revision of auth store is old";
        assert_eq!(meaning(Code::InvalidArgument, moved), Meaning::RightsMoved);
        assert!(meaning(Code::InvalidArgument, moved).is_about_who_asks());
        assert!(!meaning(Code::Unavailable, "etcdserver: no leader").is_about_who_asks());
    }

    #[test]
    fn a_refused_connection_is_told_once() {
        let inner = std::io::Error::other("tcp connect error");
        let refused: Box<dyn std::error::Error + Send + Sync> =
            Box::new(ConnectError(Box::new(inner)));
        let error = Error::GRpcStatus(Status::from_error(refused));
        assert_eq!(
            detail_of("http://a:1", &error),
            "http://a:1: tcp connect error"
        );
        let error = Error::GRpcStatus(Status::unavailable("etcdserver: leader changed"));
        assert_eq!(
            detail_of("http://a:1", &error),
            "http://a:1: Unavailable: etcdserver: leader changed"
        );
    }

    #[test]
    fn a_member_that_certainly_took_nothing_is_left_for_another() {
        for (code, message) in [
            (Code::Unavailable, "etcdserver: no leader"),
            (
                Code::FailedPrecondition,
                "etcdserver: rpc not supported for learner",
            ),
            (Code::Unknown, "Service was not ready: buffer closed"),
        ] {
            assert_eq!(meaning(code, message), Meaning::TryAnother, "{message}");
        }
        let refused: Box<dyn std::error::Error + Send + Sync> =
            Box::new(ConnectError("connection refused".into()));
        let status = Status::from_error(refused);
        assert_eq!(meaning_of(&Error::GRpcStatus(status)), Meaning::TryAnother);
    }

    #[test]
    fn whatever_may_have_been_proposed_is_unknown() {
        for (code, message) in [
            (Code::Unavailable, "etcdserver: request timed out"),
            (
                Code::Unavailable,
                "etcdserver: request timed out, possibly due to previous leader failure",
            ),
            (
                Code::Unavailable,
                "etcdserver: request timed out, possibly due to connection lost",
            ),
            (
                Code::Unavailable,
                "etcdserver: request timed out, waiting for the applied index took too long",
            ),
            (Code::Unavailable, "etcdserver: server stopped"),
            (Code::Unavailable, "etcdserver: leader changed"),
            (Code::DeadlineExceeded, "context deadline exceeded"),
            (Code::Cancelled, "Timeout expired"),
            (Code::Cancelled, "context canceled"),
            (
                Code::Unknown,
                "h2 protocol error: error reading a body from connection",
            ),
            (Code::Internal, "protocol error: unexpected end of stream"),
            (Code::Unavailable, "error reading from server: EOF"),
            (Code::ResourceExhausted, "something new"),
            (Code::NotFound, "something new"),
            (Code::FailedPrecondition, "something new"),
            (Code::DataLoss, "etcdserver: corrupt cluster"),
        ] {
            assert_eq!(meaning(code, message), Meaning::Unknown, "{message}");
        }
        assert_eq!(
            meaning(
                Code::ResourceExhausted,
                "etcdserver: mvcc: database space exceeded"
            ),
            Meaning::Full
        );
        assert_eq!(
            meaning_of(&Error::LeaseKeepAliveError(String::new())),
            Meaning::Unknown
        );
    }
}
