//! Waiting for a moment on the clock that runs through suspend. The runtime's own timers stand still meanwhile, and would let a
//! command run on after its reservation has long been lost.

use std::fs::File;
use std::io::{self, ErrorKind};
use std::os::fd::AsFd as _;
use std::time::Duration;

use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create,
    timerfd_settime,
};
use tokio::net::unix::pipe::Receiver;

use crate::engine::Boottime;

/// Bytes that a timer which has rung is read by.
const RUNG_BYTES: usize = 8;

/// A timer of the kernel: a descriptor that is set, and read once it has rung.
#[derive(Debug)]
pub(super) struct Alarm {
    timer: File,
    // It is read as a pipe is.
    rung: Receiver,
}

impl Alarm {
    /// One that is not set.
    pub(super) fn new() -> io::Result<Self> {
        let flags = TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC;
        let timer = timerfd_create(TimerfdClockId::Boottime, flags)?;
        let timer = File::from(timer);
        let rung = Receiver::from_file_unchecked(timer.try_clone()?)?;
        Ok(Self { timer, rung })
    }

    /// Waits until then. One waits at a time; whoever stops waiting has lost nothing.
    pub(super) async fn until(&self, moment: Boottime) -> io::Result<()> {
        loop {
            let left = moment.left();
            if left.is_zero() {
                return Ok(());
            }
            self.set(left)?;
            self.rung.readable().await?;
            match self.rung.try_read(&mut [0_u8; RUNG_BYTES]) {
                Ok(_) => {}
                // It had rung for an earlier moment.
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                Err(error) => return Err(error),
            }
        }
    }

    fn set(&self, left: Duration) -> io::Result<()> {
        let never = Timespec {
            tv_sec: 0,
            tv_nsec: 0,
        };
        let once = Itimerspec {
            it_interval: never,
            it_value: Timespec {
                tv_sec: i64::try_from(left.as_secs()).unwrap_or(i64::MAX),
                tv_nsec: left.subsec_nanos().into(),
            },
        };
        timerfd_settime(self.timer.as_fd(), TimerfdTimerFlags::empty(), &once)?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn an_alarm_does_not_ring_before_its_moment_also_after_one_that_was_given_up() {
        let alarm = Alarm::new().unwrap();
        let begun = Boottime::now();
        tokio::select! {
            biased;
            rung = alarm.until(begun.plus(Duration::from_millis(100))) => panic!("{rung:?}"),
            () = std::future::ready(()) => {}
        }
        // It rings for the first moment, too.
        let moment = begun.plus(Duration::from_millis(250));
        alarm.until(moment).await.unwrap();
        assert!(moment.left().is_zero());
        alarm.until(begun).await.unwrap();
    }
}
