//! Removes what is kept longer than it must be and what nobody touches, and moves the store's clock on.
//!
//! Every sidecar looks at the clock now and then, and one at a time looks through all keys. An idle store costs reads only:
//! nothing is written unless something is stored that has an end, or there is more than a page of records. Who sweeps is settled by a key on a lease, to spare work; what
//! is right does not rest on it, for each resource is swept through its own lane, under the same guards as any request.

mod incidents;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::time::Duration;

use futures_util::{StreamExt as _, stream};
use tracing::{info, warn};
use uuid::Uuid;

use super::facade::{question_failed, random_nonce};
use super::fault::Fault;
use super::lane::Shared;
use super::lanes::Lanes;
use super::leases::random_id;
use super::store_clock::Wall;
use super::ticket::{Patience, Progress, Ticket};
use crate::domain::ids::{OperationId, ResourceId};
use crate::domain::judge::{Answer, Ask, SWEPT_OPERATIONS_MAX};
use crate::domain::record::{LeaseId, Record};
use crate::domain::retention::{Keeping, StoreTime};
use crate::domain::token::Revision;
use crate::store::sweep::Cursor;
use crate::store::{FoundRecord, StoreError, StoredClock};

/// The clock is looked at this often within a retention,
const LOOKS_PER_RETENTION: u32 = 16;
/// but at least so often: what passes between two looks is lost if all sidecars end meanwhile.
const LOOK_EVERY_MAX: Duration = Duration::from_secs(10 * 60);
/// Sidecars that were started together look at one of so many different moments of a quarter.
const SPREAD_PARTS: u32 = 100;
/// All keys are looked through this often within a retention.
const SWEEPS_PER_RETENTION: u32 = 8;
/// How long the sweeper's lease lasts, in seconds. A page takes far less.
const SWEEP_LEASE_SECONDS: u32 = 60;
/// The sweeper's lease is renewed after so many pages.
const PAGES_PER_RENEWAL: usize = 8;
/// The pause after each page, so that callers come first.
const PAGE_PAUSE: Duration = Duration::from_millis(10);
/// Resources swept at once.
const SWEPT_AT_ONCE_MAX: usize = 32;

/// How often the clock is looked at.
pub(super) fn look_every(keeping: Keeping) -> Duration {
    (keeping.operations / LOOKS_PER_RETENTION).min(LOOK_EVERY_MAX)
}

/// What a look came to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Swept {
    /// Whether all keys were looked through, by this sidecar.
    pub looked_through: bool,
    /// Resources of which something was to be removed.
    pub resources: usize,
    /// Incidents removed.
    pub incidents: usize,
}

/// The part of the engine that removes what is over.
#[derive(Clone, Debug)]
pub(super) struct Sweeper {
    shared: Arc<Shared>,
    lanes: Arc<Lanes>,
    /// Whether something is stored that has an end, as far as this sidecar knows.
    pending: Arc<AtomicBool>,
    /// When this sidecar last looked through all keys, in milliseconds of the store's clock; 0: never.
    looked_through_ms: Arc<AtomicU64>,
    /// What passed since then and was not counted, since nothing was pending; in milliseconds.
    uncounted_ms: Arc<AtomicU64>,
    /// The lease of the right to sweep that is held now; 0: none.
    turn_now: Arc<AtomicI64>,
}

/// The right to sweep.
struct Turn {
    lease: LeaseId,
}

impl Sweeper {
    pub(super) fn new(shared: Arc<Shared>, lanes: Arc<Lanes>) -> Self {
        Self {
            shared,
            lanes,
            // Until it has looked: somebody else may have stored something.
            pending: Arc::new(AtomicBool::new(true)),
            looked_through_ms: Arc::default(),
            uncounted_ms: Arc::default(),
            turn_now: Arc::default(),
        }
    }

    /// At the end of the sidecar: a sweep that was cut short holds up no other sidecar's.
    pub(super) async fn end(&self) {
        let lease = self.turn_now.swap(0, Ordering::AcqRel);
        if lease != 0 {
            drop(self.shared.store.lease_revoke(LeaseId(lease)).await);
        }
    }

