//! What went wrong with etcd, and above all: whether the write may have happened.

use crate::domain::invalid::Invalid;
use crate::domain::timeline::Halt;

/// Why a request was certainly not applied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotApplied {
    /// No endpoint could be reached; nothing was sent.
    Unreachable,
    /// etcd has too much to do and turned the request away.
    Overloaded,
    /// A lease that the request names is gone.
    LeaseGone,
    /// The request is larger than etcd takes.
    TooLarge,
    /// The timeline has been replaced; everything remembered of the old one must go.
    TimelineMoved,
    /// Nothing is judged in the timeline in force.
    Halted(Halt),
    /// etcd refused it for another definite reason, such as a missing right.
    /// etcd does not know the sidecar's user, or that user may not do this.
    Denied,
    /// etcd refused it for another definite reason.
    Refused,
}

/// What went wrong with etcd.
#[derive(Clone, Debug, thiserror::Error)]
pub enum StoreError {
    /// Nothing was changed.
    #[error("nothing was changed: {reason:?} ({detail})")]
    NotApplied {
        /// Why.
        reason: NotApplied,
        /// For the log only.
        detail: String,
    },
    /// etcd has no space left. What was sent was applied, or never will be: a read that is asked afterwards tells.
    #[error("etcd has no space left ({detail})")]
    Full {
        /// For the log only.
        detail: String,
    },
    /// The reply was lost or ambiguous: the write may have happened, or may still happen.
    #[error("the outcome is unknown ({detail})")]
    Indeterminate {
        /// For the log only.
        detail: String,
    },
    /// A record is not one that Fencepost wrote, or is damaged. It is reported, never trusted and never overwritten.
    #[error("the record at {key} cannot be trusted: {reason}")]
    Corrupt {
        /// The etcd key, printable.
        key: String,
        /// What is wrong with it.
        reason: String,
    },
}

impl From<Invalid> for StoreError {
    fn from(invalid: Invalid) -> Self {
        Self::NotApplied {
            reason: NotApplied::Refused,
            detail: invalid.to_string(),
        }
    }
}
