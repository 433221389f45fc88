//! How long one call takes.

use super::throughput::MANY;
use crate::pair::in_turn;
use crate::report::{Bar, Line};
use crate::work::Walk;
use crate::{Bench, Outcome, push};

pub(super) async fn single(bench: &Bench, lines: &mut Vec<Line>) -> Outcome<()> {
    let sizes = super::record_sizes(bench).await?;
    let bytes = sizes.iter().sum::<usize>() / sizes.len();
    let walk = Walk::new(&bench.fresh);
    let ours = bench.ours().await?;
    let peers = bench.by_etcd().await?;
    let rounds = in_turn(
        bench.effort,
        async || Ok(ours.movers(1, &walk)),
        async || Ok(peers.putters(1, &bench.fresh, bytes)),
    )
    .await?;
    let bar = Bar::AtMost { bar: 1.5, aim: 1.2 };
    let what = "Transition, one caller ÷ one raw etcd transaction, p50";
    push(
        lines,
        Line::median_latency("single", what, &rounds, Some(bar)),
    );
    Ok(())
}

pub(super) async fn replay(bench: &Bench, lines: &mut Vec<Line>) -> Outcome<()> {
    let ours = bench.ours().await?;
    let peers = bench.by_etcd().await?;
    let rounds = in_turn(
        bench.effort,
        async || ours.replayers(1, &bench.fresh).await,
        async || peers.readers(1, &bench.fresh).await,
    )
    .await?;
    let bar = Bar::AtMost { bar: 0.7, aim: 0.4 };
    let what = "Replay, one caller ÷ one linearizable get, p50";
    push(
        lines,
        Line::median_latency("replay", what, &rounds, Some(bar)),
    );
    let rounds = in_turn(
        bench.effort,
        async || ours.replayers(MANY, &bench.fresh).await,
        async || peers.readers(MANY, &bench.fresh).await,
    )
    .await?;
    let what = format!("Replay ÷ linearizable get, {MANY} callers");
    push(lines, Line::throughput("replay", what, &rounds, None));
    Ok(())
}
