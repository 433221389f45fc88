//! Where time and concurrency live: lanes, committer, leases.

pub mod clock;
mod committer;
pub mod facade;
pub mod fault;
mod holding;
mod incidents;
mod kept;
mod lane;
mod lanes;
mod leases;
mod narrow_keys;
mod pace;
mod reader;
mod round;
mod sparing;
mod tally;
mod tasks;
mod ticket;

pub use crate::store::IncidentPage;
pub use clock::Boottime;
pub use facade::{Caller, Engine, EngineOptions, Known, OperationState, Reserved};
pub use fault::Fault;
