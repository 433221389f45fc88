//! Whether held reservations are renewed so late that new ones have to wait.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use crate::engine::fault::Fault;

/// When to ask again for a reservation that was not granted because renewals are late.
const STRAIN_RETRY: Duration = Duration::from_secs(1);

/// The sign, seen by whoever is about to grant. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub(in crate::engine) struct Strain(Arc<Sign>);

#[derive(Debug, Default)]
struct Sign {
    on: AtomicBool,
    refused: AtomicU64,
}

impl Strain {
    /// Whether no reservation is to be granted now.
    pub(in crate::engine) fn is_on(&self) -> bool {
        self.0.on.load(Ordering::Acquire)
    }

    /// Refuses to grant while it is on.
    pub(in crate::engine) fn refuse(&self) -> Result<(), Fault> {
        if self.is_on() {
            self.0.refused.fetch_add(1, Ordering::Relaxed);
            return Err(Fault::RenewalsLate {
                retry_after: STRAIN_RETRY,
            });
        }
        Ok(())
    }

    /// Puts it on or off. True: that is another than before.
    pub(super) fn put(&self, on: bool) -> bool {
        self.0.on.swap(on, Ordering::AcqRel) != on
    }

    /// How often a grant was refused.
    pub(super) fn refused(&self) -> u64 {
        self.0.refused.load(Ordering::Relaxed)
    }
}
