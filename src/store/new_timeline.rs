//! Starting a new timeline, step by step. Each step may be made again; a start that was cut short is followed by another one.
//!
//! From the first step on, which writes the new timeline and that it is being started, no commit of any sidecar holds any more.
//! Then all that hangs on the leases of rounds is removed, and only then is the timeline put in force.

use std::collections::BTreeSet;

use etcd_client::proto::{PbKeyValue, PbTxnResponse};
use etcd_client::{Compare, CompareOp, GetOptions, LeaseTimeToLiveOptions, Txn, TxnOp};
use futures_util::{StreamExt as _, stream};

use super::codec;
use super::error::{NotApplied, StoreError};
use super::failure::not_applied;
use super::link::Store;
use super::session::Repeat;
use super::timeline::Known;
use super::txn::{as_etcd, get, malformed, one_value, unchanged};
use crate::domain::ids::{Holder, Nonce, Reason};
use crate::domain::record::LeaseId;
use crate::domain::timeline::{Halt, Stored};
use crate::domain::token::Revision;

/// Reservations that one request removes.
const REMOVED_AT_ONCE: usize = 64;
/// Leases that are ended at once.
const LEASES_AT_ONCE: usize = 8;
/// Most starts that are told of, the latest.
const STARTS_TOLD_MAX: usize = 16;

/// That a person started a timeline.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Started {
    /// Names it.
    pub id: Nonce,
    /// Its base.
    pub base: u64,
    /// Who started it.
    pub by: Holder,
    /// Why.
    pub reason: Reason,
    /// When, in milliseconds since 1970.
    pub time_ms: u64,
    /// Why the one before was halted. `None`: it was not.
    pub halt: Option<Halt>,
    /// Names the one before.
    pub before: Nonce,
}

/// The timeline that is to be followed, and where etcd stands.
#[derive(Clone, Copy, Debug)]
pub struct Before {
    /// It, as it is stored; the one last known if etcd has none any more.
    pub stored: Stored,
    /// When it was last written. `None`: it is not there.
    pub changed: Option<Revision>,
    /// The highest revision that etcd is known to have come to, before or after it was restored.
    pub known: u64,
    /// The largest token that may have been granted, as far as this sidecar knows.
    pub largest: u64,
    /// Where etcd stands now.
    pub now: Revision,
}

/// What one step has removed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Removed {
    /// Keys.
    pub keys: usize,
    /// Whether that was all.
    pub all: bool,
}

impl Store {
    /// What a new timeline has to follow.
    pub async fn timeline_to_follow(&self) -> Result<Before, StoreError> {
        let key = self.timeline_key();
        let revisions = &self.session().revisions;
        let (known, largest) = (revisions.position().revision, revisions.largest_token());
        let limit = self.session().call_limit();
        let reply = self
            .anywhere(limit, || Txn::new().and_then([get(key)]))
            .await?;
        let header = reply.header.as_ref().ok_or_else(malformed)?;
        let now = Revision::from_etcd(header.revision).ok_or_else(malformed)?;
        let found = one_value(&mut reply.responses.into_iter())?;
        let found = found.map(|kv| self.found(Some(kv))).transpose()?;
        Ok(Before {
            stored: found.map_or_else(|| self.known().stored, |found| found.stored),
            changed: found.map(|found| found.changed),
            known: known.max(now.get()),
            largest,
            now,
        })
    }

    /// The first step: from here on every commit is refused. `None`: somebody else changed the timeline meanwhile.
    pub async fn begin_timeline(
        &self,
        before: &Before,
        next: Stored,
        started: &Started,
    ) -> Result<Option<Revision>, StoreError> {
        let key = self.timeline_key();
        let start_key = self.keys().timeline_start(started.base);
        let before_changed = before.changed.map_or(0, as_etcd);
        let limit = self.session().call_limit();
        let reply = self
            .anywhere(limit, || {
                let same = Compare::mod_revision(key.bytes(), CompareOp::Equal, before_changed);
                Txn::new()
                    .when([same])
                    .and_then([
                        TxnOp::put(key.bytes(), codec::encode_timeline(key, &next), None),
                        TxnOp::put(
                            start_key.bytes(),
                            codec::encode_start(&start_key, started),
                            None,
                        ),
                    ])
                    .or_else([get(key)])
            })
            .await;
        // An earlier try may have been done without an answer.
        let found = self.written(next, reply).await?;
        if found.stored != next {
            return Ok(None);
        }
        // From now on this is the timeline known here, and what etcd had come to in the one before says nothing.
        self.adopt(self.known(), found);
        Ok(Some(found.changed))
    }

