//! What fits into one transaction.

use std::collections::HashSet;

use super::Prepared;
use crate::domain::decision::IncidentId;
use crate::domain::ids::ResourceId;
use crate::domain::together::TOGETHER_MAX;

/// Most operations on one level of an etcd transaction (`--max-txn-ops`). A level takes the largest of its three lists,
/// and the level below has what is left.
pub const BATCH_OPERATIONS_MAX: usize = 128;
/// Most members of a batch.
pub const BATCH_MEMBERS_MAX: usize = 64;
/// Most operations of a member, with what is nested in it, beside a full batch of others.
const MEMBER_OPERATIONS_MAX: usize = BATCH_OPERATIONS_MAX - BATCH_MEMBERS_MAX;
/// Most bytes of a batch on the way to etcd, which takes 1.5 MiB (`--max-request-bytes`).
pub const BATCH_BYTES_MAX: usize = 1024 * 1024;
/// Most bytes that the reply to a batch could have, in case every guard fails: enough for a full one that looks for an operation each.
pub const BATCH_BYTES_BACK_MAX: usize = 9 * 1024 * 1024;

// An ordinary member (record, reservation, one operation, an incident) must fit beside a full batch.
const _: () = assert!(MEMBER_OPERATIONS_MAX >= 8);
// So must one of several resources, which compares, writes and reads two keys of each.
const _: () = assert!(MEMBER_OPERATIONS_MAX >= 2 * TOGETHER_MAX);
// What may come back must be accepted when it comes.
const _: () = assert!(BATCH_BYTES_BACK_MAX < crate::store::session::REPLY_BYTES_MAX);

/// Collects commits for one transaction, as long as they fit and do not touch each other's keys.
#[derive(Debug, Default)]
pub struct Batch {
    members: Vec<Prepared>,
    resources: HashSet<ResourceId>,
    incidents: HashSet<IncidentId>,
    bytes_sent: usize,
    bytes_back: usize,
}

impl Batch {
    /// An empty one.
    pub fn new() -> Self {
        Self::default()
    }

    /// Whether a commit can be added. An empty batch takes any: one that is too large for every batch is sent alone, and
    /// etcd judges it.
    pub fn fits(&self, member: &Prepared) -> bool {
        self.members.is_empty()
            || (self.members.len() < BATCH_MEMBERS_MAX
                && self.members.iter().chain([member]).all(small_enough)
                && self.bytes_sent + member.bytes_sent() <= BATCH_BYTES_MAX
                && self.bytes_back + member.bytes_back() <= BATCH_BYTES_BACK_MAX
                && !self.touches_keys_of(member))
    }

    /// Adds a commit, or gives it back for another batch.
    pub fn try_add(&mut self, member: Prepared) -> Result<(), Prepared> {
        if !self.fits(&member) {
            return Err(member);
        }
        self.bytes_sent += member.bytes_sent();
        self.bytes_back += member.bytes_back();
        self.resources.extend(member.resources().iter().cloned());
        self.incidents.extend(member.0.incidents.iter().cloned());
        self.members.push(member);
        Ok(())
    }

    /// The commits, in the order in which they were added.
    pub fn members(&self) -> &[Prepared] {
        &self.members
    }

    /// How many they are.
    pub fn len(&self) -> usize {
        self.members.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.members.is_empty()
    }

    /// Whether a batch would collect exactly these.
    pub(in crate::store) fn collects(members: &[Prepared]) -> bool {
        let mut batch = Self::new();
        members
            .iter()
            .all(|member| batch.try_add(member.clone()).is_ok())
    }

    /// The same question as `Prepared::conflicts_with`, asked of all members at once.
    fn touches_keys_of(&self, member: &Prepared) -> bool {
        let taken = |resource| self.resources.contains(resource);
        member.resources().iter().any(taken)
            || member
                .0
                .incidents
                .iter()
                .any(|incident| self.incidents.contains(incident))
    }
}

fn small_enough(member: &Prepared) -> bool {
    member.operation_count() <= MEMBER_OPERATIONS_MAX
}
