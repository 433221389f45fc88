//! The task that writes entries and keeps them alive. It runs as long as somebody waits, and one write is under way at a time.

use std::convert::Infallible;
use std::time::Duration;

use tracing::warn;

use super::lines::{Batch, Work};
use super::{Boottime, Pace, Queues};
use crate::domain::token::Revision;
use crate::engine::facade::random_nonce;
use crate::engine::leases::random_id;
use crate::store::error::NotApplied;
use crate::store::queue::SessionWrite;
use crate::store::{LeaseUse, StoreError, WaitSession};

/// TTL of the lease that all entries of a sidecar hang on, in seconds. When it dies they are gone within this, and a little.
pub(in crate::engine) const SESSION_SECONDS: u32 = 10;
/// How long a session lasts after it was last kept alive. etcd thinks long over a keepalive of a lease that has run out, and holds up
/// those of other leases meanwhile; so one that may have is given up.
const SESSION: Duration = Duration::from_secs(1).saturating_mul(SESSION_SECONDS);
/// It is kept alive this often, and no keepalive takes longer.
const KEEP_ALIVE: Duration = Duration::from_secs(3);
/// How long a removal may fail before the session is not kept alive any more: what cannot be removed goes with it.
const REMOVED_WITHIN: Duration = Duration::from_secs(5);
/// When one that has failed is tried again.
const REMOVE_AGAIN: Duration = Duration::from_millis(200);
// After one that was in vain there is time for two more.
const _: () = assert!(KEEP_ALIVE.as_secs() * 3 < SESSION.as_secs());

/// A session that is open.
#[derive(Debug)]
pub(super) struct Open {
    session: WaitSession,
    keep_alive_at: Boottime,
    /// It lives at least until then.
    lives_until: Boottime,
    /// Entries that could not be removed yet.
    unremoved: Option<Unremoved>,
}

/// Entries that could not be removed yet.
#[derive(Clone, Copy, Debug)]
struct Unremoved {
    since: Boottime,
    again_at: Boottime,
}

impl Open {
    /// Whether it may still live although nobody has waited for a while, so that it is worth a keepalive.
    pub(super) fn may_live(&self) -> bool {
        Boottime::now().since(self.keep_alive_at) < KEEP_ALIVE
    }

    /// Nothing that was to go is left, and it is kept alive as ever.
    fn all_removed(&mut self) {
        if self.unremoved.take().is_some() {
            let due = self.lives_until.minus(SESSION - KEEP_ALIVE);
            self.keep_alive_at = self.keep_alive_at.min(due);
        }
    }

    /// How long there is nothing to do for it.
    fn rests(&self) -> Duration {
        let until = match self.unremoved {
            Some(Unremoved { again_at, .. }) => self.keep_alive_at.min(again_at),
            None => self.keep_alive_at,
        };
        until.left()
    }
}

/// Those who are being entered.
struct BeingEntered {
    batch: Batch,
    /// Whether a try was made that may have been done.
    may_be_done: bool,
    /// Whether a try was made that may still arrive.
    may_arrive: bool,
}

/// What became of a try to enter them.
enum Entered {
    /// It was done at this revision.
    At(Revision),
    /// It was certainly not done.
    Not,
    /// It was not, and all entries of the session are gone, or nothing more can be written of it.
    SessionOver,
    /// Nobody knows; the same again tells.
    Unknown,
}

impl Queues {
    /// Enters and removes until nobody waits and nothing is left to remove.
    pub(super) async fn serve(self) {
        let (tasks, store) = (&self.shared.tasks, &self.shared.store);
        let mut open = self.lock().take_session();
        let mut entry = None;
        let mut pace = Pace::new();
        while !tasks.ended() {
            if let Some(current) = &mut open {
                // Starting a timeline has removed all entries, although their lease lives on.
                let removed = current.session.under != store.timeline_seen();
                let due = current.keep_alive_at.left().is_zero();
                if removed || (due && self.keep_alive(current).await) {
                    self.give_up_session(&mut open);
                }
            }
            // Boxed, for this is large, and seldom.
            match &mut open {
                Some(current) => Box::pin(self.remove(current)).await,
                // What was being entered is entered anew, under the next session.
                None => entry = None,
            }
            if entry.is_none() {
                let work = self.lock().work(&mut open);
                match work {
                    Work::Done => return,
                    Work::Rest => {
                        self.rest(open.as_ref()).await;
                        continue;
                    }
                    Work::Enter(batch) => {
                        entry = Some(BeingEntered {
                            batch,
                            may_be_done: false,
                            may_arrive: false,
                        });
                    }
                }
            }
            if let Some(entering) = entry.take() {
                entry = Box::pin(self.enter_now(&mut open, entering, &mut pace)).await;
            }
        }
    }

