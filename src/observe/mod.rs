//! What the sidecar tells about itself.

mod libraries;
pub mod logs;
pub mod panics;
