//! A real etcd on loopback, shared by the tests that run at the same time.

use std::net::TcpListener;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Weak};
use std::time::Duration;

use tempfile::TempDir;
use tokio::sync::Mutex;

/// How long a start may take.
const READY_WITHIN: Duration = Duration::from_secs(30);
/// Another process may take a free port before etcd does; so often a start is tried anew.
const STARTS_MAX: usize = 5;

/// One member that is its own cluster. It is killed with its last handle.
pub(crate) struct Etcd {
    pub(crate) url: String,
    process: Child,
    // Below the process, which is killed by `Drop` before its files go.
    directory: TempDir,
}

static SHARED: Mutex<Weak<Etcd>> = Mutex::const_new(Weak::new());

impl Etcd {
    pub(crate) async fn shared() -> Arc<Self> {
        let mut shared = SHARED.lock().await;
        if let Some(running) = shared.upgrade() {
            return running;
        }
        let started = Arc::new(Self::start().await);
        *shared = Arc::downgrade(&started);
        started
    }

    pub(crate) async fn start() -> Self {
        for _ in 0..STARTS_MAX {
            let mut etcd = Self::launch();
            if etcd.ready().await {
                return etcd;
            }
            let log = std::fs::read_to_string(etcd.directory.path().join("log")).unwrap();
            assert!(log.contains("address already in use"), "etcd:\n{log}");
        }
        panic!("no free port in {STARTS_MAX} starts");
    }

    fn launch() -> Self {
        let directory = TempDir::with_prefix("fencepost-store-").unwrap();
        let (url, peer) = (free_url(), free_url());
        let log = std::fs::File::create(directory.path().join("log")).unwrap();
        let process = Command::new(std::env::var_os("TEST_ETCD").unwrap_or_else(|| "etcd".into()))
            .arg("--data-dir")
            .arg(directory.path().join("data"))
            .args(["--name", "test", "--listen-client-urls", &url])
            .args(["--advertise-client-urls", &url])
            .args(["--listen-peer-urls", &peer])
            .args(["--initial-advertise-peer-urls", &peer])
            .args(["--initial-cluster", &format!("test={peer}")])
            .args(["--logger", "zap", "--log-outputs", "stderr"])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()
            .expect("these tests need a real etcd, and there is none in PATH: install it");
        Self {
            url,
            process,
            directory,
        }
    }

    /// Polls a linearizable read, which only a member with a leader answers.
    async fn ready(&mut self) -> bool {
        let looked = tokio::time::timeout(READY_WITHIN, async {
            while self.process.try_wait().unwrap().is_none() {
                if let Ok(mut client) = etcd_client::Client::connect([&self.url], None).await
                    && client.get("ready", None).await.is_ok()
                {
                    return true;
                }
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
            false
        });
        looked.await.unwrap_or(false)
    }
}

impl Drop for Etcd {
    fn drop(&mut self) {
        // Only the process of this very handle.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// A port that was free a moment ago.
pub(crate) fn free_url() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    format!("http://{}", listener.local_addr().unwrap())
}
