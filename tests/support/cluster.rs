//! An etcd of three members on loopback.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use etcd_client::Client;
use fencepost::store::{Endpoint, Version};
use rustix::process::Signal;
use tempfile::TempDir;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::sync::OnceCell;

use super::backend::{connection, linearizable_read};
use super::child::Child;
use super::etcd::{can_skip_fsync, free_url, program};
use super::proxy::Proxy;
use super::until;

/// How many members. Two are a majority.
pub(crate) const MEMBERS: usize = 3;
/// How long all may take to agree on a leader.
const READY_WITHIN: Duration = Duration::from_secs(30);
/// Another process may take a free port before etcd does; so often a start is tried anew.
const STARTS_MAX: usize = 5;
/// How long a member may take to say what it is.
const STATUS_WITHIN: Duration = Duration::from_millis(500);
/// Three members on a machine that does other things too: an election for each hiccup would test nothing.
const ELECTION_MS: u32 = 1_000;
/// Where the leader seldom changes.
const SELDOM_ELECTION_MS: u32 = 2_000;
/// Where the leader stays, it is not to be taken for dead however busy the machine is.
const NO_ELECTION_MS: u32 = 10_000;

static SHARED: OnceCell<Arc<Cluster>> = OnceCell::const_new();

/// Three members, each a process of its own.
#[derive(Debug)]
pub(crate) struct Cluster {
    members: Vec<Member>,
    /// Between the members, one in front of each, if they can be cut from each other.
    lines: Vec<Proxy>,
    /// Below the members, so that the processes are gone before their files are.
    _directory: TempDir,
}

#[derive(Debug)]
struct Member {
    program: PathBuf,
    child: Child,
    url: String,
    arguments: Vec<String>,
    log: std::path::PathBuf,
}

impl Cluster {
    /// One of which a test may kill members, or stop them.
    pub(crate) async fn start() -> Self {
        Self::start_as(&program(), false, ELECTION_MS, &[]).await
    }

    /// All of this program, and with this flag.
    pub(crate) async fn start_with(program: &Path, flag: &str) -> Self {
        Self::start_as(program, false, ELECTION_MS, &[flag]).await
    }

    /// One whose members a test may cut from each other, too.
    pub(crate) async fn divisible() -> Self {
        Self::start_as(&program(), true, SELDOM_ELECTION_MS, &[]).await
    }

    /// One whose leader stays: a test may kill or stop the others.
    pub(crate) async fn steady() -> Self {
        Self::start_as(&program(), false, NO_ELECTION_MS, &[]).await
    }

    /// The cluster that this test binary shares, and whose members nobody touches; every test uses a prefix of its own.
    pub(crate) async fn shared() -> Arc<Self> {
        let start = || async { Arc::new(Self::steady().await) };
        Arc::clone(SHARED.get_or_init(start).await)
    }

    async fn start_as(program: &Path, divisible: bool, election_ms: u32, more: &[&str]) -> Self {
        for _ in 0..STARTS_MAX {
            let cluster = Self::launch(program, divisible, election_ms, more);
            let ready = tokio::time::timeout(READY_WITHIN, cluster.ready());
            match ready.await {
                Ok(true) => return cluster,
                Ok(false) => {}
                Err(_) => panic!("no leader within {READY_WITHIN:?}"),
            }
        }
        panic!("no free ports in {STARTS_MAX} starts");
    }

    fn launch(program: &Path, divisible: bool, election_ms: u32, more: &[&str]) -> Self {
        let directory = tempfile::Builder::new()
            .prefix("fencepost-cluster-")
            .tempdir();
        let directory = directory.expect("a temporary directory");
        let urls: Vec<_> = (0..MEMBERS).map(|_| (free_url(), free_url())).collect();
        let lines: Vec<_> = urls
            .iter()
            .filter(|_| divisible)
            .map(|(_, peer)| Proxy::to_url(peer))
            .collect();
        // Where the others reach one.
        let reached = urls.iter().enumerate().map(|(at, (_, peer))| {
            let line = lines.get(at).map(Proxy::url);
            line.unwrap_or_else(|| peer.clone())
        });
        let reached: Vec<_> = reached.collect();
        let peers = reached.iter().enumerate();
        let peers: Vec<_> = peers.map(|(at, peer)| format!("m{at}={peer}")).collect();
        let members = urls.iter().enumerate().map(|(at, (url, peer))| {
            let mut arguments = vec![
                format!("--name=m{at}"),
                format!(
                    "--data-dir={}",
                    directory.path().join(format!("data-{at}")).display()
                ),
                format!("--listen-client-urls={url}"),
                format!("--advertise-client-urls={url}"),
                format!("--listen-peer-urls={peer}"),
                format!("--initial-advertise-peer-urls={}", reached[at]),
                format!("--initial-cluster={}", peers.join(",")),
                "--heartbeat-interval=100".to_owned(),
                format!("--election-timeout={election_ms}"),
                "--logger=zap".to_owned(),
                "--log-outputs=stderr".to_owned(),
            ];
            if can_skip_fsync() {
                arguments.push("--unsafe-no-fsync".to_owned());
            }
            arguments.extend(more.iter().map(|flag| (*flag).to_owned()));
            let log = directory.path().join(format!("etcd-{at}"));
            Member {
                program: program.to_owned(),
                child: Child::start(program, &arguments, &[], &log, Some(directory.path())),
                url: url.clone(),
                arguments,
                log,
            }
        });
        Self {
            members: members.collect(),
            lines,
            _directory: directory,
        }
    }

