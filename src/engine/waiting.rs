//! Waiting: until an operation that is in progress is settled, or until a busy resource is free and it is one's turn.
//!
//! However many callers wait for one operation, one task here follows its resource for all of them. It looks the operation up
//! whenever the resource changes, and now and then without having heard of a change, for a watch may be silent for reasons of
//! its own. Once the operation is no longer running it wakes all who wait, and each asks its own question again: together, so
//! that the lane answers many of them from one read, and from memory once it has seen the operation finished.
//!
//! Nobody waits past a change. A caller listens before it asks, so that whatever changes after it was told "in progress" is
//! heard; if nobody followed the resource at that time, the follower that comes after looks the operation up once it follows.

mod load;
mod until;

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore, watch};
use tokio_util::sync::{CancellationToken, DropGuard};
use uuid::Uuid;

use super::clock::wall_clock_ms;
use super::facade::{Caller, Engine, Known, Reserved};
use super::fault::Fault;
use super::lane::Shared;
use super::lanes::Lanes;
use super::pace::Pace;
use super::queue::Queues;
use super::ticket::{Patience, Progress, Ticket};
use crate::domain::decision::Decision;
use crate::domain::ids::{Holder, OperationId, ResourceId};
use crate::domain::judge::{Answer, Ask, OperationState};
use crate::domain::request::{Lookup, Purpose, Reserve, Ride, Transition};
use crate::domain::together::ReserveTogether;
use crate::domain::waiter::{self, WaitingCall};
pub use load::{Places, Waiters};
use until::{Heard, WaitsFor, heard};

/// Most calls that wait at once. One over it is answered at once, as if it did not want to wait.
pub const WAITERS_MAX: u32 = 2 * 1024;
/// Longest wait.
pub const WAIT_MAX: Duration = Duration::from_secs(10 * 60);
/// A wait ends so long before the caller's deadline, for the answer has to be asked for and to arrive.
const ANSWER_MARGIN: Duration = Duration::from_millis(500);
/// The last question of a wait takes at most so much of that.
const LAST_QUESTION_PART: u32 = 2;
/// An operation that is waited for is looked up so often although no change was heard of,
const RECHECK: Duration = Duration::from_secs(4);
/// and up to so much later, so that many do not come at the same moment.
const RECHECK_SPREAD: Duration = Duration::from_secs(2);
/// The pause after each look, so that a resource that changes all the time is not looked at all the time.
const LOOK_PAUSE: Duration = Duration::from_millis(20);

/// What is waited for.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Subject {
    resource: ResourceId,
    operation: OperationId,
}

/// All who wait. Cheap to clone.
#[derive(Clone, Debug)]
pub(super) struct Waiting {
    shared: Arc<Shared>,
    lanes: Arc<Lanes>,
    places: Arc<Semaphore>,
    /// Counts the calls that found no place.
    missed: Arc<AtomicU64>,
    followed: Arc<Mutex<HashMap<Subject, Followed>>>,
    /// Tasks that follow, those included that are about to end.
    followers: Arc<AtomicUsize>,
    queues: Queues,
}

/// An operation that is followed.
#[derive(Debug)]
struct Followed {
    waiters: usize,
    /// Counts how often the operation was found not to be running.
    bell: watch::Sender<u64>,
    /// Ends the task that follows.
    _end: DropGuard,
}

/// One who waits. Dropping it gives the place back, and ends the watch if it was the last.
struct Waiter {
    waiting: Waiting,
    subject: Subject,
    bell: watch::Receiver<u64>,
}

impl Waiting {
    pub(super) fn new(shared: Arc<Shared>, lanes: Arc<Lanes>) -> Self {
        Self {
            queues: Queues::new(Arc::clone(&shared)),
            shared,
            lanes,
            places: Arc::new(Semaphore::new(places_max())),
            missed: Arc::default(),
            followed: Arc::default(),
            followers: Arc::default(),
        }
    }

