//! What is refused before the store is asked: sizes, missing keys, and transactions that are too
//! wide or touch a key twice.

use std::collections::HashSet;

use etcd_client::proto::{
    PbDeleteRequest, PbPutRequest, PbRangeRequest, PbTxnOpRequest, PbTxnRequest, PbTxnRequestOp,
};
use prost::Message;

use super::intervals::Intervals;
use super::range::check_sort;
use super::refusal::Refusal;

/// etcd's `--max-txn-ops`: the widest level of a transaction, less what the levels above took.
const TXN_OPERATIONS_MAX: usize = 128;
/// etcd's `--max-request-bytes`, measured on the entry that would go to its log.
const REQUEST_BYTES_MAX: usize = 1536 * 1024;
/// What that entry adds to a request of about this size: an id, two tags and a length.
const ENTRY_OVERHEAD_BYTES: usize = 18;
/// Above this etcd's gRPC server does not even look at a message.
pub(super) const MESSAGE_BYTES_MAX: usize = REQUEST_BYTES_MAX + 512 * 1024;

/// For every call.
pub(super) fn message(request: &impl Message) -> Result<(), Refusal> {
    let bytes = request.encoded_len();
    if bytes > MESSAGE_BYTES_MAX {
        return Err(Refusal::MessageTooLarge {
            bytes,
            limit: MESSAGE_BYTES_MAX,
        });
    }
    Ok(())
}

/// For calls that etcd would write to its log.
pub(super) fn proposal(request: &impl Message) -> Result<(), Refusal> {
    if request.encoded_len() + ENTRY_OVERHEAD_BYTES > REQUEST_BYTES_MAX {
        return Err(Refusal::RequestTooLarge);
    }
    Ok(())
}

pub(super) fn range(request: &PbRangeRequest) -> Result<(), Refusal> {
    key_given(&request.key)?;
    check_sort(request)
}

pub(super) fn put(request: &PbPutRequest) -> Result<(), Refusal> {
    key_given(&request.key)?;
    if request.ignore_value && !request.value.is_empty() {
        return Err(Refusal::ValueProvided);
    }
    if request.ignore_lease && request.lease != 0 {
        return Err(Refusal::LeaseProvided);
    }
    Ok(())
}

pub(super) fn delete(request: &PbDeleteRequest) -> Result<(), Refusal> {
    key_given(&request.key)
}

pub(super) fn txn(request: &PbTxnRequest) -> Result<(), Refusal> {
    level(request, TXN_OPERATIONS_MAX)?;
    overlaps(&request.success)?;
    overlaps(&request.failure)?;
    Ok(())
}

/// etcd answers a transaction of reads alone without its log. A nested one never counts as such.
pub(super) fn reads_only(request: &PbTxnRequest) -> bool {
    let read = |op: &PbTxnRequestOp| matches!(op.request, Some(PbTxnOpRequest::RequestRange(_)));
    request.success.iter().chain(&request.failure).all(read)
}

fn key_given(key: &[u8]) -> Result<(), Refusal> {
    if key.is_empty() {
        Err(Refusal::EmptyKey)
    } else {
        Ok(())
    }
}

fn level(request: &PbTxnRequest, room: usize) -> Result<(), Refusal> {
    let width = request
        .compare
        .len()
        .max(request.success.len())
        .max(request.failure.len());
    let below = room.checked_sub(width).ok_or(Refusal::TooManyOperations)?;
    for compare in &request.compare {
        key_given(&compare.key)?;
    }
    for op in request.success.iter().chain(&request.failure) {
        match &op.request {
            Some(PbTxnOpRequest::RequestRange(request)) => range(request)?,
            Some(PbTxnOpRequest::RequestPut(request)) => put(request)?,
            Some(PbTxnOpRequest::RequestDeleteRange(request)) => delete(request)?,
            Some(PbTxnOpRequest::RequestTxn(request)) => level(request, below)?,
            // etcd's own choice of words for an operation that is not there.
            None => return Err(Refusal::KeyNotFound),
        }
    }
    Ok(())
}

/// No key may be put twice, nor put and deleted, on one path through the transaction. As in etcd
/// the check is one-sided between children: a put is held against the deletions of earlier
/// children, a deletion not against their puts.
fn overlaps(ops: &[PbTxnRequestOp]) -> Result<(HashSet<&[u8]>, Intervals), Refusal> {
    let mut puts = HashSet::new();
    let mut deletions = Intervals::default();
    for op in ops {
        if let Some(PbTxnOpRequest::RequestDeleteRange(request)) = &op.request {
            deletions.insert_deletion(&request.key, &request.range_end);
        }
    }
    for op in ops {
        if let Some(PbTxnOpRequest::RequestTxn(request)) = &op.request {
            let (then_puts, then_deletions) = overlaps(&request.success)?;
            let (else_puts, else_deletions) = overlaps(&request.failure)?;
            for &key in &then_puts {
                take(&mut puts, &deletions, key)?;
            }
            for &key in &else_puts {
                // Only one of the two branches runs, so they may share keys.
                if then_puts.contains(key) {
                    continue;
                }
                take(&mut puts, &deletions, key)?;
            }
            deletions.absorb(then_deletions);
            deletions.absorb(else_deletions);
        }
    }
    for op in ops {
        if let Some(PbTxnOpRequest::RequestPut(request)) = &op.request {
            take(&mut puts, &deletions, &request.key)?;
        }
    }
    Ok((puts, deletions))
}

fn take<'a>(
    puts: &mut HashSet<&'a [u8]>,
    deletions: &Intervals,
    key: &'a [u8],
) -> Result<(), Refusal> {
    if deletions.contains(key) || !puts.insert(key) {
        return Err(Refusal::DuplicateKey);
    }
    Ok(())
}
