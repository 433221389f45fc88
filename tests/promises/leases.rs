//! The answer says how long a reservation is certain, and that is true.

use std::time::Duration;

use fencepost::domain::decision::{Layer, Rule, Verdict};
use fencepost::domain::request::{TTL_SECONDS_DEFAULT, TTL_SECONDS_MAX, Ttl};
use fencepost::engine::Fault;
use fencepost::proto::v1;
use prost_types::Duration as ProtoDuration;
use tokio::time::Instant;

use super::fence::{OVER_WITHIN, SHORTEST_SECONDS, over};
use crate::support::ask::{fresh_request, fresh_resource, reserve, reserve_for};
use crate::support::backend::Backend;
use crate::support::claim::judged;
use crate::support::etcd::Etcd;
use crate::support::fault::{Action, Rpc};
use crate::support::process::Process;
use crate::support::sidecar::{Sidecar, caller_for};
use crate::support::{engines, until};

/// More than any stall here.
const PATIENT_CALL: Duration = Duration::from_secs(15);
const SHORTEST: Duration = Duration::from_secs(3);

/// Watches a resource from elsewhere: when was it free again, after it had been held?
async fn freed(observer: Sidecar, resource: fencepost::domain::ids::ResourceId) -> Instant {
    until("it is held", OVER_WITHIN, || async {
        observer.live(&resource).await.map(|_| ())
    })
    .await;
    over(&observer, &resource).await;
    Instant::now()
}

async fn nobody_else_gets_the_resource_before_safe_for_has_passed(backend: Backend) {
    let stalls = [
        (Duration::ZERO, None),
        (Duration::ZERO, Some(Action::SlowRequest(SHORTEST / 2))),
        (Duration::ZERO, Some(Action::SlowReply(SHORTEST / 2))),
        // Leases that were granted ahead have grown old by then.
        (SHORTEST, None),
        (SHORTEST, Some(Action::SlowRequest(SHORTEST / 2))),
        (Duration::ZERO, Some(Action::SlowRequest(2 * SHORTEST))),
        (Duration::ZERO, Some(Action::SlowReply(3 * SHORTEST))),
    ];
    let runs = stalls.map(|(idle, stall)| {
        let backend = backend.clone();
        async move {
            let (one, plan) = backend.faulty_within(PATIENT_CALL).await;
            let two = backend.sidecar().await;
            // Fills what the sidecar keeps ready for this TTL.
            let warm = one
                .hold(&reserve_for(&fresh_resource(), SHORTEST_SECONDS))
                .await;
            one.release(&warm.id).await;
            tokio::time::sleep(idle).await;
            let resource = fresh_resource();
            if let Some(stall) = stall {
                plan.when(Rpc::Txn).containing(resource.id()).then(stall);
            }
            let free = tokio::spawn(freed(two, resource.clone()));
            let sent = Instant::now();
            let answer = one
                .try_reserve(&reserve_for(&resource, SHORTEST_SECONDS))
                .await;
            let Ok(Some(grant)) = answer.map(|answer| answer.grant) else {
                free.abort();
                return;
            };
            assert_eq!(grant.ttl.as_duration(), SHORTEST);
            assert!(grant.safe_for <= SHORTEST, "{:?}", grant.safe_for);
            let lived = free.await.unwrap() - sent;
            assert!(
                lived >= grant.safe_for,
                "{lived:?} < {:?} after {stall:?}",
                grant.safe_for
            );
            if stall.is_none() {
                assert!(
                    grant.safe_for >= SHORTEST / 2,
                    "useless: {:?}",
                    grant.safe_for
                );
            }
        }
    });
    futures_util::future::join_all(runs).await;
}

async fn a_reservation_that_nobody_renews_makes_way_and_its_successor_has_a_larger_token(
    backend: Backend,
) {
    let [one, two] = backend.sidecars().await;
    let resource = fresh_resource();
    let mine = reserve_for(&resource, SHORTEST_SECONDS);
    let first = one.hold(&mine).await;
    let next = until("it is free", OVER_WITHIN, || async {
        let answer = two.reserve(&reserve(&resource)).await;
        if answer.grant.is_none() {
            judged(&answer.decision, Verdict::Busy, Layer::Fence, Rule::Held);
        }
        answer.grant
    })
    .await;
    assert!(next.token > first.token);
    let lost = one.renew(&first.id).await;
    judged(&lost.decision, Verdict::Fenced, Layer::Fence, Rule::Lost);
    assert_eq!(lost.grant, None);
}

