//! What is known of a resource before a fold begins.

use std::collections::{BTreeMap, BTreeSet};

use super::{Queue, TokenRef};
use crate::domain::claim::OpenOperation;
use crate::domain::ids::{Nonce, OperationId};
use crate::domain::record::{Operation, Record, RoundEnd};
use crate::domain::retention::StoreTime;
use crate::domain::token::{FencingToken, Revision};

/// Most operations of one resource whose deliveries are counted between two writes; those of further ones are not.
pub const UNSAVED_COUNTS_MAX: usize = 64;

/// What is known of a resource: its record, whether its last round holds it, and operations kept in keys of their own.
#[derive(Clone, Debug, Default)]
pub struct Standing {
    record: Record,
    revision: Option<Revision>,
    live: Option<(Revision, FencingToken)>,
    kept_apart: BTreeMap<OperationId, Operation>,
    /// Those of them that were seen at this very revision, and are not only remembered.
    seen_apart: BTreeSet<OperationId>,
    known_absent: BTreeSet<OperationId>,
    /// How often operations were delivered since their count was last written.
    unsaved: BTreeMap<OperationId, u32>,
    /// Who waits for it, if that was looked at.
    queue: Option<Queue>,
}

/// The record and the reservation key do not fit together: one of them was not written by Fencepost.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "the reservation key was created at {key}, but the record names a round granted at {round:?}"
)]
pub struct Inconsistent {
    key: Revision,
    round: Option<Revision>,
}

impl Standing {
    /// A resource that was never written. Also the guess about one that is not known: its guards show whether it is right.
    pub fn absent() -> Self {
        Self::default()
    }

    /// From what was read: the record with the revision of its last change, and the creation of the reservation key.
    pub fn seen(
        record: Option<(Record, Revision)>,
        reservation: Option<Revision>,
    ) -> Result<Self, Inconsistent> {
        let (record, revision) = record.map_or((Record::default(), None), |(r, at)| (r, Some(at)));
        let mut live = None;
        if let Some(key) = reservation {
            let round = record.round.as_ref().filter(|round| round.over.is_none());
            let granted = round.and_then(|round| round.granted_at(revision));
            let token = round.and_then(|round| round.token(revision));
            match token {
                Some(token) if granted == Some(key) => live = Some((key, token)),
                Some(_) | None => {
                    return Err(Inconsistent {
                        key,
                        round: granted,
                    });
                }
            }
        }
        Ok(Self {
            record,
            revision,
            live,
            ..Self::default()
        })
    }

    /// Adds operations that were found in keys of their own.
    #[must_use]
    pub fn with_operations(mut self, found: impl IntoIterator<Item = Operation>) -> Self {
        for operation in found {
            self.seen_apart.insert(operation.id.clone());
            self.kept_apart.insert(operation.id.clone(), operation);
        }
        self
    }

    /// Notes which operations were looked for in keys of their own, at this very revision, and not found.
    #[must_use]
    pub fn with_absent(mut self, looked_for: impl IntoIterator<Item = OperationId>) -> Self {
        for id in looked_for {
            if !self.seen_apart.contains(&id) {
                // What was remembered of it is over: its time has come, and it was removed.
                self.kept_apart.remove(&id);
                self.known_absent.insert(id);
            }
        }
        self
    }

    /// Takes over operations that an earlier standing knew: a finished operation stays finished, until its time has come.
    #[must_use]
    pub fn remembering(mut self, earlier: Self) -> Self {
        for (id, operation) in earlier.kept_apart {
            self.kept_apart.entry(id).or_insert(operation);
        }
        self.unsaved = earlier.unsaved;
        self
    }

    /// Adds who waits for it, as it was looked at at this very revision.
    #[must_use]
    pub fn with_queue(mut self, queue: Option<Queue>) -> Self {
        self.queue = queue;
        self
    }

    /// Forgets that what comes first in its queue is no entry of ours. It may be gone meanwhile and somebody wait; that nothing
    /// is compared because of it must rest on a look, not on what is remembered.
    #[must_use]
    pub fn trusting_the_queue(mut self) -> Self {
        self.queue = self.queue.filter(|queue| *queue != Queue::Untrusted);
        self
    }

    /// Who waits for it, if that was looked at.
    pub(super) fn queue(&self) -> Option<Queue> {
        self.queue
    }

    /// Counts another delivery of a finished operation, until it is written with something else.
    pub fn delivered_again(&mut self, id: &OperationId) {
        if let Some(count) = self.unsaved.get_mut(id) {
            *count = count.saturating_add(1);
        } else if self.unsaved.len() < UNSAVED_COUNTS_MAX {
            self.unsaved.insert(id.clone(), 1);
        }
    }

