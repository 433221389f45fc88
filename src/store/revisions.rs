//! How far etcd is known to have come, so that one that was restored from a backup is noticed.
//!
//! A linearizable reply is never older than what was known before it was asked. One that is proves nothing yet (a member may
//! be wrong about itself), but it is not used: the member counts as failed, and [`super::suspicion`] looks into it.
//! Replies about leases are not linearizable, and say nothing here; but some of them count only in the term of the leader that is
//! known from the others ([`super::term`]).

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use etcd_client::proto::{PbResponseHeader, PbResponseOp, PbTxnOpResponse};
use etcd_client::{
    GetResponse, LeaseGrantResponse, LeaseRevokeResponse, LeaseTimeToLiveResponse, TxnResponse,
};
use tokio::sync::Notify;
use tokio::time::Instant;

use super::term::{KeptAlive, Term};

/// A reply of etcd, and where it stood if the reply is linearizable.
pub(super) trait Replied {
    fn linearizable(&self) -> Option<&PbResponseHeader>;

    /// Whether it tells of a write, which is what made its revision.
    fn wrote(&self) -> bool {
        false
    }
}

impl Replied for TxnResponse {
    fn linearizable(&self) -> Option<&PbResponseHeader> {
        self.0.header.as_ref()
    }

    fn wrote(&self) -> bool {
        has_put(&self.0.responses)
    }
}

/// A put always makes a revision; a deletion of what is not there does not.
fn has_put(responses: &[PbResponseOp]) -> bool {
    responses.iter().any(|response| match &response.response {
        Some(PbTxnOpResponse::ResponsePut(_)) => true,
        Some(PbTxnOpResponse::ResponseTxn(nested)) => has_put(&nested.responses),
        Some(PbTxnOpResponse::ResponseRange(_) | PbTxnOpResponse::ResponseDeleteRange(_))
        | None => false,
    })
}

// No read of ours is serializable.
impl Replied for GetResponse {
    fn linearizable(&self) -> Option<&PbResponseHeader> {
        self.0.header.as_ref()
    }
}

impl Replied for LeaseGrantResponse {
    fn linearizable(&self) -> Option<&PbResponseHeader> {
        None
    }
}

impl Replied for LeaseRevokeResponse {
    fn linearizable(&self) -> Option<&PbResponseHeader> {
        None
    }
}

impl Replied for LeaseTimeToLiveResponse {
    fn linearizable(&self) -> Option<&PbResponseHeader> {
        None
    }
}

/// Where etcd stood, as far as was known when something was asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Position {
    /// Counts the timelines: what was known in one says nothing in the next.
    epoch: u64,
    /// The highest revision; 0: none is known.
    pub(super) revision: u64,
    /// Which cluster; 0: that is not known.
    pub(super) cluster: u64,
    /// Of which leader the last reply was.
    term: Term,
}

/// What is known.
#[derive(Debug)]
pub(super) struct Revisions {
    known: Mutex<Known>,
    suspected: AtomicBool,
    /// Rung when there is reason to look whether etcd is well.
    bell: Notify,
}

#[derive(Debug)]
struct Known {
    position: Position,
    /// The base of the timeline that the position belongs to.
    base: u64,
    /// The largest token that may have been granted in timelines or histories before.
    largest: u64,
    /// When a reply was last taken.
    heard: Instant,
}

impl Revisions {
    pub(super) fn new() -> Self {
        let position = Position {
            epoch: 0,
            revision: 0,
            cluster: 0,
            term: Term::default(),
        };
        Self {
            known: Mutex::new(Known {
                position,
                base: 0,
                largest: 0,
                heard: Instant::now(),
            }),
            suspected: AtomicBool::default(),
            bell: Notify::new(),
        }
    }

    /// What is known now, before something is asked.
    pub(super) fn position(&self) -> Position {
        self.lock().position
    }

    /// Takes a reply to what was asked then. The error: it cannot be true, unless etcd is another than it was.
    pub(super) fn heard(&self, asked: Position, reply: &impl Replied) -> Result<(), String> {
        let Some(header) = reply.linearizable() else {
            return Ok(());
        };
        let (revision, cluster) = (unsigned(header.revision), header.cluster_id);
        if let Some(wrong) = asked.contradicted_by(revision, cluster, reply.wrote()) {
            self.suspect();
            return Err(wrong);
        }
        let mut known = self.lock();
        known.heard = Instant::now();
        // A reply that was on its way when a new timeline was found may be of the one before.
        if known.position.epoch == asked.epoch {
            known.position.revision = known.position.revision.max(revision);
            known.position.cluster = cluster;
            let term = Term::in_header(header);
            known.position.term = known.position.term.once_told(asked.term, term);
        }
        Ok(())
    }

    /// Whether a keepalive counts, as far as linearizable replies tell: for certain once one of them was asked for after its answer.
    pub(super) fn count(&self, kept: &KeptAlive) -> bool {
        kept.counts_in(self.lock().position.term)
    }

    /// The timeline that the store was opened in.
    pub(super) fn in_timeline(&self, base: u64) {
        self.lock().base = base;
    }

    /// The largest token that may have been granted, as far as replies tell: also in timelines and histories that a restore
    /// has undone.
    pub(super) fn largest_token(&self) -> u64 {
        self.lock().largest_token()
    }

    /// The same of what is over alone. It stays as it is while etcd goes on.
    pub(super) fn largest_token_before(&self) -> u64 {
        self.lock().largest
    }

