//! Where time and concurrency live: lanes, committer, leases.

pub mod clock;
mod committer;
pub mod facade;
pub mod fault;
mod holding;
mod kept;
mod lane;
mod lanes;
mod laws;
mod leases;
mod machines;
mod pace;
mod reader;
mod round;
mod sparing;
mod tasks;
mod ticket;

pub use clock::Boottime;
pub use facade::{Caller, Engine, EngineOptions, Known, OperationState, Reserved};
pub use fault::Fault;
pub use machines::Applied;
