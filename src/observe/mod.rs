//! What the sidecar tells about itself.

pub mod logs;
pub mod panics;
