//! Requests written by hand, briefly.

use etcd_client::proto::*;

use crate::pair::Pair;

pub(crate) fn put(key: &str) -> PbPutRequest {
    PbPutRequest {
        key: key.into(),
        value: b"v".to_vec(),
        ..Default::default()
    }
}

pub(crate) fn put_op(key: &str) -> PbTxnOpRequest {
    PbTxnOpRequest::RequestPut(put(key))
}

pub(crate) fn delete_op(key: &str, range_end: &str) -> PbTxnOpRequest {
    PbTxnOpRequest::RequestDeleteRange(PbDeleteRequest {
        key: key.into(),
        range_end: range_end.into(),
        prev_kv: true,
    })
}

pub(crate) fn txn(success: Vec<PbTxnOpRequest>) -> PbTxnRequest {
    either(success, Vec::new())
}

pub(crate) fn either(success: Vec<PbTxnOpRequest>, failure: Vec<PbTxnOpRequest>) -> PbTxnRequest {
    let ops = |ops: Vec<PbTxnOpRequest>| {
        ops.into_iter()
            .map(|request| PbTxnRequestOp {
                request: Some(request),
            })
            .collect()
    };
    PbTxnRequest {
        success: ops(success),
        failure: ops(failure),
        ..Default::default()
    }
}

pub(crate) fn nest(request: PbTxnRequest) -> PbTxnOpRequest {
    PbTxnOpRequest::RequestTxn(request)
}

pub(crate) fn puts(prefix: &str, count: usize) -> Vec<PbTxnOpRequest> {
    (0..count)
        .map(|number| put_op(&format!("{prefix}{number}")))
        .collect()
}

pub(crate) fn compares(count: usize) -> Vec<PbCompare> {
    let compare = PbCompare {
        key: b"none".to_vec(),
        ..Default::default()
    };
    vec![compare; count]
}

impl Pair {
    pub(crate) async fn puts(&mut self, request: PbPutRequest) -> bool {
        self.both::<_, PbPutResponse>("KV/Put", request)
            .await
            .is_ok()
    }

    pub(crate) async fn txns(&mut self, request: PbTxnRequest) -> bool {
        self.both::<_, PbTxnResponse>("KV/Txn", request)
            .await
            .is_ok()
    }

    pub(crate) async fn ranges(&mut self, request: PbRangeRequest) -> bool {
        self.both::<_, PbRangeResponse>("KV/Range", request)
            .await
            .is_ok()
    }

    pub(crate) async fn grants(&mut self, id: i64, ttl: i64) -> Option<i64> {
        let request = PbLeaseGrantRequest { ttl, id };
        let answer = self
            .both::<_, PbLeaseGrantResponse>("Lease/LeaseGrant", request)
            .await;
        answer.ok().map(|answer| answer.ttl)
    }
}

/// A guard that fails.
pub(crate) fn never() -> Vec<PbCompare> {
    vec![PbCompare {
        result: 3,
        key: b"none".to_vec(),
        ..Default::default()
    }]
}
