//! The real program, as a process.

use std::path::Path;
use std::time::Duration;

use fencepost::proto::v1::coordination_service_client::CoordinationServiceClient;
use rustix::process::Signal;
use tempfile::TempDir;
use tonic::transport::{Channel, Endpoint};

use super::child::Child;

/// How long it may take to open its port.
const READY_WITHIN: Duration = Duration::from_secs(20);
/// How long one call of a test client may take.
const CALL_TIMEOUT: Duration = Duration::from_secs(15);

/// A running `fencepost serve` or `fencepost dev`, on a port of its own choice.
#[derive(Debug)]
pub(crate) struct Process {
    child: Child,
    address: String,
    // Below `child`, so that the process is gone before its files are.
    directory: TempDir,
}

impl Process {
    /// On etcd. `settings` are further flags.
    pub(crate) async fn serve(etcd: &str, prefix: &str, settings: &[&str]) -> Self {
        let mut arguments = vec!["serve", "--etcd-endpoints", etcd, "--etcd-prefix", prefix];
        arguments.extend_from_slice(settings);
        Self::start(&arguments).await
    }

    /// On a store in memory.
    pub(crate) async fn dev(settings: &[&str]) -> Self {
        let mut arguments = vec!["dev"];
        arguments.extend_from_slice(settings);
        Self::start(&arguments).await
    }

    async fn start(arguments: &[&str]) -> Self {
        let directory = tempfile::Builder::new().prefix("fencepost-").tempdir();
        let directory = directory.expect("a temporary directory");
        let mut all: Vec<String> = arguments.iter().map(|text| (*text).to_owned()).collect();
        all.extend(["--listen".to_owned(), "127.0.0.1:0".to_owned()]);
        let admin_socket = directory.path().join("admin.sock");
        all.push("--admin-socket".to_owned());
        all.push(admin_socket.to_string_lossy().into_owned());
        let child = Child::start(
            Path::new(env!("CARGO_BIN_EXE_fencepost")),
            &all,
            &[],
            &directory.path().join("fencepost"),
            Some(directory.path()),
        );
        let look = || async {
            assert!(child.runs(), "it ended at once:\n{}", child.logs());
            address_in(&child.logs())
        };
        let address = super::until("its ready line", READY_WITHIN, look).await;
        Self {
            child,
            address,
            directory,
        }
    }

    /// A connection of its own.
    pub(crate) fn client(&self) -> CoordinationServiceClient<Channel> {
        let endpoint = Endpoint::from_shared(format!("http://{}", self.address));
        let endpoint = endpoint.expect("an address").timeout(CALL_TIMEOUT);
        CoordinationServiceClient::new(endpoint.connect_lazy())
    }

    /// Host and port.
    pub(crate) fn address(&self) -> &str {
        &self.address
    }

    /// Where operators reach it.
    pub(crate) fn admin_socket(&self) -> std::path::PathBuf {
        self.directory.path().join("admin.sock")
    }

    /// SIGKILL, and it is gone.
    pub(crate) async fn kill(&self) {
        self.child.kill().await;
    }

    /// SIGTERM; answers the exit code.
    pub(crate) async fn terminate(&self) -> i32 {
        self.child.signal(Signal::TERM);
        self.child.ended().await
    }

    /// Sends it a signal.
    pub(crate) fn signal(&self, signal: Signal) {
        self.child.signal(signal);
    }

    /// Stops it where it stands, as a long pause of the machine would.
    pub(crate) fn pause(&self) {
        self.child.signal(Signal::STOP);
    }

    /// Lets it go on.
    pub(crate) fn resume(&self) {
        self.child.signal(Signal::CONT);
    }

    /// Waits until it ends by itself; answers the exit code, 128 and more for a signal.
    pub(crate) async fn ended(&self) -> i32 {
        self.child.ended().await
    }

    /// All that it wrote.
    pub(crate) fn logs(&self) -> String {
        self.child.logs()
    }
}

/// The address in the ready line.
fn address_in(logs: &str) -> Option<String> {
    let ready = logs.lines().find_map(|line| line.strip_prefix("ready on "));
    ready.map(|address| address.trim().to_owned())
}
