//! Whether calls can be answered: etcd answers, and nothing is halted.
//!
//! Whoever is asked all the time hears of etcd all the time; only a sidecar that heard nothing for a while asks by itself, by one
//! linearizable read of the timeline. It never writes, unless a suspicion has to be looked into, or a halt to be told
//! what this sidecar knows. By the same read a sidecar
//! that is idle, or halted, learns that a timeline was halted or started.

use std::time::Duration;

use tokio::sync::watch;
use tracing::{error, info, warn};

use super::clock::wall_clock_ms;
use super::leases::Leases;
use crate::domain::timeline::Halt;
use crate::domain::token::Timeline;
use crate::store::{LOOK_LIMIT, Store, StoreError};

/// etcd is asked when it was not heard of for so long,
const QUIET: Duration = Duration::from_secs(5);
/// and so often while it is not well.
const QUIET_IN_DOUBT: Duration = Duration::from_secs(1);
/// The pause after each look, however many reasons there are for the next.
const LOOK_PAUSE: Duration = Duration::from_millis(100);
/// A sidecar says within this time that etcd does not answer.
pub const HEALTH_BOUND: Duration = Duration::from_secs(10);

const _: () = assert!(
    QUIET.as_millis() + LOOK_LIMIT.as_millis() + LOOK_PAUSE.as_millis() < HEALTH_BOUND.as_millis()
);

/// Whether calls can be answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Health {
    /// They can.
    Serving,
    /// etcd does not answer.
    Unreachable,
    /// Nothing is judged until a person has started a new timeline.
    Halted(Halt),
    /// The timeline is gone, or what is there cannot be trusted.
    Untrusted,
}

/// Looks after it.
#[derive(Debug)]
pub(super) struct Pulse {
    store: Store,
    leases: Leases,
    health: watch::Sender<Health>,
    /// The timeline of which leases are known.
    timeline: Timeline,
}

impl Pulse {
    /// The store has just been opened, so etcd answers.
    pub(super) fn new(store: Store, leases: Leases) -> (Self, watch::Receiver<Health>) {
        let (health, seen) = watch::channel(now(&store));
        let timeline = store.timeline();
        let pulse = Self {
            store,
            leases,
            health,
            timeline,
        };
        if let Health::Halted(halt) = *pulse.health.borrow() {
            say_halted(halt);
        }
        (pulse, seen)
    }

    /// Looks for ever.
    pub(super) async fn run(mut self) {
        loop {
            let well = *self.health.borrow() == Health::Serving;
            if well {
                tokio::select! {
                    () = self.store.reason_to_look(QUIET) => {}
                    // A lane has found one.
                    () = self.store.another_state(self.timeline) => {}
                }
            } else {
                tokio::time::sleep(QUIET_IN_DOUBT).await;
            }
            let found = self.look().await;
            let timeline = self.store.timeline();
            if timeline != std::mem::replace(&mut self.timeline, timeline) {
                info!(id = ?timeline.id, base = timeline.base, "another timeline is in force; all that was remembered is dropped");
                self.leases.drop_ready();
            }
            self.say(found);
            tokio::time::sleep(LOOK_PAUSE).await;
        }
    }

    async fn look(&self) -> Health {
        let looking = async {
            if self.store.suspected() {
                self.store.look_into_it(wall_clock_ms()).await?;
            }
            self.store.look().await
        };
        match tokio::time::timeout(LOOK_LIMIT, looking).await {
            Ok(Ok(())) => now(&self.store),
            Ok(Err(StoreError::Corrupt { key, reason })) => {
                if *self.health.borrow() != Health::Untrusted {
                    error!(key, reason, "nothing can be judged");
                }
                Health::Untrusted
            }
            Ok(Err(
                StoreError::NotApplied { .. }
                | StoreError::Full { .. }
                | StoreError::Indeterminate { .. },
            ))
            | Err(_) => Health::Unreachable,
        }
    }

    fn say(&self, found: Health) {
        let before = self.health.send_replace(found);
        if before == found {
            return;
        }
        match found {
            Health::Serving => info!("calls are answered again"),
            Health::Unreachable => warn!("etcd does not answer; health says so until it does"),
            Health::Halted(halt) => say_halted(halt),
            // Said with what is wrong.
            Health::Untrusted => {}
        }
    }
}

fn now(store: &Store) -> Health {
    store.halt().map_or(Health::Serving, Health::Halted)
}

fn say_halted(halt: Halt) {
    error!(
        why = %halt,
        since_ms = halt.time_ms(),
        "halted: nothing is granted, judged or told until a person has run `fencepost admin start-timeline`"
    );
}
