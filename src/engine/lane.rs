//! One lane: the requests that wait for a resource, and what the sidecar believes of it.
//!
//! A lane has at most one [`Round`] of work at a time, and with it at most one commit in flight.

use std::collections::VecDeque;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

use super::committer::Committer;
use super::counts::Counts;
use super::fault::Fault;
use super::kept::{Kept, KeptHere};
use super::laws::Laws;
use super::leases::Leases;
use super::loan::Loan;
use super::narrow_keys::NarrowKeys;
use super::reader::Reader;
use super::round::{FAULT_RETRY, Round};
use super::sparing::Sparing;
use super::store_clock::StoreClock;
use super::tally::Tally;
use super::tasks::Tasks;
use super::ticket::Ticket;
use crate::domain::decision::{IncidentId, Rule};
use crate::domain::ids::ResourceId;
use crate::domain::judge::{Answer, Ask, FOLD_REQUESTS_MAX, Standing};
use crate::domain::token::Timeline;
use crate::store::{Store, StoreError};

/// Requests that may wait in one lane, and borrowers.
const LANE_QUEUE_MAX: usize = 4 * 1024;
/// Operations from keys of their own that a lane remembers between rounds, in bytes. A larger result is read again.
const KEPT_APART_BYTES_MAX: usize = 16 * 1024;

/// Too many want something of one resource.
pub(super) fn full() -> Fault {
    Fault::Overloaded {
        what: "too many requests wait for this resource",
        limit: LANE_QUEUE_MAX,
        retry_after: FAULT_RETRY,
    }
}

/// What all lanes share.
#[derive(Debug)]
pub(super) struct Shared {
    pub(super) store: Store,
    pub(super) committer: Committer,
    pub(super) reader: Reader,
    pub(super) leases: Leases,
    pub(super) laws: Laws,
    pub(super) tasks: Tasks,
    /// When it is, for what is kept for a time.
    pub(super) clock: StoreClock,
    /// What became of deliveries.
    pub(super) counts: Counts,
    /// Whether anything with an end was stored since the clock was last looked at.
    pub(super) kept_something: AtomicBool,
    /// What lanes remember beside records.
    pub(super) kept: Kept,
    /// How often incidents were found again.
    pub(super) tally: Tally,
    /// Operations that may have more than one key.
    pub(super) narrow_keys: NarrowKeys,
    /// Lines about etcd that does not answer.
    pub(super) trouble: Sparing,
    /// Lines about what cannot be trusted.
    pub(super) corruption: Sparing,
}

/// What became of a request that was added to a lane.
#[derive(Debug)]
pub(super) enum Enqueued {
    /// Nobody drives the lane; the caller has to.
    Drive,
    /// The lane is at work and will come to it.
    Waits,
    /// Too many wait.
    Full(Box<Ticket>),
}

/// What became of a borrower that was added to a lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Lending {
    /// Nobody drives the lane; the caller has to.
    Drive,
    /// The lane is at work and will come to it.
    Waits,
    /// Too many wait.
    Full,
}

impl Shared {
    /// Goes back to what the store's clock says in the timeline in force.
    pub(super) async fn follow_clock(&self) -> Result<(), StoreError> {
        let read = self.store.read_clock().await?;
        self.clock
            .begin_anew(read.timeline, read.clock.map(|(said, _)| said.now_ms));
        Ok(())
    }

    /// Answers a request, and gives back the lease that it brought along if that is certainly unused.
    pub(super) fn answer(&self, ticket: Ticket, answer: Result<Answer, Fault>) {
        if let Some(resource) = ticket.ask.delivered()
            && let Some(decision) = answer.as_ref().ok().and_then(Answer::judgement)
            && !ticket.goes_on(decision)
            && !ticket.withdrawn()
        {
            let named = ticket.ask.message();
            let named = named.and_then(|(_, intent)| intent.event.as_ref());
            // One that completes a claim by its round alone does not say what the claim was for.
            let event = named.or(decision.event.as_ref());
            self.counts.judged(resource.kind(), event, decision.verdict);
        }
        if let Ask::Reserve(_, _, Some(lease)) = &ticket.ask {
            match &answer {
                Ok(Answer::Held(_, held)) if held.lease == *lease => {}
                Err(Fault::UnknownOutcome { .. }) => self.leases.retire(*lease),
                Ok(_) | Err(_) => self.leases.put_back(*lease),
            }
        }
        if let Ok(Answer::Ended(_, round, lease)) = &answer {
            self.leases.released(*round, *lease);
        }
        ticket.answer(answer);
    }