    /// Looks for ever.
    pub(super) async fn run(self) {
        let every = look_every(self.shared.clock.keeping());
        loop {
            // Sidecars that were started together do not look together.
            let part = u32::from(Uuid::new_v4().as_bytes()[0]) % SPREAD_PARTS;
            tokio::time::sleep(every - every / 4 * part / SPREAD_PARTS).await;
            if let Err(error) = self.look().await {
                warn!(%error, "the store's clock could not be looked at, or what is over not be removed; trying again later");
            }
        }
    }

    /// Looks at the clock, and through all keys if that is due.
    pub(super) async fn look(&self) -> Result<Swept, StoreError> {
        let clock = &self.shared.clock;
        let store = &self.shared.store;
        let read = store.read_clock().await?;
        let said_ms = read.clock.map(|(said, _)| said.now_ms);
        if !clock.is_of(read.timeline) {
            clock.begin_anew(read.timeline, said_ms);
            // That was another history.
            self.looked_through_ms.store(0, Ordering::Release);
            self.uncounted_ms.store(0, Ordering::Release);
            self.pending.store(true, Ordering::Release);
        }
        if let Some(said_ms) = said_ms {
            clock.learn(said_ms);
        }
        let wall = clock.look_at_wall();
        let now_ms = clock.now_ms();
        let mut stored = read.clock.map_or(
            StoredClock {
                now_ms: 0,
                swept_ms: 0,
            },
            |(said, _)| said,
        );
        let stored_now_ms = stored.now_ms;
        let seen = read.clock.map(|(_, revision)| revision);
        let mut swept = Swept::default();
        let every = milliseconds(clock.keeping().operations / SWEEPS_PER_RETENTION);
        let looked_ms = self.looked_through_ms.load(Ordering::Acquire);
        let uncounted_ms = self.uncounted_ms.load(Ordering::Acquire);
        let due = now_ms.saturating_add(uncounted_ms)
            >= stored.swept_ms.max(looked_ms).saturating_add(every);
        if wall == Wall::Sound && due && !read.sweeping {
            let kept = self.take_kept();
            let mut turn = None;
            let looked = self.look_through(&mut turn).await;
            let (found, pending) = match looked {
                Ok(found) => found,
                Err(error) => {
                    self.give_up(turn).await;
                    return Err(error);
                }
            };
            swept = found;
            if swept.looked_through {
                // Only who has seen all knows that there is nothing.
                self.pending.store(pending || kept, Ordering::Release);
                self.looked_through_ms.store(now_ms, Ordering::Release);
                self.uncounted_ms.store(0, Ordering::Release);
                stored.swept_ms = now_ms;
            }
            if turn.is_some() {
                let moved = self.move_on_after_a_sweep(stored).await;
                self.give_up(turn).await;
                return moved.map(|()| swept);
            }
        }
        self.take_kept();
        let pending = self.pending.load(Ordering::Acquire);
        let behind = now_ms.saturating_sub(stored.now_ms);
        if pending && behind >= milliseconds(LOOK_EVERY_MAX / 2).min(every / 4) {
            self.move_on(seen, stored).await?;
        } else if !pending && seen.is_some() {
            let more_ms = clock.stand_still_at(stored_now_ms);
            self.uncounted_ms.fetch_add(more_ms, Ordering::AcqRel);
        }
        Ok(swept)
    }

    /// Whether anything with an end was stored since this was last asked. It is pending from then on, whatever becomes of the
    /// look that asks: only a look that sees all may find that it is gone.
    fn take_kept(&self) -> bool {
        let kept = self.shared.kept_something.swap(false, Ordering::AcqRel);
        if kept {
            self.pending.store(true, Ordering::Release);
        }
        kept
    }

    /// Moves the clock on. Others may have moved it while the sweep took its time.
    async fn move_on_after_a_sweep(&self, mut stored: StoredClock) -> Result<(), StoreError> {
        let again = self.shared.store.read_clock().await?;
        if let Some((said, _)) = again.clock {
            self.shared.clock.learn(said.now_ms);
            stored.swept_ms = stored.swept_ms.max(said.swept_ms);
        }
        let seen = again.clock.map(|(_, revision)| revision);
        self.move_on(seen, stored).await
    }

