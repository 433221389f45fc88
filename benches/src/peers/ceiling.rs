//! The ceiling: the very transactions that the sidecar sends, made beforehand by hand, with nobody to judge anything.
//!
//! A member is one nested transaction: a compare of the record's revision, a compare that no reservation is there, one put
//! of a record, and the gets of its failure branch.

use etcd_client::{Compare, CompareOp, KvClient, Txn, TxnOp};

use super::by_etcd::{Connections, written};
use crate::Outcome;
use crate::drive::Caller;
use crate::work::Fresh;

/// Members of one transaction, as the sidecar merges at most.
pub(crate) const MEMBERS: usize = 64;

/// Sends full batches, one after another.
pub(crate) struct Batcher {
    kv: KvClient,
    prefix: String,
    guard: String,
    guarded_at: i64,
    fresh: Fresh,
    /// Bytes of the record after each of the moves of a resource.
    sizes: Vec<usize>,
    at: usize,
    resources: Vec<String>,
    seen: i64,
}

impl Batcher {
    pub(crate) async fn several(
        connections: &Connections,
        in_flight: usize,
        fresh: &Fresh,
        sizes: &[usize],
    ) -> Outcome<Vec<Self>> {
        let guard = connections.key("meta/timeline");
        let put = connections
            .kv(0)
            .put(guard.clone(), "timeline", None)
            .await?;
        let guarded_at = put.header().ok_or("a reply without a header")?.revision();
        let batcher = |caller| Self {
            kv: connections.kv(caller),
            prefix: connections.key(""),
            guard: guard.clone(),
            guarded_at,
            fresh: fresh.clone(),
            sizes: sizes.to_vec(),
            at: 0,
            resources: Vec::new(),
            seen: 0,
        };
        Ok((0..in_flight).map(batcher).collect())
    }
}

impl Caller for Batcher {
    async fn call(&mut self) -> Outcome<()> {
        if self.at == 0 {
            self.resources = (0..MEMBERS).map(|_| self.fresh.next()).collect();
            self.seen = 0;
        }
        let bytes = self.sizes[self.at];
        let members: Vec<TxnOp> = self
            .resources
            .iter()
            .map(|resource| {
                let record = format!("{}r/order/{resource}", self.prefix);
                let reservation = format!("{}h/order/{resource}", self.prefix);
                TxnOp::txn(
                    Txn::new()
                        .when([
                            Compare::mod_revision(record.clone(), CompareOp::Equal, self.seen),
                            Compare::create_revision(reservation.clone(), CompareOp::Equal, 0),
                        ])
                        .and_then([TxnOp::put(record.clone(), vec![b'x'; bytes], None)])
                        .or_else([TxnOp::get(record, None), TxnOp::get(reservation, None)]),
                )
            })
            .collect();
        let in_force = Compare::mod_revision(self.guard.clone(), CompareOp::Equal, self.guarded_at);
        let txn = Txn::new()
            .when([in_force])
            .and_then(members)
            .or_else([TxnOp::get(self.guard.clone(), None)]);
        let reply = self.kv.txn(txn).await?;
        let revision = written(&reply)?;
        for member in reply.op_responses() {
            let etcd_client::TxnOpResponse::Txn(member) = member else {
                return Err("a member was answered by something else than a transaction".into());
            };
            if !member.succeeded() {
                return Err("a member failed that nothing was in the way of".into());
            }
        }
        self.seen = revision;
        self.at = (self.at + 1) % self.sizes.len();
        Ok(())
    }
}
