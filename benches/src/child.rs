//! A process that is measured. It ends with its handle, and with the benchmark however that ends: `setpriv` asks the
//! kernel to kill it when the thread that started it is gone. So processes are started from the main thread alone.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::Outcome;

/// How long a process may take to end once it was asked to.
const END_WITHIN: Duration = Duration::from_secs(20);
/// How often it is looked after.
const LOOK: Duration = Duration::from_millis(5);

/// How a process ends cleanly.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Ending {
    /// By SIGTERM.
    Terminate,
    /// By SIGINT: what PostgreSQL calls a fast shutdown.
    Interrupt,
}

/// A running process.
#[derive(Debug)]
pub(crate) struct Process {
    child: Child,
    ending: Ending,
    stdout: PathBuf,
    stderr: PathBuf,
}

/// What the kernel tells of a process.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Usage {
    pub(crate) resident_bytes: u64,
    pub(crate) threads: u64,
}

impl Process {
    /// Starts a program, as another user if one is named. Its output goes to `<log>.out` and `<log>.err`.
    pub(crate) fn start(
        program: &Path,
        arguments: &[String],
        user: Option<&str>,
        log: &Path,
        ending: Ending,
    ) -> Outcome<Self> {
        let stdout = log.with_extension("out");
        let stderr = log.with_extension("err");
        let mut command = Command::new("setpriv");
        if let Some(user) = user {
            command.args(as_user(user));
        }
        let child = command
            .args(["--pdeathsig", "KILL"])
            .arg(program)
            .args(arguments)
            .stdin(Stdio::null())
            .stdout(File::create(&stdout)?)
            .stderr(File::create(&stderr)?)
            .spawn()
            .map_err(|error| format!("{} cannot be started: {error}", program.display()))?;
        Ok(Self {
            child,
            ending,
            stdout,
            stderr,
        })
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Fails once it has ended.
    pub(crate) fn check_runs(&mut self) -> Outcome<()> {
        match self.child.try_wait()? {
            None => Ok(()),
            Some(status) => Err(format!("it ended ({status}):\n{}", self.logs()).into()),
        }
    }

    pub(crate) fn stdout(&self) -> String {
        std::fs::read_to_string(&self.stdout).unwrap_or_default()
    }

    /// All that it wrote.
    pub(crate) fn logs(&self) -> String {
        let errors = std::fs::read_to_string(&self.stderr).unwrap_or_default();
        format!("{}{errors}", self.stdout())
    }

    pub(crate) fn usage(&self) -> Outcome<Usage> {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.pid()))?;
        let field = |name: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(name));
            let number = line.and_then(|line| line.split_whitespace().next());
            let number = number.and_then(|number| number.parse::<u64>().ok());
            number.ok_or_else(|| format!("/proc has no {name} for a process"))
        };
        Ok(Usage {
            resident_bytes: field("VmRSS:")? * 1024,
            threads: field("Threads:")?,
        })
    }

    /// The time that its threads have been on a CPU.
    pub(crate) fn cpu(&self) -> Outcome<Duration> {
        cpu_of(self.pid())
    }

    fn end(&mut self) {
        if !matches!(self.child.try_wait(), Ok(None)) {
            return;
        }
        let signal = match self.ending {
            Ending::Terminate => "-TERM",
            Ending::Interrupt => "-INT",
        };
        // The process is ours and not yet waited for, so its id cannot be another's.
        let asked = Command::new("kill")
            .args([signal, &self.pid().to_string()])
            .stderr(Stdio::null())
            .status();
        let give_up = Instant::now() + END_WITHIN;
        while asked.as_ref().is_ok_and(|status| status.success()) && Instant::now() < give_up {
            if !matches!(self.child.try_wait(), Ok(None)) {
                return;
            }
            std::thread::sleep(LOOK);
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.end();
    }
}

/// The arguments of `setpriv` for a user.
pub(crate) fn as_user(user: &str) -> [String; 3] {
    [
        format!("--reuid={user}"),
        format!("--regid={user}"),
        "--init-groups".to_owned(),
    ]
}

/// The time that the threads of a process have been on a CPU, in the kernel's own nanoseconds. Those of threads that are
/// gone are lost; what is measured here keeps its threads.
pub(crate) fn cpu_of(pid: u32) -> Outcome<Duration> {
    let mut nanos = 0;
    for task in std::fs::read_dir(format!("/proc/{pid}/task"))? {
        // A thread may end while it is looked at.
        let Ok(text) = std::fs::read_to_string(task?.path().join("schedstat")) else {
            continue;
        };
        let on_cpu = text.split_whitespace().next();
        nanos += on_cpu.and_then(|n| n.parse::<u64>().ok()).unwrap_or(0);
    }
    Ok(Duration::from_nanos(nanos))
}
