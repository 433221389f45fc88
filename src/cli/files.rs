//! Whether a process may open what it needs.

use std::io;

use rustix::io::Errno;

/// Pipes that are opened to see whether there is room; each is two open files. A command opens fewer: the runtime and its signals, a
/// connection, and what `exec` has with its command and its guard. A sidecar has more than that from its first call on.
const PIPES: usize = 12;

/// Says why not. The library that listens to signals would panic in the midst of it.
pub(super) fn enough() -> Result<(), String> {
    let opened: io::Result<Vec<_>> = (0..PIPES).map(|_| io::pipe()).collect();
    let Err(error) = opened else {
        return Ok(());
    };
    let too_many = [Errno::MFILE, Errno::NFILE].map(|errno| errno.raw_os_error());
    if !error
        .raw_os_error()
        .is_some_and(|number| too_many.contains(&number))
    {
        return Err(error.to_string());
    }
    Err(format!(
        "too few files may be open at once ({error}), and nothing was done: {} are needed beside those that are open already; allow \
         more with `ulimit -n` (of a systemd unit: LimitNOFILE), or close some",
        2 * PIPES
    ))
}
