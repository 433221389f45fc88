//! The promises of Fencepost, one module each. All but those about processes run on a real etcd and on the embedded engine.
#![allow(
    clippy::as_conversions,
    clippy::unwrap_used,
    clippy::wildcard_enum_match_arm,
    missing_docs
)]

#[path = "../support/mod.rs"]
mod support;

mod above;
mod after_loss;
mod claims;
mod comes_back;
mod confirm;
mod conflict;
mod cost;
mod crash;
mod doors;
mod etcd_away;
mod exclusive;
mod fence;
mod follows;
mod halts_heard;
mod health;
mod holds;
mod holds_of_several;
mod holds_stalled;
mod honest_renewals;
mod incidents;
mod joint;
mod keepalives;
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
mod queue_goes_on;
mod queue_sequences;
mod queue_several;
mod queue_troubles;
mod replaced_leaders;
mod resolved;
mod restores;
mod restores_full;
mod restores_seen;
mod restores_twice;
mod retention;
mod seam;
mod spent_leases;
mod spill;
mod state;
mod stops;
mod store_refuses;
mod store_refuses_several;
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
mod wrong_clocks;
