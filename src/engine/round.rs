//! One round of a lane's work: fold what waits, commit it, answer.
//!
//! What the lane believes of its resource is only ever a guess: each commit carries it as a guard, and when the guard fails
//! the commit brings back what is true, and the same requests are folded again. A commit whose reply is lost closes the lane:
//! the same requests are sent again under the same guard until one reply comes. If the first did arrive, the guard of the
//! second fails and the record shows it (each request knows its own writes by their nonce); if the second is applied, the
//! guard of the first can never hold again. Either way the truth is known, and only then is anybody answered.
//!
//! That holds because no guard that has failed ever holds again while the request could still arrive (but for that on the queue,
//! see [`settling`]): a record's revision only
//! rises, a reservation key that is gone is never the same again, one that comes changes the record, an operation in a key of
//! its own is removed together with a change of the record, and a timeline does not come back. A record itself is removed only
//! when nobody has touched it for a whole retention, the shortest of which is far longer than a request can be under way.
//!
//! The repetition need not come to the same: time goes on, and what was allowed at first may be too old now. So as long as an
//! earlier commit may still arrive, whatever is folded puts the record, and nothing is answered before that went through, even
//! if there is nothing else to write. Without it an incident alone would be written, "never" be answered, and the guard of the
//! first commit still hold.

mod answers;
mod evidence;
mod failed;
mod folding;
mod full;
pub(super) mod settling;
mod unleased;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::atomic::Ordering;
use std::time::Duration;

use tracing::error;

use super::fault::Fault;
use super::lane::{Belief, Shared, Stuck};
use super::laws::LawSince;
use super::outcome::{count_repeats, known_after};
use super::pace::Pace;
use super::ticket::Ticket;
use crate::domain::decision::IncidentId;
use crate::domain::ids::{OperationId, ResourceId};
use crate::domain::incident::KeptEvidence;
use crate::domain::judge::{Draft, RecordWrite, ReservationChange, Standing};
use crate::domain::record::LeaseId;
use crate::domain::token::{Revision, Timeline};
use crate::store::{
    Commit, MachineGuard, MemberOutcome, ReadAsk, ReservationGuard, ReservationWrite, Seen,
    StoreError,
};
use settling::{Unsettled, leaves, queue_guard};

/// How often a lane folds anew because others were first, before it gives up for now.
pub(super) const OVERTAKEN_MAX: usize = 64;
/// How often the requests of a round are sent again because etcd had too much to do, with growing pauses: about two seconds.
pub(super) const TURNED_AWAY_MAX: u32 = 6;
/// When to ask again after a fault of the store or too much contention.
pub(super) const FAULT_RETRY: Duration = Duration::from_millis(500);

/// Others were first too often.
pub(super) fn overtaken() -> Fault {
    Fault::Overloaded {
        what: "others changed what is stored here before each try",
        limit: OVERTAKEN_MAX,
        retry_after: FAULT_RETRY,
    }
}

/// One round of a lane's work: the requests taken up together, until each is answered or put back.
pub(super) struct Round<'a> {
    resource: &'a ResourceId,
    shared: &'a Shared,
    tickets: VecDeque<Ticket>,
    /// The timeline that the standing belongs to.
    timeline: Timeline,
    standing: Option<Standing>,
    /// What the last fold judged by.
    law: LawSince,
    /// When the machine was put in force that was found together with the standing, if that was looked at.
    law_found: Option<Option<Revision>>,
    /// Whether the standing was read or confirmed after these requests were taken up.
    fresh: bool,
    /// Whether a commit of this round may still arrive.
    unsettled: Unsettled,
    /// What incidents that are to get evidence keep already, as it was read in this round.
    evidence: BTreeMap<IncidentId, KeptEvidence>,
    /// The lease that the last commit was to hang a key on.
    granting: Option<LeaseId>,
    overtaken: usize,
    /// How often etcd had too much to do for the requests of this round.
    turned_away: u32,
    /// Whether etcd has no space: what needs a write is answered so, one request after another, and the rest by what is true.
    store_full: bool,
    /// Where it says that it cannot go on.
    stuck: &'a Stuck,
    pace: Pace,
}

/// What one fold came to.
#[derive(Default)]
struct Folded {
    /// Answers, for as many requests from the front.
    drafts: Vec<Draft>,
    /// What to write, if anything.
    write: Option<(RecordWrite, ReservationGuard, Option<Revision>)>,
    /// Operations taken to have no keys of their own.
    absent: BTreeSet<OperationId>,
    /// Whether anything was judged by the law.
    lawful: bool,
    /// Whether the first request left has no answer because of a record, or a law, that is only believed.
    unconfirmed: bool,
    /// Whether the first request left would be granted, once it has a lease.
    unleased: bool,
    /// Incidents of which it has to be known first what they keep.
    unread: Vec<IncidentId>,
}

