//! What is decided, as pure functions: no runtime, no network, no clock.

pub mod claim;
pub mod decision;
pub mod digest;
pub mod explain;
pub mod ids;
pub mod incident;
pub mod invalid;
pub mod judge;
pub mod machine;
pub mod outcome;
pub mod record;
pub mod renewal;
pub mod request;
pub mod retention;
pub mod timeline;
pub mod together;
pub mod token;
pub mod waiter;
