//! The command, as a process group of its own.

use std::io;
use std::os::unix::process::CommandExt as _;
use std::process::Command;
use std::time::Duration;

use rustix::io::Errno;
use rustix::process::{
    Pid, Signal, WaitId, WaitIdOptions, kill_process_group, test_kill_process_group, waitid,
};
use tokio::sync::mpsc;

use super::itself;
use super::program::Program;
use super::signals::code_of;
use super::start::{Report, Started};
use crate::engine::Boottime;

/// What has happened to the command and was not heard yet.
const EVENTS_UNHEARD_MAX: usize = 4;
/// How often it is looked whether what the command left behind has ended.
const LEFT_BEHIND_LOOK: Duration = Duration::from_millis(20);
/// How long it is waited for what was killed.
const KILLED_WITHIN: Duration = Duration::from_millis(200);

/// What has happened to the command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Event {
    /// A signal has stopped it; it may go on.
    Stopped(i32),
    /// It has ended.
    Ended(End),
}

/// How it ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    /// With this code.
    Exited(u8),
    /// By this signal.
    Killed(i32),
}

impl End {
    /// As a shell shows it.
    pub(super) fn code(self) -> u8 {
        match self {
            Self::Exited(code) => code,
            Self::Killed(number) => code_of(number),
        }
    }
}

/// A command that runs.
#[derive(Debug)]
pub(super) struct Running {
    group: Pid,
    events: mpsc::Receiver<Event>,
    report: Report,
}

impl Running {
    /// Starts it with these variables beside our own. To be called on a thread that lasts: the kernel ends the command with the
    /// thread, not the process, that started it.
    pub(super) fn start(
        program: &Program,
        variables: &[(&str, String)],
        removed: &[&str],
    ) -> io::Result<Self> {
        let report = Report::new()?;
        let mut command = Command::new(itself());
        command
            .arg("exec-start")
            .arg(std::process::id().to_string())
            .arg(report.path())
            .arg(&program.path)
            .arg("--")
            .args(&program.words)
            .process_group(0);
        for name in removed {
            command.env_remove(name);
        }
        command.envs(variables.iter().map(|(name, value)| (name, value)));
        let child = command.spawn()?;
        let group = Pid::from_child(&child);
        let (sender, events) = mpsc::channel(EVENTS_UNHEARD_MAX);
        let watching = std::thread::Builder::new().name("command".to_owned());
        if watching.spawn(move || watch(group, &sender)).is_err() {
            // Nobody would see its end. The channel is closed, so it is told to be over.
            let _ = kill_process_group(group, Signal::KILL);
        }
        Ok(Self {
            group,
            events,
            report,
        })
    }

    /// Its process group; its process has the same number.
    pub(super) fn group(&self) -> Pid {
        self.group
    }

    /// The next that happens to it.
    pub(super) async fn next(&mut self) -> Event {
        // The thread tells of the end before it ends.
        self.events
            .recv()
            .await
            .unwrap_or(Event::Ended(End::Killed(0)))
    }

    /// Sends a signal to all of it. Its number cannot be anybody else's, for its process is not reaped before `finish`.
    pub(super) fn signal(&self, signal: Signal) {
        // All of it may have ended.
        let _ = kill_process_group(self.group, signal);
    }

    /// It has ended: waits for what it left behind in its group, at most until then, and kills the rest.
    pub(super) async fn finish(self, until: Boottime) -> Started {
        let reaped = waitid(WaitId::Pid(self.group), WaitIdOptions::EXITED);
        // Nobody else reaps it.
        debug_assert!(reaped.is_ok(), "{reaped:?}");
        while test_kill_process_group(self.group).is_ok() {
            // In a container we may be the one who inherits what has ended.
            let ours = WaitId::Pgid(Some(self.group));
            let _ = waitid(ours, WaitIdOptions::EXITED | WaitIdOptions::NOHANG);
            if until.left().is_zero() {
                let _ = kill_process_group(self.group, Signal::KILL);
            }
            // Killed, but not yet gone, or nobody's to bury: it does nothing more.
            if until.plus(KILLED_WITHIN).left().is_zero() {
                break;
            }
            tokio::time::sleep(LEFT_BEHIND_LOOK).await;
        }
        self.report.read()
    }
}

/// Tells what happens to the command until it has ended, and leaves it to be reaped.
fn watch(command: Pid, events: &mpsc::Sender<Event>) {
    let both = WaitIdOptions::EXITED | WaitIdOptions::STOPPED | WaitIdOptions::NOWAIT;
    loop {
        let event = match waitid(WaitId::Pid(command), both) {
            Ok(Some(status)) if status.stopped() => {
                // Taken, so that it is not told again.
                let taken = WaitIdOptions::STOPPED | WaitIdOptions::NOHANG;
                let _ = waitid(WaitId::Pid(command), taken);
                Event::Stopped(status.stopping_signal().unwrap_or_default())
            }
            Ok(Some(status)) => Event::Ended(match status.exit_status() {
                Some(code) => End::Exited(u8::try_from(code).unwrap_or(u8::MAX)),
                None => End::Killed(status.terminating_signal().unwrap_or_default()),
            }),
            Ok(None) | Err(Errno::INTR) => continue,
            Err(_) => Event::Ended(End::Killed(0)),
        };
        let ended = matches!(event, Event::Ended(_));
        if events.blocking_send(event).is_err() || ended {
            return;
        }
    }
}