    /// Lets others sweep. The right ends by itself a little later if this is lost.
    async fn give_up(&self, turn: Option<Turn>) {
        if let Some(turn) = turn {
            drop(self.shared.store.lease_revoke(turn.lease).await);
            self.turn_now.store(0, Ordering::Release);
        }
    }

    /// Moves the clock on by what has passed here. If somebody else was first, that is as good.
    async fn move_on(&self, seen: Option<Revision>, mut to: StoredClock) -> Result<(), StoreError> {
        to.now_ms = self.shared.clock.now_ms();
        match self.shared.store.move_clock(seen, to).await {
            Ok(_) => Ok(()),
            // The next look tells.
            Err(StoreError::Indeterminate { .. }) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Looks through all keys. Answers what was removed, and whether anything with an end was seen. `turn`: the right to sweep,
    /// which is only taken once there is something to remove or more than a page to read.
    async fn look_through(&self, turn: &mut Option<Turn>) -> Result<(Swept, bool), StoreError> {
        let store = &self.shared.store;
        let mut swept = Swept::default();
        let mut pending = false;
        let mut pages = 0;
        let mut at = None;
        loop {
            let page = store.records(at.as_ref()).await?;
            let now = self.shared.clock.when().now;
            let has_end = |found: &FoundRecord| may_end(&found.record, self.keeping(found).forget);
            self.note_pending(&mut pending, page.found.iter().any(has_end));
            let mut due = Vec::new();
            for found in page.found {
                if is_due(&found.record, self.keeping(&found), now) {
                    due.push((found.resource, found.record.spilled > 0));
                }
            }
            // More than a page is not looked through by every sidecar.
            if !due.is_empty() || page.next.is_some() {
                if !self.has_turn(turn).await? {
                    return Ok((swept, pending));
                }
                swept.resources += due.len();
                self.sweep(due).await;
            }
            pages += 1;
            if !self.pause(pages, turn.as_ref()).await? {
                return Ok((swept, pending));
            }
            match page.next {
                Some(next) => at = Some(next),
                None => break,
            }
        }
        let mut at = None;
        loop {
            let page = store.incidents_kept(at.as_ref()).await?;
            let mut has_end = false;
            let (over, settled) = self.over_or_settled(page.found, &mut has_end).await?;
            self.note_pending(&mut pending, has_end);
            if !over.is_empty() || !settled.is_empty() {
                if !self.has_turn(turn).await? {
                    return Ok((swept, pending));
                }
                store.end_incidents(&settled).await?;
                store.remove_incidents(&over).await?;
                swept.incidents += over.len();
            }
            pages += 1;
            if !self.pause(pages, turn.as_ref()).await? {
                return Ok((swept, pending));
            }
            match page.next {
                Some(next) => at = Some(next),
                None => break,
            }
        }
        swept.looked_through = true;
        if swept.resources + swept.incidents > 0 {
            info!(
                resources = swept.resources,
                incidents = swept.incidents,
                "removed what was over"
            );
        }
        Ok((swept, pending))
    }

    /// How long what is kept, as far as the law is known here.
    fn keeping(&self, found: &FoundRecord) -> Keeping {
        let configured = self.shared.clock.keeping();
        let timeline = self.shared.store.timeline();
        let law = self.shared.laws.of(found.resource.kind(), timeline).law;
        law.keeping(configured, &found.record)
    }

    /// Takes the right to sweep, once.
    async fn has_turn(&self, turn: &mut Option<Turn>) -> Result<bool, StoreError> {
        if turn.is_some() {
            return Ok(true);
        }
        let store = &self.shared.store;
        let lease = random_id();
        // Given back also if what follows has no answer: a right that nobody uses would hold up everybody.
        let taken = Turn { lease };
        self.turn_now.store(lease.0, Ordering::Release);
        let begun = match store.lease_grant(lease, SWEEP_LEASE_SECONDS).await {
            Ok(_) => store.begin_sweep(random_nonce(), lease).await,
            Err(error) => Err(error),
        };
        if matches!(begun, Ok(true)) {
            *turn = Some(taken);
        } else {
            self.give_up(Some(taken)).await;
        }
        begun
    }

    fn note_pending(&self, pending: &mut bool, seen: bool) {
        if seen {
            *pending = true;
            self.pending.store(true, Ordering::Release);
        }
    }

    /// Lets callers come first, and keeps the right to sweep. False: it is gone, and somebody else may sweep.
    async fn pause(&self, pages: usize, turn: Option<&Turn>) -> Result<bool, StoreError> {
        if let Some(turn) = turn
            && pages.is_multiple_of(PAGES_PER_RENEWAL)
            && self
                .shared
                .store
                .lease_keep_alive(turn.lease)
                .await?
                .is_none()
        {
            warn!("the right to sweep was lost on the way; the next look goes on");
            return Ok(false);
        }
        tokio::time::sleep(PAGE_PAUSE).await;
        Ok(true)
    }

    /// Sweeps resources through their lanes.
    async fn sweep(&self, due: Vec<(ResourceId, bool)>) {
        stream::iter(due)
            .for_each_concurrent(SWEPT_AT_ONCE_MAX, |(resource, spilled)| async move {
                if let Err(fault) = self.sweep_one(&resource, spilled).await {
                    // The next sweep comes to it.
                    warn!(%resource, %fault, "a resource was not swept");
                }
                self.lanes.forget(&resource);
            })
            .await;
    }

    async fn sweep_one(&self, resource: &ResourceId, spilled: bool) -> Result<(), Fault> {
        if !spilled {
            return self.ask(resource, Vec::new()).await;
        }
        let mut at = None;
        loop {
            let page = operations_over(&self.shared, resource, at.as_ref());
            let (over, next) = page.await.map_err(|error| question_failed(&error))?;
            for some in over.chunks(SWEPT_OPERATIONS_MAX) {
                self.ask(resource, some.to_vec()).await?;
            }
            match next {
                Some(next) => at = Some(next),
                // What is left may go only now.
                None => return self.ask(resource, Vec::new()).await,
            }
        }
    }

    async fn ask(&self, resource: &ResourceId, apart: Vec<OperationId>) -> Result<(), Fault> {
        let progress = Progress::default();
        let (ticket, answer) = Ticket::new(Ask::Sweep(apart), progress, Patience::None);
        self.lanes.submit(resource, ticket);
        match answer.await {
            Ok(Ok(Answer::Swept)) | Err(_) => Ok(()),
            Ok(Ok(other)) => unreachable!("a sweep is answered by its end, not by {other:?}"),
            Ok(Err(fault)) => Err(fault),
        }
    }
}

async fn operations_over(
    shared: &Shared,
    resource: &ResourceId,
    at: Option<&Cursor>,
) -> Result<(Vec<OperationId>, Option<Cursor>), StoreError> {
    let page = shared.store.operations_apart(resource, at).await?;
    let now = shared.clock.when().now;
    let over = page.found.into_iter();
    let over = over.filter(|(_, expiry)| expiry.is_some_and(|end| end.is_over(now)));
    Ok((over.map(|(id, _)| id).collect(), page.next))
}

/// Whether a sweep may find something to remove. The lane judges that anew, over what is true then.
fn is_due(record: &Record, keeping: Keeping, now: StoreTime) -> bool {
    let over = record.operations.iter().any(|found| found.over(now));
    let touched = record.touched.unwrap_or(now);
    let untouched = |span| touched.until(span).is_over(now);
    let kept_for_good = record.state.is_some();
    let spent = !kept_for_good && record.operations.is_empty() && record.spilled == 0;
    let ran_out = record.round.as_ref().is_some_and(|round| {
        let longest = round.ttl.as_duration().max(keeping.operations);
        round.over.is_none() && untouched(longest)
    });
    let forgets = keeping.forget.is_some_and(untouched) && kept_for_good;
    over || record.spilled > 0 || (spent && untouched(keeping.operations)) || ran_out || forgets
}

/// Whether something of a record will be over some day.
fn may_end(record: &Record, forget: Option<Duration>) -> bool {
    let operations = record.operations.iter().any(|found| found.expiry.is_some());
    operations || record.spilled > 0 || record.state.is_none() || forget.is_some()
}

fn milliseconds(span: Duration) -> u64 {
    u64::try_from(span.as_millis()).unwrap_or(u64::MAX)
}
