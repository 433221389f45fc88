//! Leaders that stand still for longer than leases last, and leaders that die one after another.

use std::time::Duration;

use etcd_client::{Client, GetOptions};
use fencepost::domain::decision::{Grant, Verdict};
use fencepost::domain::request::Left;
use fencepost::engine::{AtClose, Boottime, Hold};
use futures_util::future::join_all;

use super::ownership::{
    BACK_WITHIN, CALL_TIMEOUT, PREFIX, held_for, insisted, passes, released, sidecars,
};
use crate::support::ask::{ask, fresh_resource, reserve_for};
use crate::support::backend::connection;
use crate::support::cluster::Cluster;
use crate::support::sidecar::{Sidecar, caller_for};
use crate::support::{bounded, until};

/// What a machine that is busy with other tests may take on top.
const SLACK: Duration = Duration::from_secs(3);

/// Holds so many, for so many seconds, on one stream.
async fn holding(sidecar: &Sidecar, count: usize, seconds: u32) -> (Vec<Grant>, Boottime, Hold) {
    let asks: Vec<_> = (0..count)
        .map(|_| reserve_for(&fresh_resource(), seconds))
        .collect();
    let grants = join_all(asks.iter().map(|ask| sidecar.hold(ask))).await;
    let ids = grants.iter().map(|grant| grant.id.clone()).collect();
    let opened = Boottime::now();
    let patience = caller_for(2 * CALL_TIMEOUT);
    let hold = sidecar.engine.hold(ids, AtClose::Keep, patience).await;
    (grants, opened, hold.expect("the stream opens"))
}

/// Ends leases of reservations that live, as an old leader does; answers how many.
async fn revoked(cluster: &Cluster, member: usize, most: usize) -> usize {
    let client = Client::from_channel(connection(cluster.url(member)), None).await;
    let mut client = client.expect("a raw channel connects to nothing");
    let all = GetOptions::new().with_prefix();
    let live = client.get(format!("{PREFIX}h/"), Some(all)).await;
    let live = live.expect("etcd answers a range");
    let mut revoked = 0;
    for lease in live
        .kvs()
        .iter()
        .map(etcd_client::KeyValue::lease)
        .take(most)
    {
        // It may have ended since.
        revoked += usize::from(client.lease_revoke(lease).await.is_ok());
    }
    revoked
}

// J2: etcd before 3.4.31 and 3.5.13 lets the old leader revoke what was renewed elsewhere while it stood still. Whichever it
// is here: some leases are revoked.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn holds_that_an_old_leader_revokes_are_told_as_lost_and_no_zombie_is_left() {
    const EACH: usize = 25;
    const TTL_SECONDS: u32 = 4;
    /// Longer than a lease for them lasts.
    const STALL: Duration = Duration::from_secs(10);
    const BEFORE: Duration = Duration::from_secs(1);
    /// The first that it revokes are lost, for it still takes itself for the leader; it goes on when these have timed out: after
    /// 5 s and two election timeouts.
    const AFTER: Duration = Duration::from_secs(10);
    const REVOKED: usize = 10;
    bounded(Box::pin(async {
        let cluster = Cluster::start().await;
        let leader = cluster.leader().await;
        // One of them is at the member that will stand still.
        let at = |first| Sidecar::on(cluster.endpoints_from(first), None, PREFIX, CALL_TIMEOUT);
        let sidecars = [at(leader).await, at((leader + 1) % 3).await];
        let renewed = || {
            let renewed = |sidecar: &Sidecar| sidecar.engine.holdings().renewed;
            sidecars.iter().map(renewed).sum::<u64>()
        };
        let streams = sidecars
            .iter()
            .map(|sidecar| holding(sidecar, EACH, TTL_SECONDS));
        let streams = join_all(streams).await;
        let faults = async {
            tokio::time::sleep(BEFORE).await;
            cluster.pause(leader).await;
            // The others elect one of them.
            tokio::time::sleep(STALL / 2).await;
            let after_election = renewed();
            tokio::time::sleep(STALL / 2).await;
            let went_on = renewed() - after_election;
            cluster.resume(leader);
            tokio::time::sleep(AFTER / 5).await;
            let left: usize = sidecars.iter().map(|one| one.engine.holdings().held).sum();
            let revoked = revoked(&cluster, (leader + 1) % 3, REVOKED).await;
            (went_on, left, revoked)
        };
        let span = BEFORE + STALL + AFTER;
        let reading = streams.into_iter().map(|(grants, opened, hold)| async move {
            let fates = held_for(hold, opened, &grants, span).await;
            (grants, fates)
        });
        let (all, (went_on, left, revoked)) =
            tokio::join!(join_all(reading.collect::<Vec<_>>()), faults);
        assert!(went_on > 0, "nothing was renewed while the old leader stood still");
        let mut gone = Vec::new();
        for (at, (grants, fates)) in all.into_iter().enumerate() {
            let other = &sidecars[1 - at];
            for grant in grants {
                let fate = &fates[&grant.id.to_string()];
                if fate.lost {
                    gone.push((at, grant));
                } else {
                    // Since the stream ended nobody renews it; while its time is not over, it is the same round.
                    let live = other.live(grant.id.resource()).await;
                    assert!(
                        live == Some(grant.token) || fate.until.left().is_zero(),
                        "{grant:?}: {live:?}"
                    );
                }
            }
        }
        println!(
            "{left} of {} were held when the old leader woke, {revoked} revoked by hand, and {} told as lost",
            2 * EACH,
            gone.len()
        );
        assert!(gone.len() >= REVOKED.min(left).max(1), "{gone:?}");
        let told: u64 = sidecars.iter().map(|one| one.engine.holdings().lost).sum();
        assert_eq!(told, gone.len() as u64, "what was told is counted");
        // No zombie: who lost it changes nothing, and who has it next has a larger token.
        for (at, grant) in gone {
            let (own, other) = (&sidecars[at], &sidecars[1 - at]);
            let resource = grant.id.resource();
            let next = insisted(other, &reserve_for(resource, 60)).await.0;
            assert!(next.token > grant.token, "{next:?} after {grant:?}");
            let late = own
                .transition(&ask(resource, "late").stay().under(&grant.id))
                .await;
            assert_eq!(late.verdict, Verdict::Fenced, "{late:?}");
            let stale = own.fence(resource, grant.token).await;
            assert_eq!(stale.verdict, Verdict::Fenced, "{stale:?}");
            let renewed = own.renew(&grant.id).await;
            assert_eq!(renewed.decision.verdict, Verdict::Fenced, "{renewed:?}");
            let over = released(own, &grant.id).await;
            assert_eq!(over.verdict, Verdict::Replayed, "{over:?}");
            assert_eq!(other.live(resource).await, Some(next.token));
        }
    }))
    .await;
}

