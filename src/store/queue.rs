//! Who waits for a resource: entering and leaving its queue, and following it.
//!
//! All entries of a sidecar hang on the lease of its session, which has a key of its own. Each write that makes entries writes
//! that key too, under the guard that it was not written since the write before. So a write that arrives late is never applied,
//! and after an unknown outcome the same write again tells the truth. A removal needs none of that.

use std::sync::Arc;

use etcd_client::proto::PbKeyValue;
use etcd_client::{Compare, CompareOp, PutOptions, Txn, TxnOp};

use super::codec;
use super::commit::SeenQueue;
use super::error::{NotApplied, StoreError};
use super::failure::not_applied;
use super::link::Store;
use super::session::Repeat;
use super::timeline::TimelineSeen;
use super::txn::{as_etcd, entry, get_first, malformed, one_value, seen_first};
use super::watch::{News, Watch};
use crate::domain::ids::{Nonce, ResourceId};
use crate::domain::record::LeaseId;
use crate::domain::token::Revision;
use crate::domain::waiter::{Place, Waiter, WaiterName, WaitingCall};

/// Most entries that one write makes, or removes. With the key of the session they stay within what etcd takes.
pub const WAITERS_PER_WRITE_MAX: usize = 100;
/// Entries that one request reads when a queue is followed from the start.
const ENTRIES_PER_REQUEST: i64 = 256;

/// A sidecar's session in the queues.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WaitSession {
    /// Its name.
    pub name: Nonce,
    /// The lease that its entries hang on.
    pub lease: LeaseId,
    /// When entries were last written. `None`: never.
    pub written: Option<Revision>,
    /// The timeline that it began under. It writes nothing under another one, nor while that is halted: what is entered while a
    /// timeline is being started may be removed again.
    pub under: TimelineSeen,
}

/// One who is to be entered into the queues of resources, into all of them or none.
#[derive(Clone, Debug)]
pub struct Entering {
    /// By this name.
    pub name: WaiterName,
    /// Which.
    pub resources: Arc<[ResourceId]>,
    /// Who.
    pub waiter: Waiter,
}

/// What became of a write of entries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SessionWrite {
    /// It was done at this revision.
    Done(Revision),
    /// It was not done: the session was written at another revision than was said. `None`: its lease is over, and with it all
    /// entries are gone.
    WrittenAt(Option<Revision>),
}

/// Whether a resource is held and who waits for it, at one revision.
#[derive(Clone, Debug)]
pub struct QueueNow {
    /// Whether there is a reservation key.
    pub held: bool,
    /// When the first of those who wait was entered.
    pub first: SeenQueue,
    /// When.
    pub at: Revision,
}

impl Store {
    /// Makes entries, at most `WAITERS_PER_WRITE_MAX` keys, in one transaction.
    pub async fn enter_waiters(
        &self,
        session: &WaitSession,
        enter: &[Entering],
    ) -> Result<SessionWrite, StoreError> {
        let keys = self.keys();
        let (TimelineSeen(known), timeline_key) = (session.under, self.timeline_key());
        if let Some(halt) = known.halt() {
            return Err(not_applied(NotApplied::Halted(halt), halt.to_string()));
        }
        let session_key = keys.wait_session(session.name);
        let on_lease = || Some(PutOptions::new().with_lease(session.lease.0));
        let build = || {
            let value = codec::encode_wait_session(&session_key, session.name);
            let mut writes = vec![TxnOp::put(session_key.bytes(), value, on_lease())];
            for entering in enter {
                writes.extend(entering.resources.iter().map(|resource| {
                    let key = keys.waiter(resource, &entering.name);
                    let value = codec::encode_waiter(&key, &entering.waiter);
                    TxnOp::put(key.bytes(), value, on_lease())
                }));
            }
            let in_force = Compare::mod_revision(
                timeline_key.bytes(),
                CompareOp::Equal,
                as_etcd(known.changed),
            );
            let written = session.written.map_or(0, as_etcd);
            let unchanged = Compare::mod_revision(session_key.bytes(), CompareOp::Equal, written);
            Txn::new()
                .when([in_force, unchanged])
                .and_then(writes)
                .or_else([
                    TxnOp::get(timeline_key.bytes(), None),
                    TxnOp::get(session_key.bytes(), None),
                ])
        };
        let reply = self.session().txn(Repeat::Never, build).await?;
        if reply.succeeded {
            let at = reply.header.map_or(0, |header| header.revision);
            let at = Revision::from_etcd(at).ok_or_else(malformed)?;
            return Ok(SessionWrite::Done(at));
        }
        let mut responses = reply.responses.into_iter();
        self.still_in_force(known, one_value(&mut responses)?)?;
        let at = one_value(&mut responses)?;
        let at = at.and_then(|kv| Revision::from_etcd(kv.mod_revision));
        Ok(SessionWrite::WrittenAt(at))
    }

    /// Removes entries, at most `WAITERS_PER_WRITE_MAX` keys, in one transaction. It puts nothing, so that it is taken also by an
    /// etcd that has no space; and no entry ever has the name of another, so it may be done twice, or late.
    pub async fn remove_waiters(
        &self,
        under: TimelineSeen,
        leave: &[(ResourceId, WaiterName)],
    ) -> Result<(), StoreError> {
        let keys = self.keys();
        let (TimelineSeen(known), timeline_key) = (under, self.timeline_key());
        let build = || {
            let in_force = Compare::mod_revision(
                timeline_key.bytes(),
                CompareOp::Equal,
                as_etcd(known.changed),
            );
            let removals = leave.iter();
            let removals = removals
                .map(|(resource, name)| TxnOp::delete(keys.waiter(resource, name).bytes(), None));
            Txn::new()
                .when([in_force])
                .and_then(removals.collect::<Vec<_>>())
                .or_else([TxnOp::get(timeline_key.bytes(), None)])
        };
        let reply = self.session().txn(Repeat::Safe, build).await?;
        if !reply.succeeded {
            let mut responses = reply.responses.into_iter();
            self.still_in_force(known, one_value(&mut responses)?)?;
        }
        Ok(())
    }

