//! Operation ids that are a missing value put into words.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tracing::warn;

use crate::domain::ids::ResourceId;
use crate::domain::request::Intent;

/// What languages make of a value that is not there, in lower case.
const MISSING: [&str; 6] = ["null", "undefined", "none", "nil", "nan", "[object object]"];

/// Warns of operation ids that are accepted, and are hardly anybody's key. Each is told once, for a sender that has lost its
/// key loses it in every message. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub(super) struct Suspects(Arc<[AtomicBool; MISSING.len()]>);

impl Suspects {
    /// Warns if this is the first of its kind.
    pub(super) fn look_at(&self, resource: &ResourceId, intent: &Intent) {
        let operation = &intent.operation;
        let found = MISSING
            .iter()
            .zip(self.0.iter())
            .find(|(missing, _)| operation.as_str().eq_ignore_ascii_case(missing));
        if let Some((_, told)) = found
            && !told.swap(true, Ordering::Relaxed)
        {
            warn!(
                operation = operation.as_str(),
                %resource,
                "an operation id looks like a value that was missing; all such messages to a resource count as one (told once)"
            );
        }
    }
}
