//! Where time and concurrency live: lanes, committer, leases.

pub mod clock;
mod committer;
mod counts;
pub mod facade;
pub mod fault;
mod gathering;
mod holding;
mod holds;
mod incidents;
mod kept;
mod lane;
mod lanes;
mod laws;
mod leases;
mod machines;
mod narrow_keys;
mod outcome;
mod pace;
mod reader;
mod round;
mod sparing;
mod store_clock;
mod story;
mod sweeper;
mod tally;
mod tasks;
mod ticket;
mod waiting;

pub use crate::store::IncidentPage;
pub use clock::{Boottime, Clock};
pub use counts::{COUNT_ROWS_MAX, Count};
pub use facade::{Caller, Engine, EngineOptions, Known, OperationState, Reserved};
pub use fault::Fault;
pub use holds::{
    AtClose, HELD_MAX, HELD_PER_STREAM_MAX, Held, Hold, HoldEnd, HoldNews, Holdings,
};
pub use laws::Counted;
pub use machines::Applied;
pub use sweeper::Swept;
pub use waiting::{WAIT_MAX, WAITERS_MAX, Waiters};
