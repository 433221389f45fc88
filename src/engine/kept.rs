//! How much memory the lanes spend on results that they need not remember.
//!
//! A result may have many kilobytes, and a lane remembers dozens; the number of lanes alone would bound them only by
//! gigabytes. What is forgotten is read again from etcd.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Most bytes of operations from keys of their own that all lanes together remember between calls, about.
const KEPT_BYTES_MAX: usize = 32 * 1024 * 1024;

/// What all lanes remember. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub(super) struct Kept(Arc<AtomicUsize>);

impl Kept {
    /// The part of a new lane.
    pub(super) fn of_a_lane(&self) -> KeptHere {
        KeptHere {
            all: self.clone(),
            bytes: AtomicUsize::new(0),
        }
    }

    /// Whether lanes should be forgotten.
    pub(super) fn too_much(&self) -> bool {
        self.0.load(Ordering::Relaxed) > KEPT_BYTES_MAX
    }
}

/// What one lane remembers. It no longer counts once the lane is dropped.
#[derive(Debug)]
pub(super) struct KeptHere {
    all: Kept,
    bytes: AtomicUsize,
}

impl KeptHere {
    /// Counts it anew.
    pub(super) fn is_now(&self, bytes: usize) {
        let before = self.bytes.swap(bytes, Ordering::Relaxed);
        self.all.0.fetch_add(bytes, Ordering::Relaxed);
        self.all.0.fetch_sub(before, Ordering::Relaxed);
    }
}

impl Drop for KeptHere {
    fn drop(&mut self) {
        self.is_now(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_lane_remembers_counts_until_the_lane_is_forgotten() {
        let kept = Kept::default();
        let (one, two) = (kept.of_a_lane(), kept.of_a_lane());
        one.is_now(KEPT_BYTES_MAX);
        assert!(!kept.too_much());
        two.is_now(1);
        assert!(kept.too_much());
        one.is_now(KEPT_BYTES_MAX - 1);
        assert!(!kept.too_much());
        two.is_now(2);
        drop(one);
        assert!(!kept.too_much());
        assert_eq!(kept.0.load(Ordering::Relaxed), 2);
    }
}
