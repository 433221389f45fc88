//! What the process answers with, so that a script can branch without reading the output.

use std::process::ExitCode;

use crate::proto::v1::Advice;

/// Every exit code and what it means.
const MEANINGS: [(u8, &str); 18] = [
    (0, "PROCEED or ACKNOWLEDGE; or there was nothing to judge"),
    (
        1,
        "serve, dev: the sidecar could not start; demo: a scene came out wrong",
    ),
    (2, "the command line cannot be understood"),
    (10, "RETRY: not now; admin timeline: everything is halted"),
    (11, "REFUSE: no, and asking again will not help"),
    (
        12,
        "ABANDON: the round is over; hold: all reservations are lost",
    ),
    (
        13,
        "lookup: the operation was never seen; incidents: there is no such incident; explain: nothing is known of it",
    ),
    (
        14,
        "exec: what was to run once was begun and its end is not known; a person decides",
    ),
    (
        65,
        "the request can never work (INVALID_ARGUMENT, NOT_FOUND); machine: a file has errors; digest: there is none",
    ),
    (
        69,
        "no sidecar answers, or it cannot take the request now; nothing was done; hold, watch: the sidecar is being stopped",
    ),
    (70, "any other error"),
    (
        75,
        "the outcome is unknown or the time ran out: ask again with the same ids; hold, watch: the connection broke",
    ),
    (78, "serve, dev: the configuration is wrong"),
    (126, "exec: the command cannot be run"),
    (
        127,
        "exec: there is no such command; any other code is that of the command that was run",
    ),
    (
        130,
        "Ctrl-C ended it before it was done; serve, dev: a second one, which ends it at once",
    ),
    (
        134,
        "serve, dev: it found a mistake of its own and ended at once; its log tells which",
    ),
    (143, "as 130, by SIGTERM"),
];

/// The exit codes of a sidecar, as its `--help` tells them.
pub(super) const OF_A_SIDECAR: &str = "\
Exit codes:
   0  it was told to stop, and did
   1  it could not start
   2  the command line cannot be understood
  78  the configuration is wrong; nothing was started
 130  a second Ctrl-C ended it at once
 134  it found a mistake of its own and ended at once; its log tells which
 143  a second SIGTERM ended it at once";

/// Every exit code, as `--help` tells them.
pub(super) fn all() -> String {
    told(|_| true)
}

/// The exit codes of a command that asks a sidecar, as its `--help` tells them: those that any may end with, and its own.
pub(super) fn of_a_question(own: &[u8]) -> String {
    told(|code| [0, 2, 65, 69, 70, 75].contains(&code) || own.contains(&code))
}

/// The exit codes of a command that only reads files.
pub(super) fn of_files() -> String {
    told(|code| [0, 2, 65].contains(&code))
}

/// The exit codes of a command that writes files.
pub(super) fn of_writing() -> String {
    told(|code| [0, 2, 70].contains(&code))
}

/// The exit codes of a command that only `exec` starts.
pub(super) fn of_its_own() -> String {
    told(|code| [0, 2, 70].contains(&code))
}

fn told(wanted: impl Fn(u8) -> bool) -> String {
    let mut text = "Exit codes:".to_owned();
    for (code, meaning) in MEANINGS.iter().filter(|(code, _)| wanted(*code)) {
        text.push_str(&format!("\n {code:>3}  {meaning}"));
    }
    text
}

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
    /// `lookup`, `incidents`, `explain`: nothing is known of it.
    NeverSeen,
    /// `exec`: begun, and its end is not known.
    Interrupted,
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
            Self::Interrupted => 14,
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
