//! Who answers: the header of every response.

use etcd_client::proto::PbResponseHeader;
use uuid::Uuid;

/// An engine never sees a second election.
const RAFT_TERM: u64 = 2;

/// Drawn anew for each engine. Nothing survives one, so a client that compares cluster ids can
/// tell a new engine, whose revisions begin again, from the one it knew.
#[derive(Clone, Copy, Debug)]
pub(super) struct Identity {
    cluster: u64,
    member: u64,
}

impl Identity {
    pub(super) fn draw() -> Self {
        let (cluster, member) = Uuid::new_v4().as_u64_pair();
        Self { cluster, member }
    }

    pub(super) fn header(self, revision: i64) -> Option<PbResponseHeader> {
        Some(PbResponseHeader {
            cluster_id: self.cluster,
            member_id: self.member,
            revision,
            raft_term: RAFT_TERM,
        })
    }

    /// Completes the header of an outermost response.
    pub(super) fn sign(self, header: &mut Option<PbResponseHeader>) {
        *header = self.header(header.map_or(0, |header| header.revision));
    }
}

/// The header of a response inside a transaction's: etcd gives it a revision and nothing else.
pub(super) fn inner_header(revision: i64) -> Option<PbResponseHeader> {
    Some(PbResponseHeader {
        revision,
        ..PbResponseHeader::default()
    })
}
