//! A member that hears no other member any more, while its clients still reach it, and the others are well.

use std::time::Duration;

use fencepost::domain::decision::{Grant, Snapshot, Verdict};
use fencepost::domain::ids::ResourceId;
use fencepost::domain::request::Reserve;
use fencepost::engine::{AtClose, Boottime, Fault, Following, HoldNews, OperationState};
use tokio::sync::oneshot;

use super::ownership::{BACK_WITHIN, CALL_TIMEOUT, PREFIX, insisted, passes, released};
use crate::support::ask::{ask, create, fresh_resource, reserve_for};
use crate::support::claim::applied;
use crate::support::cluster::{Cluster, MEMBERS};
use crate::support::sidecar::{Sidecar, caller, caller_for};
use crate::support::{bounded, until};

/// How long a caller waits.
const PATIENCE: Duration = Duration::from_secs(2);
/// What a machine that is busy with other tests may take on top.
const SLACK: Duration = Duration::from_millis(700);
/// A wait looks again after 6 s at the latest, and a stream that a member without a leader ends is opened anew by then.
const HEARD_WITHIN: Duration = Duration::from_secs(10);

async fn on(cluster: &Cluster, first: usize) -> Sidecar {
    Sidecar::on(cluster.endpoints_from(first), None, PREFIX, CALL_TIMEOUT).await
}

/// One that knows no other member.
async fn alone_on(cluster: &Cluster, member: usize, call_timeout: Duration) -> Sidecar {
    let mut endpoints = cluster.endpoints_from(member);
    endpoints.truncate(1);
    Sidecar::on(endpoints, None, PREFIX, call_timeout).await
}

/// Reserves with a patience of two seconds; what is told in vain comes within that.
async fn patiently(sidecar: &Sidecar, ask: &Reserve) -> Option<Grant> {
    let asked = Boottime::now();
    let told = sidecar
        .engine
        .reserve(ask.clone(), caller_for(PATIENCE))
        .await;
    let took = Boottime::now().since(asked);
    assert!(took < PATIENCE + SLACK, "{took:?}: {told:?}");
    match told {
        Ok(reserved) => {
            let grant = reserved.grant;
            Some(grant.unwrap_or_else(|| panic!("it is free: {:?}", reserved.decision)))
        }
        Err(fault) => {
            assert!(passes(&fault), "{fault:?}");
            None
        }
    }
}

/// What is known of a resource, as soon as somebody knows.
async fn known(sidecar: &Sidecar, resource: &ResourceId) -> Snapshot {
    until("it knows", BACK_WITHIN, || async {
        let shown = sidecar.engine.inspect(resource.clone(), caller()).await;
        shown.ok()
    })
    .await
}

async fn state_shown(following: &mut Following) -> String {
    let shown = tokio::time::timeout(HEARD_WITHIN, following.next()).await;
    let shown = shown.expect("it is heard of").expect("the stream goes on");
    assert!(!shown.gap, "{shown:?}");
    let state = shown.snapshot.state;
    state.map_or(String::new(), |state| state.to_string())
}