enum Next {
    /// Fold again.
    Again,
    /// This round is done; what is left in `tickets` waits for the next.
    Done,
}

impl<'a> Round<'a> {
    pub(super) fn new(
        resource: &'a ResourceId,
        shared: &'a Shared,
        tickets: VecDeque<Ticket>,
        belief: Option<Belief>,
        stuck: &'a Stuck,
    ) -> Self {
        let timeline = shared.store.timeline();
        Self {
            resource,
            shared,
            tickets,
            timeline,
            standing: belief.and_then(|belief| belief.within(timeline)),
            law: LawSince::default(),
            law_found: None,
            fresh: false,
            unsettled: Unsettled::default(),
            evidence: BTreeMap::new(),
            granting: None,
            overtaken: 0,
            turned_away: 0,
            store_full: false,
            stuck,
            pace: Pace::new(),
        }
    }

    /// Works until each request is answered or has to wait for the next commit. Gives back those, and what is believed now.
    pub(super) async fn settle(mut self) -> (VecDeque<Ticket>, Option<Belief>) {
        while let Next::Again = self.step().await {}
        let timeline = self.timeline;
        let belief = self.standing.map(|standing| Belief { timeline, standing });
        (self.tickets, belief)
    }

    async fn step(&mut self) -> Next {
        // A request whose commit was sent can no longer be withdrawn: it stays until the outcome is known.
        self.shared.drop_withdrawn(&mut self.tickets);
        if self.tickets.is_empty() {
            return Next::Done;
        }
        if let Some(halt) = self.shared.store.halt() {
            // What is remembered belongs to a history that may have been lost.
            self.fail_all(&Fault::Halted { halt });
            return Next::Done;
        }
        let in_force = self.shared.store.timeline();
        if in_force != self.timeline {
            // Another lane, or a read of this one, found it replaced: nothing that is remembered counts any more.
            self.timeline = in_force;
            self.standing = None;
            self.fresh = false;
            self.law_found = None;
        }
        if !self.shared.clock.is_of(self.timeline)
            && let Err(error) = Box::pin(self.shared.follow_clock()).await
        {
            return Box::pin(self.unanswered(error)).await;
        }
        if let Err(error) = self.look_up_law().await {
            return Box::pin(self.unanswered(error)).await;
        }
        let folded = self.fold();
        if !folded.unread.is_empty() {
            // Boxed, for it is rare, and every lane's task would be made to hold it.
            return Box::pin(self.read_evidence(folded.unread)).await;
        }
        match folded.write {
            // Boxed, for it is rare, and every lane's task would be made to hold it.
            None if folded.unleased => Box::pin(self.take_lease()).await,
            None => self.confirm(folded).await,
            // Boxed, for it is rare.
            Some(_) if self.store_full => Box::pin(self.without_space(folded)).await,
            Some(_) => self.commit(folded).await,
        }
    }

    /// Takes the law as it is known now. One that was found replaced is read first.
    async fn look_up_law(&mut self) -> Result<(), StoreError> {
        let kind = self.resource.kind();
        self.law = self.shared.laws.of(kind, self.timeline);
        if let Some(found) = self.law_found
            && found != self.law.since
        {
            // Boxed, for it is rare and large: every lane's task would be made to hold it.
            Box::pin(self.shared.laws.learn(kind, self.timeline, found)).await?;
            self.law = self.shared.laws.of(kind, self.timeline);
        }
        Ok(())
    }

    /// Nothing is to be written: the answers need only be true at some moment after they were asked for.
    async fn confirm(&mut self, folded: Folded) -> Next {
        let Folded {
            drafts,
            absent,
            lawful,
            unconfirmed,
            ..
        } = folded;
        if drafts.is_empty() && !unconfirmed {
            return Next::Done;
        }
        let confirmed = self.fresh
            && (!lawful || self.law_found == Some(self.law.since))
            && self
                .standing
                .as_ref()
                .is_some_and(|known| known.knows_absent(&absent));
        if confirmed {
            count_repeats(&mut self.standing, &drafts, &[]);
            self.answer(drafts, None, Vec::new());
            return Next::Done;
        }
        let looked_for: Vec<_> = absent.into_iter().collect();
        let ask = ReadAsk {
            resource: self.resource.clone(),
            operations: looked_for.clone(),
            machine: lawful,
        };
        match self.shared.reader.read(ask).await {
            Ok(seen) => self.learn(seen, looked_for),
            // Boxed, for it is rare and large: every lane's task would be made to hold it.
            Err(error) => Box::pin(self.unanswered(error)).await,
        }
    }

