//! Machines in etcd: the one in force for each kind, under a key that every judgement compares, and all versions beside it.

use etcd_client::proto::PbKeyValue;
use etcd_client::{Compare, CompareOp, Txn, TxnOp};

use super::codec::{self, corrupt};
use super::error::StoreError;
use super::keys::{Key, just_after};
use super::link::Store;
use super::session::Repeat;
use super::txn::{as_etcd, malformed};
use super::watch::{News, Watch};
use crate::domain::ids::Kind;
use crate::domain::machine::{FILE_BYTES_MAX, Filed, MachineVersion, SUCCESSORS_MAX};
use crate::domain::token::Revision;

/// Most machines that one request to etcd asks for.
pub(super) const MACHINES_PER_REQUEST: usize = 8;
/// The largest machine as stored, in bytes: the file, and two names and their tags for each successor.
const MACHINE_BYTES_MAX: usize = FILE_BYTES_MAX + SUCCESSORS_MAX * 160;

// A page must be accepted when it comes, and a machine must be taken when it is put in force, with its version beside it.
const _: () = assert!(MACHINES_PER_REQUEST * MACHINE_BYTES_MAX < super::session::REPLY_BYTES_MAX);
const _: () = assert!(MACHINE_BYTES_MAX + FILE_BYTES_MAX < 1_500_000);

/// A machine and the revision at which it was put in force.
pub type InForceAt = (Filed, Revision);

/// A kind, and what is in force for it; one that cannot be trusted still has its revision.
pub type Found = (Kind, Result<InForceAt, (StoreError, Revision)>);

/// What is new of the machines in force.
#[derive(Debug)]
pub enum MachineNews {
    /// These are in force, and no others.
    All(Vec<Found>),
    /// One has changed; `None`: it is gone. The revision is that of the change.
    One(Kind, Revision, Option<Result<Filed, StoreError>>),
}

/// Follows the machines in force.
#[derive(Debug)]
pub struct MachineWatch {
    store: Store,
    watch: Watch,
    /// What came together and is not told yet.
    rest: Vec<MachineNews>,
}

impl MachineWatch {
    /// What is new; first, and whenever something may have been missed, everything. Waits without an end. Whoever stops
    /// waiting misses nothing.
    pub async fn next(&mut self) -> MachineNews {
        loop {
            if let Some(next) = self.rest.pop() {
                return next;
            }
            match self.watch.next().await {
                News::All(entries) => {
                    let named = entries.iter().filter_map(|kv| self.store.named(kv));
                    return MachineNews::All(named.collect());
                }
                News::Changes(changes) => {
                    for change in changes.into_iter().rev() {
                        let keys = self.store.keys();
                        let Some((key, kind)) = keys.found_machine(&change.key) else {
                            continue;
                        };
                        let value = change.value.as_deref();
                        let filed = value.map(|value| codec::decode_machine(&key, &kind, value));
                        self.rest
                            .push(MachineNews::One(kind, change.revision, filed));
                    }
                }
            }
        }
    }

    /// Begins anew with everything: the store is another one than before.
    pub fn restart(&mut self) {
        self.rest.clear();
        self.watch.restart();
    }
}

impl Store {
    /// Follows the machines in force.
    pub fn watch_machines(&self) -> MachineWatch {
        let (start, end) = self.keys().machines();
        MachineWatch {
            watch: self.watch(start, Some(end)),
            store: self.clone(),
            rest: Vec::new(),
        }
    }

    /// The machine in force for a kind, read linearizably.
    pub async fn machine(&self, kind: &Kind) -> Result<Option<InForceAt>, StoreError> {
        let key = self.keys().machine(kind);
        let Some(found) = self.one(&key).await? else {
            return Ok(None);
        };
        let revision = revision_of(&key, &found)?;
        let filed = codec::decode_machine(&key, kind, &found.value)?;
        Ok(Some((filed, revision)))
    }

    /// The revision of the machine in force for a kind, whatever its value is worth.
    pub async fn machine_revision(&self, kind: &Kind) -> Result<Option<Revision>, StoreError> {
        let key = self.keys().machine(kind);
        let found = self.one(&key).await?;
        found.map(|kv| revision_of(&key, &kv)).transpose()
    }

    /// A version of a kind's machine.
    pub async fn machine_version(
        &self,
        kind: &Kind,
        version: MachineVersion,
    ) -> Result<Option<Filed>, StoreError> {
        let key = self.keys().machine_version(kind, version);
        let found = self.one(&key).await?;
        let decode = |kv: PbKeyValue| codec::decode_machine(&key, kind, &kv.value);
        found.map(decode).transpose()
    }

    /// Puts a machine in force, and its version beside it, if the one in force is still that of a revision (`None`: there is
    /// none). Answers whether it was. After an unknown outcome the very same call tells the truth: either it is applied, or
    /// what is in force has another revision and shows whose it is.
    pub async fn install_machine(
        &self,
        filed: &Filed,
        follows: Option<Revision>,
    ) -> Result<bool, StoreError> {
        let key = self.keys().machine(&filed.kind);
        let version_key = self.keys().machine_version(&filed.kind, filed.version);
        let alone = Filed {
            lineage: crate::domain::machine::Lineage::default(),
            ..filed.clone()
        };
        let build = || {
            // Nobody put another one in force since it was read. Revision 0 is etcd's way to say "absent".
            let follows = follows.map_or(0, as_etcd);
            Txn::new()
                .when([Compare::mod_revision(
                    key.bytes(),
                    CompareOp::Equal,
                    follows,
                )])
                .and_then([
                    TxnOp::put(key.bytes(), codec::encode_machine(&key, filed), None),
                    TxnOp::put(
                        version_key.bytes(),
                        codec::encode_machine(&version_key, &alone),
                        None,
                    ),
                ])
        };
        let reply = self.session().txn(Repeat::Never, build).await?;
        Ok(reply.succeeded)
    }

    async fn one(&self, key: &Key) -> Result<Option<PbKeyValue>, StoreError> {
        let found = self.range(key.bytes(), just_after(key.bytes()), 1).await?;
        match found.first() {
            Some(kv) if kv.key != key.bytes() => Err(malformed()),
            Some(_) | None => Ok(found.into_iter().next()),
        }
    }

    /// A machine in force as a range answered it.
    pub(super) fn named(&self, kv: &PbKeyValue) -> Option<Found> {
        let Some((key, kind)) = self.keys().found_machine(&kv.key) else {
            let key = kv.key.escape_ascii();
            tracing::warn!(%key, "a foreign key among the machines is passed over");
            return None;
        };
        let revision = Revision::from_etcd(kv.mod_revision)?;
        let filed = codec::decode_machine(&key, &kind, &kv.value);
        let filed = filed
            .map(|filed| (filed, revision))
            .map_err(|error| (error, revision));
        Some((kind, filed))
    }
}

fn revision_of(key: &Key, kv: &PbKeyValue) -> Result<Revision, StoreError> {
    Revision::from_etcd(kv.mod_revision).ok_or_else(|| corrupt(key, "etcd names no revision of it"))
}
