//! What a round does when etcd does not do what it is asked.

use tracing::{error, warn};

use super::{FAULT_RETRY, Next, OVERTAKEN_MAX, Round, TURNED_AWAY_MAX};
use crate::engine::fault::Fault;
use crate::engine::ticket::UNKNOWN_RETRY;
use crate::store::StoreError;
use crate::store::error::NotApplied;

impl Round<'_> {
    /// A question without an answer leaves nothing unsettled.
    pub(super) async fn unanswered(&mut self, error: StoreError) -> Next {
        match error {
            StoreError::Indeterminate { detail } => {
                let reason = NotApplied::Unreachable;
                self.failed(StoreError::NotApplied { reason, detail }).await
            }
            error @ (StoreError::NotApplied { .. }
            | StoreError::Full { .. }
            | StoreError::Corrupt { .. }) => self.failed(error).await,
        }
    }

    pub(super) async fn failed(&mut self, error: StoreError) -> Next {
        match error {
            StoreError::NotApplied {
                reason: NotApplied::TimelineMoved,
                ..
            } => {
                self.standing = None;
                self.fresh = false;
                self.try_again().await
            }
            StoreError::NotApplied {
                reason: NotApplied::LeaseGone,
                ..
            } => {
                self.replace_lease().await;
                self.try_again().await
            }
            // What was sent before can no longer be committed; whether it was, is not known.
            StoreError::NotApplied {
                reason: NotApplied::Halted(halt),
                ..
            } => {
                self.fail_all(&Fault::Halted { halt });
                Next::Done
            }
            StoreError::NotApplied {
                reason: NotApplied::Overloaded,
                ..
            } if !self.unsettled.is() && self.turned_away < TURNED_AWAY_MAX => {
                self.turned_away += 1;
                for ticket in &self.tickets {
                    ticket.refused();
                }
                self.pace.wait().await;
                Next::Again
            }
            StoreError::Full { detail } if !self.unsettled.is() && !self.store_full => {
                if let Some(unsaid) = self.shared.trouble.speak() {
                    error!(
                        detail,
                        unsaid, "etcd has no space left: compact, defragment and disarm its alarm"
                    );
                }
                // What was sent is over; a read tells whether it was applied.
                self.store_full = true;
                self.standing = None;
                self.fresh = false;
                Next::Again
            }
            // A bare release was refused too, so etcd refuses more than puts.
            StoreError::Full { .. } if !self.unsettled.is() => {
                self.fail_all(&Fault::store_full());
                Next::Done
            }
            // An earlier try may still arrive, and is settled only once there is space again.
            StoreError::Full { .. } => {
                self.stuck.say();
                self.try_again().await
            }
            StoreError::NotApplied { reason, detail } if !self.unsettled.is() => {
                if let Some(unsaid) = self.shared.trouble.speak() {
                    warn!(resource = %self.resource, ?reason, detail, unsaid, "etcd did not take a request");
                }
                // Nothing was done, and nothing heard: what was believed is as good a guess as before. Without one the next request
                // would be committed on the guess that there is nothing, and in silence nobody knows what became of a commit.
                let believed = self.standing.take();
                self.fail_all(&Fault::of_refusal(reason));
                self.standing = believed;
                Next::Done
            }
            StoreError::NotApplied { .. } => self.try_again().await,
            StoreError::Indeterminate { detail } => {
                if let Some(unsaid) = self.shared.trouble.speak() {
                    warn!(resource = %self.resource, detail, unsaid, "a commit's outcome is unknown; settling it");
                }
                self.try_again().await
            }
            StoreError::Corrupt { key, reason } => {
                if let Some(unsaid) = self.shared.corruption.speak() {
                    error!(key, reason, unsaid, "a record cannot be trusted");
                }
                self.fail_all(&Fault::CorruptRecord);
                Next::Done
            }
        }
    }

    /// Waits a little and goes on: without an end while a commit is unsettled, else a few times.
    pub(super) async fn try_again(&mut self) -> Next {
        self.overtaken += 1;
        let given_up = !self.unsettled.is() && self.overtaken > OVERTAKEN_MAX;
        if given_up || self.shared.tasks.ended() {
            self.fail_all(&Fault::StoreUnavailable {
                retry_after: FAULT_RETRY,
            });
            return Next::Done;
        }
        self.pace.wait().await;
        Next::Again
    }

    /// Ends the round without answers. What may have been sent is unknown; what was not is as the fault says.
    pub(super) fn fail_all(&mut self, fault: &Fault) {
        for ticket in self.tickets.drain(..) {
            let fault = if self.unsettled.is() {
                Fault::UnknownOutcome {
                    retry_after: UNKNOWN_RETRY,
                }
            } else {
                fault.clone()
            };
            self.shared.answer(ticket, Err(fault));
        }
        self.standing = None;
    }
}
