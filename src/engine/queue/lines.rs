//! Who waits at this sidecar, and what is still to be written of it. No runtime, no network: what is due is taken from here,
//! and what became of it is told here.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::sync::Arc;

use tokio::sync::{Notify, OwnedSemaphorePermit};
use tokio_util::sync::DropGuard;

use super::super::facade::random_nonce;
use super::session::Open;
use super::view::First;
use crate::domain::ids::ResourceId;
use crate::domain::token::Revision;
use crate::domain::waiter::{Place, Waiter, WaiterName};
use crate::store::{Entering, WAITERS_PER_WRITE_MAX};

/// A place among all who wait at this sidecar. It is given back once the entry is gone.
pub(in crate::engine) type Seat = Arc<OwnedSemaphorePermit>;

/// All who wait here.
#[derive(Debug, Default)]
pub(super) struct Lines {
    arrivals: u64,
    /// By arrival.
    entries: BTreeMap<u64, Entry>,
    to_enter: BTreeSet<u64>,
    to_leave: VecDeque<Leaving>,
    /// Whether the session's task runs.
    at_work: bool,
    /// The session that the task used last, for the next one.
    session: Option<Open>,
    followed: HashMap<ResourceId, Followed>,
}

/// One who waits.
#[derive(Debug)]
struct Entry {
    resource: ResourceId,
    waiter: Waiter,
    name: WaiterName,
    /// Whether it is part of a write whose outcome is not known yet.
    sent: bool,
    /// `None`: it is not entered yet.
    place: Option<Place>,
    woken: Arc<Notify>,
    seat: Seat,
}

/// An entry that is to go.
#[derive(Debug)]
pub(super) struct Leaving {
    resource: ResourceId,
    name: WaiterName,
    _seat: Seat,
}

/// A resource that callers wait for here.
#[derive(Debug)]
struct Followed {
    waiters: usize,
    placed: BTreeMap<Place, u64>,
    /// The place whose turn it is, until whoever has it has asked. It goes with the place.
    asking: Option<Place>,
    bell: Arc<Notify>,
    /// Ends the task that follows.
    _end: DropGuard,
}

/// One write.
#[derive(Debug)]
pub(super) struct Batch {
    sent: Vec<(u64, Seat)>,
    pub(super) enter: Vec<Entering>,
    leaving: Vec<Leaving>,
    pub(super) leave: Vec<(ResourceId, WaiterName)>,
}

/// What is to be done.
#[derive(Debug)]
pub(super) enum Work {
    /// This is to be written.
    Write(Batch),
    /// Nothing but to keep the entries alive.
    Rest,
    /// Nothing; nobody waits. The task ends.
    Done,
}

impl Lines {
    /// One more waits. `follow` begins to follow the resource, if nobody does. Answers who it is, and whether the session's task
    /// has to be started.
    pub(super) fn enter(
        &mut self,
        resource: &ResourceId,
        waiter: Waiter,
        seat: Seat,
        follow: impl FnOnce() -> (Arc<Notify>, DropGuard),
    ) -> (u64, Arc<Notify>, bool) {
        self.arrivals += 1;
        let arrival = self.arrivals;
        let followed = self.followed.entry(resource.clone()).or_insert_with(|| {
            let (bell, end) = follow();
            Followed {
                waiters: 0,
                placed: BTreeMap::new(),
                asking: None,
                bell,
                _end: end,
            }
        });
        followed.waiters += 1;
        let woken = Arc::new(Notify::new());
        let entry = Entry {
            resource: resource.clone(),
            waiter,
            name: name(arrival),
            sent: false,
            place: None,
            woken: Arc::clone(&woken),
            seat,
        };
        self.entries.insert(arrival, entry);
        self.to_enter.insert(arrival);
        (arrival, woken, !std::mem::replace(&mut self.at_work, true))
    }

    /// One waits no longer. `taken`: its entry went with the commit that was made under this place.
    pub(super) fn leave(&mut self, arrival: u64, taken: Option<Place>) {
        let Some(entry) = self.entries.remove(&arrival) else {
            return;
        };
        self.to_enter.remove(&arrival);
        if let Some(followed) = self.followed.get_mut(&entry.resource) {
            followed.waiters -= 1;
            if let Some(place) = &entry.place {
                followed.placed.remove(place);
                followed.asking.take_if(|asking| asking == place);
            }
            followed.bell.notify_one();
            if followed.waiters == 0 {
                self.followed.remove(&entry.resource);
            }
        }
        // One whose write is under way is told of when that is known.
        if entry.place.is_some() && entry.place != taken {
            self.to_leave.push_back(Leaving {
                resource: entry.resource,
                name: entry.name,
                _seat: entry.seat,
            });
        }
    }

    /// Its place, if it has one.
    pub(super) fn place(&self, arrival: u64) -> Option<Place> {
        self.entries.get(&arrival)?.place
    }

    /// Its place, if it is its turn.
    pub(super) fn turn(&self, arrival: u64) -> Option<Place> {
        let entry = self.entries.get(&arrival)?;
        let followed = self.followed.get(&entry.resource)?;
        entry.place.filter(|_| followed.asking == entry.place)
    }

