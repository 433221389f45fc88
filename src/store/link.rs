//! The handle to etcd.

use std::sync::Arc;
use std::time::Duration;

use etcd_client::GetOptions;
use etcd_client::proto::PbKeyValue;
use tokio::sync::watch;

use super::clock::{self, StoredClock};
use super::commit::{BatchOutcome, Commit, ReadAsk, Seen};
use super::endpoint::Endpoint;
use super::error::{NotApplied, StoreError};
use super::failure::{indeterminate, not_applied};
use super::keepers::Keepers;
use super::keys::{Key, Keys, Prefix};
use super::login::Login;
use super::session::{Access, Repeat, Session};
use super::timeline::{self, Known, TimelineSeen};
use super::txn::{
    self, Batch, Prepared, READ_OPERATIONS_MAX, Reading, batch_outcome, one_value, read_outcome,
};
use crate::domain::ids::ResourceId;
use crate::domain::timeline::Halt;
use crate::domain::token::{TOKENS_PER_SECOND, Timeline};

/// How to talk to etcd.
#[derive(Clone, Debug)]
pub struct StoreOptions {
    /// What every key begins with.
    pub prefix: Prefix,
    /// How long one call may take before its outcome counts as unknown.
    pub call_timeout: Duration,
}

/// The handle to etcd. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Store {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    session: Arc<Session>,
    keys: Keys,
    timeline_key: Key,
    known: watch::Sender<Known>,
    keepers: Keepers,
    /// The store's clock as it was when the store was opened.
    clock: StoredClock,
}

impl Store {
    /// Proves the connection by a linearizable read; finds the timeline, or creates `first` as the first one.
    pub async fn open(
        endpoints: Vec<Endpoint>,
        options: StoreOptions,
        first: Timeline,
    ) -> Result<Self, StoreError> {
        Self::open_as(None, endpoints, options, first).await
    }

    /// The same, as a user of etcd.
    pub async fn open_as(
        login: Option<Login>,
        endpoints: Vec<Endpoint>,
        options: StoreOptions,
        first: Timeline,
    ) -> Result<Self, StoreError> {
        let access = Access::new(login, options.prefix.as_str().to_owned());
        let keys = Keys::new(options.prefix);
        let timeline_key = keys.timeline();
        let limit = options.call_timeout;
        let session = Session::new(endpoints, limit, timeline_key.clone(), access).await?;
        let session = Arc::new(session);
        let known = timeline::establish(&session, &timeline_key, &first).await?;
        session.revisions.in_timeline(known.timeline().base);
        let began_ms = first.base / TOKENS_PER_SECOND * 1000;
        let clock = clock::establish(&session, &keys.clock(), began_ms).await?;
        Ok(Self {
            shared: Arc::new(Shared {
                keepers: Keepers::new(&session),
                session,
                keys,
                timeline_key,
                known: watch::Sender::new(known),
                clock,
            }),
        })
    }

    /// The timeline in force, as last seen.
    pub fn timeline(&self) -> Timeline {
        self.known().timeline()
    }

    /// Why nothing is judged in it, as last seen.
    pub fn halt(&self) -> Option<Halt> {
        self.known().halt()
    }

    pub(super) fn known(&self) -> Known {
        *self.shared.known.borrow()
    }

    pub(super) fn timeline_key(&self) -> &Key {
        &self.shared.timeline_key
    }

    /// The store's clock as it was when the store was opened.
    pub fn clock_at_opening(&self) -> StoredClock {
        self.shared.clock
    }

    /// Waits until another timeline is in force than the one given.
    pub async fn another_timeline(&self, than: Timeline) {
        let mut known = self.shared.known.subscribe();
        // The sender lives as long as this handle.
        let _ = known.wait_for(|known| known.timeline() != than).await;
    }

    /// Waits until nothing is judged and nobody is about to end that by starting a timeline.
    pub async fn halted(&self) -> Halt {
        let mut known = self.shared.known.subscribe();
        loop {
            let halt = known.borrow_and_update().halt();
            if let Some(halt) = halt.filter(|halt| !matches!(halt, Halt::Starting { .. })) {
                return halt;
            }
            // The sender lives as long as this handle.
            if known.changed().await.is_err() {
                std::future::pending::<()>().await;
            }
        }
    }

    /// Waits until another timeline is in force than at this call, or one is halted that was not, or for another reason.
    pub fn another_state_than_now(&self) -> impl Future<Output = ()> + Send + use<> {
        let mut known = self.shared.known.subscribe();
        let now = *known.borrow_and_update();
        async move {
            let changed =
                |known: &Known| known.timeline() != now.timeline() || known.halt() != now.halt();
            let _ = known.wait_for(changed).await;
        }
    }

    /// The timeline as last seen, halted or not.
    pub fn timeline_seen(&self) -> TimelineSeen {
        TimelineSeen(self.known())
    }

    /// Waits until the timeline is seen otherwise than it was: another one, halted, or put in force.
    pub async fn timeline_changed(&self, since: TimelineSeen) {
        let mut known = self.shared.known.subscribe();
        let _ = known.wait_for(|known| *known != since.0).await;
    }

    /// Waits until another timeline is in force than the one given, or this one is halted.
    pub async fn another_state(&self, than: Timeline) {
        let mut known = self.shared.known.subscribe();
        let changed = |known: &Known| known.timeline() != than || known.halt().is_some();
        let _ = known.wait_for(changed).await;
    }

