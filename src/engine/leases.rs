//! Leases granted ahead of their use, so that Reserve is one request to etcd; and what is known of each lease's end.
//!
//! A lease is known to live until its *bound*: the moment before the request was sent that granted or last renewed it, plus
//! its TTL. The bound is never later than etcd's own, whatever the network did. A lease lasts longer than what is promised,
//! so one that has waited for its use a while can still keep the promise.

mod renewing;

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tracing::{debug, warn};
use uuid::Uuid;

use super::clock::Boottime;
use super::fault::Fault;
use super::holds::Strain;
use super::pace::Pace;
use super::spent_leases::SpentLeases;
use super::tasks::Tasks;
use super::ticket::Patience;
use crate::domain::ids::Nonce;
use crate::domain::record::LeaseId;
use crate::domain::request::Ttl;
use crate::store::{NotApplied, Store, StoreError};

pub(super) use renewing::KEEPALIVES_MAX;

/// Most leases held ready for one TTL.
const READY_MAX: usize = 64;
/// Most TTLs for which leases are held ready.
const CLASSES_MAX: usize = 16;
/// Leases granted at once for one TTL.
const GRANTS_AT_ONCE: usize = 8;
/// A TTL that nobody asked for during this time gets no more leases ahead.
const CLASS_IDLE: Duration = Duration::from_secs(10);
/// How often the pool is looked after while it is in use.
const CARE: Duration = Duration::from_millis(250);
/// Most leases whose ends are known. Beyond it new reservations are refused before held ones suffer.
pub(super) const LEASES_MAX: usize = 256 * 1024;
/// When to ask again when no lease could be had.
const LEASE_RETRY: Duration = Duration::from_millis(500);
/// How often a lease id that is taken already is drawn anew.
const ID_TRIES: usize = 3;

/// The pool. Cheap to clone.
#[derive(Clone, Debug)]
pub(super) struct Leases {
    store: Store,
    pool: Arc<Mutex<Pool>>,
    wanted: Arc<Notify>,
    /// Whether held reservations are renewed so late that no new ones are granted.
    strain: Strain,
    /// Leases that are given up and certainly hold no key.
    spent: SpentLeases,
}

#[derive(Debug, Default)]
struct Pool {
    classes: HashMap<Ttl, Class>,
    /// What is known of every lease that is ready, on its way into a record, or under a live reservation.
    known: HashMap<LeaseId, Known>,
    /// The lease of each round that was granted here and has not been seen to end.
    held: HashMap<Nonce, LeaseId>,
}

#[derive(Clone, Copy, Debug)]
struct Known {
    ttl: Ttl,
    bound: Boottime,
}

#[derive(Debug)]
struct Class {
    ready: VecDeque<LeaseId>,
    /// Taken since the pool was last looked after, and the rate that follows from it.
    taken: usize,
    target: usize,
    last_taken: Boottime,
}

impl Leases {
    pub(super) fn start(store: Store, strain: Strain, tasks: &Tasks) -> Self {
        let leases = Self {
            spent: SpentLeases::start(store.clone(), tasks),
            store,
            strain,
            pool: Arc::default(),
            wanted: Arc::default(),
        };
        tasks.spawn_service(leases.clone().care(tasks.clone()));
        leases
    }

    /// The lease that a question takes along, if any.
    pub(super) fn brought_along(
        &self,
        ttl: Ttl,
        patience: Patience,
    ) -> Result<Option<LeaseId>, Fault> {
        match patience {
            // Only what is to be granted is refused then, and that shows when it is judged.
            Patience::None if self.strain.is_on() => Ok(None),
            // One that is ready costs nothing. Else it is taken only when it is to be granted.
            Patience::None => self.take_ready(ttl),
            // Of many who wait at most one is granted anything.
            Patience::Waits(_) | Patience::Over(_) => Ok(None),
        }
    }

    /// A lease that will keep the promise of this TTL from now on. Costs no request when one is ready. None is had while held
    /// reservations are renewed too late: these come first.
    pub(super) async fn take(&self, ttl: Ttl) -> Result<LeaseId, Fault> {
        self.strain.refuse()?;
        if let Some(ready) = self.take_ready(ttl)? {
            return Ok(ready);
        }
        self.grant(ttl).await.map_err(|error| {
            warn!(%error, "no lease could be granted");
            match error {
                // Whether this lease was granted matters to nobody.
                StoreError::Full { .. } => Fault::store_full(),
                StoreError::NotApplied { reason, .. } => Fault::of_refusal(reason),
                StoreError::Indeterminate { .. } | StoreError::Corrupt { .. } => {
                    Fault::StoreUnavailable {
                        retry_after: LEASE_RETRY,
                    }
                }
            }
        })
    }

