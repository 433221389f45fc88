//! Commits and reads in etcd's words, and its replies in ours.
//!
//! ```text
//! Txn  if    the timeline is the one known
//!      then  for each member: Txn  if    its guards hold
//!                                  then  its writes; for each incident: Txn  if absent  then put  else its evidence, if absent
//!                                  else  gets of all that it guards on
//!      else  get the timeline
//! ```
//!
//! etcd evaluates the compares of all levels before it executes anything, so a member does not see what another one
//! writes: no two members of a batch may share a key.

mod batch;
mod queue;
mod reply;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use etcd_client::{Compare, CompareOp, GetOptions, PutOptions, Txn, TxnOp};

pub use batch::{
    BATCH_BYTES_BACK_MAX, BATCH_BYTES_MAX, BATCH_MEMBERS_MAX, BATCH_OPERATIONS_MAX, Batch,
};
pub(super) use queue::{ENTRY_BACK_BYTES, entry, get_first, seen_first};
pub(super) use reply::{batch_outcome, malformed, one_value, read_outcome, which_are_there};

use super::codec;
use super::commit::{
    Commit, MachineGuard, QueueGuard, ReadAsk, ReservationGuard, ReservationWrite,
};
use super::keys::{Key, Keys};
use super::timeline::Known;
use crate::domain::decision::IncidentId;
use crate::domain::ids::{OperationId, ResourceId};
use crate::domain::incident::Incident;
use crate::domain::together::TOGETHER_MAX;
use crate::domain::token::{Revision, Timeline};
use queue::QueueKeys;

/// Most operations that all asks of one read may take together; the timeline takes one more.
pub const READ_OPERATIONS_MAX: usize = BATCH_OPERATIONS_MAX - 1;

/// What one compare or operation takes at most beside its key and value, in bytes: tags, lengths and numbers, on all
/// levels that it is nested in.
const OVERHEAD_BYTES: usize = 32;
/// What etcd answers for a key at most beside key and value, in bytes.
const OVERHEAD_BACK_BYTES: usize = 96;
/// The largest record that is reckoned with in a reply, in bytes: the most states, names and rounds, the most resources in one
/// round, a few KiB of finished operations, and all that may be open.
const RECORD_BACK_BYTES: usize = 58 * 1024;
/// The largest reservation value, in bytes.
const RESERVATION_BACK_BYTES: usize = 64;
/// The largest operation that is reckoned with in a reply, in bytes: the largest result and its names.
const OPERATION_BACK_BYTES: usize = 76 * 1024;

// The largest records of one round fit into one commit.
const _: () = assert!(TOGETHER_MAX * RECORD_BACK_BYTES < BATCH_BYTES_MAX);

/// The keys of one resource that a request touches.
#[derive(Debug)]
pub(super) struct ResourceKeys {
    pub(super) record: Key,
    pub(super) reservation: Key,
    /// The machine of its kind, if it is looked at. Never its value, which may be large: whoever finds it changed reads it
    /// once for all.
    pub(super) machine: Option<Key>,
    /// Those operations that are looked for, and their keys.
    pub(super) operations: Vec<(OperationId, Key)>,
    /// Its queue, if it is looked at.
    queue: Option<QueueKeys>,
}

impl ResourceKeys {
    fn new(
        keys: &Keys,
        resource: &ResourceId,
        machine: bool,
        operations: &[OperationId],
        queue: QueueGuard,
    ) -> Self {
        Self {
            machine: machine.then(|| keys.machine(resource.kind())),
            record: keys.record(resource),
            reservation: keys.reservation(resource),
            operations: operations
                .iter()
                .map(|id| (id.clone(), keys.operation(resource, id)))
                .collect(),
            queue: QueueKeys::of(keys, resource, queue),
        }
    }

    fn all(&self) -> impl Iterator<Item = &Key> {
        [&self.record, &self.reservation]
            .into_iter()
            .chain(&self.machine)
            .chain(self.operations.iter().map(|(_, key)| key))
    }

    /// In this order they are answered.
    fn gets(&self) -> Vec<TxnOp> {
        let values = [&self.record, &self.reservation].into_iter().map(get);
        let machine = self.machine.iter().map(get_revision);
        let operations = self.operations.iter().map(|(_, key)| get(key));
        let queue = self.queue.iter().flat_map(QueueKeys::gets);
        values
            .chain(machine)
            .chain(operations)
            .chain(queue)
            .collect()
    }
}

