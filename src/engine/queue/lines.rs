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

/// One who waits, in the queues of one or several resources. It has the same place in each of them.
#[derive(Debug)]
struct Entry {
    resources: Arc<[ResourceId]>,
    waiter: Waiter,
    name: WaiterName,
    /// Whether it is part of a write whose outcome is not known yet.
    sent: bool,
    /// `None`: it is not entered yet.
    place: Option<Place>,
    /// How much news there had been of its resources when it was last woken.
    asked: Option<u64>,
    woken: Arc<Notify>,
    seat: Seat,
}

/// How one has left who waited.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Left {
    /// With what it waited for: its entry went with the commit that was made under this place.
    With(Place),
    /// With nothing.
    EmptyHanded,
    /// Nobody knows: a question of its own was under way.
    Unknown,
}

/// An entry that is to go, from all its queues at once.
#[derive(Debug)]
pub(super) struct Leaving {
    resources: Arc<[ResourceId]>,
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
    /// What its follower has seen last.
    offer: Offer,
    /// Counts what was new in that.
    news: u64,
    /// Somebody was woken by what was seen then, although not by this follower.
    handed_on: Option<u64>,
    /// Who has left with nothing since the follower was told so.
    empty_handed: Vec<WaiterName>,
    bell: Arc<Notify>,
    /// Ends the task that follows.
    _end: DropGuard,
}

/// What a follower sees of its resource.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Offer {
    /// Whom the resource is for. `None`: it is held, or nobody waits, or it is not known.
    pub(super) first: Option<First>,
    /// Counts what was new.
    pub(super) changes: u64,
}

/// Those who are entered by one write.
#[derive(Debug, Default)]
pub(super) struct Batch {
    sent: Vec<(u64, Seat)>,
    pub(super) enter: Vec<Entering>,
    /// How many entries these make.
    entering: usize,
}

/// Those whose entries are removed by one write.
#[derive(Debug, Default)]
pub(super) struct Removal {
    leaving: Vec<Leaving>,
    pub(super) leave: Vec<(ResourceId, WaiterName)>,
}

/// What is to be done.
#[derive(Debug)]
pub(super) enum Work {
    /// These are to be entered.
    Enter(Batch),
    /// Nothing but to keep the entries alive, and to remove those that are to go.
    Rest,
    /// Nothing; nobody waits. The task ends.
    Done,
}

impl Lines {
    /// One more waits, for each of these. `follow` begins to follow a resource, if nobody does. Answers who it is, and whether the
    /// session's task has to be started.
    pub(super) fn enter(
        &mut self,
        resources: &Arc<[ResourceId]>,
        waiter: Waiter,
        seat: Seat,
        follow: impl Fn(&ResourceId) -> (Arc<Notify>, DropGuard),
    ) -> (u64, Arc<Notify>, bool) {
        self.arrivals += 1;
        let arrival = self.arrivals;
        for resource in resources.iter() {
            let followed = self.followed.entry(resource.clone()).or_insert_with(|| {
                let (bell, end) = follow(resource);
                Followed {
                    waiters: 0,
                    placed: BTreeMap::new(),
                    asking: None,
                    offer: Offer::default(),
                    news: 0,
                    handed_on: None,
                    empty_handed: Vec::new(),
                    bell,
                    _end: end,
                }
            });
            followed.waiters += 1;
        }
        let woken = Arc::new(Notify::new());
        let entry = Entry {
            resources: Arc::clone(resources),
            waiter,
            name: name(arrival),
            sent: false,
            place: None,
            asked: None,
            woken: Arc::clone(&woken),
            seat,
        };
        self.entries.insert(arrival, entry);
        self.to_enter.insert(arrival);
        (arrival, woken, !std::mem::replace(&mut self.at_work, true))
    }

