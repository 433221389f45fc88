//! Leases that are given up and certainly hold no key: they are ended, for one may last for a day, and etcd keeps all it has
//! in memory.
//!
//! A lease that a late write may still hang a key on is none of them: that one runs out by itself.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures_util::future::join_all;
use tokio::sync::Notify;
use tracing::debug;

use super::pace::Pace;
use super::tasks::Tasks;
use crate::domain::record::LeaseId;
use crate::store::{Store, StoreError};

/// Leases that wait for their end. Further ones run out by themselves.
const WAITING_MAX: usize = 16 * 1024;
/// Leases ended at once.
const AT_ONCE: usize = 4;
/// Leases ended at once when the sidecar stops.
const AT_ONCE_AT_STOP: usize = 32;

/// They. Cheap to clone.
#[derive(Clone, Debug)]
pub(super) struct SpentLeases {
    store: Store,
    waiting: Arc<Mutex<VecDeque<LeaseId>>>,
    bell: Arc<Notify>,
}

impl SpentLeases {
    pub(super) fn start(store: Store, tasks: &Tasks) -> Self {
        let spent = Self {
            store,
            waiting: Arc::default(),
            bell: Arc::default(),
        };
        tasks.spawn_service(spent.clone().run(tasks.clone()));
        spent
    }

    /// Ends these soon. Only leases of which it is certain that no key hangs on them, and that none will.
    pub(super) fn give_up(&self, leases: impl IntoIterator<Item = LeaseId>) {
        let mut waiting = self.lock();
        for lease in leases {
            if waiting.len() < WAITING_MAX {
                waiting.push_back(lease);
            }
        }
        self.bell.notify_one();
    }

    /// Ends all that wait.
    pub(super) async fn end_all(&self) {
        loop {
            let some = self.take(AT_ONCE_AT_STOP);
            if some.is_empty() {
                return;
            }
            self.end(some).await;
        }
    }

    async fn run(self, tasks: Tasks) {
        let mut pace = Pace::new();
        while !tasks.stopping() {
            let some = self.take(AT_ONCE);
            if some.is_empty() {
                tasks.rest(self.bell.notified()).await;
                continue;
            }
            let again = self.end(some).await;
            if again.is_empty() {
                pace = Pace::new();
            } else {
                debug!(leases = again.len(), "leases cannot be ended now");
                self.give_up(again);
                tasks.rest(pace.wait()).await;
            }
        }
    }

    /// Ends these; answers those of which etcd heard nothing. One whose outcome is unknown is left: it runs out at the latest.
    async fn end(&self, leases: Vec<LeaseId>) -> Vec<LeaseId> {
        let ends = leases.into_iter().map(|lease| async move {
            match self.store.lease_revoke(lease).await {
                Err(StoreError::NotApplied { .. } | StoreError::Full { .. }) => Some(lease),
                Ok(()) | Err(StoreError::Indeterminate { .. } | StoreError::Corrupt { .. }) => None,
            }
        });
        join_all(ends).await.into_iter().flatten().collect()
    }

    fn take(&self, most: usize) -> Vec<LeaseId> {
        let mut waiting = self.lock();
        let some = waiting.len().min(most);
        waiting.drain(..some).collect()
    }

    fn lock(&self) -> MutexGuard<'_, VecDeque<LeaseId>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