async fn a_request_asked_again_after_its_round_ran_out_is_fenced(backend: Backend) {
    let [one, two] = backend.sidecars().await;
    let resource = fresh_resource();
    let mine = reserve_for(&resource, SHORTEST_SECONDS);
    one.hold(&mine).await;
    over(&two, &resource).await;
    for sidecar in [&two, &one] {
        let again = sidecar.reserve(&mine).await.decision;
        judged(&again, Verdict::Fenced, Layer::Fence, Rule::Lost);
    }
}

async fn renewals_by_any_sidecar_keep_a_reservation_as_long_as_they_come(backend: Backend) {
    let sidecars = backend.sidecars().await;
    let resource = fresh_resource();
    let grant = sidecars[0]
        .hold(&reserve_for(&resource, SHORTEST_SECONDS))
        .await;
    let begun = Instant::now();
    let mut turn = 0;
    while begun.elapsed() < 3 * SHORTEST {
        tokio::time::sleep(SHORTEST / 3).await;
        let sent = Instant::now();
        let renewed = sidecars[turn % 2].renew(&grant.id).await;
        judged(
            &renewed.decision,
            Verdict::Granted,
            Layer::Fence,
            Rule::Renewed,
        );
        let renewed = renewed.grant.unwrap();
        assert_eq!((renewed.token, &renewed.id), (grant.token, &grant.id));
        assert!(
            renewed.safe_for <= SHORTEST && renewed.safe_for > SHORTEST / 2,
            "{:?}",
            renewed.safe_for
        );
        let busy = sidecars[(turn + 1) % 2]
            .reserve(&reserve(&resource))
            .await
            .decision;
        assert_eq!(
            busy.verdict,
            Verdict::Busy,
            "{busy:?} {:?} after a renewal",
            sent.elapsed()
        );
        turn += 1;
    }
    over(&sidecars[1], &resource).await;
}

async fn a_grant_that_took_longer_than_its_lease_lasts_is_fenced(backend: Backend) {
    let (one, plan) = backend.faulty_within(PATIENT_CALL).await;
    let resource = fresh_resource();
    let mine = reserve_for(&resource, SHORTEST_SECONDS);
    let lease = Duration::from_secs(mine.ttl.lease_seconds().into());
    plan.when(Rpc::Txn)
        .containing(resource.id())
        .then(Action::SlowReply(lease + SHORTEST / 6));
    let late = one.try_reserve(&mine).await.unwrap();
    assert_eq!(late.grant, None);
    judged(&late.decision, Verdict::Fenced, Layer::Fence, Rule::Lost);
}

async fn a_lease_that_was_long_on_its_way_promises_no_more_than_it_has_left(backend: Backend) {
    let (one, plan) = backend.faulty_within(PATIENT_CALL).await;
    let two = backend.sidecar().await;
    let warm = reserve_for(&fresh_resource(), SHORTEST_SECONDS);
    // Its own lease comes at once; those that are granted ahead after it are old when they come.
    let delay = Duration::from_secs(warm.ttl.lease_seconds().into()) - SHORTEST / 3;
    let own = plan
        .when(Rpc::LeaseGrant)
        .then(Action::SlowReply(Duration::ZERO));
    let ahead = plan
        .when(Rpc::LeaseGrant)
        .times(4)
        .then(Action::SlowReply(delay));
    one.hold(&warm).await;
    own.met().await;
    ahead.met().await;
    tokio::time::sleep(delay + SHORTEST / 10).await;
    ahead.lift();
    let resource = fresh_resource();
    let free = tokio::spawn(freed(two, resource.clone()));
    let sent = Instant::now();
    let grant = one.hold(&reserve_for(&resource, SHORTEST_SECONDS)).await;
    let lived = free.await.unwrap() - sent;
    assert!(lived >= grant.safe_for, "{lived:?} < {:?}", grant.safe_for);
}

async fn a_renewal_whose_deadline_passes_on_the_way_is_not_said_to_be_undone(backend: Backend) {
    let (one, plan) = backend.faulty_within(PATIENT_CALL).await;
    let grant = one.hold(&reserve(&fresh_resource())).await;
    let held = plan.when(Rpc::LeaseKeepAlive).then(Action::Hold);
    let impatient = caller_for(SHORTEST / 10);
    let answer = one.engine.renew(grant.id.clone(), impatient).await;
    assert!(
        matches!(answer, Err(Fault::UnknownOutcome { .. })),
        "{answer:?}"
    );
    held.met().await;
    held.deliver().await;
    let again = one.renew(&grant.id).await;
    assert_eq!(again.decision.verdict, Verdict::Granted);
}

