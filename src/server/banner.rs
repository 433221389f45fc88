//! What is said once a sidecar is ready.

use std::io::Write as _;
use std::net::SocketAddr;
use std::path::Path;

use tracing::{info, warn};

/// What a person is told beside the ready line.
#[derive(Clone, Copy, Debug)]
pub(super) enum Welcome {
    /// Nothing.
    None,
    /// That nothing survives, and what to try.
    Text,
    /// That nothing survives, as a line of the log: a text would break a log of JSON lines.
    Line,
}

/// Says that the sidecar is ready, and where. The line on standard output is for scripts: it comes once, whatever is logged.
pub(super) fn ready(
    address: SocketAddr,
    admin: Option<&Path>,
    etcd: Option<&str>,
    welcome: Welcome,
) {
    let admin_text = admin.map_or_else(|| "none".to_owned(), |path| path.display().to_string());
    match welcome {
        Welcome::None => {}
        Welcome::Text => {
            // Nobody may be reading; that is no reason not to serve.
            let _ = std::io::stderr().write_all(dev(address).as_bytes());
        }
        Welcome::Line => {
            warn!("everything is kept in memory: nothing survives the end of this process");
        }
    }
    info!(
        %address,
        admin_socket = %admin_text,
        etcd = etcd.unwrap_or("none"),
        version = env!("CARGO_PKG_VERSION"),
        "ready"
    );
    let mut out = std::io::stdout();
    let _ = writeln!(out, "ready on {address}");
    let _ = out.flush();
}

fn dev(address: SocketAddr) -> String {
    // As it was called, so that the lines below can be pasted when it is not on the PATH.
    let program = std::env::args_os().next();
    let program = program.map_or_else(
        || "fencepost".to_owned(),
        |name| name.to_string_lossy().into_owned(),
    );
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
