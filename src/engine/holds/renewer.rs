//! Renews what is held, a little before anybody could lose it, and decides what is lost.
//!
//! One task looks at what is due; each renewal that is tried is a task of its own. A renewal is a keepalive, and after its reply a
//! look whether the reservation's key is still the one that was granted: a keepalive proves the lease, not the reservation. The
//! look after one renewal is also the look before the next, for a key that is gone never comes back.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore, watch};
use tracing::{info, warn};
use uuid::Uuid;

use super::Holds;
use super::news::HoldNews;
use super::table::Try;
use crate::domain::decision::Decision;
use crate::domain::ids::ResourceId;
use crate::domain::judge::{Answer, Ask};
use crate::domain::renewal;
use crate::engine::clock::Boottime;
use crate::engine::facade::judged;
use crate::engine::fault::Fault;
use crate::engine::leases::KEEPALIVES_MAX;
use crate::engine::sparing::Sparing;
use crate::store::{Granted, LeaseUse, StoreError};

/// Renewals tried at once.
pub(super) const RENEWALS_TRIED_MAX: usize = 4 * 1024;
/// The least pause between two looks at what is due: it makes many into one.
const LOOK_PAUSE: Duration = Duration::from_millis(20);
/// The longest. Timers stop while the machine is suspended; reservations do not last longer for that.
const LOOK_AT_LEAST_EVERY: Duration = Duration::from_millis(250);

/// What the renewer has done so far, and how it is doing.
#[derive(Debug, Default)]
pub(super) struct Doing {
    pub(super) renewed: AtomicU64,
    pub(super) failed: AtomicU64,
    pub(super) lost: AtomicU64,
}

/// How the task that looks is woken, and how many renewals there may be.
#[derive(Debug)]
pub(super) struct Room {
    pub(super) places: Arc<Semaphore>,
    pub(super) wanted: Notify,
    /// Whether anything is held.
    pub(super) busy: watch::Sender<bool>,
    trouble: Sparing,
}

impl Default for Room {
    fn default() -> Self {
        Self {
            places: Arc::new(Semaphore::new(RENEWALS_TRIED_MAX)),
            wanted: Notify::new(),
            busy: watch::Sender::new(false),
            trouble: Sparing::of_what_lasts(),
        }
    }
}

/// What came of one try.
enum Tried {
    /// It is held until then.
    Confirmed(Boottime),
    /// It is not known; the reason is for the log.
    Failed(String),
    /// It is over.
    Over(Box<Decision>),
}

impl Holds {
    /// Looks for ever at what is due.
    pub(super) async fn run(self) {
        let mut looked_at_strain = Boottime::now();
        loop {
            let now = Boottime::now();
            self.give_up(now);
            self.try_what_is_due(now);
            if now.since(looked_at_strain) >= LOOK_AT_LEAST_EVERY {
                looked_at_strain = now;
                self.look_for_strain(now);
            }
            let next = {
                let table = self.table();
                let held = table.len() > 0;
                let changed = |busy: &mut bool| std::mem::replace(busy, held) != held;
                self.room.busy.send_if_modified(changed);
                held.then(|| table.next_moment())
            };
            let Some(next) = next else {
                self.look_for_strain(now);
                self.room.wanted.notified().await;
                continue;
            };
            tokio::time::sleep(LOOK_PAUSE).await;
            let rest = next.map_or(LOOK_AT_LEAST_EVERY, |at| at.left().min(LOOK_AT_LEAST_EVERY));
            // Either way it is looked at.
            let _ = tokio::time::timeout(rest, self.room.wanted.notified()).await;
        }
    }

    /// Hears of reservations that end, for as long as any is held. Nothing rests on it: each is looked at with its renewal.
    pub(super) async fn hear_of_ends(self) {
        let mut busy = self.room.busy.subscribe();
        let store = &self.shared.store;
        let ended = |resource: &ResourceId| {
            if self.table().suspect(resource) {
                self.room.wanted.notify_one();
            }
        };
        // The sender lives as long as this.
        while busy.wait_for(|busy| *busy).await.is_ok() {
            let another_state = store.another_state_than_now();
            tokio::select! {
                () = store.follow_ends(ended) => {}
                _ = busy.wait_for(|busy| !*busy) => {}
                // It would go on at a revision of the history before, which the one now may reach late or never. And nothing
                // that is held may be renewed while a timeline is halted, or is worth anything in the next: that is told now.
                () = another_state => {
                    self.table().suspect_all();
                    self.room.wanted.notify_one();
                }
            }
        }
    }

    /// Whoever has waited in vain for a renewal is told before the time is over.
    fn give_up(&self, now: Boottime) {
        let over = self.table().given_up(now);
        for entry in over {
            if let Some(unsaid) = self.room.trouble.speak() {
                let resource = entry.holding.reservation.resource();
                warn!(%resource, unsaid, "a reservation is lost: no renewal was confirmed in its time");
            }
            self.doing.lost.fetch_add(1, Ordering::Relaxed);
            entry.tell(HoldNews::Lost(Box::new(super::ran_out())));
        }
    }

    fn try_what_is_due(&self, now: Boottime) {
        while let Ok(place) = Arc::clone(&self.room.places).try_acquire_owned() {
            let Some(due) = self.table().take_due(now) else {
                return;
            };
            let holds = self.clone();
            let tried = async move { holds.renew(due, place).await };
            self.shared.tasks.spawn_background(Box::pin(tried));
        }
    }

    fn look_for_strain(&self, now: Boottime) {
        let (late, held) = {
            let table = self.table();
            let limit = renewal::strained_from(table.len());
            (table.late(now, limit), table.len())
        };
        let strained = late >= renewal::strained_from(held);
        if self.strain.put(strained) {
            if strained {
                warn!(
                    held,
                    late,
                    "renewals are late: no new reservations are granted until they have caught up"
                );
            } else {
                info!(held, "renewals are in time again");
            }
        }
    }