/// A commit in etcd's words, measured, ready to be merged with others. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Prepared(Arc<Member>);

#[derive(Debug)]
struct Member {
    known: Known,
    /// Mostly one; each once.
    resources: Vec<ResourceId>,
    incidents: Vec<IncidentId>,
    /// Of each resource.
    keys: Vec<ResourceKeys>,
    txn: Txn,
    operation_count: usize,
    bytes_sent: usize,
    bytes_back: usize,
    only_deletes: bool,
}

impl Prepared {
    /// The guards of all commits must hold, or none of them is done. Each is about another resource.
    pub(super) fn new(keys: &Keys, known: Known, commits: &[Commit]) -> Self {
        let mut all_keys = Vec::with_capacity(commits.len());
        let (mut all_guards, mut all_gets) = (Vec::new(), Vec::new());
        let mut writes = Writes::default();
        let mut incidents = Vec::new();
        let mut nested = 0;
        let mut asked = 0;
        let (mut bytes_back, mut queue_bytes) = (0, 0);
        for commit in commits {
            let resource_keys = ResourceKeys::new(
                keys,
                &commit.resource,
                commit.machine != MachineGuard::None,
                &commit.absent_operations,
                commit.queue,
            );
            all_guards.extend(guards(commit, &resource_keys));
            writes.add(keys, commit, &resource_keys);
            all_gets.extend(resource_keys.gets());
            // Each incident is one more level, of one compare and one put; so is the part that it may become.
            let levels = commit.incidents.iter();
            let levels = levels.map(|incident| 1 + incident.evidence.len());
            nested = levels.max().unwrap_or(0).max(nested);
            asked += resource_keys.all().map(Key::len).sum::<usize>();
            let queue = resource_keys.queue.as_ref();
            let (queued, firsts) = queue.map_or((0, 0), |q| (q.bytes(), q.get_count()));
            queue_bytes += queued;
            bytes_back += RECORD_BACK_BYTES
                + RESERVATION_BACK_BYTES
                + OPERATION_BACK_BYTES * resource_keys.operations.len()
                + ENTRY_BACK_BYTES * firsts;
            incidents.extend(commit.incidents.iter().map(|i| i.id.clone()));
            all_keys.push(resource_keys);
        }
        let (guards, gets) = (all_guards, all_gets);
        let level = guards.len().max(writes.operations.len()).max(gets.len());
        // Each key that is looked at is sent in a compare and in a get.
        let bytes_sent =
            writes.bytes + 2 * (asked + OVERHEAD_BYTES * gets.len()) + queue_bytes + OVERHEAD_BYTES;
        bytes_back +=
            asked + queue_bytes + OVERHEAD_BACK_BYTES * (gets.len() + writes.operations.len());
        Self(Arc::new(Member {
            known,
            resources: commits.iter().map(|one| one.resource.clone()).collect(),
            incidents,
            keys: all_keys,
            txn: Txn::new()
                .when(guards)
                .and_then(writes.operations)
                .or_else(gets),
            operation_count: level + nested,
            bytes_sent,
            bytes_back,
            only_deletes: commits.iter().all(Commit::only_deletes),
        }))
    }

    /// The timeline in which it was judged.
    pub fn timeline(&self) -> Timeline {
        self.0.known.timeline()
    }

    pub(super) fn known(&self) -> Known {
        self.0.known
    }

    /// The resources that it is about.
    pub fn resources(&self) -> &[ResourceId] {
        &self.0.resources
    }

    /// How much of etcd's limit of operations it takes, with what is nested in it.
    pub fn operation_count(&self) -> usize {
        self.0.operation_count
    }

    /// How many bytes it takes on the way to etcd, at most.
    pub fn bytes_sent(&self) -> usize {
        self.0.bytes_sent
    }

    /// How many bytes could come back if its guards fail, about.
    pub fn bytes_back(&self) -> usize {
        self.0.bytes_back
    }

    /// Whether it puts nothing, so that etcd takes it also when it has no space left.
    pub fn only_deletes(&self) -> bool {
        self.0.only_deletes
    }

