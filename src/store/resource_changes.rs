//! Each change of one resource: of its record, and the ends of its reservations, of which those by their leases alone are not in
//! the record.

use tokio::time::Instant;

use super::codec;
use super::commit::{ReadAsk, Seen};
use super::error::StoreError;
use super::keys::Key;
use super::link::Store;
use super::session::Repeat;
use super::txn::{Reading, malformed, one_value, read_outcome};
use super::watch::{Change, News, Watch};
use crate::domain::ids::ResourceId;
use crate::domain::record::Record;
use crate::domain::token::Revision;

/// What is new of a resource. Each kind comes in its order; which of two kinds came first shows in the revisions.
#[derive(Debug)]
pub enum ResourceNews {
    /// The record was changed; `None`: it was removed.
    Record(Vec<(Option<Record>, Revision)>),
    /// The reservation key is gone since then.
    Ended(Vec<Revision>),
    /// etcd has forgotten what came next.
    Missed,
}

/// Follows one resource.
#[derive(Debug)]
pub struct ResourceWatch {
    key: Key,
    record: Watch,
    reservation: Watch,
}

impl Store {
    /// A resource as it stands, and at which revision of the store.
    pub async fn resource_now(
        &self,
        resource: &ResourceId,
    ) -> Result<(Seen, Revision), StoreError> {
        let (known, timeline_key) = (self.known(), self.timeline_key());
        let ask = ReadAsk {
            resource: resource.clone(),
            operations: Vec::new(),
            machine: false,
        };
        let reading = Reading::new(self.keys(), std::slice::from_ref(&ask));
        let build = || reading.txn(timeline_key);
        let reply = self.session().txn(Repeat::Safe, build).await?;
        let at = reply.header.as_ref().map_or(0, |header| header.revision);
        let at = Revision::from_etcd(at).ok_or_else(malformed)?;
        let mut responses = reply.responses.into_iter();
        self.still_in_force(known, one_value(&mut responses)?)?;
        let seen = read_outcome(&reading, &mut responses)?.pop();
        Ok((seen.ok_or_else(malformed)??, at))
    }

    /// Follows a resource from the change after this revision.
    pub fn resource_changes(&self, resource: &ResourceId, after: Revision) -> ResourceWatch {
        let keys = self.keys();
        let key = keys.record(resource);
        ResourceWatch {
            record: self.watch_after(key.bytes(), after),
            reservation: self.watch_after(keys.reservation(resource).bytes(), after),
            key,
        }
    }
}

impl ResourceWatch {
    /// Since when etcd tells of ends. `None`: it does not for now, and will tell of those that come meanwhile.
    pub fn ends_told_since(&self) -> Option<Instant> {
        self.reservation.up_since()
    }

    /// What is new. Whoever stops waiting misses nothing.
    pub async fn next(&mut self) -> Result<ResourceNews, StoreError> {
        tokio::select! {
            news = self.record.next() => match news {
                News::All(_) => Ok(ResourceNews::Missed),
                News::Changes(changes) => {
                    let read = |change: Change| -> Result<_, StoreError> {
                        let value = change.value.as_deref();
                        let record = value.map(|value| codec::decode_record(&self.key, value));
                        Ok((record.transpose()?, change.revision))
                    };
                    let changes = changes.into_iter().map(read).collect::<Result<_, _>>()?;
                    Ok(ResourceNews::Record(changes))
                }
            },
            news = self.reservation.next() => match news {
                News::All(_) => Ok(ResourceNews::Missed),
                News::Changes(changes) => {
                    let gone = changes.iter().filter(|change| change.value.is_none());
                    Ok(ResourceNews::Ended(gone.map(|gone| gone.revision).collect()))
                }
            },
        }
    }
}
