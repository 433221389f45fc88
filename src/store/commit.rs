//! What is asked of the store, in the domain's words.

use crate::domain::decision::IncidentId;
use crate::domain::ids::{OperationId, ResourceId};
use crate::domain::incident::Incident;
use crate::domain::judge::Gone;
use crate::domain::record::{LeaseId, Operation, Record};
use crate::domain::token::Revision;
use crate::domain::waiter::{Place, WaiterName};

/// Which parts of a resource to read.
#[derive(Clone, Debug)]
pub struct ReadAsk {
    /// The resource: its record and its reservation key are always read.
    pub resource: ResourceId,
    /// Operations to look for in keys of their own.
    pub operations: Vec<OperationId>,
    /// Whether to look which machine is in force for its kind.
    pub machine: bool,
}

impl ReadAsk {
    /// How many operations of an etcd transaction it takes. All asks of one request together may take at most
    /// `READ_OPERATIONS_MAX`.
    pub fn operation_count(&self) -> usize {
        2 + self.operations.len() + usize::from(self.machine)
    }
}

/// A resource as it stood at one revision.
#[derive(Clone, Debug, Default)]
pub struct Seen {
    /// The record and the revision of its last change.
    pub record: Option<(Record, Revision)>,
    /// The reservation key.
    pub reservation: Option<SeenReservation>,
    /// Those of the operations asked for that live in keys of their own.
    pub operations: Vec<Operation>,
    /// When the machine of its kind was put in force, if that was looked at; inside, `None`: there is none.
    pub machine: Option<Option<Revision>>,
    /// Who waits for it, if that was looked at.
    pub queue: Option<SeenQueue>,
}

/// Who waits for a resource.
#[derive(Clone, Debug)]
pub enum SeenQueue {
    /// Nobody.
    Nobody,
    /// This one comes first.
    First(Place),
    /// One of those who were entered then comes first; which one, was not asked for.
    OneOf {
        /// When they were entered.
        since: Revision,
        /// Who was asked for, and waits no longer.
        gone: Option<Place>,
    },
    /// What comes first is no entry of ours: it is foreign or damaged, as this error says.
    Untrusted(super::StoreError),
}

/// A reservation key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SeenReservation {
    /// The revision that created it.
    pub granted: Revision,
    /// The lease it hangs on.
    pub lease: LeaseId,
}

/// What must hold of the machine of a resource's kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MachineGuard {
    /// Anything: nothing was judged by it.
    None,
    /// None must be in force.
    Absent,
    /// It must be the one that was put in force at this revision.
    InForceSince(Revision),
}

/// What must hold of the queue of a resource.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QueueGuard {
    /// Anything.
    None,
    /// Nobody must wait.
    NobodyWaits,
    /// This one must wait, and come first.
    First(Place),
}

/// What must hold of the reservation key, as it was known when the record had the revision that was seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReservationGuard {
    /// There was none. Beside a record that was seen, the guard on that is enough: whoever makes the key writes the record too.
    Absent,
    /// It must be the one created at this revision.
    GrantedAt(Revision),
}

/// What happens to the reservation key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReservationWrite {
    /// Nothing.
    Keep,
    /// It is created on this lease. Its value is the round's nonce, taken from the record.
    Grant(LeaseId),
    /// It is deleted.
    Delete,
}

/// All that is judged and written for one resource, at once or not at all.
#[derive(Clone, Debug)]
pub struct Commit {
    /// The resource.
    pub resource: ResourceId,
    /// Guard: the record was last changed at this revision. `None`: there is no record.
    pub seen: Option<Revision>,
    /// Guard on the reservation key.
    pub reservation: ReservationGuard,
    /// Guard on the machine of its kind.
    pub machine: MachineGuard,
    /// Guard on the queue.
    pub queue: QueueGuard,
    /// Who leaves the queue. One who is not there has left it.
    pub leaves: Option<WaiterName>,
    /// Guard: these operations have no keys of their own.
    pub absent_operations: Vec<OperationId>,
    /// The record to write. `None`: it stays.
    pub record: Option<Record>,
    /// The reservation key.
    pub reservation_write: ReservationWrite,
    /// Operations to write to keys of their own.
    pub operations: Vec<Operation>,
    /// Incidents to write. If one is there already, its evidence becomes a part of that one, unless that is there too.
    pub incidents: Vec<Incident>,
    /// What is removed. A record that is removed is not written too.
    pub gone: Gone,
}

impl Commit {
    /// Whether it puts nothing.
    pub(super) fn only_deletes(&self) -> bool {
        self.record.is_none()
            && self.operations.is_empty()
            && self.incidents.is_empty()
            && !matches!(self.reservation_write, ReservationWrite::Grant(_))
    }
}

/// What became of one member of a batch.
#[derive(Clone, Debug)]
pub enum MemberOutcome {
    /// Its guards held; it was written at the batch's revision.
    Committed {
        /// Those of its incidents that were not there before.
        raised: Vec<IncidentId>,
    },
    /// A guard failed; this is how its resource stands, and if it has several, how the others do. Operations: those of
    /// `absent_operations` that do exist.
    Overtaken(Box<Seen>, Vec<Seen>),
}

/// What became of a batch.
#[derive(Debug)]
pub struct BatchOutcome {
    /// etcd's revision after it.
    pub revision: Revision,
    /// One for each member, in order. An error here is always `Corrupt`.
    pub members: Vec<Result<MemberOutcome, super::StoreError>>,
}