    /// Waits until there may be something to do.
    async fn rest(&self, open: Option<&Open>) {
        let store = &self.shared.store;
        let until = open.map_or(KEEP_ALIVE, Open::rests);
        let under = open.map(|open| open.session.under);
        let changed = store.timeline_changed(under.unwrap_or_else(|| store.timeline_seen()));
        tokio::select! {
            _ = tokio::time::timeout(until, self.bell.notified()) => {}
            () = changed => {}
        }
    }

    /// Keeps the entries alive. Answers whether they are gone.
    async fn keep_alive(&self, open: &mut Open) -> bool {
        let (asked, lease) = (Boottime::now(), open.session.lease);
        if let Some(Unremoved { since, .. }) = open.unremoved
            && asked.since(since) >= REMOVED_WITHIN
        {
            // As long as it lives, what it has left in the way of others does too.
            open.keep_alive_at = open.lives_until;
            return open.lives_until.left().is_zero();
        }
        let patience = KEEP_ALIVE.min(open.lives_until.left());
        if patience.is_zero() {
            return true;
        }
        let store = &self.shared.store;
        let silence = KEEP_ALIVE;
        let kept = store.lease_keep_alive_within(lease, LeaseUse::Held { silence }, patience);
        match kept.await {
            Ok(Some(_)) => {
                open.keep_alive_at = asked.plus(KEEP_ALIVE);
                open.lives_until = asked.plus(SESSION);
                false
            }
            Ok(None) => {
                open.lives_until = asked;
                true
            }
            Err(error) => {
                self.trouble(&error);
                // Sooner than else: the lease runs on.
                open.keep_alive_at = Boottime::now().plus(KEEP_ALIVE / 3);
                false
            }
        }
    }

    /// Does this, and keeps the entries alive meanwhile.
    async fn alive_during<T>(&self, open: &mut Open, work: impl Future<Output = T>) -> T {
        let alive = async {
            loop {
                tokio::time::sleep(open.keep_alive_at.left()).await;
                if self.keep_alive(open).await {
                    // They may be gone. The work finds that too.
                    return std::future::pending::<Infallible>().await;
                }
            }
        };
        tokio::select! {
            done = work => done,
            never = alive => match never {},
        }
    }

    /// The session is over, or may be, and whoever waits is entered anew. What may be left of it is not to stand in their way.
    fn give_up_session(&self, open: &mut Option<Open>) {
        if let Some(open) = open.take() {
            let store = self.shared.store.clone();
            // If that fails, the lease runs out by itself.
            let ends = async move { drop(store.lease_revoke(open.session.lease).await) };
            self.shared.tasks.spawn_background(ends);
        }
        self.lock().lost();
    }

    /// Removes the entries of those who have left. That needs neither space nor the order of the session's writes, so it waits for
    /// none of these.
    async fn remove(&self, open: &mut Open) {
        if let Some(Unremoved { again_at, .. }) = open.unremoved
            && !again_at.left().is_zero()
        {
            return;
        }
        loop {
            let Some(removal) = self.lock().removal() else {
                open.all_removed();
                return;
            };
            let since = open.unremoved.map(|unremoved| unremoved.since);
            let since = since.unwrap_or_else(Boottime::now);
            let unremoved = |again_at| Some(Unremoved { since, again_at });
            open.unremoved = unremoved(since);
            let under = open.session.under;
            let removed = self.shared.store.remove_waiters(under, &removal.leave);
            match self.alive_during(open, removed).await {
                Ok(()) => open.all_removed(),
                Err(error) => {
                    self.trouble(&error);
                    let mut lines = self.lock();
                    lines.not_removed(removal);
                    if self.shared.tasks.stopping() {
                        lines.give_up();
                    }
                    open.unremoved = unremoved(Boottime::now().plus(REMOVE_AGAIN));
                    return;
                }
            }
        }
    }

