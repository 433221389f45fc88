//! Tests of the judgement, by promise. [`play`] is the store they are played on, [`message`] writes what is asked.
#![allow(
    clippy::as_conversions,
    clippy::unwrap_used,
    clippy::wildcard_enum_match_arm,
    missing_docs
)]

mod bounds;
mod by_machine;
mod claimed_events;
mod claims;
mod evidence;
mod fences;
mod folds;
mod keeping;
mod lawful;
mod machine_model;
mod machine_sketch;
mod message;
mod model;
mod play;
mod refused_results;
mod replays;
mod resolutions;
mod retention;
mod rounds;
mod sequences;
mod settling;
mod states;
mod stories;
mod versions;
mod waiting;
mod wishes;
