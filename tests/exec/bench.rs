//! A directory, and `exec`s that run in it.

use std::io::{BufRead as _, BufReader};
use std::path::PathBuf;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::Duration;

use fencepost::proto::v1::coordination_service_client::CoordinationServiceClient;
use fencepost::proto::v1::{InspectRequest, Resource, Snapshot};
use fencepost::server::{Running, start_dev};
use rustix::process::{Pid, Signal, kill_process, test_kill_process};

use crate::support::process::Process;
use crate::support::until;

/// How long what must happen may take, where no promise says how long.
pub(crate) const SOON: Duration = Duration::from_secs(30);
/// A script that a signal to stop does not end, and that tells when it is up.
pub(crate) const STUBBORN: &str =
    r#"trap 'echo told >> "$LOG"' TERM; echo up $$; while :; do sleep 0.02; done"#;

pub(crate) struct Said {
    pub(crate) exit: i32,
    pub(crate) out: String,
    pub(crate) err: String,
}

/// A directory, and `exec`s that ask one sidecar.
pub(crate) struct Bench {
    pub(crate) address: String,
    admin_socket: Option<PathBuf>,
    directory: tempfile::TempDir,
    // Below, so that it outlives nothing that asks it.
    _sidecar: Option<Running>,
}

impl Bench {
    pub(crate) async fn start() -> Self {
        let sidecar = start_dev("127.0.0.1:0".parse().unwrap()).await.unwrap();
        Self {
            address: sidecar.addr().to_string(),
            admin_socket: None,
            directory: tempfile::tempdir().unwrap(),
            _sidecar: Some(sidecar),
        }
    }

    pub(crate) fn at(process: &Process) -> Self {
        Self {
            address: process.address().to_owned(),
            admin_socket: Some(process.admin_socket()),
            directory: tempfile::tempdir().unwrap(),
            _sidecar: None,
        }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// What the commands have written into `$LOG`.
    pub(crate) fn log(&self) -> String {
        std::fs::read_to_string(self.path("log")).unwrap_or_default()
    }

    pub(crate) fn command(&self, program: &str, words: &[&str]) -> Command {
        let mut command = Command::new(program);
        for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("FENCEPOST_")) {
            command.env_remove(name);
        }
        command
            .args(words)
            .env("FENCEPOST_ADDR", &self.address)
            .env("BIN", env!("CARGO_BIN_EXE_fencepost"))
            .env("LOG", self.path("log"))
            .env("DIR", self.directory.path())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        if let Some(socket) = &self.admin_socket {
            command.env("FENCEPOST_ADMIN_SOCKET", socket);
        }
        command
    }

    /// `fencepost exec job nightly WORDS -- sh -c SCRIPT`.
    pub(crate) fn begin(&self, words: &[&str], script: &str) -> Exec {
        self.begin_at(&self.address, words, script)
    }

    /// The same, at another sidecar, as on another machine.
    pub(crate) fn begin_at(&self, address: &str, words: &[&str], script: &str) -> Exec {
        let all = [
            &["exec", "job", "nightly"],
            words,
            &["--", "sh", "-c", script],
        ]
        .concat();
        let mut command = self.command(env!("CARGO_BIN_EXE_fencepost"), &all);
        command.env("FENCEPOST_ADDR", address);
        Exec::start(command)
    }

    pub(crate) async fn run(&self, words: &[&str], script: &str) -> Said {
        self.begin(words, script).ended().await
    }

    pub(crate) async fn fencepost(&self, words: &[&str]) -> Said {
        Exec::start(self.command(env!("CARGO_BIN_EXE_fencepost"), words))
            .ended()
            .await
    }

    pub(crate) async fn inspect(&self, id: &str) -> Snapshot {
        inspect(&self.address, id).await
    }

    pub(crate) async fn held(&self) -> bool {
        self.inspect("nightly").await.live_token != 0
    }
}

pub(crate) async fn client(address: &str) -> CoordinationServiceClient<tonic::transport::Channel> {
    let address = format!("http://{address}");
    CoordinationServiceClient::connect(address).await.unwrap()
}

pub(crate) async fn inspect(address: &str, id: &str) -> Snapshot {
    let resource = Some(Resource {
        kind: "job".into(),
        id: id.into(),
    });
    let answer = client(address)
        .await
        .inspect(InspectRequest {
            resource,
            ..InspectRequest::default()
        })
        .await;
    answer.unwrap().into_inner().snapshot.unwrap()
}

