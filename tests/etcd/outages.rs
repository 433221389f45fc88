//! Three members, of which some are dead, stand still, or lead no longer.

use std::collections::BTreeMap;
use std::time::Duration;

use etcd_client::{Client, ConnectOptions};
use fencepost::domain::decision::Verdict;
use fencepost::domain::ids::ResourceId;
use fencepost::engine::{AtClose, Boottime, Fault, HEALTH_BOUND, Health, HoldNews};
use fencepost::store::Endpoint;

use futures_util::future::join_all;
use tokio::sync::oneshot;

use crate::support::ask::{ask, body, create, fresh_resource, reserve_for};
use crate::support::backend::connection;
use crate::support::claim::{applied, replayed};
use crate::support::cluster::{Cluster, MEMBERS};
use crate::support::fault::{FaultyLink, Rpc};
use crate::support::sidecar::{Sidecar, caller, caller_for};
use crate::support::{bounded, until};

const CALL_TIMEOUT: Duration = Duration::from_secs(1);
/// What a sidecar has if nothing is configured.
const DEFAULT_CALL_TIMEOUT: Duration = Duration::from_secs(5);
/// Elections take seconds on a busy machine.
const BACK_WITHIN: Duration = Duration::from_secs(40);
/// What the failure of one member may cost a call: more than the time of a call to it, on a machine that does other things.
const NO_FAILURE_COSTS: Duration = Duration::from_secs(2);
/// How long a leader stands still: longer than an election.
const STALL: Duration = Duration::from_secs(3);

async fn sidecar(cluster: &Cluster, first: usize) -> Sidecar {
    let endpoints = cluster.endpoints_from(first);
    Sidecar::on(endpoints, None, "/outage/", CALL_TIMEOUT).await
}

/// Asks with the same ids until there is an answer; what was told on the way must not be a lie.
async fn insisted(sidecar: &Sidecar, resource: &ResourceId, operation: &str, result: &str) {
    let ask = ask(resource, operation).stay().result(result);
    let answer = until("there is an answer", BACK_WITHIN, || async {
        let answer = sidecar.try_transition(&ask).await;
        match answer {
            Ok(decision) => Some(decision),
            Err(
                Fault::StoreUnavailable { .. }
                | Fault::UnknownOutcome { .. }
                | Fault::DeadlinePassed,
            ) => None,
            Err(other) => panic!("{other:?}"),
        }
    })
    .await;
    assert!(
        matches!(answer.verdict, Verdict::Applied | Verdict::Replayed),
        "{answer:?}"
    );
}

/// Moves so often, one after another; answers what was told in vain, and how long that took.
async fn moved(
    sidecar: &Sidecar,
    resource: &ResourceId,
    what: &str,
    times: usize,
) -> Vec<(Fault, Duration)> {
    let mut in_vain = Vec::new();
    for nth in 0..times {
        let ask = ask(resource, &format!("{what}-{nth}")).stay();
        let asked = Boottime::now();
        let told = sidecar.try_transition(&ask).await;
        let took = Boottime::now().since(asked);
        match told {
            Ok(decision) => {
                assert_eq!(decision.verdict, Verdict::Applied, "{decision:?}");
                assert!(took < NO_FAILURE_COSTS, "{what} {nth}: {took:?}");
            }
            Err(fault) => in_vain.push((fault, took)),
        }
    }
    in_vain
}

