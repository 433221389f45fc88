//! Why a command has no answer: what was wrong, where, and what to do.

use tonic::{Code, Status};
use tonic_types::StatusExt;

use super::address::Address;
use super::exit::Exit;

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

    /// The sidecar, or the way to it, answered with an error.
    pub(super) fn from_status(place: &str, status: &Status) -> Self {
        // Only an error that arose on this side of the wire has a source; one that the sidecar sent came as text.
        let lost = std::error::Error::source(status).is_some();
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
            Code::Unavailable | Code::Unknown if lost => Self::new(
                Exit::Unknown,
                format!(
                    "the connection to {place} broke before an answer came; it may or may not have been done: \
                     ask again with the same ids"
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
            | Code::Unauthenticated) => {
                Self::new(Exit::Failed, format!("{place} answered {code:?}: {said}"))
            }
        }
    }

    fn new(exit: Exit, message: impl Into<String>) -> Self {
        Self {
            exit,
            message: message.into(),
        }
    }
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
