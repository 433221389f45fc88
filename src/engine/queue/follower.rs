//! The task that follows one resource for all who wait for it here, and wakes whose turn it is.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;

use super::lines::Offer;
use super::view::View;
use super::{Boottime, Pace, Queues};
use crate::domain::ids::ResourceId;
use crate::engine::waiting::until_recheck;

/// How long the news that a resource is held may come after those that somebody has left its queue, before it is looked at.
const DOUBT: Duration = Duration::from_millis(100);

/// The task.
pub(super) struct Follower {
    pub(super) queues: Queues,
    pub(super) resource: ResourceId,
    pub(super) bell: Arc<Notify>,
}

impl Follower {
    pub(super) async fn follow(self) {
        let store = &self.queues.shared.store;
        loop {
            let timeline = store.timeline();
            let view = Mutex::new(View::default());
            let following = async {
                tokio::join!(
                    self.queue(&view),
                    self.reservation(&view),
                    self.hand_on(&view)
                )
            };
            tokio::select! {
                _ = following => {}
                // What was followed belongs to a store that is not the one of today.
                () = store.another_timeline(timeline) => {}
            }
        }
    }

    async fn queue(&self, view: &Mutex<View>) {
        let mut watch = self.queues.shared.store.follow_queue(&self.resource);
        loop {
            let news = watch.next().await;
            let mut view = lock(view);
            // Whoever is known to hold nothing was told of before its entry was removed.
            let empty_handed = self.queues.lock().empty_handed(&self.resource);
            view.leave_empty_handed(empty_handed);
            view.queue(news);
            self.bell.notify_one();
        }
    }

    async fn reservation(&self, view: &Mutex<View>) {
        let mut watch = self.queues.shared.store.follow_reservation(&self.resource);
        loop {
            let news = watch.next().await;
            lock(view).reservation(news);
            self.bell.notify_one();
        }
    }

    /// Says who is to be handed the resource, so that whoever waits here is woken when it is its turn. Looks itself where what was heard leaves a doubt, and now and
    /// then, for a watch may be silent.
    async fn hand_on(&self, view: &Mutex<View>) {
        let mut recheck = Boottime::now().plus(until_recheck());
        let mut doubted: Option<Boottime> = None;
        let mut pace = Pace::new();
        loop {
            let in_doubt = lock(view).in_doubt();
            doubted = in_doubt.then(|| doubted.unwrap_or_else(|| Boottime::now().plus(DOUBT)));
            let look_at = doubted.map_or(recheck, |doubted| doubted.min(recheck));
            let rung = tokio::time::timeout(look_at.left(), self.bell.notified()).await;
            if rung.is_err() {
                match self.queues.shared.store.queue_now(&self.resource).await {
                    Ok(now) => {
                        lock(view).look(&now);
                        pace = Pace::new();
                        recheck = Boottime::now().plus(until_recheck());
                        doubted = None;
                    }
                    Err(error) => {
                        tracing::debug!(%error, "a queue cannot be looked at now");
                        pace.wait().await;
                        continue;
                    }
                }
            }
            let mut view = lock(view);
            let mut lines = self.queues.lock();
            view.leave_empty_handed(lines.empty_handed(&self.resource));
            if lines.was_handed_on(&self.resource, view.changes()) {
                view.handed_on();
            }
            let offer = Offer {
                first: view.turn(),
                changes: view.changes(),
            };
            if lines.offer(&self.resource, offer) {
                view.handed_on();
            }
        }
    }
}

impl Drop for Follower {
    fn drop(&mut self) {
        self.queues.followers.fetch_sub(1, Ordering::AcqRel);
    }
}

fn lock(view: &Mutex<View>) -> MutexGuard<'_, View> {
    view.lock().unwrap_or_else(PoisonError::into_inner)
}