    /// At the end of the sidecar: what is left in etcd of those who waited is removed.
    pub(super) async fn end(&self) {
        self.queues.end().await;
    }

    /// Places among those who wait, one for each resource that is waited for, if there are so many.
    fn places(&self, many: usize) -> Option<OwnedSemaphorePermit> {
        let many = u32::try_from(many).ok()?;
        let places = Arc::clone(&self.places).try_acquire_many_owned(many).ok();
        if places.is_none() {
            self.missed.fetch_add(1, Ordering::Relaxed);
        }
        places
    }

    /// The bell of an operation, if it is followed already; what rings from now on is heard.
    fn listen(&self, subject: &Subject) -> Option<watch::Receiver<u64>> {
        let followed = self.lock();
        Some(followed.get(subject)?.bell.subscribe())
    }

    /// Waits for an operation. `heard`: the bell as it was before the caller asked.
    fn enter(&self, subject: &Subject, heard: Option<watch::Receiver<u64>>) -> Waiter {
        let mut followed = self.lock();
        let followed = match followed.entry(subject.clone()) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(unknown) => unknown.insert(self.follow(subject)),
        };
        followed.waiters += 1;
        let mut bell = followed.bell.subscribe();
        match heard {
            Some(heard) if heard.same_channel(&bell) => bell = heard,
            // It began after the caller asked: whatever it has rung for may have come later than the caller's answer.
            Some(_) | None if *bell.borrow_and_update() > 0 => bell.mark_changed(),
            Some(_) | None => {}
        }
        Waiter {
            waiting: self.clone(),
            subject: subject.clone(),
            bell,
        }
    }

    fn follow(&self, subject: &Subject) -> Followed {
        let end = CancellationToken::new();
        let bell = watch::Sender::new(0);
        let following = Follower {
            waiting: self.clone(),
            subject: subject.clone(),
            bell: bell.clone(),
        };
        self.followers.fetch_add(1, Ordering::AcqRel);
        let ended = end.clone();
        self.shared.tasks.spawn_background(async move {
            tokio::select! {
                () = ended.cancelled() => {}
                () = following.follow() => {}
            }
        });
        Followed {
            waiters: 0,
            bell,
            _end: end.drop_guard(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Subject, Followed>> {
        self.followed.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Waiter {
    fn drop(&mut self) {
        let mut followed = self.waiting.lock();
        if let Entry::Occupied(mut known) = followed.entry(self.subject.clone()) {
            known.get_mut().waiters -= 1;
            if known.get().waiters == 0 {
                known.remove();
            }
        }
    }
}

/// The task that follows an operation for all who wait for it.
struct Follower {
    waiting: Waiting,
    subject: Subject,
    bell: watch::Sender<u64>,
}

impl Follower {
    async fn follow(self) {
        let store = &self.waiting.shared.store;
        let changed = Notify::new();
        loop {
            let timeline = store.timeline();
            let following = store.follow_resource(&self.subject.resource, || changed.notify_one());
            tokio::select! {
                () = following => {}
                () = self.look(&changed) => {}
                // What was followed belongs to a store that is not the one of today.
                () = store.another_timeline(timeline) => changed.notify_one(),
            }
        }
    }

    /// Looks the operation up whenever its resource has changed, and now and then.
    async fn look(&self, changed: &Notify) {
        loop {
            // Either way it is looked at.
            let _ = tokio::time::timeout(until_recheck(), changed.notified()).await;
            if !self.is_running().await {
                self.bell.send_modify(|rung| *rung += 1);
            }
            tokio::time::sleep(LOOK_PAUSE).await;
        }
    }

    /// Looks the operation up, again until there is an answer.
    async fn is_running(&self) -> bool {
        let mut pace = Pace::new();
        loop {
            let ask = Ask::Lookup(self.subject.operation.clone().into());
            let (ticket, answer) = Ticket::new(ask, Progress::default(), Patience::None);
            self.waiting.lanes.submit(&self.subject.resource, ticket);
            match answer.await {
                Ok(Ok(Answer::Known(state, _))) => return state == OperationState::Running,
                Ok(Ok(other)) => unreachable!("a lookup is not answered by {other:?}"),
                Ok(Err(_)) | Err(_) => pace.wait().await,
            }
        }
    }
}

impl Drop for Follower {
    fn drop(&mut self) {
        self.waiting.followers.fetch_sub(1, Ordering::AcqRel);
    }
}

impl Engine {
    /// As [`Engine::reserve`]; while the resource is busy, waits for its turn, and while the operation of its intent is in progress
    /// under another request's claim, for its end, at most so long. What the wait took is part of `safe_for`, which counts from
    /// when the call arrived.
    pub async fn reserve_or_wait(
        &self,
        ask: Reserve,
        wait: Duration,
        caller: Caller,
    ) -> Result<Reserved, Fault> {
        if wait.is_zero() {
            return self.reserve(ask, caller).await;
        }
        let operation = ask.intent.as_ref().map(|intent| Subject {
            resource: ask.resource.clone(),
            operation: intent.operation.clone(),
        });
        let who = waiter::Waiter {
            operation: ask.intent.as_ref().map(|intent| intent.operation.clone()),
            request: Some(ask.request),
            ..who(ask.holder.as_ref(), WaitingCall::Reserve)
        };
        let waits_for = WaitsFor {
            operation,
            resources: Some((Arc::from([ask.resource.clone()]), who)),
        };
        let once = |caller, patience| Box::pin(self.reserve_once(ask.clone(), patience, caller));
        let heard = |reserved: &Reserved| heard(&reserved.decision);
        let count = |engine: &Self, reserved: &Reserved| {
            engine.delivered(&ask.resource, ask.intent.as_deref(), &reserved.decision);
        };
        let answered = self.until_settled(waits_for, wait, caller, once, heard, count);
        answered.await.map(waited_for)
    }

    /// As [`Engine::reserve_together`]; while one of the resources is busy, waits for its turn at all of them, at most so long.
    pub async fn reserve_together_or_wait(
        &self,
        ask: ReserveTogether,
        wait: Duration,
        caller: Caller,
    ) -> Result<Reserved, Fault> {
        if wait.is_zero() {
            return self.reserve_together(ask, caller).await;
        }
        let resources = ask.together.shared();
        let who = waiter::Waiter {
            request: Some(ask.request),
            also: u32::try_from(resources.len() - 1).unwrap_or(u32::MAX),
            ..who(ask.holder.as_ref(), WaitingCall::Reserve)
        };
        let waits_for = WaitsFor {
            operation: None,
            resources: Some((resources, who)),
        };
        let once =
            |caller, patience| Box::pin(self.reserve_together_once(ask.clone(), patience, caller));
        let heard = |reserved: &Reserved| heard(&reserved.decision);
        let no_delivery = |_: &Self, _: &Reserved| {};
        let answered = self.until_settled(waits_for, wait, caller, once, heard, no_delivery);
        answered.await.map(waited_for)
    }

    /// As [`Engine::ride`], and waits for an operation in progress as [`Engine::reserve_or_wait`] does. Its resource is held by
    /// whoever asks, and so is not waited for.
    pub async fn ride_or_wait(
        &self,
        ask: Ride,
        wait: Duration,
        caller: Caller,
    ) -> Result<Reserved, Fault> {
        let subject = Subject {
            resource: ask.reservation.resource().clone(),
            operation: ask.intent.operation.clone(),
        };
        let once = |caller, patience| Box::pin(self.ride_once(ask.clone(), patience, caller));
        let heard = |reserved: &Reserved| heard(&reserved.decision);
        let count = |engine: &Self, reserved: &Reserved| {
            let resource = ask.reservation.resource();
            engine.delivered(resource, Some(&ask.intent), &reserved.decision);
        };
        let answered = self.until_settled(only(subject), wait, caller, once, heard, count);
        answered.await.map(waited_for)
    }

    /// As [`Engine::transition`]; while its operation is in progress under another request's claim, waits for its end, and while
    /// the resource is busy, for its turn, at most so long.
    pub async fn transition_or_wait(
        &self,
        ask: Transition,
        wait: Duration,
        caller: Caller,
    ) -> Result<Decision, Fault> {
        if wait.is_zero() {
            return self.transition(ask, caller).await;
        }
        let subject = Subject {
            resource: ask.resource.clone(),
            operation: ask.intent.operation.clone(),
        };
        // One that holds the resource, or only asks what would be, has nothing to wait for there.
        let queues = ask.reservation.is_none() && ask.purpose == Purpose::Commit;
        let who = || waiter::Waiter {
            operation: Some(ask.intent.operation.clone()),
            ..who(ask.sender.as_ref(), WaitingCall::Transition)
        };
        let waits_for = WaitsFor {
            resources: queues.then(|| (Arc::from([ask.resource.clone()]), who())),
            ..only(subject)
        };
        let once = |caller, patience| self.transition_once(ask.clone(), patience, caller);
        let delivers = (ask.purpose == Purpose::Commit).then_some(&ask.intent);
        let count = |engine: &Self, decision: &Decision| {
            engine.delivered(&ask.resource, delivers, decision);
        };
        let answered = self.until_settled(waits_for, wait, caller, once, heard, count);
        answered.await.map(|(decision, _)| decision)
    }

    /// As [`Engine::lookup`]; while the operation is running, waits for its end, at most so long. One that was never seen is
    /// not waited for.
    pub async fn lookup_or_wait(
        &self,
        resource: ResourceId,
        ask: Lookup,
        wait: Duration,
        caller: Caller,
    ) -> Result<Known, Fault> {
        if wait.is_zero() {
            return self.lookup(resource, ask, caller).await;
        }
        let subject = Subject {
            resource: resource.clone(),
            operation: ask.operation.clone(),
        };
        let once = |caller, _| self.lookup(resource.clone(), ask.clone(), caller);
        let running = |known: &Known| match known.state {
            OperationState::Running => Heard::InProgress,
            OperationState::NeverSeen
            | OperationState::Interrupted
            | OperationState::Done
            | OperationState::DoneEmpty
            | OperationState::Refused
            | OperationState::Expired => Heard::Settled,
        };
        let no_delivery = |_: &Self, _: &Known| {};
        let answered = self.until_settled(only(subject), wait, caller, once, running, no_delivery);
        answered.await.map(|(known, _)| known)
    }
}

fn only(operation: Subject) -> WaitsFor {
    WaitsFor {
        operation: Some(operation),
        resources: None,
    }
}

/// What is told of a caller in the queue.
fn who(holder: Option<&Holder>, call: WaitingCall) -> waiter::Waiter {
    waiter::Waiter {
        holder: holder.cloned(),
        call,
        operation: None,
        request: None,
        also: 0,
        time_ms: wall_clock_ms(),
    }
}

/// The caller counts from before it sent the call, and the grant came at the end of the wait.
fn waited_for((mut reserved, waited): (Reserved, Duration)) -> Reserved {
    if let Some(grant) = reserved.grant.as_mut() {
        grant.safe_for = grant.safe_for.saturating_add(waited);
    }
    reserved
}

fn places_max() -> usize {
    usize::try_from(WAITERS_MAX).unwrap_or(Semaphore::MAX_PERMITS)
}

/// When to look again at what is followed.
pub(super) fn until_recheck() -> Duration {
    let part = u32::from(Uuid::new_v4().as_bytes()[0]);
    RECHECK + RECHECK_SPREAD * part / u32::from(u8::MAX)
}
