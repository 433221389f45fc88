//! etcd as it is in production: TLS, users, members that come and go, a disk that is full. On real etcds only.
#![allow(
    clippy::as_conversions,
    clippy::unwrap_used,
    clippy::wildcard_enum_match_arm,
    missing_docs
)]

#[allow(
    unused_imports,
    unused_macros,
    reason = "what makes two tests of one is not used here"
)]
#[path = "../support/mod.rs"]
mod support;

mod apart;
mod certificates;
mod jwt;
mod leaders;
mod outages;
mod ownership;
mod restored;
mod settings;
mod space;
mod tls;
mod upgrades;
mod users;
mod versions;
