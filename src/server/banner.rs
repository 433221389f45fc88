//! What is said once a sidecar is ready.

use std::io::Write as _;
use std::net::SocketAddr;
use std::path::Path;

use tracing::info;

/// Says that the sidecar is ready, and where. The line on standard output is for scripts: it comes once, whatever is logged.
/// What a person is told beside it (`welcome`) would break a log of JSON lines.
pub(super) fn ready(address: SocketAddr, admin: Option<&Path>, welcome: bool) {
    let admin_text = admin.map_or_else(|| "none".to_owned(), |path| path.display().to_string());
    if welcome {
        // Nobody may be reading; that is no reason not to serve.
        let _ = std::io::stderr().write_all(dev(address).as_bytes());
    }
    info!(%address, admin_socket = %admin_text, version = env!("CARGO_PKG_VERSION"), "ready");
    let mut out = std::io::stdout();
    let _ = writeln!(out, "ready on {address}");
    let _ = out.flush();
}

fn dev(address: SocketAddr) -> String {
    // As it was called, so that the lines below can be pasted when it is not on the PATH.
    let program = std::env::args()
        .next()
        .unwrap_or_else(|| "fencepost".to_owned());
    let method = "fencepost.v1.CoordinationService/Reserve";
    let addr = if address == SocketAddr::from(([127, 0, 0, 1], 7411)) {
        String::new()
    } else {
        format!(" --addr {address}")
    };
    format!(
        "\n  Fencepost is running for development. Everything is kept in memory:\n  \
         NOTHING SURVIVES the end of this process. For real work, on etcd: {program} serve\n\n  \
         gRPC and JSON   http://{address}\n  \
         see it work     {program} demo{addr}\n  \
         by hand         curl -sS http://{address}/{method} \\\n                    \
         -H 'content-type: application/json' \\\n                    \
         -d '{{\"resource\":{{\"kind\":\"job\",\"id\":\"1\"}},\"requestId\":\"'$(cat /proc/sys/kernel/random/uuid)'\"}}'\n\n"
    )
}
