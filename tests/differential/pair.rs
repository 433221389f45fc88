//! An engine and a real etcd, sent the same requests in the same order from their first revision
//! on, so that even their revisions agree.

use std::any::{Any, type_name};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Debug;

use etcd_client::proto::*;
use fencepost::embedded::Engine;
use prost::Message;
use tonic::Status;

use crate::etcd::{Etcd, Line};
use crate::ops::Op;
use crate::wire::Wire;

/// How far two clocks may be apart in an answer about time left.
const SECONDS_LEFT_SLACK: i64 = 120;

/// The first whose transactions are judged operation by operation. Before it all puts come first, and then all reads.
const JUDGES_IN_ORDER: Line = (3, 6);

/// The first that leaves out the lease, too, where it is asked for keys alone.
const LEAVES_OUT_LEASES: Line = (3, 7);

/// What each operation of a transaction may be refused for when it is applied.
const OF_AN_OPERATION: [&str; 4] = [
    "InvalidArgument: etcdserver: key not found",
    "NotFound: etcdserver: requested lease not found",
    "OutOfRange: etcdserver: mvcc: required revision has been compacted",
    "OutOfRange: etcdserver: mvcc: required revision is a future revision",
];

pub(crate) struct Pair {
    _etcd: Etcd,
    /// The engine is as 3.4 is where versions differ in what no sidecar asks for.
    pub(crate) line: Line,
    pub(crate) real: Wire,
    pub(crate) ours: Wire,
    /// The newest revision either has named.
    pub(crate) revision: i64,
    pub(crate) compacted: i64,
    /// Code and words of every refusal met so far.
    pub(crate) refusals: BTreeSet<String>,
    /// How often each kind of answer was given, refusals left out.
    pub(crate) answers: BTreeMap<&'static str, u32>,
}

/// An answer without what may differ: ids are kept as "there" or "not there".
pub(crate) trait Plain: Message + Default + Clone + PartialEq + Debug + 'static {
    fn plain(&mut self);
    fn revision(&self) -> i64;
}

fn plain_header(header: &mut Option<PbResponseHeader>) {
    if let Some(header) = header {
        header.cluster_id = header.cluster_id.min(1);
        header.member_id = header.member_id.min(1);
        header.raft_term = header.raft_term.min(1);
    }
}

macro_rules! plain {
    ($($answer:ty: $more:expr;)*) => {$(
        impl Plain for $answer {
            fn plain(&mut self) {
                plain_header(&mut self.header);
                let more: fn(&mut Self) = $more;
                more(self);
            }
            fn revision(&self) -> i64 {
                self.header.as_ref().map_or(0, |header| header.revision)
            }
        }
    )*};
}

/// Of a key without a value it is not known whether that was left out.
fn without_leases(answer: &mut PbRangeResponse) {
    for kv in answer.kvs.iter_mut().filter(|kv| kv.value.is_empty()) {
        kv.lease = 0;
    }
}

fn without_leases_in(answer: &mut PbTxnResponse) {
    for one in &mut answer.responses {
        match &mut one.response {
            Some(PbTxnOpResponse::ResponseRange(range)) => without_leases(range),
            Some(PbTxnOpResponse::ResponseTxn(txn)) => without_leases_in(txn),
            _ => {}
        }
    }
}

plain! {
    PbRangeResponse: |_| {};
    PbPutResponse: |_| {};
    PbDeleteResponse: |_| {};
    PbTxnResponse: |_| {}; // Inner headers must agree to the letter.
    PbCompactionResponse: |_| {};
    PbLeaseGrantResponse: |_| {};
    PbLeaseRevokeResponse: |_| {};
    PbLeaseKeepAliveResponse: |_| {};
    PbLeaseTimeToLiveResponse: |answer| {
        answer.keys.sort();
        if (answer.granted_ttl - SECONDS_LEFT_SLACK..=answer.granted_ttl).contains(&answer.ttl)
            && answer.granted_ttl > 0
        {
            answer.ttl = answer.granted_ttl;
        }
    };
    PbLeaseLeasesResponse: |answer| answer.leases.sort_by_key(|lease| lease.id);
    PbWatchResponse: |_| {};
}

/// What 3.7 does not tell is not compared.
fn without_leases_of_bare_keys(answer: &mut dyn Any) {
    if let Some(range) = answer.downcast_mut::<PbRangeResponse>() {
        without_leases(range);
    } else if let Some(txn) = answer.downcast_mut::<PbTxnResponse>() {
        without_leases_in(txn);
    }
}

