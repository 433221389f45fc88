//! How much waits: for whoever looks after a sidecar, and for tests.

use std::sync::atomic::Ordering;

use super::places_max;
use crate::engine::facade::Engine;

/// How many wait, and how much is followed for them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Waiters {
    /// Calls that wait.
    pub calls: usize,
    /// Operations and resources that are followed.
    pub followed: usize,
}

/// The places of calls that wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Places {
    /// Those taken now: one for each call that asked for a wait, and for each resource that it waits for.
    pub taken: usize,
    /// All there are.
    pub most: usize,
    /// Calls that found none since the sidecar started, and were answered as if they did not want to wait.
    pub missed: u64,
}

impl Engine {
    /// How many wait now.
    pub fn waiters(&self) -> Waiters {
        let waiting = &self.waiting;
        let for_operations: usize = waiting.lock().values().map(|of| of.waiters).sum();
        Waiters {
            calls: for_operations + waiting.queues.calls(),
            followed: waiting.followers.load(Ordering::Acquire) + waiting.queues.followed(),
        }
    }

    /// How many places of those who wait are taken now.
    pub fn places(&self) -> Places {
        let most = places_max();
        Places {
            taken: most.saturating_sub(self.waiting.places.available_permits()),
            most,
            missed: self.waiting.missed.load(Ordering::Relaxed),
        }
    }
}
