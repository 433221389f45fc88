//! The signals that stop a sidecar.

use std::fmt;
use std::io;

use tokio::signal::unix::{Signal as Stream, SignalKind, signal};
use tracing::warn;

/// What a shell shows for a process that a signal ended: this plus the signal's number.
const SIGNAL_EXIT_BASE: i32 = 128;

/// A signal to stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Signal {
    Interrupt,
    Terminate,
}

impl Signal {
    fn number(self) -> i32 {
        match self {
            Self::Interrupt => SignalKind::interrupt().as_raw_value(),
            Self::Terminate => SignalKind::terminate().as_raw_value(),
        }
    }
}

impl fmt::Display for Signal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Interrupt => "SIGINT",
            Self::Terminate => "SIGTERM",
        })
    }
}

/// Waits for signals.
pub(super) struct Signals {
    interrupt: Stream,
    terminate: Stream,
}

impl Signals {
    /// From now on the signals are ours.
    pub(super) fn listen() -> io::Result<Self> {
        Ok(Self {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
        })
    }

    /// The next signal.
    pub(super) async fn next(&mut self) -> Signal {
        tokio::select! {
            _ = self.interrupt.recv() => Signal::Interrupt,
            _ = self.terminate.recv() => Signal::Terminate,
        }
    }

    /// Somebody who asks twice does not want to wait.
    pub(super) fn exit_on_the_next(mut self) {
        tokio::spawn(async move {
            let signal = self.next().await;
            warn!(%signal, "a second signal: exiting at once");
            std::process::exit(SIGNAL_EXIT_BASE + signal.number());
        });
    }
}
