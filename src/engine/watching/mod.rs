//! Following a resource for somebody: each of its states in order, from now or from a revision on.
//!
//! One task for each stream hears what etcd tells, whether or not its reader comes to it: what is not read must not fill the
//! connection that all requests share. What waits for the reader is bounded, and whoever is too far behind is told the newest, and
//! that states are missing.

mod order;

use std::collections::VecDeque;
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::Instant;
use tokio_util::sync::{CancellationToken, DropGuard};
use tracing::error;

use super::facade::{Caller, Engine, question_failed};
use super::fault::Fault;
use super::lane::Shared;
use super::pace::Pace;
use crate::domain::decision::Snapshot;
use crate::domain::ids::{Nonce, ResourceId};
use crate::domain::judge::{Fold, Standing};
use crate::domain::record::Record;
use crate::domain::token::{Revision, Timeline};
use crate::store::{ResourceNews, ResourceWatch, Seen, StoreError};
use order::{Next, Order, State};

/// States of one stream that wait for its reader. Beyond it only the newest is kept.
pub const STATES_WAITING_MAX: usize = 64;
/// How long it is waited, while etcd tells of ends, for the news of one that must have come before what is known.
const PATIENCE: Duration = Duration::from_secs(2);
/// Changes that may wait for the news of such an end.
const RECORDS_WAITING_MAX: usize = 64;
/// When to open a stream again after another timeline came into force.
const ANEW_RETRY: Duration = Duration::from_millis(500);

/// From where on a resource is followed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct After {
    /// What has changed since is told.
    pub revision: Revision,
    /// The timeline that it was told in. `None`: it is taken as one of the timeline in force.
    pub timeline: Option<Nonce>,
}

/// A state of a resource.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shown {
    /// As Inspect shows it; its revision is that of the change which led to it.
    pub snapshot: Snapshot,
    /// Whether states before it are missing.
    pub gap: bool,
    /// The timeline that its revision belongs to.
    pub timeline: Nonce,
}

/// Why nothing more is told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FollowEnd {
    /// The sidecar is going down.
    Stopping,
    /// It cannot be gone on.
    Failed(Fault),
}

/// A stream of one reader. Dropping it ends it.
#[derive(Debug)]
pub struct Following {
    shared: Arc<Shared>,
    waiting: Arc<Waiting>,
    _end: DropGuard,
}

#[derive(Debug, Default)]
struct Waiting {
    inner: Mutex<Inner>,
    changed: Notify,
}

#[derive(Debug, Default)]
struct Inner {
    states: VecDeque<Shown>,
    failed: Option<Fault>,
}

impl Waiting {
    fn put(&self, mut shown: Shown) {
        let mut inner = self.lock();
        if inner.states.len() >= STATES_WAITING_MAX {
            inner.states.clear();
            shown.gap = true;
        }
        inner.states.push_back(shown);
        drop(inner);
        self.changed.notify_one();
    }

    fn fail(&self, fault: Fault) {
        self.lock().failed = Some(fault);
        self.changed.notify_one();
    }

