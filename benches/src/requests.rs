//! What an etcd was asked for, as its own metrics count it.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::time::Duration;

use crate::Outcome;
use crate::servers::Etcd;

/// How long the metrics may take to come.
const WITHIN: Duration = Duration::from_secs(10);
const COUNTER: &str = "grpc_server_msg_received_total{";

/// Messages received so far.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Requests {
    /// Of all calls but keepalives: transactions, ranges, leases granted and ended, watches opened and closed.
    pub(crate) asked: f64,
    /// Keepalives of leases.
    pub(crate) keepalives: f64,
}

/// What this etcd has received.
pub(crate) async fn received(etcd: &Etcd) -> Outcome<Requests> {
    let address = etcd.url.trim_start_matches("http://").to_owned();
    let text = tokio::task::spawn_blocking(move || metrics(&address)).await??;
    let mut found = Requests {
        asked: 0.0,
        keepalives: 0.0,
    };
    for line in text.lines().filter(|line| line.starts_with(COUNTER)) {
        let (labels, count) = line.rsplit_once(' ').ok_or("a metric without a value")?;
        let count: f64 = count.parse()?;
        let of = ["KV", "Lease", "Watch"];
        let ours = |service: &&str| labels.contains(&format!("\"etcdserverpb.{service}\""));
        if labels.contains("\"LeaseKeepAlive\"") {
            found.keepalives += count;
        } else if of.iter().any(ours) {
            found.asked += count;
        }
    }
    Ok(found)
}

fn metrics(address: &str) -> std::io::Result<String> {
    let mut stream = TcpStream::connect(address)?;
    stream.set_read_timeout(Some(WITHIN))?;
    // 1.0, for then it comes in one piece: chunks may begin within a line.
    let ask = format!("GET /metrics HTTP/1.0\r\nhost: {address}\r\n\r\n");
    stream.write_all(ask.as_bytes())?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    Ok(answer)
}