    /// It has asked under this place, and waits on.
    pub(super) fn back(&mut self, arrival: u64, asked: Option<Place>) {
        let Some(entry) = self.entries.get(&arrival) else {
            return;
        };
        // It may have got another place meanwhile, and it may be the turn of that.
        if let Some(followed) = self.followed.get_mut(&entry.resource)
            && asked.is_some()
            && followed.asking == asked
        {
            followed.asking = None;
            followed.bell.notify_one();
        }
    }

    /// Wakes whoever is first, if it waits here, nobody is asking, and it is not the one of `but`. Answers whom.
    pub(super) fn wake(
        &mut self,
        resource: &ResourceId,
        first: First,
        but: Option<Place>,
    ) -> Option<Place> {
        let followed = self.followed.get_mut(resource)?;
        if followed.asking.is_some() {
            return None;
        }
        let (place, arrival) = match first {
            First::Exactly(place) => (place, *followed.placed.get(&place)?),
            // Those who were entered together all wait at the same sidecar.
            First::OfThose(since) => {
                let (place, arrival) = followed.placed.first_key_value()?;
                (place.since == since).then_some((*place, *arrival))?
            }
        };
        if but == Some(place) {
            return None;
        }
        followed.asking = Some(place);
        self.entries.get(&arrival)?.woken.notify_one();
        Some(place)
    }

    /// The session that was used last, if it may still live.
    pub(super) fn take_session(&mut self) -> Option<Open> {
        self.session.take().filter(Open::may_live)
    }

    /// What is to be done next. With the end of the task its session is kept for the next one: where now and then one waits, a
    /// lease for each would be many.
    pub(super) fn work(&mut self, session: &mut Option<Open>) -> Work {
        if self.to_enter.is_empty() && self.to_leave.is_empty() {
            if !self.entries.is_empty() {
                return Work::Rest;
            }
            self.at_work = false;
            self.session = session.take();
            return Work::Done;
        }
        let leaving = self.to_leave.len().min(WAITERS_PER_WRITE_MAX);
        let leaving: Vec<_> = self.to_leave.drain(..leaving).collect();
        let mut batch = Batch {
            sent: Vec::new(),
            enter: Vec::new(),
            leave: leaving
                .iter()
                .map(|one| (one.resource.clone(), one.name))
                .collect(),
            leaving,
        };
        while batch.leave.len() + batch.enter.len() < WAITERS_PER_WRITE_MAX
            && let Some(arrival) = self.to_enter.pop_first()
        {
            let Some(entry) = self.entries.get_mut(&arrival) else {
                continue;
            };
            entry.sent = true;
            batch.sent.push((arrival, Arc::clone(&entry.seat)));
            batch.enter.push(Entering {
                name: entry.name,
                resources: vec![entry.resource.clone()],
                waiter: entry.waiter.clone(),
            });
        }
        Work::Write(batch)
    }

    /// A write was done.
    pub(super) fn written(&mut self, batch: Batch, since: Revision) {
        for ((arrival, seat), entering) in batch.sent.into_iter().zip(batch.enter) {
            let name = entering.name;
            let Some(entry) = self.entries.get_mut(&arrival) else {
                // It left meanwhile.
                let leaving = entering.resources.into_iter().map(|resource| Leaving {
                    resource,
                    name,
                    _seat: Arc::clone(&seat),
                });
                self.to_leave.extend(leaving);
                continue;
            };
            let place = Place { since, name };
            entry.sent = false;
            entry.place = Some(place);
            if let Some(followed) = self.followed.get_mut(&entry.resource) {
                followed.placed.insert(place, arrival);
                followed.bell.notify_one();
            }
        }
    }

    /// A write was certainly not done, and is to be tried again.
    pub(super) fn put_back(&mut self, batch: Batch) {
        for (arrival, _) in batch.sent {
            if let Some(entry) = self.entries.get_mut(&arrival) {
                entry.sent = false;
                self.to_enter.insert(arrival);
            }
        }
        for leaving in batch.leaving.into_iter().rev() {
            self.to_leave.push_front(leaving);
        }
    }

    /// The session is over, and all its entries with it: they are entered anew, under other names, for the old ones are known.
    pub(super) fn lost(&mut self, batch: Batch) {
        drop(batch);
        self.to_leave.clear();
        for followed in self.followed.values_mut() {
            followed.placed.clear();
            // Whoever was woken and has not looked yet would find that it has no place, and nobody else would ever be woken.
            followed.asking = None;
        }
        for (arrival, entry) in &mut self.entries {
            entry.sent = false;
            entry.place = None;
            entry.name = name(*arrival);
            self.to_enter.insert(*arrival);
        }
    }

    /// The session is over although nothing was being written.
    pub(super) fn lost_at_rest(&mut self) {
        self.lost(Batch {
            sent: Vec::new(),
            enter: Vec::new(),
            leaving: Vec::new(),
            leave: Vec::new(),
        });
    }

    /// The sidecar ends and etcd cannot be reached: what is left goes with the session.
    pub(super) fn give_up(&mut self) {
        self.to_enter.clear();
        self.to_leave.clear();
    }

    /// How many wait, and for how many resources.
    pub(super) fn counts(&self) -> usize {
        self.entries.len()
    }
}

fn name(arrival: u64) -> WaiterName {
    WaiterName {
        arrival,
        nonce: random_nonce(),
    }
}

#[cfg(test)]
mod tests;
