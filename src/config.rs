//! Configuration.

use std::path::PathBuf;

/// Where the admin socket of the sidecar on this port is.
pub fn admin_socket_path(port: u16) -> PathBuf {
    std::env::temp_dir().join(format!("fencepost-{port}.sock"))
}
