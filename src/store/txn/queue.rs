//! The queue of a resource, beside a commit: what must hold of it, and who is first if that does not hold.
//!
//! Entries are in the order of their creation; those that one transaction has made, in the order of their keys. etcd sorts by
//! creation, but not those of one transaction among themselves: it may bring any of those. So whoever takes a turn also asks, by key,
//! who is the first of those that were entered together with it; who has not asked so knows only when the first was entered.

use etcd_client::proto::PbKeyValue;
use etcd_client::{Compare, CompareOp, GetOptions, SortOrder, SortTarget, TxnOp};

use super::as_etcd;
use crate::domain::ids::ResourceId;
use crate::domain::waiter::{Place, Waiter};
use crate::store::codec;
use crate::store::commit::{QueueGuard, SeenQueue};
use crate::store::error::StoreError;
use crate::store::keys::{Key, Keys, just_after};

/// The largest entry in a reply, in bytes: its value, with the longest name of a holder and the longest operation.
pub(in crate::store) const ENTRY_BACK_BYTES: usize = 640;

/// The keys of a queue that a commit looks at.
#[derive(Debug)]
pub(super) struct QueueKeys {
    keys: Keys,
    resource: ResourceId,
    start: Vec<u8>,
    end: Vec<u8>,
    /// Who must be first, and its key.
    mine: Option<(Place, Key)>,
}

impl QueueKeys {
    /// `None`: the commit says nothing of the queue.
    pub(super) fn of(keys: &Keys, resource: &ResourceId, guard: QueueGuard) -> Option<Self> {
        let mine = match guard {
            QueueGuard::None => return None,
            QueueGuard::NobodyWaits => None,
            QueueGuard::First(place) => Some((place, keys.waiter(resource, &place.name))),
        };
        let (start, end) = keys.waiters(resource);
        Some(Self {
            keys: keys.clone(),
            resource: resource.clone(),
            start,
            end,
            mine,
        })
    }

    /// How many bytes of keys go out with it, about.
    pub(super) fn bytes(&self) -> usize {
        // Each bound and each key stands in a compare, and some in a get too.
        let mine = self.mine.as_ref().map_or(0, |(_, key)| key.len());
        4 * (self.start.len() + self.end.len()) + 4 * mine
    }

    /// What must hold. A range without a key passes as one key that was created at 0.
    pub(super) fn guards(&self) -> Vec<Compare> {
        let Some((place, key)) = &self.mine else {
            // Nobody waits.
            let none = Compare::create_revision(self.start.clone(), CompareOp::Equal, 0);
            return vec![none.with_range(self.end.clone())];
        };
        let since = as_etcd(place.since);
        let start = || self.start.clone();
        vec![
            // It still waits: a key that was deleted and made anew has another creation.
            Compare::create_revision(key.bytes(), CompareOp::Equal, since),
            // Nobody was entered before it,
            Compare::create_revision(start(), CompareOp::Greater, since - 1)
                .with_range(self.end.clone()),
            // nor together with it and before it in the order of keys.
            Compare::create_revision(start(), CompareOp::NotEqual, since).with_range(key.bytes()),
        ]
    }

    /// What shows who is first.
    pub(super) fn gets(&self) -> Vec<TxnOp> {
        let mut gets = vec![get_first(&self.start, &self.end)];
        if let Some((place, key)) = &self.mine {
            let since = as_etcd(place.since);
            let together = GetOptions::new()
                .with_range(just_after(key.bytes()))
                .with_min_create_revision(since)
                .with_max_create_revision(since)
                .with_limit(1);
            gets.push(TxnOp::get(self.start.clone(), Some(together)));
        }
        gets
    }

    /// How many gets these are.
    pub(super) fn get_count(&self) -> usize {
        1 + usize::from(self.mine.is_some())
    }

    /// Who is first. `together`: the first, by key, of those up to mine that were entered together with it.
    pub(super) fn first(
        &self,
        oldest: Option<PbKeyValue>,
        together: Option<PbKeyValue>,
    ) -> SeenQueue {
        let oldest = seen_first(&self.keys, &self.resource, oldest);
        match (&self.mine, oldest) {
            (Some((place, _)), SeenQueue::OneOf { since, .. }) if since == place.since => {
                let Some(together) = together else {
                    let gone = Some(*place);
                    return SeenQueue::OneOf { since, gone };
                };
                let first = entry(&self.keys, &self.resource, &together);
                first.map_or_else(SeenQueue::Untrusted, |(place, _)| SeenQueue::First(place))
            }
            (Some(_) | None, oldest) => oldest,
        }
    }
}

/// Gets one of those who were entered first.
pub(in crate::store) fn get_first(start: &[u8], end: &[u8]) -> TxnOp {
    let oldest = GetOptions::new()
        .with_range(end)
        .with_sort(SortTarget::Create, SortOrder::Ascend)
        .with_limit(1);
    TxnOp::get(start, Some(oldest))
}

/// What such a get has found.
pub(in crate::store) fn seen_first(
    keys: &Keys,
    resource: &ResourceId,
    found: Option<PbKeyValue>,
) -> SeenQueue {
    let Some(kv) = found else {
        return SeenQueue::Nobody;
    };
    match entry(keys, resource, &kv) {
        Ok((Place { since, .. }, _)) => SeenQueue::OneOf { since, gone: None },
        Err(error) => SeenQueue::Untrusted(error),
    }
}

/// An entry as etcd has it, and whose it is.
pub(in crate::store) fn entry(
    keys: &Keys,
    resource: &ResourceId,
    kv: &PbKeyValue,
) -> Result<(Place, Waiter), StoreError> {
    let untrusted = |reason: &str| StoreError::Corrupt {
        key: kv.key.escape_ascii().to_string(),
        reason: reason.to_owned(),
    };
    let Some((key, name)) = keys.found_waiter(resource, &kv.key) else {
        return Err(untrusted("it is not spelled like an entry of a queue"));
    };
    let waiter = codec::decode_waiter(&key, &kv.value)?;
    if kv.lease == 0 {
        // Ours always hang on a lease; one without would wait for ever.
        return Err(untrusted("it hangs on no lease"));
    }
    let since = crate::domain::token::Revision::from_etcd(kv.create_revision);
    let since = since.ok_or_else(|| untrusted("etcd names no revision of it"))?;
    Ok((Place { since, name }, waiter))
}
