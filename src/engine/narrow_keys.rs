//! Notices operations that may have more than one key.

use std::sync::atomic::{AtomicU64, Ordering};

use tracing::warn;

use super::sparing::Sparing;
use crate::domain::ids::{OperationId, ResourceId};

/// Counts and tells of applied operations that look like one that was applied before under another key.
#[derive(Debug, Default)]
pub(super) struct NarrowKeys {
    count: AtomicU64,
    lines: Sparing,
}

impl NarrowKeys {
    pub(super) fn note(
        &self,
        resource: &ResourceId,
        operation: &OperationId,
        earlier: &OperationId,
    ) {
        self.count.fetch_add(1, Ordering::Relaxed);
        if let Some(unsaid) = self.lines.speak() {
            warn!(
                %resource,
                operation = operation.as_str(),
                earlier = earlier.as_str(),
                unsaid,
                "the same content did the same under a second operation id; the key may be too narrow"
            );
        }
    }

    pub(super) fn count(&self) -> u64 {
        self.count.load(Ordering::Relaxed)
    }
}
