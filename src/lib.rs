//! Fencepost: a coordination sidecar over etcd. See ARCHITECTURE.md.
pub mod cli;
pub mod domain;
pub mod embedded;
pub mod engine;
pub mod proto;
pub mod store;
pub mod transport;
