//! Many reservations, held for long. With a sidecar and an etcd of their own, so that all that is used is used for this.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use fencepost::proto::v1 as pb;
use fencepost::proto::v1::hold_response::News;
use tokio::task::JoinSet;

use crate::cluster::Cluster;
use crate::report::{Bar, Line};
use crate::requests::received;
use crate::servers::{Etcd, Sidecar};
use crate::work::Fresh;
use crate::{Bench, Outcome, ours, push};

const MIB: f64 = 1024.0 * 1024.0;
/// How long each reservation lasts, in seconds.
const TTL_SECONDS: i64 = 30;
/// Reservations of one stream.
const PER_STREAM: usize = 1_000;
/// Streams of one connection.
const PER_CONNECTION: usize = 10;
/// How many of these are asked for at once: through a follower each is on its way for milliseconds, and one after another they
/// would not all be held within ten minutes.
const TAKERS: usize = 50;
/// How long it may take until all are held.
const TAKEN_WITHIN: Duration = Duration::from_secs(3 * 60);
/// How much is held, and for how long.
const FULL: (usize, Duration) = (50_000, Duration::from_secs(10 * 60));
const QUICK: (usize, Duration) = (2_000, Duration::from_secs(20));
/// The same through a follower: longer than a TTL by far, so that whatever falls behind is lost. As many as three members, the sidecar and
/// the holders can renew on two cores, where a keepalive costs all of them together a millisecond.
const FULL_APART: (usize, Duration) = (10_000, Duration::from_secs(60));
/// How long a message between members is on its way: 1 ms there and back, as between zones of one region.
const APART: Duration = Duration::from_micros(500);
/// What it has to do with.
const MEMORY: Bar = Bar::AtMost {
    bar: 256.0,
    aim: 128.0,
};

/// What holders were told.
#[derive(Debug, Default)]
struct Told {
    renewed: AtomicU64,
    expiring: AtomicU64,
    lost: AtomicU64,
}

pub(super) async fn run(bench: &Bench, lines: &mut Vec<Line>) -> Outcome<()> {
    let how_much = if bench.quick { QUICK } else { FULL };
    let etcd = Etcd::start(&bench.data, "etcd-holds").await?;
    held(bench, lines, "holds", how_much, &etcd).await
}

/// Through a member that asks the leader for each keepalive.
pub(super) async fn apart(bench: &Bench, lines: &mut Vec<Line>) -> Outcome<()> {
    let how_much = if bench.quick { QUICK } else { FULL_APART };
    let cluster = Cluster::start(&bench.data, "etcd-apart", APART).await?;
    let follower = cluster.follower().await?;
    held(bench, lines, "holds-apart", how_much, follower).await
}

async fn held(
    bench: &Bench,
    lines: &mut Vec<Line>,
    row: &'static str,
    (held, span): (usize, Duration),
    etcd: &Etcd,
) -> Outcome<()> {
    let span = bench.held_for.unwrap_or(span);
    let sidecar = Sidecar::start(&bench.data, etcd, "/fencepost/").await?;
    let streams = held / PER_STREAM;
    let told = Arc::<Told>::default();
    let mut holders = JoinSet::new();
    let mut connections = None;
    let give_up = tokio::time::Instant::now() + TAKEN_WITHIN;
    for at in 0..streams {
        if at % PER_CONNECTION == 0 {
            connections = Some(ours::Connections::open(&sidecar.address, 1).await?);
        }
        let connections = connections.as_ref().ok_or("no connection")?;
        let mut client = connections.client(0);
        let taken = tokio::time::timeout_at(give_up, take(&client, &bench.fresh)).await;
        let so_far = at * PER_STREAM;
        let ids = taken
            .map_err(|_| format!("only {so_far} of {held} were held within {TAKEN_WITHIN:?}"))?
            .map_err(|error| format!("with {so_far} of {held} held: {error}"))?;
        // Opened at once: what was reserved must not run out while others are reserved.
        let request = pb::HoldRequest {
            reservation_ids: ids,
            release_on_close: false,
        };
        let stream = client.hold(request).await?.into_inner();
        holders.spawn(listen(stream, Arc::clone(&told)));
    }
    let begun = Instant::now();
    let before = told.renewed.load(Ordering::Relaxed);
    let asked_before = received(etcd).await?;
    let (cpu, etcd_cpu) = (sidecar.process.cpu()?, etcd.process.cpu()?);
    tokio::time::sleep(span).await;
    let seconds = begun.elapsed().as_secs_f64();
    let asked = received(etcd).await?;
    let cpu = sidecar.process.cpu()?.saturating_sub(cpu).as_secs_f64();
    let etcd_cpu = etcd.process.cpu()?.saturating_sub(etcd_cpu).as_secs_f64();
    let resident = sidecar.process.usage()?.resident_bytes as f64 / MIB;
    // Whoever has left has lost all that it held, or its stream broke.
    if let Some(ended) = holders.try_join_next() {
        ended??;
        return Err("a stream ended".into());
    }
    let count = |of: &AtomicU64| of.load(Ordering::Relaxed) as f64;
    let (renewed, expiring, lost) = (
        count(&told.renewed) - before as f64,
        count(&told.expiring),
        count(&told.lost),
    );
    let what = |of: &str| format!("{held} reservations held for {seconds:.0} s: {of}");
    let none = Bar::AtMost { bar: 0.0, aim: 0.0 };
    let once = |of: &str, unit, figure, bar| Line::once(row, what(of), unit, figure, bar);
    push(lines, once("lost", "", lost, Some(none)));
    push(lines, once("failed tries told", "", expiring, None));
    push(lines, once("renewals told", "1/s", renewed / seconds, None));
    let keepalives = (asked.keepalives - asked_before.keepalives) / seconds;
    push(lines, once("keepalives at etcd", "1/s", keepalives, None));
    let others = (asked.asked - asked_before.asked) / seconds;
    push(lines, once("other requests to etcd", "1/s", others, None));
    push(
        lines,
        once("resident memory", "MiB", resident, Some(MEMORY)),
    );
    let share = |used: f64| used / seconds * 100.0;
    push(lines, once("CPU of the sidecar", "%", share(cpu), None));
    push(lines, once("CPU of etcd", "%", share(etcd_cpu), None));
    Ok(())
}

/// Takes what one stream holds.
async fn take(client: &ours::Client, fresh: &Fresh) -> Outcome<Vec<String>> {
    let mut takers = JoinSet::new();
    for _ in 0..TAKERS {
        let (mut client, fresh) = (client.clone(), fresh.clone());
        takers.spawn(async move {
            let mut ids = Vec::new();
            for _ in 0..PER_STREAM / TAKERS {
                let held = ours::reserve(&mut client, &fresh.next(), TTL_SECONDS).await?;
                ids.push(held.reservation_id);
            }
            Outcome::Ok(ids)
        });
    }
    let mut ids = Vec::with_capacity(PER_STREAM);
    while let Some(taken) = takers.join_next().await {
        ids.extend(taken??);
    }
    Ok(ids)
}

/// Listens for as long as the stream goes on.
async fn listen(mut stream: tonic::Streaming<pb::HoldResponse>, told: Arc<Told>) -> Outcome<()> {
    while let Some(news) = stream.message().await? {
        let count = match news.news {
            Some(News::Renewed(_)) => &told.renewed,
            Some(News::Expiring(_)) => &told.expiring,
            Some(News::Lost(_)) => &told.lost,
            None => return Err("news without news".into()),
        };
        count.fetch_add(1, Ordering::Relaxed);
    }
    Ok(())
}
