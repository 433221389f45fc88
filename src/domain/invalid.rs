//! Why a value from outside was turned away.

/// A value that no request may carry, and why. The field's name is added by whoever read the field.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{reason}")]
pub struct Invalid {
    reason: String,
}

impl Invalid {
    /// `reason` completes the sentence `<field> …`: it says what is wrong, where, and what the limit is.
    pub fn new(reason: impl Into<String>) -> Self {
        Self {
            reason: reason.into(),
        }
    }
}