// J9: the follower or the leader that a sidecar talks to is alone, and its leader is elsewhere.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_member_that_is_cut_from_its_peers_costs_its_sidecar_one_call_at_most() {
    const TTL_SECONDS: u32 = 9;
    const ASKS: usize = 30;
    bounded(Box::pin(async {
        let cluster = Cluster::divisible().await;
        for is_leader in [false, true] {
            let leader = cluster.leader().await;
            let cut = if is_leader {
                leader
            } else {
                (leader + 1) % MEMBERS
            };
            let well = (cut + 1) % MEMBERS;
            let (one, other) = (on(&cluster, cut).await, on(&cluster, well).await);

            // All that goes over a stream.
            let held = one.hold(&reserve_for(&fresh_resource(), TTL_SECONDS)).await;
            let holding = one
                .engine
                .hold(vec![held.id.clone()], AtClose::Keep, caller());
            let mut holding = holding.await.expect("the stream opens");
            let (end, mut ended) = oneshot::channel::<()>();
            let holding = tokio::spawn(async move {
                let mut renewed = 0;
                loop {
                    let told = tokio::select! {
                        told = holding.next() => told.expect("the stream goes on"),
                        _ = &mut ended => return renewed,
                    };
                    match told.news {
                        HoldNews::Renewed(_) => renewed += 1,
                        HoldNews::Expiring(_) => {}
                        HoldNews::Lost(decision) => panic!("{decision:?}"),
                    }
                }
            });
            let watched = fresh_resource();
            applied(&other.transition(&create(&watched, "before")).await);
            let following = one.engine.follow(watched.clone(), None, caller());
            let mut following = following.await.expect("the stream opens");
            assert_eq!(state_shown(&mut following).await, "before");
            let taken = fresh_resource();
            let holder = other.hold(&reserve_for(&taken, 60)).await;
            let waits = one.reserve_waiting(&reserve_for(&taken, 60), BACK_WITHIN);
            until("it waits", BACK_WITHIN, || async {
                (one.engine.waiters().calls == 1).then_some(())
            })
            .await;

            cluster.cut_off(cut);
            let asks: Vec<_> = (0..ASKS)
                .map(|_| reserve_for(&fresh_resource(), 60))
                .collect();
            let begun = Boottime::now();
            let mut told = Vec::new();
            for ask in &asks {
                let granted = patiently(&one, ask).await;
                // Between those that are granted, for all that can befall a member to happen meanwhile; else for what is
                // said with the error.
                let pause = Duration::from_millis(if granted.is_some() { 100 } else { 500 });
                told.push(granted);
                tokio::time::sleep(pause).await;
            }
            let in_vain = told.iter().filter(|told| told.is_none()).count();
            println!(
                "leader: {is_leader}: {in_vain} of {ASKS} in vain, in {:?}",
                Boottime::now().since(begun)
            );
            // Where the leader is lost, others have to be elected first; after that nothing more is in vain.
            let most = if is_leader { ASKS / 2 } else { 1 };
            assert!(in_vain <= most, "{in_vain} of {ASKS}");
            assert!(told.iter().skip(in_vain).all(Option::is_some), "{told:?}");
            // Asked again with the same ids, all sidecars tell one truth.
            for (ask, told) in asks.iter().zip(told) {
                let (grant, _) = insisted(&one, ask).await;
                if let Some(told) = told {
                    assert_eq!((told.id, told.token), (grant.id.clone(), grant.token));
                }
                let (again, _) = insisted(&other, ask).await;
                assert_eq!((again.id, again.token), (grant.id, grant.token));
            }

            // One that begins with the member that is alone.
            let asked = Boottime::now();
            let started = on(&cluster, cut).await;
            let granted = patiently(&started, &reserve_for(&fresh_resource(), 60)).await;
            let took = Boottime::now().since(asked);
            assert!(granted.is_some() && took < 2 * PATIENCE, "{took:?}");

            // What goes over streams goes elsewhere.
            let moved = ask(&watched, "move").from(&["before"]).to("after");
            applied(&other.transition(&moved).await);
            assert_eq!(state_shown(&mut following).await, "after");
            released(&other, &holder.id).await;
            let next = tokio::time::timeout(HEARD_WITHIN, waits).await;
            let next = next.expect("it is its turn").unwrap();
            let next = next.expect("a decision").grant.expect("it is its turn");
            assert!(next.token > holder.token);
            let so_far = one.engine.holdings();
            let in_time = Duration::from_secs(TTL_SECONDS.into());
            until("it is renewed again", in_time, || async {
                let now = one.engine.holdings();
                (now.renewed > so_far.renewed).then_some(())
            })
            .await;
            assert_eq!(one.engine.holdings().lost, 0);
            let live = known(&other, held.id.resource()).await.live;
            assert_eq!(live.map(|live| live.token), Some(held.token));
            let _ = end.send(());
            let renewed = holding.await.expect("it is kept");
            assert!(renewed > 0);

            cluster.join();
            until("it has a leader again", BACK_WITHIN, || async {
                cluster.answers(cut).await.then_some(())
            })
            .await;
        }
    }))
    .await;
}

// J10
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_member_that_lags_never_says_never_seen_of_what_was_answered_elsewhere() {
    const ROUNDS: usize = 20;
    /// Little, so that a member that cannot know is given up soon.
    const SHORT: Duration = Duration::from_millis(400);
    bounded(Box::pin(async {
        let cluster = Cluster::divisible().await;
        let lagging = (cluster.leader().await + 1) % MEMBERS;
        let doing = on(&cluster, (lagging + 1) % MEMBERS).await;
        let there = alone_on(&cluster, lagging, SHORT).await;
        let mut told_in_vain = 0;
        for round in 0..ROUNDS {
            let resource = fresh_resource();
            // Known to it, and asked of it, from before.
            let before = there.lookup(&resource, "op").await;
            assert_eq!(before.state, OperationState::NeverSeen);
            // Seldom, for an election follows each.
            let apart = round % 8 == 0;
            if apart {
                cluster.cut_off(lagging);
            } else {
                cluster.pause(lagging).await;
            }
            let (op, held) = (ask(&resource, "op").result("done"), fresh_resource());
            let done = doing.transition(&op).await;
            assert_eq!(done.verdict, Verdict::Applied, "{done:?}");
            let grant = doing.hold(&reserve_for(&held, 60)).await;
            if apart {
                // It knows neither of the operation nor that it does not.
                for _ in 0..2 {
                    let operation = op.build().intent.operation;
                    let known =
                        there
                            .engine
                            .lookup(resource.clone(), operation.into(), caller_for(SHORT));
                    match known.await {
                        Err(Fault::StoreUnavailable { .. } | Fault::DeadlinePassed) => {
                            told_in_vain += 1;
                        }
                        // It heard of it before its lines were cut.
                        Ok(told) => assert_eq!(told.state, OperationState::Done, "round {round}"),
                        Err(other) => panic!("round {round}: {other:?}"),
                    }
                }
                if let Ok(shown) = there.engine.inspect(held.clone(), caller_for(SHORT)).await {
                    let live = shown.live.map(|live| live.token);
                    assert_eq!(live, Some(grant.token), "round {round}");
                }
                cluster.join();
            } else {
                cluster.resume(lagging);
            }
            let told = until("it knows", BACK_WITHIN, || async {
                let operation = op.build().intent.operation;
                let known = there
                    .engine
                    .lookup(resource.clone(), operation.into(), caller());
                known.await.ok()
            })
            .await;
            assert_eq!(told.state, OperationState::Done, "round {round}");
            let live = known(&there, &held).await;
            assert_eq!(live.live.map(|live| live.token), Some(grant.token));
        }
        assert!(told_in_vain > 0, "it never lagged");
    }))
    .await;
}
