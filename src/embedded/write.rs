//! One write transaction: any number of changes, one revision.

use bytes::Bytes;

use super::history::Live;
use super::key_range::KeyRange;
use super::log::Event;
use super::store::Store;

/// Changes are in the map at once but under a revision no reader asks for before [`commit`].
/// There is no way back: whatever can fail is checked before the first change.
///
/// [`commit`]: Write::commit
#[derive(Debug)]
pub(super) struct Write<'a> {
    store: &'a mut Store,
    events: Vec<Event>,
}

impl<'a> Write<'a> {
    pub(super) fn new(store: &'a mut Store) -> Self {
        Self {
            store,
            events: Vec::new(),
        }
    }

    pub(super) fn store(&self) -> &Store {
        self.store
    }

    /// What reads inside this write see: its own changes once there are any.
    pub(super) fn seen(&self) -> i64 {
        if self.events.is_empty() {
            self.store.revision()
        } else {
            self.next()
        }
    }

    /// The revision before this write.
    pub(super) fn before(&self) -> i64 {
        self.store.revision()
    }

    fn next(&self) -> i64 {
        self.store.revision() + 1
    }

    /// Answers the revision of the write.
    pub(super) fn put(&mut self, key: Bytes, value: Bytes, lease: i64) -> i64 {
        let revision = self.next();
        let history = self.store.keys.entry(key.clone()).or_default();
        let (created, version, old_lease) = match history.at(revision) {
            Some((_, old)) => (old.created, old.version + 1, old.lease),
            None => (revision, 1, 0),
        };
        let live = Live {
            created,
            version,
            lease,
            value,
        };
        history.push(revision, Some(live.clone()));
        if old_lease != lease {
            self.store.leases.detach(old_lease, &key);
            self.store.leases.attach(lease, &key);
        }
        self.events.push(Event {
            key,
            live: Some(live),
        });
        revision
    }

    /// Answers how many keys were there to delete.
    pub(super) fn delete_range(&mut self, range: KeyRange<'_>) -> i64 {
        let seen = self.seen();
        let doomed: Vec<Bytes> = self
            .store
            .select(range, seen)
            .map(|(key, _, _)| key.clone())
            .collect();
        for key in &doomed {
            self.delete(key);
        }
        i64::try_from(doomed.len()).unwrap_or(i64::MAX)
    }

    pub(super) fn delete(&mut self, key: &Bytes) {
        let revision = self.next();
        let Some(history) = self.store.keys.get_mut(key) else {
            return;
        };
        let Some((_, old)) = history.at(revision) else {
            return;
        };
        let old_lease = old.lease;
        history.push(revision, None);
        self.store.leases.detach(old_lease, key);
        self.events.push(Event {
            key: key.clone(),
            live: None,
        });
    }

    /// Makes the changes the next revision; a write without changes makes none.
    pub(super) fn commit(self) {
        if !self.events.is_empty() {
            self.store.commit(self.events);
        }
    }
}