    /// False: one of them did not start, because somebody else took its port.
    async fn ready(&self) -> bool {
        loop {
            let mut all = true;
            for member in &self.members {
                if !member.child.runs() {
                    let logs = member.child.logs();
                    assert!(logs.contains("address already in use"), "etcd:\n{logs}");
                    return false;
                }
                all &= linearizable_read(&member.url).await;
            }
            if all {
                return true;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    /// How a sidecar reaches them, beginning with this one.
    pub(crate) fn endpoints_from(&self, first: usize) -> Vec<Endpoint> {
        let order = (0..MEMBERS).map(|at| (first + at) % MEMBERS);
        let endpoint = |at: usize| Endpoint::connect(&self.members[at].url).expect("an address");
        order.map(endpoint).collect()
    }

    pub(crate) fn url(&self, member: usize) -> &str {
        &self.members[member].url
    }

    /// The member that leads now.
    pub(crate) async fn leader(&self) -> usize {
        until("there is a leader", READY_WITHIN, || async {
            for (at, member) in self.members.iter().enumerate() {
                let client = Client::from_channel(connection(&member.url), None).await;
                let mut client = client.expect("a raw channel connects to nothing");
                let status = tokio::time::timeout(STATUS_WITHIN, client.status()).await;
                let Ok(Ok(status)) = status else { continue };
                let id = status.header().expect("a header").member_id();
                if status.leader() == id && linearizable_read(&member.url).await {
                    return Some(at);
                }
            }
            None
        })
        .await
    }

    /// Cuts one from the others: it still hears its clients, and the others still hear each other.
    pub(crate) fn cut_off(&self, member: usize) {
        assert!(!self.lines.is_empty(), "it was not started as divisible");
        for (at, line) in self.lines.iter().enumerate() {
            if at == member {
                line.cut();
            } else {
                line.cut_from(self.members[member].child.pid());
            }
        }
    }

    /// All members hear each other again.
    pub(crate) fn join(&self) {
        self.lines.iter().for_each(Proxy::heal);
    }

    /// Whether a member says that it has a leader, and answers.
    pub(crate) async fn answers(&self, member: usize) -> bool {
        linearizable_read(&self.members[member].url).await
    }

    /// Stops one where it stands.
    pub(crate) async fn pause(&self, member: usize) {
        self.members[member].child.pause().await;
    }

    /// Lets it go on.
    pub(crate) fn resume(&self, member: usize) {
        self.members[member].child.signal(Signal::CONT);
    }

    /// SIGKILL, and it is gone.
    pub(crate) async fn kill(&self, member: usize) {
        self.members[member].child.kill().await;
    }

    /// Starts one that was killed anew, on its data.
    pub(crate) fn revive(&mut self, member: usize) {
        let member = &mut self.members[member];
        let _ = std::fs::remove_file(member.log.with_extension("code"));
        member.child = Child::start(&member.program, &member.arguments, &[], &member.log, None);
    }

    /// Stops one in order, as an operator does, and starts another program on its data.
    pub(crate) async fn replace(&mut self, member: usize, program: &Path) {
        self.members[member].child.signal(Signal::TERM);
        self.members[member].child.ended().await;
        self.members[member].program = program.to_owned();
        self.revive(member);
    }

    /// Whether the process of one runs.
    pub(crate) fn runs(&self, member: usize) -> bool {
        self.members[member].child.runs()
    }

    /// What one wrote since its last start.
    pub(crate) fn logs(&self, member: usize) -> String {
        self.members[member].child.logs()
    }

    /// The version of one, and the one that the whole cluster goes by, if it answers a linearizable read.
    pub(crate) async fn versions(&self, member: usize) -> Option<(Version, Version)> {
        let url = &self.members[member].url;
        let address = url.strip_prefix("http://").expect("no TLS");
        let asking = async {
            let mut stream = TcpStream::connect(address).await.ok()?;
            let ask =
                format!("GET /version HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n\r\n");
            stream.write_all(ask.as_bytes()).await.ok()?;
            let mut answer = String::new();
            stream.read_to_string(&mut answer).await.ok()?;
            let (_, body) = answer.split_once("\r\n\r\n")?;
            let said: serde_json::Value = serde_json::from_str(body).ok()?;
            let version = |name: &str| Version::parse(said[name].as_str()?);
            Some((version("etcdserver")?, version("etcdcluster")?))
        };
        let said = tokio::time::timeout(STATUS_WITHIN, asking).await.ok()??;
        linearizable_read(url).await.then_some(said)
    }
}
