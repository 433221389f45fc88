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
mod guarded;
mod joint;
mod keeping;
mod lawful;
mod machine_model;
mod machine_sketch;
mod message;
mod model;
mod outcomes;
mod own_replies;
mod play;
mod refused_results;
mod replays;
mod resolutions;
mod retention;
mod rounds;
mod sequences;
mod settling;
mod several;
mod states;
mod stories;
mod turns;
mod versions;
mod waiting;
mod wishes;