    /// A new timeline is in force, or this one is halted: what was known of etcd says nothing any more, but for the tokens that
    /// may have been granted. `granting`: whether any were since the last time.
    pub(super) fn begin_anew(&self, base: u64, granting: bool) {
        let mut known = self.lock();
        if granting {
            known.largest = known.largest_token();
        }
        known.base = base;
        known.position = Position {
            epoch: known.position.epoch + 1,
            revision: 0,
            cluster: 0,
            term: Term::default(),
        };
        drop(known);
        self.cleared();
    }

    /// etcd may have been restored.
    pub(super) fn suspect(&self) {
        self.suspected.store(true, Ordering::Release);
        self.bell.notify_one();
    }

    /// It was looked into.
    pub(super) fn cleared(&self) {
        self.suspected.store(false, Ordering::Release);
    }

    pub(super) fn suspected(&self) -> bool {
        self.suspected.load(Ordering::Acquire)
    }

    /// A call failed: somebody should look.
    pub(super) fn doubt(&self) {
        self.bell.notify_one();
    }

    /// Waits until there is reason to look, or no reply was taken for so long.
    pub(super) async fn reason_to_look(&self, quiet: Duration) {
        loop {
            let heard = self.lock().heard;
            let due = heard + quiet;
            if due <= Instant::now() {
                return;
            }
            tokio::select! {
                () = self.bell.notified() => return,
                () = tokio::time::sleep_until(due) => {}
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Known {
    fn largest_token(&self) -> u64 {
        let here = self.base.saturating_add(self.position.revision);
        self.largest.max(here)
    }
}

impl Position {
    /// Why an etcd that was here cannot be there. A write that was asked for later comes at a later revision.
    fn contradicted_by(&self, revision: u64, cluster: u64, wrote: bool) -> Option<String> {
        if self.cluster != 0 && cluster != self.cluster {
            return Some(format!(
                "it is of another cluster: {cluster:x} instead of {:x}",
                self.cluster
            ));
        }
        let behind = revision < self.revision || (wrote && revision == self.revision);
        behind.then(|| {
            format!(
                "it is at revision {revision}, and etcd had come to {}",
                self.revision
            )
        })
    }
}

pub(super) fn unsigned(revision: i64) -> u64 {
    u64::try_from(revision).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(revision: i64, cluster_id: u64) -> TxnResponse {
        let header = PbResponseHeader {
            revision,
            cluster_id,
            ..PbResponseHeader::default()
        };
        TxnResponse(etcd_client::proto::PbTxnResponse {
            header: Some(header),
            ..Default::default()
        })
    }

    #[tokio::test]
    async fn a_reply_is_held_against_what_was_known_when_it_was_asked_for() {
        let revisions = Revisions::new();
        let before = revisions.position();
        revisions.heard(before, &at(10, 1)).unwrap();
        // Two were asked at once: the earlier one may come later.
        revisions.heard(before, &at(9, 1)).unwrap();
        let now = revisions.position();
        assert_eq!(now.revision, 10);
        revisions.heard(now, &at(10, 1)).unwrap();
        assert!(!revisions.suspected());
        assert!(revisions.heard(now, &at(9, 1)).is_err());
        assert!(revisions.suspected());
        assert_eq!(revisions.position(), now, "what is not true is not learned");
    }

    #[tokio::test]
    async fn a_write_comes_later_than_all_that_was_known_before_it() {
        let revisions = Revisions::new();
        revisions.heard(revisions.position(), &at(10, 1)).unwrap();
        let mut write = at(10, 1);
        let put = PbTxnOpResponse::ResponsePut(etcd_client::proto::PbPutResponse::default());
        let put = PbResponseOp {
            response: Some(put),
        };
        let nested = etcd_client::proto::PbTxnResponse {
            responses: vec![put],
            ..Default::default()
        };
        write.0.responses = vec![PbResponseOp {
            response: Some(PbTxnOpResponse::ResponseTxn(nested)),
        }];
        assert!(revisions.heard(revisions.position(), &write).is_err());
        write.0.header.as_mut().unwrap().revision = 11;
        revisions.heard(revisions.position(), &write).unwrap();
    }

    #[tokio::test]
    async fn the_largest_token_never_falls_whatever_a_restore_undoes() {
        let revisions = Revisions::new();
        revisions.in_timeline(1_000);
        revisions.heard(revisions.position(), &at(10, 1)).unwrap();
        assert_eq!(revisions.largest_token(), 1_010);
        revisions.begin_anew(50_000, true);
        revisions.heard(revisions.position(), &at(5, 1)).unwrap();
        assert_eq!(revisions.largest_token(), 50_005);
        // Back to the first timeline, which is halted.
        revisions.begin_anew(1_000, true);
        revisions
            .heard(revisions.position(), &at(60_000, 1))
            .unwrap();
        assert_eq!(revisions.largest_token_before(), 50_005);
        // Nothing is granted while it is halted.
        revisions.begin_anew(1_000, false);
        assert_eq!(revisions.largest_token(), 50_005);
    }

    #[tokio::test]
    async fn another_cluster_is_noticed_also_at_a_higher_revision() {
        let revisions = Revisions::new();
        revisions.heard(revisions.position(), &at(10, 1)).unwrap();
        let told = revisions.heard(revisions.position(), &at(11, 2));
        assert!(told.unwrap_err().contains("another cluster"));
    }

    #[tokio::test]
    async fn what_was_asked_in_the_timeline_before_says_nothing_of_the_next() {
        let revisions = Revisions::new();
        revisions.heard(revisions.position(), &at(100, 1)).unwrap();
        let late = revisions.position();
        revisions.begin_anew(0, true);
        revisions.heard(revisions.position(), &at(20, 2)).unwrap();
        revisions.heard(late, &at(110, 1)).unwrap();
        assert_eq!(revisions.position().revision, 20);
        assert!(revisions.heard(revisions.position(), &at(21, 2)).is_ok());
    }
}
