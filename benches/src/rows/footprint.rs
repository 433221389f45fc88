//! What a sidecar costs that has little or nothing to do. It has an etcd of its own, so that all that is written there is
//! its doing.

use std::time::Duration;

use tokio::task::JoinSet;

use super::throughput::MANY;
use crate::drive::{Span, closed_loop};
use crate::pair::Spread;
use crate::report::{Bar, Line};
use crate::servers::{Etcd, Sidecar};
use crate::work::Walk;
use crate::{Bench, Outcome, ours, push};

const ROW: &str = "footprint";
const MIB: f64 = 1024.0 * 1024.0;
/// Reservations held while it is idle.
const HOLDS: usize = 1_000;
/// Long enough to be held through without a renewal, in seconds.
const HOLD_SECONDS: i64 = 600;
/// Leases granted ahead are given up this long after the last was taken, and a little.
const LEASES_SETTLE: Duration = Duration::from_secs(13);
/// Until a sidecar that was just started has nothing left to do.
const START_SETTLES: Duration = Duration::from_secs(1);
/// How long it is watched while idle.
const IDLE: Duration = Duration::from_secs(10);
/// What start to ready has to reach, in milliseconds.
pub(super) const READY: Bar = Bar::AtMost {
    bar: 200.0,
    aim: 50.0,
};

pub(super) async fn run(bench: &Bench, lines: &mut Vec<Line>) -> Outcome<()> {
    let etcd = Etcd::start(&bench.data, "etcd-footprint").await?;
    let starts = if bench.quick { 5 } else { 10 };
    let figures = start_to_ready(bench, &etcd, starts).await?;
    push(
        lines,
        Line::plain(ROW, "start to ready", "ms", &figures, Some(READY)),
    );
    let size = std::fs::metadata(Sidecar::program()?)?.len() as f64 / MIB;
    push(lines, Line::once(ROW, "binary", "MiB", size, None));

    let sidecar = Sidecar::start(&bench.data, &etcd, "/fencepost/").await?;
    tokio::time::sleep(START_SETTLES).await;
    let usage = sidecar.process.usage()?;
    let threads = usage.threads as f64;
    push(lines, Line::once(ROW, "threads, idle", "", threads, None));
    resident(lines, &sidecar, "resident memory, idle", Some((20.0, 10.0)))?;
    idle(lines, &etcd, &sidecar, "idle").await?;

    let connections = ours::Connections::open(&sidecar.address, bench.connections).await?;
    let load = Span {
        warm_up: Duration::ZERO,
        measured: if bench.quick {
            Duration::from_secs(2)
        } else {
            Duration::from_secs(5)
        },
    };
    closed_loop(load, connections.movers(MANY, &Walk::new(&bench.fresh))).await?;
    let what = format!("resident memory, after load by {MANY} callers");
    resident(lines, &sidecar, &what, None)?;
    let threads = sidecar.process.usage()?.threads as f64;
    push(
        lines,
        Line::once(ROW, "threads, after load", "", threads, None),
    );

    hold(bench, &connections).await?;
    tokio::time::sleep(LEASES_SETTLE).await;
    let what = format!("idle with {HOLDS} reservations");
    resident(lines, &sidecar, &format!("resident memory, {what}"), None)?;
    idle(lines, &etcd, &sidecar, &what).await
}

/// Starts a sidecar so many times, one after another; in milliseconds.
pub(super) async fn start_to_ready(bench: &Bench, etcd: &Etcd, starts: usize) -> Outcome<Spread> {
    let mut figures = Vec::new();
    for _ in 0..starts {
        let sidecar = Sidecar::start(&bench.data, etcd, "/fencepost/").await?;
        figures.push(sidecar.ready_after.as_secs_f64() * 1e3);
    }
    Ok(Spread::of(figures))
}

fn resident(
    lines: &mut Vec<Line>,
    sidecar: &Sidecar,
    what: &str,
    bar: Option<(f64, f64)>,
) -> Outcome<()> {
    let mib = sidecar.process.usage()?.resident_bytes as f64 / MIB;
    let bar = bar.map(|(bar, aim)| Bar::AtMost { bar, aim });
    push(lines, Line::once(ROW, what, "MiB", mib, bar));
    Ok(())
}

/// CPU of the sidecar, and what it made etcd write, while nobody asks anything.
async fn idle(lines: &mut Vec<Line>, etcd: &Etcd, sidecar: &Sidecar, what: &str) -> Outcome<()> {
    let (revision, entries) = history(etcd).await?;
    let cpu = sidecar.process.cpu()?;
    tokio::time::sleep(IDLE).await;
    let used = sidecar.process.cpu()?.saturating_sub(cpu);
    let (revision_after, entries_after) = history(etcd).await?;
    let seconds = IDLE.as_secs();
    let millis = used.as_secs_f64() * 1e3;
    let cpu = format!("CPU in {seconds} s, {what}");
    push(lines, Line::once(ROW, cpu, "ms", millis, None));
    let none = Bar::AtMost { bar: 0.0, aim: 0.0 };
    let writes = (revision_after - revision) as f64;
    let revisions = format!("etcd revisions in {seconds} s, {what}");
    push(lines, Line::once(ROW, revisions, "", writes, Some(none)));
    let entries = entries_after.saturating_sub(entries) as f64;
    let in_log = format!("etcd log entries in {seconds} s, {what}");
    push(lines, Line::once(ROW, in_log, "", entries, None));
    Ok(())
}

/// The revision, and the index of the log, which also counts what changes no key, such as a lease.
pub(super) async fn history(etcd: &Etcd) -> Outcome<(i64, u64)> {
    let mut client = etcd.client().await?;
    let found = client.get("ready", None).await?;
    let revision = found.header().ok_or("a reply without a header")?.revision();
    Ok((revision, client.status().await?.raft_index()))
}

async fn hold(bench: &Bench, connections: &ours::Connections) -> Outcome<()> {
    let mut running = JoinSet::new();
    for caller in 0..MANY {
        let mut client = connections.client(caller);
        let count = HOLDS / MANY + usize::from(caller < HOLDS % MANY);
        let fresh = bench.fresh.clone();
        running.spawn(async move {
            for _ in 0..count {
                ours::reserve(&mut client, &fresh.next(), HOLD_SECONDS).await?;
            }
            Outcome::Ok(())
        });
    }
    while let Some(ended) = running.join_next().await {
        ended??;
    }
    Ok(())
}