    /// Gives back a lease that certainly holds no key.
    pub(super) fn put_back(&self, lease: LeaseId) {
        let mut pool = self.lock();
        let Some(known) = pool.known.get(&lease).copied() else {
            return;
        };
        let room = pool
            .classes
            .get_mut(&known.ttl)
            .filter(|class| class.ready.len() < READY_MAX);
        match room {
            // Young leases go first, so that the old ones are renewed or run out instead of ageing together.
            Some(class) if known.bound.left() >= known.ttl.as_duration() => {
                class.ready.push_front(lease)
            }
            Some(_) | None => {
                pool.known.remove(&lease);
                self.spent.give_up([lease]);
            }
        }
    }

    /// At the end of the sidecar: what is ready will never be used, and may last for a day.
    pub(super) async fn end(&self) {
        let classes = std::mem::take(&mut self.lock().classes);
        self.spent
            .give_up(classes.into_values().flat_map(|class| class.ready));
        self.spent.end_all().await;
    }

    /// Never uses a lease again: a late write may still hang a key on it. It runs out by itself.
    pub(super) fn retire(&self, lease: LeaseId) {
        self.lock().known.remove(&lease);
    }

    /// Notes that a round began on a lease. Answers until when the lease certainly lives; `None`: it was given up.
    pub(super) fn granted(&self, round: Nonce, lease: LeaseId) -> Option<Boottime> {
        let mut pool = self.lock();
        let bound = pool.known.get(&lease)?.bound;
        pool.held.insert(round, lease);
        Some(bound)
    }

    /// The lease of a round that was granted here, has not been seen to end, and certainly lives. A keepalive past that would
    /// hold up all others: etcd answers none for a lease that has run out until it has ended it.
    pub(super) fn held_here(&self, round: Nonce) -> Option<LeaseId> {
        let pool = self.lock();
        let lease = pool.held.get(&round)?;
        let bound = pool.known.get(lease)?.bound;
        (!bound.left().is_zero()).then_some(*lease)
    }

    /// How long the lease of a round that was granted here lasts, as far as this sidecar knows. `None`: another one granted or
    /// renewed it.
    pub(super) fn left(&self, round: Nonce) -> Option<Duration> {
        let pool = self.lock();
        let bound = pool.known.get(pool.held.get(&round)?)?.bound;
        let left = bound.left();
        (!left.is_zero()).then_some(left)
    }

    /// Notes that a round certainly ended by its release: if it was granted here, its lease can serve again.
    pub(super) fn released(&self, round: Nonce, lease: LeaseId) {
        if self.lock().held.remove(&round) == Some(lease) {
            self.put_back(lease);
        }
    }

    /// Forgets leases that are ready and rounds that were granted here: another timeline is in force, so the rounds are over,
    /// and etcd may know nothing of the leases.
    pub(super) fn drop_ready(&self) {
        let mut pool = self.lock();
        let Pool {
            classes,
            known,
            held,
        } = &mut *pool;
        for lease in classes.values_mut().flat_map(|class| class.ready.drain(..)) {
            known.remove(&lease);
        }
        held.clear();
    }

    /// Notes that a round was seen to be over.
    pub(super) fn lost(&self, round: Nonce) {
        let mut pool = self.lock();
        if let Some(lease) = pool.held.remove(&round) {
            pool.known.remove(&lease);
        }
    }

    /// Until when the lease of a round that was granted here certainly lives; `None`: not known here, or past.
    pub(super) fn known_until(&self, round: Nonce) -> Option<Boottime> {
        let pool = self.lock();
        let lease = pool.held.get(&round)?;
        let bound = pool.known.get(lease)?.bound;
        (!bound.left().is_zero()).then_some(bound)
    }

    /// A lease that will keep the promise of this TTL from now on, if one is ready.
    pub(super) fn take_ready(&self, ttl: Ttl) -> Result<Option<LeaseId>, Fault> {
        let now = Boottime::now();
        let mut pool = self.lock();
        let Pool {
            classes,
            known,
            held,
        } = &mut *pool;
        if known.len() >= LEASES_MAX {
            known.retain(|_, lease| lease.bound > now);
            held.retain(|_, lease| known.contains_key(lease));
            if known.len() >= LEASES_MAX {
                return Err(Fault::Overloaded {
                    what: "too many reservations that were granted here are live",
                    limit: LEASES_MAX,
                    retry_after: LEASE_RETRY,
                });
            }
        }
        if !classes.contains_key(&ttl) {
            if classes.len() >= CLASSES_MAX {
                classes.retain(|_, class| now.since(class.last_taken) < CLASS_IDLE);
            }
            if classes.len() >= CLASSES_MAX {
                return Ok(None);
            }
        }
        let class = classes.entry(ttl).or_insert_with(|| Class {
            ready: VecDeque::new(),
            taken: 0,
            target: 1,
            last_taken: now,
        });
        class.taken += 1;
        class.last_taken = now;
        self.wanted.notify_one();
        while let Some(lease) = class.ready.pop_front() {
            match known.get(&lease) {
                Some(at) if at.bound.since(now) >= ttl.as_duration() => return Ok(Some(lease)),
                Some(_) | None => {
                    known.remove(&lease);
                    self.spent.give_up([lease]);
                }
            }
        }
        Ok(None)
    }

