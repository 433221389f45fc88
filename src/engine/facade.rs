//! What the transport calls.

use std::num::NonZeroUsize;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use tokio::sync::{Semaphore, oneshot, watch};
use tokio_util::sync::DropGuard;
use tracing::{error, warn};
use uuid::Uuid;

use super::clock::{Boottime, Clock, wall_clock_ms};
use super::committer::Committer;
use super::counts::{Count, Counts};
use super::fault::Fault;
use super::holds::{Holds, Strain};
use super::kept::Kept;
use super::lane::Shared;
use super::lanes::Lanes;
use super::laws::Laws;
use super::leases::Leases;
use super::narrow_keys::NarrowKeys;
use super::pulse::{Health, Pulse};
use super::reader::Reader;
use super::sparing::Sparing;
use super::store_clock::StoreClock;
use super::sweeper::{Sweeper, Swept};
use super::tally::Tally;
use super::tasks::Tasks;
use super::ticket::{Patience, Progress, Ticket, UNKNOWN_RETRY, within};
use super::waiting::Waiting;
use crate::domain::decision::{Decision, Grant};
use crate::domain::ids::{Nonce, ResourceId};
pub use crate::domain::judge::OperationState;
use crate::domain::judge::{Answer, Ask};
use crate::domain::request::{Complete, Fence, Lookup, Transition};
use crate::domain::retention::Keeping;
use crate::store::{Store, StoreError};

/// When to ask again while the sidecar is going down: another one, or the next, will be there.
pub(super) const STOPPING_RETRY: Duration = Duration::from_secs(1);
/// When to ask again when etcd did not answer a question.
const STORE_RETRY: Duration = Duration::from_millis(500);
/// How long the end of the engine waits for the last counts to be written.
const COUNTS_WRITTEN_WITHIN: Duration = Duration::from_secs(1);
/// How long the end of the engine waits, at the same time, for leases that nobody will use to be ended.
const LEASES_ENDED_WITHIN: Duration = Duration::from_secs(1);
/// Most calls of several steps under way, those included whose callers have left.
const WORKS_MAX: usize = 16 * 1024;
/// When to ask again after there was no room.
const OVERLOADED_RETRY: Duration = Duration::from_millis(500);
/// Resources whose records are remembered, if not configured.
const LANES_DEFAULT: NonZeroUsize = NonZeroUsize::new(10_000).expect("not zero");

/// Who asks, and until when an answer is of use.
#[derive(Clone, Copy, Debug)]
pub struct Caller {
    /// When the call arrived, read before anything else was done with it. `safe_for` counts from here.
    pub arrived: Boottime,
    /// When the caller stops waiting.
    pub deadline: Boottime,
}

/// Limits of the engine.
#[derive(Clone, Debug)]
pub struct EngineOptions {
    /// Most resources whose records are remembered between calls.
    pub lanes_max: NonZeroUsize,
    /// How long what is kept.
    pub keeping: Keeping,
    /// The clocks that this is measured by.
    pub clock: Clock,
}

impl Default for EngineOptions {
    fn default() -> Self {
        Self {
            lanes_max: LANES_DEFAULT,
            keeping: Keeping::default(),
            clock: Clock::default(),
        }
    }
}

/// The answer to Reserve and Renew.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reserved {
    /// The judgement.
    pub decision: Decision,
    /// Present only with GRANTED.
    pub grant: Option<Grant>,
}

/// The answer to Lookup.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Known {
    /// What has become of the operation.
    pub state: OperationState,
    /// What a duplicate would be answered.
    pub decision: Option<Decision>,
}

/// The engine. Cheap to clone. A caller that goes away leaves no half-done work: what was sent to etcd is finished, what was
/// not is dropped whole.
#[derive(Clone, Debug)]
pub struct Engine {
    pub(super) lanes: Arc<Lanes>,
    pub(super) shared: Arc<Shared>,
    works: Arc<Semaphore>,
    sweeper: Sweeper,
    pub(super) waiting: Waiting,
    pub(super) holds: Holds,
    health: watch::Receiver<Health>,
    /// With the last handle the background tasks end, and lanes that still settle an outcome that nobody waits for.
    _end: Arc<DropGuard>,
}

impl Engine {
    /// Starts the engine on an open store.
    pub fn start(store: Store, options: EngineOptions) -> Self {
        let tasks = Tasks::default();
        let strain = Strain::default();
        let shared = Arc::new(Shared {
            committer: Committer::start(store.clone(), tasks.clone()),
            reader: Reader::start(store.clone(), tasks.clone()),
            leases: Leases::start(store.clone(), strain.clone(), &tasks),
            tally: Tally::start(store.clone(), &tasks),
            narrow_keys: NarrowKeys::default(),
            clock: StoreClock::new(
                options.clock,
                options.keeping,
                store.clock_at_opening(),
                store.timeline(),
            ),
            counts: Counts::since(wall_clock_ms()),
            kept_something: AtomicBool::default(),
            laws: Laws::start(store.clone(), &tasks),
            store,
            kept: Kept::default(),
            trouble: Sparing::of_what_lasts(),
            corruption: Sparing::default(),
            tasks: tasks.clone(),
        });
        let lanes = Arc::new(Lanes::new(Arc::clone(&shared), options.lanes_max));
        let sweeper = Sweeper::new(Arc::clone(&shared), Arc::clone(&lanes));
        tasks.spawn_background(sweeper.clone().run());
        let (pulse, health) = Pulse::new(shared.store.clone(), shared.leases.clone());
        tasks.spawn_background(pulse.run());
        Self {
            health,
            sweeper,
            waiting: Waiting::new(Arc::clone(&shared), Arc::clone(&lanes)),
            holds: Holds::start(Arc::clone(&shared), Arc::clone(&lanes), strain),
            lanes,
            shared,
            works: Arc::new(Semaphore::new(WORKS_MAX)),
            _end: Arc::new(tasks.end_on_drop()),
        }
    }

