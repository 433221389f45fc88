//! Only what can no longer change is answered from memory; everything else is confirmed in etcd, a "no" included.

use fencepost::domain::decision::{Layer, Rule, Verdict};
use fencepost::engine::{Fault, OperationState};

use crate::support::ask::{ask, body, create, fresh_resource, reserve};
use crate::support::backend::Backend;
use crate::support::claim::{applied, judged, replayed};
use crate::support::everywhere;
use crate::support::fault::Rpc;

async fn a_sidecar_that_remembers_an_old_state_judges_the_new_one(backend: Backend) {
    let [one, two] = backend.sidecars().await;
    let resource = fresh_resource();
    applied(&two.transition(&create(&resource, "pending")).await);
    let pay = ask(&resource, "pay").from(&["pending"]).to("paid");
    applied(&one.transition(&pay).await);
    let cancel = ask(&resource, "cancel").from(&["pending"]).to("cancelled");
    judged(
        &two.transition(&cancel).await,
        Verdict::Rejected,
        Layer::State,
        Rule::Passed,
    );
    assert_eq!(two.state(&resource).await, "paid");
}

async fn a_no_is_not_given_from_memory(backend: Backend) {
    let [one, two] = backend.sidecars().await;
    let resource = fresh_resource();
    applied(&two.transition(&create(&resource, "pending")).await);
    let ship = ask(&resource, "ship").from(&["paid"]).to("shipped");
    judged(
        &two.transition(&ship).await,
        Verdict::TooEarly,
        Layer::State,
        Rule::NotYetReached,
    );
    applied(
        &one.transition(&ask(&resource, "pay").from(&["pending"]).to("paid"))
            .await,
    );
    applied(&two.transition(&ship).await);
}

async fn a_busy_resource_is_free_for_everybody_once_it_is_released(backend: Backend) {
    let [one, two] = backend.sidecars().await;
    let resource = fresh_resource();
    let grant = one.hold(&reserve(&resource)).await;
    for _ in 0..3 {
        let busy = two.reserve(&reserve(&resource)).await.decision;
        judged(&busy, Verdict::Busy, Layer::Fence, Rule::Held);
    }
    one.release(&grant.id).await;
    let next = two.hold(&reserve(&resource)).await;
    let stale = one.fence(&resource, grant.token).await;
    judged(&stale, Verdict::Fenced, Layer::Fence, Rule::Overtaken);
    let renewed = one.renew(&grant.id).await.decision;
    judged(&renewed, Verdict::Fenced, Layer::Fence, Rule::Released);
    assert_eq!(one.live(&resource).await, Some(next.token));
}

async fn a_lookup_never_says_never_seen_for_what_another_sidecar_did(backend: Backend) {
    let [one, two] = backend.sidecars().await;
    let resource = fresh_resource();
    for step in 0..20 {
        let operation = format!("step {step}");
        let (doer, asker) = if step % 2 == 0 {
            (&one, &two)
        } else {
            (&two, &one)
        };
        let before = asker.lookup(&resource, &operation).await.state;
        assert_eq!(before, OperationState::NeverSeen);
        doer.transition(&ask(&resource, &operation).result("x"))
            .await;
        let after = asker.lookup(&resource, &operation).await.state;
        assert_eq!(after, OperationState::Done);
    }
}

async fn a_finished_operation_is_replayed_without_etcd_and_nothing_else_is(backend: Backend) {
    let (one, plan) = backend.faulty().await;
    let resource = fresh_resource();
    let pay = create(&resource, "paid").result("receipt");
    applied(&one.transition(&pay).await);
    let refund = ask(&resource, "refund").from(&["shipped"]).to("refunded");
    judged(
        &one.transition(&refund).await,
        Verdict::TooEarly,
        Layer::State,
        Rule::NotYetReached,
    );
    let held = fresh_resource();
    let grant = one.hold(&reserve(&held)).await;
    let cuts = plan.cut_all();
    let before = plan.counts();
    replayed(&one.transition(&pay).await, &body("receipt"));
    let known = one.lookup(&resource, "create").await;
    assert_eq!(known.state, OperationState::Done);
    // Leases are granted ahead meanwhile, in vain, which asks the endpoint whether it is there: those are no transactions.
    assert_eq!(plan.counts().since(&before).of(Rpc::Txn), 0);

    let no_from_memory = [
        one.try_transition(&refund)
            .await
            .map(|answer| answer.verdict),
        one.try_transition(&ask(&resource, "new"))
            .await
            .map(|answer| answer.verdict),
        one.try_reserve(&reserve(&held))
            .await
            .map(|answer| answer.decision.verdict),
        one.try_release(&grant.id)
            .await
            .map(|answer| answer.verdict),
    ];
    for answer in no_from_memory {
        assert!(
            matches!(answer, Err(Fault::StoreUnavailable { .. })),
            "{answer:?}"
        );
    }
    // A keepalive travels on a stream, and what breaks a stream may have come after it.
    let renewed = one.try_renew(&grant.id).await;
    assert!(
        matches!(
            renewed,
            Err(Fault::StoreUnavailable { .. } | Fault::UnknownOutcome { .. })
        ),
        "{renewed:?}"
    );
    for cut in cuts {
        cut.lift();
    }
    let still = backend.sidecar().await.live(&held).await;
    assert_eq!(still, Some(grant.token));
}

everywhere! {
    a_sidecar_that_remembers_an_old_state_judges_the_new_one,
    a_no_is_not_given_from_memory,
    a_busy_resource_is_free_for_everybody_once_it_is_released,
    a_lookup_never_says_never_seen_for_what_another_sidecar_did,
    a_finished_operation_is_replayed_without_etcd_and_nothing_else_is,
}