// I4
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_dead_member_fails_no_call_and_a_hung_one_leaves_one_write_unknown_at_most() {
    const HELD_SECONDS: u32 = 6;
    const MOVES: usize = 10;
    bounded(Box::pin(async {
        let mut cluster = Cluster::steady().await;
        let leader = cluster.leader().await;
        let (dead, other) = ((leader + 1) % MEMBERS, (leader + 2) % MEMBERS);
        let running = sidecar(&cluster, dead).await;
        let resource = fresh_resource();
        applied(&running.transition(&create(&resource, "pending")).await);
        let grant = running.hold(&reserve_for(&fresh_resource(), 10)).await;
        // One held at the member that dies, and one at that which hangs.
        let hung = sidecar(&cluster, other).await;
        let mut holds = Vec::new();
        for sidecar in [&running, &hung] {
            let held = sidecar
                .hold(&reserve_for(&fresh_resource(), HELD_SECONDS))
                .await;
            let ids = vec![held.id.clone()];
            let holding = sidecar.engine.hold(ids, AtClose::Keep, caller()).await;
            let (mut holding, (end, mut ended)) =
                (holding.expect("the stream opens"), oneshot::channel::<()>());
            let kept = tokio::spawn(async move {
                loop {
                    let told = tokio::select! {
                        told = holding.next() => told.expect("the stream goes on"),
                        _ = &mut ended => return,
                    };
                    if let HoldNews::Lost(decision) = told.news {
                        panic!("{decision:?}");
                    }
                }
            });
            holds.push((held, end, kept));
        }

        cluster.kill(dead).await;
        // One that knew it, and one whose first endpoint it is.
        let started = sidecar(&cluster, dead).await;
        for (at, sidecar) in [&running, &started].into_iter().enumerate() {
            let in_vain = moved(sidecar, &resource, &format!("dead-{at}"), MOVES).await;
            assert!(in_vain.is_empty(), "{in_vain:?}");
            assert_eq!(sidecar.state(&resource).await, "pending");
            assert!(sidecar.renew(&grant.id).await.grant.is_some());
        }
        let seen = [&running, &hung].map(|sidecar| sidecar.engine.holdings());
        tokio::time::sleep(Duration::from_secs(HELD_SECONDS.into())).await;
        for (sidecar, seen) in [&running, &hung].into_iter().zip(seen) {
            assert!(sidecar.engine.holdings().renewed > seen.renewed, "{seen:?}");
        }
        cluster.revive(dead);
        until("the dead one is back", BACK_WITHIN, || async {
            cluster.answers(dead).await.then_some(())
        })
        .await;

        // Now one hangs: connections stay open, and nothing is said.
        let before = moved(&hung, &resource, "before", 1).await;
        assert!(before.is_empty(), "{before:?}");
        cluster.pause(other).await;
        let started = sidecar(&cluster, other).await;
        for (at, sidecar) in [&hung, &started].into_iter().enumerate() {
            let in_vain = moved(sidecar, &resource, &format!("hung-{at}"), MOVES).await;
            // Who has not written yet finds out by what may be asked again.
            assert!(in_vain.len() <= 1 - at, "{at}: {in_vain:?}");
            for (fault, took) in in_vain {
                assert!(matches!(fault, Fault::UnknownOutcome { .. }), "{fault:?}");
                assert!(took < CALL_TIMEOUT + NO_FAILURE_COSTS / 2, "{took:?}");
            }
            insisted(sidecar, &resource, &format!("hung-{at}-0"), "done").await;
            assert_eq!(sidecar.state(&resource).await, "pending");
        }
        let seen = hung.engine.holdings();
        tokio::time::sleep(Duration::from_secs(HELD_SECONDS.into())).await;
        assert!(hung.engine.holdings().renewed > seen.renewed, "{seen:?}");
        for (held, end, kept) in holds {
            let _ = end.send(());
            kept.await.expect("it is kept");
            assert_eq!(running.live(held.id.resource()).await, Some(held.token));
        }
        cluster.resume(other);
    }))
    .await;
}

// An idle sidecar asks nothing that would find out that its member hangs, but for its own looks.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_idle_sidecar_whose_member_hangs_stays_well() {
    bounded(Box::pin(async {
        let cluster = Cluster::start().await;
        let follower = (cluster.leader().await + 1) % MEMBERS;
        let endpoints = cluster.endpoints_from(follower);
        let idle = Sidecar::on(endpoints, None, "/outage/", DEFAULT_CALL_TIMEOUT).await;
        let mut health = idle.engine.health();
        assert_eq!(*health.borrow_and_update(), Health::Serving);
        cluster.pause(follower).await;
        let otherwise = health.wait_for(|health| *health != Health::Serving);
        let otherwise = tokio::time::timeout(2 * HEALTH_BOUND, otherwise).await;
        assert!(otherwise.is_err(), "{otherwise:?}");
        cluster.resume(follower);
    }))
    .await;
}

