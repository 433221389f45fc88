//! What a fold wants written.

use std::collections::BTreeSet;

use super::{FOLD_WRITES_MAX, Fold, Turn};
use crate::domain::claim::OpenOperation;
use crate::domain::ids::OperationId;
use crate::domain::incident::Incident;
use crate::domain::record::{LeaseId, Operation, Record};

/// Operations kept inline take at most about this many bytes together; the oldest move to keys of their own.
pub const INLINE_BYTES_MAX: usize = 4 * 1024;
/// An operation larger than this moves to a key of its own at once, in bytes.
pub const INLINE_OPERATION_BYTES_MAX: usize = 1024;

/// What happens to the reservation key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReservationChange {
    /// Nothing.
    Keep,
    /// A round begins, on this lease.
    Grant(LeaseId),
    /// The round ends.
    End,
}

/// What one commit removes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Gone {
    /// Whether the record goes, and with it all that is known of the resource.
    pub record: bool,
    /// Operations whose own keys go.
    pub operations: Vec<OperationId>,
}

impl Gone {
    /// Whether it removes anything.
    pub fn is_nothing(&self) -> bool {
        *self == Self::default()
    }
}

/// Everything one commit writes.
#[derive(Clone, Debug)]
pub struct RecordWrite {
    /// The record; `None`: it stays as it is.
    pub record: Option<Record>,
    /// The reservation key.
    pub reservation: ReservationChange,
    /// Operations for keys of their own.
    pub operations: Vec<Operation>,
    /// Those of the operations that leave the record with this commit. Whatever is found at their keys is not of our making.
    pub leaving: Vec<OperationId>,
    /// Incidents, each written unless it is there.
    pub incidents: Vec<Incident>,
    /// What is removed.
    pub gone: Gone,
    /// What it says of the queue.
    pub turn: Turn,
    /// Operations whose deliveries, as far as they are known here, are written with it.
    pub counted: Vec<OperationId>,
}

impl Fold<'_> {
    /// Operations that the fold takes to have no keys of their own. A guard of its commit, or of the read that confirms it.
    pub fn absent(&self) -> &BTreeSet<OperationId> {
        &self.absent
    }

    /// What to write in one commit with the folds of other resources: never more than the record and the reservation key, for
    /// all of them have to fit into it. What should move to a key of its own waits for the next write.
    pub(super) fn into_joint_write(mut self) -> Option<RecordWrite> {
        self.joint = true;
        self.into_write()
    }

    /// Puts the record whatever comes of the requests: an earlier commit under the same guards may still arrive, and once this
    /// one went through, it no longer can. A record that is not there yet is begun, and says nothing.
    #[must_use]
    pub fn settling(mut self) -> Self {
        self.settles = true;
        self
    }

    /// What to write; `None` if nothing changes.
    pub fn into_write(mut self) -> Option<RecordWrite> {
        self.changed |= self.settles;
        if !self.writes() {
            return None;
        }
        // Those that have keys of their own already are only written anew.
        let apart: BTreeSet<_> = self.moved_out.keys().cloned().collect();
        let counted = self.count();
        if self.changed {
            self.prune();
            if !self.joint {
                self.spill();
            }
        }
        let leaving = self.moved_out.keys().filter(|id| !apart.contains(id));
        Some(RecordWrite {
            record: (self.changed && !self.gone.record).then_some(self.record),
            reservation: self.reservation,
            leaving: leaving.cloned().collect(),
            operations: self.moved_out.into_values().collect(),
            incidents: self.incidents,
            gone: self.gone,
            turn: self.turn,
            counted,
        })
    }

    /// Writes into each operation that is written anyway how often it was delivered. Answers which these are.
    fn count(&mut self) -> Vec<OperationId> {
        let inline = self.record.operations.iter_mut().filter(|_| self.changed);
        let written = inline.chain(self.moved_out.values_mut());
        let mut counted = Vec::new();
        for operation in written {
            let here = self.again.get(&operation.id).copied().unwrap_or_default();
            let more = self.standing.unsaved(&operation.id).saturating_add(here);
            if more > 0 {
                operation.deliveries = operation.deliveries.and(more);
                counted.push(operation.id.clone());
            }
        }
        counted
    }

    /// Moves what is too large, then what is oldest, to keys of their own, as far as this commit has room.
    fn spill(&mut self) {
        let taken = 2 + self.moved_out.len() + self.incidents.len();
        let mut room = FOLD_WRITES_MAX.saturating_sub(taken);
        // The large ones first: they alone may be what is too much, and must not be left for want of room.
        self.move_out(&mut room, |operation, _| {
            operation.size() > INLINE_OPERATION_BYTES_MAX
        });
        self.move_out(&mut room, |_, inline| inline > INLINE_BYTES_MAX);
    }

    /// Moves operations to keys of their own, the oldest first, if they are to go at the size of all that are still inline.
    fn move_out(&mut self, room: &mut usize, goes: impl Fn(&Operation, usize) -> bool) {
        let open: usize = self.record.open.iter().map(OpenOperation::size).sum();
        let finished: usize = self.record.operations.iter().map(Operation::size).sum();
        let mut inline = open + finished;
        for operation in std::mem::take(&mut self.record.operations) {
            if *room > 0 && goes(&operation, inline) {
                *room -= 1;
                inline -= operation.size();
                self.record.spilled += 1;
                self.moved_out.insert(operation.id.clone(), operation);
            } else {
                self.record.operations.push(operation);
            }
        }
    }
}

impl Operation {
    /// How many bytes it takes in a record, about.
    pub fn size(&self) -> usize {
        const FIXED: usize = 37;
        let names = self
            .state
            .iter()
            .chain(&self.expected)
            .map(|name| name.as_str().len() + 2);
        let round = if self.round.is_some() { 18 } else { 0 };
        let event = self
            .event
            .as_ref()
            .map_or(0, |event| event.as_str().len() + 8);
        FIXED
            + self.id.as_str().len()
            + self.digest.bytes().len()
            + self.result.size()
            + round
            + self.fields.as_bytes().len()
            + event
            + self
                .fields
                .salt()
                .map_or(0, |salt| salt.as_bytes().len() + 3)
            + self.resolved.as_ref().map_or(0, |by| by.size())
            + self
                .outcome
                .as_ref()
                .map_or(0, |outcome| outcome.event.as_str().len() + 8)
            + names.sum::<usize>()
    }
}
