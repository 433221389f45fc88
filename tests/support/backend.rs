//! Where the state lives in a test: a real etcd or the embedded engine.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use etcd_client::{Channel, Client, GetOptions};
use fencepost::embedded::Engine as EmbeddedEngine;
use fencepost::engine::{Clock, EngineOptions};
use tokio::net::TcpListener;
use tokio_stream::wrappers::TcpListenerStream;
use tonic::transport::Endpoint;
use uuid::Uuid;

use super::cluster::{Cluster, MEMBERS};
use super::etcd::Etcd;
use super::fault::{FaultPlan, FaultyLink};
use super::sidecar::Sidecar;

/// One call of a sidecar to etcd may take this long; tests of silence wait for it.
const CALL_TIMEOUT: Duration = Duration::from_secs(5);
/// Tests in which a reply never comes do not wait longer than this for each.
pub(crate) const SHORT_CALL_TIMEOUT: Duration = Duration::from_millis(700);
/// How long a probe for readiness may take.
const PROBE_TIMEOUT: Duration = Duration::from_secs(1);

/// A place for state, with a prefix of its own.
#[derive(Clone, Debug)]
pub(crate) struct Backend {
    place: Place,
    prefix: String,
}

#[derive(Clone, Debug)]
enum Place {
    Real(Arc<Etcd>),
    Cluster(Members),
    Embedded(EmbeddedEngine),
}

/// Three members, which are given out in turn.
#[derive(Clone, Debug)]
struct Members {
    cluster: Arc<Cluster>,
    given: Arc<AtomicUsize>,
}

impl Members {
    fn next(&self) -> usize {
        self.given.fetch_add(1, Ordering::Relaxed) % MEMBERS
    }
}

impl Backend {
    /// On the etcd that this test binary shares.
    pub(crate) async fn real() -> Self {
        Self::on(Place::Real(Etcd::shared().await))
    }

    /// On an etcd that a test may stop.
    pub(crate) fn of_etcd(etcd: Arc<Etcd>) -> Self {
        Self::on(Place::Real(etcd))
    }

    /// On the three members that this test binary shares. Each sidecar begins with another one; one with the seam for faults
    /// has that one alone.
    pub(crate) async fn cluster() -> Self {
        let members = Members {
            cluster: Cluster::shared().await,
            given: Arc::default(),
        };
        Self::on(Place::Cluster(members))
    }

    /// On a fresh embedded engine.
    pub(crate) fn embedded() -> Self {
        Self::on(Place::Embedded(EmbeddedEngine::new()))
    }

    fn on(place: Place) -> Self {
        let prefix = format!("/t{}/", Uuid::new_v4().simple());
        Self { place, prefix }
    }

    /// What every key of this test begins with.
    pub(crate) fn prefix(&self) -> &str {
        &self.prefix
    }

