//! Waiting until an operation that is in progress is settled.
//!
//! However many callers wait for one operation, one task here follows its resource for all of them. It looks the operation up
//! whenever the resource changes, and now and then without having heard of a change, for a watch may be silent for reasons of
//! its own. Once the operation is no longer running it wakes all who wait, and each asks its own question again: together, so
//! that the lane answers many of them from one read, and from memory once it has seen the operation finished.
//!
//! Nobody waits past a change. A caller listens before it asks, so that whatever changes after it was told "in progress" is
//! heard; if nobody followed the resource at that time, the follower that comes after looks the operation up once it follows.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore, watch};
use tokio_util::sync::{CancellationToken, DropGuard};
use uuid::Uuid;

use super::clock::Boottime;
use super::facade::{Caller, Engine, Known, Reserved};
use super::fault::Fault;
use super::lane::Shared;
use super::lanes::Lanes;
use super::pace::Pace;
use super::ticket::{Patience, Progress, Ticket};
use crate::domain::decision::{Decision, Verdict};
use crate::domain::ids::{OperationId, ResourceId};
use crate::domain::judge::{Answer, Ask, OperationState};
use crate::domain::request::{Lookup, Reserve, Ride, Transition};

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

/// How many wait, and how many operations are followed for them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Waiters {
    /// Calls that were found in progress, and wait.
    pub calls: usize,
    /// Operations that are followed.
    pub followed: usize,
}

/// All who wait. Cheap to clone.
#[derive(Clone, Debug)]
pub(super) struct Waiting {
    shared: Arc<Shared>,
    lanes: Arc<Lanes>,
    places: Arc<Semaphore>,
    followed: Arc<Mutex<HashMap<Subject, Followed>>>,
    /// Tasks that follow, those included that are about to end.
    followers: Arc<AtomicUsize>,
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
            shared,
            lanes,
            places: Arc::new(Semaphore::new(places_max())),
            followed: Arc::default(),
            followers: Arc::default(),
        }
    }

    /// A place among those who wait, if there is one.
    fn place(&self) -> Option<OwnedSemaphorePermit> {
        Arc::clone(&self.places).try_acquire_owned().ok()
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
    /// As [`Engine::reserve`]; while the operation of its intent is in progress under another request's claim, waits for its
    /// end, at most so long. What the wait took is part of `safe_for`, which counts from when the call arrived.
    pub async fn reserve_or_wait(
        &self,
        ask: Reserve,
        wait: Duration,
        caller: Caller,
    ) -> Result<Reserved, Fault> {
        let Some(intent) = ask.intent.as_ref().filter(|_| !wait.is_zero()) else {
            return self.reserve(ask, caller).await;
        };
        let subject = Subject {
            resource: ask.resource.clone(),
            operation: intent.operation.clone(),
        };
        let once = |caller, patience| Box::pin(self.reserve_once(ask.clone(), patience, caller));
        let in_progress = |reserved: &Reserved| is_in_progress(&reserved.decision);
        let answered = self.until_settled(subject, wait, caller, once, in_progress);
        answered.await.map(waited_for)
    }

    /// As [`Engine::ride`], and waits as [`Engine::reserve_or_wait`] does.
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
        let in_progress = |reserved: &Reserved| is_in_progress(&reserved.decision);
        let answered = self.until_settled(subject, wait, caller, once, in_progress);
        answered.await.map(waited_for)
    }

    /// As [`Engine::transition`]; while its operation is in progress under another request's claim, waits for its end, at
    /// most so long.
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
        let once = |caller, patience| self.transition_once(ask.clone(), patience, caller);
        let answered = self.until_settled(subject, wait, caller, once, is_in_progress);
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
        let running = |known: &Known| known.state == OperationState::Running;
        let answered = self.until_settled(subject, wait, caller, once, running);
        answered.await.map(|(known, _)| known)
    }

    /// How many wait now.
    pub fn waiters(&self) -> Waiters {
        Waiters {
            calls: self.waiting.lock().values().map(|of| of.waiters).sum(),
            followed: self.waiting.followers.load(Ordering::Acquire),
        }
    }

    /// Asks until the answer is another than "in progress", or the wait is over. Answers also how long after the caller's
    /// arrival the question began that has this answer.
    async fn until_settled<T, F>(
        &self,
        subject: Subject,
        wait: Duration,
        caller: Caller,
        once: impl Fn(Caller, Patience) -> F,
        in_progress: impl Fn(&T) -> bool,
    ) -> Result<(T, Duration), Fault>
    where
        F: Future<Output = Result<T, Fault>>,
    {
        let longest = caller.deadline.since(caller.arrived);
        let wait = wait.min(longest.saturating_sub(ANSWER_MARGIN));
        let over = caller.arrived.plus(wait);
        let at_once = || async { Ok((once(caller, Patience::None).await?, Duration::ZERO)) };
        if over.left().is_zero() {
            return at_once().await;
        }
        let Some(_place) = self.waiting.place() else {
            return at_once().await;
        };
        let mut heard = self.waiting.listen(&subject);
        let mut asked = caller;
        let mut answer = once(asked, Patience::Waits).await?;
        let mut waiter: Option<Waiter> = None;
        let mut trouble: Option<Pace> = None;
        while in_progress(&answer) {
            let waiter = waiter.get_or_insert_with(|| self.waiting.enter(&subject, heard.take()));
            let patience = tokio::select! {
                biased;
                // What is known so far is still an answer; nobody is asked any more.
                () = self.shared.tasks.told_to_stop() => break,
                _ = waiter.bell.changed() => Patience::Waits,
                () = once_more(trouble.as_mut()) => Patience::Waits,
                () = tokio::time::sleep(over.left()) => Patience::Over,
            };
            asked.arrived = Boottime::now();
            // A question leaves time for what is known already, should etcd be slow.
            let limit = over.max(asked.arrived);
            let limit = limit.plus(ANSWER_MARGIN / LAST_QUESTION_PART);
            asked.deadline = limit.min(caller.deadline);
            match once(asked, patience).await {
                Ok(told) => (answer, trouble) = (told, None),
                // Nothing was done, and what is known so far is still an answer.
                Err(fault) if fault.passes() => {
                    trouble.get_or_insert_with(Pace::new);
                }
                Err(Fault::DeadlinePassed | Fault::Stopping { .. }) => break,
                Err(fault) => return Err(fault),
            }
            if patience == Patience::Over {
                break;
            }
        }
        Ok((answer, asked.arrived.since(caller.arrived)))
    }
}

/// After a question that etcd did not answer, the moment to ask again; without one there is none.
async fn once_more(trouble: Option<&mut Pace>) {
    match trouble {
        Some(pace) => pace.wait().await,
        None => std::future::pending().await,
    }
}

fn is_in_progress(decision: &Decision) -> bool {
    decision.verdict == Verdict::InProgress
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

fn until_recheck() -> Duration {
    let part = u32::from(Uuid::new_v4().as_bytes()[0]);
    RECHECK + RECHECK_SPREAD * part / u32::from(u8::MAX)
}
