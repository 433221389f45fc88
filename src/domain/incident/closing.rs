//! How a person ends an incident.

use std::fmt;

use crate::domain::ids::Holder;
use crate::domain::invalid::Invalid;

/// Longest reason for closing an incident, in bytes.
pub const REASON_BYTES_MAX: usize = 1024;

/// Why an incident was closed. Never blank.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reason(String);

impl Reason {
    /// Reads one that a person gave.
    pub fn parse(text: &str) -> Result<Self, Invalid> {
        if text.trim().is_empty() {
            return Err(Invalid::new(
                "is required: say in a few words what was found and done",
            ));
        }
        if text.len() > REASON_BYTES_MAX {
            return Err(Invalid::new(format!(
                "is {} bytes long; the limit is {REASON_BYTES_MAX}",
                text.len()
            )));
        }
        Ok(Self(text.to_owned()))
    }

    /// The text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

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
