//! Lanes lent together: what is asked of their resources is judged, committed and settled as one.
//!
//! It is one commit, under the guards of all, and so it is settled as that of one lane is (see [`crate::engine::round`]): the same
//! question is asked again under the same guards until one reply comes, and until then all lanes stand still. If a repetition
//! is applied, the guards of the first try can never hold again; if its guards fail, either the first try shows in the lead's record, or
//! a guard that has failed keeps it from ever being applied. But guards on queues may hold again. So if these alone may have failed
//! it stays unsettled, and so it does if there is nothing to write any more: then the lead's record is put before anybody is told.

mod failed;
mod without_space;

use std::sync::atomic::Ordering;

use tokio_util::sync::CancellationToken;
use tracing::error;

use super::question::Question;
use crate::domain::ids::{ReservationId, ResourceId};
use crate::domain::judge::{
    Answer, Concerted, Fold, RecordWrite, ReservationChange, Several, Standing,
};
use crate::domain::token::{Revision, Timeline};
use crate::engine::facade::STOPPING_RETRY;
use crate::engine::fault::Fault;
use crate::engine::lane::{self, Belief, Shared};
use crate::engine::lanes::Lanes;
use crate::engine::loan::Lent;
use crate::engine::outcome::known_after;
use crate::engine::pace::Pace;
use crate::engine::round::settling::{Unsettled, leaves, queue_guard};
use crate::engine::round::{FAULT_RETRY, OVERTAKEN_MAX, overtaken};
use crate::engine::ticket::Progress;
use crate::store::{
    Commit, MachineGuard, MemberOutcome, ReadAsk, ReservationGuard, ReservationWrite, Seen,
    StoreError,
};

/// A resource whose lane was lent.
#[derive(Debug)]
struct Part {
    resource: ResourceId,
    standing: Option<Standing>,
    lent: Lent,
}

/// The lanes. With it they are given back.
#[derive(Debug)]
pub(super) struct Joint<'a> {
    shared: &'a Shared,
    progress: &'a Progress,
    /// In the order of their resources; the first leads.
    parts: Vec<Part>,
    /// The timeline that the standings belong to.
    timeline: Timeline,
    /// Whether they were read, at one moment, after the question was asked.
    fresh: bool,
    /// Whether a commit may still arrive.
    unsettled: Unsettled,
    /// Whether etcd has said that it has no space left.
    store_full: bool,
    overtaken: usize,
    /// How often etcd had too much to do for it.
    turned_away: u32,
    pace: Pace,
}

impl Drop for Joint<'_> {
    fn drop(&mut self) {
        let timeline = self.timeline;
        for part in &mut self.parts {
            let standing = part.standing.take();
            part.lent.belief = standing.map(|standing| Belief { timeline, standing });
        }
    }
}

impl<'a> Joint<'a> {
    pub(super) fn new(shared: &'a Shared, progress: &'a Progress) -> Self {
        Self {
            shared,
            progress,
            parts: Vec::new(),
            timeline: shared.store.timeline(),
            fresh: false,
            unsettled: Unsettled::default(),
            store_full: false,
            overtaken: 0,
            turned_away: 0,
            pace: Pace::new(),
        }
    }

    /// Borrows further lanes, one after another. They come behind those that were lent before, in the order of all resources.
    pub(super) async fn borrow(
        &mut self,
        lanes: &Lanes,
        resources: &[ResourceId],
        gone: &CancellationToken,
    ) -> Result<(), Fault> {
        for resource in resources {
            debug_assert!(
                self.parts
                    .last()
                    .is_none_or(|part| part.resource < *resource)
            );
            let lane = lanes.borrow(resource).ok_or_else(lane::full)?;
            let mut lent = tokio::select! {
                lent = lane => lent.map_err(|_| Fault::Stopping { retry_after: STOPPING_RETRY })??,
                () = gone.cancelled() => return Err(Fault::DeadlinePassed),
            };
            let belief = lent.belief.take();
            self.fresh = false;
            self.parts.push(Part {
                resource: resource.clone(),
                standing: belief.and_then(|belief| belief.within(self.timeline)),
                lent,
            });
        }
        Ok(())
    }

    /// The other resources of a round, if it is live and that of the one resource lent so far.
    pub(super) async fn others_of(
        &mut self,
        reservation: &ReservationId,
    ) -> Result<Option<Vec<ResourceId>>, Fault> {
        loop {
            self.follow_timeline();
            // A round that a belief shows may be over, but its resources are what they were.
            let others = self.judging(|several| several.others_of(reservation));
            if others.is_some() || self.fresh {
                return Ok(others);
            }
            self.read().await?;
        }
    }

