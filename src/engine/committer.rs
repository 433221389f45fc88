//! Merges the commits of many lanes into few etcd transactions.
//!
//! When one goes out is decided in [`super::gathering`]; here is who waits, and what becomes of it. Lanes keep one commit in
//! flight each, so the members of a batch never touch each other's keys; the batch checks that again.

use std::sync::atomic::{AtomicUsize, Ordering, fence};
use std::sync::{Arc, Mutex, PoisonError};

use futures_util::{StreamExt as _, stream};
use tokio::sync::{Notify, mpsc, oneshot};
use tokio::time::Instant;

use super::gathering::{Returned, Situation, Turn};
use super::tasks::Tasks;
use crate::domain::token::Revision;
use crate::store::error::NotApplied;
use crate::store::{Batch, MemberOutcome, Prepared, Store, StoreError};

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
    flights: Arc<Flights>,
}

/// What those who commit, those who gather and the transactions under way tell each other.
#[derive(Debug)]
struct Flights {
    /// Rung when as many commits wait as were asked for, and when a transaction ends.
    bell: Notify,
    /// How many commits have to wait in the queue before the bell is rung.
    wanted: AtomicUsize,
    in_flight: AtomicUsize,
    /// Commits that wait or are under way.
    callers: AtomicUsize,
    /// The transaction that came back last.
    last: Mutex<Option<Returned>>,
}

impl Flights {
    fn last(&self) -> Option<Returned> {
        *self.last.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Committer {
    pub(super) fn start(store: Store, tasks: Tasks) -> Self {
        let (jobs, queue) = mpsc::channel(COMMITS_WAITING_MAX);
        let flights = Arc::new(Flights {
            bell: Notify::new(),
            wanted: AtomicUsize::new(usize::MAX),
            in_flight: AtomicUsize::new(0),
            callers: AtomicUsize::new(0),
            last: Mutex::default(),
        });
        let gather = Gather {
            store,
            tasks: tasks.clone(),
            queue,
            held_back: None,
            flights: Arc::clone(&flights),
        };
        tasks.spawn_background(gather.run());
        Self { jobs, flights }
    }

    /// Commits; waits until the outcome is known or known to be unknown.
    pub(super) async fn commit(&self, prepared: Prepared) -> Outcome {
        let _counted = Counted::one_of(&self.flights.callers);
        let (reply, outcome) = oneshot::channel();
        if self.jobs.send(Job { prepared, reply }).await.is_err() {
            let detail = "the committer has stopped".to_owned();
            return Err(StoreError::NotApplied {
                reason: NotApplied::Unreachable,
                detail,
            });
        }
        // Either this sees how many are wanted, or whoever wants them sees this one.
        fence(Ordering::SeqCst);
        let queued = self.jobs.max_capacity() - self.jobs.capacity();
        if queued >= self.flights.wanted.load(Ordering::Relaxed) {
            self.flights.bell.notify_one();
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
    flights: Arc<Flights>,
}

/// One of so many, as long as it lives.
struct Counted<'a>(&'a AtomicUsize);

impl<'a> Counted<'a> {
    fn one_of(all: &'a AtomicUsize) -> Self {
        all.fetch_add(1, Ordering::Relaxed);
        Self(all)
    }
}

impl Drop for Counted<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// A transaction under way.
struct InFlight {
    flights: Arc<Flights>,
    sent: Instant,
}

impl InFlight {
    fn begin(flights: &Arc<Flights>) -> Self {
        flights.in_flight.fetch_add(1, Ordering::AcqRel);
        Self {
            flights: Arc::clone(flights),
            sent: Instant::now(),
        }
    }
}

impl Drop for InFlight {
    fn drop(&mut self) {
        let flights = &self.flights;
        let at = Instant::now();
        let returned = Returned {
            callers: flights.callers.load(Ordering::Relaxed),
            took: at - self.sent,
            at,
        };
        *flights.last.lock().unwrap_or_else(PoisonError::into_inner) = Some(returned);
        flights.in_flight.fetch_sub(1, Ordering::AcqRel);
        flights.bell.notify_one();
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
            let in_flight = InFlight::begin(&self.flights);
            self.tasks.spawn(async move {
                send(&store, batch, replies).await;
                drop(in_flight);
            });
        }
    }

    /// Waits until the next transaction should go.
    async fn turn(&self) {
        let since = Instant::now();
        let flights = &*self.flights;
        loop {
            let situation = Situation {
                waiting: self.queue.len() + 1,
                since,
                in_flight: flights.in_flight.load(Ordering::Acquire),
                last: flights.last(),
            };
            let Turn::Later { members, at } = situation.turn(Instant::now()) else {
                break;
            };
            // One of them waits here and not in the queue.
            flights.wanted.store(members - 1, Ordering::Relaxed);
            fence(Ordering::SeqCst);
            if self.queue.len() + 1 >= members {
                continue;
            }
            let rung = flights.bell.notified();
            match at {
                Some(at) => drop(tokio::time::timeout_at(at, rung).await),
                None => rung.await,
            }
        }
        flights.wanted.store(usize::MAX, Ordering::Relaxed);
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
            reason:
                NotApplied::LeaseGone | NotApplied::Refused | NotApplied::Denied | NotApplied::TooLarge,
            ..
        }) if members.len() > 1 => {
            // One member spoils the batch for all, and etcd does not say which.
            stream::iter(replies.into_iter().zip(members))
                .for_each_concurrent(SINGLES_IN_FLIGHT_MAX, |(reply, member)| async move {
                    drop(reply.send(send_alone(store, member).await));
                })
                .await;
        }
        // What only deletes is taken also when there is no space, if nothing that puts goes with it.
        Err(error @ StoreError::Full { .. }) if members.len() > 1 => {
            stream::iter(replies.into_iter().zip(members))
                .for_each_concurrent(SINGLES_IN_FLIGHT_MAX, |(reply, member)| async {
                    let outcome = if member.only_deletes() {
                        send_alone(store, member).await
                    } else {
                        Err(error.clone())
                    };
                    drop(reply.send(outcome));
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