// A member without a leader would keep a watch open and hear nothing.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whoever_watches_goes_elsewhere_from_a_member_that_has_lost_its_leader() {
    /// Far less than the silence after which a watch is asked whether it is still there.
    const TOLD_WITHIN: Duration = Duration::from_secs(20);
    bounded(Box::pin(async {
        let mut cluster = Cluster::start().await;
        let (alone, others) = (0, [1, 2]);
        let wrapped = cluster.endpoints_from(alone).into_iter().map(|endpoint| {
            let (channel, plan) = FaultyLink::wrap(endpoint.channel);
            (
                Endpoint {
                    channel,
                    ..endpoint
                },
                plan,
            )
        });
        let (endpoints, plans): (Vec<_>, Vec<_>) = wrapped.unzip();
        let one = Sidecar::on(endpoints, None, "/outage/", CALL_TIMEOUT).await;
        let resource = fresh_resource();
        applied(&one.transition(&create(&resource, "pending")).await);
        // Every kind of call is made at least once.
        let held = one.hold(&reserve_for(&fresh_resource(), 60)).await;
        one.renew(&held.id).await;
        let following = one
            .engine
            .follow(resource.clone(), None, caller_for(BACK_WITHIN));
        let mut following = following.await.unwrap();
        following.next().await.unwrap();
        // etcd ends all streams that ask for a leader at once, this one too.
        let options = ConnectOptions::new().with_require_leader(true);
        let line = Client::from_channel(connection(cluster.url(alone)), Some(options)).await;
        let mut watch = line.unwrap().watch("elsewhere", None).await.unwrap();
        for other in others {
            cluster.kill(other).await;
        }
        let left = async {
            while let Ok(Some(message)) = watch.message().await {
                if message.canceled() {
                    break;
                }
            }
        };
        let left = tokio::time::timeout(BACK_WITHIN, left).await;
        left.expect("etcd says that it has no leader");
        cluster.pause(alone).await;
        for other in others {
            cluster.revive(other);
        }
        let two = until("the others go on", BACK_WITHIN, || async {
            let endpoints = cluster.endpoints_from(others[0]);
            Sidecar::try_on(endpoints, "/outage/", CALL_TIMEOUT)
                .await
                .ok()
        })
        .await;
        insisted(&two, &resource, "seen", "done").await;
        let told = tokio::time::timeout(TOLD_WITHIN, following.next()).await;
        let told = told.expect("it is told of what the others did").unwrap();
        assert!(!told.gap, "{told:?}");
        for rpc in [
            Rpc::Range,
            Rpc::Txn,
            Rpc::LeaseGrant,
            Rpc::LeaseKeepAlive,
            Rpc::Watch,
        ] {
            let made: usize = plans.iter().map(|plan| plan.counts().of(rpc)).sum();
            assert!(made > 0, "{rpc:?}");
        }
        for plan in plans {
            let leaderless = plan.leaderless();
            assert!(leaderless.is_empty(), "{leaderless:?}");
        }
        cluster.resume(alone);
    }))
    .await;
}

// J2, J3, slow disk
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn leaders_that_die_or_stall_under_load_double_nothing_and_lose_no_renewed_hold() {
    bounded(Box::pin(async {
        let mut cluster = Cluster::start().await;
        let sidecars = [sidecar(&cluster, 0).await, sidecar(&cluster, 1).await];
        let resources: Vec<_> = (0..8).map(|_| fresh_resource()).collect();
        for resource in &resources {
            applied(&sidecars[0].transition(&create(resource, "pending")).await);
        }
        let kept = fresh_resource();
        let hold = sidecars[0].hold(&reserve_for(&kept, 20)).await;
        let left = fresh_resource();
        let lapses = sidecars[1].hold(&reserve_for(&left, 3)).await;

        let load = |round: usize| {
            let calls = resources.iter().enumerate().flat_map(|(at, resource)| {
                let sidecars = &sidecars;
                (0..4).map(move |nth| {
                    let operation = format!("op-{round}-{nth}");
                    let sidecar = &sidecars[(at + nth) % 2];
                    async move { insisted(sidecar, resource, &operation, &operation).await }
                })
            });
            join_all(calls.collect::<Vec<_>>())
        };
        let killed = cluster.leader().await;
        tokio::join!(load(0), cluster.kill(killed));
        cluster.revive(killed);
        let stalled = cluster.leader().await;
        cluster.pause(stalled).await;
        tokio::join!(load(1), tokio::time::sleep(STALL));
        cluster.resume(stalled);
        load(2).await;
        let hold_is_kept = until("the hold is renewed", BACK_WITHIN, || async {
            sidecars[0].try_renew(&hold.id).await.ok()
        })
        .await;
        assert!(hold_is_kept.grant.is_some(), "{hold_is_kept:?}");
        assert_eq!(sidecars[1].live(&kept).await, Some(hold.token));
        let other = sidecars[1].reserve(&reserve_for(&kept, 3)).await;
        assert_eq!(other.decision.verdict, Verdict::Busy, "{other:?}");

        // Each operation was applied once, and both tell its own result.
        for resource in &resources {
            for sidecar in &sidecars {
                for (round, nth) in (0..3).flat_map(|round| (0..4).map(move |nth| (round, nth))) {
                    let operation = format!("op-{round}-{nth}");
                    let again = ask(resource, &operation).stay().result("another");
                    replayed(&sidecar.transition(&again).await, &body(&operation));
                }
            }
        }
        // What nobody renews ends, however often a new leader began to count anew; the next token is larger.
        let next = until("what nobody renews ends", BACK_WITHIN, || async {
            let reserved = sidecars[0].try_reserve(&reserve_for(&left, 3)).await;
            reserved.ok().and_then(|reserved| reserved.grant)
        })
        .await;
        assert!(next.token > lapses.token);
    }))
    .await;
}