    /// Judges a message and commits its move.
    pub async fn transition(&self, ask: Transition, caller: Caller) -> Result<Decision, Fault> {
        self.transition_once(ask, Patience::None, caller).await
    }

    pub(super) async fn transition_once(
        &self,
        ask: Transition,
        patience: Patience,
        caller: Caller,
    ) -> Result<Decision, Fault> {
        self.check_time("intent.operation_time", ask.intent.made_ms)?;
        let resource = ask.resource.clone();
        let ask = Ask::Transition(Box::new(ask), random_nonce());
        self.ask_patiently(&resource, ask, patience, caller)
            .await
            .map(judged)
    }

    /// Completes the operation that a round has claimed.
    pub async fn complete(&self, ask: Complete, caller: Caller) -> Result<Decision, Fault> {
        let resource = ask.reservation.resource().clone();
        let ask = Ask::Complete(Box::new(ask), random_nonce());
        self.ask_within(&resource, ask, caller).await.map(judged)
    }

    /// Judges a token.
    pub async fn fence(&self, ask: Fence, caller: Caller) -> Result<Decision, Fault> {
        let resource = ask.resource.clone();
        self.ask_within(&resource, Ask::Fence(ask), caller)
            .await
            .map(judged)
    }

    /// Tells what has become of an operation.
    pub async fn lookup(
        &self,
        resource: ResourceId,
        ask: Lookup,
        caller: Caller,
    ) -> Result<Known, Fault> {
        self.check_time("operation_time", ask.made_ms)?;
        match self.ask_within(&resource, Ask::Lookup(ask), caller).await? {
            Answer::Known(state, decision) => Ok(Known { state, decision }),
            other @ (Answer::Judged(_)
            | Answer::Ended(..)
            | Answer::Held(..)
            | Answer::Snapshot(_)
            | Answer::Swept) => {
                unreachable!("a lookup is answered by what is known, not by {other:?}")
            }
        }
    }

    /// Whether calls can be answered, as it is found out.
    pub fn health(&self) -> watch::Receiver<Health> {
        self.health.clone()
    }

    /// What became of deliveries since this sidecar started, and when that was, in milliseconds since 1970.
    pub fn counts(&self) -> (u64, Vec<Count>) {
        (self.shared.counts.since_ms(), self.shared.counts.all())
    }

    /// Looks at the store's clock now, and removes what is over if that is due, without waiting for the time to do so.
    pub async fn sweep(&self) -> Result<Swept, Fault> {
        self.sweeper
            .look()
            .await
            .map_err(|error| question_failed(&error))
    }

    /// Refuses a time out of the future: taken at its word it would never be too old.
    pub(super) fn check_time(&self, field: &str, made_ms: Option<u64>) -> Result<(), Fault> {
        if made_ms.is_some_and(|made| self.shared.clock.when().too_far_ahead(made)) {
            return Err(Fault::InvalidField {
                field: field.to_owned(),
                reason: "lies in the future by more than clocks may differ: give the time at which the sender made the \
                    message, in its unit"
                    .to_owned(),
            });
        }
        Ok(())
    }

    /// Waits for what only asks, at most until the caller's deadline.
    pub(super) async fn question<T>(
        &self,
        caller: Caller,
        asking: impl Future<Output = Result<T, Fault>>,
    ) -> Result<T, Fault> {
        self.admit(caller)?;
        // Boxed, for some are large, and it is moved until it runs.
        let asking = Box::pin(asking);
        self.until_known(caller, &Progress::default(), asking).await
    }

    /// Refuses new work and waits for what is under way, at most until the limit; then, a second at most, removes what of its own
    /// is left in etcd. Reservations are left alone: they belong to the callers. False: the limit came first.
    pub async fn stop(&self, limit: Duration) -> bool {
        let tally = self.shared.tally.clone();
        let drained = self.shared.tasks.stop(limit).await;
        // What was counted since the last write; a store that does not answer must not hold up the end.
        let written = tokio::time::timeout(COUNTS_WRITTEN_WITHIN, tally.write());
        // They run out by themselves if there is no time for it.
        let ended = tokio::time::timeout(LEASES_ENDED_WITHIN, async {
            tokio::join!(self.waiting.end(), self.sweeper.end());
            self.shared.tasks.services_ended().await;
            self.shared.leases.end().await;
        });
        let (written, ended) = tokio::join!(written, ended);
        if written.is_err() {
            warn!("how often incidents were found in the last moment was not written");
        }
        if ended.is_err() {
            warn!("leases that were not used are left to run out");
        }
        drained
    }

