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
// After one that was in vain there is time for two more.
const _: () = assert!(KEEP_ALIVE.as_secs() * 3 < SESSION.as_secs());

/// A session that is open.
#[derive(Debug)]
pub(super) struct Open {
    session: WaitSession,
    keep_alive_at: Boottime,
    /// It lives at least until then.
    lives_until: Boottime,
}

impl Open {
    /// Whether it may still live although nobody has waited for a while, so that it is worth a keepalive.
    pub(super) fn may_live(&self) -> bool {
        Boottime::now().since(self.keep_alive_at) < KEEP_ALIVE
    }
}

/// What became of a write.
enum Written {
    /// It was done at this revision.
    At(Revision),
    /// It was certainly not done.
    Not,
    /// It was not, and all entries of the session are gone.
    SessionOver,
    /// Nobody knows: the sidecar ends.
    Unknown,
}

impl Queues {
    /// Writes until nobody waits and nothing is left to remove.
    pub(super) async fn serve(self) {
        let (tasks, store) = (&self.shared.tasks, &self.shared.store);
        let mut open = self.lock().take_session();
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
            let work = self.lock().work(&mut open);
            match work {
                Work::Done => return,
                Work::Rest => {
                    let until = open
                        .as_ref()
                        .map_or(KEEP_ALIVE, |open| open.keep_alive_at.left());
                    let under = open.as_ref().map(|open| open.session.under);
                    let changed =
                        store.timeline_changed(under.unwrap_or_else(|| store.timeline_seen()));
                    // Whichever it is, there may be something to do.
                    tokio::select! {
                        _ = tokio::time::timeout(until, self.bell.notified()) => {}
                        () = changed => {}
                    }
                }
                Work::Write(batch) => Box::pin(self.write(&mut open, batch, &mut pace)).await,
            }
        }
    }

    /// Keeps the entries alive. Answers whether they are gone.
    async fn keep_alive(&self, open: &mut Open) -> bool {
        let (asked, lease) = (Boottime::now(), open.session.lease);
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

    /// Keeps the entries alive, again and again. It ends once they may be gone.
    async fn stay_alive(&self, open: &mut Open) {
        loop {
            tokio::time::sleep(open.keep_alive_at.left()).await;
            if self.keep_alive(open).await {
                return;
            }
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
        self.lock().lost_at_rest();
    }

    /// Writes, and keeps alive meanwhile what was written before.
    async fn write(&self, open: &mut Option<Open>, batch: Batch, pace: &mut Pace) {
        let Some(current) = self.session(open).await else {
            return self.try_later(batch, pace).await;
        };
        let session = current.session;
        let written = {
            let alive = async {
                self.stay_alive(current).await;
                // The write finds that too.
                std::future::pending::<Infallible>().await
            };
            tokio::select! {
                written = self.write_until_known(&session, &batch, pace) => written,
                never = alive => match never {},
            }
        };
        match written {
            Written::At(at) => {
                current.session.written = Some(at);
                self.lock().written(batch, at);
                *pace = Pace::new();
            }
            Written::Not => self.try_later(batch, pace).await,
            Written::SessionOver => {
                *open = None;
                self.lock().lost(batch);
            }
            Written::Unknown => {}
        }
    }

    /// Writes, again until the outcome is known.
    async fn write_until_known(
        &self,
        session: &WaitSession,
        batch: &Batch,
        pace: &mut Pace,
    ) -> Written {
        let mut unsettled = false;
        loop {
            let store = &self.shared.store;
            match store
                .write_waiters(session, &batch.enter, &batch.leave)
                .await
            {
                Ok(SessionWrite::Done(at)) => return Written::At(at),
                // Nobody else writes the session, so it was this very write, whose reply was lost.
                Ok(SessionWrite::WrittenAt(Some(at))) if unsettled => return Written::At(at),
                Ok(SessionWrite::WrittenAt(_))
                | Err(StoreError::NotApplied {
                    reason: NotApplied::LeaseGone | NotApplied::TimelineMoved,
                    ..
                }) => return Written::SessionOver,
                Err(
                    error @ (StoreError::NotApplied { .. }
                    | StoreError::Full { .. }
                    | StoreError::Corrupt { .. }),
                ) => {
                    self.trouble(&error);
                    if !unsettled {
                        return Written::Not;
                    }
                }
                Err(error @ StoreError::Indeterminate { .. }) => {
                    self.trouble(&error);
                    unsettled = true;
                }
            }
            if self.shared.tasks.ended() {
                return Written::Unknown;
            }
            pace.wait().await;
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
            warn!(%error, unsaid, "etcd did not take the entries of those who wait");
        }
    }
}