    async fn commit(&mut self, folded: Folded) -> Next {
        let Folded {
            drafts,
            write,
            absent,
            lawful,
            ..
        } = folded;
        let Some((write, guard, seen)) = write else {
            return Next::Again;
        };
        let counted = write.counted;
        let part_of_it = drafts.len();
        if !self.tickets.iter().take(part_of_it).all(Ticket::send) {
            // Somebody withdrew since the fold began: it has to be folded without that request.
            return Next::Again;
        }
        // What leaves the record must find its key free: a value that somebody else put there is never overwritten.
        let looked_for = absent.into_iter().chain(write.leaving.clone());
        let looked_for: Vec<_> = looked_for.collect::<BTreeSet<_>>().into_iter().collect();
        let commit = Commit {
            resource: self.resource.clone(),
            seen,
            reservation: guard,
            machine: if lawful {
                self.law.guard()
            } else {
                MachineGuard::None
            },
            queue: queue_guard(write.turn),
            leaves: leaves(write.turn),
            absent_operations: looked_for.clone(),
            record: write.record,
            reservation_write: match write.reservation {
                ReservationChange::Keep => ReservationWrite::Keep,
                ReservationChange::Grant(lease) => ReservationWrite::Grant(lease),
                ReservationChange::End => ReservationWrite::Delete,
            },
            operations: write.operations,
            incidents: write.incidents,
            gone: write.gone,
        };
        let prepared = self.shared.store.prepare(&commit);
        if prepared.timeline() != self.timeline {
            return Next::Again;
        }
        self.granting = match write.reservation {
            ReservationChange::Grant(lease) => Some(lease),
            ReservationChange::Keep | ReservationChange::End => None,
        };
        match self.shared.committer.commit(prepared).await {
            Ok((MemberOutcome::Committed { raised }, revision)) => {
                self.unsettled.settle();
                self.shared.kept_something.store(true, Ordering::Release);
                let before = self.standing.take().unwrap_or_default();
                let known = known_after(before, commit, revision);
                self.standing = known.map(|known| known.counted(&counted));
                count_repeats(&mut self.standing, &drafts, &counted);
                self.answer(drafts, Some(revision), raised);
                Next::Done
            }
            Ok((MemberOutcome::Overtaken(seen, _), _)) => {
                // An earlier try under the same guards either shows in what was just read, or can never be applied.
                let was_unsettled = self.unsettled.is();
                self.unsettled.overtaken(commit.seen, &seen);
                self.overtaken += 1;
                let next = self.learn(*seen, looked_for);
                if was_unsettled {
                    // What was read may show that it was done. That has to be judged before anybody is told that nothing was,
                    // however many tries it took to get here.
                    self.overtaken = 0;
                    self.rename_what_may_be_over();
                }
                if self.overtaken > OVERTAKEN_MAX {
                    self.fail_all(&overtaken());
                    return Next::Done;
                }
                next
            }
            // Boxed, for it is rare and large: every lane's task would be made to hold it.
            Err(error) => {
                if let StoreError::Indeterminate { .. } = error {
                    self.unsettled.lost(commit.queue);
                }
                Box::pin(self.failed(error)).await
            }
        }
    }

    /// Takes over what etcd said, read after these requests were taken up.
    fn learn(&mut self, seen: Seen, looked_for: Vec<OperationId>) -> Next {
        self.law_found = seen.machine;
        let before = self.standing.take().unwrap_or_default();
        let reservation = seen.reservation.map(|reservation| reservation.granted);
        match Standing::seen(seen.record, reservation) {
            Ok(known) => {
                let known = known.with_operations(seen.operations).remembering(before);
                let known = known.with_queue(seen.queue.map(|seen| self.shared.trusted(seen)));
                self.standing = Some(known.with_absent(looked_for));
                self.fresh = true;
                Next::Again
            }
            Err(inconsistent) => {
                let key = self.shared.store.key_of(self.resource);
                if let Some(unsaid) = self.shared.corruption.speak() {
                    error!(%key, %inconsistent, unsaid, "a record and its reservation key do not fit together");
                }
                self.fail_all(&Fault::CorruptRecord);
                Next::Done
            }
        }
    }
}
