//! A real etcd for the length of a test.

use std::ffi::OsString;
use std::fs::File;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use etcd_client::Channel;
use etcd_client::proto::{PbRangeRequest, PbRangeResponse};
use tempfile::TempDir;
use tokio::time::{Instant, sleep};
use tonic::transport::Endpoint;

use crate::wire::Wire;

const START_LIMIT: Duration = Duration::from_secs(20);
const POLL_EVERY: Duration = Duration::from_millis(20);

/// Major and minor of the version that is compared with.
pub(crate) type Line = (u32, u32);

/// Listens on a port the kernel chose; killed when dropped.
pub(crate) struct Etcd {
    process: Child,
    directory: TempDir,
}

fn program() -> OsString {
    std::env::var_os("TEST_ETCD").unwrap_or_else(|| "etcd".into())
}

impl Etcd {
    /// Which one it is.
    pub(crate) fn line() -> Line {
        let said = Command::new(program()).arg("--version").output();
        let said = said.expect("etcd --version runs").stdout;
        let said = String::from_utf8_lossy(&said);
        let version = said
            .lines()
            .find_map(|line| line.strip_prefix("etcd Version: "));
        let mut numbers = version.expect("a version").split('.');
        let mut next = || numbers.next().and_then(|number| number.parse().ok());
        next().zip(next()).expect("major and minor")
    }

    /// Answers once a linearizable read went through.
    pub(crate) async fn start() -> (Self, Wire) {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let any = "http://127.0.0.1:0";
        let log = File::create(directory.path().join("log")).unwrap();
        let process = Command::new(program())
            .args([
                "--data-dir",
                directory.path().join("data").to_str().unwrap(),
            ])
            .args(["--listen-client-urls", any, "--advertise-client-urls", any])
            .args([
                "--listen-peer-urls",
                any,
                "--initial-advertise-peer-urls",
                any,
            ])
            .args(["--initial-cluster", "default=http://127.0.0.1:0"])
            .args(["--logger", "zap", "--log-outputs", "stderr"])
            .env_clear()
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()
            .expect("this test compares with a real etcd; install one, version 3.4, on the PATH");
        let mut etcd = Self { process, directory };
        let deadline = Instant::now() + START_LIMIT;
        let address = loop {
            if let Some(address) = etcd.address() {
                break address;
            }
            etcd.wait(deadline).await;
        };
        let endpoint = Endpoint::from_shared(format!("http://{address}")).unwrap();
        let mut wire = Wire::new(Channel::Tonic(endpoint.connect_lazy()));
        let read = PbRangeRequest {
            key: b"ready".to_vec(),
            ..Default::default()
        };
        while wire
            .unary::<_, PbRangeResponse>("KV/Range", read.clone())
            .await
            .is_err()
        {
            etcd.wait(deadline).await;
        }
        (etcd, wire)
    }

    fn log(&self) -> String {
        std::fs::read_to_string(self.directory.path().join("log")).unwrap_or_default()
    }

    fn address(&self) -> Option<String> {
        let log = self.log();
        let line = log
            .lines()
            .find(|line| line.contains("serving client traffic insecurely"))?;
        let start = line.find("127.0.0.1:")?;
        let rest = &line[start..];
        Some(rest.split('"').next()?.to_owned())
    }

    async fn wait(&mut self, deadline: Instant) {
        let ended = self.process.try_wait().unwrap();
        assert!(
            ended.is_none(),
            "etcd ended at once: {ended:?}\n{}",
            self.log()
        );
        assert!(
            Instant::now() < deadline,
            "etcd did not get ready\n{}",
            self.log()
        );
        sleep(POLL_EVERY).await;
    }
}

impl Drop for Etcd {
    fn drop(&mut self) {
        self.process.kill().ok();
        self.process.wait().ok();
    }
}
