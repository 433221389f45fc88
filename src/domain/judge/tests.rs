//! Tests of the judgement, by promise. [`play`] is the store they are played on, [`message`] writes what is asked.
#![allow(
    clippy::as_conversions,
    clippy::unwrap_used,
    clippy::wildcard_enum_match_arm,
    missing_docs
)]

mod bounds;
mod claims;
mod evidence;
mod fences;
mod folds;
mod message;
mod model;
mod play;
mod replays;
mod resolutions;
mod retention;
mod rounds;
mod sequences;
mod states;
mod waiting;
mod wishes;
