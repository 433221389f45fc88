//! What changes when much is stored. Each amount has an etcd and a sidecar of its own, and they take turns.

use std::time::Duration;

use super::footprint::{READY, start_to_ready};
use super::throughput::MANY;
use crate::drive::{closed_loop, run_through};
use crate::report::{Bar, Line};
use crate::servers::{Etcd, Sidecar};
use crate::work::{MOVES, Walk};
use crate::{Bench, Outcome, ours, push};

const ROW: &str = "growth";
const MIB: f64 = 1024.0 * 1024.0;
/// Callers that fill the store.
const FILLERS: usize = 256;
const STORED: [usize; 3] = [10_000, 100_000, 1_000_000];
const STORED_QUICK: [usize; 2] = [10_000, 100_000];
/// Orders that go all their way, for the bytes of an operation.
const ORDERS: usize = 10_240;
const STARTS: usize = 5;
/// etcd counts its pages anew with each of its own commits, ten times a second.
const PAGES_COUNTED: Duration = Duration::from_millis(250);
/// etcd's files may take this many bytes for an operation.
const BYTES: Bar = Bar::AtMost {
    bar: 300.0,
    aim: 150.0,
};

struct Filled {
    stored: usize,
    connections: ours::Connections,
    // Above `etcd`: it goes first.
    _sidecar: Sidecar,
    etcd: Etcd,
}

pub(super) async fn run(bench: &Bench, lines: &mut Vec<Line>) -> Outcome<()> {
    let amounts: &[usize] = if bench.quick { &STORED_QUICK } else { &STORED };
    bytes_of_whole_orders(bench, lines).await?;
    let mut all = Vec::new();
    for stored in amounts {
        all.push(fill(bench, *stored, lines).await?);
    }
    for filled in &all {
        let what = format!("start to ready, {} stored", count(filled.stored));
        let figures = start_to_ready(bench, &filled.etcd, STARTS).await?;
        push(lines, Line::plain(ROW, what, "ms", &figures, Some(READY)));
    }
    throughput(bench, &all, lines).await
}

async fn throughput(bench: &Bench, all: &[Filled], lines: &mut Vec<Line>) -> Outcome<()> {
    let walk = Walk::new(&bench.fresh);
    let mut turns: Vec<Vec<f64>> = all.iter().map(|_| Vec::new()).collect();
    for _ in 0..bench.effort.rounds {
        for (filled, turns) in all.iter().zip(&mut turns) {
            let movers = filled.connections.movers(MANY, &walk);
            turns.push(closed_loop(bench.effort.span, movers).await?.per_second);
        }
    }
    let (least, rest) = turns.split_first().ok_or("there is no amount to store")?;
    let of_least = all.first().map_or(0, |filled| filled.stored);
    for (filled, turns) in all.iter().skip(1).zip(rest) {
        let stored = filled.stored;
        let what = format!(
            "Transition, {MANY} callers, {} stored ÷ {} stored",
            count(stored),
            count(of_least)
        );
        let bar = Bar::AtLeast {
            bar: 0.8,
            aim: 0.95,
        };
        let bar = (stored == 1_000_000).then_some(bar);
        push(lines, Line::ratio(ROW, what, "1/s", turns, least, bar));
    }
    Ok(())
}

async fn fill(bench: &Bench, stored: usize, lines: &mut Vec<Line>) -> Outcome<Filled> {
    let name = count(stored);
    let (etcd, sidecar, connections) = start(bench, &format!("etcd-{stored}")).await?;
    let before = bytes_in_use(&etcd).await?;
    // One operation for each resource: as many resources as operations, the dearest case.
    let walk = Walk::of_moves(&bench.fresh, 1);
    let times = stored.div_ceil(FILLERS);
    let begun = std::time::Instant::now();
    run_through(connections.movers(FILLERS, &walk), times).await?;
    let per_second = (times * FILLERS) as f64 / begun.elapsed().as_secs_f64();
    let what = format!("filling with {name} resources, {FILLERS} callers");
    push(lines, Line::once(ROW, what, "1/s", per_second, None));
    let mib = sidecar.process.usage()?.resident_bytes as f64 / MIB;
    let what = format!("resident memory, after {name} resources");
    push(lines, Line::once(ROW, what, "MiB", mib, None));
    let bytes = bytes_in_use(&etcd).await?.saturating_sub(before);
    let each = bytes as f64 / (times * FILLERS) as f64;
    let what = format!("etcd bytes for an operation that is alone, {name} stored");
    push(lines, Line::once(ROW, what, "", each, Some(BYTES)));
    Ok(Filled {
        stored,
        connections,
        _sidecar: sidecar,
        etcd,
    })
}

async fn bytes_of_whole_orders(bench: &Bench, lines: &mut Vec<Line>) -> Outcome<()> {
    let sizes = super::record_sizes(bench).await?;
    let moves = MOVES.len();
    let each = *sizes.last().ok_or("an order has moves")? as f64 / moves as f64;
    let what = format!("bytes of the record for an operation, orders of {moves}");
    push(lines, Line::once(ROW, what, "", each, None));
    let each = *sizes.first().ok_or("an order has moves")? as f64;
    let what = "bytes of the record for an operation that is alone";
    push(lines, Line::once(ROW, what, "", each, None));

    let (etcd, sidecar, connections) = start(bench, "etcd-orders").await?;
    let before = bytes_in_use(&etcd).await?;
    let times = ORDERS / FILLERS * moves;
    let walk = Walk::new(&bench.fresh);
    run_through(connections.movers(FILLERS, &walk), times).await?;
    let mut tell = |how: &str, bytes: u64, bar| {
        let each = bytes.saturating_sub(before) as f64 / (times * FILLERS) as f64;
        let what = format!("etcd bytes for an operation, orders of {moves}, {how}");
        push(lines, Line::once(ROW, what, "", each, bar));
    };
    tell("compacted", bytes_in_use(&etcd).await?, Some(BYTES));
    // Old and new revisions share pages, and a page is given back only once it is empty.
    etcd.client().await?.defragment().await?;
    tell("defragmented", bytes_in_use(&etcd).await?, None);
    drop(sidecar);
    Ok(())
}

async fn start(bench: &Bench, name: &str) -> Outcome<(Etcd, Sidecar, ours::Connections)> {
    let etcd = Etcd::start(&bench.data, name).await?;
    let sidecar = Sidecar::start(&bench.data, &etcd, "/fencepost/").await?;
    let connections = ours::Connections::open(&sidecar.address, bench.connections).await?;
    Ok((etcd, sidecar, connections))
}

/// What etcd's file holds once its history is gone.
async fn bytes_in_use(etcd: &Etcd) -> Outcome<u64> {
    let mut client = etcd.client().await?;
    let put = client.put("compacted", "", None).await?;
    let revision = put.header().ok_or("a reply without a header")?.revision();
    let physical = etcd_client::CompactionOptions::new().with_physical();
    client.compact(revision, Some(physical)).await?;
    // Pages that a commit leaves are free with the next one.
    for _ in 0..3 {
        client.put("compacted", "", None).await?;
        tokio::time::sleep(PAGES_COUNTED).await;
    }
    Ok(u64::try_from(client.status().await?.raft_used_db_size())?)
}

fn count(number: usize) -> String {
    match number {
        1_000_000.. if number.is_multiple_of(1_000_000) => {
            format!("{} million", number / 1_000_000)
        }
        1_000.. if number.is_multiple_of(1_000) => format!("{} thousand", number / 1_000),
        _ => number.to_string(),
    }
}
