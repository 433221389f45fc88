//! How far etcd is known to have come, so that one that was restored from a backup is noticed.
//!
//! A linearizable reply is never older than what was known before it was asked. One that is proves nothing yet (a member may
//! be wrong about itself), but it is not used: the member counts as failed, and [`super::suspicion`] looks into it.
//! Replies about leases are not linearizable, and say nothing here.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use etcd_client::proto::{PbResponseHeader, PbResponseOp, PbTxnOpResponse};
use etcd_client::{
    GetResponse, LeaseGrantResponse, LeaseRevokeResponse, LeaseTimeToLiveResponse, TxnResponse,
};
use tokio::sync::Notify;
use tokio::time::Instant;

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
    /// When a reply was last taken.
    heard: Instant,
}

impl Revisions {
    pub(super) fn new() -> Self {
        let position = Position {
            epoch: 0,
            revision: 0,
            cluster: 0,
        };
        Self {
            known: Mutex::new(Known {
                position,
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
        }
        Ok(())
    }

    /// A new timeline is in force: what was known of the one before says nothing any more.
    pub(super) fn begin_anew(&self) {
        let mut known = self.lock();
        known.position = Position {
            epoch: known.position.epoch + 1,
            revision: 0,
            cluster: 0,
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
        revisions.begin_anew();
        revisions.heard(revisions.position(), &at(20, 2)).unwrap();
        revisions.heard(late, &at(110, 1)).unwrap();
        assert_eq!(revisions.position().revision, 20);
        assert!(revisions.heard(revisions.position(), &at(21, 2)).is_ok());
    }
}
