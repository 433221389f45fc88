//! The guards of a transaction.

use std::cmp::Ordering;

use etcd_client::proto::{PbCompare, PbTargetUnion};

use super::history::Live;
use super::key_range::KeyRange;
use super::store::Store;

const EQUAL: i32 = 0;
const GREATER: i32 = 1;
const LESS: i32 = 2;
const NOT_EQUAL: i32 = 3;

const VERSION: i32 = 0;
const CREATE: i32 = 1;
const MOD: i32 = 2;
const VALUE: i32 = 3;
const LEASE: i32 = 4;

/// True if every key of the range passes at `revision`. Where there is no key, one that was never
/// written stands in, with zeros everywhere; but a value never equals, nor differs from, nothing.
pub(super) fn holds(store: &Store, revision: i64, compare: &PbCompare) -> bool {
    let keys = KeyRange::new(&compare.key, &compare.range_end);
    let mut found = store.select(keys, revision).peekable();
    if found.peek().is_none() {
        return compare.target != VALUE && passes(compare, None);
    }
    found.all(|(_, written, live)| passes(compare, Some((written, live))))
}

fn passes(compare: &PbCompare, found: Option<(i64, &Live)>) -> bool {
    let number =
        |pick: fn(i64, &Live) -> i64| found.map_or(0, |(written, live)| pick(written, live));
    // A wanted value of another kind than the target counts as zero, or as no bytes.
    let wanted = compare.target_union.as_ref();
    let order = match compare.target {
        VERSION => {
            let wanted = match wanted {
                Some(PbTargetUnion::Version(wanted)) => *wanted,
                Some(_) | None => 0,
            };
            number(|_, live| live.version).cmp(&wanted)
        }
        CREATE => {
            let wanted = match wanted {
                Some(PbTargetUnion::CreateRevision(wanted)) => *wanted,
                Some(_) | None => 0,
            };
            number(|_, live| live.created).cmp(&wanted)
        }
        MOD => {
            let wanted = match wanted {
                Some(PbTargetUnion::ModRevision(wanted)) => *wanted,
                Some(_) | None => 0,
            };
            number(|written, _| written).cmp(&wanted)
        }
        VALUE => {
            let wanted: &[u8] = match wanted {
                Some(PbTargetUnion::Value(wanted)) => wanted,
                Some(_) | None => &[],
            };
            let value: &[u8] = found.map_or(&[], |(_, live)| &live.value);
            value.cmp(wanted)
        }
        LEASE => {
            let wanted = match wanted {
                Some(PbTargetUnion::Lease(wanted)) => *wanted,
                Some(_) | None => 0,
            };
            number(|_, live| live.lease).cmp(&wanted)
        }
        // A target etcd does not know compares as equal.
        _ => Ordering::Equal,
    };
    match compare.result {
        EQUAL => order.is_eq(),
        GREATER => order.is_gt(),
        LESS => order.is_lt(),
        NOT_EQUAL => order.is_ne(),
        // And a comparison it does not know holds.
        _ => true,
    }
}
