//! Moves per second.

use std::time::Duration;

use crate::child::cpu_of;
use crate::drive::{Caller, closed_loop};
use crate::pair::in_turn;
use crate::peers::by_etcd::Retry;
use crate::peers::ceiling::{Batcher, MEMBERS};
use crate::peers::{by_postgres, by_redis};
use crate::report::{Bar, Line};
use crate::rows::footprint::history;
use crate::servers::{Postgres, Redis};
use crate::work::Walk;
use crate::{Bench, Outcome, ours, push};

const CALLERS: [usize; 4] = [1, 8, 64, 256];
/// The number of callers that the bars speak of.
pub(super) const MANY: usize = 64;
/// Batches under way at once at the ceiling.
const BATCHES_UNDER_WAY: [usize; 2] = [1, 4];

pub(super) async fn transition(bench: &Bench, lines: &mut Vec<Line>) -> Outcome<()> {
    let walk = Walk::new(&bench.fresh);
    for callers in CALLERS {
        let ours = bench.ours().await?;
        let peers = bench.by_etcd().await?;
        let rounds = in_turn(
            bench.effort,
            async || Ok(ours.movers(callers, &walk)),
            async || Ok(peers.movers(callers, &bench.fresh)),
        )
        .await?;
        let bar = (callers == MANY).then_some(Bar::AtLeast { bar: 3.0, aim: 6.0 });
        let s = if callers == 1 { "" } else { "s" };
        let what = format!("Transition ÷ one etcd transaction a call, {callers} caller{s}");
        push(lines, Line::throughput("transition", what, &rounds, bar));
        if callers == MANY {
            let [sidecar, etcd, callers] = [
                ("the sidecar", bench.sidecar.process.pid()),
                ("etcd", bench.etcd.process.pid()),
                ("the callers", std::process::id()),
            ];
            let movers = ours.movers(MANY, &walk);
            let all = [sidecar, etcd, callers];
            cpu_per_call(bench, "one Transition", &all, movers, lines).await?;
            let movers = peers.movers(MANY, &bench.fresh);
            let all = [etcd, callers];
            cpu_per_call(bench, "one etcd transaction", &all, movers, lines).await?;
        }
    }
    Ok(())
}

/// Who works how much for one call.
async fn cpu_per_call<C: Caller>(
    bench: &Bench,
    call: &str,
    who: &[(&str, u32)],
    callers: Vec<C>,
    lines: &mut Vec<Line>,
) -> Outcome<()> {
    let used = || {
        let used = who.iter().map(|(_, pid)| cpu_of(*pid));
        used.collect::<Outcome<Vec<Duration>>>()
    };
    let before = used()?;
    let (revision, _) = history(&bench.etcd).await?;
    let turn = closed_loop(bench.effort.span, callers).await?;
    let (revision_after, _) = history(&bench.etcd).await?;
    // Also those of the callers that were under way when the turn ended.
    let merged = turn.calls as f64 / (revision_after - revision).max(1) as f64;
    let what = format!("etcd transactions for {call}, {MANY} callers: one carries");
    push(lines, Line::once("transition", what, "", merged, None));
    for (((who, _), before), after) in who.iter().zip(before).zip(used()?) {
        let micros = after.saturating_sub(before).as_secs_f64() * 1e6 / turn.calls as f64;
        let what = format!("CPU for {call}, {MANY} callers: {who}");
        push(lines, Line::once("transition", what, "µs", micros, None));
    }
    Ok(())
}

pub(super) async fn beside_redis(bench: &Bench, lines: &mut Vec<Line>) -> Outcome<()> {
    let redis = Redis::start(&bench.data).await?;
    let walk = Walk::new(&bench.fresh);
    let ours = bench.ours().await?;
    let peers = by_redis::Connections::open(&redis, bench.connections).await?;
    let rounds = in_turn(
        bench.effort,
        async || Ok(ours.movers(MANY, &walk)),
        async || Ok(peers.movers(MANY, &bench.fresh)),
    )
    .await?;
    let bar = Bar::AtLeast { bar: 0.3, aim: 1.0 };
    let what = format!("Transition ÷ Redis script, appendfsync always, {MANY} callers");
    push(lines, Line::throughput("redis", what, &rounds, Some(bar)));
    Ok(())
}

pub(super) async fn beside_postgres(bench: &Bench, lines: &mut Vec<Line>) -> Outcome<()> {
    let postgres = Postgres::start(&bench.data).await?;
    by_postgres::prepare(&postgres).await?;
    let walk = Walk::new(&bench.fresh);
    let ours = bench.ours().await?;
    let rounds = in_turn(
        bench.effort,
        async || Ok(ours.movers(MANY, &walk)),
        async || by_postgres::Mover::several(&postgres, MANY, &bench.fresh).await,
    )
    .await?;
    let what = format!("Transition ÷ PostgreSQL row lock and unique index, {MANY} callers");
    push(lines, Line::throughput("postgres", what, &rounds, None));
    Ok(())
}

pub(super) async fn hot(bench: &Bench, lines: &mut Vec<Line>) -> Outcome<()> {
    let ours = bench.ours().await?;
    let peers = bench.by_etcd().await?;
    let bar = Bar::AtLeast {
        bar: 20.0,
        aim: 100.0,
    };
    for (retry, how, bar) in [
        (Retry::AtOnce, "", Some(bar)),
        (Retry::Backoff, " and backoff", None),
    ] {
        let rounds = in_turn(
            bench.effort,
            async || {
                // Anew in each round: how much a resource has behind it is a matter of the growth rows.
                let resource = bench.fresh.next();
                ours::open_hot(&ours, &resource).await?;
                Ok(ours.noters(MANY, &resource, &bench.fresh))
            },
            async || peers.noters(MANY, "hot", &bench.fresh, retry).await,
        )
        .await?;
        let what = format!("Transition, one hot resource ÷ compare-and-swap{how}, {MANY} callers");
        push(lines, Line::throughput("hot", what, &rounds, bar));
    }
    Ok(())
}

pub(super) async fn ceiling(bench: &Bench, lines: &mut Vec<Line>) -> Outcome<()> {
    let sizes = super::record_sizes(bench).await?;
    let walk = Walk::new(&bench.fresh);
    let ours = bench.ours().await?;
    let peers = bench.by_etcd().await?;
    for under_way in BATCHES_UNDER_WAY {
        let mut rounds = in_turn(
            bench.effort,
            async || Ok(ours.movers(MANY, &walk)),
            async || Batcher::several(&peers, under_way, &bench.fresh, &sizes).await,
        )
        .await?;
        for turn in &mut rounds.peers {
            turn.per_second *= MEMBERS as f64;
        }
        let what = format!(
            "Transition, {MANY} callers ÷ nested transactions of {MEMBERS}, {under_way} under way"
        );
        let line = Line::throughput("ceiling", what, &rounds, None);
        push(lines, line.without_latency());
    }
    Ok(())
}