    async fn grant(&self, ttl: Ttl) -> Result<LeaseId, StoreError> {
        let mut tries = 0;
        let mut pace = Pace::new();
        loop {
            let lease = random_id();
            let sent = Boottime::now();
            match self.store.lease_grant(lease, ttl.lease_seconds()).await {
                Ok(seconds) => {
                    let bound = sent.plus(Duration::from_secs(seconds.into()));
                    self.lock().known.insert(lease, Known { ttl, bound });
                    return Ok(lease);
                }
                // The id may be taken, or this grant may yet arrive: another id cannot be confused with it.
                Err(error) => {
                    tries += 1;
                    let hopeless = match &error {
                        StoreError::Full { .. } => true,
                        StoreError::NotApplied { reason, .. } => *reason == NotApplied::Denied,
                        StoreError::Indeterminate { .. } | StoreError::Corrupt { .. } => false,
                    };
                    if hopeless || tries >= ID_TRIES {
                        return Err(error);
                    }
                    if let StoreError::NotApplied {
                        reason: NotApplied::Overloaded,
                        ..
                    } = error
                    {
                        pace.wait().await;
                    }
                }
            }
        }
    }

    /// Looks after the pool for as long as anybody takes from it, then sleeps until somebody does. A lease that was asked for is
    /// waited for also by a stop: nobody would know of it any more, and it may last for a day.
    async fn care(self, tasks: Tasks) {
        let mut pace = Pace::new();
        while !tasks.stopping() {
            let work = self.work();
            if work.is_empty() {
                tasks.rest(self.wanted.notified()).await;
                continue;
            }
            let mut trouble = false;
            for (ttl, missing, ageing) in work {
                let grants = (0..missing).map(|_| async {
                    let granted = self.grant(ttl).await;
                    granted.map(|lease| self.put_back(lease))
                });
                trouble |= futures_util::future::join_all(grants)
                    .await
                    .iter()
                    .any(Result::is_err);
                trouble |= !self.renew_ready(ageing).await;
            }
            if trouble {
                debug!("leases cannot be granted ahead now");
                tasks.rest(pace.wait()).await;
            } else {
                pace = Pace::new();
                tasks.rest(tokio::time::sleep(CARE)).await;
            }
        }
    }

    /// For each TTL in use: how many leases to grant now, and which to renew. Classes nobody uses are given up, and their leases
    /// ended.
    fn work(&self) -> Vec<(Ttl, usize, Vec<LeaseId>)> {
        let now = Boottime::now();
        let mut pool = self.lock();
        let Pool {
            classes,
            known,
            held,
        } = &mut *pool;
        known.retain(|_, lease| lease.bound > now);
        held.retain(|_, lease| known.contains_key(lease));
        classes.retain(|_, class| {
            let in_use = now.since(class.last_taken) < CLASS_IDLE;
            if !in_use {
                for lease in &class.ready {
                    known.remove(lease);
                }
                self.spent.give_up(class.ready.iter().copied());
            }
            in_use
        });
        let looked_after = classes.iter_mut().map(|(ttl, class)| {
            // Enough for twice what was taken since the last look; it sinks slowly when less is taken.
            let wanted = (class.taken * 2).max(class.target.saturating_sub(1));
            class.target = wanted.clamp(1, READY_MAX);
            class.taken = 0;
            let slack = Duration::from_secs((ttl.lease_seconds() - ttl.seconds()).into());
            let ageing = class.ready.iter().copied().filter(|lease| {
                let left = known
                    .get(lease)
                    .map_or(Duration::ZERO, |at| at.bound.since(now));
                // Past the promise it is of no use; etcd may hold back a renewal of a lease that has ended.
                left > ttl.as_duration() && left < ttl.as_duration() + slack / 2
            });
            let missing = class
                .target
                .saturating_sub(class.ready.len())
                .min(GRANTS_AT_ONCE);
            (*ttl, missing, ageing.collect())
        });
        looked_after.collect()
    }

    fn lock(&self) -> MutexGuard<'_, Pool> {
        self.pool.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A lease id of ours: random, positive, so that a grant can be asked for again under another one without confusion.
pub(super) fn random_id() -> LeaseId {
    let (high, _) = Uuid::new_v4().as_u64_pair();
    LeaseId(i64::try_from(high >> 1).unwrap_or(i64::MAX).max(1))
}
