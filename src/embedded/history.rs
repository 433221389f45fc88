//! The versions of one key, oldest first.

use std::collections::VecDeque;

use bytes::Bytes;
use etcd_client::proto::PbKeyValue;

/// What one write left under a key.
#[derive(Clone, Debug)]
pub(super) struct Live {
    pub(super) created: i64,
    /// Writes since the key was created, this one included.
    pub(super) version: i64,
    /// 0 when no lease holds the key.
    pub(super) lease: i64,
    pub(super) value: Bytes,
}

impl Live {
    pub(super) fn to_key_value(&self, key: &[u8], revision: i64) -> PbKeyValue {
        PbKeyValue {
            value: self.value.to_vec(),
            ..self.to_key_only(key, revision)
        }
    }

    pub(super) fn to_key_only(&self, key: &[u8], revision: i64) -> PbKeyValue {
        PbKeyValue {
            key: key.to_vec(),
            create_revision: self.created,
            mod_revision: revision,
            version: self.version,
            value: Vec::new(),
            lease: self.lease,
        }
    }
}

/// One write: `live` is `None` where the key was deleted.
#[derive(Debug)]
struct Entry {
    revision: i64,
    live: Option<Live>,
}

/// A transaction may write a key twice (put, then delete); both entries then carry its revision,
/// and the later one is what readers of that revision see.
#[derive(Debug, Default)]
pub(super) struct KeyHistory {
    entries: VecDeque<Entry>,
}

impl KeyHistory {
    /// What a reader at `revision` sees, with the revision that wrote it.
    pub(super) fn at(&self, revision: i64) -> Option<(i64, &Live)> {
        let entry = match self.entries.back() {
            // Nearly every read is of the newest version.
            Some(newest) if newest.revision <= revision => newest,
            Some(_) | None => {
                let after = self
                    .entries
                    .partition_point(|entry| entry.revision <= revision);
                self.entries.get(after.checked_sub(1)?)?
            }
        };
        entry.live.as_ref().map(|live| (entry.revision, live))
    }

    pub(super) fn push(&mut self, revision: i64, live: Option<Live>) {
        self.entries.push_back(Entry { revision, live });
    }

    /// Forgets what no reader at `revision` or later can see; true if nothing is left.
    pub(super) fn compact(&mut self, revision: i64) -> bool {
        while self
            .entries
            .get(1)
            .is_some_and(|next| next.revision <= revision)
        {
            self.entries.pop_front();
        }
        let dead = |first: &Entry| first.revision <= revision && first.live.is_none();
        if self.entries.front().is_some_and(dead) {
            self.entries.pop_front();
        }
        self.entries.is_empty()
    }
}
