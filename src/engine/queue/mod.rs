//! The queues of busy resources: first come, first served, across sidecars.
//!
//! Whoever waits has an entry in etcd, and its place follows from when that was made. A grant compares that nobody comes before, and
//! removes the entry of whoever it is for in the same commit; so nobody can barge in, whatever a sidecar believes. What is done
//! here only sees to it that the right one asks at the right time: of all who wait at a sidecar, one at a time is woken, and
//! only when it is the first of all and the resource is free; one that waits for several, when that is so of each.

mod follower;
mod lines;
mod session;
mod view;

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;
use tokio_util::sync::{CancellationToken, DropGuard};

use super::clock::Boottime;
use super::lane::Shared;
use super::pace::Pace;
use crate::domain::ids::ResourceId;
use crate::domain::waiter::{Place, Waiter};
use follower::Follower;
pub(super) use lines::Seat;
use lines::{Left, Lines};

/// All queues, as far as callers of this sidecar wait in them. Cheap to clone.
#[derive(Clone, Debug)]
pub(super) struct Queues {
    shared: Arc<Shared>,
    lines: Arc<Mutex<Lines>>,
    /// Rung when there is something to write.
    bell: Arc<Notify>,
    /// Tasks that follow, those included that are about to end.
    followers: Arc<AtomicUsize>,
}

/// One who waits. Dropping it takes its entry away.
#[derive(Debug)]
pub(super) struct Queued {
    queues: Queues,
    arrival: u64,
    woken: Arc<Notify>,
    /// How it would leave now.
    left: Left,
}

impl Queues {
    pub(super) fn new(shared: Arc<Shared>) -> Self {
        Self {
            shared,
            lines: Arc::default(),
            bell: Arc::default(),
            followers: Arc::default(),
        }
    }

    /// Begins to wait for a resource, or for all of several.
    pub(super) fn enter(
        &self,
        resources: &Arc<[ResourceId]>,
        waiter: Waiter,
        seat: Seat,
    ) -> Queued {
        let follow = |resource: &ResourceId| self.follow(resource);
        let (arrival, woken, starts) = self.lock().enter(resources, waiter, seat, follow);
        if starts {
            self.shared.tasks.spawn(self.clone().serve());
        } else {
            self.bell.notify_one();
        }
        Queued {
            queues: self.clone(),
            arrival,
            woken,
            left: Left::EmptyHanded,
        }
    }

    /// How many wait.
    pub(super) fn calls(&self) -> usize {
        self.lock().counts()
    }

    /// How many resources are followed.
    pub(super) fn followed(&self) -> usize {
        self.followers.load(Ordering::Acquire)
    }

    fn follow(&self, resource: &ResourceId) -> (Arc<Notify>, DropGuard) {
        let bell = Arc::new(Notify::new());
        let end = CancellationToken::new();
        let follower = Follower {
            queues: self.clone(),
            resource: resource.clone(),
            bell: Arc::clone(&bell),
        };
        self.followers.fetch_add(1, Ordering::AcqRel);
        let ended = end.clone();
        self.shared.tasks.spawn_background(Box::pin(async move {
            tokio::select! {
                () = ended.cancelled() => {}
                () = follower.follow() => {}
            }
        }));
        (bell, end.drop_guard())
    }

    fn lock(&self) -> MutexGuard<'_, Lines> {
        self.lines.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Queued {
    /// Waits until it is its turn. Whoever stops waiting misses nothing.
    pub(super) async fn turn(&self) -> Place {
        loop {
            self.woken.notified().await;
            // Else its place was lost meanwhile, and the turn with it.
            if let Some(place) = self.queues.lock().turn(self.arrival) {
                return place;
            }
        }
    }

    /// Its place, if it is its turn already.
    pub(super) fn still_its_turn(&self) -> Option<Place> {
        self.queues.lock().turn(self.arrival)
    }

    /// Its place, if it has one already.
    pub(super) fn place(&self) -> Option<Place> {
        self.queues.lock().place(self.arrival)
    }

    /// It asks. If it leaves before it is answered, nobody knows whether it was granted something.
    pub(super) fn asks(&mut self) {
        self.left = Left::Unknown;
    }

    /// It has asked under this place, and waits on.
    pub(super) fn back(&mut self, asked: Option<Place>) {
        self.left = Left::EmptyHanded;
        self.queues.lock().back(self.arrival, asked);
    }

    /// What it waited for was given to it under this place, and its entry went with that.
    pub(super) fn taken(&mut self, place: Option<Place>) {
        self.left = place.map_or(Left::Unknown, Left::With);
    }
}

impl Drop for Queued {
    fn drop(&mut self) {
        self.queues.lock().leave(self.arrival, self.left);
        self.queues.bell.notify_one();
    }
}
