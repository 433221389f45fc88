//! What the transport calls.

use std::time::Duration;

use super::{Boottime, Fault};
use crate::domain::decision::{Decision, Grant, IncidentId, Snapshot};
use crate::domain::ids::{OperationId, ReservationId, ResourceId};
use crate::domain::incident::Incident;
use crate::domain::request::{Fence, Reserve, Transition};
use crate::store::Store;

/// Who asks, and until when an answer is of use.
#[derive(Clone, Copy, Debug)]
pub struct Caller {
    /// When the call arrived, read before anything else was done with it. `safe_for` counts from here.
    pub arrived: Boottime,
    /// When the caller stops waiting.
    pub deadline: Boottime,
}

/// Limits of the engine.
#[derive(Clone, Debug, Default)]
pub struct EngineOptions {}

/// The answer to Reserve and Renew.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reserved {
    /// The judgement.
    pub decision: Decision,
    /// Present only with GRANTED.
    pub grant: Option<Grant>,
}

/// What has become of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OperationState {
    /// Nothing is known of it.
    NeverSeen,
    /// Applied, with a result.
    Done,
    /// Applied; the result is empty.
    DoneEmpty,
    /// Judged and turned away for good.
    Refused,
}

/// The answer to Lookup.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Known {
    /// What has become of it.
    pub state: OperationState,
    /// What a duplicate would be answered.
    pub decision: Option<Decision>,
}

/// The engine. Cheap to clone. A caller that goes away leaves no half-done work: what was sent is finished.
#[derive(Clone, Debug)]
pub struct Engine {
    store: Store,
}

fn unfinished() -> Fault {
    Fault::StoreUnavailable {
        retry_after: Duration::from_secs(1),
    }
}

impl Engine {
    /// Starts the engine on an open store.
    pub fn start(store: Store, options: EngineOptions) -> Self {
        let _ = options;
        Self { store }
    }

    /// Reserve.
    pub async fn reserve(&self, ask: Reserve, caller: Caller) -> Result<Reserved, Fault> {
        let _ = (ask, caller, self.store.timeline());
        Err(unfinished())
    }

    /// Renew.
    pub async fn renew(
        &self,
        reservation: ReservationId,
        caller: Caller,
    ) -> Result<Reserved, Fault> {
        let _ = (reservation, caller);
        Err(unfinished())
    }

    /// Release.
    pub async fn release(
        &self,
        reservation: ReservationId,
        caller: Caller,
    ) -> Result<Decision, Fault> {
        let _ = (reservation, caller);
        Err(unfinished())
    }

    /// Transition.
    pub async fn transition(&self, ask: Transition, caller: Caller) -> Result<Decision, Fault> {
        let _ = (ask, caller);
        Err(unfinished())
    }

    /// Fence.
    pub async fn fence(&self, ask: Fence, caller: Caller) -> Result<Decision, Fault> {
        let _ = (ask, caller);
        Err(unfinished())
    }

    /// Lookup.
    pub async fn lookup(
        &self,
        resource: ResourceId,
        operation: OperationId,
        caller: Caller,
    ) -> Result<Known, Fault> {
        let _ = (resource, operation, caller);
        Err(unfinished())
    }

    /// Inspect.
    pub async fn inspect(&self, resource: ResourceId, caller: Caller) -> Result<Snapshot, Fault> {
        let _ = (resource, caller);
        Err(unfinished())
    }

    /// A page of incidents, in the order of their ids.
    pub async fn incidents(
        &self,
        after: Option<IncidentId>,
        limit: usize,
        caller: Caller,
    ) -> Result<Vec<Incident>, Fault> {
        let _ = (after, limit, caller);
        Err(unfinished())
    }

    /// Refuses new work and waits for what is under way, at most until the limit. Reservations are left alone: they belong
    /// to the callers. False: the limit came first.
    pub async fn stop(&self, limit: Duration) -> bool {
        let _ = limit;
        true
    }
}
