//! The terminal, if there is one: who of a job may read from it, and what stops with it.
//!
//! The command is a process group of its own, so that a signal reaches all of it and nobody else. Until it wants to read from
//! the terminal that stays ours: what is typed reaches us, and is passed on once. When it wants to (the kernel stops it then),
//! the terminal is lent to it, and what is typed reaches it alone.

use std::fs::{File, OpenOptions};
use std::os::unix::process::CommandExt as _;
use std::process::{Command, Stdio};

use clap::Args;
use rustix::process::{Pid, Signal, getpgrp, getpid, getsid, kill_current_process_group};
use rustix::termios::{tcgetpgrp, tcsetpgrp};

use super::super::trouble::Trouble;
use super::{Exit, itself};

/// The terminal that a process belongs to, whatever its standard input is.
const TERMINAL: &str = "/dev/tty";

/// What becomes of a command that was stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Then {
    /// It goes on.
    Continue,
    /// It stays so until somebody says otherwise.
    Stay,
}

/// The terminal of this process.
#[derive(Debug)]
pub(super) struct Terminal {
    file: Option<File>,
    lent: bool,
}

impl Terminal {
    /// There need not be one.
    pub(super) fn open() -> Self {
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .open(TERMINAL)
            .ok();
        Self { file, lent: false }
    }

    /// A signal has stopped the command.
    pub(super) fn stopped(&mut self, group: Pid, by: i32) -> Then {
        let wants = [Signal::TTIN, Signal::TTOU]
            .map(Signal::as_raw)
            .contains(&by);
        if wants && self.lend(group) {
            return Then::Continue;
        }
        if !wants && by != Signal::TSTP.as_raw() || self.file.is_none() {
            // Somebody did that on purpose, and will go on with it.
            return Then::Stay;
        }
        // The leader of a session has nobody who could go on with it.
        if getsid(None).is_ok_and(|session| session == getpid()) {
            return if wants { Then::Stay } else { Then::Continue };
        }
        self.stop_with_it();
        Then::Stay
    }

    /// Stops us and all who are in one job with us, which is how a shell sees that the job has stopped.
    pub(super) fn stop_with_it(&self) {
        if self.file.is_some() {
            let _ = kill_current_process_group(Signal::STOP);
        }
    }

    /// Somebody lets the job go on; in the foreground, the command gets back what it had.
    pub(super) fn continued(&mut self, group: Pid) {
        if self.lent {
            self.lend(group);
        }
    }

    fn lend(&mut self, group: Pid) -> bool {
        let Some(file) = &self.file else {
            return false;
        };
        let ours = tcgetpgrp(file).is_ok_and(|foreground| foreground == getpgrp());
        let lent = ours && tcsetpgrp(file, group).is_ok();
        self.lent |= lent;
        lent
    }

    /// The command has ended, and is not reaped yet. Whoever comes after us in a script may want to read.
    pub(super) fn take_back(&mut self, group: Pid) {
        let Some(file) = self.file.as_ref().filter(|_| self.lent) else {
            return;
        };
        if !tcgetpgrp(file).is_ok_and(|foreground| foreground == group) {
            return;
        }
        // Who asks from the background is stopped, so somebody in the foreground has to ask.
        let asked = Command::new(itself())
            .arg("exec-terminal")
            .arg(getpgrp().as_raw_nonzero().to_string())
            .stdin(Stdio::null())
            .process_group(group.as_raw_nonzero().get())
            .spawn();
        if let Ok(mut child) = asked {
            let _ = child.wait();
        }
    }
}

/// Gives the terminal to a process group.
#[derive(Debug, Args)]
pub(in super::super) struct TerminalArgs {
    /// The process group
    group: i32,
}

impl TerminalArgs {
    /// To be called in the foreground.
    pub(in super::super) fn run(self) -> Result<Exit, Trouble> {
        let cannot = |error: &dyn std::fmt::Display| {
            Trouble::failed(format!("cannot take the terminal back: {error}"))
        };
        let group = Pid::from_raw(self.group)
            .ok_or_else(|| Trouble::usage("the process group is not one"))?;
        let file = File::open(TERMINAL).map_err(|error| cannot(&error))?;
        tcsetpgrp(&file, group).map_err(|error| cannot(&error))?;
        Ok(Exit::Good)
    }
}