    /// Removes some of what hangs on the leases of rounds, and ends those leases.
    pub async fn remove_some(&self, begun: Revision) -> Result<Removed, StoreError> {
        for (start, end) in self.keys().of_a_timeline() {
            let found = self.range(start, end, REMOVED_AT_ONCE).await?;
            if found.is_empty() {
                continue;
            }
            let build = || {
                let deletes = found.iter().map(|kv| TxnOp::delete(kv.key.clone(), None));
                Txn::new()
                    .when([unchanged(self.timeline_key(), begun)])
                    .and_then(deletes.collect::<Vec<_>>())
            };
            // Repeated, it removes the same again, for nobody makes such a key meanwhile.
            let reply = self.session().txn(Repeat::Safe, build).await?;
            if !reply.succeeded {
                return Err(superseded());
            }
            self.end_leases(&found).await;
            return Ok(Removed {
                keys: found.len(),
                all: false,
            });
        }
        Ok(Removed { keys: 0, all: true })
    }

    /// The last step: from here on things are judged in the new timeline.
    pub async fn put_in_force(&self, next: Stored, begun: Revision) -> Result<(), StoreError> {
        let key = self.timeline_key();
        let next = Stored {
            halt: None,
            largest: 0,
            ..next
        };
        let build = || {
            let put = TxnOp::put(key.bytes(), codec::encode_timeline(key, &next), None);
            Txn::new()
                .when([unchanged(key, begun)])
                .and_then([put])
                .or_else([get(key)])
        };
        let reply = self.session().txn(Repeat::Safe, build).await;
        let found = self.written(next, reply).await?;
        if found.stored != next {
            return Err(superseded());
        }
        self.adopt(self.known(), found);
        Ok(())
    }

    /// What is at the timeline's key after an attempt to write this there. The attempt reads it where it fails. Without space
    /// it may have been the last write that fitted, and nothing that puts something reads any more.
    async fn written(
        &self,
        next: Stored,
        reply: Result<PbTxnResponse, StoreError>,
    ) -> Result<Known, StoreError> {
        let key = self.timeline_key();
        match reply {
            Ok(reply) if reply.succeeded => {
                let header = reply.header.as_ref().ok_or_else(malformed)?;
                Ok(Known {
                    stored: next,
                    changed: Revision::from_etcd(header.revision).ok_or_else(malformed)?,
                })
            }
            Ok(reply) => Known::from_etcd(key, one_value(&mut reply.responses.into_iter())?),
            Err(full @ StoreError::Full { .. }) => {
                let limit = self.session().call_limit();
                let look = self.anywhere(limit, || Txn::new().and_then([get(key)]));
                let found = one_value(&mut look.await?.responses.into_iter())?;
                let found = found.map(|kv| Known::from_etcd(key, Some(kv)));
                match found.transpose()? {
                    Some(found) if found.stored == next => Ok(found),
                    Some(_) | None => Err(full),
                }
            }
            Err(error) => Err(error),
        }
    }

    /// The timelines that persons started, the latest first.
    pub async fn timeline_starts(&self) -> Result<Vec<Started>, StoreError> {
        let (start, end) = self.keys().timeline_starts();
        let limit = i64::try_from(STARTS_TOLD_MAX).unwrap_or(i64::MAX);
        let reply = self
            .session()
            .call(Repeat::Safe, |member| {
                let mut kv = member.kv.clone();
                let options = GetOptions::new()
                    .with_range(end.clone())
                    .with_limit(limit)
                    .with_sort(
                        etcd_client::SortTarget::Key,
                        etcd_client::SortOrder::Descend,
                    );
                let start = start.clone();
                async move { kv.get(start, Some(options)).await }
            })
            .await?;
        let starts = reply.0.kvs.iter();
        starts
            .filter_map(|kv| Some((self.keys().found(&kv.key)?, kv)))
            .map(|(key, kv)| codec::decode_start(&key, &kv.value))
            .collect()
    }

    /// Ends the leases of reservations that were removed, if nothing else hangs on them: a key of somebody else would go
    /// with its lease. One that is not ended here runs out by itself.
    async fn end_leases(&self, removed: &[PbKeyValue]) {
        let leases: BTreeSet<i64> = removed.iter().map(|kv| kv.lease).collect();
        let leases = leases.into_iter().filter(|lease| *lease > 0);
        stream::iter(leases)
            .for_each_concurrent(LEASES_AT_ONCE, |lease| async move {
                if self.holds_nothing(lease).await {
                    drop(self.lease_revoke(LeaseId(lease)).await);
                }
            })
            .await;
    }

    async fn holds_nothing(&self, lease: i64) -> bool {
        let asked = self
            .session()
            .call(Repeat::Safe, |member| {
                let mut client = member.lease.clone();
                let options = LeaseTimeToLiveOptions::new().with_keys();
                async move { client.time_to_live(lease, Some(options)).await }
            })
            .await;
        asked.is_ok_and(|reply| reply.ttl() > 0 && reply.keys().is_empty())
    }
}

fn superseded() -> StoreError {
    not_applied(
        NotApplied::TimelineMoved,
        "somebody else has started a timeline meanwhile",
    )
}
