//! How a person ends an incident.

use crate::domain::ids::{Holder, Reason};

/// How an incident was closed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Closing {
    /// When, in milliseconds since 1970.
    pub time_ms: u64,
    /// Who did it.
    pub by: Holder,
    /// Why.
    pub reason: Reason,
    /// How many pieces of evidence there were. More than that open the incident again.
    pub evidence: usize,
}
