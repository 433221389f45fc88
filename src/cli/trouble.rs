//! Why a command has no answer: what was wrong, where, and what to do.

use std::error::Error as StdError;
use std::io;
use std::path::Path;

use tonic::{Code, Status};
use tonic_types::StatusExt;

use super::address::Address;
use super::exit::Exit;
use super::session::{causes, root_cause};

/// The reason that a sidecar gives at the end of a stream when it stops.
const STOPPING: &str = "STOPPING";

/// The reasons that it gives where a stream ends with its timeline: another one is in force, or none for now.
const OF_TIMELINES: [&str; 2] = ["STORE_UNAVAILABLE", "HALTED"];

/// Why a command has no answer.
#[derive(Debug)]
pub(super) struct Trouble {
    /// What the process ends with.
    pub(super) exit: Exit,
    /// For the person at the keyboard.
    pub(super) message: String,
}

impl Trouble {
    /// The command line says something that cannot be meant.
    pub(super) fn usage(message: impl Into<String>) -> Self {
        Self::new(Exit::Usage, message)
    }

    /// Something on this machine went wrong.
    pub(super) fn failed(message: impl Into<String>) -> Self {
        Self::new(Exit::Failed, message)
    }

    /// What was given can never be taken.
    pub(super) fn invalid(message: impl Into<String>) -> Self {
        Self::new(Exit::Invalid, message)
    }

    /// Nobody listens there.
    pub(super) fn no_sidecar(address: &Address, why: &str) -> Self {
        Self::new(
            Exit::Unavailable,
            format!(
                "no sidecar answers at {address} ({why}): start one with `fencepost dev`, or name another \
                 address with --addr or FENCEPOST_ADDR"
            ),
        )
    }

    /// What listens there speaks another language, so it has understood nothing.
    pub(super) fn stranger(place: &str, said: &str) -> Self {
        Self::new(
            Exit::Unavailable,
            format!(
                "what listens at {place} is no Fencepost sidecar (it began with {said:?}, which is not gRPC), and nothing was done: \
                 start one with `fencepost dev`, or name its address with --addr or FENCEPOST_ADDR"
            ),
        )
    }

