//! A panic is a broken invariant of ours. A task that is gone would leave callers waiting and resources without anybody who
//! works on them; so the process stops, and the next one begins with what etcd says.

use std::backtrace::Backtrace;
use std::io::Write as _;
use std::panic::PanicHookInfo;

use tracing::{Level, enabled, error};

/// From now on a panic, in whatever task, logs its reason and aborts the process.
pub fn abort_on_panic() {
    std::panic::set_hook(Box::new(|panic| {
        tell(panic);
        std::process::abort();
    }));
}

fn tell(panic: &PanicHookInfo<'_>) {
    let payload = panic.payload();
    let reason = payload
        .downcast_ref::<&str>()
        .copied()
        .or_else(|| payload.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("no reason was given");
    let place = panic
        .location()
        .map_or_else(|| "an unknown place".to_owned(), ToString::to_string);
    if enabled!(Level::ERROR) {
        let backtrace = Backtrace::capture();
        error!(
            reason,
            place,
            %backtrace,
            "a fault in fencepost itself: the process stops; start it again, and report this"
        );
    } else {
        // Whatever is logged, the last words are.
        let said = format!("fencepost: a fault in fencepost itself at {place}: {reason}\n");
        let _ = std::io::stderr().write_all(said.as_bytes());
    }
}
