//! What every handle of an engine shares.

use std::sync::{Arc, Mutex};

use tokio::sync::{Notify, watch};
use tokio::time::Instant;
use tokio_util::sync::{CancellationToken, DropGuard};

use super::expiry;
use super::identity::Identity;
use super::store::Store;

/// One lock around the store: an operation takes microseconds and never waits while holding it.
#[derive(Debug)]
pub(super) struct Shared {
    store: Mutex<Store>,
    /// The newest revision, for watchers to wait on.
    revision: watch::Sender<i64>,
    /// Rung when a lease may end sooner than the ticker knows.
    pub(super) lease_granted: Arc<Notify>,
    pub(super) identity: Identity,
    /// Ends the ticker together with the last handle.
    _ticker: DropGuard,
}

impl Shared {
    pub(super) fn start() -> Arc<Self> {
        let store = Store::new();
        let ended = CancellationToken::new();
        let lease_granted = Arc::new(Notify::new());
        let shared = Arc::new(Self {
            revision: watch::Sender::new(store.revision()),
            store: Mutex::new(store),
            lease_granted: Arc::clone(&lease_granted),
            identity: Identity::draw(),
            _ticker: ended.clone().drop_guard(),
        });
        tokio::spawn(expiry::run(Arc::downgrade(&shared), lease_granted, ended));
        shared
    }

    /// Reads or writes the store, and wakes the watchers if it was written.
    pub(super) fn with<T>(&self, act: impl FnOnce(&mut Store) -> T) -> T {
        // Only a broken invariant of the store can panic under the lock; nothing it then holds
        // may be trusted, so the callers after it fail too.
        let mut store = self
            .store
            .lock()
            .expect("the store broke an invariant of its own");
        let outcome = act(&mut store);
        let newest = store.revision();
        self.revision
            .send_if_modified(|known| std::mem::replace(known, newest) != newest);
        outcome
    }

    pub(super) fn revisions(&self) -> watch::Receiver<i64> {
        self.revision.subscribe()
    }

    /// Revokes what has run out, and answers when the next lease will.
    pub(super) fn expire(&self) -> Option<Instant> {
        self.with(|store| store.expire(Instant::now()))
    }
}
