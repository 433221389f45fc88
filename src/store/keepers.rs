//! The streams of keepalives: several, for etcd answers each in order, and one lease that it thinks over would hold up all.

use std::sync::Arc;

use super::keep_alive::KeepAlive;
use super::session::Session;
use crate::domain::record::LeaseId;

/// Streams for the leases of live reservations. Each has its own bound of keepalives under way.
const HELD_STREAMS: usize = 4;

/// What a lease is kept alive for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LeaseUse {
    /// It is kept ready for a later use.
    Ready,
    /// A live reservation hangs on it.
    Held,
}

/// All streams.
#[derive(Debug)]
pub(super) struct Keepers {
    ready: KeepAlive,
    held: [KeepAlive; HELD_STREAMS],
}

impl Keepers {
    /// Starts the tasks, which end when this handle is dropped. A stream is opened when it is first used.
    pub(super) fn start(session: &Arc<Session>) -> Self {
        let one = || KeepAlive::start(Arc::clone(session));
        Self {
            ready: one(),
            held: std::array::from_fn(|_| one()),
        }
    }

    /// The stream of a lease. It is always the same one, so that two keepalives of a lease are answered in their order.
    pub(super) fn of(&self, lease: LeaseId, used: LeaseUse) -> &KeepAlive {
        let streams = i64::try_from(HELD_STREAMS).unwrap_or(1);
        let at = usize::try_from(lease.0.rem_euclid(streams)).unwrap_or(0);
        match used {
            LeaseUse::Ready => &self.ready,
            LeaseUse::Held => self.held.get(at).unwrap_or(&self.ready),
        }
    }
}