    /// There is no way in at an admin socket.
    pub(super) fn no_admin_socket(socket: &Path, error: &(dyn StdError + 'static)) -> Self {
        let place = plain(&socket.display().to_string());
        let io = causes(error).find_map(|cause| cause.downcast_ref::<io::Error>());
        let kind = io.map(io::Error::kind);
        if kind == Some(io::ErrorKind::PermissionDenied) {
            return Self::new(
                Exit::Unavailable,
                format!(
                    "this user may not open the admin socket {place}, which is for the user of the sidecar alone: run the \
                     command as that user"
                ),
            );
        }
        let why = root_cause(error);
        if kind == Some(io::ErrorKind::InvalidInput) {
            return Self::usage(format!(
                "{place} is no path of a socket ({why}): name the sidecar's with --admin-socket or FENCEPOST_ADMIN_SOCKET"
            ));
        }
        Self::new(
            Exit::Unavailable,
            format!(
                "no sidecar answers at the admin socket {place} ({why}): start one with `fencepost dev`, or name its \
                 socket with --admin-socket or FENCEPOST_ADMIN_SOCKET"
            ),
        )
    }

    /// The sidecar, or the way to it, answered with an error.
    pub(super) fn from_status(place: &str, status: &Status) -> Self {
        // Only an error that arose on this side of the wire has a source; one that the sidecar sent came as text.
        let lost = StdError::source(status).is_some();
        let said = plain(status.message());
        match status.code() {
            Code::InvalidArgument | Code::NotFound => {
                Self::new(Exit::Invalid, format!("the request can never work: {said}"))
            }
            Code::Unavailable if !lost => Self::new(
                Exit::Unavailable,
                format!(
                    "the sidecar at {place} cannot help now: {said}{}; its log tells more",
                    again_after(status)
                ),
            ),
            // Nobody took the connection, so nothing was sent.
            Code::Unavailable | Code::Unknown if was_refused(status) => Self::new(
                Exit::Unavailable,
                format!(
                    "no sidecar answers at {place} any more (the connection is refused), and nothing was done: start one, and ask again"
                ),
            ),
            Code::Unavailable | Code::Unknown if lost => Self::new(
                Exit::Unknown,
                format!(
                    "the connection to {place} broke before an answer came: if it is a Fencepost sidecar that listens there, it \
                     may or may not have been done: ask again with the same ids"
                ),
            ),
            Code::Internal if lost => Self::new(
                Exit::Unknown,
                format!(
                    "the connection to {place} failed ({said}): is it a Fencepost sidecar that listens there? If \
                     so, it may or may not have been done: ask again with the same ids"
                ),
            ),
            Code::Cancelled => Self::new(
                Exit::Unknown,
                format!(
                    "{place} gave no answer in time ({said}); it may or may not have been done: ask again with \
                     the same ids, and with more --timeout if need be"
                ),
            ),
            // The sidecar says so only if nothing was sent to etcd.
            Code::DeadlineExceeded => Self::new(
                if lost {
                    Exit::Unknown
                } else {
                    Exit::Unavailable
                },
                format!(
                    "the sidecar at {place} ran out of time: {said}; give more --timeout if need be, and see its \
                     log for etcd"
                ),
            ),
            // With a time to ask again it is no limit of the request, but one of the moment.
            Code::ResourceExhausted if !again_after(status).is_empty() => Self::new(
                Exit::Unavailable,
                format!(
                    "the sidecar at {place} cannot take it now: {said}{}",
                    again_after(status)
                ),
            ),
            Code::Aborted => Self::new(
                Exit::Unknown,
                format!(
                    "it may or may not have been done: {said}{}",
                    again_after(status)
                ),
            ),
            Code::Unimplemented => Self::new(
                Exit::Failed,
                format!(
                    "what answers at {place} does not offer this call ({said}): is it a Fencepost sidecar of \
                     this version?"
                ),
            ),
            Code::FailedPrecondition | Code::ResourceExhausted | Code::DataLoss if !lost => {
                Self::new(
                    Exit::Failed,
                    format!("the sidecar at {place} cannot do that: {said}"),
                )
            }
            code @ (Code::Ok
            | Code::Unknown
            | Code::AlreadyExists
            | Code::PermissionDenied
            | Code::ResourceExhausted
            | Code::FailedPrecondition
            | Code::OutOfRange
            | Code::Internal
            | Code::Unavailable
            | Code::DataLoss
            | Code::Unauthenticated) => Self::new(
                Exit::Failed,
                format!(
                    "what answers at {place} has failed ({}): {said}",
                    code.description()
                ),
            ),
        }
    }

    /// A stream ended before it was over.
    pub(super) fn of_stream(place: &str, status: &Status) -> Self {
        Self {
            message: how_it_ended(place, status),
            ..Self::from_status(place, status)
        }
    }

    fn new(exit: Exit, message: impl Into<String>) -> Self {
        Self {
            exit,
            message: message.into(),
        }
    }
}

/// What has become of the sidecar at the other end of a stream.
fn how_it_ended(place: &str, status: &Status) -> String {
    let lost = std::error::Error::source(status).is_some();
    let said = plain(status.message());
    let reason = status.get_details_error_info().map(|info| info.reason);
    if reason.as_deref() == Some(STOPPING) {
        return format!("the sidecar at {place} is being stopped");
    }
    match status.code() {
        _ if lost => format!(
            "the connection to the sidecar at {place} is broken: it is gone, is started anew, or cannot be reached"
        ),
        Code::Unavailable => format!("the sidecar at {place} cannot help now: {said}"),
        Code::DeadlineExceeded => format!("the sidecar at {place} gives no answer: {said}"),
        code @ (Code::Ok
        | Code::Cancelled
        | Code::Unknown
        | Code::InvalidArgument
        | Code::NotFound
        | Code::AlreadyExists
        | Code::PermissionDenied
        | Code::ResourceExhausted
        | Code::FailedPrecondition
        | Code::Aborted
        | Code::OutOfRange
        | Code::Unimplemented
        | Code::Internal
        | Code::DataLoss
        | Code::Unauthenticated) => format!("the sidecar at {place} answered {code:?}: {said}"),
    }
}

/// Whether nobody listens there, so that nothing was sent.
pub(super) fn was_refused(status: &Status) -> bool {
    causes(status)
        .filter_map(|cause| cause.downcast_ref::<io::Error>())
        .any(|error| error.kind() == io::ErrorKind::ConnectionRefused)
}

/// Whether a stream that ended so can be gone on with in a while, at the same sidecar.
pub(super) fn may_be_opened_anew(status: &Status) -> bool {
    let info = status.get_details_error_info();
    info.is_some_and(|info| OF_TIMELINES.contains(&info.reason.as_str()))
}

fn again_after(status: &Status) -> String {
    status
        .get_details_retry_info()
        .and_then(|info| info.retry_delay)
        .map_or_else(String::new, |delay| {
            format!(" (ask again in {})", humantime::format_duration(delay))
        })
}

/// Whether a character could command a terminal, or make it show what follows as if it stood elsewhere: control characters,
/// ends of lines, and those that turn the direction of writing.
pub(super) fn commands_a_terminal(character: char) -> bool {
    let turns = matches!(
        character,
        '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}'
    );
    turns || character.is_control()
}

/// What a server says is shown, never obeyed by the terminal.
pub(super) fn plain(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for character in text.chars() {
        if commands_a_terminal(character) {
            shown.extend(character.escape_default());
        } else {
            shown.push(character);
        }
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_outcome_and_a_plain_no_have_different_exits() {
        let exits = [
            (Code::InvalidArgument, Exit::Invalid),
            (Code::Unavailable, Exit::Unavailable),
            (Code::Aborted, Exit::Unknown),
            (Code::DeadlineExceeded, Exit::Unavailable),
            (Code::Cancelled, Exit::Unknown),
            (Code::ResourceExhausted, Exit::Failed),
            (Code::Internal, Exit::Failed),
            (Code::Unimplemented, Exit::Failed),
        ];
        for (code, exit) in exits {
            let trouble = Trouble::from_status("here", &Status::new(code, "because"));
            assert_eq!(trouble.exit, exit, "{code:?}");
            assert!(trouble.message.contains("because"), "{code:?}");
        }
    }

    #[test]
    fn a_sidecar_with_too_much_to_do_is_asked_again_and_a_limit_is_not() {
        use tonic_types::{ErrorDetails, StatusExt as _};
        let soon = Some(std::time::Duration::from_millis(100));
        let (code, said) = (Code::ResourceExhausted, "too many calls");
        let busy = Status::with_error_details(code, said, ErrorDetails::with_retry_info(soon));
        let trouble = Trouble::from_status("here", &busy);
        assert_eq!(trouble.exit, Exit::Unavailable);
        assert!(trouble.message.contains("ask again in 100ms"));
    }

    #[test]
    fn a_connection_that_broke_under_way_is_an_unknown_outcome() {
        let broken = Status::from_error(Box::new(std::io::Error::other("reset")));
        assert_eq!(Trouble::from_status("here", &broken).exit, Exit::Unknown);
        // Where nobody took the connection nothing was sent.
        let refused = io::Error::from(io::ErrorKind::ConnectionRefused);
        let refused = Status::from_error(Box::new(refused));
        let trouble = Trouble::from_status("here", &refused);
        assert_eq!(trouble.exit, Exit::Unavailable);
        assert!(trouble.message.contains("nothing was done"), "{trouble:?}");
    }

    #[test]
    fn the_end_of_a_stream_says_what_became_of_the_sidecar() {
        use tonic_types::ErrorDetails;
        let mut details = ErrorDetails::new();
        details.set_error_info(STOPPING, "fencepost", std::collections::HashMap::new());
        let stopped = Status::with_error_details(Code::Unavailable, "stopping", details);
        let broken = Status::from_error(Box::new(std::io::Error::other("reset")));
        let cases = [
            (stopped, "is being stopped", Exit::Unavailable),
            (broken, "is broken", Exit::Unknown),
            (
                Status::unavailable("halted"),
                "cannot help now: halted",
                Exit::Unavailable,
            ),
        ];
        for (status, said, exit) in cases {
            let trouble = Trouble::of_stream("here", &status);
            assert!(trouble.message.contains(said), "{}", trouble.message);
            assert_eq!(trouble.exit, exit);
        }
    }

    #[test]
    fn only_a_stream_that_ended_with_its_timeline_is_opened_anew() {
        use tonic_types::ErrorDetails;
        let anew = |reason: &str| {
            let mut details = ErrorDetails::new();
            details.set_error_info(reason, "fencepost", std::collections::HashMap::new());
            let ended = Status::with_error_details(Code::Unavailable, "ended", details);
            may_be_opened_anew(&ended)
        };
        assert!(anew("HALTED") && anew("STORE_UNAVAILABLE"));
        assert!(!anew(STOPPING) && !anew("OVERLOADED"));
        assert!(!may_be_opened_anew(&Status::unavailable("ended")));
    }

    #[test]
    fn a_sentence_of_the_sidecar_is_not_said_twice() {
        let said =
            "etcd cannot take the request now; nothing was done, ask again with the same ids";
        let trouble = Trouble::from_status("here", &Status::unavailable(said));
        assert_eq!(trouble.message.matches("nothing was done").count(), 1);
    }

    #[test]
    fn control_characters_do_not_reach_the_terminal() {
        assert_eq!(plain("a\u{1b}[2Jb\nc é"), "a\\u{1b}[2Jb\\nc é");
        assert_eq!(plain("a\u{9b}\u{202e}b"), "a\\u{9b}\\u{202e}b");
        assert_eq!(plain("\u{200d}\u{a0}ü"), "\u{200d}\u{a0}ü");
    }
}