    /// Whether both touch a key that one of them writes, so that they must not be in one batch. The keys of different
    /// resources never meet; an incident is named by its finding, so its key is compared by name.
    pub fn conflicts_with(&self, other: &Self) -> bool {
        let share = |resource| other.resources().contains(resource);
        self.resources().iter().any(share)
            || self
                .0
                .incidents
                .iter()
                .any(|incident| other.0.incidents.contains(incident))
    }
}

/// What must hold.
fn guards(commit: &Commit, keys: &ResourceKeys) -> Vec<Compare> {
    let equal = CompareOp::Equal;
    // Nobody touched the record since it was read. Revision 0 is etcd's way to say "absent".
    let seen = commit.seen.map_or(0, as_etcd);
    let untouched = Compare::mod_revision(keys.record.bytes(), equal, seen);
    // The reservation is still that very grant: a key that was deleted and made anew has another create_revision. That there is
    // none needs no guard of its own beside a record: it was so when the record had this revision, and only a grant makes one,
    // which writes the record too. So a claim that was found dead stays dead under this guard alone, and what is
    // written because of it may rest on that. A grant asks all the same, for an overwritten key would keep its create_revision; and so does
    // what begins a record, in case that somebody deleted the one before by hand.
    let granted = match (commit.reservation, commit.reservation_write) {
        (ReservationGuard::GrantedAt(revision), _) => Some(as_etcd(revision)),
        (ReservationGuard::Absent, ReservationWrite::Keep) if commit.seen.is_some() => None,
        (
            ReservationGuard::Absent,
            ReservationWrite::Keep | ReservationWrite::Grant(_) | ReservationWrite::Delete,
        ) => Some(0),
    };
    let same_round =
        granted.map(|granted| Compare::create_revision(keys.reservation.bytes(), equal, granted));
    // What judged is still in force.
    let in_force = keys.machine.iter().map(|key| {
        let since = match commit.machine {
            MachineGuard::InForceSince(revision) => as_etcd(revision),
            MachineGuard::None | MachineGuard::Absent => 0,
        };
        Compare::mod_revision(key.bytes(), equal, since)
    });
    // No operation that is taken for new has been moved out of the record.
    let absent = keys
        .operations
        .iter()
        .map(|(_, key)| Compare::create_revision(key.bytes(), equal, 0));
    let untouched = [untouched].into_iter();
    untouched
        .chain(same_round)
        .chain(in_force)
        .chain(absent)
        .chain(keys.queue.iter().flat_map(QueueKeys::guards))
        .collect()
}

/// What is written if the guards hold.
#[derive(Default)]
struct Writes {
    operations: Vec<TxnOp>,
    bytes: usize,
}

impl Writes {
    fn add(&mut self, keys: &Keys, commit: &Commit, resource_keys: &ResourceKeys) {
        let writes = self;
        if let Some(record) = &commit.record {
            let key = &resource_keys.record;
            writes.put(key, codec::encode_record(key, record), None);
        } else if commit.gone.record {
            writes.delete(&resource_keys.record);
        }
        let key = &resource_keys.reservation;
        match commit.reservation_write {
            ReservationWrite::Keep => {}
            ReservationWrite::Grant(lease) => {
                let round = commit.record.as_ref().and_then(|r| r.round.as_ref());
                let round = round.expect("a grant writes the record with the round that it begins");
                let value = codec::encode_reservation(key, round.nonce);
                let on_lease = PutOptions::new().with_lease(lease.0);
                writes.put(key, value, Some(on_lease));
            }
            ReservationWrite::Delete => {
                writes.delete(key);
            }
        }
        if let Some(name) = &commit.leaves {
            writes.delete(&keys.waiter(&commit.resource, name));
        }
        for operation in &commit.operations {
            let key = keys.operation(&commit.resource, &operation.id);
            writes.put(&key, codec::encode_operation(&key, operation), None);
        }
        for operation in &commit.gone.operations {
            writes.delete(&keys.operation(&commit.resource, operation));
        }
        for incident in &commit.incidents {
            // The first report of a finding stays. What a repeated one brings beside it becomes a part of it, once.
            let key = keys.incident(&incident.id);
            let part = incident.part().map(|id| Incident {
                id,
                ..incident.clone()
            });
            let otherwise = part.iter().map(|part| {
                let key = keys.incident(&part.id);
                TxnOp::txn(put_if_absent_only(&key, codec::encode_incident(&key, part)))
            });
            let otherwise: Vec<_> = otherwise.collect();
            let value = codec::encode_incident(&key, incident);
            // The value is sent once for each branch.
            let branches = 1 + otherwise.len();
            writes.bytes += branches * (value.len() + 2 * key.len() + 3 * OVERHEAD_BYTES);
            writes.operations.push(TxnOp::txn(
                put_if_absent_only(&key, value).or_else(otherwise),
            ));
        }
    }

