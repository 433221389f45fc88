//! Start and stop.

use std::net::SocketAddr;

/// A running sidecar.
#[derive(Debug)]
pub struct Running {
    addr: SocketAddr,
}

impl Running {
    /// Where it listens.
    pub fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// Stops it.
    pub async fn stop(self) {}
}

/// Starts a sidecar in memory.
pub async fn start_dev(listen: SocketAddr) -> Result<Running, std::io::Error> {
    Ok(Running { addr: listen })
}
