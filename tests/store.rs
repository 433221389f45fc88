//! The store against a real etcd.
#![allow(
    clippy::as_conversions,
    clippy::unwrap_used,
    clippy::wildcard_enum_match_arm,
    missing_docs
)]

#[path = "store/commits.rs"]
mod commits;
#[path = "store/endpoints.rs"]
mod endpoints;
#[path = "store/etcd.rs"]
mod etcd;
#[path = "store/foreign.rs"]
mod foreign;
#[path = "store/leases.rs"]
mod leases;
#[path = "store/proxy.rs"]
mod proxy;
#[path = "store/queues.rs"]
mod queues;
#[path = "store/timeline.rs"]
mod timeline;
#[path = "store/watches.rs"]
mod watches;
#[path = "store/world.rs"]
mod world;
