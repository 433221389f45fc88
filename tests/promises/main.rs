//! The promises of Fencepost, one module each. All but those about processes run on a real etcd and on the embedded engine.
#![allow(
    clippy::as_conversions,
    clippy::unwrap_used,
    clippy::wildcard_enum_match_arm,
    missing_docs
)]

#[path = "../support/mod.rs"]
mod support;

mod seam;