    /// Reads linearizably, in one request. All asks together may take at most `READ_OPERATIONS_MAX` operations.
    pub async fn read(
        &self,
        asks: &[ReadAsk],
    ) -> Result<Vec<Result<Seen, StoreError>>, StoreError> {
        let count: usize = asks.iter().map(ReadAsk::operation_count).sum();
        if count > READ_OPERATIONS_MAX {
            return Err(not_applied(
                NotApplied::TooLarge,
                format!("a read of {count} keys; the limit is {READ_OPERATIONS_MAX}"),
            ));
        }
        let shared = &*self.shared;
        let known = self.known();
        let reading = Reading::new(&shared.keys, asks);
        let build = || reading.txn(&shared.timeline_key);
        let reply = shared.session.txn(Repeat::Safe, build).await?;
        let mut responses = reply.responses.into_iter();
        self.still_in_force(known, one_value(&mut responses)?)?;
        read_outcome(&reading, &mut responses)
    }

    /// Puts a commit in etcd's words. It was judged in the timeline in force now, and can be committed in no other.
    pub fn prepare(&self, commit: &Commit) -> Prepared {
        self.prepare_together(std::slice::from_ref(commit))
    }

    /// The same for several resources, each in a commit of its own: all of it will be done or nothing.
    pub fn prepare_together(&self, commits: &[Commit]) -> Prepared {
        Prepared::new(&self.shared.keys, self.known(), commits)
    }

    /// Commits a batch in one etcd transaction of nested ones, under the guard of the timeline in force. The members must
    /// be such as a `Batch` collects.
    pub async fn commit(&self, members: &[Prepared]) -> Result<BatchOutcome, StoreError> {
        if members.is_empty() {
            return Err(not_applied(NotApplied::Refused, "an empty batch"));
        }
        debug_assert!(Batch::collects(members), "members share a key");
        let shared = &*self.shared;
        let known = self.known();
        if let Some(halt) = known.halt() {
            return Err(not_applied(NotApplied::Halted(halt), halt.to_string()));
        }
        if members.iter().any(|member| member.known() != known) {
            // Others learned of a new timeline while it waited. The guard alone would take what the old one decided.
            return Err(not_applied(
                NotApplied::TimelineMoved,
                "the timeline was replaced after the commit was prepared",
            ));
        }
        let build = || txn::batch_txn(&shared.timeline_key, known.changed, members);
        let reply = shared.session.txn(Repeat::Never, build).await?;
        if reply.succeeded {
            // A halt that could not be written broke no guard.
            return match known.with_unwritten(&self.known()).halt() {
                Some(halt) => Err(indeterminate(halt.to_string())),
                None => batch_outcome(reply, members),
            };
        }
        let found = self.found(one_value(&mut reply.responses.into_iter())?)?;
        Err(self.timeline_moved(known, found))
    }

    /// The etcd key of a resource's record, printable, for logs.
    pub fn key_of(&self, resource: &ResourceId) -> String {
        self.shared.keys.record(resource).printable()
    }

    pub(super) fn keys(&self) -> &Keys {
        &self.shared.keys
    }

    pub(super) fn session_handle(&self) -> Arc<Session> {
        Arc::clone(&self.shared.session)
    }

    pub(super) fn session(&self) -> &Session {
        &self.shared.session
    }

    pub(super) fn keepers(&self) -> &Keepers {
        &self.shared.keepers
    }

    pub(super) async fn range(
        &self,
        start: Vec<u8>,
        end: Vec<u8>,
        limit: usize,
    ) -> Result<Vec<PbKeyValue>, StoreError> {
        let limit = i64::try_from(limit).unwrap_or(i64::MAX);
        let reply = self
            .session()
            .call(Repeat::Safe, |member| {
                let mut kv = member.kv.clone();
                let options = GetOptions::new().with_range(end.clone()).with_limit(limit);
                let start = start.clone();
                async move { kv.get(start, Some(options)).await }
            })
            .await?;
        Ok(reply.0.kvs)
    }

    /// What etcd has at the timeline's key, with a halt that could not be written there.
    pub(super) fn found(&self, found: Option<PbKeyValue>) -> Result<Known, StoreError> {
        let found = Known::from_etcd(&self.shared.timeline_key, found)?;
        // What is known now, not when it was asked for: a halt forgets how far etcd had come, so a reply that was asked for
        // after it is held against nothing else.
        Ok(found.with_unwritten(&self.known()))
    }

    /// Whether what etcd has at the timeline's key is what was known of it, and things are judged in it.
    pub(super) fn still_in_force(
        &self,
        known: Known,
        found: Option<PbKeyValue>,
    ) -> Result<(), StoreError> {
        let found = self.found(found)?;
        if found != known {
            return Err(self.timeline_moved(known, found));
        }
        match known.halt() {
            Some(halt) => Err(not_applied(NotApplied::Halted(halt), halt.to_string())),
            None => Ok(()),
        }
    }

    /// Takes the new timeline over, unless somebody else did meanwhile. One that cannot have come after the old one is not
    /// taken over: it has to be looked into.
    pub(super) fn timeline_moved(&self, known: Known, found: Known) -> StoreError {
        let (before, after) = (known.timeline(), found.timeline());
        if found.may_follow(&known) {
            self.adopt(known, found);
        } else {
            self.shared.session.revisions.suspect();
        }
        not_applied(
            NotApplied::TimelineMoved,
            format!(
                "the timeline is {:?} since revision {} instead of {:?} since {}",
                after.id, found.changed, before.id, known.changed
            ),
        )
    }

    /// Goes on in what was found, unless somebody else has found something meanwhile.
    pub(super) fn adopt(&self, known: Known, found: Known) {
        self.shared.known.send_if_modified(|current| {
            let take = *current == known && found != known;
            if take {
                *current = found;
                // While it is halted, etcd may well be further back.
                if found.timeline() != known.timeline() || found.halt().is_some() {
                    let granting = known.halt().is_none();
                    let revisions = &self.shared.session.revisions;
                    revisions.begin_anew(found.timeline().base, granting);
                }
            }
            take
        });
    }
}
