//! Whether etcd was restored from a backup, once something speaks for it.
//!
//! A reply that is behind what was known proves nothing by itself: a member may be wrong about a read. A write cannot be: its
//! revision is made where all agree. So a small key is written, and only if that, too, comes out behind, or in
//! another cluster, or under an earlier timeline, everything is halted. The halt is written into the timeline's own key, which
//! every commit compares already: so it costs none of them anything, and stops also the sidecars that never knew more than the
//! backup does. Where etcd has no space for it, it holds in the memory of whoever found out, until it can be written.
//!
//! Nothing that a caller says plays any part in this: a token can be forged.

use std::time::Duration;

use etcd_client::proto::{PbTxnOpResponse, PbTxnResponse};
use etcd_client::{Txn, TxnOp};

use super::codec;
use super::error::{NotApplied, StoreError};
use super::failure::{Meaning, full, not_applied};
use super::link::Store;
use super::revisions::{Position, unsigned};
use super::session::{Member, Repeat};
use super::timeline::Known;
use super::txn::{get, one_value, unchanged};
use crate::domain::timeline::{Halt, Stored};
use crate::domain::token::Revision;

/// How long a look at whether etcd is well may take. Each member has its share of it, so that one that hangs is found out, and
/// another asked, within the same look.
pub const LOOK_LIMIT: Duration = Duration::from_secs(3);
/// How often the timeline is looked at anew because somebody else changes it.
const LOOKS_MAX: usize = 8;

impl Store {
    /// Whether something speaks for a restore that was not looked into yet.
    pub fn suspected(&self) -> bool {
        self.session().revisions.suspected()
    }

    /// Waits until there is reason to see whether etcd is well, or it was not heard of for so long.
    pub async fn reason_to_look(&self, quiet: Duration) {
        self.session().revisions.reason_to_look(quiet).await;
    }

    /// Reads the timeline, which shows that etcd is well, and what has become of the timeline.
    pub async fn look(&self) -> Result<(), StoreError> {
        let known = self.known();
        let key = self.timeline_key();
        let read = |member: &Member| {
            let mut kv = member.kv.clone();
            let key = key.bytes();
            async move { kv.get(key, None).await }
        };
        let limit = self.session().share_of(LOOK_LIMIT);
        let found = self
            .session()
            .call_within(Repeat::Safe, limit, read)
            .await?;
        let stored = Known::from_etcd(key, found.0.kvs.into_iter().next())?;
        let found = stored.with_unwritten(&self.known());
        if found != known {
            let moved = self.timeline_moved(known, found);
            tracing::info!(%moved, "another timeline is in force, or this one is halted");
        }
        self.write_halt(found, stored == found).await
    }