async fn a_renewal_that_a_release_overtook_is_not_acknowledged(backend: Backend) {
    let (one, plan) = backend.faulty_within(PATIENT_CALL).await;
    let two = backend.sidecar().await;
    let resource = fresh_resource();
    let grant = one.hold(&reserve(&resource)).await;
    let held = plan.when(Rpc::LeaseKeepAlive).then(Action::Hold);
    let (sidecar, id) = (one.clone(), grant.id.clone());
    let renewal = tokio::spawn(async move { sidecar.renew(&id).await });
    held.met().await;
    assert_eq!(two.release(&grant.id).await.verdict, Verdict::Applied);
    let next = two.hold(&reserve(&resource)).await;
    held.deliver().await;
    // The keepalive went well, but what it kept alive is only a lease.
    let renewal = renewal.await.unwrap();
    judged(
        &renewal.decision,
        Verdict::Fenced,
        Layer::Fence,
        Rule::Released,
    );
    assert_eq!(renewal.grant, None);
    assert_eq!(two.live(&resource).await, Some(next.token));
}

engines! {
    a_lease_that_was_long_on_its_way_promises_no_more_than_it_has_left,
    a_grant_that_took_longer_than_its_lease_lasts_is_fenced,
    a_renewal_whose_deadline_passes_on_the_way_is_not_said_to_be_undone,
    a_renewal_that_a_release_overtook_is_not_acknowledged,
    nobody_else_gets_the_resource_before_safe_for_has_passed,
    a_reservation_that_nobody_renews_makes_way_and_its_successor_has_a_larger_token,
    a_request_asked_again_after_its_round_ran_out_is_fenced,
    renewals_by_any_sidecar_keep_a_reservation_as_long_as_they_come,
}

// A9 and A10.
#[test]
fn a_ttl_is_never_shortened_and_one_out_of_range_is_refused_with_the_limit() {
    let parsed = |ttl| Ttl::parse(Some(ttl)).map(Ttl::seconds);
    assert_eq!(Ttl::parse(None).map(Ttl::seconds), Ok(TTL_SECONDS_DEFAULT));
    assert_eq!(parsed(SHORTEST + Duration::from_nanos(1)), Ok(4));
    assert_eq!(parsed(Duration::from_secs(86_400)), Ok(TTL_SECONDS_MAX));
    let short = [0, 1, 500_000_000, 999_999_999, 1_500_000_000];
    for nanos in short {
        let refused = parsed(Duration::from_nanos(nanos)).unwrap_err();
        assert!(refused.to_string().contains("the least is 3s"), "{refused}");
    }
    let long = [
        86_401,
        9_000_000_001,
        86_400_000_000_000,
        i64::MAX as u64,
        1 << 62,
    ];
    for seconds in long {
        let refused = parsed(Duration::from_secs(seconds)).unwrap_err();
        assert!(refused.to_string().contains("86400"), "{refused}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_sidecar_that_stood_still_grants_nothing_on_a_lease_that_died_meanwhile() {
    let backend = Backend::real().await;
    let etcd = Etcd::shared().await;
    let process = Process::serve(etcd.url(), backend.prefix(), &[]).await;
    let observer = backend.sidecar().await;
    let mut client = process.client();
    let ask = |id: &str| v1::ReserveRequest {
        resource: Some(v1::Resource {
            kind: "order".to_owned(),
            id: id.to_owned(),
        }),
        request_id: format!("{:?}", fresh_request()),
        ttl: Some(ProtoDuration {
            seconds: i64::from(SHORTEST_SECONDS),
            nanos: 0,
        }),
        ..v1::ReserveRequest::default()
    };
    client.reserve(ask("warm")).await.expect("it is free");
    process.pause();
    tokio::time::sleep(4 * SHORTEST).await;
    process.resume();
    let resource = fresh_resource();
    let free = tokio::spawn(freed(observer, resource.clone()));
    let sent = Instant::now();
    let answer = client.reserve(ask(resource.id())).await;
    let reservation = answer.expect("it is free").into_inner().reservation;
    let safe_for = reservation
        .expect("a reservation")
        .safe_for
        .expect("a span");
    let safe_for = Duration::try_from(safe_for).expect("not negative");
    assert!(
        safe_for > Duration::ZERO && safe_for <= SHORTEST,
        "{safe_for:?}"
    );
    let lived = free.await.unwrap() - sent;
    assert!(lived >= safe_for, "{lived:?} < {safe_for:?}");
}
