//! A real etcd on loopback.

use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use fencepost::store::Version;
use tempfile::TempDir;
use tokio::sync::OnceCell;

use super::child::Child;

/// How long etcd may take to answer a linearizable read after its start.
const READY_WITHIN: Duration = Duration::from_secs(30);
/// Another process may take a free port before etcd does; so often a start is tried anew.
const STARTS_MAX: usize = 5;
/// The members are on one machine; the defaults are for networks.
const HEARTBEAT_MS: &str = "50";
const ELECTION_MS: &str = "500";
/// Names another etcd than the one in PATH: an absolute path.
const NAMED_BY: &str = "TEST_ETCD";
/// Where an older etcd, which flushes each write to the disk, is spared the disk: nothing here has to survive a power cut.
const IN_MEMORY: &str = "/dev/shm";

/// One etcd member that is its own cluster. It ends with its last handle, and with the test binary.
#[derive(Debug)]
pub(crate) struct Etcd {
    child: Child,
    url: String,
    /// Where it is reached over TLS, if it is.
    tls_url: Option<String>,
    peer_url: String,
    /// Flags of one test.
    more: Vec<String>,
    // Below `child`, so that the process is gone before its files are.
    directory: TempDir,
}

static SHARED: OnceCell<Arc<Etcd>> = OnceCell::const_new();

impl Etcd {
    /// The instance that this test binary shares; every test uses a prefix of its own.
    pub(crate) async fn shared() -> Arc<Self> {
        let start = || async { Arc::new(Self::start().await) };
        Arc::clone(SHARED.get_or_init(start).await)
    }

    /// An instance of its own, for a test that stops it.
    pub(crate) async fn start() -> Self {
        Self::start_with(false, &[]).await
    }

    /// One with further flags; with `tls`, these say which certificates it has on a second address.
    pub(crate) async fn start_with(tls: bool, more: &[&str]) -> Self {
        let more: Vec<String> = more.iter().map(|flag| (*flag).to_owned()).collect();
        let mut named = tempfile::Builder::new();
        let named = named.prefix("fencepost-etcd-");
        let memory = Path::new(IN_MEMORY);
        let directory = if can_skip_fsync() || !memory.is_dir() {
            named.tempdir()
        } else {
            named.tempdir_in(memory)
        };
        let mut directory = directory.expect("a temporary directory");
        for attempt in 0..STARTS_MAX {
            let tls_url = tls.then(|| free_url().replace("http://", "https://"));
            let urls = (free_url(), tls_url, free_url());
            let etcd = Self::launch(directory, urls, more.clone(), attempt);
            if etcd.ready().await {
                return etcd;
            }
            let logs = etcd.child.logs();
            assert!(logs.contains("address already in use"), "etcd:\n{logs}");
            directory = etcd.directory;
        }
        panic!("no free port in {STARTS_MAX} starts");
    }

    /// Kills it and starts it anew on its data.
    pub(crate) async fn restart(self) -> Self {
        self.child.kill().await;
        let urls = (self.url, self.tls_url, self.peer_url);
        let etcd = Self::launch(self.directory, urls, self.more, STARTS_MAX);
        assert!(etcd.ready().await, "etcd:\n{}", etcd.child.logs());
        etcd
    }

    /// Saves a backup of all that it holds now.
    pub(crate) fn back_up(&self, to: &Path) {
        let saved = Command::new("etcdctl")
            .env("ETCDCTL_API", "3")
            .args(["--endpoints", &self.url, "snapshot", "save"])
            .arg(to)
            .output()
            .expect("these tests need `etcdctl` in PATH: `make test` brings it");
        let said = String::from_utf8_lossy(&saved.stderr);
        assert!(saved.status.success(), "{said}");
    }

    /// Kills it and starts it anew with what a backup holds, on the same addresses. With `least`, its revision is raised to
    /// that before anybody can reach it: by `--bump-revision`, and with `--mark-compacted`, if its version knows them.
    pub(crate) async fn restore(self, backup: &Path, least: Option<i64>) -> Self {
        self.child.kill().await;
        let data = self.directory.path().join("data");
        std::fs::remove_dir_all(&data).expect("the data of a member that is gone");
        let peer = &self.peer_url;
        let mut restoring = Command::new(restorer());
        restoring
            .env("ETCDCTL_API", "3")
            .args(["snapshot", "restore"])
            .arg(backup)
            .arg(format!("--data-dir={}", data.display()))
            .arg("--name=test")
            .arg(format!("--initial-cluster=test={peer}"))
            .arg(format!("--initial-advertise-peer-urls={peer}"));
        let mut raise = least;
        if let Some(least) = raise.filter(|_| restores_with_a_bump()) {
            restoring.arg(format!("--bump-revision={least}"));
            restoring.arg("--mark-compacted");
            raise = None;
        }
        let restored = restoring.output().expect("it runs");
        let said = String::from_utf8_lossy(&restored.stderr);
        assert!(restored.status.success(), "{said}");
        let mut directory = self.directory;
        if let Some(least) = raise {
            let urls = (free_url(), None, self.peer_url.clone());
            let hidden = Self::launch(directory, urls, Vec::new(), STARTS_MAX + 1);
            assert!(hidden.ready().await, "etcd:\n{}", hidden.child.logs());
            super::backend::raise_revision(&hidden.url, least).await;
            hidden.child.kill().await;
            directory = hidden.directory;
        }
        let urls = (self.url, self.tls_url, self.peer_url);
        let etcd = Self::launch(directory, urls, self.more, STARTS_MAX);
        assert!(etcd.ready().await, "etcd:\n{}", etcd.child.logs());
        etcd
    }

