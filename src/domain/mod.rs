//! What is decided, as pure functions: no runtime, no network, no clock.
pub mod digest;
pub mod invalid;