    /// Works until the question is answered.
    pub(super) async fn settle(&mut self, question: &mut Question) -> Result<Answer, Fault> {
        loop {
            if !self.is_up_to_date().await? {
                continue;
            }
            if self.store_full && !self.fresh {
                self.read().await?;
                continue;
            }
            let concerted = self.judging(|several| question.put_to(several));
            if self.unsettled.is() && self.fresh && !concerted.writes() {
                let writes = self.judging(|several| several.settling());
                self.commit(question, writes).await?;
                continue;
            }
            match concerted {
                Concerted::Commit { draft, writes } if self.store_full && !self.unsettled.is() => {
                    if let Some(at) = self.without_space(writes).await? {
                        return Ok(draft.finish(Some(at)));
                    }
                }
                Concerted::Commit { draft, writes }
                    if self.fresh || writes.iter().all(Option::is_some) =>
                {
                    if let Some(at) = self.commit(question, writes).await? {
                        return Ok(draft.finish(Some(at)));
                    }
                }
                Concerted::Unleased => {
                    let taken = question.take_lease(&self.shared.leases).await;
                    taken.map_err(|fault| self.given_up(fault))?;
                }
                Concerted::Answer(draft) if self.fresh => return Ok(draft.finish(None)),
                Concerted::Unfit { field, reason } if self.fresh => {
                    return Err(Fault::InvalidField {
                        field: field.to_owned(),
                        reason: reason.to_owned(),
                    });
                }
                // The store was put back to a time when the round was live.
                Concerted::Incomplete if self.fresh => {
                    return Err(Fault::StoreUnavailable {
                        retry_after: FAULT_RETRY,
                    });
                }
                Concerted::Commit { .. }
                | Concerted::Answer(_)
                | Concerted::Unfit { .. }
                | Concerted::Incomplete => self.read().await?,
            }
        }
    }

    /// Whether the timeline in force is known, and the store's clock in it; if not, they may be now.
    async fn is_up_to_date(&mut self) -> Result<bool, Fault> {
        if let Some(halt) = self.shared.store.halt() {
            // What was sent before can no longer be committed; whether it was, is not known.
            return Err(self.given_up(Fault::Halted { halt }));
        }
        self.follow_timeline();
        if self.shared.clock.is_of(self.timeline) {
            return Ok(true);
        }
        if let Err(error) = self.shared.follow_clock().await {
            self.unanswered(error).await?;
        }
        Ok(false)
    }

    /// What is remembered of another timeline counts no more.
    fn follow_timeline(&mut self) {
        let in_force = self.shared.store.timeline();
        if in_force != self.timeline {
            self.timeline = in_force;
            self.forget();
        }
    }

    fn forget(&mut self) {
        self.fresh = false;
        for part in &mut self.parts {
            part.standing = None;
        }
    }