impl Pair {
    pub(crate) async fn start() -> Self {
        let (etcd, real) = Etcd::start().await;
        let ours = Wire::new(Engine::new().channel());
        Self {
            _etcd: etcd,
            line: Etcd::line(),
            real,
            ours,
            revision: 1,
            compacted: -1,
            refusals: BTreeSet::new(),
            answers: BTreeMap::new(),
        }
    }

    /// Sends a request to both and holds the answers against each other.
    pub(crate) async fn both<Q, A>(&mut self, method: &str, request: Q) -> Result<A, Status>
    where
        Q: Message + Clone + Debug + 'static,
        A: Plain,
    {
        let real = self.real.unary::<Q, A>(method, request.clone()).await;
        let ours = self.ours.unary::<Q, A>(method, request.clone()).await;
        self.same(&(method, &request), real, ours)
    }

    pub(crate) fn same<A: Plain>(
        &mut self,
        asked: &dyn Debug,
        mut real: Result<A, Status>,
        mut ours: Result<A, Status>,
    ) -> Result<A, Status> {
        match (&mut real, &mut ours) {
            (Ok(real), Ok(ours)) => {
                real.plain();
                ours.plain();
                if self.line >= LEAVES_OUT_LEASES {
                    for answer in [&mut *real, &mut *ours] {
                        without_leases_of_bare_keys(answer);
                    }
                }
                assert_eq!(
                    real, ours,
                    "etcd (left) and the engine differ on {asked:#?}"
                );
                self.revision = self.revision.max(real.revision());
                let kind = type_name::<A>().rsplit("::").next().unwrap_or_default();
                *self.answers.entry(kind).or_default() += 1;
            }
            (Err(real), Err(ours)) => {
                let told = |status: &Status| format!("{:?}: {}", status.code(), status.message());
                // Of several operations that are refused another one may be named.
                let both = [told(real), told(ours)];
                let of_others = self.line >= JUDGES_IN_ORDER
                    && type_name::<A>() == type_name::<PbTxnResponse>()
                    && both.iter().all(|told| OF_AN_OPERATION.contains(&&**told));
                assert!(
                    both[0] == both[1] || of_others,
                    "etcd (left) errs otherwise: {both:?} on {asked:#?}"
                );
                self.refusals.insert(told(real));
            }
            (real, ours) => panic!("on {asked:#?}\netcd: {real:#?}\nthe engine: {ours:#?}"),
        }
        real
    }

    pub(crate) async fn run(&mut self, op: Op) {
        match op {
            Op::Range(request) => {
                self.both::<_, PbRangeResponse>("KV/Range", request)
                    .await
                    .ok();
            }
            Op::Put(request) => {
                self.both::<_, PbPutResponse>("KV/Put", request).await.ok();
            }
            Op::Delete(request) => {
                self.both::<_, PbDeleteResponse>("KV/DeleteRange", request)
                    .await
                    .ok();
            }
            Op::Txn(request) => {
                self.both::<_, PbTxnResponse>("KV/Txn", request).await.ok();
            }
            Op::Compact(request) => {
                let revision = request.revision;
                let answer = self
                    .both::<_, PbCompactionResponse>("KV/Compact", request)
                    .await;
                if answer.is_ok() {
                    self.compacted = revision;
                }
            }
            Op::Grant(request) => {
                self.both::<_, PbLeaseGrantResponse>("Lease/LeaseGrant", request)
                    .await
                    .ok();
            }
            Op::Revoke(request) => {
                self.both::<_, PbLeaseRevokeResponse>("Lease/LeaseRevoke", request)
                    .await
                    .ok();
            }
            Op::TimeToLive(request) => {
                let method = "Lease/LeaseTimeToLive";
                self.both::<_, PbLeaseTimeToLiveResponse>(method, request)
                    .await
                    .ok();
            }
            Op::Leases => {
                let request = PbLeaseLeasesRequest::default();
                self.both::<_, PbLeaseLeasesResponse>("Lease/LeaseLeases", request)
                    .await
                    .ok();
            }
            Op::KeepAlive(request) => {
                self.keep_alive(request).await;
            }
            Op::Watch(_) => panic!("watches outlive one step; see Watches"),
        }
    }

    pub(crate) async fn keep_alive(&mut self, request: PbLeaseKeepAliveRequest) {
        let method = "Lease/LeaseKeepAlive";
        let real = self
            .real
            .once::<_, PbLeaseKeepAliveResponse>(method, request)
            .await;
        let ours = self
            .ours
            .once::<_, PbLeaseKeepAliveResponse>(method, request)
            .await;
        self.same(&(method, request), real, ours).ok();
    }
}
