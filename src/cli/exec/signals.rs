//! The signals that are passed on to the command.

use std::future::poll_fn;
use std::io;
use std::task::Poll;

use rustix::process::Signal;
use tokio::signal::unix::{Signal as Stream, SignalKind, signal};

use super::terminal::Terminal;

/// What a shell answers for a command that a signal ended: this plus the signal's number.
const SIGNAL_CODE_BASE: i32 = 128;

/// Passed on as they come. TSTP and CONT are those by which a terminal's user stops a job and goes on with it.
const PASSED_ON: [Signal; 8] = [
    Signal::INT,
    Signal::TERM,
    Signal::HUP,
    Signal::QUIT,
    Signal::USR1,
    Signal::USR2,
    Signal::TSTP,
    Signal::CONT,
];

/// Waits for them.
pub(super) struct Signals(Vec<(Signal, Stream)>);

impl Signals {
    /// From now on they are ours; but one that was ignored when we were started (`nohup`, a shell's background job) stays so,
    /// for us and for the command.
    pub(super) fn listen() -> io::Result<Self> {
        let ignored = ignored(&std::fs::read_to_string("/proc/self/status")?);
        let mut streams = Vec::new();
        for passed_on in PASSED_ON {
            let number = passed_on.as_raw();
            if ignored & bit(number) == 0 {
                streams.push((passed_on, signal(SignalKind::from_raw(number))?));
            }
        }
        Ok(Self(streams))
    }

    /// The next one.
    pub(super) async fn next(&mut self) -> Signal {
        poll_fn(|context| {
            for (passed_on, stream) in &mut self.0 {
                if stream.poll_recv(context).is_ready() {
                    return Poll::Ready(*passed_on);
                }
            }
            Poll::Pending
        })
        .await
    }

    /// The next one that asks to end. While there is no command yet, it is we who are stopped.
    pub(super) async fn next_to_end(&mut self, terminal: &Terminal) -> Signal {
        loop {
            match self.next().await {
                Signal::TSTP => terminal.stop_with_it(),
                Signal::CONT => {}
                signal => return signal,
            }
        }
    }
}

/// What a process answers that a signal ended.
pub(super) fn code(signal: Signal) -> u8 {
    code_of(signal.as_raw())
}

/// The same, by the signal's number.
pub(super) fn code_of(number: i32) -> u8 {
    u8::try_from(SIGNAL_CODE_BASE + number).unwrap_or(u8::MAX)
}

fn bit(number: i32) -> u64 {
    u32::try_from(number - 1).map_or(0, |shift| 1_u64.checked_shl(shift).unwrap_or(0))
}

/// The mask of ignored signals, as the kernel tells it.
fn ignored(status: &str) -> u64 {
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok())
        .unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_ignored_is_read_from_what_the_kernel_tells() {
        let mask = ignored("Name:\tx\nSigBlk:\t0000000000000000\nSigIgn:\t0000000000001003\n");
        assert_ne!(mask & bit(Signal::HUP.as_raw()), 0);
        assert_ne!(mask & bit(Signal::INT.as_raw()), 0);
        assert_eq!(mask & bit(Signal::TERM.as_raw()), 0);
        assert_eq!(ignored(""), 0);
    }

    #[test]
    fn a_signal_ends_with_what_a_shell_shows() {
        assert_eq!(code(Signal::KILL), 137);
        assert_eq!(code(Signal::TERM), 143);
    }
}
