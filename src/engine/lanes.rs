//! The lanes, one for each active resource, and how many are remembered.

use std::num::NonZeroUsize;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use lru::LruCache;
use tokio::sync::oneshot;

use super::lane::{Enqueued, Lane, Lending, Shared};
use super::loan::{LentOrNot, Loan};
use super::ticket::Ticket;
use crate::domain::ids::ResourceId;

/// Lanes by resource, those used longest ago first to be forgotten. A lane at work is never forgotten, so that a resource
/// has one lane at a time.
#[derive(Debug)]
pub(super) struct Lanes {
    shared: Arc<Shared>,
    most: NonZeroUsize,
    known: Mutex<LruCache<ResourceId, Arc<Lane>>>,
}

impl Lanes {
    pub(super) fn new(shared: Arc<Shared>, most: NonZeroUsize) -> Self {
        Self {
            shared,
            most,
            known: Mutex::new(LruCache::unbounded()),
        }
    }

    /// Puts a request into the lane of its resource and sees to it that the lane is at work.
    pub(super) fn submit(&self, resource: &ResourceId, ticket: Ticket) {
        // Held while the ticket is queued: a lane cannot be forgotten between being found and being at work.
        let mut known = self.lock();
        let lane = self.lane(&mut known, resource);
        match lane.enqueue(ticket, &self.shared) {
            Enqueued::Waits => {}
            Enqueued::Drive => self.drive(lane),
            Enqueued::Full(ticket) => self.shared.turn_away(*ticket),
        }
    }

    /// Asks the lane of a resource to stop and lend what it knows. `None`: too many want that.
    pub(super) fn borrow(&self, resource: &ResourceId) -> Option<oneshot::Receiver<LentOrNot>> {
        let (loan, lent) = Loan::ask();
        let mut known = self.lock();
        let lane = self.lane(&mut known, resource);
        match lane.lend(loan) {
            Lending::Waits => {}
            Lending::Drive => self.drive(lane),
            Lending::Full => return None,
        }
        Some(lent)
    }

    /// The lane of a resource, as it is or made anew.
    fn lane(
        &self,
        known: &mut LruCache<ResourceId, Arc<Lane>>,
        resource: &ResourceId,
    ) -> Arc<Lane> {
        match known.get(resource).map(Arc::clone) {
            Some(lane) => {
                self.make_room(known, 1);
                lane
            }
            None => {
                self.make_room(known, 0);
                let lane = Arc::new(Lane::new(resource.clone(), &self.shared.kept));
                known.put(resource.clone(), Arc::clone(&lane));
                lane
            }
        }
    }

    fn drive(&self, lane: Arc<Lane>) {
        let shared = Arc::clone(&self.shared);
        self.shared
            .tasks
            .spawn(async move { lane.drive(&shared).await });
    }

    /// Forgets a lane that has nothing to do, so that what a sweep passes by does not displace what callers ask for.
    pub(super) fn forget(&self, resource: &ResourceId) {
        let mut known = self.lock();
        if known.peek(resource).is_some_and(|lane| !lane.at_work()) {
            known.pop(resource);
        }
    }

    /// Forgets lanes until there is room for one more, and what all remember is within its limit. The youngest `spared` stay.
    fn make_room(&self, known: &mut LruCache<ResourceId, Arc<Lane>>, spared: usize) {
        // Lanes at work go to the young end; there are at most as many as calls under way.
        let mut looked_at = known.len().saturating_sub(spared);
        while (known.len() - spared >= self.most.get() || self.shared.kept.too_much())
            && looked_at > 0
        {
            looked_at -= 1;
            let Some((resource, lane)) = known.pop_lru() else {
                return;
            };
            if lane.at_work() {
                known.put(resource, lane);
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, LruCache<ResourceId, Arc<Lane>>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