    /// For the table of costs.
    pub(crate) fn name(&self) -> &'static str {
        match self.place {
            Place::Real(_) => "etcd",
            Place::Cluster(_) => "cluster",
            Place::Embedded(_) => "embedded",
        }
    }

    /// A connection of its own.
    pub(crate) fn channel(&self) -> Channel {
        match &self.place {
            Place::Real(etcd) => connection(etcd.url()),
            Place::Cluster(members) => connection(members.cluster.url(members.next())),
            Place::Embedded(engine) => engine.channel(),
        }
    }

    /// Where a process reaches it: the embedded engine's services are put on a port for that.
    pub(crate) async fn url(&self) -> String {
        match &self.place {
            Place::Real(etcd) => etcd.url().to_owned(),
            Place::Cluster(members) => members.cluster.url(members.next()).to_owned(),
            Place::Embedded(engine) => {
                let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
                let address = listener.local_addr().expect("a bound port");
                let serving = tonic::transport::Server::builder()
                    .add_routes(engine.routes())
                    .serve_with_incoming(TcpListenerStream::new(listener));
                // It ends with the runtime of the test.
                tokio::spawn(serving);
                format!("http://{address}")
            }
        }
    }

    /// A sidecar on it.
    pub(crate) async fn sidecar(&self) -> Sidecar {
        match &self.place {
            Place::Cluster(members) => {
                let endpoints = members.cluster.endpoints_from(members.next());
                Sidecar::on(endpoints, None, &self.prefix, CALL_TIMEOUT).await
            }
            Place::Real(_) | Place::Embedded(_) => {
                Sidecar::open(self.channel(), &self.prefix, CALL_TIMEOUT).await
            }
        }
    }

    /// One that tells the time by these clocks.
    pub(crate) async fn telling_time_by(&self, clock: Clock) -> Sidecar {
        let options = EngineOptions {
            clock,
            ..EngineOptions::default()
        };
        Sidecar::open_keeping(self.channel(), &self.prefix, CALL_TIMEOUT, options).await
    }

    /// One whose retention and clocks are the test's, with the seam for faults.
    pub(crate) async fn keeping(&self, options: EngineOptions) -> (Sidecar, FaultPlan) {
        self.keeping_within(CALL_TIMEOUT, options).await
    }

    /// The same, with its own patience.
    pub(crate) async fn keeping_within(
        &self,
        call_timeout: Duration,
        options: EngineOptions,
    ) -> (Sidecar, FaultPlan) {
        let (channel, plan) = FaultyLink::wrap(self.channel());
        let sidecar = Sidecar::open_keeping(channel, &self.prefix, call_timeout, options);
        (sidecar.await, plan)
    }

    /// All keys of this test, and when each was last written.
    pub(crate) async fn written(&self) -> Vec<(String, i64)> {
        let all = Some(GetOptions::new().with_prefix());
        let found = self.raw().await.get(self.prefix.clone(), all).await;
        let found = found.expect("etcd answers a range");
        let pair = |entry: &etcd_client::KeyValue| {
            let key = String::from_utf8_lossy(entry.key()).into_owned();
            (key, entry.mod_revision())
        };
        found.kvs().iter().map(pair).collect()
    }

    /// Two of them, as in every test of concurrency.
    pub(crate) async fn sidecars(&self) -> [Sidecar; 2] {
        [self.sidecar().await, self.sidecar().await]
    }

    /// A sidecar with the seam for faults between it and etcd. It gives up on a silent etcd soon.
    pub(crate) async fn faulty(&self) -> (Sidecar, FaultPlan) {
        self.faulty_within(SHORT_CALL_TIMEOUT).await
    }

    /// The same, with its own patience.
    pub(crate) async fn faulty_within(&self, call_timeout: Duration) -> (Sidecar, FaultPlan) {
        let (channel, plan) = FaultyLink::wrap(self.channel());
        let sidecar = Sidecar::open(channel, &self.prefix, call_timeout).await;
        (sidecar, plan)
    }

    /// The same, with two members to choose from, each behind a seam of its own.
    pub(crate) async fn faulty_on_two_lines(
        &self,
        call_timeout: Duration,
    ) -> (Sidecar, [FaultPlan; 2]) {
        let lines = ["first", "second"].map(|name| {
            let (channel, plan) = FaultyLink::wrap(self.channel());
            let name = name.to_owned();
            (fencepost::store::Endpoint { name, channel }, plan)
        });
        let [(first, its_plan), (second, other_plan)] = lines;
        let sidecar = Sidecar::on(vec![first, second], None, &self.prefix, call_timeout);
        (sidecar.await, [its_plan, other_plan])
    }

    /// A plain client, for looking behind the sidecars' backs.
    pub(crate) async fn raw(&self) -> Client {
        let client = Client::from_channel(self.channel(), None).await;
        client.expect("a raw channel connects to nothing")
    }

    /// All keys of this test, and their values.
    pub(crate) async fn dump(&self) -> Vec<(String, Vec<u8>)> {
        let all = Some(GetOptions::new().with_prefix());
        let found = self.raw().await.get(self.prefix.clone(), all).await;
        let found = found.expect("etcd answers a range");
        let pair = |entry: &etcd_client::KeyValue| {
            let key = String::from_utf8_lossy(entry.key()).into_owned();
            (key, entry.value().to_vec())
        };
        found.kvs().iter().map(pair).collect()
    }
}

/// A connection that is made when it is first used.
pub(crate) fn connection(url: &str) -> Channel {
    let endpoint = Endpoint::from_shared(url.to_owned()).expect("an address");
    Channel::Tonic(endpoint.connect_lazy())
}

/// Writes until etcd has come to this revision.
pub(super) async fn raise_revision(url: &str, least: i64) {
    let client = Client::from_channel(connection(url), None).await;
    let mut client = client.expect("a raw channel connects to nothing");
    loop {
        let put = client.put("raised", "", None).await;
        let at = put
            .expect("etcd takes a write")
            .header()
            .map_or(0, |header| header.revision());
        if at >= least {
            return;
        }
    }
}

/// Whether a member answers a linearizable read.
pub(super) async fn linearizable_read(url: &str) -> bool {
    let probe = async {
        let client = Client::from_channel(connection(url), None).await;
        let mut client = client.expect("a raw channel connects to nothing");
        client.get("ready", None).await.is_ok()
    };
    tokio::time::timeout(PROBE_TIMEOUT, probe)
        .await
        .unwrap_or_default()
}
