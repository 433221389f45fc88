//! The development engine: etcd in memory, behind etcd's own service traits.
//!
//! It speaks etcd's KV, Lease and Watch services, in process and without a port, and answers and
//! errs as etcd 3.4 does; `tests/differential` holds it against a real one. Nothing survives the
//! process. History older than the last 100,000 revisions, or 256 MiB of keys and values, is
//! compacted as by etcd's auto-compaction; what is live is kept without a bound. Left out are the
//! services a single user in memory has no use for: Auth, Cluster, Maintenance, Lock and Election.
//!
//! This module stands alone: it imports nothing else of this crate.

mod check;
mod compare;
mod dispatch;
mod expiry;
mod history;
mod identity;
mod intervals;
mod key_range;
mod kv;
mod lease;
mod leases;
mod log;
mod range;
mod refusal;
mod shared;
mod store;
mod txn;
mod watch;
mod watcher;
mod write;

#[cfg(test)]
mod tests;

use std::sync::Arc;

use etcd_client::Channel;
use etcd_client::proto::{PbKvServer, PbLeaseServer, PbWatchServer};
use tonic::service::Routes;
use tower::util::BoxCloneSyncService;

use self::dispatch::Dispatch;
use self::shared::Shared;

/// A handle on one store; clones share it. The store ends with its last handle, channel and open
/// stream.
#[derive(Clone, Debug)]
pub struct Engine {
    shared: Arc<Shared>,
}

impl Engine {
    /// An empty store. Its leases expire by a task of the current tokio runtime.
    ///
    /// # Panics
    ///
    /// If called outside a tokio runtime.
    #[must_use]
    #[expect(clippy::new_without_default, reason = "it starts a task")]
    pub fn new() -> Self {
        Self {
            shared: Shared::start(),
        }
    }

    /// A channel for etcd clients that calls this engine directly.
    #[must_use]
    pub fn channel(&self) -> Channel {
        Channel::Custom(BoxCloneSyncService::new(Dispatch::new(&self.shared)))
    }

    /// The same services for a server with a port.
    #[must_use]
    pub fn routes(&self) -> Routes {
        Routes::new(self.kv())
            .add_service(self.lease())
            .add_service(self.watch())
    }

    fn kv(&self) -> PbKvServer<kv::Kv> {
        kv::service(&self.shared)
    }

    fn lease(&self) -> PbLeaseServer<lease::Lease> {
        lease::service(&self.shared)
    }

    fn watch(&self) -> PbWatchServer<watch::Watch> {
        watch::service(&self.shared)
    }
}
