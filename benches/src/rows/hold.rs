//! Reservations.

use super::throughput::MANY;
use crate::drive::closed_loop;
use crate::ours::Asks;
use crate::pair::{Spread, in_turn};
use crate::report::{Bar, Line};
use crate::{Bench, Outcome, push};

pub(super) async fn reserve_and_release(bench: &Bench, lines: &mut Vec<Line>) -> Outcome<()> {
    let ours = bench.ours().await?;
    let peers = bench.by_etcd().await?;
    let rounds = in_turn(
        bench.effort,
        async || Ok(ours.holders(MANY, &bench.fresh)),
        async || Ok(peers.lockers(MANY, &bench.fresh)),
    )
    .await?;
    let bar = Bar::AtLeast { bar: 3.0, aim: 6.0 };
    let what = format!("Reserve + Release ÷ grant, put, delete, revoke, {MANY} callers");
    push(lines, Line::throughput("hold", what, &rounds, Some(bar)));
    Ok(())
}

pub(super) async fn fence_and_renew(bench: &Bench, lines: &mut Vec<Line>) -> Outcome<()> {
    let ours = bench.ours().await?;
    for asks in [Asks::Fence, Asks::Renew] {
        let mut turns = Vec::new();
        for _ in 0..bench.effort.rounds {
            let keepers = ours.keepers(MANY, &bench.fresh, asks).await?;
            turns.push(closed_loop(bench.effort.span, keepers).await?);
        }
        let figures = Spread::of(turns.iter().map(|turn| turn.per_second));
        let what = format!("{asks:?}, {MANY} callers");
        push(lines, Line::plain("fence", what, "1/s", &figures, None));
        let figures = Spread::of(turns.iter().map(|turn| turn.latency(0.5)));
        let what = format!("{asks:?}, {MANY} callers, p50");
        push(lines, Line::plain("fence", what, "µs", &figures, None));
    }
    Ok(())
}
