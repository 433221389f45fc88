//! A `fencepost` process of one test.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc;
use std::time::Duration;

use fencepost::engine::Boottime;
use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

/// How long anything here may take before the test fails.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

/// A command that knows no environment but what the test gives it.
pub(crate) fn fencepost(runtime_dir: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_fencepost"));
    command
        .env_clear()
        .env("XDG_RUNTIME_DIR", runtime_dir)
        .stdin(Stdio::null());
    command
}

/// Runs a command that is expected to end by itself.
pub(crate) fn output(arguments: &[&str], environment: &[(&str, &str)]) -> (Option<i32>, String) {
    let runtime_dir = tempfile::tempdir().unwrap();
    let mut command = fencepost(runtime_dir.path());
    command.args(arguments).envs(environment.iter().copied());
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let status = wait(&mut child);
    let mut text = String::new();
    child
        .stderr
        .take()
        .unwrap()
        .read_to_string(&mut text)
        .unwrap();
    let mut out = String::new();
    child
        .stdout
        .take()
        .unwrap()
        .read_to_string(&mut out)
        .unwrap();
    assert!(!out.contains("ready"), "it was ready: {out}");
    (status.code(), text)
}

/// Waits for the end of a process, and kills it if it does not end.
pub(crate) fn wait(child: &mut Child) -> ExitStatus {
    let begun = Boottime::now();
    while Boottime::now().since(begun) < PATIENCE {
        if let Some(status) = child.try_wait().unwrap() {
            return status;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    child.kill().unwrap();
    child.wait().unwrap();
    panic!("the process did not end within {PATIENCE:?}");
}

/// A running sidecar, killed when it is dropped.
pub(crate) struct Sidecar {
    child: Option<Child>,
    pub(crate) address: SocketAddr,
    pub(crate) runtime_dir: TempDir,
    ready: Option<std::thread::JoinHandle<()>>,
}

impl Sidecar {
    /// `fencepost dev` on a free port.
    pub(crate) fn dev() -> Self {
        Self::dev_with(&[], &[])
    }

    pub(crate) fn dev_with(arguments: &[&str], environment: &[(&str, &str)]) -> Self {
        let runtime_dir = tempfile::tempdir().unwrap();
        let mut command = fencepost(runtime_dir.path());
        command
            .args(["dev", "--listen", "127.0.0.1:0"])
            .args(arguments);
        command.envs(environment.iter().copied());
        let mut child = command
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let (sender, receiver) = mpsc::sync_channel(1);
        let mut out = BufReader::new(child.stdout.take().unwrap());
        let ready = std::thread::spawn(move || {
            let mut line = String::new();
            out.read_line(&mut line).unwrap();
            // The test may have given up.
            let _ = sender.send(line);
        });
        let line = receiver.recv_timeout(PATIENCE).unwrap();
        let address = line
            .strip_prefix("ready on ")
            .and_then(|rest| rest.trim_end().parse().ok());
        let Some(address) = address else {
            child.kill().unwrap();
            let mut log = String::new();
            child
                .stderr
                .take()
                .unwrap()
                .read_to_string(&mut log)
                .unwrap();
            panic!("not ready: {line:?}\n{log}");
        };
        Self {
            child: Some(child),
            address,
            runtime_dir,
            ready: Some(ready),
        }
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    pub(crate) fn admin_socket(&self) -> PathBuf {
        self.runtime_dir
            .path()
            .join(format!("fencepost-{}.sock", self.address.port()))
    }

    pub(crate) fn signal(&self, signal: Signal) {
        let pid = Pid::from_child(self.child.as_ref().unwrap());
        kill_process(pid, signal).unwrap();
    }

    /// Waits for the end; answers how it ended, how long that took, the log, and the directory it ran in.
    pub(crate) fn ended(mut self) -> (ExitStatus, Duration, String, TempDir) {
        let begun = Boottime::now();
        let mut child = self.child.take().unwrap();
        let status = wait(&mut child);
        let took = Boottime::now().since(begun);
        let mut log = String::new();
        child
            .stderr
            .take()
            .unwrap()
            .read_to_string(&mut log)
            .unwrap();
        let runtime_dir = std::mem::replace(&mut self.runtime_dir, tempfile::tempdir().unwrap());
        (status, took, log, runtime_dir)
    }

    /// SIGKILL: nothing is tidied up.
    pub(crate) fn killed(mut self) {
        let mut child = self.child.take().unwrap();
        child.kill().unwrap();
        child.wait().unwrap();
    }

    /// Sends bytes and reads what comes until the other side closes.
    pub(crate) fn raw(&self, bytes: &[u8]) -> String {
        let mut stream = self.connect();
        stream.write_all(bytes).unwrap();
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).unwrap();
        String::from_utf8(answer).unwrap()
    }

    pub(crate) fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(self.address).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.set_write_timeout(Some(PATIENCE)).unwrap();
        stream
    }
}

impl Drop for Sidecar {
    fn drop(&mut self) {
        if let Some(mut child) = self.child.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
        if let Some(ready) = self.ready.take() {
            let _ = ready.join();
        }
    }
}
