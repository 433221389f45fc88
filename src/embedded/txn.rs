//! Puts, deletions and transactions of them.

use bytes::Bytes;
use etcd_client::proto::{
    PbDeleteRequest, PbDeleteResponse, PbKeyValue, PbPutRequest, PbPutResponse, PbRangeRequest,
    PbResponseHeader, PbResponseOp, PbTxnOpRequest, PbTxnOpResponse, PbTxnRequest, PbTxnRequestOp,
    PbTxnResponse,
};

use super::compare::holds;
use super::identity::inner_header;
use super::key_range::KeyRange;
use super::range::{check_revision, read};
use super::refusal::Refusal;
use super::store::Store;
use super::write::Write;

/// A transaction with every branch chosen.
struct Plan {
    succeeded: bool,
    steps: Vec<Step>,
}

enum Step {
    Range(PbRangeRequest),
    Put(PbPutRequest),
    Delete(PbDeleteRequest),
    Txn(Plan),
}

/// A put on its own.
pub(super) fn put(store: &mut Store, request: PbPutRequest) -> Result<PbPutResponse, Refusal> {
    // On its own etcd looks for the lease first, in a transaction for the key.
    check_lease(store, &request)?;
    check_old_value(store, &request)?;
    let mut write = store.begin();
    let response = apply_put(&mut write, request);
    write.commit();
    Ok(response)
}

/// A deletion on its own.
pub(super) fn delete(store: &mut Store, request: &PbDeleteRequest) -> PbDeleteResponse {
    let mut write = store.begin();
    let response = apply_delete(&mut write, request);
    write.commit();
    response
}

/// All or nothing, in one revision.
pub(super) fn txn(store: &mut Store, request: PbTxnRequest) -> Result<PbTxnResponse, Refusal> {
    let plan = plan(store, request);
    check_puts(store, &plan)?;
    check_ranges(store, &plan)?;
    let mut write = store.begin();
    let mut response = apply(&mut write, plan);
    write.commit();
    response.header = inner_header(store.revision());
    Ok(response)
}

/// Every guard, nested ones too, is held against the store before the transaction.
fn plan(store: &Store, request: PbTxnRequest) -> Plan {
    let before = store.revision();
    let succeeded = request
        .compare
        .iter()
        .all(|compare| holds(store, before, compare));
    let ops = if succeeded {
        request.success
    } else {
        request.failure
    };
    let steps = ops.into_iter().filter_map(|op: PbTxnRequestOp| {
        Some(match op.request? {
            PbTxnOpRequest::RequestRange(request) => Step::Range(request),
            PbTxnOpRequest::RequestPut(request) => Step::Put(request),
            PbTxnOpRequest::RequestDeleteRange(request) => Step::Delete(request),
            PbTxnOpRequest::RequestTxn(request) => Step::Txn(plan(store, request)),
        })
    });
    Plan {
        succeeded,
        steps: steps.collect(),
    }
}

fn check_puts(store: &Store, plan: &Plan) -> Result<(), Refusal> {
    plan.steps.iter().try_for_each(|step| match step {
        Step::Put(request) => {
            check_old_value(store, request)?;
            check_lease(store, request)
        }
        Step::Txn(plan) => check_puts(store, plan),
        Step::Range(_) | Step::Delete(_) => Ok(()),
    })
}

fn check_ranges(store: &Store, plan: &Plan) -> Result<(), Refusal> {
    plan.steps.iter().try_for_each(|step| match step {
        Step::Range(request) => check_revision(store, store.revision(), request.revision),
        Step::Txn(plan) => check_ranges(store, plan),
        Step::Put(_) | Step::Delete(_) => Ok(()),
    })
}

fn check_lease(store: &Store, request: &PbPutRequest) -> Result<(), Refusal> {
    let known = request.lease == 0 || store.leases.contains(request.lease);
    if known {
        Ok(())
    } else {
        Err(Refusal::LeaseNotFound)
    }
}

fn check_old_value(store: &Store, request: &PbPutRequest) -> Result<(), Refusal> {
    let needed = request.ignore_value || request.ignore_lease;
    if needed && store.get(&request.key, store.revision()).is_none() {
        return Err(Refusal::KeyNotFound);
    }
    Ok(())
}

/// Nothing here can fail, for there is no way back after the first change.
fn apply(write: &mut Write<'_>, plan: Plan) -> PbTxnResponse {
    let mut responses = Vec::with_capacity(plan.steps.len());
    for step in plan.steps {
        let response = match step {
            Step::Range(request) => {
                PbTxnOpResponse::ResponseRange(read(write.store(), write.seen(), &request))
            }
            Step::Put(request) => PbTxnOpResponse::ResponsePut(apply_put(write, request)),
            Step::Delete(request) => {
                PbTxnOpResponse::ResponseDeleteRange(apply_delete(write, &request))
            }
            Step::Txn(plan) => PbTxnOpResponse::ResponseTxn(apply(write, plan)),
        };
        responses.push(PbResponseOp {
            response: Some(response),
        });
    }
    // Only the outermost response learns its revision; etcd leaves the nested headers blank.
    let header = Some(PbResponseHeader::default());
    PbTxnResponse {
        header,
        succeeded: plan.succeeded,
        responses,
    }
}

fn apply_put(write: &mut Write<'_>, request: PbPutRequest) -> PbPutResponse {
    let store = write.store();
    let old = if request.prev_kv {
        store.get(&request.key, write.seen())
    } else {
        None
    };
    let prev_kv = old.map(|(written, live)| live.to_key_value(&request.key, written));
    let (mut value, mut lease) = (Bytes::from(request.value), request.lease);
    if request.ignore_value || request.ignore_lease {
        // A deletion to the last key earlier in the same transaction escapes the overlap check and
        // may have taken the key; etcd stops the server there. The value seen by the check stands.
        let old = store
            .get(&request.key, write.seen())
            .or_else(|| store.get(&request.key, write.before()))
            .map(|(_, live)| live);
        if let Some(old) = old {
            if request.ignore_value {
                value = old.value.clone();
            }
            if request.ignore_lease {
                lease = old.lease;
            }
        }
    }
    let revision = write.put(Bytes::from(request.key), value, lease);
    PbPutResponse {
        header: inner_header(revision),
        prev_kv,
    }
}

fn apply_delete(write: &mut Write<'_>, request: &PbDeleteRequest) -> PbDeleteResponse {
    let keys = KeyRange::new(&request.key, &request.range_end);
    let prev_kvs: Vec<PbKeyValue> = if request.prev_kv {
        let doomed = write.store().select(keys, write.seen());
        doomed
            .map(|(key, written, live)| live.to_key_value(key, written))
            .collect()
    } else {
        Vec::new()
    };
    let deleted = write.delete_range(keys);
    PbDeleteResponse {
        header: inner_header(write.seen()),
        deleted,
        prev_kvs,
    }
}