    /// Gives a judgement, and counts what a person may want to know of it. `raised`: incidents that were found first by the
    /// commit of this judgement; each is taken out once it was told.
    pub(super) fn tell(&self, ticket: Ticket, answer: Answer, raised: &mut Vec<IncidentId>) {
        if let Some(decision) = answer.judgement() {
            let message = ticket.ask.message();
            if let Some(id) = &decision.incident {
                match raised.iter().position(|new| new == id) {
                    Some(at) => drop(raised.swap_remove(at)),
                    // What waits for another operation says nothing of that one.
                    None if decision.rule == Rule::OtherInterrupted => {
                        self.tally.note(id, None, false);
                    }
                    None => self.tally.note(
                        id,
                        message.map(|(_, intent)| &intent.digest),
                        decision.result_unkept,
                    ),
                }
            }
            if let (Some((resource, intent)), Some(earlier)) = (message, &decision.same_content_as)
            {
                self.narrow_keys.note(resource, &intent.operation, earlier);
            }
        }
        self.answer(ticket, Ok(answer));
    }

    /// Answers a request that the lane has no room for.
    pub(super) fn turn_away(&self, ticket: Ticket) {
        self.answer(ticket, Err(full()));
    }

    /// Lets go of requests that were withdrawn before anything was sent.
    pub(super) fn drop_withdrawn(&self, tickets: &mut VecDeque<Ticket>) {
        if tickets.iter().any(Ticket::withdrawn) {
            let (withdrawn, kept) = tickets.drain(..).partition::<Vec<_>, _>(Ticket::withdrawn);
            tickets.extend(kept);
            for ticket in withdrawn {
                self.answer(ticket, Err(Fault::DeadlinePassed));
            }
        }
    }
}

/// What a lane believes of its resource.
#[derive(Debug)]
pub(super) struct Belief {
    /// Of which timeline.
    pub(super) timeline: Timeline,
    pub(super) standing: Standing,
}

impl Belief {
    /// What it says, if that timeline is still in force.
    pub(super) fn within(self, timeline: Timeline) -> Option<Standing> {
        (self.timeline == timeline).then(|| self.standing.trusting_the_queue())
    }
}

/// Says that a lane's work cannot go on as long as etcd has no space. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub(super) struct Stuck(Arc<Notify>);

impl Stuck {
    /// It cannot go on now.
    pub(super) fn say(&self) {
        self.0.notify_one();
    }
}

/// One lane.
#[derive(Debug)]
pub(super) struct Lane {
    resource: ResourceId,
    queue: Mutex<Queue>,
    /// Taken by the lane while it is at work.
    belief: Mutex<Option<Belief>>,
    kept: KeptHere,
}

#[derive(Debug, Default)]
struct Queue {
    waiting: VecDeque<Ticket>,
    /// Those who want the lane to stop for them.
    borrowers: VecDeque<Loan>,
    /// Whether one of them had the last turn.
    lent_last: bool,
    at_work: bool,
}

/// What a lane does next.
enum Work {
    Requests(VecDeque<Ticket>),
    Lend(Loan),
}

impl Lane {
    pub(super) fn new(resource: ResourceId, kept: &Kept) -> Self {
        Self {
            resource,
            queue: Mutex::default(),
            belief: Mutex::default(),
            kept: kept.of_a_lane(),
        }
    }

    /// Adds a request.
    pub(super) fn enqueue(&self, ticket: Ticket, shared: &Shared) -> Enqueued {
        let mut queue = self.lock_queue();
        if queue.waiting.len() >= LANE_QUEUE_MAX {
            // Those who have left hold no place.
            shared.drop_withdrawn(&mut queue.waiting);
        }
        if queue.waiting.len() >= LANE_QUEUE_MAX {
            return Enqueued::Full(Box::new(ticket));
        }
        queue.waiting.push_back(ticket);
        if std::mem::replace(&mut queue.at_work, true) {
            Enqueued::Waits
        } else {
            Enqueued::Drive
        }
    }