    /// Writes a halt for which there was no space before. One that is written keeps the largest token that any sidecar knows
    /// of, for whoever starts the next timeline may know of less.
    async fn write_halt(&self, found: Known, written: bool) -> Result<(), StoreError> {
        // Not what is learnt now: etcd goes on, and nothing is granted.
        let largest = self.session().revisions.largest_token_before();
        let being_started = matches!(found.halt(), Some(Halt::Starting { .. }));
        let told = written && found.stored.largest >= largest;
        if found.halt().is_none() || being_started || told {
            return Ok(());
        }
        let more = Stored {
            largest: largest.max(found.stored.largest),
            ..found.stored
        };
        let limit = self.session().share_of(LOOK_LIMIT);
        match self.put_halt(found.changed, &more, limit).await {
            // Whether it was this one or another's: the next look tells. Without space it stays known here.
            Ok(()) | Err(StoreError::Full { .. }) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Writes a halt, if the timeline is still as it was found.
    async fn put_halt(
        &self,
        changed: Revision,
        halted: &Stored,
        limit: Duration,
    ) -> Result<(), StoreError> {
        let key = self.timeline_key();
        let put = || {
            let put = TxnOp::put(key.bytes(), codec::encode_timeline(key, halted), None);
            Txn::new().when([unchanged(key, changed)]).and_then([put])
        };
        self.anywhere(limit, put).await.map(drop)
    }

    /// A write that shows where etcd is. Where there is no space for one it is a deletion: all agree on that in the same way.
    async fn probe(&self, found: Revision, limit: Duration) -> Result<PbTxnResponse, StoreError> {
        let probe = self.keys().probe();
        let in_force = || Txn::new().when([unchanged(self.timeline_key(), found)]);
        let put = || TxnOp::put(probe.bytes(), codec::encode_probe(&probe), None);
        match self.anywhere(limit, || in_force().and_then([put()])).await {
            Err(StoreError::Full { .. }) => {
                let delete = || TxnOp::delete(probe.bytes(), None);
                self.anywhere(limit, || in_force().and_then([delete()]))
                    .await
            }
            answer => answer,
        }
    }

    /// Looks into a suspicion, and halts everything if it is right. `now_ms`: the time of day, for people.
    pub async fn look_into_it(&self, now_ms: u64) -> Result<(), StoreError> {
        let key = self.timeline_key();
        let limit = self.session().share_of(LOOK_LIMIT);
        for _ in 0..LOOKS_MAX {
            let known = self.known();
            let position = self.session().revisions.position();
            let reply = self
                .anywhere(limit, || Txn::new().and_then([get(key)]))
                .await?;
            let found = self.found(one_value(&mut reply.responses.into_iter())?)?;
            let next = found.timeline().id != known.timeline().id && found.may_follow(&known);
            if next || found.halt().is_some() {
                self.adopt(known, found);
                self.session().revisions.cleared();
                return Ok(());
            }
            let reply = self.probe(found.changed, limit).await?;
            if !reply.succeeded {
                continue;
            }
            let Some(halt) = proof(position, &reply, &known, &found, now_ms) else {
                tracing::warn!(
                    "a member of etcd answered with what was no longer true; a write shows that the store is whole"
                );
                if found.may_follow(&known) {
                    self.adopt(known, found);
                }
                self.session().revisions.cleared();
                return Ok(());
            };
            tracing::error!(
                why = %halt,
                "halting all sidecars of this store: nothing is judged until a person has run `fencepost admin start-timeline`"
            );
            let halted = Stored {
                halt: Some(halt),
                largest: self.session().revisions.largest_token(),
                ..found.stored
            };
            match self.put_halt(found.changed, &halted, limit).await {
                // Whether it was this one or another's, or a new timeline was started: the next look tells.
                Ok(()) => {}
                Err(StoreError::Full { detail }) => {
                    tracing::error!(
                        detail,
                        "etcd has no space left for the halt, so only those sidecars halt that have seen that it went back; it is \
                         written as soon as there is space: compact, defragment, disarm the alarm"
                    );
                    let changed = found.changed;
                    let stored = halted;
                    self.adopt(known, Known { stored, changed });
                    // Unless the timeline was seen otherwise meanwhile.
                    if self.halt().is_some() {
                        return Ok(());
                    }
                }
                Err(error) => return Err(error),
            }
        }
        Err(not_applied(
            NotApplied::Refused,
            "the timeline changes all the time",
        ))
    }

    /// Asks one member after the other, whatever revision they are at, each for at most so long. Only for what may be sent
    /// again.
    pub(super) async fn anywhere(
        &self,
        limit: Duration,
        build: impl Fn() -> Txn,
    ) -> Result<PbTxnResponse, StoreError> {
        let session = self.session();
        let mut failures = Vec::new();
        for (_, member) in session.order() {
            let call = |member: &Member| {
                let mut kv = member.kv.clone();
                let txn = build();
                async move { kv.txn(txn).await }
            };
            let detail = match session.ask(member, limit, call).await {
                Ok(reply) => return Ok(reply.0),
                Err((Meaning::No(reason), detail)) => return Err(not_applied(reason, detail)),
                Err((Meaning::WhoAsks, detail)) => {
                    return Err(not_applied(NotApplied::Denied, detail));
                }
                Err((Meaning::RightsMoved, detail)) => {
                    return Err(not_applied(NotApplied::Refused, detail));
                }
                Err((Meaning::Full, detail)) => return Err(full(detail)),
                Err((Meaning::TryAnother | Meaning::Unknown, detail)) => {
                    session.eject(member);
                    detail
                }
            };
            failures.push(detail);
        }
        Err(super::failure::indeterminate(failures.join("; ")))
    }
}

/// What a write shows: that etcd was restored, and how that shows.
fn proof(
    position: Position,
    reply: &PbTxnResponse,
    known: &Known,
    found: &Known,
    time_ms: u64,
) -> Option<Halt> {
    let header = reply.header.as_ref()?;
    let revision = unsigned(header.revision);
    // It was asked for after that was known, so that it cannot come earlier; and later, if it changed anything.
    let behind = revision < position.revision;
    if behind || (changed_something(reply) && revision == position.revision) {
        return Some(Halt::WentBack {
            known: position.revision,
            found: revision,
            time_ms,
        });
    }
    if position.cluster != 0 && header.cluster_id != position.cluster {
        return Some(Halt::OtherCluster { time_ms });
    }
    (!found.may_follow(known)).then_some(Halt::OlderTimeline { time_ms })
}

/// Whether a probe made a revision of its own: the deletion of one that is not there does not.
fn changed_something(reply: &PbTxnResponse) -> bool {
    reply
        .responses
        .iter()
        .any(|response| match &response.response {
            Some(PbTxnOpResponse::ResponsePut(_)) => true,
            Some(PbTxnOpResponse::ResponseDeleteRange(deletion)) => deletion.deleted > 0,
            Some(PbTxnOpResponse::ResponseRange(_) | PbTxnOpResponse::ResponseTxn(_)) | None => {
                false
            }
        })
}
