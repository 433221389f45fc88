//! A child process that cannot outlive the test binary, however that ends.
//!
//! A small shell stands between: it starts the program, tells its process id, and waits for the end of its own input. The
//! test holds the other end of that pipe, so even a test binary that is killed takes its children along.

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child as Shell, Command, Stdio};
use std::sync::Mutex;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process, test_kill_process};

/// How long a process may take to be gone once it was told to go.
const GONE_WITHIN: Duration = Duration::from_secs(20);

// $1: directory to remove if the test binary goes without a word; $2: file for the exit code; $3, $4: stdout and stderr.
const GUARD: &str = r#"
trap '' INT TERM HUP
remove="$1"; code="$2"; out="$3"; err="$4"; shift 4
exec 3<&0
( trap - INT TERM HUP; exec "$@" ) >"$out" 2>"$err" </dev/null 3<&- &
child=$!
echo "$child"
(
  if read -r word; then remove=""; fi
  [ -e "$code" ] || kill -9 "$child" 2>/dev/null
  if [ -n "$remove" ]; then sleep 0.2; rm -rf "$remove"; fi
) <&3 >/dev/null 2>&1 &
wait "$child"
echo "$?" >"$code.part" && mv "$code.part" "$code"
"#;

/// A running program.
#[derive(Debug)]
pub(crate) struct Child {
    shell: Mutex<Shell>,
    pid: Pid,
    code: PathBuf,
    /// Where its standard output goes.
    pub(crate) stdout: PathBuf,
    /// Where its standard error goes.
    pub(crate) stderr: PathBuf,
}

impl Child {
    /// Starts a program. Its output goes to `<log>.out` and `<log>.err`. With `remove`, that directory goes with the child.
    pub(crate) fn start(
        program: &Path,
        arguments: &[String],
        environment: &[(String, String)],
        log: &Path,
        remove: Option<&Path>,
    ) -> Self {
        let stdout = log.with_extension("out");
        let stderr = log.with_extension("err");
        let code = log.with_extension("code");
        let mut shell = Command::new("/bin/sh")
            .args(["-c", GUARD, "sh"])
            .arg(remove.map_or(Path::new(""), |path| path))
            .args([&code, &stdout, &stderr])
            .arg(program)
            .args(arguments)
            .envs(environment.iter().map(|(name, value)| (name, value)))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            // The shell would tell of each child that was killed.
            .stderr(Stdio::null())
            .spawn()
            .expect("/bin/sh can be started");
        let mut line = String::new();
        BufReader::new(shell.stdout.take().expect("stdout is piped"))
            .read_line(&mut line)
            .expect("the shell tells the process id");
        let pid = line.trim().parse().ok().and_then(Pid::from_raw);
        Self {
            shell: Mutex::new(shell),
            pid: pid.unwrap_or_else(|| panic!("not a process id: {line:?}")),
            code,
            stdout,
            stderr,
        }
    }

    /// Its process.
    pub(crate) fn pid(&self) -> Pid {
        self.pid
    }

    /// Sends a signal.
    pub(crate) fn signal(&self, signal: Signal) {
        kill_process(self.pid, signal).expect("the process is ours and runs");
    }

    /// Stops it where it stands; it stands when this returns.
    pub(crate) async fn pause(&self) {
        self.signal(Signal::STOP);
        let stat = format!("/proc/{}/stat", self.pid.as_raw_nonzero());
        super::until("the process stands still", GONE_WITHIN, || async {
            let stat = std::fs::read_to_string(&stat).ok()?;
            // Behind the name, which may hold anything.
            let (_, state) = stat.rsplit_once(") ")?;
            state.starts_with('T').then_some(())
        })
        .await;
    }

    /// Whether it still runs.
    pub(crate) fn runs(&self) -> bool {
        !self.code.exists() && test_kill_process(self.pid).is_ok()
    }

    /// Kills it and waits until it is gone.
    pub(crate) async fn kill(&self) {
        if self.runs() {
            // It may end by itself between the two calls.
            let _ = kill_process(self.pid, Signal::KILL);
        }
        self.ended().await;
    }

    /// Waits for its end; answers its exit code, 128 and more for a signal.
    pub(crate) async fn ended(&self) -> i32 {
        super::until("the process ends", GONE_WITHIN, || async {
            let code = std::fs::read_to_string(&self.code).ok()?;
            code.trim().parse().ok()
        })
        .await
    }

    /// All that it wrote.
    pub(crate) fn logs(&self) -> String {
        let read = |path| std::fs::read_to_string(path).unwrap_or_default();
        format!("{}{}", read(&self.stdout), read(&self.stderr))
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        let shell = self.shell.get_mut().expect("nothing panics holding it");
        // Closing its input is what makes the guard kill the child.
        if let Some(mut stdin) = shell.stdin.take() {
            let _ = stdin.write_all(b"end\n");
        }
        let _ = shell.wait();
    }
}
