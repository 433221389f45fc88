//! The tasks of the engine: those that must finish, and those that only serve.

use std::time::Duration;

use tokio_util::sync::{CancellationToken, DropGuard};
use tokio_util::task::TaskTracker;

/// Spawns and counts. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub(super) struct Tasks {
    tracked: TaskTracker,
    stopping: CancellationToken,
    ended: CancellationToken,
}

impl Tasks {
    /// Spawns work that a stop waits for.
    pub(super) fn spawn(&self, work: impl Future<Output = ()> + Send + 'static) {
        // Boxed, for the runtime moves what it spawns several times, and what a lane needs is large.
        self.tracked.spawn(Box::pin(work));
    }

    /// Spawns a task that serves until the engine has ended.
    pub(super) fn spawn_background(&self, work: impl Future<Output = ()> + Send + 'static) {
        let ended = self.ended.clone();
        tokio::spawn(async move {
            tokio::select! {
                () = ended.cancelled() => {}
                () = work => {}
            }
        });
    }

    /// Whether the engine has ended: what is not finished by now stays as it is.
    pub(super) fn ended(&self) -> bool {
        self.ended.is_cancelled()
    }

    /// Ends the background tasks when the last user of the engine is gone.
    pub(super) fn end_on_drop(&self) -> DropGuard {
        self.ended.clone().drop_guard()
    }

    /// Whether new work is refused.
    pub(super) fn stopping(&self) -> bool {
        self.stopping.is_cancelled()
    }

    /// Waits until new work is refused.
    pub(super) async fn told_to_stop(&self) {
        self.stopping.cancelled().await;
    }

    /// Refuses new work and waits for what is under way. False: the limit came first.
    pub(super) async fn stop(&self, limit: Duration) -> bool {
        self.stopping.cancel();
        self.tracked.close();
        let drained = tokio::time::timeout(limit, self.tracked.wait())
            .await
            .is_ok();
        self.ended.cancel();
        drained
    }
}