    /// Reads linearizably when a session was last written. `None`: never, or its lease is over.
    pub async fn session_written(
        &self,
        session: &WaitSession,
    ) -> Result<Option<Revision>, StoreError> {
        let (TimelineSeen(known), timeline_key) = (session.under, self.timeline_key());
        let session_key = self.keys().wait_session(session.name);
        let build = || {
            Txn::new().and_then([
                TxnOp::get(timeline_key.bytes(), None),
                TxnOp::get(session_key.bytes(), None),
            ])
        };
        let reply = self.session().txn(Repeat::Safe, build).await?;
        let mut responses = reply.responses.into_iter();
        self.still_in_force(known, one_value(&mut responses)?)?;
        let written = one_value(&mut responses)?;
        Ok(written.and_then(|kv| Revision::from_etcd(kv.mod_revision)))
    }

    /// Looks linearizably whether a resource is held, and who waits for it.
    pub async fn queue_now(&self, resource: &ResourceId) -> Result<QueueNow, StoreError> {
        let keys = self.keys();
        let (known, timeline_key) = (self.known(), self.timeline_key());
        let reservation = keys.reservation(resource);
        let (start, end) = keys.waiters(resource);
        let build = || {
            Txn::new().and_then([
                TxnOp::get(timeline_key.bytes(), None),
                TxnOp::get(reservation.bytes(), None),
                get_first(&start, &end),
            ])
        };
        let reply = self.session().txn(Repeat::Safe, build).await?;
        let at = reply.header.map_or(0, |header| header.revision);
        let at = Revision::from_etcd(at).ok_or_else(malformed)?;
        let mut responses = reply.responses.into_iter();
        self.still_in_force(known, one_value(&mut responses)?)?;
        let held = one_value(&mut responses)?.is_some();
        let first = seen_first(keys, resource, one_value(&mut responses)?);
        Ok(QueueNow { held, first, at })
    }

    /// Follows who waits for a resource.
    pub fn follow_queue(&self, resource: &ResourceId) -> QueueWatch {
        let (start, end) = self.keys().waiters(resource);
        QueueWatch {
            store: self.clone(),
            resource: resource.clone(),
            watch: self.watch(start, Some(end)).paged(ENTRIES_PER_REQUEST),
        }
    }

    /// Follows whether a resource is held.
    pub fn follow_reservation(&self, resource: &ResourceId) -> ReservationWatch {
        let key = self.keys().reservation(resource);
        ReservationWatch(self.watch(key.bytes(), None))
    }
}

/// What is new in a queue.
#[derive(Clone, Debug)]
pub enum QueueNews {
    /// All who wait now, and what they ask for.
    All(Vec<(Place, WaitingCall)>),
    /// What has happened since, in order. The revision is that of the change: an entry is never written twice.
    Changes(Vec<(WaiterName, QueueChange)>),
}

/// What became of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QueueChange {
    /// It was entered then, by one who asks for this.
    Entered(Revision, WaitingCall),
    /// It was gone then.
    Left(Revision),
}

/// Follows who waits for a resource. Foreign and damaged entries are passed over.
#[derive(Debug)]
pub struct QueueWatch {
    store: Store,
    resource: ResourceId,
    watch: Watch,
}

impl QueueWatch {
    /// What is new; first, and whenever something may have been missed, everything.
    pub async fn next(&mut self) -> QueueNews {
        let keys = self.store.keys();
        match self.watch.next().await {
            News::All(all) => {
                let entry = |kv: &PbKeyValue| {
                    let (place, waiter) = entry(keys, &self.resource, kv).ok()?;
                    Some((place, waiter.call))
                };
                QueueNews::All(all.iter().filter_map(entry).collect())
            }
            News::Changes(changes) => {
                let told = changes.into_iter().filter_map(|change| {
                    let (key, name) = keys.found_waiter(&self.resource, &change.key)?;
                    let what = match change.value {
                        None => QueueChange::Left(change.revision),
                        Some(value) => {
                            let waiter = codec::decode_waiter(&key, &value).ok()?;
                            QueueChange::Entered(change.revision, waiter.call)
                        }
                    };
                    Some((name, what))
                });
                QueueNews::Changes(told.collect())
            }
        }
    }
}

/// Whether a resource is held, as of a revision.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReservationNews {
    /// Whether there is a reservation key.
    pub held: bool,
    /// Since when, at the latest.
    pub at: Revision,
}

/// Follows whether a resource is held.
#[derive(Debug)]
pub struct ReservationWatch(Watch);

impl ReservationWatch {
    /// What is new; first how it stands.
    pub async fn next(&mut self) -> ReservationNews {
        loop {
            let held = match self.0.next().await {
                News::All(all) => Some(!all.is_empty()),
                News::Changes(changes) => changes.last().map(|change| change.value.is_some()),
            };
            if let (Some(held), Some(at)) = (held, self.0.told_up_to()) {
                return ReservationNews { held, at };
            }
        }
    }
}
