//! Merges the reads of many lanes into few linearizable requests.

use std::sync::Arc;

use tokio::sync::{Semaphore, mpsc, oneshot};

use super::tasks::Tasks;
use crate::store::error::NotApplied;
use crate::store::{READ_OPERATIONS_MAX, ReadAsk, Seen, Store, StoreError};

/// Reads from etcd in flight at once.
const READS_IN_FLIGHT_MAX: usize = 4;
/// Reads that wait for a place.
const READS_WAITING_MAX: usize = 8 * 1024;

type Outcome = Result<Seen, StoreError>;

struct Job {
    ask: ReadAsk,
    reply: oneshot::Sender<Outcome>,
}

/// The way to etcd for reads. Cheap to clone.
#[derive(Clone, Debug)]
pub(super) struct Reader {
    jobs: mpsc::Sender<Job>,
}

impl Reader {
    pub(super) fn start(store: Store, tasks: Tasks) -> Self {
        let (jobs, queue) = mpsc::channel(READS_WAITING_MAX);
        tasks.clone().spawn_background(run(store, tasks, queue));
        Self { jobs }
    }

    /// Reads a resource as it stands at some moment after this call began.
    pub(super) async fn read(&self, ask: ReadAsk) -> Outcome {
        let gone = || {
            let detail = "the reader has stopped".to_owned();
            StoreError::NotApplied {
                reason: NotApplied::Unreachable,
                detail,
            }
        };
        let (reply, outcome) = oneshot::channel();
        self.jobs
            .send(Job { ask, reply })
            .await
            .map_err(|_| gone())?;
        outcome.await.unwrap_or_else(|_| Err(gone()))
    }
}

async fn run(store: Store, tasks: Tasks, mut queue: mpsc::Receiver<Job>) {
    let places = Arc::new(Semaphore::new(READS_IN_FLIGHT_MAX));
    let mut held_back: Option<Job> = None;
    loop {
        let first = match held_back.take() {
            Some(job) => job,
            None => match queue.recv().await {
                Some(job) => job,
                None => return,
            },
        };
        let Ok(place) = Arc::clone(&places).acquire_owned().await else {
            return;
        };
        let mut asks = Vec::new();
        let mut replies = Vec::new();
        let mut operations = 0;
        let mut next = Some(first);
        while let Some(Job { ask, reply }) = next {
            if !asks.is_empty() && operations + ask.operation_count() > READ_OPERATIONS_MAX {
                held_back = Some(Job { ask, reply });
                break;
            }
            operations += ask.operation_count();
            asks.push(ask);
            replies.push(reply);
            next = queue.try_recv().ok();
        }
        let store = store.clone();
        tasks.spawn(async move {
            match store.read(&asks).await {
                Ok(seen) => {
                    for (reply, seen) in replies.into_iter().zip(seen) {
                        drop(reply.send(seen));
                    }
                }
                Err(error) => {
                    for reply in replies {
                        drop(reply.send(Err(error.clone())));
                    }
                }
            }
            drop(place);
        });
    }
}
