//! The promises of Fencepost, one module each. All but those about processes run on a real etcd and on the embedded engine.
#![allow(
    clippy::as_conversions,
    clippy::unwrap_used,
    clippy::wildcard_enum_match_arm,
    missing_docs
)]

#[path = "../support/mod.rs"]
mod support;

mod after_loss;
mod claims;
mod comes_back;
mod confirm;
mod conflict;
mod cost;
mod crash;
mod doors;
mod exclusive;
mod fence;
mod follows;
mod halts_heard;
mod health;
mod holds;
mod holds_of_several;
mod honest_renewals;
mod incidents;
mod joint;
mod kept_results;
mod lanes;
mod laws;
mod leases;
mod limits;
mod lost_claims;
mod lost_replies;
mod machine_files;
mod machines;
mod old_rounds;
mod once;
mod one_commit;
mod operators;
mod queue;
mod queue_several;
mod queue_troubles;
mod restores;
mod restores_seen;
mod restores_twice;
mod retention;
mod seam;
mod spent_leases;
mod spill;
mod state;
mod stops;
mod store_refuses;
mod stories;
mod strain;
mod sweeping;
mod three;
mod timelines;
mod together;
mod together_lost;
mod turns;
mod waiting;
mod waits_end;