    fn delete(&mut self, key: &Key) {
        self.bytes += key.len() + OVERHEAD_BYTES;
        self.operations.push(TxnOp::delete(key.bytes(), None));
    }

    fn put(&mut self, key: &Key, value: Vec<u8>, options: Option<PutOptions>) {
        self.bytes += key.len() + value.len() + OVERHEAD_BYTES;
        self.operations
            .push(TxnOp::put(key.bytes(), value, options));
    }
}

/// One batch, under the guard that the timeline is still the one that was last seen.
pub(super) fn batch_txn(timeline: &Key, known: Revision, members: &[Prepared]) -> Txn {
    let in_force = unchanged(timeline, known);
    let members: Vec<TxnOp> = members
        .iter()
        .map(|member| TxnOp::txn(member.0.txn.clone()))
        .collect();
    Txn::new()
        .when([in_force])
        .and_then(members)
        .or_else([get(timeline)])
}

/// One read of several resources at one revision. Without a compare or a write etcd answers it without a raft entry.
#[derive(Debug)]
pub(super) struct Reading {
    resources: Vec<ResourceKeys>,
}

impl Reading {
    pub(super) fn new(keys: &Keys, asks: &[ReadAsk]) -> Self {
        Self {
            resources: asks
                .iter()
                .map(|ask| {
                    let (machine, queue) = (ask.machine, QueueGuard::None);
                    ResourceKeys::new(keys, &ask.resource, machine, &ask.operations, queue)
                })
                .collect(),
        }
    }

    /// The timeline comes first.
    pub(super) fn txn(&self, timeline: &Key) -> Txn {
        let mut gets = vec![get(timeline)];
        gets.extend(self.resources.iter().flat_map(ResourceKeys::gets));
        Txn::new().and_then(gets)
    }
}

/// Asks which of these keys there are, without their values.
pub(super) fn are_there(keys: &[Key]) -> Txn {
    Txn::new().and_then(keys.iter().map(get_revision).collect::<Vec<_>>())
}

/// The same, after the timeline.
pub(super) fn are_there_under(timeline: &Key, keys: &[Key]) -> Txn {
    let all = [get(timeline)]
        .into_iter()
        .chain(keys.iter().map(get_revision));
    Txn::new().and_then(all.collect::<Vec<_>>())
}

/// Puts a value unless the key exists; otherwise gets what is there.
pub(super) fn put_if_absent(key: &Key, value: Vec<u8>) -> Txn {
    put_if_absent_only(key, value).or_else([get(key)])
}

/// Puts a value unless the key exists.
fn put_if_absent_only(key: &Key, value: Vec<u8>) -> Txn {
    Txn::new()
        .when([Compare::create_revision(key.bytes(), CompareOp::Equal, 0)])
        .and_then([TxnOp::put(key.bytes(), value, None)])
}

/// Puts a value if the key was last changed at this revision.
pub(super) fn put_if_unchanged(key: &Key, seen: Revision, value: Vec<u8>) -> Txn {
    let same = Compare::mod_revision(key.bytes(), CompareOp::Equal, as_etcd(seen));
    Txn::new()
        .when([same])
        .and_then([TxnOp::put(key.bytes(), value, None)])
}

/// That a key was last changed at this revision.
pub(super) fn unchanged(key: &Key, seen: Revision) -> Compare {
    Compare::mod_revision(key.bytes(), CompareOp::Equal, as_etcd(seen))
}

pub(super) fn get(key: &Key) -> TxnOp {
    TxnOp::get(key.bytes(), None)
}

fn get_revision(key: &Key) -> TxnOp {
    TxnOp::get(key.bytes(), Some(GetOptions::new().with_keys_only()))
}

pub(super) fn as_etcd(revision: Revision) -> i64 {
    i64::try_from(revision.get()).expect("a revision came from etcd as an i64")
}
