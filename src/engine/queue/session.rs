//! The task that writes entries and keeps them alive. It runs as long as somebody waits, and one write is under way at a time.

use std::time::Duration;

use tracing::warn;

use super::lines::{Batch, Work};
use super::{Boottime, Pace, Queues};
use crate::engine::facade::random_nonce;
use crate::engine::leases::random_id;
use crate::store::error::NotApplied;
use crate::store::queue::SessionWrite;
use crate::store::{StoreError, WaitSession};

/// TTL of the lease that all entries of a sidecar hang on, in seconds. When it dies they are gone within this, and a little.
pub(in crate::engine) const SESSION_SECONDS: u32 = 10;
/// It is kept alive this often.
const KEEP_ALIVE: Duration = Duration::from_secs(3);

/// A session that is open.
#[derive(Debug)]
pub(super) struct Open {
    session: WaitSession,
    keep_alive_at: Boottime,
}

impl Open {
    /// Whether it may still live although nobody has waited for a while, so that it is worth a keepalive.
    pub(super) fn may_live(&self) -> bool {
        Boottime::now().since(self.keep_alive_at) < KEEP_ALIVE
    }
}

impl Queues {
    /// Writes until nobody waits and nothing is left to remove.
    pub(super) async fn serve(self) {
        let tasks = &self.shared.tasks;
        let mut open = self.lock().take_session();
        let mut pace = Pace::new();
        while !tasks.ended() {
            if let Some(due) = open
                .as_mut()
                .filter(|open| open.keep_alive_at.left().is_zero())
            {
                let gone = self.keep_alive(due).await;
                if gone {
                    open = None;
                    self.lock().lost_at_rest();
                }
            }
            // Who starts a timeline removes all entries, but not always the lease that they hung on.
            if open.take_if(|open| !self.is_in_force(open)).is_some() {
                self.lock().lost_at_rest();
            }
            let work = self.lock().work(&mut open);
            match work {
                Work::Done => return,
                Work::Rest => {
                    let until = open
                        .as_ref()
                        .map_or(KEEP_ALIVE, |open| open.keep_alive_at.left());
                    let timeline = open.as_ref().map(|open| open.session.timeline);
                    let timeline = timeline.unwrap_or_else(|| self.shared.store.timeline());
                    // However it ends there may be something to do.
                    tokio::select! {
                        () = self.bell.notified() => {}
                        () = self.shared.store.another_timeline(timeline) => {}
                        () = tokio::time::sleep(until) => {}
                    }
                }
                Work::Write(batch) => Box::pin(self.write(&mut open, batch, &mut pace)).await,
            }
        }
    }

    fn is_in_force(&self, open: &Open) -> bool {
        open.session.timeline == self.shared.store.timeline()
    }

    /// Keeps the entries alive. Answers whether they are gone.
    async fn keep_alive(&self, open: &mut Open) -> bool {
        open.keep_alive_at = Boottime::now().plus(KEEP_ALIVE);
        match self.shared.store.lease_keep_alive(open.session.lease).await {
            Ok(kept) => kept.is_none(),
            Err(error) => {
                self.trouble(&error);
                // Sooner than else: the lease runs on.
                open.keep_alive_at = Boottime::now().plus(KEEP_ALIVE / 3);
                false
            }
        }
    }

    /// Writes, again until the outcome is known.
    async fn write(&self, open: &mut Option<Open>, batch: Batch, pace: &mut Pace) {
        let Some(current) = self.session(open).await else {
            return self.try_later(batch, pace).await;
        };
        let mut unsettled = false;
        loop {
            let written = self
                .shared
                .store
                .write_waiters(&current, &batch.enter, &batch.leave);
            match written.await {
                Ok(SessionWrite::Done(at)) => return self.written(open, batch, at, pace),
                // Nobody else writes the session, so it was this very write, whose reply was lost.
                Ok(SessionWrite::WrittenAt(Some(at))) if unsettled => {
                    return self.written(open, batch, at, pace);
                }
                Ok(SessionWrite::WrittenAt(_))
                | Err(StoreError::NotApplied {
                    reason: NotApplied::LeaseGone | NotApplied::TimelineMoved,
                    ..
                }) => {
                    *open = None;
                    self.lock().lost(batch);
                    return;
                }
                Err(
                    error @ (StoreError::NotApplied { .. }
                    | StoreError::Full { .. }
                    | StoreError::Corrupt { .. }),
                ) => {
                    self.trouble(&error);
                    if !unsettled {
                        return self.try_later(batch, pace).await;
                    }
                }
                Err(error @ StoreError::Indeterminate { .. }) => {
                    self.trouble(&error);
                    unsettled = true;
                }
            }
            if self.shared.tasks.ended() {
                return;
            }
            pace.wait().await;
        }
    }

    fn written(
        &self,
        open: &mut Option<Open>,
        batch: Batch,
        at: crate::domain::token::Revision,
        pace: &mut Pace,
    ) {
        if let Some(open) = open {
            open.session.written = Some(at);
        }
        self.lock().written(batch, at);
        *pace = Pace::new();
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
    async fn session(&self, open: &mut Option<Open>) -> Option<WaitSession> {
        if let Some(open) = open {
            return Some(open.session);
        }
        let lease = random_id();
        let timeline = self.shared.store.timeline();
        match self.shared.store.lease_grant(lease, SESSION_SECONDS).await {
            Ok(_) => {
                let session = WaitSession {
                    name: random_nonce(),
                    lease,
                    written: None,
                    timeline,
                };
                *open = Some(Open {
                    session,
                    keep_alive_at: Boottime::now().plus(KEEP_ALIVE),
                });
                Some(session)
            }
            Err(error) => {
                self.trouble(&error);
                None
            }
        }
    }

    fn trouble(&self, error: &StoreError) {
        if let Some(unsaid) = self.shared.trouble.speak() {
            warn!(%error, unsaid, "etcd did not take the entries of those who wait");
        }
    }
}