    /// Its address.
    pub(crate) fn url(&self) -> &str {
        &self.url
    }

    /// Its address for TLS.
    pub(crate) fn tls_url(&self) -> &str {
        self.tls_url.as_deref().expect("it was started with TLS")
    }

    /// Its process.
    pub(crate) fn child(&self) -> &Child {
        &self.child
    }

    fn launch(
        directory: TempDir,
        (url, tls_url, peer_url): (String, Option<String>, String),
        more: Vec<String>,
        attempt: usize,
    ) -> Self {
        let data = directory.path().join("data");
        let client_urls = [Some(&url), tls_url.as_ref()];
        let client_urls: Vec<_> = client_urls
            .into_iter()
            .flatten()
            .map(String::as_str)
            .collect();
        let client_urls = client_urls.join(",");
        let mut arguments = vec![
            "--name=test".to_owned(),
            format!("--data-dir={}", data.display()),
            format!("--listen-client-urls={client_urls}"),
            format!("--advertise-client-urls={client_urls}"),
            format!("--listen-peer-urls={peer_url}"),
            format!("--initial-advertise-peer-urls={peer_url}"),
            format!("--initial-cluster=test={peer_url}"),
            format!("--heartbeat-interval={HEARTBEAT_MS}"),
            format!("--election-timeout={ELECTION_MS}"),
            "--logger=zap".to_owned(),
            "--log-outputs=stderr".to_owned(),
        ];
        if can_skip_fsync() {
            arguments.push("--unsafe-no-fsync".to_owned());
        }
        arguments.extend(more.iter().cloned());
        let log = directory.path().join(format!("etcd-{attempt}"));
        let remove = Some(directory.path());
        Self {
            child: Child::start(&program(), &arguments, &[], &log, remove),
            url,
            tls_url,
            peer_url,
            more,
            directory,
        }
    }

    /// Polls a linearizable read: only a member with a leader answers it.
    async fn ready(&self) -> bool {
        let looked = tokio::time::timeout(READY_WITHIN, async {
            while self.child.runs() {
                if super::backend::linearizable_read(&self.url).await {
                    return true;
                }
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
            false
        });
        looked.await.unwrap_or(false)
    }
}

/// A port that was free a moment ago.
pub(super) fn free_url() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("loopback has a free port");
    let address = listener.local_addr().expect("it is bound");
    format!("http://{address}")
}

fn found(program: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path)
        .map(|directory| directory.join(program))
        .find(|candidate| candidate.is_file())
}

pub(crate) fn program() -> PathBuf {
    static FOUND: OnceLock<PathBuf> = OnceLock::new();
    let look = || {
        if let Some(named) = std::env::var_os(NAMED_BY) {
            let named = PathBuf::from(named);
            assert!(
                named.is_file(),
                "{NAMED_BY} names {named:?}, which is no file"
            );
            return named;
        }
        found("etcd").expect(
            "these tests need a real etcd, 3.4 or newer, and there is no `etcd` in PATH: \
             run them by `make test`, which brings one, or install it",
        )
    };
    FOUND.get_or_init(look).clone()
}

/// What restores a backup for this etcd: the program that lies beside it, or one in PATH. Newer versions have one of its own for it.
fn restorer() -> PathBuf {
    let beside = program().with_file_name("etcdutl");
    let own = Some(beside).filter(|beside| beside.is_file());
    let own = own.or_else(|| found("etcdutl"));
    own.unwrap_or_else(|| PathBuf::from("etcdctl"))
}

/// Whether backups are restored with raised revisions by etcd's own means, as from 3.5.10 on.
pub(crate) fn restores_with_a_bump() -> bool {
    static FOUND: OnceLock<bool> = OnceLock::new();
    *FOUND.get_or_init(|| {
        let help = Command::new(restorer())
            .env("ETCDCTL_API", "3")
            .args(["snapshot", "restore", "--help"])
            .output()
            .expect("these tests need `etcdutl` or `etcdctl`: `make test` brings one");
        let text = [help.stdout, help.stderr].concat();
        let knows = String::from_utf8_lossy(&text).contains("--bump-revision");
        // A version that was asked for by name is tested with what belongs to it.
        let named = std::env::var_os(NAMED_BY).is_some();
        let should = version(&program()) >= Version::parse("3.5.10");
        assert!(
            knows || !(named && should),
            "the etcd that {NAMED_BY} names restores backups with `--bump-revision`, and there is no `etcdutl` beside it: \
             scripts/etcd-build.sh builds one"
        );
        knows
    })
}

/// Which version a program is.
pub(crate) fn version(program: &Path) -> Option<Version> {
    let said = Command::new(program).arg("--version").output();
    let said = said.expect("etcd --version runs").stdout;
    let said = String::from_utf8_lossy(&said);
    let version = said.lines().next()?.strip_prefix("etcd Version: ")?;
    Version::parse(version.trim())
}

/// Whether this version can leave the disk alone (3.5 and newer): a test binary does not survive a power cut anyhow.
pub(super) fn can_skip_fsync() -> bool {
    static FOUND: OnceLock<bool> = OnceLock::new();
    *FOUND.get_or_init(|| {
        let help = Command::new(program()).arg("--help").output();
        let help = help.expect("etcd --help runs");
        let text = [help.stdout, help.stderr].concat();
        String::from_utf8_lossy(&text).contains("--unsafe-no-fsync")
    })
}
