//! What the process answers with, so that a script can branch without reading the output.

use std::process::ExitCode;

use crate::proto::v1::Advice;

/// The exit codes, as `--help` tells them.
pub(super) const HELP: &str = "\
Exit codes:
   0  PROCEED or ACKNOWLEDGE; or there was nothing to judge
   1  serve, dev: the sidecar could not start; demo: a scene came out wrong
   2  the command line cannot be understood
  10  RETRY: not now
  11  REFUSE: no, and asking again will not help
  12  ABANDON: the round is over
  13  lookup: the operation was never seen
  65  the request can never work (INVALID_ARGUMENT)
  69  no sidecar answers, or it cannot take the request now; nothing was done
  70  any other error
  75  the outcome is unknown or the time ran out: ask again with the same ids
  78  the configuration is wrong";

/// How a command ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Exit {
    /// PROCEED, ACKNOWLEDGE, or nothing to judge.
    Good,
    /// `demo`: a scene came out wrong.
    SceneFailed,
    /// The command line cannot be understood.
    Usage,
    /// RETRY.
    Retry,
    /// REFUSE.
    Refuse,
    /// ABANDON.
    Abandon,
    /// `lookup`: nothing is known of the operation.
    NeverSeen,
    /// The request can never work.
    Invalid,
    /// Nobody answers, or the answer is "not now"; nothing was done.
    Unavailable,
    /// Any other error.
    Failed,
    /// It may or may not have been done.
    Unknown,
}

impl Exit {
    /// The number. 65 to 78 follow `sysexits.h`.
    pub(super) fn number(self) -> u8 {
        match self {
            Self::Good => 0,
            Self::SceneFailed => 1,
            Self::Usage => 2,
            Self::Retry => 10,
            Self::Refuse => 11,
            Self::Abandon => 12,
            Self::NeverSeen => 13,
            Self::Invalid => 65,
            Self::Unavailable => 69,
            Self::Failed => 70,
            Self::Unknown => 75,
        }
    }

    /// What an advice means to a script.
    pub(super) fn of_advice(advice: Advice) -> Self {
        match advice {
            Advice::Proceed | Advice::Acknowledge => Self::Good,
            Advice::Retry => Self::Retry,
            Advice::Refuse => Self::Refuse,
            Advice::Abandon => Self::Abandon,
            // An answer without advice is not one to build on.
            Advice::Unspecified => Self::Failed,
        }
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit.number())
    }
}