// J9, where there is no majority to move to
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_a_majority_callers_are_told_in_time_and_it_goes_on_when_there_is_one() {
    const WAIT: Duration = Duration::from_secs(6);
    bounded(Box::pin(async {
        let mut cluster = Cluster::start().await;
        let one = sidecar(&cluster, 0).await;
        let resource = fresh_resource();
        applied(&one.transition(&create(&resource, "pending")).await);
        let grant = one.hold(&reserve_for(&resource, 60)).await;
        for way in ["paused", "killed"] {
            let (second, third) = (1, 2);
            // Begun before, and over while there is no majority.
            let waits = one.reserve_waiting(&reserve_for(&resource, 60), WAIT);
            until("it waits", BACK_WITHIN, || async {
                (one.engine.waiters().calls == 1).then_some(())
            })
            .await;
            for at in [second, third] {
                match way {
                    "paused" => cluster.pause(at).await,
                    _ => cluster.kill(at).await,
                }
            }
            // Before anybody has noticed, and after.
            let mut told = BTreeMap::<String, usize>::new();
            for nth in 0..4 {
                let patience = Duration::from_secs(2);
                let asked = Boottime::now();
                let ask = ask(&resource, &format!("{way}-{nth}"))
                    .stay()
                    .under(&grant.id);
                let answer = one
                    .engine
                    .transition(ask.build(), caller_for(patience))
                    .await;
                let took = Boottime::now().since(asked);
                assert!(took < patience + CALL_TIMEOUT, "{took:?}");
                match answer {
                    Err(
                        fault @ (Fault::StoreUnavailable { .. }
                        | Fault::UnknownOutcome { .. }
                        | Fault::DeadlinePassed),
                    ) => *told.entry(format!("{fault:?}")).or_default() += 1,
                    other => panic!("{way} {nth}: {other:?}"),
                }
            }
            let reserved = waits.await.unwrap().expect("a decision all the same");
            assert_eq!(reserved.decision.verdict, Verdict::Busy, "{reserved:?}");
            match way {
                "paused" => [second, third].map(|at| cluster.resume(at)),
                _ => [second, third].map(|at| cluster.revive(at)),
            };
            for nth in 0..4 {
                let again = ask(&resource, &format!("{way}-{nth}"))
                    .stay()
                    .under(&grant.id);
                let truth = until("the truth is known", BACK_WITHIN, || async {
                    one.try_transition(&again).await.ok()
                })
                .await;
                assert!(
                    matches!(truth.verdict, Verdict::Applied | Verdict::Replayed),
                    "{told:?}: {truth:?}"
                );
                // No member tells it from the past.
                for first in 0..MEMBERS {
                    let fresh = sidecar(&cluster, first).await;
                    let known = fresh.lookup(&resource, &format!("{way}-{nth}")).await;
                    assert!(known.decision.is_some(), "{known:?}");
                    if nth > 0 {
                        break;
                    }
                }
            }
            until("the hold is renewed", BACK_WITHIN, || async {
                let renewed = one.try_renew(&grant.id).await.ok()?;
                assert!(renewed.grant.is_some(), "{renewed:?}");
                Some(())
            })
            .await;
        }
    }))
    .await;
}