    /// Notes whose counts were written.
    #[must_use]
    pub fn counted(mut self, written: &[OperationId]) -> Self {
        for id in written {
            self.unsaved.remove(id);
        }
        self
    }

    pub(super) fn unsaved(&self, id: &OperationId) -> u32 {
        self.unsaved.get(id).copied().unwrap_or_default()
    }

    /// Forgets operations that were removed.
    #[must_use]
    pub fn without(mut self, removed: &[OperationId]) -> Self {
        for id in removed {
            self.kept_apart.remove(id);
            self.seen_apart.remove(id);
        }
        self
    }

    /// Forgets operations kept apart beyond so many bytes.
    pub fn trim(&mut self, bytes_max: usize) {
        let mut bytes: usize = self.kept_apart.values().map(Operation::size).sum();
        while bytes > bytes_max
            && let Some((_, forgotten)) = self.kept_apart.pop_first()
        {
            bytes = bytes.saturating_sub(forgotten.size());
            self.seen_apart.remove(&forgotten.id);
        }
    }

    /// How many bytes the operations kept apart take, about.
    pub fn kept_apart_bytes(&self) -> usize {
        self.kept_apart.values().map(Operation::size).sum()
    }

    /// The last change.
    pub fn revision(&self) -> Option<Revision> {
        self.revision
    }

    /// When the reservation key was created, if there is one.
    pub fn reservation(&self) -> Option<Revision> {
        self.live.map(|(key, _)| key)
    }

    /// The round that holds the resource.
    pub fn held(&self) -> Option<Nonce> {
        self.live?;
        self.record.round.as_ref().map(|round| round.nonce)
    }

    /// Whether the absence of all of these was established at this very revision.
    pub fn knows_absent(&self, ids: &BTreeSet<OperationId>) -> bool {
        ids.is_subset(&self.known_absent)
    }

    /// The finished operations in the record, oldest first.
    pub fn inline(&self) -> &[Operation] {
        &self.record.operations
    }

    /// The operations that were claimed and are not finished, oldest first.
    pub fn open(&self) -> &[OpenOperation] {
        &self.record.open
    }

    /// How many finished operations have keys of their own.
    pub fn spilled(&self) -> u64 {
        self.record.spilled
    }

    /// A finished operation, in the record or in a key of its own.
    pub fn operation(&self, id: &OperationId, now: StoreTime) -> Option<Operation> {
        let inline = self.inline().iter().find(|inline| inline.id == *id);
        inline.or_else(|| self.kept_apart(id, now)).cloned()
    }

    /// Whether the record knows a round by this name, live or over, or a claim by the request that it was granted to.
    pub fn names(&self, round: Nonce) -> bool {
        let last = self.record.round.as_ref();
        last.is_some_and(|last| last.nonce == round)
            || self
                .record
                .past_rounds
                .iter()
                .any(|past| past.nonce == round)
            || self
                .record
                .open
                .iter()
                .any(|open| open.claim.nonce == round)
    }

    /// An operation in a key of its own. One whose time has come may have been removed since it was seen.
    pub(super) fn kept_apart(&self, id: &OperationId, now: StoreTime) -> Option<&Operation> {
        let known = self.kept_apart.get(id)?;
        (!known.expired(now) || self.seen_apart.contains(id)).then_some(known)
    }

    /// All operations in keys of their own that are known.
    pub(super) fn all_kept_apart(&self) -> impl Iterator<Item = &Operation> {
        self.kept_apart.values()
    }

    /// Whether the record shows a claim that is open under a round.
    pub(super) fn has_open_under(&self, round: Nonce) -> bool {
        let mut open = self.record.open.iter();
        open.any(|open| open.claim.round == round && !open.claim.returned)
    }

    /// Whether the record shows this claim as given back.
    pub(super) fn has_returned(&self, open: &OpenOperation) -> bool {
        let known = self.record.open(&open.intent.operation);
        known.is_some_and(|known| known.claim.returned && known.claim.nonce == open.claim.nonce)
    }

    /// Whether the record shows a round that is over without saying so: its time ran out unnoticed.
    pub(super) fn round_ran_out(&self) -> bool {
        let round = self.record.round.as_ref();
        self.live.is_none() && round.is_some_and(|round| round.over.is_none())
    }

    /// The record as a fold works on it: the round's grant is written in, and a round whose key is gone is over.
    pub(super) fn opened(&self) -> (Record, Option<TokenRef>) {
        let mut record = self.record.clone();
        if let Some(round) = record.round.as_mut() {
            round.granted = round.granted_at(self.revision);
            if self.live.is_none() && round.over.is_none() {
                round.over = Some(RoundEnd::Lost);
            }
        }
        (record, self.live.map(|(_, token)| TokenRef::Known(token)))
    }
}
