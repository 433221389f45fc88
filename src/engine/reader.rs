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

/// What was found, in the order in which it was asked for; inside, an error says that this resource cannot be trusted.
type Outcome = Result<Vec<Result<Seen, StoreError>>, StoreError>;

struct Job {
    asks: Vec<ReadAsk>,
    reply: oneshot::Sender<Outcome>,
}

impl Job {
    fn operation_count(&self) -> usize {
        self.asks.iter().map(ReadAsk::operation_count).sum()
    }
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
    pub(super) async fn read(&self, ask: ReadAsk) -> Result<Seen, StoreError> {
        let found = self.read_all(vec![ask]).await?;
        found.into_iter().next().unwrap_or_else(|| Err(gone()))
    }

    /// Reads several as they stand at one moment after this call began. All of them fit into one read.
    pub(super) async fn read_all(&self, asks: Vec<ReadAsk>) -> Outcome {
        let (reply, outcome) = oneshot::channel();
        self.jobs
            .send(Job { asks, reply })
            .await
            .map_err(|_| gone())?;
        outcome.await.unwrap_or_else(|_| Err(gone()))
    }
}

fn gone() -> StoreError {
    StoreError::NotApplied {
        reason: NotApplied::Unreachable,
        detail: "the reader has stopped".to_owned(),
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
        while let Some(job) = next {
            let more = job.operation_count();
            if !asks.is_empty() && operations + more > READ_OPERATIONS_MAX {
                held_back = Some(job);
                break;
            }
            operations += more;
            replies.push((job.asks.len(), job.reply));
            asks.extend(job.asks);
            next = queue.try_recv().ok();
        }
        let store = store.clone();
        tasks.spawn(async move {
            match store.read(&asks).await {
                Ok(seen) => {
                    let mut seen = seen.into_iter();
                    for (count, reply) in replies {
                        drop(reply.send(Ok(seen.by_ref().take(count).collect())));
                    }
                }
                Err(error) => {
                    for (_, reply) in replies {
                        drop(reply.send(Err(error.clone())));
                    }
                }
            }
            drop(place);
        });
    }
}
