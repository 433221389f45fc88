//! Looks whether reservations still stand, for many renewals in one request.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{Semaphore, mpsc, oneshot};

use crate::engine::tasks::Tasks;
use crate::store::error::NotApplied;
use crate::store::{Granted, STANDING_ASKED_MAX, Store, StoreError};

/// Requests under way at once.
const IN_FLIGHT_MAX: usize = 4;
/// Reservations that wait to be asked about.
const WAITING_MAX: usize = 8 * 1024;
/// How long the first one waits for others: nothing against a TTL, and at a few thousand renewals a second it fills requests.
const GATHERED_FOR: Duration = Duration::from_millis(20);

type Outcome = Result<bool, StoreError>;

struct Job {
    asked: Granted,
    /// How long its asker waits.
    patience: Duration,
    /// How long such an asker waits at most, however little of its time is left.
    whole: Duration,
    reply: oneshot::Sender<Outcome>,
}

/// The way to ask. Cheap to clone.
#[derive(Clone, Debug)]
pub(super) struct Checker {
    jobs: mpsc::Sender<Job>,
}

impl Checker {
    pub(super) fn start(store: Store, tasks: &Tasks) -> Self {
        let (jobs, queue) = mpsc::channel(WAITING_MAX);
        tasks.spawn_background(run(store, tasks.clone(), queue));
        Self { jobs }
    }

    /// Whether a reservation stands at some moment after this call began, which takes at most so long. `whole`: how long it might
    /// take if its time were not about to end; a part of that is what a silent endpoint has.
    pub(super) async fn still_stands(
        &self,
        asked: Granted,
        patience: Duration,
        whole: Duration,
    ) -> Outcome {
        let (reply, outcome) = oneshot::channel();
        let job = Job {
            asked,
            patience,
            whole,
            reply,
        };
        let asking = async {
            self.jobs.send(job).await.ok()?;
            outcome.await.ok()
        };
        let answered = tokio::time::timeout(patience, asking).await.ok().flatten();
        answered.unwrap_or_else(|| Err(unanswered()))
    }
}

fn unanswered() -> StoreError {
    StoreError::NotApplied {
        reason: NotApplied::Unreachable,
        detail: "it was not answered in time whether the reservation stands".to_owned(),
    }
}

async fn run(store: Store, tasks: Tasks, mut queue: mpsc::Receiver<Job>) {
    let places = Arc::new(Semaphore::new(IN_FLIGHT_MAX));
    let mut jobs: Vec<Job> = Vec::new();
    loop {
        match queue.recv().await {
            Some(first) => jobs.push(first),
            None => return,
        }
        if queue.len() < STANDING_ASKED_MAX {
            tokio::time::sleep(GATHERED_FOR).await;
        }
        let Ok(place) = Arc::clone(&places).acquire_owned().await else {
            return;
        };
        while jobs.len() < STANDING_ASKED_MAX
            && let Ok(next) = queue.try_recv()
        {
            jobs.push(next);
        }
        // Those who have given up are not asked for.
        jobs.retain(|job| !job.reply.is_closed());
        // No asker waits longer; then the place is for others, however long etcd stays silent.
        let patience = jobs.iter().map(|job| job.patience).max();
        let whole = jobs.iter().map(|job| job.whole).min();
        let (Some(patience), Some(whole)) = (patience, whole) else {
            continue;
        };
        let (asked, replies): (Vec<_>, Vec<_>) =
            jobs.drain(..).map(|job| (job.asked, job.reply)).unzip();
        let store = store.clone();
        tasks.spawn_background(async move {
            let asking = tokio::time::timeout(patience, store.still_standing(&asked, whole));
            let outcome = asking.await.unwrap_or_else(|_| Err(unanswered()));
            for (at, reply) in replies.into_iter().enumerate() {
                let of_one = match &outcome {
                    Ok(stand) => Ok(stand.get(at).copied().unwrap_or(false)),
                    Err(error) => Err(error.clone()),
                };
                drop(reply.send(of_one));
            }
            drop(place);
        });
    }
}
