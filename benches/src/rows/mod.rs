//! The rows of the table.

mod breakdown;
mod footprint;
mod growth;
mod hand_off;
mod hold;
mod holds;
mod latency;
mod loss;
mod throughput;

use crate::report::Line;
use crate::servers::Sidecar;
use crate::{Bench, Outcome, Row, ours, work};

pub(crate) async fn run(row: Row, bench: &Bench, lines: &mut Vec<Line>) -> Outcome<()> {
    match row {
        Row::Transition => throughput::transition(bench, lines).await,
        Row::Redis => throughput::beside_redis(bench, lines).await,
        Row::Postgres => throughput::beside_postgres(bench, lines).await,
        Row::Hot => throughput::hot(bench, lines).await,
        Row::HandOff => hand_off::run(bench, lines).await,
        Row::Holds => holds::run(bench, lines).await,
        Row::HoldsApart => holds::apart(bench, lines).await,
        Row::Loss => loss::run(bench, lines).await,
        Row::Ceiling => throughput::ceiling(bench, lines).await,
        Row::Single => latency::single(bench, lines).await,
        Row::Replay => latency::replay(bench, lines).await,
        Row::Hold => hold::reserve_and_release(bench, lines).await,
        Row::Fence => hold::fence_and_renew(bench, lines).await,
        Row::Footprint => footprint::run(bench, lines).await,
        Row::Growth => growth::run(bench, lines).await,
        Row::Breakdown => breakdown::run(bench, lines).await,
    }
}

/// What an order leaves in etcd: the bytes of its record after each of its moves. A sidecar with a prefix of its own makes
/// one, so that it is the only one to be found.
async fn record_sizes(bench: &Bench) -> Outcome<Vec<usize>> {
    let prefix = format!("/sizes-{}/", bench.fresh.next());
    let sidecar = Sidecar::start(&bench.data, &bench.etcd, &prefix).await?;
    let mut client = ours::Connections::open(&sidecar.address, 1)
        .await?
        .client(0);
    let mut etcd = bench.etcd.client().await?;
    let resource = bench.fresh.next();
    let mut sizes = Vec::new();
    for step in work::MOVES {
        let request = ours::transition(&resource, step);
        ours::judged(&mut client, request, fencepost::proto::v1::Verdict::Applied).await?;
        let all = etcd_client::GetOptions::new().with_prefix();
        let found = etcd.get(prefix.clone(), Some(all)).await?;
        let of_it = found.kvs().iter().find(|kv| {
            let key = String::from_utf8_lossy(kv.key());
            key.contains(&resource)
        });
        sizes.push(of_it.ok_or("an order left no record")?.value().len());
    }
    Ok(sizes)
}
