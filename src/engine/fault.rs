//! Why a call has no answer. Each kind becomes one gRPC code, in one table in `transport::status`.

use std::fmt;
use std::time::Duration;

use crate::domain::ids::Kind;
use crate::domain::judge::Unlawful;
use crate::domain::machine::MachineVersion;
use crate::domain::timeline::Halt;
use crate::store::NotApplied;

/// When to ask again once the machine of a kind has become known.
const LAW_RETRY: Duration = Duration::from_millis(50);
/// When to ask again when etcd did not take a request.
const STORE_RETRY: Duration = Duration::from_millis(500);
/// When to ask again when an operator has to do something first.
const OPERATOR_RETRY: Duration = Duration::from_secs(5);

/// How far the start of a timeline came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HowFar {
    /// Nothing was done.
    Nothing,
    /// It was begun, which halts everything, and is not in force.
    Begun,
}

impl fmt::Display for HowFar {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Nothing => "no timeline was started, and nothing was done",
            Self::Begun => {
                "the new timeline was begun and is not in force: nothing is judged until one is"
            }
        })
    }
}

/// Why a call has no answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    /// A field can never work as sent.
    #[error("{field} {reason}")]
    InvalidField {
        /// Path of the field, such as `intent.identity`.
        field: String,
        /// Completes the sentence.
        reason: String,
    },
    /// An event was named for a kind without a machine.
    #[error(
        "no machine is in force for kind {kind}: apply one, or say in `move` where the request leads instead of naming an event"
    )]
    UnknownKind {
        /// The kind.
        kind: String,
    },
    /// The machine has no such event.
    #[error("kind {kind} has no event {event} (version {version} of its machine is in force)")]
    UnknownEvent {
        /// The kind.
        kind: String,
        /// The event.
        event: String,
        /// The version in force.
        version: MachineVersion,
    },
    /// A machine, or a version of one, that there is not.
    #[error("{what}")]
    NoSuchMachine {
        /// A sentence.
        what: String,
    },
    /// The resource and the machine in force do not belong together, or the machine cannot be read here.
    #[error("{reason}")]
    MachineMismatch {
        /// A sentence that says what to do.
        reason: String,
    },
    /// The machine changed while the call was read; nothing was done.
    #[error(
        "the machine of this kind has just changed; nothing was done, ask again with the same ids"
    )]
    MachineChanged {
        /// When to ask again.
        retry_after: Duration,
    },
    /// A named limit of the resource was met; nothing was done.
    #[error("{what}; the limit is {limit}")]
    LimitMet {
        /// What there is too much of.
        what: &'static str,
        /// The limit.
        limit: usize,
    },
    /// There is no incident of that name.
    #[error("there is no such incident; `fencepost incidents` lists those that there are")]
    NoSuchIncident,
    /// A limit of the moment was met, of the sidecar and not of the request; nothing was done.
    #[error("{what}; the limit is {limit}; nothing was done, ask again")]
    Overloaded {
        /// What there is too much of.
        what: &'static str,
        /// The limit.
        limit: usize,
        /// When to ask again.
        retry_after: Duration,
    },
    /// Held reservations are renewed so late that a new one is not granted: those that are held come first. Nothing was done.
    #[error(
        "reservations that are held here are renewed late, so no new one is granted; nothing was done, ask again"
    )]
    RenewalsLate {
        /// When to ask again.
        retry_after: Duration,
    },
    /// etcd could not be reached or turned the request away; nothing was done.
    #[error("etcd cannot take the request now; nothing was done, ask again with the same ids")]
    StoreUnavailable {
        /// When to ask again.
        retry_after: Duration,
    },
    /// Nothing is judged until a person has started a new timeline.
    #[error(
        "Fencepost has halted: {halt}. Nothing is granted, judged or told until a person has run `fencepost admin \
         start-timeline`; ask again later with the same ids"
    )]
    Halted {
        /// Why.
        halt: Halt,
    },
    /// Somebody else has started a timeline meanwhile.
    #[error(
        "somebody else has started a timeline meanwhile, and this one is not in force; look, and start another if need be"
    )]
    TimelineSuperseded,
    /// etcd has no space left; nothing was done.
    #[error(
        "etcd has no space left and takes no writes until an operator makes room (compact, defragment, disarm the alarm); \
         nothing was done, ask again with the same ids"
    )]
    StoreFull {
        /// When to ask again.
        retry_after: Duration,
    },
    /// etcd has no space left for a new timeline.
    #[error(
        "etcd has no space left: {how_far}. Make room (compact, defragment, disarm the alarm), then run `fencepost admin \
         start-timeline` again"
    )]
    StartNeedsSpace {
        /// How far it came.
        how_far: HowFar,
        /// When to ask again.
        retry_after: Duration,
    },
    /// etcd does not know the sidecar's user, or that user may not do this; nothing was done.
    #[error(
        "etcd does not let this sidecar in, or not do this; nothing was done, and the log of the sidecar says which right is \
         missing"
    )]
    StoreDenied {
        /// When to ask again.
        retry_after: Duration,
    },
    /// The sidecar is going down; nothing was done.
    #[error("this sidecar is stopping; nothing was done, ask again with the same ids")]
    Stopping {
        /// When to ask again.
        retry_after: Duration,
    },
    /// The caller's time ran out before etcd had taken a change or answered a question; nothing was done.
    #[error(
        "the deadline passed before etcd had taken or answered it; nothing was done, ask again with the same ids"
    )]
    DeadlinePassed,
    /// It was sent, and no answer came: it may or may not have been done.
    #[error("the outcome is unknown; ask again with the same ids to learn the truth")]
    UnknownOutcome {
        /// When to ask again.
        retry_after: Duration,
    },
    /// There is an answer, and no room for it: too many are not taken by those who asked. It may or may not have been done.
    #[error(
        "the answer has no room here: too many bytes of answers wait for callers who do not read them; the limit is {limit}; ask \
         again with the same ids to learn the truth"
    )]
    AnswerUnkept {
        /// The limit.
        limit: usize,
        /// When to ask again.
        retry_after: Duration,
    },
    /// A stored record is foreign or damaged; nothing was done.
    #[error(
        "what is stored for this resource, or the timeline of all, cannot be trusted; nothing was done, and the log of the sidecar names the key"
    )]
    CorruptRecord,
}

