//! The timeline in force.

use etcd_client::TxnOp;
use etcd_client::proto::PbKeyValue;

use super::codec::{self, corrupt};
use super::error::StoreError;
use super::keys::Key;
use super::session::{Repeat, Session};
use super::txn::{malformed, one_value, put_if_absent};
use crate::domain::timeline::{Halt, Stored};
use crate::domain::token::{Revision, Timeline};

/// Most attempts to create the first timeline when the outcome stays unknown.
const CREATE_ATTEMPTS_MAX: usize = 3;

/// The timeline as last seen. Everything is committed under the guard that its key was last changed at `changed`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Known {
    pub(super) stored: Stored,
    pub(super) changed: Revision,
}

/// The timeline as it was seen at one moment, halted or not. What was entered into queues under one is gone under the next, for
/// starting a timeline removes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TimelineSeen(pub(super) Known);

impl Known {
    pub(super) fn timeline(&self) -> Timeline {
        self.stored.timeline
    }

    /// Why nothing is judged.
    pub(super) fn halt(&self) -> Option<Halt> {
        self.stored.halt
    }

    /// Whether this may come after another one without etcd having been restored behind our backs. A change of the same
    /// timeline comes at a later revision; another timeline has a larger base.
    pub(super) fn may_follow(&self, before: &Self) -> bool {
        let same = self.timeline().id == before.timeline().id;
        self.stored.may_follow(&before.stored) && (!same || self.changed >= before.changed)
    }

    /// The same, with a halt that is known beside it: one that could not be written, for etcd has no space. What etcd has at the
    /// key since the same revision is the same value, so whatever is known beyond it was never written.
    pub(super) fn with_unwritten(self, known: &Self) -> Self {
        let same = self.timeline().id == known.timeline().id && self.changed == known.changed;
        if same && self.halt().is_none() && known.halt().is_some() {
            *known
        } else {
            self
        }
    }

    /// From what etcd has at the timeline's key.
    pub(super) fn from_etcd(key: &Key, found: Option<PbKeyValue>) -> Result<Self, StoreError> {
        let found = found.ok_or_else(|| {
            corrupt(
                key,
                "it is gone: etcd was emptied, or restored from a backup that knows nothing of this store; run `fencepost admin start-timeline` to begin anew",
            )
        })?;
        Ok(Self {
            stored: codec::decode_timeline(key, &found.value)?,
            changed: Revision::from_etcd(found.mod_revision)
                .ok_or_else(|| corrupt(key, "etcd names no revision of it"))?,
        })
    }
}

/// Finds the timeline, or creates `first`. Of several sidecars that start at once exactly one creates its own, and all
/// use that one.
pub(super) async fn establish(
    session: &Session,
    key: &Key,
    first: &Timeline,
) -> Result<Known, StoreError> {
    let mut outcome = Ok(());
    for _ in 0..CREATE_ATTEMPTS_MAX {
        if let Some(found) = find(session, key).await? {
            return Known::from_etcd(key, Some(found));
        }
        let create = || put_if_absent(key, codec::encode_timeline(key, &Stored::first(*first)));
        // Whether it was ours or another's, or is not known: reading again tells.
        outcome = match session.txn(Repeat::Never, create).await {
            Ok(_) => Ok(()),
            Err(error @ StoreError::Indeterminate { .. }) => Err(error),
            Err(error) => return Err(error),
        };
    }
    match find(session, key).await? {
        Some(found) => Known::from_etcd(key, Some(found)),
        None => Err(outcome.err().unwrap_or_else(malformed)),
    }
}

/// Reads the timeline linearizably.
async fn find(session: &Session, key: &Key) -> Result<Option<PbKeyValue>, StoreError> {
    let get = || etcd_client::Txn::new().and_then([TxnOp::get(key.bytes(), None)]);
    let reply = session.txn(Repeat::Safe, get).await?;
    one_value(&mut reply.responses.into_iter())
}