    async fn next(&self) -> Result<Shown, Fault> {
        loop {
            {
                let mut inner = self.lock();
                if let Some(shown) = inner.states.pop_front() {
                    return Ok(shown);
                }
                if let Some(fault) = &inner.failed {
                    return Err(fault.clone());
                }
            }
            self.changed.notified().await;
        }
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Following {
    /// The next state; waits for one.
    pub async fn next(&mut self) -> Result<Shown, FollowEnd> {
        tokio::select! {
            biased;
            () = self.shared.tasks.told_to_stop() => Err(FollowEnd::Stopping),
            shown = self.waiting.next() => shown.map_err(FollowEnd::Failed),
        }
    }
}

impl Engine {
    /// Follows a resource: from now, which is told first, or from the change after a revision.
    pub async fn follow(
        &self,
        resource: ResourceId,
        after: Option<After>,
        caller: Caller,
    ) -> Result<Following, Fault> {
        // Whatever cannot be shown now is told like any other question without an answer; and the machine is known then.
        self.inspect_alone(resource.clone(), caller).await?;
        let end = CancellationToken::new();
        let waiting = Arc::<Waiting>::default();
        let follower = Follower {
            shared: Arc::clone(&self.shared),
            timeline: self.shared.store.timeline(),
            resource,
            waiting: Arc::clone(&waiting),
            told: None,
        };
        let ended = end.clone();
        self.shared.tasks.spawn_background(Box::pin(async move {
            tokio::select! {
                () = ended.cancelled() => {}
                () = follower.run(after) => {}
            }
        }));
        Ok(Following {
            shared: Arc::clone(&self.shared),
            waiting,
            _end: end.drop_guard(),
        })
    }
}

/// What news of a resource came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Heard {
    Nothing,
    Something,
    /// Something was missed.
    Missed,
}

struct Follower {
    shared: Arc<Shared>,
    timeline: Timeline,
    resource: ResourceId,
    waiting: Arc<Waiting>,
    /// The largest revision that was told.
    told: Option<Revision>,
}

impl Follower {
    async fn run(mut self, after: Option<After>) {
        let store = self.shared.store.clone();
        let timeline = self.timeline;
        let fault = tokio::select! {
            fault = self.follow(after) => fault,
            // Revisions of another timeline say nothing of those that were told, and a halted one tells nothing.
            () = store.another_state(timeline) => match store.halt() {
                Some(halt) => Fault::Halted { halt },
                None => Fault::StoreUnavailable {
                    retry_after: ANEW_RETRY,
                },
            },
        };
        self.waiting.fail(fault);
    }

    /// Goes on until that is not possible.
    async fn follow(&mut self, after: Option<After>) -> Fault {
        let mut after = after;
        let mut gap = false;
        loop {
            let (record, live, now) = match self.look().await {
                Ok(seen) => seen,
                Err(fault) => return fault,
            };
            let order = match after.take() {
                Some(After { revision, timeline })
                    if revision <= now && timeline.is_none_or(|of| of == self.timeline.id) =>
                {
                    Order::behind(revision, record.filter(|(_, at)| *at <= revision))
                }
                // Of a later revision nobody can have heard in this store, and in another timeline it was of another change.
                Some(_) => {
                    gap = true;
                    continue;
                }
                None => {
                    let at = record.as_ref().map(|(_, at)| *at);
                    let state = State {
                        at: now,
                        record,
                        live,
                        gap,
                    };
                    let order = Order::after(&state);
                    if let Err(fault) = self.tell(state, at) {
                        return fault;
                    }
                    order
                }
            };
            match self.go_on(order).await {
                Ok(()) => gap = true,
                Err(fault) => return fault,
            }
        }
    }

    /// Tells each change, until one was missed.
    async fn go_on(&mut self, mut order: Order) -> Result<(), Fault> {
        let store = self.shared.store.clone();
        let mut watch = store.resource_changes(&self.resource, order.told());
        let mut waiting_since: Option<Instant> = None;
        loop {
            let patient = in_vain_at(waiting_since, watch.ends_told_since())
                .is_none_or(|at| Instant::now() < at);
            let patient = patient && order.records_waiting() <= RECORDS_WAITING_MAX;
            match order.next(patient) {
                Next::Tell(state) => {
                    waiting_since = None;
                    let at = state.at;
                    self.tell(*state, Some(at))?;
                    continue;
                }
                Next::Look => {
                    if self.look_on(&mut order, &mut watch).await? == Heard::Missed {
                        return Ok(());
                    }
                    continue;
                }
                Next::Nothing => waiting_since = None,
                Next::Patience => {
                    waiting_since.get_or_insert_with(Instant::now);
                }
            }
            let until = in_vain_at(waiting_since, watch.ends_told_since());
            let news = tokio::select! {
                news = watch.next() => news,
                () = sleep_until(until) => continue,
            };
            if self.hear(&mut order, news)? == Heard::Missed {
                return Ok(());
            }
        }
    }

    /// Looks when the record was changed last, and hears on meanwhile: what is not read off the streams fills the connection,
    /// and then the answer cannot come either. News take the look's place, for it may have been asked before them.
    async fn look_on(&self, order: &mut Order, watch: &mut ResourceWatch) -> Result<Heard, Fault> {
        let mut looking = pin!(self.look());
        loop {
            let news = tokio::select! {
                seen = &mut looking => {
                    let (record, _, _) = seen?;
                    order.looked(record.map(|(_, at)| at));
                    return Ok(Heard::Nothing);
                }
                news = watch.next() => news,
            };
            match self.hear(order, news)? {
                Heard::Nothing => {}
                heard @ (Heard::Something | Heard::Missed) => return Ok(heard),
            }
        }
    }