    /// Judges over what is known now, or guessed.
    fn judging<T>(&self, judge: impl FnOnce(Several<'_>) -> T) -> T {
        let guess = Standing::absent();
        let now = self.shared.clock.when();
        let mut folds = self.parts.iter().map(|part| {
            let standing = part.standing.as_ref().unwrap_or(&guess);
            Fold::begin(&part.resource, standing, self.timeline, now)
        });
        let lead = folds.next().expect("lanes are lent before they are asked");
        judge(Several::new(lead, folds.collect()))
    }

    /// Reads all resources at one moment.
    async fn read(&mut self) -> Result<(), Fault> {
        let asks = self.parts.iter().map(|part| ReadAsk {
            resource: part.resource.clone(),
            operations: Vec::new(),
            machine: false,
        });
        let found = self.shared.reader.read_all(asks.collect()).await;
        let found = found.and_then(|found| found.into_iter().collect::<Result<Vec<_>, _>>());
        match found {
            Ok(found) => {
                let all = 0..self.parts.len();
                self.learn(all.collect(), found)
            }
            Err(error) => self.unanswered(error).await,
        }
    }

    /// Commits for all. `None`: nothing was written, or nobody knows; what is known now has to be judged again.
    async fn commit(
        &mut self,
        question: &mut Question,
        writes: Vec<Option<RecordWrite>>,
    ) -> Result<Option<Revision>, Fault> {
        if !self.progress.send() {
            return Err(Fault::DeadlinePassed);
        }
        let (mut at, mut commits, mut counted) = (Vec::new(), Vec::new(), Vec::new());
        for (index, (part, write)) in self.parts.iter().zip(writes).enumerate() {
            if let Some(write) = write {
                at.push(index);
                counted.push(write.counted.clone());
                commits.push(part.commit(write));
            }
        }
        let prepared = self.shared.store.prepare_together(&commits);
        if prepared.timeline() != self.timeline {
            return Ok(None);
        }
        match self.shared.committer.commit(prepared).await {
            Ok((MemberOutcome::Committed { .. }, revision)) => {
                self.unsettled.settle();
                self.shared.kept_something.store(true, Ordering::Release);
                for ((index, done), counted) in at.into_iter().zip(commits).zip(counted) {
                    if let Some(part) = self.parts.get_mut(index) {
                        let before = part.standing.take().unwrap_or_default();
                        let known = known_after(before, done, revision);
                        part.standing = known.map(|known| known.counted(&counted));
                    }
                }
                Ok(Some(revision))
            }
            Ok((MemberOutcome::Overtaken(first, others), _)) => {
                let was_unsettled = self.unsettled.is();
                self.overtaken += 1;
                let mut found = others;
                found.insert(0, *first);
                let judged = commits.iter().map(|commit| commit.seen);
                self.unsettled.overtaken_together(judged.zip(&found));
                self.learn(at, found)?;
                if was_unsettled {
                    // What was read may show that it was done. That has to be judged before anybody is told that nothing was.
                    self.overtaken = 0;
                    let lead = self.parts.first().and_then(|part| part.standing.as_ref());
                    question.rename_unless(|nonce| lead.is_some_and(|lead| lead.names(nonce)));
                }
                if self.overtaken > OVERTAKEN_MAX {
                    return Err(overtaken());
                }
                Ok(None)
            }
            Err(error) => {
                if let StoreError::Indeterminate { .. } = error {
                    commits
                        .iter()
                        .for_each(|one| self.unsettled.lost(one.queue));
                }
                // Boxed, for it is rare and large.
                Box::pin(self.failed(error, Some(question))).await?;
                Ok(None)
            }
        }
    }

    /// Takes over what etcd said of these parts, all at one moment after the question was asked.
    fn learn(&mut self, at: Vec<usize>, found: Vec<Seen>) -> Result<(), Fault> {
        self.fresh = at.len() == self.parts.len();
        for (index, seen) in at.into_iter().zip(found) {
            let Some(part) = self.parts.get_mut(index) else {
                continue;
            };
            let before = part.standing.take().unwrap_or_default();
            let reservation = seen.reservation.map(|reservation| reservation.granted);
            match Standing::seen(seen.record, reservation) {
                Ok(known) => {
                    let known = known.with_operations(seen.operations).remembering(before);
                    let queue = seen.queue.map(|queue| self.shared.trusted(queue));
                    part.standing = Some(known.with_queue(queue));
                }
                Err(inconsistent) => {
                    let key = self.shared.store.key_of(&part.resource);
                    if let Some(unsaid) = self.shared.corruption.speak() {
                        error!(%key, %inconsistent, unsaid, "a record and its reservation key do not fit together");
                    }
                    return Err(self.given_up(Fault::CorruptRecord));
                }
            }
        }
        Ok(())
    }

    fn lead(&self) -> String {
        let lead = self.parts.first();
        lead.map_or_else(String::new, |part| part.resource.to_string())
    }
}

impl Part {
    /// What is to be written of this resource, under what is known of it.
    fn commit(&self, write: RecordWrite) -> Commit {
        let standing = self.standing.as_ref();
        let granted = standing.and_then(Standing::reservation);
        Commit {
            resource: self.resource.clone(),
            seen: standing.and_then(Standing::revision),
            reservation: granted.map_or(ReservationGuard::Absent, ReservationGuard::GrantedAt),
            machine: MachineGuard::None,
            queue: queue_guard(write.turn),
            leaves: leaves(write.turn),
            absent_operations: write.leaving,
            record: write.record,
            reservation_write: match write.reservation {
                ReservationChange::Keep => ReservationWrite::Keep,
                ReservationChange::Grant(lease) => ReservationWrite::Grant(lease),
                ReservationChange::End => ReservationWrite::Delete,
            },
            operations: write.operations,
            incidents: write.incidents,
            gone: write.gone,
        }
    }
}