impl Fault {
    /// Whether nothing was done, and the same question may well be answered in a moment.
    pub(super) fn passes(&self) -> bool {
        match self {
            Self::MachineChanged { .. }
            | Self::Overloaded { .. }
            | Self::RenewalsLate { .. }
            | Self::StoreFull { .. }
            // A password or a right that is changed is wrong for a while.
            | Self::StoreDenied { .. }
            | Self::StoreUnavailable { .. } => true,
            Self::InvalidField { .. }
            | Self::UnknownKind { .. }
            | Self::UnknownEvent { .. }
            | Self::NoSuchMachine { .. }
            | Self::MachineMismatch { .. }
            | Self::LimitMet { .. }
            | Self::NoSuchIncident
            | Self::Halted { .. }
            | Self::TimelineSuperseded
            | Self::StartNeedsSpace { .. }
            | Self::Stopping { .. }
            | Self::DeadlinePassed
            | Self::UnknownOutcome { .. }
            | Self::AnswerUnkept { .. }
            | Self::CorruptRecord => false,
        }
    }

    /// Whether nothing is judged only as long as a person's start of a timeline takes.
    pub(super) fn ends_with_a_start(&self) -> bool {
        matches!(
            self,
            Self::Halted {
                halt: Halt::Starting { .. }
            }
        )
    }

    /// Why etcd certainly did nothing.
    pub(super) fn of_refusal(reason: NotApplied) -> Self {
        match reason {
            NotApplied::Halted(halt) => Self::Halted { halt },
            NotApplied::Denied => Self::StoreDenied {
                retry_after: OPERATOR_RETRY,
            },
            NotApplied::Unreachable
            | NotApplied::Overloaded
            | NotApplied::LeaseGone
            | NotApplied::TooLarge
            | NotApplied::TimelineMoved
            | NotApplied::Refused => Self::StoreUnavailable {
                retry_after: STORE_RETRY,
            },
        }
    }

    /// Why nothing can be written now.
    pub(super) fn store_full() -> Self {
        Self::StoreFull {
            retry_after: OPERATOR_RETRY,
        }
    }

    /// Why no timeline can be started now.
    pub(super) fn start_needs_space(how_far: HowFar) -> Self {
        Self::StartNeedsSpace {
            how_far,
            retry_after: OPERATOR_RETRY,
        }
    }

    /// Why a request cannot be judged by the law in force.
    pub(super) fn of_law(kind: &Kind, unlawful: Unlawful) -> Self {
        let kind = kind.to_string();
        match unlawful {
            Unlawful::Field { field, reason } => Self::InvalidField { field, reason },
            Unlawful::NoMachine => Self::UnknownKind { kind },
            Unlawful::NoEvent { event, version } => Self::UnknownEvent {
                kind,
                event: event.to_string(),
                version,
            },
            Unlawful::Unread => Self::MachineChanged {
                retry_after: LAW_RETRY,
            },
            Unlawful::Mismatch(reason) => Self::MachineMismatch { reason },
        }
    }
}
