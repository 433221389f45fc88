//! Merges the commits of many lanes into few etcd transactions.
//!
//! Nothing waits when idle: a commit that finds a free place is sent at once. While the places are taken, commits gather, and
//! the next transaction carries all that fit. Lanes keep one commit in flight each, so the members of a batch never touch
//! each other's keys; the batch checks that again.

use std::sync::Arc;

use futures_util::{StreamExt as _, stream};
use tokio::sync::{Semaphore, mpsc, oneshot};

use super::tasks::Tasks;
use crate::domain::token::Revision;
use crate::store::error::NotApplied;
use crate::store::{Batch, MemberOutcome, Prepared, Store, StoreError};

/// Transactions to etcd in flight at once. One more than one, so that etcd is not idle while a reply travels.
const BATCHES_IN_FLIGHT_MAX: usize = 2;
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
}

impl Committer {
    pub(super) fn start(store: Store, tasks: Tasks) -> Self {
        let (jobs, queue) = mpsc::channel(COMMITS_WAITING_MAX);
        let gather = Gather {
            store,
            tasks: tasks.clone(),
            queue,
            held_back: None,
        };
        tasks.spawn_background(gather.run());
        Self { jobs }
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
}

impl Gather {
    async fn run(mut self) {
        let places = Arc::new(Semaphore::new(BATCHES_IN_FLIGHT_MAX));
        loop {
            let first = match self.held_back.take() {
                Some(job) => job,
                None => match self.queue.recv().await {
                    Some(job) => job,
                    None => return,
                },
            };
            let Ok(place) = Arc::clone(&places).acquire_owned().await else {
                return;
            };
            let (batch, replies) = self.gather(first);
            let store = self.store.clone();
            self.tasks.spawn(async move {
                send(&store, batch, replies).await;
                drop(place);
            });
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