/// How many calls wait for it.
pub(crate) async fn waiting(address: &str, id: &str) -> i32 {
    let resource = Some(Resource {
        kind: "job".into(),
        id: id.into(),
    });
    let request = InspectRequest {
        resource,
        with_queue: true,
    };
    let answer = client(address).await.inspect(request).await.unwrap();
    answer.into_inner().queue.unwrap().calls
}

/// A process that does not outlive its test.
pub(crate) struct Exec {
    child: Option<Child>,
    pid: Pid,
    pub(crate) input: Option<ChildStdin>,
    out: Option<BufReader<ChildStdout>>,
}

impl Exec {
    pub(crate) fn start(mut command: Command) -> Self {
        let mut child = command.spawn().unwrap();
        Self {
            pid: Pid::from_child(&child),
            input: child.stdin.take(),
            out: child.stdout.take().map(BufReader::new),
            child: Some(child),
        }
    }

    /// The next line that the command says.
    pub(crate) async fn line(&mut self) -> String {
        let mut out = self.out.take().unwrap();
        let (line, out) = tokio::task::spawn_blocking(move || {
            let mut line = String::new();
            out.read_line(&mut line).unwrap();
            (line, out)
        })
        .await
        .unwrap();
        self.out = Some(out);
        line.trim().to_owned()
    }

    /// Reads no more of what the command says.
    pub(crate) fn close(&mut self) {
        self.out = None;
    }

    /// The process of a script that says `up PID`.
    pub(crate) async fn up(&mut self) -> Pid {
        let line = self.line().await;
        let pid = line
            .strip_prefix("up ")
            .unwrap_or_else(|| panic!("{line:?}"));
        pid_of(pid)
    }

    pub(crate) fn signal(&self, signal: Signal) {
        kill_process(self.pid, signal).unwrap();
    }

    pub(crate) async fn ended(mut self) -> Said {
        drop(self.input.take());
        let out = self.out.take();
        let child = self.child.take().unwrap();
        let mut killing = Killing(Some(self.pid));
        let said = tokio::task::spawn_blocking(move || {
            let mut text = String::new();
            if let Some(mut out) = out {
                std::io::Read::read_to_string(&mut out, &mut text).unwrap();
            }
            let output = child.wait_with_output().unwrap();
            Said {
                exit: output.status.code().unwrap_or(-1),
                out: text,
                err: String::from_utf8(output.stderr).unwrap(),
            }
        })
        .await;
        // It has been reaped, and its number may be another's.
        killing.0 = None;
        said.unwrap()
    }

    pub(crate) fn children(&self) -> String {
        let pid = self.pid.as_raw_nonzero();
        std::fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap()
    }

    /// The command and the guard have ended; who has not been reaped does not run.
    pub(crate) async fn children_are_gone(&self) {
        until("its children are gone", SOON, || async {
            let children = self.children();
            let mut children = children.split_whitespace().map(pid_of);
            (!children.any(runs)).then_some(())
        })
        .await;
    }

    /// Its guard, which is a child of it.
    pub(crate) fn guard(&self) -> Pid {
        let children = self.children();
        let guard = children.split_whitespace().find(|child| {
            let words = std::fs::read_to_string(format!("/proc/{child}/cmdline"));
            words.unwrap_or_default().contains("exec-guard")
        });
        pid_of(guard.unwrap_or_else(|| panic!("no guard among {children}")))
    }
}

/// Whoever is waited for by a test that gives up waiting must not keep the test from ending.
struct Killing(Option<Pid>);

impl Drop for Killing {
    fn drop(&mut self) {
        if let Some(pid) = self.0.take() {
            let _ = kill_process(pid, Signal::KILL);
        }
    }
}

impl Drop for Exec {
    fn drop(&mut self) {
        if let Some(mut child) = self.child.take() {
            // What it runs goes with it.
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

pub(crate) fn pid_of(text: &str) -> Pid {
    Pid::from_raw(text.trim().parse().unwrap()).unwrap()
}

/// A process that is nobody's any more may be left as a zombie where nobody reaps; it runs no more.
pub(crate) fn runs(pid: Pid) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", pid.as_raw_nonzero()));
    let state = stat.ok().and_then(|stat| {
        let (_, rest) = stat.rsplit_once(')')?;
        rest.trim().chars().next()
    });
    test_kill_process(pid).is_ok() && !matches!(state, Some('Z' | 'X') | None)
}

pub(crate) async fn gone(what: &str, pid: Pid) {
    until(what, SOON, || async move { (!runs(pid)).then_some(()) }).await;
}
