//! Reads, with every option of etcd's Range.

use std::cmp::Ordering;

use bytes::Bytes;
use etcd_client::proto::{PbRangeRequest, PbRangeResponse};

use super::history::Live;
use super::identity::inner_header;
use super::key_range::KeyRange;
use super::refusal::Refusal;
use super::store::Store;

type Row<'a> = (&'a Bytes, i64, &'a Live);

const ORDER_NONE: i32 = 0;
const ORDER_ASCEND: i32 = 1;
const ORDER_DESCEND: i32 = 2;
const TARGET_KEY: i32 = 0;
const TARGET_VERSION: i32 = 1;
const TARGET_CREATE: i32 = 2;
const TARGET_MOD: i32 = 3;
const TARGET_VALUE: i32 = 4;

/// A requested revision must lie between the last compaction and `newest`; 0 asks for the newest.
pub(super) fn check_revision(store: &Store, newest: i64, revision: i64) -> Result<(), Refusal> {
    if revision == 0 {
        Ok(())
    } else if revision > newest {
        Err(Refusal::FutureRevision)
    } else if revision < store.compacted() {
        Err(Refusal::Compacted)
    } else {
        Ok(())
    }
}

/// A read on its own.
pub(super) fn range(store: &Store, request: &PbRangeRequest) -> Result<PbRangeResponse, Refusal> {
    // On its own a negative revision asks for the newest, in a transaction it is one long gone.
    check_revision(store, store.revision(), request.revision.max(0))?;
    Ok(read(store, store.revision(), request))
}

/// Reads as a reader sees the store whose newest revision is `newest`. The revision asked for has
/// been checked.
pub(super) fn read(store: &Store, newest: i64, request: &PbRangeRequest) -> PbRangeResponse {
    let revision = if request.revision > 0 {
        request.revision
    } else {
        newest
    };
    let keys = KeyRange::new(&request.key, &request.range_end);
    let mut response = PbRangeResponse {
        header: inner_header(newest),
        ..PbRangeResponse::default()
    };
    let found = store.select(keys, revision);
    if request.count_only {
        response.count = length(found.count());
        return response;
    }
    let mut rows: Vec<Row<'_>> = found.collect();
    response.count = length(rows.len());
    let limit = usize::try_from(request.limit)
        .ok()
        .filter(|limit| *limit > 0);
    let filtered = request.min_mod_revision != 0
        || request.max_mod_revision != 0
        || request.min_create_revision != 0
        || request.max_create_revision != 0;
    if let Some(limit) = limit.filter(|_| !filtered && request.sort_order == ORDER_NONE) {
        // etcd stops reading one key past the limit, before it sorts by a target without an order.
        rows.truncate(limit.saturating_add(1));
    }
    rows.retain(|row| wanted(request, row));
    sort(&mut rows, request.sort_order, request.sort_target);
    if let Some(limit) = limit.filter(|limit| *limit < rows.len()) {
        rows.truncate(limit);
        response.more = true;
    }
    let kvs = rows.iter().map(|(key, written, live)| {
        if request.keys_only {
            live.to_key_only(key, *written)
        } else {
            live.to_key_value(key, *written)
        }
    });
    response.kvs = kvs.collect();
    response
}

fn wanted(request: &PbRangeRequest, (_, written, live): &Row<'_>) -> bool {
    let within = |value: i64, min: i64, max: i64| value >= min && (max == 0 || value <= max);
    // A least of 0 means "no bound", and so does every negative one: revisions start at 1.
    within(*written, request.min_mod_revision, request.max_mod_revision)
        && within(
            live.created,
            request.min_create_revision,
            request.max_create_revision,
        )
}

fn sort(rows: &mut [Row<'_>], order: i32, target: i32) {
    let compare: fn(&Row<'_>, &Row<'_>) -> Ordering = match target {
        TARGET_VERSION => |a, b| a.2.version.cmp(&b.2.version),
        TARGET_CREATE => |a, b| a.2.created.cmp(&b.2.created),
        TARGET_MOD => |a, b| a.1.cmp(&b.1),
        TARGET_VALUE => |a, b| a.2.value.cmp(&b.2.value),
        _ if order == ORDER_NONE => return,
        _ => |a, b| a.0.cmp(b.0),
    };
    // Ties stay in key order. etcd's sort promises nothing there and keeps it up to 12 keys.
    match order {
        ORDER_NONE | ORDER_ASCEND => rows.sort_by(compare),
        ORDER_DESCEND => rows.sort_by(|a, b| compare(b, a)),
        // An order etcd does not know is none.
        _ => {}
    }
}

/// etcd 3.4 stops at a target it does not know; later versions refuse it like this.
pub(super) fn check_sort(request: &PbRangeRequest) -> Result<(), Refusal> {
    let known = (TARGET_KEY..=TARGET_VALUE).contains(&request.sort_target);
    if known {
        Ok(())
    } else {
        Err(Refusal::InvalidSortOption)
    }
}

fn length(count: usize) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}