    /// How many operations were applied although another one on the same resource had done the same with the same content:
    /// their key may be too narrow.
    pub fn narrow_keys(&self) -> u64 {
        self.shared.narrow_keys.count()
    }

    /// Refuses what cannot be of use any more before anything is done with it.
    pub(super) fn admit(&self, caller: Caller) -> Result<(), Fault> {
        if self.shared.tasks.stopping() {
            return Err(Fault::Stopping {
                retry_after: STOPPING_RETRY,
            });
        }
        if caller.deadline.left().is_zero() {
            return Err(Fault::DeadlinePassed);
        }
        Ok(())
    }

    /// Asks the lane and waits for its answer, however long that takes.
    pub(super) async fn ask(
        &self,
        resource: &ResourceId,
        ask: Ask,
        progress: Progress,
        patience: Patience,
    ) -> Result<Answer, Fault> {
        let (ticket, answer) = Ticket::new(ask, progress.clone(), patience);
        self.lanes.submit(resource, ticket);
        // The lane lets go of one that was withdrawn when it comes to it, which may be long.
        let answer = progress.unless_withdrawn(answer).await;
        let answer = answer.ok_or(Fault::DeadlinePassed)?;
        answer.unwrap_or_else(|_| Err(dropped(&progress)))
    }

    pub(super) async fn ask_within(
        &self,
        resource: &ResourceId,
        ask: Ask,
        caller: Caller,
    ) -> Result<Answer, Fault> {
        self.ask_patiently(resource, ask, Patience::None, caller)
            .await
    }

    async fn ask_patiently(
        &self,
        resource: &ResourceId,
        ask: Ask,
        patience: Patience,
        caller: Caller,
    ) -> Result<Answer, Fault> {
        self.admit(caller)?;
        let progress = Progress::default();
        let answer = self.ask(resource, ask, progress.clone(), patience);
        self.until_known(caller, &progress, answer).await
    }

    /// Runs work of several steps to its end, whether or not the caller stays for the answer.
    pub(super) async fn finish<T: Send + 'static>(
        &self,
        caller: Caller,
        progress: &Progress,
        work: impl Future<Output = Result<T, Fault>> + Send + 'static,
    ) -> Result<T, Fault> {
        let Ok(place) = Arc::clone(&self.works).try_acquire_owned() else {
            return Err(Fault::Overloaded {
                what: "too many calls of several steps are under way here",
                limit: WORKS_MAX,
                retry_after: OVERLOADED_RETRY,
            });
        };
        let (reply, answer) = oneshot::channel();
        self.shared.tasks.spawn(async move {
            drop(reply.send(work.await));
            drop(place);
        });
        let answer = async { answer.await.unwrap_or_else(|_| Err(dropped(progress))) };
        self.until_known(caller, progress, answer).await
    }

    /// Waits for an answer until the caller's deadline, or the end of the engine: then it is told what is known.
    async fn until_known<T>(
        &self,
        caller: Caller,
        progress: &Progress,
        answer: impl Future<Output = Result<T, Fault>>,
    ) -> Result<T, Fault> {
        let known = async {
            tokio::select! {
                biased;
                answer = answer => answer,
                () = self.shared.tasks.until_ended() => Err(dropped(progress)),
            }
        };
        within(caller.deadline, progress, known).await
    }
}

pub(super) fn judged(answer: Answer) -> Decision {
    match answer {
        Answer::Judged(decision) | Answer::Held(decision, _) | Answer::Ended(decision, ..) => {
            decision
        }
        Answer::Known(..) | Answer::Snapshot(_) | Answer::Swept => {
            unreachable!("a question that judges is answered by a decision")
        }
    }
}

/// Whoever was to answer went down with the request. It was not done only if it can still be taken back.
fn dropped(progress: &Progress) -> Fault {
    if progress.withdraw() {
        Fault::Stopping {
            retry_after: STOPPING_RETRY,
        }
    } else {
        Fault::UnknownOutcome {
            retry_after: UNKNOWN_RETRY,
        }
    }
}

/// A request that only asks failed: nothing can be half-done.
pub(super) fn question_failed(error: &StoreError) -> Fault {
    match error {
        StoreError::Corrupt { key, reason } => {
            error!(key, reason, "a record cannot be trusted");
            Fault::CorruptRecord
        }
        StoreError::Full { .. } => {
            warn!(%error, "etcd takes no writes");
            Fault::store_full()
        }
        StoreError::NotApplied { reason, .. } => {
            warn!(%error, "etcd did not answer a question");
            Fault::of_refusal(*reason)
        }
        StoreError::Indeterminate { .. } => {
            warn!(%error, "etcd did not answer a question");
            Fault::StoreUnavailable {
                retry_after: STORE_RETRY,
            }
        }
    }
}

pub(super) fn random_nonce() -> Nonce {
    Nonce::from_bytes(*Uuid::new_v4().as_bytes())
}
