//! Which reservations are held, and what is due when. Knows no clock: each question brings the time.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use super::news::{HoldNews, Mailbox};
use crate::domain::decision::Grant;
use crate::domain::ids::{Nonce, ReservationId, ResourceId};
use crate::domain::judge::HeldRound;
use crate::domain::renewal;
use crate::domain::token::Revision;
use crate::engine::clock::Boottime;

/// A loss is decided so long before the bound, for it must be told no later, and timers are late by a little.
pub(super) const LOST_BEFORE: Duration = Duration::from_millis(100);

/// Names an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct HoldId(u64);

/// What a renewal needs to know of a reservation.
#[derive(Clone, Debug)]
pub(super) struct Holding {
    pub(super) reservation: ReservationId,
    pub(super) round: HeldRound,
    /// When its key was created, and in which timeline. `None`: its token does not tell.
    pub(super) granted: Option<(Revision, Nonce)>,
}

/// One reservation of one stream.
#[derive(Debug)]
pub(super) struct Entry {
    pub(super) holding: Holding,
    pub(super) mailbox: Arc<Mailbox>,
    /// Its place in the mailbox.
    pub(super) slot: usize,
    /// When the stream was opened; `safe_for` counts from here.
    pub(super) arrived: Boottime,
    /// Until when it is certainly held. `None`: no renewal was confirmed yet, and nothing else is known here.
    pub(super) certain: Option<Boottime>,
    /// Whether a renewal was ever confirmed.
    pub(super) renewed: bool,
    /// When it is given up.
    bound: Boottime,
    phase: Phase,
    /// Whether it is said to be over, so that this is looked at before it is renewed.
    suspect: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// Its renewal is due then.
    Until(Boottime),
    /// Its renewal is due.
    Due,
    /// A renewal is tried.
    Tried,
}

/// A renewal to be tried.
#[derive(Clone, Debug)]
pub(super) struct Try {
    pub(super) id: HoldId,
    pub(super) holding: Holding,
    pub(super) bound: Boottime,
    /// Whether it certainly lasts until then.
    pub(super) certain: bool,
    /// Look first whether it is over.
    pub(super) suspect: bool,
}

impl Entry {
    /// One whose first renewal is due at once. Until that is confirmed it is given up when what is known of it ends, or else
    /// when a whole TTL has passed without an answer: whatever its holder was told before ends no later.
    pub(super) fn new(
        holding: Holding,
        mailbox: Arc<Mailbox>,
        slot: usize,
        arrived: Boottime,
        certain: Option<Boottime>,
    ) -> Self {
        let ttl = holding.round.ttl.as_duration();
        Self {
            holding,
            mailbox,
            slot,
            arrived,
            certain,
            renewed: false,
            bound: certain.unwrap_or_else(|| arrived.plus(ttl)),
            phase: Phase::Due,
            suspect: false,
        }
    }

    pub(super) fn ttl(&self) -> Duration {
        self.holding.round.ttl.as_duration()
    }

    pub(super) fn tell(&self, news: HoldNews) {
        self.mailbox.put(self.slot, news);
    }

    /// As its holder is told of it. Without anything certain nothing is promised.
    pub(super) fn grant(&self) -> Grant {
        let HeldRound {
            token,
            ttl,
            attempt,
            ..
        } = self.holding.round;
        Grant {
            id: self.holding.reservation.clone(),
            token,
            ttl,
            safe_for: self
                .certain
                .map_or(Duration::ZERO, |until| until.since(self.arrived)),
            attempt,
        }
    }

    /// From when on it is late. One that was taken up late in its time is not so before its first try could be made.
    fn late_from(&self) -> Boottime {
        let late = self.bound.minus(renewal::late_with(self.ttl()));
        if self.renewed {
            return late;
        }
        late.max(self.arrived.plus(renewal::try_limit(self.ttl())))
    }
}

/// All of them.
#[derive(Debug, Default)]
pub(super) struct Table {
    entries: HashMap<HoldId, Entry>,
    by_resource: HashMap<ResourceId, Vec<HoldId>>,
    next: u64,
    /// Renewals that are not due yet, the next one first.
    waiting: BTreeSet<(Boottime, HoldId)>,
    /// Renewals that are due, the one whose reservation ends first before all.
    due: BTreeSet<(Boottime, HoldId)>,
    /// When each is given up.
    bounds: BTreeSet<(Boottime, HoldId)>,
    /// When each becomes late.
    late: BTreeSet<(Boottime, HoldId)>,
}