    /// Adds a borrower. It counts as a request that waits.
    pub(super) fn lend(&self, loan: Loan) -> Lending {
        let mut queue = self.lock_queue();
        if queue.borrowers.len() >= LANE_QUEUE_MAX {
            queue.borrowers.retain(|loan| !loan.given_up());
        }
        if queue.borrowers.len() >= LANE_QUEUE_MAX {
            return Lending::Full;
        }
        queue.borrowers.push_back(loan);
        if std::mem::replace(&mut queue.at_work, true) {
            Lending::Waits
        } else {
            Lending::Drive
        }
    }

    pub(super) fn at_work(&self) -> bool {
        self.lock_queue().at_work
    }

    /// Works until nothing waits.
    pub(super) async fn drive(&self, shared: &Shared) {
        while let Some(work) = self.take(shared) {
            let belief = self.lock_belief().take();
            self.kept.is_now(0);
            let belief = match work {
                Work::Requests(tickets) => {
                    let stuck = Stuck::default();
                    let round = Round::new(&self.resource, shared, tickets, belief, &stuck);
                    let settled = self.answering_when_stuck(shared, &stuck, round.settle());
                    let (tickets, belief) = settled.await;
                    self.give_back(tickets);
                    belief
                }
                Work::Lend(loan) => {
                    let stuck = Stuck::default();
                    let lent = loan.lend(belief, stuck.clone());
                    self.answering_when_stuck(shared, &stuck, lent).await
                }
            };
            if let Some(mut belief) = belief {
                belief.standing.trim(KEPT_APART_BYTES_MAX);
                self.kept.is_now(belief.standing.kept_apart_bytes());
                *self.lock_belief() = Some(belief);
            }
            // A lane that answers everything from memory never waits; others want to run too.
            tokio::task::consume_budget().await;
        }
    }

    /// Works, and tells whoever waits for that when it cannot go on.
    async fn answering_when_stuck<T>(
        &self,
        shared: &Shared,
        stuck: &Stuck,
        work: impl Future<Output = T>,
    ) -> T {
        let answering = async {
            loop {
                stuck.0.notified().await;
                self.nothing_can_be_done(shared);
            }
        };
        tokio::select! {
            biased;
            done = work => done,
            () = answering => unreachable!("it goes on for ever"),
        }
    }

    /// An outcome is not settled before etcd has space again. What waits for that is told so: nothing of it was sent.
    fn nothing_can_be_done(&self, shared: &Shared) {
        let mut queue = self.lock_queue();
        let (waiting, borrowers) = (
            std::mem::take(&mut queue.waiting),
            std::mem::take(&mut queue.borrowers),
        );
        drop(queue);
        for ticket in waiting {
            shared.answer(ticket, Err(Fault::store_full()));
        }
        for loan in borrowers {
            loan.refuse(Fault::store_full());
        }
    }

    fn take(&self, shared: &Shared) -> Option<Work> {
        let mut queue = self.lock_queue();
        shared.drop_withdrawn(&mut queue.waiting);
        // Borrowers and requests take turns, so that neither wait for all of the others.
        let lent_last = std::mem::take(&mut queue.lent_last);
        if (!lent_last || queue.waiting.is_empty())
            && let Some(loan) = queue.borrowers.pop_front()
        {
            queue.lent_last = true;
            return Some(Work::Lend(loan));
        }
        if queue.waiting.is_empty() {
            queue.at_work = false;
            return None;
        }
        let many = queue.waiting.len().min(FOLD_REQUESTS_MAX);
        Some(Work::Requests(queue.waiting.drain(..many).collect()))
    }

    /// Requests that have to wait for the next commit go back to the front, in their order.
    fn give_back(&self, tickets: VecDeque<Ticket>) {
        let mut queue = self.lock_queue();
        for ticket in tickets.into_iter().rev() {
            queue.waiting.push_front(ticket);
        }
    }

    fn lock_queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn lock_belief(&self) -> MutexGuard<'_, Option<Belief>> {
        self.belief.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
