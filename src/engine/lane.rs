//! One lane: the requests that wait for a resource, and what the sidecar believes of it.
//!
//! A lane has at most one [`Round`] of work at a time, and with it at most one commit in flight.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio_util::sync::DropGuard;

use super::committer::Committer;
use super::fault::Fault;
use super::kept::{Kept, KeptHere};
use super::leases::Leases;
use super::reader::Reader;
use super::round::{FAULT_RETRY, Round};
use super::sparing::Sparing;
use super::tasks::Tasks;
use super::ticket::Ticket;
use crate::domain::ids::{Nonce, ResourceId};
use crate::domain::judge::{Answer, Ask, FOLD_REQUESTS_MAX, Standing};
use crate::store::Store;

/// Requests that may wait in one lane.
const LANE_QUEUE_MAX: usize = 4 * 1024;
/// Operations from keys of their own that a lane remembers.
const KEPT_APART_MAX: usize = 64;

/// What all lanes share.
#[derive(Debug)]
pub(super) struct Shared {
    pub(super) store: Store,
    pub(super) committer: Committer,
    pub(super) reader: Reader,
    pub(super) leases: Leases,
    pub(super) tasks: Tasks,
    /// What lanes remember beside records.
    pub(super) kept: Kept,
    /// Lines about etcd that does not answer.
    pub(super) trouble: Sparing,
    /// Lines about what cannot be trusted.
    pub(super) corruption: Sparing,
    pub(super) _end: DropGuard,
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

impl Shared {
    /// Answers a request, and gives back the lease that it brought along if that is certainly unused.
    pub(super) fn answer(&self, ticket: Ticket, answer: Result<Answer, Fault>) {
        if let Ask::Reserve(_, _, lease) = &ticket.ask {
            match &answer {
                Ok(Answer::Held(_, held)) if held.lease == *lease => {}
                Err(Fault::UnknownOutcome { .. }) => self.leases.retire(*lease),
                Ok(_) | Err(_) => self.leases.put_back(*lease),
            }
        }
        ticket.answer(answer);
    }

    /// Answers a request that the lane has no room for.
    pub(super) fn turn_away(&self, ticket: Ticket) {
        self.answer(
            ticket,
            Err(Fault::Overloaded {
                retry_after: FAULT_RETRY,
            }),
        );
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

/// One lane.
#[derive(Debug)]
pub(super) struct Lane {
    resource: ResourceId,
    queue: Mutex<Queue>,
    /// What is believed, and of which timeline. Taken by the lane while it is at work.
    belief: Mutex<Option<(Nonce, Standing)>>,
    kept: KeptHere,
}

#[derive(Debug, Default)]
struct Queue {
    waiting: VecDeque<Ticket>,
    at_work: bool,
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
    pub(super) fn enqueue(&self, ticket: Ticket) -> Enqueued {
        let mut queue = self.lock_queue();
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

    pub(super) fn at_work(&self) -> bool {
        self.lock_queue().at_work
    }

    /// Works until nothing waits.
    pub(super) async fn drive(&self, shared: &Shared) {
        while let Some(tickets) = self.take(shared) {
            let belief = self.lock_belief().take();
            self.kept.is_now(0);
            let timeline = shared.store.timeline().id;
            let standing = belief.and_then(|(of, standing)| (of == timeline).then_some(standing));
            let round = Round::new(&self.resource, shared, tickets, standing);
            let (tickets, standing) = round.settle().await;
            self.give_back(tickets);
            if let Some(mut standing) = standing {
                standing.trim(KEPT_APART_MAX);
                self.kept.is_now(standing.kept_apart_bytes());
                *self.lock_belief() = Some((timeline, standing));
            }
        }
    }

    fn take(&self, shared: &Shared) -> Option<VecDeque<Ticket>> {
        let mut queue = self.lock_queue();
        shared.drop_withdrawn(&mut queue.waiting);
        if queue.waiting.is_empty() {
            queue.at_work = false;
            return None;
        }
        let many = queue.waiting.len().min(FOLD_REQUESTS_MAX);
        Some(queue.waiting.drain(..many).collect())
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

    fn lock_belief(&self) -> MutexGuard<'_, Option<(Nonce, Standing)>> {
        self.belief.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
