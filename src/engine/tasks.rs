//! The tasks of the engine: those that must finish, those that only serve, and those that serve and must not be cut short.

use std::time::Duration;

use tokio_util::sync::{CancellationToken, DropGuard};
use tokio_util::task::TaskTracker;

/// Spawns and counts. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub(super) struct Tasks {
    tracked: TaskTracker,
    services: TaskTracker,
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

    /// Spawns a task that serves until it is told to stop, and then ends by itself once nothing of it is under way: what it has
    /// asked etcd for would be left behind there. It must wait by [`Tasks::rest`] alone when it has nothing to do. With the
    /// last user of the engine it is cut all the same.
    pub(super) fn spawn_service(&self, work: impl Future<Output = ()> + Send + 'static) {
        let (stopping, ended) = (self.stopping.clone(), self.ended.clone());
        let dropped = async move {
            ended.cancelled().await;
            if stopping.is_cancelled() {
                std::future::pending::<()>().await;
            }
        };
        self.services.spawn(Box::pin(async move {
            tokio::select! {
                () = dropped => {}
                () = work => {}
            }
        }));
    }

    /// Waits for something to do, or until new work is refused.
    pub(super) async fn rest(&self, something: impl Future<Output = ()>) {
        tokio::select! {
            () = self.told_to_stop() => {}
            () = something => {}
        }
    }

    /// After a stop: waits until no service has anything under way.
    pub(super) async fn services_ended(&self) {
        self.services.close();
        self.services.wait().await;
    }

    /// Whether the engine has ended: what is not finished by now stays as it is.
    pub(super) fn ended(&self) -> bool {
        self.ended.is_cancelled()
    }

    /// Waits until the engine has ended.
    pub(super) async fn until_ended(&self) {
        self.ended.cancelled().await;
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