    async fn renew(&self, due: Try, place: OwnedSemaphorePermit) {
        let asked = Boottime::now();
        let tried = self.try_once(&due, asked).await;
        drop(place);
        let ttl = due.holding.round.ttl.as_duration();
        let entry = match tried {
            Tried::Confirmed(until) => {
                self.doing.renewed.fetch_add(1, Ordering::Relaxed);
                let mut table = self.table();
                // The next is due from when this one was asked for, whatever it took.
                let next = table.due_after(due.id, asked, draw());
                if let Some(entry) = table.confirmed(due.id, until, next) {
                    entry.tell(HoldNews::Renewed(entry.grant()));
                }
                table.has_due()
            }
            Tried::Failed(reason) => {
                self.doing.failed.fetch_add(1, Ordering::Relaxed);
                if let Some(unsaid) = self.room.trouble.speak() {
                    let resource = due.holding.reservation.resource();
                    warn!(%resource, reason, unsaid, "a renewal failed; it is tried again");
                }
                let next = Boottime::now().plus(renewal::retry_due(ttl, draw()));
                let mut table = self.table();
                if let Some(entry) = table.failed(due.id, next) {
                    entry.tell(HoldNews::Expiring(entry.grant()));
                }
                table.has_due()
            }
            Tried::Over(decision) => {
                self.shared.leases.lost(due.holding.round.nonce);
                let mut table = self.table();
                if let Some(entry) = table.remove(due.id) {
                    self.doing.lost.fetch_add(1, Ordering::Relaxed);
                    entry.tell(HoldNews::Lost(decision));
                }
                table.has_due()
            }
        };
        if entry {
            // It waited for a place.
            self.room.wanted.notify_one();
        }
    }

    async fn try_once(&self, due: &Try, asked: Boottime) -> Tried {
        let round = &due.holding.round;
        let ttl = round.ttl.as_duration();
        // etcd answers no keepalive of a lease that has run out until it has ended it, and holds up all others of the stream.
        let limit = renewal::try_limit(ttl).min(due.bound.since(asked));
        if limit.is_zero() {
            return Tried::Failed("its time is over".to_owned());
        }
        if due.suspect
            && let Err(tried) = self.judge(due, limit).await
        {
            return tried;
        }
        let began = Boottime::now();
        for _ in 0..KEEPALIVES_MAX {
            // What the first one has left.
            let limit = limit.saturating_sub(Boottime::now().since(began));
            if limit.is_zero() {
                break;
            }
            if let Some(tried) = self.keep_alive(due, limit).await {
                return tried;
            }
        }
        Tried::Failed("its keepalive was answered under a leader that was replaced".to_owned())
    }

    /// A keepalive and the look that confirms it. `None`: it does not count.
    async fn keep_alive(&self, due: &Try, limit: Duration) -> Option<Tried> {
        let round = &due.holding.round;
        let ttl = round.ttl.as_duration();
        let sent = Boottime::now();
        let leases = &self.shared.leases;
        let of = if due.certain {
            let silence = renewal::try_limit(ttl);
            LeaseUse::Held { silence }
        } else {
            LeaseUse::Unsure
        };
        let renewed = leases.renew_within(round.lease, of, limit);
        Some(match renewed.await {
            Ok(Some(renewed)) => match self.still_stands(due, limit).await {
                Ok(()) => Tried::Confirmed(sent.plus(ttl).min(leases.confirmed(&renewed)?)),
                Err(tried) => tried,
            },
            // The lease is gone: so is the reservation, or etcd is about to end it.
            Ok(None) => match self.judge(due, limit).await {
                Ok(()) => Tried::Failed("its lease is gone".to_owned()),
                Err(tried) => tried,
            },
            Err(error) => failed(&error),
        })
    }

    async fn still_stands(&self, due: &Try, limit: Duration) -> Result<(), Tried> {
        let Some((at, timeline)) = due.holding.granted else {
            return self.judge(due, limit).await;
        };
        if self.shared.store.timeline().id != timeline {
            return self.judge(due, limit).await;
        }
        let granted = Granted {
            resource: due.holding.reservation.resource().clone(),
            at,
        };
        let whole = renewal::try_limit(due.holding.round.ttl.as_duration());
        match self.checker.still_stands(granted, limit, whole).await {
            Ok(true) => Ok(()),
            // What has become of it is told by its record.
            Ok(false) => match self.judge(due, limit).await {
                Ok(()) => Err(Tried::Failed("its key has changed".to_owned())),
                Err(tried) => Err(tried),
            },
            Err(error) => Err(failed(&error)),
        }
    }

    /// Asks the resource's lane whether the reservation holds it. The lane alone says that it is over, and how that came.
    async fn judge(&self, due: &Try, limit: Duration) -> Result<(), Tried> {
        let reservation = due.holding.reservation.clone();
        let resource = reservation.resource().clone();
        let asking = self.ask(&resource, Ask::Check(reservation));
        match tokio::time::timeout(limit, asking).await {
            Ok(Ok(Answer::Held(..))) => Ok(()),
            Ok(Ok(other)) => Err(Tried::Over(Box::new(judged(other)))),
            Ok(Err(fault)) => Err(Tried::Failed(fault.to_string())),
            Err(_) => Err(Tried::Failed(Fault::DeadlinePassed.to_string())),
        }
    }
}

fn failed(error: &StoreError) -> Tried {
    Tried::Failed(error.to_string())
}

/// A random number, to spread what would come at the same moment.
fn draw() -> u8 {
    Uuid::new_v4().as_bytes()[0]
}
