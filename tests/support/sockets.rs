//! Whose end of a connection on loopback it is.

use std::net::SocketAddr;

use rustix::process::Pid;

/// Where Linux lists all connections.
const TABLE: &str = "/proc/net/tcp";
/// From the far end's address in a line of it to the socket's number.
const FROM_ADDRESS_TO_NUMBER: usize = 6;

/// Whether this end of a connection belongs to a process that runs on this machine.
pub(super) fn belongs_to(process: Pid, end: SocketAddr) -> bool {
    let table = std::fs::read_to_string(TABLE).expect("the tests run on Linux");
    // Of an address, the port alone tells: all is on loopback.
    let port = format!(":{:04X}", end.port());
    let number = table.lines().skip(1).find_map(|line| {
        let mut fields = line.split_whitespace();
        let here = fields.nth(1)?;
        let _there = fields.next()?;
        let number = fields.nth(FROM_ADDRESS_TO_NUMBER)?;
        here.ends_with(&port).then(|| format!("socket:[{number}]"))
    });
    let Some(number) = number else { return false };
    let open = std::fs::read_dir(format!("/proc/{}/fd", process.as_raw_nonzero()));
    open.into_iter()
        .flatten()
        .flatten()
        .filter_map(|entry| std::fs::read_link(entry.path()).ok())
        .any(|target| target.to_str() == Some(&number))
}