impl Table {
    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }

    pub(super) fn insert(&mut self, entry: Entry) -> HoldId {
        let id = HoldId(self.next);
        self.next += 1;
        let resource = entry.holding.reservation.resource().clone();
        self.by_resource.entry(resource).or_default().push(id);
        self.place(id, &entry);
        self.entries.insert(id, entry);
        id
    }

    pub(super) fn remove(&mut self, id: HoldId) -> Option<Entry> {
        let entry = self.entries.remove(&id)?;
        self.displace(id, &entry);
        let resource = entry.holding.reservation.resource();
        if let Some(ids) = self.by_resource.get_mut(resource) {
            ids.retain(|other| *other != id);
            if ids.is_empty() {
                self.by_resource.remove(resource);
            }
        }
        Some(entry)
    }

    /// Takes out those that must be given up by now.
    pub(super) fn given_up(&mut self, now: Boottime) -> Vec<Entry> {
        let mut over = Vec::new();
        while let Some((bound, id)) = self.bounds.first().copied()
            && bound <= now.plus(LOST_BEFORE)
        {
            over.extend(self.remove(id));
            // Also if the entry is gone, so that this ends.
            self.bounds.remove(&(bound, id));
        }
        over
    }

    /// The most urgent of those that are due.
    pub(super) fn take_due(&mut self, now: Boottime) -> Option<Try> {
        while let Some((at, id)) = self.waiting.first().copied()
            && at <= now
        {
            self.waiting.pop_first();
            if let Some(entry) = self.entries.get_mut(&id) {
                entry.phase = Phase::Due;
                self.due.insert((entry.bound, id));
            }
        }
        loop {
            let (_, id) = self.due.pop_first()?;
            let Some(entry) = self.entries.get_mut(&id) else {
                continue;
            };
            entry.phase = Phase::Tried;
            return Some(Try {
                id,
                holding: entry.holding.clone(),
                bound: entry.bound,
                certain: entry.certain.is_some(),
                suspect: std::mem::take(&mut entry.suspect),
            });
        }
    }

    pub(super) fn has_due(&self) -> bool {
        !self.due.is_empty()
    }

    /// When the next renewal is due after one that was asked for then. `draw`: a random number.
    pub(super) fn due_after(&self, id: HoldId, asked: Boottime, draw: u8) -> Boottime {
        let due = self.entries.get(&id).map_or(Duration::ZERO, |entry| {
            let due = if entry.renewed {
                renewal::next_due
            } else {
                renewal::first_due
            };
            due(entry.ttl(), draw)
        });
        asked.plus(due)
    }

    /// A renewal was confirmed: the reservation lasts until then, and the next is due so much later. `None`: it is not held
    /// any more.
    pub(super) fn confirmed(
        &mut self,
        id: HoldId,
        until: Boottime,
        next: Boottime,
    ) -> Option<&Entry> {
        self.change(id, |entry| {
            entry.certain = Some(entry.certain.map_or(until, |before| before.max(until)));
            entry.bound = entry.certain.unwrap_or(until);
            entry.renewed = true;
            entry.phase = if entry.suspect {
                Phase::Due
            } else {
                Phase::Until(next)
            };
        })
    }

    /// A renewal failed; the next is due then.
    pub(super) fn failed(&mut self, id: HoldId, next: Boottime) -> Option<&Entry> {
        self.change(id, |entry| entry.phase = Phase::Until(next))
    }

    /// The reservation of a resource is said to be over: it is looked at now. False: none is held here.
    pub(super) fn suspect(&mut self, resource: &ResourceId) -> bool {
        let ids = self.by_resource.get(resource).cloned().unwrap_or_default();
        let held = !ids.is_empty();
        for id in ids {
            self.change(id, |entry| {
                entry.suspect = true;
                if let Phase::Until(_) = entry.phase {
                    entry.phase = Phase::Due;
                }
            });
        }
        held
    }

    /// All of them are looked at now.
    pub(super) fn suspect_all(&mut self) {
        let resources: Vec<_> = self.by_resource.keys().cloned().collect();
        for resource in &resources {
            self.suspect(resource);
        }
    }

    /// Of how many a renewal is due, or tried.
    pub(super) fn due(&self, now: Boottime) -> usize {
        let due_by_now = self.waiting.iter().take_while(|(at, _)| *at <= now);
        self.entries.len() - self.waiting.len() + due_by_now.count()
    }

    /// How many are late, counted up to a limit.
    pub(super) fn late(&self, now: Boottime, limit: usize) -> usize {
        let late = self.late.iter().take_while(|(from, _)| *from <= now);
        late.take(limit).count()
    }

    /// When there is something to do next.
    pub(super) fn next_moment(&self) -> Option<Boottime> {
        let bound = self.bounds.first().map(|(at, _)| at.minus(LOST_BEFORE));
        let due = self.waiting.first().map(|(at, _)| *at);
        bound.into_iter().chain(due).min()
    }

    fn change(&mut self, id: HoldId, how: impl FnOnce(&mut Entry)) -> Option<&Entry> {
        let mut entry = self.entries.remove(&id)?;
        self.displace(id, &entry);
        how(&mut entry);
        self.place(id, &entry);
        Some(self.entries.entry(id).insert_entry(entry).into_mut())
    }

    fn place(&mut self, id: HoldId, entry: &Entry) {
        self.bounds.insert((entry.bound, id));
        self.late.insert((entry.late_from(), id));
        match entry.phase {
            Phase::Until(at) => self.waiting.insert((at, id)),
            Phase::Due => self.due.insert((entry.bound, id)),
            Phase::Tried => true,
        };
    }

    fn displace(&mut self, id: HoldId, entry: &Entry) {
        self.bounds.remove(&(entry.bound, id));
        self.late.remove(&(entry.late_from(), id));
        match entry.phase {
            Phase::Until(at) => self.waiting.remove(&(at, id)),
            Phase::Due => self.due.remove(&(entry.bound, id)),
            Phase::Tried => true,
        };
    }
}

#[cfg(test)]
mod tests;
