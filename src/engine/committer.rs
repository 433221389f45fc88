//! Merges the commits of many lanes into few etcd transactions.
//!
//! Nothing waits when idle: a commit that finds nothing under way is sent at once. While a transaction is under way, commits
//! gather, and the next carries all that fit: one large transaction costs etcd less than half of what two small ones do. A
//! second goes out beside it only when a whole batch waits, or when the first is so long under way that its reply may be lost. Lanes keep one commit in flight each, so the members of a batch never touch
//! each other's keys; the batch checks that again.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use futures_util::{StreamExt as _, stream};
use tokio::sync::{Notify, mpsc, oneshot};

use super::tasks::Tasks;
use crate::domain::token::Revision;
use crate::store::error::NotApplied;
use crate::store::{BATCH_MEMBERS_MAX, Batch, MemberOutcome, Prepared, Store, StoreError};

/// Transactions to etcd in flight at once.
const BATCHES_IN_FLIGHT_MAX: usize = 4;
/// How long commits gather behind a transaction under way. Longer than etcd usually takes, and short enough that a lost reply
/// holds up nobody else.
const PATIENCE: Duration = Duration::from_millis(10);
/// Members of a refused batch that are sent singly at once.
const SINGLES_IN_FLIGHT_MAX: usize = 8;
/// Commits that wait for a place. Each lane has at most one, so this is only a backstop.
const COMMITS_WAITING_MAX: usize = 8 * 1024;

/// What became of one commit, and etcd's revision at that point.
pub(super) type Outcome = Result<(MemberOutcome, Revision), StoreError>;

struct Job {
    prepared: Prepared,
    reply: oneshot::Sender<Outcome>,
}

/// The way to etcd for commits. Cheap to clone.
#[derive(Clone, Debug)]
pub(super) struct Committer {
    jobs: mpsc::Sender<Job>,
    /// Rung when a commit comes and when a transaction ends.
    bell: Arc<Notify>,
}

impl Committer {
    pub(super) fn start(store: Store, tasks: Tasks) -> Self {
        let (jobs, queue) = mpsc::channel(COMMITS_WAITING_MAX);
        let bell = Arc::<Notify>::default();
        let gather = Gather {
            store,
            tasks: tasks.clone(),
            queue,
            held_back: None,
            bell: Arc::clone(&bell),
            in_flight: Arc::default(),
        };
        tasks.spawn_background(gather.run());
        Self { jobs, bell }
    }

    /// Commits; waits until the outcome is known or known to be unknown.
    pub(super) async fn commit(&self, prepared: Prepared) -> Outcome {
        let (reply, outcome) = oneshot::channel();
        if self.jobs.send(Job { prepared, reply }).await.is_err() {
            let detail = "the committer has stopped".to_owned();
            return Err(StoreError::NotApplied {
                reason: NotApplied::Unreachable,
                detail,
            });
        }
        self.bell.notify_one();
        let lost = StoreError::Indeterminate {
            detail: "the sending task ended".to_owned(),
        };
        outcome.await.unwrap_or(Err(lost))
    }
}

struct Gather {
    store: Store,
    tasks: Tasks,
    queue: mpsc::Receiver<Job>,
    /// A commit that did not fit into the last batch, and goes first into the next.
    held_back: Option<Job>,
    bell: Arc<Notify>,
    in_flight: Arc<AtomicUsize>,
}

/// A transaction under way.
struct InFlight {
    all: Arc<AtomicUsize>,
    bell: Arc<Notify>,
}

impl Drop for InFlight {
    fn drop(&mut self) {
        self.all.fetch_sub(1, Ordering::AcqRel);
        self.bell.notify_one();
    }
}

impl Gather {
    async fn run(mut self) {
        loop {
            let first = match self.held_back.take() {
                Some(job) => job,
                None => match self.queue.recv().await {
                    Some(job) => job,
                    None => return,
                },
            };
            self.turn().await;
            let (batch, replies) = self.gather(first);
            let store = self.store.clone();
            self.in_flight.fetch_add(1, Ordering::AcqRel);
            let in_flight = InFlight {
                all: Arc::clone(&self.in_flight),
                bell: Arc::clone(&self.bell),
            };
            self.tasks.spawn(async move {
                send(&store, batch, replies).await;
                drop(in_flight);
            });
        }
    }

    /// Waits until the next transaction should go.
    async fn turn(&self) {
        let impatient = tokio::time::sleep(PATIENCE);
        tokio::pin!(impatient);
        let mut patient = true;
        loop {
            let in_flight = self.in_flight.load(Ordering::Acquire);
            let whole_batch = self.queue.len() + 1 >= BATCH_MEMBERS_MAX;
            let another = in_flight < BATCHES_IN_FLIGHT_MAX && (whole_batch || !patient);
            if in_flight == 0 || another {
                return;
            }
            tokio::select! {
                () = self.bell.notified() => {}
                () = &mut impatient, if patient => patient = false,
            }
        }
    }

    /// Takes what waits, as far as it fits.
    fn gather(&mut self, first: Job) -> (Batch, Vec<oneshot::Sender<Outcome>>) {
        let mut batch = Batch::new();
        let mut replies = Vec::new();
        let mut next = Some(first);
        while let Some(Job { prepared, reply }) = next {
            match batch.try_add(prepared) {
                Ok(()) => replies.push(reply),
                Err(prepared) if replies.is_empty() => {
                    // Larger than any batch may be; etcd would refuse it too.
                    let detail =
                        format!("one commit of {} bytes is too large", prepared.bytes_sent());
                    let reason = NotApplied::TooLarge;
                    drop(reply.send(Err(StoreError::NotApplied { reason, detail })));
                }
                Err(prepared) => {
                    self.held_back = Some(Job { prepared, reply });
                    break;
                }
            }
            next = self.queue.try_recv().ok();
        }
        (batch, replies)
    }
}

async fn send(store: &Store, batch: Batch, replies: Vec<oneshot::Sender<Outcome>>) {
    let members = batch.members();
    if members.is_empty() {
        return;
    }
    let outcome = store.commit(members).await;
    match outcome {
        Ok(outcome) => {
            for (reply, member) in replies.into_iter().zip(outcome.members) {
                drop(reply.send(member.map(|member| (member, outcome.revision))));
            }
        }
        Err(StoreError::NotApplied {
            reason: NotApplied::LeaseGone | NotApplied::Refused | NotApplied::TooLarge,
            ..
        }) if members.len() > 1 => {
            // One member spoils the batch for all, and etcd does not say which.
            stream::iter(replies.into_iter().zip(members))
                .for_each_concurrent(SINGLES_IN_FLIGHT_MAX, |(reply, member)| async move {
                    drop(reply.send(send_alone(store, member).await));
                })
                .await;
        }
        Err(error) => {
            for reply in replies {
                drop(reply.send(Err(error.clone())));
            }
        }
    }
}

async fn send_alone(store: &Store, member: &Prepared) -> Outcome {
    let outcome = store.commit(std::slice::from_ref(member)).await?;
    let revision = outcome.revision;
    let only = outcome.members.into_iter().next();
    let nothing = StoreError::Indeterminate {
        detail: "etcd answered no member".to_owned(),
    };
    only.unwrap_or(Err(nothing))
        .map(|member| (member, revision))
}