    /// Tries once to enter these. Answers what is to be tried again under the same session.
    async fn enter_now(
        &self,
        open: &mut Option<Open>,
        mut entry: BeingEntered,
        pace: &mut Pace,
    ) -> Option<BeingEntered> {
        let Some(current) = self.session(open).await else {
            self.try_later(entry.batch, pace).await;
            return None;
        };
        let session = current.session;
        let tried = self.try_to_enter(&session, &mut entry);
        match self.alive_during(current, tried).await {
            Entered::At(at) => {
                current.session.written = Some(at);
                self.lock().written(entry.batch, at);
                *pace = Pace::new();
                None
            }
            Entered::Not => {
                self.try_later(entry.batch, pace).await;
                None
            }
            Entered::SessionOver => {
                self.give_up_session(open);
                None
            }
            Entered::Unknown => {
                pace.wait().await;
                Some(entry)
            }
        }
    }

    async fn try_to_enter(&self, session: &WaitSession, entry: &mut BeingEntered) -> Entered {
        let store = &self.shared.store;
        match store.enter_waiters(session, &entry.batch.enter).await {
            Ok(SessionWrite::Done(at)) => Entered::At(at),
            // Nobody else writes the session, so it was this very write, which was not said to be done.
            Ok(SessionWrite::WrittenAt(Some(at))) if entry.may_be_done => Entered::At(at),
            Ok(SessionWrite::WrittenAt(_))
            | Err(StoreError::NotApplied {
                reason: NotApplied::LeaseGone | NotApplied::TimelineMoved,
                ..
            }) => Entered::SessionOver,
            Err(error @ StoreError::Full { .. }) => {
                self.trouble(&error);
                // It may be what took the last of the space.
                entry.may_be_done = true;
                self.look_at_session(session, entry.may_arrive).await
            }
            Err(error @ (StoreError::NotApplied { .. } | StoreError::Corrupt { .. })) => {
                self.trouble(&error);
                if entry.may_be_done {
                    Entered::Unknown
                } else {
                    Entered::Not
                }
            }
            Err(error @ StoreError::Indeterminate { .. }) => {
                self.trouble(&error);
                (entry.may_be_done, entry.may_arrive) = (true, true);
                Entered::Unknown
            }
        }
    }

    /// etcd had no space for a write, and either has done it or never will: which of them, the session tells.
    async fn look_at_session(&self, session: &WaitSession, may_arrive: bool) -> Entered {
        match self.shared.store.session_written(session).await {
            // A try before this one may still come, once there is space.
            Ok(at) if at == session.written && may_arrive => Entered::Unknown,
            Ok(at) if at == session.written => Entered::Not,
            Ok(Some(at)) => Entered::At(at),
            Ok(None)
            | Err(StoreError::NotApplied {
                reason: NotApplied::TimelineMoved,
                ..
            }) => Entered::SessionOver,
            Err(error) => {
                self.trouble(&error);
                Entered::Unknown
            }
        }
    }

    async fn try_later(&self, batch: Batch, pace: &mut Pace) {
        self.lock().put_back(batch);
        if self.shared.tasks.stopping() {
            self.lock().give_up();
        } else {
            pace.wait().await;
        }
    }

    /// At the end of the sidecar, when nobody waits: the session would only run out, and its key with it.
    pub(in crate::engine) async fn end(&self) {
        let lease = self.lock().session_at_end().map(|open| open.session.lease);
        if let Some(lease) = lease {
            // If that fails it runs out by itself.
            drop(self.shared.store.lease_revoke(lease).await);
        }
    }

    /// The session that is open, or a new one.
    async fn session<'o>(&self, open: &'o mut Option<Open>) -> Option<&'o mut Open> {
        if open.is_some() {
            return open.as_mut();
        }
        let (lease, asked) = (random_id(), Boottime::now());
        let under = self.shared.store.timeline_seen();
        match self.shared.store.lease_grant(lease, SESSION_SECONDS).await {
            Ok(_) => {
                let session = WaitSession {
                    name: random_nonce(),
                    lease,
                    written: None,
                    under,
                };
                Some(open.insert(Open {
                    session,
                    keep_alive_at: asked.plus(KEEP_ALIVE),
                    lives_until: asked.plus(SESSION),
                    unremoved: None,
                }))
            }
            Err(error) => {
                self.trouble(&error);
                None
            }
        }
    }

    fn trouble(&self, error: &StoreError) {
        if let Some(unsaid) = self.shared.trouble.speak() {
            warn!(%error, unsaid, "etcd did not take the entries of those who wait, or did not remove those of who left");
        }
    }
}
