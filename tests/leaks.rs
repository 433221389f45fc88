//! What comes and goes leaves nothing behind: no lease, watch or key in etcd, no task, no file. Each test has the process to itself
//! while it counts.
#![allow(
    clippy::as_conversions,
    clippy::unwrap_used,
    clippy::wildcard_enum_match_arm,
    missing_docs
)]

#[allow(
    unused_imports,
    unused_macros,
    reason = "what makes two tests of one is not used here"
)]
#[path = "support/mod.rs"]
mod support;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use fencepost::domain::ids::ResourceId;
use fencepost::engine::AtClose;
use fencepost::proto::v1 as pb;
use fencepost::proto::v1::coordination_service_client::CoordinationServiceClient;
use fencepost::server::start_dev;
use futures_util::future::join_all;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tonic::transport::Endpoint;

use support::ask::{ask, create, fresh_resource, reserve_for};
use support::backend::Backend;
use support::etcd::Etcd;
use support::sidecar::{Sidecar, caller, caller_for};
use support::{bounded, until};

/// Rounds of Reserve and Release,
const ROUNDS: usize = 10_000;
/// by so many callers at once, each on resources of its own.
const CALLERS: usize = 100;
/// Resources of each caller.
const RESOURCES: usize = 10;
/// Callers that give up waiting.
const WAITERS: usize = 1_000;
/// Streams of each kind that are opened and cut.
const STREAMS: usize = 200;
/// Connections that the streams of a door go over.
const CONNECTIONS: usize = 4;
/// Far longer than a test waits, so that no lease that is left behind runs out before it is counted; in seconds.
const TTL: u32 = 3_600;
/// So short that leases held ready are renewed before they are given up, in seconds.
const SHORT_TTL: u32 = 30;
/// Leases held ready are given up 10 s after the last was taken; the machine may be busy.
const SETTLED_WITHIN: Duration = Duration::from_secs(60);
/// Nothing is due in this time but what is done all the time.
const STILL: Duration = Duration::from_secs(1);
/// Longer than any of these tests takes.
const LONG: Duration = Duration::from_secs(300);

static ALONE: Mutex<()> = Mutex::new(());

/// Runs a test with the process to itself. Its runtime begins and ends with it, so that no other one's files are counted.
fn alone(test: impl Future<Output = ()>) {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build();
    runtime.unwrap().block_on(bounded(test));
}

type Count = BTreeMap<&'static str, usize>;

/// What this process uses.
fn here() -> Count {
    let files = std::fs::read_dir("/proc/self/fd").unwrap().count();
    let tasks = tokio::runtime::Handle::current()
        .metrics()
        .num_alive_tasks();
    Count::from([("files", files), ("tasks", tasks)])
}

/// The watches that an etcd serves, as it says itself.
async fn watches(url: &str) -> usize {
    let address = url.trim_start_matches("http://");
    let mut line = tokio::net::TcpStream::connect(address).await.unwrap();
    // 1.0, for then it comes in one piece: chunks may begin within a line.
    let ask = format!("GET /metrics HTTP/1.0\r\nhost: {address}\r\n\r\n");
    line.write_all(ask.as_bytes()).await.unwrap();
    let mut answer = String::new();
    line.read_to_string(&mut answer).await.unwrap();
    let mut lines = answer.lines();
    let found = lines.find_map(|line| line.strip_prefix("etcd_debugging_mvcc_watcher_total "));
    found.unwrap().trim().parse::<f64>().unwrap() as usize
}

/// Waits until what is used is the same as a moment before.
async fn still<F: Future<Output = Count>>(count: impl Fn() -> F) -> Count {
    until("it has settled", SETTLED_WITHIN, || async {
        let before = count().await;
        tokio::time::sleep(STILL).await;
        (before == count().await).then_some(before)
    })
    .await
}

/// Waits until no more is used than before.
async fn returns_to<F: Future<Output = Count>>(before: &Count, count: impl Fn() -> F) {
    let mut last = Count::new();
    let back = tokio::time::timeout(SETTLED_WITHIN, async {
        loop {
            last = count().await;
            if last.iter().all(|(what, now)| *now <= before[what]) {
                return;
            }
            tokio::time::sleep(STILL / 10).await;
        }
    });
    let back = back.await.is_ok();
    assert!(back, "{last:?}\nbefore: {before:?}");
}

/// One sidecar on an etcd that nobody else uses.
struct Place {
    backend: Backend,
    /// Of an etcd that tells of its watches.
    url: Option<String>,
    sidecar: Sidecar,
    raw: etcd_client::Client,
}

