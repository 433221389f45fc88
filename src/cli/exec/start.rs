//! `exec-start`: what stands between `exec` and its command for a moment. It asks the kernel to be killed when `exec` dies, which
//! only a process can do for itself, and becomes the command.

use std::ffi::OsString;
use std::fs::{File, OpenOptions};
use std::io::{Error, PipeReader, PipeWriter, Read as _, Write as _};
use std::os::fd::AsRawFd as _;
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::Command;

use clap::Args;
use rustix::process::{Signal, getppid, set_parent_process_death_signal};

use super::super::trouble::Trouble;

/// Written before it becomes the command; after it, the number of the error if it could not.
const BEGINS: &[u8] = b"begins ";
/// The longest that is written, in bytes.
const REPORT_BYTES_MAX: u64 = 64;

/// Becomes a command.
#[derive(Debug, Args)]
pub(in super::super) struct StartArgs {
    /// Process id of the `exec` that started this
    parent: u32,
    /// Where to tell how it went
    report: PathBuf,
    /// File of the command
    program: PathBuf,
    /// The command's name and arguments
    #[arg(last = true, required = true)]
    words: Vec<OsString>,
}

impl StartArgs {
    /// Does not return if it goes well.
    pub(in super::super) fn run(self) -> Result<super::Exit, Trouble> {
        // It is closed when this becomes the command, so the command has nothing that its caller did not give it.
        let mut report = OpenOptions::new()
            .write(true)
            .open(&self.report)
            .map_err(|error| Trouble::failed(format!("cannot start the command: {error}")))?;
        set_parent_process_death_signal(Some(Signal::KILL))
            .map_err(|error| Trouble::failed(format!("cannot start the command: {error}")))?;
        // Whoever died before the line above will not be noticed any more.
        let parent = getppid().map(|parent| parent.as_raw_nonzero().get());
        if parent.and_then(|parent| u32::try_from(parent).ok()) != Some(self.parent) {
            return Err(Trouble::failed("whoever was to run the command is gone"));
        }
        let error = self.become_it(&mut report);
        let number = error.raw_os_error().unwrap_or_default();
        // Whoever reads it tells why; if it cannot be told, nothing has run either.
        let _ = write!(report, "{number}");
        Ok(super::Exit::Failed)
    }

    fn become_it(&self, report: &mut File) -> Error {
        if let Err(error) = report.write_all(BEGINS) {
            return error;
        }
        let mut command = Command::new(&self.program);
        if let Some((name, arguments)) = self.words.split_first() {
            command.arg0(name).args(arguments);
        }
        command.exec()
    }
}

/// How a start went.
#[derive(Debug)]
pub(super) enum Started {
    /// The command has begun.
    Ran,
    /// It has not.
    Not(Error),
}

/// Where `exec-start` tells how it went.
#[derive(Debug)]
pub(super) struct Report {
    reader: PipeReader,
    writer: PipeWriter,
}

impl Report {
    /// One for a single start.
    pub(super) fn new() -> Result<Self, Error> {
        let (reader, writer) = std::io::pipe()?;
        Ok(Self { reader, writer })
    }

    /// Where a child of this process finds it.
    pub(super) fn path(&self) -> String {
        let (process, pipe) = (std::process::id(), self.writer.as_raw_fd());
        format!("/proc/{process}/fd/{pipe}")
    }

    /// What was told. To be asked only when the child has ended, for else this would wait for it.
    pub(super) fn read(self) -> Started {
        drop(self.writer);
        let mut told = Vec::new();
        if let Err(error) = self.reader.take(REPORT_BYTES_MAX).read_to_end(&mut told) {
            return Started::Not(error);
        }
        match told.strip_prefix(BEGINS) {
            Some([]) => Started::Ran,
            Some(number) => {
                let number = String::from_utf8_lossy(number).parse();
                Started::Not(Error::from_raw_os_error(number.unwrap_or_default()))
            }
            None => Started::Not(Error::other("it ended before it began")),
        }
    }
}
