//! What is read to tell the story of a resource, and for nothing else.

use super::codec;
use super::error::StoreError;
use super::link::Store;
use super::session::Repeat;
use super::sweep::{Cursor, OPERATIONS_PER_PAGE, Page, page};
use super::txn::{READ_OPERATIONS_MAX, are_there, which_are_there};
use crate::domain::decision::IncidentId;
use crate::domain::ids::ResourceId;
use crate::domain::record::Operation;

impl Store {
    /// Operations of one resource that have keys of their own, whole, in the order of their keys.
    pub async fn operations_kept_apart(
        &self,
        resource: &ResourceId,
        after: Option<&Cursor>,
    ) -> Result<Page<Operation>, StoreError> {
        let keys = self.keys();
        let range = keys.operations_after(resource, after.map(Cursor::key));
        let found = self.range(range.0, range.1, OPERATIONS_PER_PAGE).await?;
        Ok(page(&found, OPERATIONS_PER_PAGE, |kv| {
            let (key, id) = keys.found_operation(resource, &kv.key)?;
            codec::decode_operation(&key, &id, &kv.value).ok()
        }))
    }

    /// Which of these incidents there are. No value is read.
    pub async fn incidents_among(
        &self,
        asked: &[IncidentId],
    ) -> Result<Vec<IncidentId>, StoreError> {
        let mut there = Vec::new();
        for some in asked.chunks(READ_OPERATIONS_MAX) {
            let keys: Vec<_> = some.iter().map(|id| self.keys().incident(id)).collect();
            let reply = self
                .session()
                .txn(Repeat::Safe, || are_there(&keys))
                .await?;
            let found = which_are_there(reply, some.len())?;
            let found = some.iter().zip(found).filter(|(_, found)| *found);
            there.extend(found.map(|(id, _)| id.clone()));
        }
        Ok(there)
    }
}
