//! What is done about several resources when etcd has no space left.
//!
//! As with one resource (see [`crate::engine::round`]): what etcd said it had no space for may have been applied, so what is true
//! is read first, and shows this question's own commit by its nonce. What still needs a write is then refused, but for a release:
//! it ends the round by deleting its reservation keys alone.

use super::Joint;
use crate::domain::judge::{RecordWrite, ReservationChange};
use crate::domain::token::Revision;
use crate::engine::fault::Fault;
use crate::engine::ticket::UNKNOWN_RETRY;
use crate::store::{Commit, MemberOutcome, StoreError};

impl Joint<'_> {
    /// The question would be answered by these writes. `None`: they rest on what is not so any more.
    pub(super) async fn without_space(
        &mut self,
        writes: Vec<Option<RecordWrite>>,
    ) -> Result<Option<Revision>, Fault> {
        let mut commits = Vec::new();
        for (part, write) in self.parts.iter().zip(writes) {
            let Some(write) = write else { continue };
            if write.reservation != ReservationChange::End {
                return Err(self.given_up(Fault::store_full()));
            }
            commits.push(Commit {
                absent_operations: Vec::new(),
                record: None,
                operations: Vec::new(),
                incidents: Vec::new(),
                gone: Default::default(),
                ..part.commit(write)
            });
        }
        if !self.progress.send() {
            return Err(Fault::DeadlinePassed);
        }
        let prepared = self.shared.store.prepare_together(&commits);
        if prepared.timeline() != self.timeline {
            return Ok(None);
        }
        // The records still show the round, and that its keys are gone: it looks as if its time had run out.
        self.forget();
        match self.shared.committer.commit(prepared).await {
            Ok((MemberOutcome::Committed { .. }, revision)) => Ok(Some(revision)),
            Ok((MemberOutcome::Overtaken(..), _)) => Ok(None),
            // Should it arrive later, it ends the round that was to end, or nothing.
            Err(StoreError::Indeterminate { .. }) => Err(Fault::UnknownOutcome {
                retry_after: UNKNOWN_RETRY,
            }),
            Err(error) => {
                self.failed(error, None).await?;
                Ok(None)
            }
        }
    }
}