impl Place {
    async fn real() -> Self {
        let etcd = Arc::new(Etcd::start().await);
        let url = etcd.url().to_owned();
        Self::on(Backend::of_etcd(etcd), Some(url)).await
    }

    async fn embedded() -> Self {
        Self::on(Backend::embedded(), None).await
    }

    async fn on(backend: Backend, url: Option<String>) -> Self {
        Self {
            sidecar: backend.sidecar().await,
            raw: backend.raw().await,
            backend,
            url,
        }
    }

    async fn count(&self) -> Count {
        let mut raw = self.raw.clone();
        let leases = raw.leases().await.unwrap().leases().len();
        let mut count = Count::from([("leases", leases)]);
        for (family, name) in [("w/", "waiters"), ("ws/", "sessions"), ("h/", "holds")] {
            let options = etcd_client::GetOptions::new().with_prefix();
            let options = Some(options.with_count_only());
            let key = format!("{}{family}", self.backend.prefix());
            let found = raw.get(key, options).await.unwrap();
            count.insert(name, usize::try_from(found.count()).unwrap());
        }
        if let Some(url) = &self.url {
            count.insert("watches", watches(url).await);
        }
        let engine = &self.sidecar.engine;
        let waiters = engine.waiters();
        count.insert("calls that wait", waiters.calls);
        count.insert("followed", waiters.followed);
        count.insert("held", engine.holdings().held);
        count.append(&mut here());
        count
    }

    /// All that is used when everything was used once, and nothing is going on.
    async fn baseline(&self) -> Count {
        self.reserve_and_release(1, SHORT_TTL).await;
        // Streams of keepalives are opened as they are needed, and closed when nobody has used them for a while.
        self.hold_and_watch(STREAMS / 2).await;
        self.wait_and_give_up(2 * RESOURCES).await;
        // Those held ready are renewed, over a stream of their own, before they are given up.
        let quiet = ["leases", "sessions", "held", "followed"];
        until("nothing is held ready", SETTLED_WITHIN, || async {
            let now = self.count().await;
            quiet.iter().all(|of| now[of] == 0).then_some(())
        })
        .await;
        still(|| self.count()).await
    }

    async fn reserve_and_release(&self, rounds: usize, ttl: u32) {
        let callers = (0..CALLERS).map(|_| async {
            let resources: Vec<_> = (0..RESOURCES.min(rounds))
                .map(|_| fresh_resource())
                .collect();
            for round in 0..rounds {
                let ask = reserve_for(&resources[round % resources.len()], ttl);
                let grant = self.sidecar.hold(&ask).await;
                self.sidecar.release(&grant.id).await;
            }
        });
        join_all(callers).await;
    }

    async fn hold_and_watch(&self, streams: usize) {
        let engine = &self.sidecar.engine;
        let opened = (0..streams).map(|at| async move {
            let resource = fresh_resource();
            let grant = self.sidecar.hold(&reserve_for(&resource, TTL)).await;
            let at_close = if at % 2 == 0 {
                AtClose::Release
            } else {
                AtClose::Keep
            };
            let hold = engine.hold(vec![grant.id.clone()], at_close, caller());
            let mut hold = hold.await.unwrap();
            hold.next().await.unwrap();
            let mut watch = engine.follow(resource, None, caller()).await.unwrap();
            watch.next().await.unwrap();
            (hold, watch, (at_close == AtClose::Keep).then_some(grant.id))
        });
        let opened = join_all(opened).await;
        assert_eq!(engine.holdings().held, streams);
        for (hold, watch, kept) in opened {
            drop((hold, watch));
            if let Some(kept) = kept {
                self.sidecar.release(&kept).await;
            }
        }
    }

