//! Machines listed page by page, without their files: a file may have hundreds of kilobytes, and a list shows none.

use etcd_client::GetOptions;
use etcd_client::proto::PbKeyValue;

use super::codec;
use super::error::StoreError;
use super::keys::just_after;
use super::link::Store;
use super::machine::MACHINES_PER_REQUEST;
use super::session::Repeat;
use crate::domain::ids::Kind;
use crate::domain::machine::{Filed, Title};

/// A page for which so many bytes were read from etcd takes no more machines. One request reads up to 8 machines with their
/// files, so a little more may be read.
pub const MACHINE_BYTES_READ_MAX: usize = 8 * 1024 * 1024;

/// Which machines are listed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MachineList {
    /// Those in force, by kind.
    InForce,
    /// Every version of a kind's machine that was ever in force, oldest first.
    Versions(Kind),
}

/// Some machines of a list.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MachinePage {
    /// They.
    pub machines: Vec<Title>,
    /// Where the next page begins, if there may be more: what stands in the last key behind the part that all keys of the
    /// list share.
    pub next: Option<Vec<u8>>,
}

impl Store {
    /// Machines of a list behind `after`, at most `limit`. Those that are foreign or damaged are logged and passed over.
    pub async fn machine_page(
        &self,
        list: &MachineList,
        after: Option<&[u8]>,
        limit: usize,
    ) -> Result<MachinePage, StoreError> {
        let (shared, end) = match list {
            MachineList::InForce => self.keys().machines(),
            MachineList::Versions(kind) => self.keys().machine_versions(kind),
        };
        let mut start = match after {
            None => shared.clone(),
            Some(after) => just_after([&shared[..], after].concat()),
        };
        let mut page = MachinePage::default();
        let mut bytes: usize = 0;
        while limit > page.machines.len() {
            let asked = MACHINES_PER_REQUEST.min(limit - page.machines.len());
            let found = self.range(start, end.clone(), asked).await?;
            bytes += found.iter().map(|kv| kv.value.len()).sum::<usize>();
            let read = |kv: &PbKeyValue| match list {
                MachineList::InForce => self.trusted_in_force(kv),
                MachineList::Versions(kind) => self.trusted_version(kind, kv),
            };
            let titles = found.iter().filter_map(read).map(|filed| filed.title());
            page.machines.extend(titles);
            let last = found.last().filter(|_| found.len() == asked);
            page.next = last
                .and_then(|kv| kv.key.strip_prefix(&shared[..]))
                .map(<[u8]>::to_vec);
            let Some(last) = last.filter(|_| bytes < MACHINE_BYTES_READ_MAX) else {
                break;
            };
            start = just_after(last.key.clone());
        }
        Ok(page)
    }

    /// How many kinds have a machine in force, whatever their values are worth.
    pub async fn machine_count(&self) -> Result<usize, StoreError> {
        let (start, end) = self.keys().machines();
        let reply = self
            .session()
            .call(Repeat::Safe, |member| {
                let mut kv = member.kv.clone();
                let options = GetOptions::new().with_range(end.clone()).with_count_only();
                let start = start.clone();
                async move { kv.get(start, Some(options)).await }
            })
            .await?;
        Ok(usize::try_from(reply.count()).unwrap_or(usize::MAX))
    }

    fn trusted_in_force(&self, kv: &PbKeyValue) -> Option<Filed> {
        let (_, found) = self.named(kv)?;
        found
            .map(|(filed, _)| filed)
            .inspect_err(|(error, _)| tracing::error!(%error, "a machine is passed over"))
            .ok()
    }

    fn trusted_version(&self, kind: &Kind, kv: &PbKeyValue) -> Option<Filed> {
        let key = self.keys().found(&kv.key)?;
        codec::decode_machine(&key, kind, &kv.value)
            .inspect_err(|error| tracing::error!(%error, "a machine is passed over"))
            .ok()
    }
}