    /// Takes up what etcd tells.
    fn hear(
        &self,
        order: &mut Order,
        news: Result<ResourceNews, StoreError>,
    ) -> Result<Heard, Fault> {
        Ok(match news.map_err(|error| self.not_shown(&error))? {
            ResourceNews::Record(changes) => {
                order.records(changes);
                Heard::Something
            }
            // Grants are heard there too, and are in the record.
            ResourceNews::Ended(ends) if ends.is_empty() => Heard::Nothing,
            ResourceNews::Ended(ends) => {
                order.ends(ends);
                Heard::Something
            }
            ResourceNews::Missed => Heard::Missed,
        })
    }

    /// The resource as it stands, asked for until there is an answer.
    async fn look(&self) -> Result<(Option<(Record, Revision)>, bool, Revision), Fault> {
        let mut pace = Pace::new();
        loop {
            match self.shared.store.resource_now(&self.resource).await {
                Ok((
                    Seen {
                        record,
                        reservation,
                        ..
                    },
                    at,
                )) => {
                    return Ok((record, reservation.is_some(), at));
                }
                Err(error @ StoreError::Corrupt { .. }) => return Err(self.not_shown(&error)),
                Err(
                    StoreError::NotApplied { .. }
                    | StoreError::Full { .. }
                    | StoreError::Indeterminate { .. },
                ) => {
                    pace.wait().await;
                }
            }
        }
    }

    fn not_shown(&self, error: &StoreError) -> Fault {
        question_failed(error)
    }

    /// Puts a state where its reader finds it. `at`: the revision of the change that led to it, if there was one.
    fn tell(&mut self, state: State, at: Option<Revision>) -> Result<(), Fault> {
        let granted = state.record.as_ref().filter(|_| state.live);
        let granted = granted.and_then(|(record, at)| record.round.as_ref()?.granted_at(Some(*at)));
        let standing = Standing::seen(state.record, granted).map_err(|inconsistent| {
            let resource = &self.resource;
            error!(%resource, %inconsistent, "a record and its reservation key do not fit together");
            Fault::CorruptRecord
        })?;
        let law = self.shared.laws.of(self.resource.kind(), self.timeline);
        let when = self.shared.clock.when();
        let fold = Fold::begin(&self.resource, &standing, self.timeline, when).under(&law.law);
        let mut snapshot = fold.look().snapshot;
        // What is told anew may have been told already, as a lease that ran out, with a later revision than its record's.
        self.told = self.told.max(at);
        snapshot.revision = self.told;
        self.waiting.put(Shown {
            snapshot,
            gap: state.gap,
            timeline: self.timeline.id,
        });
        Ok(())
    }
}

/// When it is no use to wait any more for an end that must have come. While etcd tells of none (`None`), that is not known; it is
/// looked at again then.
fn in_vain_at(waiting_since: Option<Instant>, told_since: Option<Instant>) -> Option<Instant> {
    let waiting_since = waiting_since?;
    let since = told_since.map_or_else(Instant::now, |told| told.max(waiting_since));
    Some(since + PATIENCE)
}

async fn sleep_until(until: Option<Instant>) {
    match until {
        Some(until) => tokio::time::sleep_until(until).await,
        None => std::future::pending().await,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn patience_for_an_end_counts_only_while_ends_are_told() {
        assert_eq!(in_vain_at(None, Some(Instant::now())), None);
        let began = Instant::now();
        assert_eq!(in_vain_at(Some(began), Some(began)), Some(began + PATIENCE));
        // However long nothing is told, it is not in vain yet.
        tokio::time::advance(10 * PATIENCE).await;
        let now = Instant::now();
        assert_eq!(in_vain_at(Some(began), None), Some(now + PATIENCE));
        assert_eq!(in_vain_at(Some(began), Some(now)), Some(now + PATIENCE));
    }
}
