//! Fencepost: a coordination sidecar over etcd. See ARCHITECTURE.md.
pub mod domain;
pub mod embedded;
pub mod proto;
