//! Those who wait for a busy resource, and their order: whoever was entered first comes first.

use super::ids::{Holder, Nonce, OperationId, RequestId};
use super::token::Revision;

/// Most of those who wait that are told of one by one: the first.
pub const WAITERS_TOLD_MAX: usize = 10;

/// Names one who waits, in the queues of all resources that it waits for. Of those whom one sidecar enters together, the one that
/// arrived there first comes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct WaiterName {
    /// Counts the arrivals at one sidecar.
    pub arrival: u64,
    /// Drawn at random for each entry, so that no name is ever used twice.
    pub nonce: Nonce,
}

/// A place in the queue of a resource. The smaller one comes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Place {
    /// When it was entered; the same for all that were entered together.
    pub since: Revision,
    /// Whose it is.
    pub name: WaiterName,
}

/// What an entry tells of whoever waits, for people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Waiter {
    /// What the caller said of itself.
    pub holder: Option<Holder>,
    /// What it asks for.
    pub call: WaitingCall,
    /// The operation that it is about.
    pub operation: Option<OperationId>,
    /// The attempt, of a Reserve.
    pub request: Option<RequestId>,
    /// How many other resources it waits for together with this one.
    pub also: u32,
    /// When it began to wait, in milliseconds since 1970.
    pub time_ms: u64,
}

/// What one who waits asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WaitingCall {
    /// To hold the resource.
    Reserve,
    /// To move it.
    Transition,
}

/// Who waited for a resource at one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WhoWaits {
    /// How many.
    pub calls: u64,
    /// Those who come first, in their order.
    pub first: Vec<Waiter>,
}