    /// Half of them wait for a busy resource, half for an operation that is in progress. One who waits elsewhere keeps alive what
    /// their entries hang on, so that none goes by itself.
    async fn wait_and_give_up(&self, callers: usize) {
        let sidecar = &self.sidecar;
        let (resource, elsewhere) = (fresh_resource(), fresh_resource());
        let held_elsewhere = sidecar.hold(&reserve_for(&elsewhere, TTL)).await;
        let stays = self.waits_for(&elsewhere);
        self.until_entered(1).await;
        sidecar.transition(&create(&resource, "pending")).await;
        let pay = ask(&resource, "pay").from(&["pending"]).to("paid");
        let held = sidecar.hold(&pay.claim()).await;
        let waits: Vec<_> = (0..callers)
            .map(|at| match at % 2 {
                0 => self.waits_for(&resource),
                _ => {
                    let (engine, pay) = (sidecar.engine.clone(), pay.build());
                    tokio::spawn(async move {
                        let told = engine.transition_or_wait(pay, LONG, caller_for(2 * LONG));
                        drop(told.await);
                    })
                }
            })
            .collect();
        until("all wait", SETTLED_WITHIN, || async {
            let count = self.count().await;
            (count["calls that wait"] == callers + 1 && count["waiters"] == callers / 2 + 1)
                .then_some(())
        })
        .await;
        cancelled(waits).await;
        self.until_entered(1).await;
        cancelled(vec![stays]).await;
        self.until_entered(0).await;
        sidecar.release(&held_elsewhere.id).await;
        sidecar.complete(&held.id, "done").await;
        sidecar.release(&held.id).await;
    }

    async fn until_entered(&self, entries: usize) {
        until(
            "those and no others have entries",
            SETTLED_WITHIN,
            || async { (self.count().await["waiters"] == entries).then_some(()) },
        )
        .await;
    }

    fn waits_for(&self, resource: &ResourceId) -> tokio::task::JoinHandle<()> {
        let (engine, ask) = (self.sidecar.engine.clone(), reserve_for(resource, TTL));
        tokio::spawn(async move {
            let told = engine.reserve_or_wait(ask, LONG, caller_for(2 * LONG));
            drop(told.await);
        })
    }
}

/// These hang up.
async fn cancelled(waits: Vec<tokio::task::JoinHandle<()>>) {
    for one in &waits {
        one.abort();
    }
    for one in waits {
        assert!(one.await.unwrap_err().is_cancelled());
    }
}

async fn everything_comes_back(place: Place) {
    let baseline = place.baseline().await;
    place.reserve_and_release(ROUNDS / CALLERS, TTL).await;
    place.hold_and_watch(STREAMS).await;
    place.wait_and_give_up(WAITERS).await;
    returns_to(&baseline, || place.count()).await;
}

#[test]
fn on_etcd_no_lease_watch_key_task_or_file_is_left_by_what_comes_and_goes() {
    alone(async { everything_comes_back(Place::real().await).await });
}

#[test]
fn on_the_embedded_engine_nothing_is_left_by_what_comes_and_goes() {
    alone(async { everything_comes_back(Place::embedded().await).await });
}

#[test]
fn streams_that_are_cut_with_their_connections_leave_no_task_or_file() {
    alone(async {
        let running = start_dev("127.0.0.1:0".parse().unwrap()).await.unwrap();
        let url = format!("http://{}", running.addr());
        let cut = |streams: usize| {
            let endpoint = Endpoint::from_shared(url.clone()).unwrap();
            async move {
                for _ in 0..CONNECTIONS {
                    open_and_cut(&endpoint, streams / CONNECTIONS).await;
                }
            }
        };
        // Streams of keepalives are opened as they are needed, and closed when nobody has used them for a while.
        cut(STREAMS / 2).await;
        let baseline = still(|| async { here() }).await;
        cut(STREAMS).await;
        returns_to(&baseline, || async { here() }).await;
        running.stop().await;
    });
}

/// Opens so many streams of each kind on one connection, and hangs up.
async fn open_and_cut(endpoint: &Endpoint, streams: usize) {
    let mut client = CoordinationServiceClient::new(endpoint.connect().await.unwrap());
    let mut open = Vec::new();
    for _ in 0..streams {
        let resource = Some(pb::Resource {
            kind: "order".into(),
            id: uuid::Uuid::new_v4().to_string(),
        });
        let request = pb::ReserveRequest {
            resource: resource.clone(),
            request_id: uuid::Uuid::new_v4().to_string(),
            ..Default::default()
        };
        let answer = client.reserve(request).await.unwrap().into_inner();
        let request = pb::HoldRequest {
            reservation_ids: vec![answer.reservation.unwrap().reservation_id],
            release_on_close: true,
        };
        let mut hold = client.hold(request).await.unwrap().into_inner();
        hold.message().await.unwrap().unwrap();
        let request = pb::WatchRequest {
            resource,
            after_revision: 0,
            timeline_id: String::new(),
        };
        let mut watch = client.watch(request).await.unwrap().into_inner();
        watch.message().await.unwrap().unwrap();
        open.push((hold, watch));
    }
}
