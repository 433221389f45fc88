//! Where time and concurrency live: lanes, committer, leases.

pub mod clock;
mod committer;
pub mod facade;
pub mod fault;
mod gathering;
mod holding;
mod kept;
mod lane;
mod lanes;
mod leases;
mod pace;
mod reader;
mod round;
mod sparing;
mod tasks;
mod ticket;

pub use clock::Boottime;
pub use facade::{Caller, Engine, EngineOptions, Known, OperationState, Reserved};
pub use fault::Fault;
