//! What the transport calls.

use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{Semaphore, oneshot};
use tokio_util::sync::DropGuard;
use tracing::{error, warn};
use uuid::Uuid;

use super::clock::Boottime;
use super::committer::Committer;
use super::fault::Fault;
use super::kept::Kept;
use super::lane::Shared;
use super::lanes::Lanes;
use super::leases::Leases;
use super::reader::Reader;
use super::sparing::Sparing;
use super::tasks::Tasks;
use super::ticket::{Progress, Ticket, UNKNOWN_RETRY, within};
use crate::domain::decision::{Decision, Grant, IncidentId, Snapshot};
use crate::domain::ids::{Nonce, OperationId, ResourceId};
use crate::domain::incident::Incident;
pub use crate::domain::judge::OperationState;
use crate::domain::judge::{Answer, Ask};
use crate::domain::request::{Complete, Fence, Resolve, Transition};
use crate::store::{Store, StoreError};

/// When to ask again while the sidecar is going down: another one, or the next, will be there.
const STOPPING_RETRY: Duration = Duration::from_secs(1);
/// When to ask again when etcd did not answer a question.
const STORE_RETRY: Duration = Duration::from_millis(500);
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
}

impl Default for EngineOptions {
    fn default() -> Self {
        Self {
            lanes_max: LANES_DEFAULT,
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
    lanes: Arc<Lanes>,
    pub(super) shared: Arc<Shared>,
    works: Arc<Semaphore>,
    /// With the last handle the background tasks end, and lanes that still settle an outcome that nobody waits for.
    _end: Arc<DropGuard>,
}

impl Engine {
    /// Starts the engine on an open store.
    pub fn start(store: Store, options: EngineOptions) -> Self {
        let tasks = Tasks::default();
        let shared = Arc::new(Shared {
            committer: Committer::start(store.clone(), tasks.clone()),
            reader: Reader::start(store.clone(), tasks.clone()),
            leases: Leases::start(store.clone(), &tasks),
            store,
            kept: Kept::default(),
            trouble: Sparing::default(),
            corruption: Sparing::default(),
            tasks: tasks.clone(),
        });
        let lanes = Arc::new(Lanes::new(Arc::clone(&shared), options.lanes_max));
        Self {
            lanes,
            shared,
            works: Arc::new(Semaphore::new(WORKS_MAX)),
            _end: Arc::new(tasks.end_on_drop()),
        }
    }

    /// Judges a message and commits its move.
    pub async fn transition(&self, ask: Transition, caller: Caller) -> Result<Decision, Fault> {
        let resource = ask.resource.clone();
        let ask = Ask::Transition(Box::new(ask), random_nonce());
        self.ask_within(&resource, ask, caller).await.map(judged)
    }

    /// Completes the operation that a round has claimed.
    pub async fn complete(&self, ask: Complete, caller: Caller) -> Result<Decision, Fault> {
        let resource = ask.reservation.resource().clone();
        let ask = Ask::Complete(Box::new(ask), random_nonce());
        self.ask_within(&resource, ask, caller).await.map(judged)
    }

    /// Stores what a person found out about an operation.
    pub async fn resolve(&self, ask: Resolve, caller: Caller) -> Result<Decision, Fault> {
        let resource = ask.resource.clone();
        let ask = Ask::Resolve(Box::new(ask), random_nonce());
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
        operation: OperationId,
        caller: Caller,
    ) -> Result<Known, Fault> {
        match self
            .ask_within(&resource, Ask::Lookup(operation), caller)
            .await?
        {
            Answer::Known(state, decision) => Ok(Known { state, decision }),
            other @ (Answer::Judged(_)
            | Answer::Ended(..)
            | Answer::Held(..)
            | Answer::Snapshot(_)) => {
                unreachable!("a lookup is answered by what is known, not by {other:?}")
            }
        }
    }

    /// Shows a resource.
    pub async fn inspect(&self, resource: ResourceId, caller: Caller) -> Result<Snapshot, Fault> {
        match self.ask_within(&resource, Ask::Inspect, caller).await? {
            Answer::Snapshot(snapshot) => Ok(snapshot),
            other @ (Answer::Judged(_)
            | Answer::Ended(..)
            | Answer::Held(..)
            | Answer::Known(..)) => {
                unreachable!("an inspection is answered by a snapshot, not by {other:?}")
            }
        }
    }

    /// A page of incidents, in the order of their ids.
    pub async fn incidents(
        &self,
        after: Option<IncidentId>,
        limit: usize,
        caller: Caller,
    ) -> Result<Vec<Incident>, Fault> {
        self.admit(caller)?;
        let listing = async {
            self.shared
                .store
                .incidents(after.as_ref(), limit)
                .await
                .map_err(|error| question_failed(&error))
        };
        within(caller.deadline, &Progress::default(), listing).await
    }

    /// Refuses new work and waits for what is under way, at most until the limit. Reservations are left alone: they belong
    /// to the callers. False: the limit came first.
    pub async fn stop(&self, limit: Duration) -> bool {
        self.shared.tasks.stop(limit).await
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
    ) -> Result<Answer, Fault> {
        let (ticket, answer) = Ticket::new(ask, progress.clone());
        self.lanes.submit(resource, ticket);
        answer.await.unwrap_or_else(|_| Err(dropped(&progress)))
    }

    async fn ask_within(
        &self,
        resource: &ResourceId,
        ask: Ask,
        caller: Caller,
    ) -> Result<Answer, Fault> {
        self.admit(caller)?;
        let progress = Progress::default();
        within(
            caller.deadline,
            &progress,
            self.ask(resource, ask, progress.clone()),
        )
        .await
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
                retry_after: OVERLOADED_RETRY,
            });
        };
        let (reply, answer) = oneshot::channel();
        self.shared.tasks.spawn(async move {
            drop(reply.send(work.await));
            drop(place);
        });
        let answer = async { answer.await.unwrap_or_else(|_| Err(dropped(progress))) };
        within(caller.deadline, progress, answer).await
    }
}

pub(super) fn judged(answer: Answer) -> Decision {
    match answer {
        Answer::Judged(decision) | Answer::Held(decision, _) | Answer::Ended(decision, ..) => {
            decision
        }
        Answer::Known(..) | Answer::Snapshot(_) => {
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
        StoreError::NotApplied { .. } | StoreError::Indeterminate { .. } => {
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