// J3, B11
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_wait_ends_with_a_decision_in_time_though_a_leader_dies_every_five_seconds() {
    const EVERY: Duration = Duration::from_secs(5);
    const KILLS: u32 = 6;
    /// Its lease outlives each of them, so each new leader lets it begin anew.
    const TTL_SECONDS: u32 = 8;
    /// Ends of waits are spread over all that befalls a cluster, the moments included at which members know of no leader.
    const WAITS: u32 = 200;
    const WAIT_STEP: Duration = Duration::from_millis(150);
    /// What a caller has on top of its wait; half of them less than one call may take.
    const PATIENCE: [Duration; 2] = [Duration::from_secs(1), Duration::from_secs(10)];
    bounded(Box::pin(async {
        let mut cluster = Cluster::start().await;
        let sidecars = sidecars(&cluster).await;
        let resource = fresh_resource();
        let called = Boottime::now();
        let dead = sidecars[0].hold(&reserve_for(&resource, TTL_SECONDS)).await;
        let ttl = dead.ttl.as_duration();
        assert!(dead.safe_for <= ttl, "{dead:?}");
        let waits = (1..=WAITS).map(|nth| {
            let (sidecar, resource) = (&sidecars[nth as usize % 2], &resource);
            async move {
                let wait = nth * WAIT_STEP;
                let patience = PATIENCE[nth as usize / 2 % 2];
                let asked = Boottime::now();
                let told = sidecar
                    .engine
                    .reserve_or_wait(reserve_for(resource, 60), wait, caller_for(wait + patience))
                    .await;
                let took = Boottime::now().since(asked);
                let what = format!("wait {wait:?} + {patience:?} took {took:?}");
                let told = told.unwrap_or_else(|fault| panic!("{what}: {fault:?}"));
                // Nobody renews it, and yet it lives: each new leader begins to count anew.
                assert_eq!(told.decision.verdict, Verdict::Busy, "{what}: {told:?}");
                assert!(took < wait + SLACK, "{what}");
            }
        });
        // B11: what its holder may believe never grows but by its own renewals.
        let other = fresh_resource();
        let held = sidecars[1].hold(&reserve_for(&other, 60)).await;
        let renewals = async {
            let end = called.plus(KILLS * EVERY);
            let mut renewed = 0;
            while !end.left().is_zero() {
                let asked = Boottime::now();
                let patience = caller_for(2 * CALL_TIMEOUT);
                match sidecars[1].engine.renew(held.id.clone(), patience).await {
                    Ok(told) => {
                        let grant = told.grant.expect("it lives");
                        assert!(grant.safe_for <= held.ttl.as_duration(), "{grant:?}");
                        assert_eq!(grant.token, held.token);
                        renewed += 1;
                    }
                    Err(fault) => assert!(passes(&fault), "{fault:?}"),
                }
                let pause = Duration::from_millis(300);
                tokio::time::sleep(pause.saturating_sub(Boottime::now().since(asked))).await;
            }
            renewed
        };
        let faults = async {
            for nth in 1..=KILLS {
                tokio::time::sleep(called.plus(nth * EVERY).left()).await;
                let leader = cluster.leader().await;
                cluster.kill(leader).await;
                cluster.revive(leader);
            }
        };
        let waits = join_all(waits.collect::<Vec<_>>());
        let (_, renewed, ()) = tokio::join!(waits, renewals, faults);
        assert!(renewed > KILLS as usize, "{renewed} renewals");
        // It ends once leaders stay, and not before its holder's time was over.
        let (next, _) = insisted(&sidecars[0], &reserve_for(&resource, 60)).await;
        let since = Boottime::now().since(called);
        assert!(next.token > dead.token && since >= ttl, "{since:?}");
        let late = until("it is judged", BACK_WITHIN, || async {
            let told = sidecars[1].engine.release(
                dead.id.clone(),
                Left::Unsaid,
                caller_for(2 * CALL_TIMEOUT),
            );
            told.await.ok()
        })
        .await;
        assert_eq!(late.verdict, Verdict::Replayed, "{late:?}");
        assert_eq!(sidecars[0].live(&resource).await, Some(next.token));
    }))
    .await;
}
