//! What a round does when etcd has no space left.
//!
//! etcd then refuses every transaction that puts something, but still reads and deletes. The write that took the last of the
//! space may have been applied, so what is true is read first: each request knows its own write by its nonce. Then one request
//! after another is judged on what is true: what needs no write is answered as ever; a release ends its round by deleting the
//! reservation key alone; all else is told that there is no space, and that nothing was done.

use super::{Folded, Next, Round};
use crate::domain::judge::{Ask, ReservationChange};
use crate::engine::fault::Fault;
use crate::store::{
    Commit, MachineGuard, MemberOutcome, QueueGuard, ReadAsk, ReservationGuard, ReservationWrite,
    StoreError,
};

impl Round<'_> {
    /// The first request left would be answered by a write.
    pub(super) async fn without_space(&mut self, folded: Folded) -> Next {
        let Folded {
            drafts,
            write,
            absent,
            lawful,
            ..
        } = folded;
        let true_now = self.fresh
            && (!lawful || self.law_found == Some(self.law.since))
            && self
                .standing
                .as_ref()
                .is_some_and(|known| known.knows_absent(&absent));
        if !true_now {
            let looked_for: Vec<_> = absent.into_iter().collect();
            let ask = ReadAsk {
                resource: self.resource.clone(),
                operations: looked_for.clone(),
                machine: lawful,
            };
            return match self.shared.reader.read(ask).await {
                Ok(seen) => self.learn(seen, looked_for),
                Err(error) => self.unanswered(error).await,
            };
        }
        let ends = write.and_then(|(write, guard, seen)| {
            (write.reservation == ReservationChange::End).then_some((guard, seen))
        });
        let releases = matches!(
            self.tickets.front().map(|ticket| &ticket.ask),
            Some(Ask::Release(..))
        );
        match ends {
            Some((guard @ ReservationGuard::GrantedAt(_), seen)) if releases => {
                let commit = Commit {
                    resource: self.resource.clone(),
                    seen,
                    reservation: guard,
                    machine: MachineGuard::None,
                    queue: QueueGuard::None,
                    leaves: None,
                    absent_operations: Vec::new(),
                    record: None,
                    reservation_write: ReservationWrite::Delete,
                    operations: Vec::new(),
                    incidents: Vec::new(),
                    gone: Default::default(),
                };
                if !self.tickets.iter().take(1).all(|ticket| ticket.send()) {
                    return Next::Again;
                }
                let prepared = self.shared.store.prepare(&commit);
                if prepared.timeline() != self.timeline {
                    return Next::Again;
                }
                match self.shared.committer.commit(prepared).await {
                    Ok((MemberOutcome::Committed { .. }, revision)) => {
                        self.unsettled.settle();
                        // The record still shows the round, and that its key is gone: it looks as if its time had run out.
                        self.standing = None;
                        self.fresh = false;
                        self.answer(drafts, Some(revision), Vec::new());
                        Next::Again
                    }
                    Ok((MemberOutcome::Overtaken(seen, _), _)) => {
                        self.unsettled.settle();
                        self.learn(*seen, Vec::new())
                    }
                    Err(error) => {
                        if let StoreError::Indeterminate { .. } = error {
                            self.unsettled.lost(QueueGuard::None);
                        }
                        self.failed(error).await
                    }
                }
            }
            // Only a bare release can have been sent since etcd was found full, and that was it, or can do nothing any more: its
            // round is over. So what is true now is the answer, and no write has to settle anything first.
            Some(_) | None if releases && self.unsettled.is() => {
                self.unsettled.settle();
                Next::Again
            }
            Some(_) | None => {
                if let Some(ticket) = self.tickets.pop_front() {
                    self.shared.answer(ticket, Err(Fault::store_full()));
                }
                Next::Again
            }
        }
    }
}
