//! A lease that was granted ahead and is not used is ended, however long it would last.

use std::time::Duration;

use crate::support::ask::{fresh_resource, reserve_for};
use crate::support::backend::Backend;
use crate::support::fault::{Action, FaultPlan, Rpc};
use crate::support::{engines, until};

/// A class of leases is given up after 10 s without use.
const GIVEN_UP_WITHIN: Duration = Duration::from_secs(60);
/// A day.
const LONGEST_SECONDS: u32 = 24 * 60 * 60;

/// Leases that were granted and not ended.
fn lasting(plan: &FaultPlan) -> usize {
    let made = plan.counts();
    made.of(Rpc::LeaseGrant) - made.of(Rpc::LeaseRevoke)
}

async fn only_so_many_last(plan: &FaultPlan, left: usize) {
    until("the others are ended", GIVEN_UP_WITHIN, || async {
        (lasting(plan) == left).then_some(())
    })
    .await;
}

async fn leases_of_a_day_do_not_outlast_their_use(backend: Backend) {
    let (one, plan) = backend.faulty_within(Duration::from_secs(5)).await;
    let kept = one
        .hold(&reserve_for(&fresh_resource(), LONGEST_SECONDS))
        .await;
    let grant = one
        .hold(&reserve_for(&fresh_resource(), LONGEST_SECONDS))
        .await;
    one.release(&grant.id).await;
    only_so_many_last(&plan, 1).await;
    // What is held is not among them.
    assert!(one.renew(&kept.id).await.grant.is_some());
}

async fn a_busy_resource_polled_with_many_ttls_leaves_no_leases_behind(backend: Backend) {
    let (one, plan) = backend.faulty_within(Duration::from_secs(5)).await;
    let resource = fresh_resource();
    let grant = one.hold(&reserve_for(&resource, LONGEST_SECONDS)).await;
    for turn in 0..2 {
        for more in 1..=40 {
            let ttl = LONGEST_SECONDS - 2 * more - turn;
            let told = one.reserve(&reserve_for(&resource, ttl)).await;
            assert!(told.grant.is_none());
        }
    }
    only_so_many_last(&plan, 1).await;
    assert!(one.renew(&grant.id).await.grant.is_some());
}

async fn what_is_held_ready_is_ended_when_the_sidecar_stops(backend: Backend) {
    let (one, plan) = backend.faulty_within(Duration::from_secs(5)).await;
    let (resource, two) = (fresh_resource(), backend.sidecar().await);
    let grant = one.hold(&reserve_for(&resource, LONGEST_SECONDS)).await;
    for _ in 0..10 {
        let other = one
            .hold(&reserve_for(&fresh_resource(), LONGEST_SECONDS))
            .await;
        one.release(&other.id).await;
    }
    assert!(lasting(&plan) > 1);
    assert!(one.engine.stop(Duration::from_secs(5)).await);
    assert_eq!(lasting(&plan), 1);
    // That one belongs to its caller.
    assert_eq!(two.live(&resource).await, Some(grant.token));
}

async fn a_lease_that_is_asked_for_when_the_sidecar_stops_is_waited_for_and_ended(
    backend: Backend,
) {
    /// Far less than the stop waits for it.
    const STILL_WAITS: Duration = Duration::from_millis(100);
    let (one, plan) = backend.faulty_within(Duration::from_secs(5)).await;
    let (resource, two) = (fresh_resource(), backend.sidecar().await);
    let grant = two.hold(&reserve_for(&resource, LONGEST_SECONDS)).await;
    assert_eq!(one.live(&resource).await, Some(grant.token));
    // Who is known to be turned away takes no lease, but for the next one some are granted ahead.
    let ahead = plan.when(Rpc::LeaseGrant).then(Action::Hold);
    let told = one.reserve(&reserve_for(&resource, LONGEST_SECONDS)).await;
    assert!(told.grant.is_none());
    ahead.met().await;
    let engine = one.engine.clone();
    let mut stop = tokio::spawn(async move { engine.stop(Duration::from_secs(5)).await });
    let early = tokio::time::timeout(STILL_WAITS, &mut stop).await;
    assert!(early.is_err(), "nobody would know of that lease");
    ahead.deliver().await;
    assert!(stop.await.unwrap());
    assert_eq!(lasting(&plan), 0);
    assert_eq!(two.live(&resource).await, Some(grant.token));
}

engines! {
    leases_of_a_day_do_not_outlast_their_use,
    a_busy_resource_polled_with_many_ttls_leaves_no_leases_behind,
    what_is_held_ready_is_ended_when_the_sidecar_stops,
    a_lease_that_is_asked_for_when_the_sidecar_stops_is_waited_for_and_ended,
}
