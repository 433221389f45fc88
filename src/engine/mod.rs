//! Where time and concurrency live: lanes, committer, leases.

pub mod clock;
mod committer;
mod counts;
pub mod facade;
pub mod fault;
mod holding;
mod kept;
mod lane;
mod lanes;
mod leases;
mod outcome;
mod pace;
mod reader;
mod round;
mod sparing;
mod store_clock;
mod sweeper;
mod tasks;
mod ticket;

pub use clock::{Boottime, Clock};
pub use counts::{COUNT_ROWS_MAX, Count};
pub use facade::{Caller, Engine, EngineOptions, Known, OperationState, Reserved};
pub use fault::Fault;
pub use sweeper::Swept;
