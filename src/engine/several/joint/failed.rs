//! What becomes of a question about several resources that etcd did not take.

use tracing::{error, warn};

use super::super::question::Question;
use super::Joint;
use crate::engine::fault::Fault;
use crate::engine::round::{FAULT_RETRY, OVERTAKEN_MAX, TURNED_AWAY_MAX};
use crate::engine::ticket::UNKNOWN_RETRY;
use crate::store::StoreError;
use crate::store::error::NotApplied;

impl Joint<'_> {
    /// A question without an answer leaves nothing unsettled.
    pub(super) async fn unanswered(&mut self, error: StoreError) -> Result<(), Fault> {
        match error {
            StoreError::Indeterminate { detail } => {
                let reason = NotApplied::Unreachable;
                self.failed(StoreError::NotApplied { reason, detail }, None)
                    .await
            }
            error @ (StoreError::NotApplied { .. }
            | StoreError::Full { .. }
            | StoreError::Corrupt { .. }) => self.failed(error, None).await,
        }
    }

    /// etcd did not do what it was asked: waits a little before the next try, or gives up.
    pub(super) async fn failed(
        &mut self,
        error: StoreError,
        question: Option<&mut Question>,
    ) -> Result<(), Fault> {
        match error {
            StoreError::NotApplied {
                reason: NotApplied::TimelineMoved,
                ..
            } => self.forget(),
            StoreError::NotApplied {
                reason: NotApplied::LeaseGone,
                ..
            } => {
                if let Some(question) = question
                    && let Err(fault) = question.replace_lease(&self.shared.leases).await
                    && !self.unsettled.is()
                {
                    return Err(fault);
                }
            }
            StoreError::NotApplied {
                reason: NotApplied::Halted(halt),
                ..
            } => return Err(self.given_up(Fault::Halted { halt })),
            StoreError::NotApplied {
                reason: NotApplied::Overloaded,
                ..
            } if !self.unsettled.is() && self.turned_away < TURNED_AWAY_MAX => {
                self.turned_away += 1;
                // Nothing is on its way: whoever leaves meanwhile is told that nothing was done, and keeps no lanes from others.
                self.progress.was_not_sent();
                self.pace.wait().await;
                if self.progress.withdrawn() {
                    return Err(Fault::DeadlinePassed);
                }
                return Ok(());
            }
            StoreError::NotApplied { reason, detail } if !self.unsettled.is() => {
                if let Some(unsaid) = self.shared.trouble.speak() {
                    warn!(resource = %self.lead(), ?reason, detail, unsaid, "etcd did not take a request about several resources");
                }
                // What was believed is as good a guess as before.
                return Err(Fault::of_refusal(reason));
            }
            StoreError::NotApplied { .. } => {}
            // What was sent is over; a read tells whether it was applied.
            StoreError::Full { .. } if !self.unsettled.is() && !self.store_full => {
                self.store_full = true;
                self.forget();
            }
            StoreError::Full { .. } if !self.unsettled.is() => {
                return Err(self.given_up(Fault::store_full()));
            }
            // An earlier try may still arrive, and is settled only once there is space again.
            StoreError::Full { .. } => self.parts.iter().for_each(|part| part.lent.stuck.say()),
            StoreError::Indeterminate { detail } => {
                if let Some(unsaid) = self.shared.trouble.speak() {
                    warn!(resource = %self.lead(), detail, unsaid, "the outcome of a commit of several resources is unknown; settling it");
                }
            }
            StoreError::Corrupt { key, reason } => {
                if let Some(unsaid) = self.shared.corruption.speak() {
                    error!(key, reason, unsaid, "a record cannot be trusted");
                }
                return Err(self.given_up(Fault::CorruptRecord));
            }
        }
        self.overtaken += 1;
        let enough = !self.unsettled.is() && self.overtaken > OVERTAKEN_MAX;
        if enough || self.shared.tasks.ended() {
            return Err(self.given_up(unavailable()));
        }
        self.pace.wait().await;
        Ok(())
    }

    /// Ends without an answer. What may have been sent is unknown; what was not is as the fault says.
    pub(super) fn given_up(&mut self, fault: Fault) -> Fault {
        self.forget();
        if self.unsettled.is() {
            return Fault::UnknownOutcome {
                retry_after: UNKNOWN_RETRY,
            };
        }
        fault
    }
}

fn unavailable() -> Fault {
    Fault::StoreUnavailable {
        retry_after: FAULT_RETRY,
    }
}
