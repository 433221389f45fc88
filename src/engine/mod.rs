//! Where time and concurrency live: lanes, committer, leases.

pub mod clock;
pub mod facade;
pub mod fault;

pub use clock::Boottime;
pub use facade::{Caller, Engine, EngineOptions, Known, OperationState, Reserved};
pub use fault::Fault;
