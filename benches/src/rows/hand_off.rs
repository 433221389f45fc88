//! A busy resource that is handed on, with many who wait for it. With a sidecar and an etcd of their own, so that every request is
//! one of this.

use std::time::{Duration, Instant};

use fencepost::proto::v1 as pb;
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use crate::pair::Spread;
use crate::report::{Bar, Line};
use crate::requests::received;
use crate::servers::{Etcd, Sidecar};
use crate::{Bench, Outcome, ours, push};

const ROW: &str = "hand-off";
/// Who waits when it begins; each hand-off leaves one less.
const WAITERS: usize = 1_000;
/// Calls that wait on one connection.
const PER_CONNECTION: usize = 125;
/// How often it is handed on.
const FULL: usize = 500;
const QUICK: usize = 50;
/// How long each reservation lasts, in seconds: longer than all this.
const TTL_SECONDS: i64 = 600;
/// How long all may take to be queued, and a hand-off to come.
const WITHIN: Duration = Duration::from_secs(60);
/// How often the queue is looked at until all are in it.
const LOOK: Duration = Duration::from_millis(50);
const PREFIX: &str = "/fencepost/";

/// A grant, and when it came.
type Granted = (Instant, pb::Reservation);

pub(super) async fn run(bench: &Bench, lines: &mut Vec<Line>) -> Outcome<()> {
    let hand_offs = if bench.quick { QUICK } else { FULL };
    let etcd = Etcd::start(&bench.data, "etcd-hand-off").await?;
    let sidecar = Sidecar::start(&bench.data, &etcd, PREFIX).await?;
    let resource = bench.fresh.next();
    let connections = ours::Connections::open(&sidecar.address, WAITERS / PER_CONNECTION).await?;
    // Its own connection, as another process has one.
    let releases = ours::Connections::open(&sidecar.address, 1).await?;
    let mut client = releases.client(0);
    let mut holder = ours::reserve(&mut client, &resource, TTL_SECONDS).await?;
    let (tell, mut told) = mpsc::channel::<Granted>(WAITERS);
    let mut waiters = JoinSet::new();
    for caller in 0..WAITERS {
        let (mut client, tell) = (connections.client(caller), tell.clone());
        let request = ours::waiting(&resource, TTL_SECONDS);
        waiters.spawn(async move {
            let reservation = ours::granted(client.reserve(request).await?.into_inner())?;
            // Whoever comes after the last hand-off is not listened to.
            let _ = tell.send((Instant::now(), reservation)).await;
            Outcome::Ok(())
        });
    }
    all_queued(&etcd).await?;

    let before = received(&etcd).await?;
    let mut latencies = Vec::new();
    for _ in 0..hand_offs {
        let released = Instant::now();
        ours::release(&mut client, &holder).await?;
        let next = tokio::time::timeout(WITHIN, told.recv()).await;
        let (at, reservation) = next?.ok_or("nobody waits any more")?;
        if reservation.token <= holder.token {
            return Err(format!("{reservation:?} after {holder:?}").into());
        }
        latencies.push(at.saturating_duration_since(released).as_secs_f64() * 1e3);
        holder = reservation;
    }
    let after = received(&etcd).await?;
    // Who else was answered, by now, although it was not its turn.
    let mut answered = hand_offs;
    while told.try_recv().is_ok() {
        answered += 1;
    }
    if let Some(ended) = waiters.try_join_next() {
        ended??;
    }
    let each = |count: f64| count / hand_offs as f64;
    let what = |of: &str| format!("hand-off with {WAITERS} waiters: {of}");
    let once = |of: &str, unit, figure, bar| Line::once(ROW, what(of), unit, figure, bar);
    let one = Bar::AtMost { bar: 1.0, aim: 1.0 };
    let few = Bar::AtMost { bar: 4.0, aim: 3.0 };
    push(
        lines,
        once("waiters answered", "", each(answered as f64), Some(one)),
    );
    let requests = each(after.asked - before.asked);
    let of = "etcd requests, that of the release included";
    push(lines, once(of, "", requests, Some(few)));
    let latencies = Spread::of(latencies);
    for (name, quantile) in [("p50", 0.5), ("p99", 0.99)] {
        let of = format!("from release to grant, {name}");
        push(lines, once(&of, "ms", latencies.quantile(quantile), None));
    }
    Ok(())
}

/// Waits until each has its entry in etcd.
async fn all_queued(etcd: &Etcd) -> Outcome<()> {
    let mut client = etcd.client().await?;
    let give_up = Instant::now() + WITHIN;
    loop {
        let count = etcd_client::GetOptions::new().with_prefix();
        let count = Some(count.with_count_only());
        let found = client.get(format!("{PREFIX}w/"), count).await?;
        if found.count() == i64::try_from(WAITERS)? {
            return Ok(());
        }
        if Instant::now() > give_up {
            return Err(format!("only {} are queued", found.count()).into());
        }
        tokio::time::sleep(LOOK).await;
    }
}
