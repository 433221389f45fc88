//! etcd's way to name one key, a span of keys, or everything from a key on.

use std::collections::BTreeMap;
use std::ops::Bound;

use bytes::Bytes;

/// The `range_end` that means "no end".
const NO_END: &[u8] = b"\0";

/// The keys named by a `key` and a `range_end`.
#[derive(Clone, Copy, Debug)]
pub(super) enum KeyRange<'a> {
    One(&'a [u8]),
    Span { start: &'a [u8], end: &'a [u8] },
    From(&'a [u8]),
}

impl<'a> KeyRange<'a> {
    pub(super) fn new(key: &'a [u8], range_end: &'a [u8]) -> Self {
        match range_end {
            [] => Self::One(key),
            NO_END => Self::From(key),
            end => Self::Span { start: key, end },
        }
    }

    pub(super) fn contains(self, key: &[u8]) -> bool {
        match self {
            Self::One(only) => key == only,
            Self::Span { start, end } => start <= key && key < end,
            Self::From(start) => start <= key,
        }
    }

    /// A span that can hold no key at all.
    pub(super) fn is_empty(self) -> bool {
        matches!(self, Self::Span { start, end } if start >= end)
    }

    pub(super) fn select<T>(
        self,
        map: &'a BTreeMap<Bytes, T>,
    ) -> impl Iterator<Item = (&'a Bytes, &'a T)> {
        let bounds = match self {
            Self::One(only) => (Bound::Included(only), Bound::Included(only)),
            // A map refuses bounds in the wrong order; etcd finds nothing there.
            Self::Span { start, .. } if self.is_empty() => {
                (Bound::Included(start), Bound::Excluded(start))
            }
            Self::Span { start, end } => (Bound::Included(start), Bound::Excluded(end)),
            Self::From(start) => (Bound::Included(start), Bound::Unbounded),
        };
        map.range::<[u8], _>(bounds)
    }
}
