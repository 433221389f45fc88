//! The keys that one level of a transaction deletes, as etcd's overlap check sees them.

use std::collections::BTreeMap;
use std::ops::Bound::{Included, Unbounded};

/// Spans from a first key up to, not including, an end; no two of them touch.
#[derive(Debug, Default)]
pub(super) struct Intervals {
    ends: BTreeMap<Vec<u8>, Vec<u8>>,
}

impl Intervals {
    /// Takes a deletion's `key` and `range_end` at their word: where `range_end` is the single
    /// zero byte, etcd's check reads a span that ends before it starts, and so matches nothing,
    /// although the deletion itself goes on to the last key.
    pub(super) fn insert_deletion(&mut self, key: &[u8], range_end: &[u8]) {
        let end = if range_end.is_empty() {
            after(key)
        } else {
            range_end.to_vec()
        };
        if key < end.as_slice() {
            self.insert(key.to_vec(), end);
        }
    }

    pub(super) fn absorb(&mut self, other: Self) {
        for (start, end) in other.ends {
            self.insert(start, end);
        }
    }

    pub(super) fn contains(&self, key: &[u8]) -> bool {
        self.last_from(key)
            .is_some_and(|(_, end)| key < end.as_slice())
    }

    fn insert(&mut self, mut start: Vec<u8>, mut end: Vec<u8>) {
        if let Some((earlier, earlier_end)) = self.last_from(&start)
            && *earlier_end >= start
        {
            start = earlier.clone();
        }
        while let Some((other, other_end)) = self.first_within(&start, &end) {
            end = end.max(other_end);
            self.ends.remove(&other);
        }
        self.ends.insert(start, end);
    }

    fn last_from(&self, key: &[u8]) -> Option<(&Vec<u8>, &Vec<u8>)> {
        self.ends
            .range::<[u8], _>((Unbounded, Included(key)))
            .next_back()
    }

    fn first_within(&self, start: &[u8], end: &[u8]) -> Option<(Vec<u8>, Vec<u8>)> {
        let within = (Included(start), Included(end));
        let (other, other_end) = self.ends.range::<[u8], _>(within).next()?;
        Some((other.clone(), other_end.clone()))
    }
}

/// The first key after `key`.
fn after(key: &[u8]) -> Vec<u8> {
    let mut next = key.to_vec();
    next.push(0);
    next
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_that_touch_become_one_and_hold_what_both_held() {
        let mut intervals = Intervals::default();
        intervals.insert_deletion(b"e", b"g");
        intervals.insert_deletion(b"a", b"c");
        intervals.insert_deletion(b"c", b"f");
        intervals.insert_deletion(b"x", b"");
        assert_eq!(intervals.ends.len(), 2);
        for held in [&b"a"[..], b"b", b"c", b"e", b"f", b"fz", b"x"] {
            assert!(intervals.contains(held), "{held:?}");
        }
        for free in [&b""[..], b"A", b"g", b"w", b"x\0", b"y"] {
            assert!(!intervals.contains(free), "{free:?}");
        }
    }

    #[test]
    fn a_deletion_to_the_last_key_is_invisible_to_the_check_as_it_is_in_etcd() {
        let mut intervals = Intervals::default();
        intervals.insert_deletion(b"a", b"\0");
        intervals.insert_deletion(b"b", b"a");
        assert!(!intervals.contains(b"a") && !intervals.contains(b"b"));
    }
}
