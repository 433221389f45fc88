//! The sidecar's doors, configuration, start and stop, as a caller and an operator meet them.
#![allow(
    clippy::as_conversions,
    clippy::unwrap_used,
    clippy::wildcard_enum_match_arm,
    missing_docs
)]

mod beside;
mod config;
mod doors;
mod etcd;
mod forms;
mod json;
mod lifecycle;
mod only_asked;
mod sidecar;
mod slow;
mod spans;
mod strangers;
mod streams;
mod terminal;
mod untaken;