    /// One waits no longer.
    pub(super) fn leave(&mut self, arrival: u64, left: Left) {
        let Some(entry) = self.entries.remove(&arrival) else {
            return;
        };
        self.to_enter.remove(&arrival);
        for resource in entry.resources.iter() {
            let Some(followed) = self.followed.get_mut(resource) else {
                continue;
            };
            followed.waiters -= 1;
            if let Some(place) = &entry.place {
                followed.placed.remove(place);
                followed.answered(*place);
                if left == Left::EmptyHanded {
                    followed.empty_handed.push(entry.name);
                }
            }
            followed.bell.notify_one();
            if followed.waiters == 0 {
                self.followed.remove(resource);
            }
        }
        // One whose write is under way is told of when that is known.
        if entry.place.is_some_and(|place| left != Left::With(place)) {
            self.to_leave.push_back(Leaving {
                resources: entry.resources,
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
        let place = entry.place?;
        let mut followed = entry.resources.iter();
        let its_turn = followed.all(|resource| {
            let followed = self.followed.get(resource);
            followed.is_some_and(|followed| followed.asking == Some(place))
        });
        its_turn.then_some(place)
    }

    /// It has asked under this place, and waits on.
    pub(super) fn back(&mut self, arrival: u64, asked: Option<Place>) {
        let Some(entry) = self.entries.get(&arrival) else {
            return;
        };
        // It may have got another place meanwhile, and it may be the turn of that.
        let Some(asked) = asked else { return };
        for resource in entry.resources.iter() {
            if let Some(followed) = self.followed.get_mut(resource)
                && followed.answered(asked)
            {
                followed.bell.notify_one();
            }
        }
    }

    /// Takes over what is seen of a resource, and wakes whoever is first in the queues of all resources that it waits for, if all of
    /// them are free, it waits here, nobody is asking, and there was something new since it has asked. Answers whether one was
    /// woken.
    pub(super) fn offer(&mut self, resource: &ResourceId, offer: Offer) -> bool {
        self.wake(resource, offer).is_some()
    }

    fn wake(&mut self, resource: &ResourceId, offer: Offer) -> Option<Place> {
        let followed = self.followed.get_mut(resource)?;
        if followed.offer.changes != offer.changes {
            followed.news += 1;
        }
        followed.offer = offer;
        let arrival = followed.comes_first()?;
        let entry = self.entries.get_mut(&arrival)?;
        let mut news = 0;
        for each in entry.resources.iter() {
            let followed = self.followed.get(each)?;
            if followed.asking.is_some() || followed.comes_first() != Some(arrival) {
                return None;
            }
            news += followed.news;
        }
        if entry.asked.replace(news) == Some(news) {
            return None;
        }
        let place = entry.place?;
        for each in entry.resources.iter() {
            if let Some(followed) = self.followed.get_mut(each) {
                followed.asking = Some(place);
                if each != resource {
                    followed.handed_on = Some(followed.offer.changes);
                    followed.bell.notify_one();
                }
            }
        }
        entry.woken.notify_one();
        Some(place)
    }

    /// Whether another follower has woken somebody by what this one has seen after so many changes.
    pub(super) fn was_handed_on(&mut self, resource: &ResourceId, changes: u64) -> bool {
        let followed = self.followed.get_mut(resource);
        let handed_on = followed.and_then(|followed| followed.handed_on.take());
        handed_on == Some(changes)
    }

    /// Who has left with nothing since this was asked last. It is told before their entries are removed.
    pub(super) fn empty_handed(&mut self, resource: &ResourceId) -> Vec<WaiterName> {
        let followed = self.followed.get_mut(resource);
        followed.map_or_else(Vec::new, |followed| {
            std::mem::take(&mut followed.empty_handed)
        })
    }

    /// The session that was used last, if it may still live.
    pub(super) fn take_session(&mut self) -> Option<Open> {
        self.session.take().filter(Open::may_live)
    }

    /// The session that was used last, if none is used now.
    pub(super) fn session_at_end(&mut self) -> Option<Open> {
        self.session.take()
    }

    /// What is to be done next. With the end of the task its session is kept for the next one: where now and then one waits, a
    /// lease for each would be many.
    pub(super) fn work(&mut self, session: &mut Option<Open>) -> Work {
        if self.to_enter.is_empty() {
            if !self.entries.is_empty() || !self.to_leave.is_empty() {
                return Work::Rest;
            }
            self.at_work = false;
            self.session = session.take();
            return Work::Done;
        }
        let mut batch = Batch::default();
        // Each goes whole into one write, and at least one fits: nobody waits for so many.
        while let Some(arrival) = self.to_enter.first().copied() {
            let Some(entry) = self.entries.get_mut(&arrival) else {
                self.to_enter.remove(&arrival);
                continue;
            };
            if batch.entering + entry.resources.len() > WAITERS_PER_WRITE_MAX {
                break;
            }
            self.to_enter.remove(&arrival);
            entry.sent = true;
            batch.sent.push((arrival, Arc::clone(&entry.seat)));
            batch.entering += entry.resources.len();
            batch.enter.push(Entering {
                name: entry.name,
                resources: Arc::clone(&entry.resources),
                waiter: entry.waiter.clone(),
            });
        }
        Work::Enter(batch)
    }

    /// What is to be removed next. `None`: nothing.
    pub(super) fn removal(&mut self) -> Option<Removal> {
        let mut removal = Removal::default();
        while let Some(leaving) = self.to_leave.front()
            && removal.leave.len() + leaving.resources.len() <= WAITERS_PER_WRITE_MAX
            && let Some(leaving) = self.to_leave.pop_front()
        {
            let names = leaving.resources.iter();
            let names = names.map(|resource| (resource.clone(), leaving.name));
            removal.leave.extend(names);
            removal.leaving.push(leaving);
        }
        (!removal.leave.is_empty()).then_some(removal)
    }

    /// A removal has failed, and is to be tried again.
    pub(super) fn not_removed(&mut self, removal: Removal) {
        for leaving in removal.leaving.into_iter().rev() {
            self.to_leave.push_front(leaving);
        }
    }

    /// They were entered.
    pub(super) fn written(&mut self, batch: Batch, since: Revision) {
        for ((arrival, seat), entering) in batch.sent.into_iter().zip(batch.enter) {
            let name = entering.name;
            let Some(entry) = self.entries.get_mut(&arrival) else {
                // It left meanwhile.
                self.to_leave.push_back(Leaving {
                    resources: entering.resources,
                    name,
                    _seat: seat,
                });
                continue;
            };
            let place = Place { since, name };
            entry.sent = false;
            entry.place = Some(place);
            for resource in entry.resources.iter() {
                if let Some(followed) = self.followed.get_mut(resource) {
                    followed.placed.insert(place, arrival);
                    followed.bell.notify_one();
                }
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
    }

    /// The session is over, and all its entries with it: they are entered anew, under other names, for the old ones are known.
    pub(super) fn lost(&mut self) {
        self.to_leave.clear();
        for followed in self.followed.values_mut() {
            followed.placed.clear();
            // Whoever was woken and has not looked yet would find that it has no place, and nobody else would ever be woken.
            followed.asking = None;
        }
        for (arrival, entry) in &mut self.entries {
            entry.sent = false;
            entry.place = None;
            entry.asked = None;
            entry.name = name(*arrival);
            self.to_enter.insert(*arrival);
        }
    }

    /// The sidecar ends and etcd cannot be reached: what is left goes with the session.
    pub(super) fn give_up(&mut self) {
        self.to_enter.clear();
        self.to_leave.clear();
    }

    /// How many wait.
    pub(super) fn counts(&self) -> usize {
        self.entries.len()
    }
}

impl Followed {
    /// Who of those who wait here is to be handed the resource, for all that its follower has seen.
    fn comes_first(&self) -> Option<u64> {
        match self.offer.first? {
            First::Exactly(place) => self.placed.get(&place).copied(),
            // Those who were entered together all wait at the same sidecar.
            First::OfThose(since) => {
                let (place, arrival) = self.placed.first_key_value()?;
                (place.since == since).then_some(*arrival)
            }
        }
    }

    /// One has asked, or has left. Answers whether it was its turn.
    fn answered(&mut self, place: Place) -> bool {
        self.asking.take_if(|asking| *asking == place).is_some()
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
