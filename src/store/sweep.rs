//! Looking through all keys, page by page.

use etcd_client::proto::PbKeyValue;
use etcd_client::{Compare, CompareOp, Txn, TxnOp};

use super::codec;
use super::error::StoreError;
use super::link::Store;
use super::session::Repeat;
use super::txn::{as_etcd, put_if_unchanged};
use crate::domain::ids::{OperationId, ResourceId};
use crate::domain::incident::Incident;
use crate::domain::record::Record;
use crate::domain::retention::StoreTime;
use crate::domain::token::Revision;

/// Records in a page. With the largest there are they fit into a reply.
const RECORDS_PER_PAGE: usize = 128;
/// Operations of one resource in a page. With the largest results they fit into a reply.
pub(super) const OPERATIONS_PER_PAGE: usize = 64;
/// Incidents in a page.
const INCIDENTS_PER_PAGE: usize = 64;
/// Incidents that get their end in one request. With the largest evidence they fit into it.
const ENDED_PER_REQUEST: usize = 8;

/// Where a page ended; the next begins behind it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cursor(Vec<u8>);

impl Cursor {
    /// The last key of the page.
    pub(super) fn key(&self) -> &[u8] {
        &self.0
    }
}

/// A page of what was looked for. Keys that are foreign or damaged are left out: whoever asks for them is told.
#[derive(Clone, Debug)]
pub struct Page<T> {
    /// What was found.
    pub found: Vec<T>,
    /// Where to go on. `None`: that was the last page.
    pub next: Option<Cursor>,
}

/// A record, as it stood when the page was read.
#[derive(Clone, Debug)]
pub struct FoundRecord {
    /// Of which resource.
    pub resource: ResourceId,
    /// What it said.
    pub record: Record,
}

/// An incident, as it stood when the page was read.
#[derive(Clone, Debug)]
pub struct FoundIncident {
    key: Vec<u8>,
    revision: Revision,
    /// It, or a part of it.
    pub incident: Incident,
}

impl Store {
    /// Records, in the order of their keys.
    pub async fn records(&self, after: Option<&Cursor>) -> Result<Page<FoundRecord>, StoreError> {
        let keys = self.keys();
        let range = keys.records_after(after.map(|cursor| cursor.0.as_slice()));
        let found = self.range(range.0, range.1, RECORDS_PER_PAGE).await?;
        let read = |kv: &PbKeyValue| {
            let (key, resource) = keys.found_record(&kv.key)?;
            let record = codec::decode_record(&key, &kv.value).ok()?;
            Some(FoundRecord { resource, record })
        };
        Ok(page(&found, RECORDS_PER_PAGE, read))
    }

    /// Operations of one resource that have keys of their own, and until when each is replayable.
    pub async fn operations_apart(
        &self,
        resource: &ResourceId,
        after: Option<&Cursor>,
    ) -> Result<Page<(OperationId, Option<StoreTime>)>, StoreError> {
        let keys = self.keys();
        let range = keys.operations_after(resource, after.map(|cursor| cursor.0.as_slice()));
        let found = self.range(range.0, range.1, OPERATIONS_PER_PAGE).await?;
        let read = |kv: &PbKeyValue| {
            let (key, id) = keys.found_operation(resource, &kv.key)?;
            let operation = codec::decode_operation(&key, &id, &kv.value).ok()?;
            Some((id, operation.expiry))
        };
        Ok(page(&found, OPERATIONS_PER_PAGE, read))
    }

    /// Incidents, in the order of their ids.
    pub async fn incidents_kept(
        &self,
        after: Option<&Cursor>,
    ) -> Result<Page<FoundIncident>, StoreError> {
        let keys = self.keys();
        let (first, end) = keys.incidents_after(None);
        let start = after.map_or(first, |cursor| super::keys::just_after(cursor.0.clone()));
        let found = self.range(start, end, INCIDENTS_PER_PAGE).await?;
        let read = |kv: &PbKeyValue| {
            let (key, id) = keys.found_incident(&kv.key)?;
            let incident = codec::decode_incident(&key, &id, &kv.value).ok()?;
            Some(FoundIncident {
                key: kv.key.clone(),
                revision: Revision::from_etcd(kv.mod_revision)?,
                incident,
            })
        };
        Ok(page(&found, INCIDENTS_PER_PAGE, read))
    }

    /// Gives incidents their end, each only if nobody has changed it since it was found.
    pub async fn end_incidents(
        &self,
        found: &[(FoundIncident, StoreTime)],
    ) -> Result<(), StoreError> {
        for some in found.chunks(ENDED_PER_REQUEST) {
            let puts = some.iter().filter_map(|(found, expiry)| {
                let (key, _) = self.keys().found_incident(&found.key)?;
                let ends = Incident {
                    expiry: Some(*expiry),
                    ..found.incident.clone()
                };
                let value = codec::encode_incident(&key, &ends);
                Some(TxnOp::txn(put_if_unchanged(&key, found.revision, value)))
            });
            let puts: Vec<_> = puts.collect();
            let build = || Txn::new().and_then(puts.clone());
            // A revision does not come back: a repeated try changes nothing.
            self.session().txn(Repeat::Safe, build).await?;
        }
        Ok(())
    }

    /// Removes incidents, each only if nobody has changed it since it was found, and none of its evidence is kept beside it:
    /// that has a time of its own, and what it belongs to goes after it.
    pub async fn remove_incidents(&self, found: &[FoundIncident]) -> Result<(), StoreError> {
        if found.is_empty() {
            return Ok(());
        }
        let build = || {
            Txn::new().and_then(
                found
                    .iter()
                    .map(|incident| {
                        let key = incident.key.clone();
                        let seen = as_etcd(incident.revision);
                        let same = Compare::mod_revision(key.clone(), CompareOp::Equal, seen);
                        let (parts, end) = super::keys::parts_of_incident(&key);
                        let alone =
                            Compare::create_revision(parts, CompareOp::Equal, 0).with_range(end);
                        let gone = Txn::new()
                            .when([same, alone])
                            .and_then([TxnOp::delete(key, None)]);
                        TxnOp::txn(gone)
                    })
                    .collect::<Vec<_>>(),
            )
        };
        // A revision does not come back: a repeated try removes nothing else.
        self.session().txn(Repeat::Safe, build).await?;
        Ok(())
    }
}

pub(super) fn page<T>(
    found: &[PbKeyValue],
    asked: usize,
    read: impl Fn(&PbKeyValue) -> Option<T>,
) -> Page<T> {
    let full = found.len() >= asked;
    let last = found.last().filter(|_| full);
    Page {
        next: last.map(|kv| Cursor(kv.key.clone())),
        found: found.iter().filter_map(read).collect(),
    }
}
