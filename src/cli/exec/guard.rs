//! `exec-guard`: a process beside `exec` that kills what is left of its command when `exec` is gone, killed for one, or does nothing
//! though the bound has come, stopped for one.

use std::io::{self, ErrorKind, Write as _};
use std::os::fd::AsFd as _;
use std::os::unix::process::CommandExt as _;
use std::process::{ChildStdin, Command, Stdio};
use std::time::Duration;

use clap::Args;
use rustix::process::{Pid, Signal, kill_process_group};
use tokio::net::unix::pipe;

use super::super::trouble::Trouble;
use super::alarm::Alarm;
use super::limits::guard_at;
use super::{Exit, itself};
use crate::engine::Boottime;

/// What it is told when the command has ended.
const DISMISSED: &str = "end";
/// What comes before the number of the process group.
const GROUP: &str = "group ";
/// The most that it reads at once, in bytes.
const READ_BYTES: usize = 4_096;

/// Guards a process group.
#[derive(Debug, Args)]
pub(in super::super) struct GuardArgs {
    /// When it is to be killed, in milliseconds on the clock that runs through suspend; which it is, and later bounds, come by
    /// standard input
    bound: u64,
}

impl GuardArgs {
    /// Kills, or is told that there is nobody left to kill.
    pub(in super::super) async fn run(self) -> Result<Exit, Trouble> {
        let cannot = |error: io::Error| Trouble::failed(format!("cannot guard: {error}"));
        let input = io::stdin().as_fd().try_clone_to_owned().map_err(cannot)?;
        let input = pipe::Receiver::from_owned_fd(input).map_err(cannot)?;
        if let Some(group) = to_kill(&input, self.bound).await.map_err(cannot)? {
            // It may be empty by now.
            let _ = kill_process_group(group, Signal::KILL);
        }
        Ok(Exit::Good)
    }
}

/// Waits until it is dismissed, or until it has to act.
async fn to_kill(input: &pipe::Receiver, mut bound: u64) -> io::Result<Option<Pid>> {
    let alarm = Alarm::new()?;
    let mut group = None;
    let mut line = String::new();
    loop {
        let due = from_milliseconds(bound);
        tokio::select! {
            // What has been told meanwhile comes before the alarm.
            biased;
            ready = input.readable() => ready?,
            rung = alarm.until(due) => {
                rung?;
                return Ok(group);
            }
        }
        let mut read = [0_u8; READ_BYTES];
        let length = match input.try_read(&mut read) {
            Ok(0) => return Ok(group),
            Ok(length) => length,
            Err(error) if error.kind() == ErrorKind::WouldBlock => continue,
            Err(error) => return Err(error),
        };
        for byte in read.iter().take(length) {
            if *byte != b'\n' {
                line.push(char::from(*byte));
                continue;
            }
            if line == DISMISSED {
                return Ok(None);
            }
            if let Some(number) = line.strip_prefix(GROUP) {
                group = number.parse().ok().and_then(Pid::from_raw);
            } else if let Ok(later) = line.parse() {
                bound = later;
            }
            line.clear();
        }
    }
}

/// The guard, seen from `exec`. Dropped without being dismissed, it kills.
#[derive(Debug)]
pub(super) struct Guard(ChildStdin);

impl Guard {
    /// Starts it, before there is anybody to guard.
    pub(super) fn start(bound: Boottime) -> io::Result<Self> {
        let mut child = Command::new(itself())
            .arg("exec-guard")
            .arg(milliseconds(bound).to_string())
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            // It must survive what a terminal sends to us, and hold up no directory.
            .process_group(0)
            .current_dir("/")
            .spawn()?;
        let input = child.stdin.take();
        let input = input.ok_or_else(|| io::Error::other("its standard input is missing"))?;
        rustix::io::ioctl_fionbio(&input, true)?;
        Ok(Self(input))
    }

    /// This is whom it guards.
    pub(super) fn over(&self, group: Pid) {
        self.write(&format!("{GROUP}{}\n", group.as_raw_nonzero()));
    }

    /// The bound has moved.
    pub(super) fn tell(&self, bound: Boottime) {
        self.write(&format!("{}\n", milliseconds(bound)));
    }

    /// The command has ended, and so has all that belonged to it.
    pub(super) fn dismiss(self) {
        self.write(&format!("{DISMISSED}\n"));
    }

    fn write(&self, text: &str) {
        // One that is gone guards nothing. One that does not read, being stopped, keeps an earlier bound: it kills too early rather
        // than too late. A text so short is written as a whole or not at all.
        let _ = (&self.0).write_all(text.as_bytes());
    }
}

/// On the clock that all processes of a machine share; `minus` stops at its beginning.
fn milliseconds(bound: Boottime) -> u64 {
    let beginning = bound.minus(Duration::MAX);
    u64::try_from(guard_at(bound).since(beginning).as_millis()).unwrap_or(u64::MAX)
}

fn from_milliseconds(milliseconds: u64) -> Boottime {
    let beginning = Boottime::now().minus(Duration::MAX);
    beginning.plus(Duration::from_millis(milliseconds))
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn told(text: String, bound: Boottime) -> Option<i32> {
        let (sender, receiver) = pipe::pipe().unwrap();
        sender.writable().await.unwrap();
        assert_eq!(sender.try_write(text.as_bytes()).unwrap(), text.len());
        let group = to_kill(&receiver, milliseconds(bound)).await.unwrap();
        drop(sender);
        group.map(|group| group.as_raw_nonzero().get())
    }

    #[tokio::test]
    async fn a_guard_acts_at_the_last_bound_it_was_told_unless_it_is_dismissed() {
        let now = Boottime::now();
        let soon = now.plus(Duration::from_millis(250));
        let later = now.plus(Duration::from_secs(3_600));
        let (soon_told, later_told) = (milliseconds(soon), milliseconds(later));
        assert_eq!(told("group 7\nend\n".into(), later).await, None);
        assert_eq!(
            told(format!("group 7\n{later_told}\nend\n"), now).await,
            None
        );
        assert_eq!(
            told(format!("group 7\n{soon_told}\n"), later).await,
            Some(7)
        );
        // Rounded to whole milliseconds.
        assert!(Boottime::now() >= guard_at(soon).minus(Duration::from_millis(1)));
    }

    #[tokio::test]
    async fn a_guard_whose_exec_is_gone_acts_at_once() {
        let later = Boottime::now().plus(Duration::from_secs(3_600));
        for (text, group) in [("group 7\n", Pid::from_raw(7)), ("\n", None)] {
            let (sender, receiver) = pipe::pipe().unwrap();
            sender.writable().await.unwrap();
            assert_eq!(sender.try_write(text.as_bytes()).unwrap(), text.len());
            drop(sender);
            assert_eq!(
                to_kill(&receiver, milliseconds(later)).await.unwrap(),
                group
            );
        }
    }
}
