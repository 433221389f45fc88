//! Who waits for a resource, read for people.

use etcd_client::{GetOptions, SortOrder, SortTarget};

use super::error::StoreError;
use super::link::Store;
use super::session::Repeat;
use super::txn::entry;
use crate::domain::ids::ResourceId;
use crate::domain::waiter::{WAITERS_TOLD_MAX, WhoWaits};

impl Store {
    /// Looks linearizably who waits for a resource: how many, and who comes first. What is no entry of ours is counted, and not
    /// told of: it stands in the queue as well.
    pub async fn who_waits(&self, resource: &ResourceId) -> Result<WhoWaits, StoreError> {
        let (start, end) = self.keys().waiters(resource);
        let most = i64::try_from(WAITERS_TOLD_MAX).unwrap_or(i64::MAX);
        let reply = self
            .session()
            .call(Repeat::Safe, |member| {
                let mut kv = member.kv.clone();
                let options = GetOptions::new()
                    .with_range(end.clone())
                    .with_sort(SortTarget::Create, SortOrder::Ascend)
                    .with_limit(most);
                let start = start.clone();
                async move { kv.get(start, Some(options)).await }
            })
            .await?;
        let found = reply.0;
        let entries = found.kvs.iter();
        let entries = entries.filter_map(|kv| entry(self.keys(), resource, kv).ok());
        let mut entries: Vec<_> = entries.collect();
        // etcd does not sort those of one transaction among themselves.
        entries.sort_by_key(|(place, _)| *place);
        Ok(WhoWaits {
            calls: u64::try_from(found.count).unwrap_or_default(),
            first: entries.into_iter().map(|(_, waiter)| waiter).collect(),
        })
    }
}
