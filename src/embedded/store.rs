//! The multi-version map: every key, every version since the last compaction, and the leases.

use std::collections::BTreeMap;

use bytes::Bytes;
use tokio::time::Instant;

use super::history::{KeyHistory, Live};
use super::key_range::KeyRange;
use super::leases::LeaseTable;
use super::log::{Event, Log};
use super::refusal::Refusal;
use super::write::Write;

/// Older revisions are compacted by the engine itself, so that a sidecar left running for weeks
/// does not grow for ever.
pub(super) const HISTORY_REVISIONS_MAX: usize = 100_000;
/// The same bound for large values: keys and values of the kept revisions together.
pub(super) const HISTORY_BYTES_MAX: usize = 256 * 1024 * 1024;

/// The revision of a store that was never written to.
const FIRST_REVISION: i64 = 1;
/// What etcd holds before the first compaction; compacting to 0 is still allowed then.
const NEVER_COMPACTED: i64 = -1;

/// Reads see the map at a revision; writes go through [`Write`], one revision each.
#[derive(Debug)]
pub(super) struct Store {
    pub(super) keys: BTreeMap<Bytes, KeyHistory>,
    pub(super) leases: LeaseTable,
    log: Log,
    revision: i64,
    compacted: i64,
}

impl Store {
    pub(super) fn new() -> Self {
        Self {
            keys: BTreeMap::new(),
            leases: LeaseTable::default(),
            log: Log::starting_after(FIRST_REVISION),
            revision: FIRST_REVISION,
            compacted: NEVER_COMPACTED,
        }
    }

    pub(super) fn revision(&self) -> i64 {
        self.revision
    }

    /// Revisions below this one can be read no more.
    pub(super) fn compacted(&self) -> i64 {
        self.compacted
    }

    pub(super) fn events(&self, revision: i64) -> &[Event] {
        self.log.events(revision)
    }

    pub(super) fn get(&self, key: &[u8], revision: i64) -> Option<(i64, &Live)> {
        self.keys.get(key)?.at(revision)
    }

    /// The live keys of a range at a revision: key, revision of the last write, and what it left.
    pub(super) fn select<'a>(
        &'a self,
        range: KeyRange<'a>,
        revision: i64,
    ) -> impl Iterator<Item = (&'a Bytes, i64, &'a Live)> {
        range.select(&self.keys).filter_map(move |(key, history)| {
            history
                .at(revision)
                .map(|(written, live)| (key, written, live))
        })
    }

    pub(super) fn begin(&mut self) -> Write<'_> {
        Write::new(self)
    }

    /// Takes the finished changes of one write as the next revision.
    pub(super) fn commit(&mut self, events: Vec<Event>) {
        self.revision += 1;
        self.log.push(events);
        while self.log.first() < self.revision
            && (self.log.revisions() > HISTORY_REVISIONS_MAX
                || self.log.bytes() > HISTORY_BYTES_MAX)
        {
            self.forget_before(self.log.first() + 1);
        }
    }

    pub(super) fn compact(&mut self, revision: i64) -> Result<(), Refusal> {
        if revision <= self.compacted {
            return Err(Refusal::Compacted);
        }
        if revision > self.revision {
            return Err(Refusal::FutureRevision);
        }
        self.forget_before(revision);
        Ok(())
    }

    /// Only keys changed up to `revision` since the last compaction have anything to forget, and
    /// the log knows which those are.
    fn forget_before(&mut self, revision: i64) {
        self.compacted = revision;
        while self.log.first() < revision {
            let Some(events) = self.log.pop_oldest() else {
                break;
            };
            trim(&mut self.keys, &events, revision);
        }
        trim(&mut self.keys, self.log.events(revision), revision);
    }

    /// Ends a lease and deletes its keys, all in one revision.
    pub(super) fn revoke(&mut self, id: i64) -> Result<(), Refusal> {
        let keys = self.leases.remove(id).ok_or(Refusal::LeaseNotFound)?;
        let mut write = self.begin();
        for key in keys {
            write.delete(&key);
        }
        write.commit();
        Ok(())
    }

    /// Revokes what has run out, and answers when the next lease will.
    pub(super) fn expire(&mut self, now: Instant) -> Option<Instant> {
        while let Some((expires, id)) = self.leases.soonest() {
            if expires > now {
                return Some(expires);
            }
            self.revoke(id)
                .expect("a lease with a deadline is in the table");
        }
        None
    }

    /// Answers the renewed TTL. A lease already past its end is revoked instead: the ticker was
    /// only not there yet, and a lapsed lease must never come back to life.
    pub(super) fn renew(&mut self, id: i64, now: Instant) -> Option<i64> {
        self.expire(now);
        self.leases.renew(id, now)
    }
}

fn trim(keys: &mut BTreeMap<Bytes, KeyHistory>, events: &[Event], revision: i64) {
    for event in events {
        if keys
            .get_mut(&event.key)
            .is_some_and(|history| history.compact(revision))
        {
            keys.remove(&event.key);
        }
    }
}
