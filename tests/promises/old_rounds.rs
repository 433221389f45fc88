//! What comes from an earlier round changes nothing, even if the resource looks the same again.

use fencepost::domain::decision::{Advice, Layer, Rule, Verdict};
use fencepost::domain::ids::ResourceId;
use fencepost::domain::record::PAST_ROUNDS_MAX;
use fencepost::engine::Fault;

use super::fence::{OVER_WITHIN, SHORTEST_SECONDS, over};
use crate::support::ask::{ask, body, create, fresh_resource, reserve, reserve_for};
use crate::support::backend::Backend;
use crate::support::claim::{applied, evidence, judged, not_failed};
use crate::support::everywhere;
use crate::support::fault::{Action, Ending, Rpc};
use crate::support::until;

/// A lease, as etcd tells it; times in seconds.
#[derive(Clone, Copy, Debug)]
struct Lease {
    id: i64,
    ttl: i64,
    left: i64,
}

/// The lease that a reservation hangs on.
async fn lease_of(backend: &Backend, resource: &ResourceId) -> Lease {
    let mut raw = backend.raw().await;
    let key = format!(
        "{}h/{}/{}",
        backend.prefix(),
        resource.kind(),
        resource.id()
    );
    let found = raw.get(key, None).await.unwrap();
    let id = found.kvs()[0].lease();
    let told = raw.lease_time_to_live(id, None).await.unwrap();
    Lease {
        id,
        ttl: told.granted_ttl(),
        left: told.ttl(),
    }
}

// B1
async fn a_release_that_is_sent_again_does_not_end_the_next_round(backend: Backend) {
    for ending in Ending::BOTH {
        let (one, plan) = backend.faulty().await;
        let two = backend.sidecar().await;
        let resource = fresh_resource();
        let first = one.hold(&reserve(&resource)).await;
        let lost = plan
            .when(Rpc::Txn)
            .containing(resource.id())
            .then(Action::LoseReply(ending));
        not_failed(&one.try_release(&first.id).await);
        lost.met().await;
        let second = two.hold(&reserve(&resource)).await;
        for sidecar in [&one, &two] {
            let again = sidecar.release(&first.id).await;
            judged(&again, Verdict::Replayed, Layer::Replay, Rule::Released);
            assert_eq!(again.advice(), Advice::Acknowledge);
            assert_eq!(sidecar.live(&resource).await, Some(second.token));
        }
    }
}

// B2
async fn a_slow_worker_cannot_release_the_round_of_its_successor(backend: Backend) {
    let [one, two] = backend.sidecars().await;
    let resource = fresh_resource();
    let slow = one.hold(&reserve_for(&resource, SHORTEST_SECONDS)).await;
    over(&two, &resource).await;
    let successor = two.hold(&reserve(&resource)).await;
    // Neither is it prolonged: it has used up a part of its time, which stays used.
    let begun = lease_of(&backend, &resource).await;
    let before = until("some of its time has passed", OVER_WITHIN, || async {
        let now = lease_of(&backend, &resource).await;
        (now.left <= begun.left - 2).then_some(now)
    });
    let before = before.await;
    for sidecar in [&one, &two] {
        let late = sidecar.release(&slow.id).await;
        judged(&late, Verdict::Replayed, Layer::Replay, Rule::Lost);
        let live = late.now.unwrap().live.unwrap();
        assert_eq!(live.token, successor.token, "it shows who holds it since");
        let renewed = sidecar.renew(&slow.id).await.decision;
        judged(&renewed, Verdict::Fenced, Layer::Fence, Rule::Lost);
        let third = sidecar.reserve(&reserve(&resource)).await.decision;
        judged(&third, Verdict::Busy, Layer::Fence, Rule::Held);
    }
    let after = lease_of(&backend, &resource).await;
    assert_eq!((after.id, after.ttl), (before.id, before.ttl));
    assert!(
        after.left > 0 && after.left <= before.left,
        "{after:?} {before:?}"
    );
    let renewed = two.renew(&successor.id).await;
    judged(
        &renewed.decision,
        Verdict::Granted,
        Layer::Fence,
        Rule::Renewed,
    );
}

// B8
async fn a_release_that_never_left_says_so_and_works_when_it_is_sent_again(backend: Backend) {
    let (one, plan) = backend.faulty().await;
    let two = backend.sidecar().await;
    let resource = fresh_resource();
    let grant = one.hold(&reserve(&resource)).await;
    let cuts = plan.cut_all();
    let answer = one.try_release(&grant.id).await;
    assert!(
        matches!(answer, Err(Fault::StoreUnavailable { .. })),
        "{answer:?}"
    );
    assert_eq!(two.live(&resource).await, Some(grant.token));
    for cut in cuts {
        cut.lift();
    }
    let again = one.release(&grant.id).await;
    judged(&again, Verdict::Applied, Layer::Result, Rule::Ended);
    let next = one.hold(&reserve(&resource)).await;
    assert!(next.token > grant.token);
}

// A14
async fn a_hold_that_ran_out_cannot_be_confirmed_even_if_nobody_took_it_since(backend: Backend) {
    let [one, two] = backend.sidecars().await;
    let seat = fresh_resource();
    let hold = one.hold(&reserve_for(&seat, SHORTEST_SECONDS)).await;
    applied(&one.transition(&create(&seat, "held").under(&hold.id)).await);
    over(&two, &seat).await;
    let confirm = ask(&seat, "confirm")
        .from(&["held"])
        .to("confirmed")
        .under(&hold.id);
    for sidecar in [&one, &two] {
        let refused = sidecar.transition(&confirm).await;
        judged(&refused, Verdict::Fenced, Layer::Fence, Rule::Lost);
        let now = refused.now.unwrap();
        assert_eq!(now.live, None, "nobody took it");
        assert_eq!(sidecar.state(&seat).await, "held");
        let renewed = sidecar.renew(&hold.id).await;
        judged(&renewed.decision, Verdict::Fenced, Layer::Fence, Rule::Lost);
        assert_eq!(renewed.grant, None);
    }
}

// ABA: same holder, same TTL, same state; another round.
async fn a_round_that_looks_the_same_is_not_the_same(backend: Backend) {
    let [one, two] = backend.sidecars().await;
    let seat = fresh_resource();
    applied(&one.transition(&create(&seat, "held")).await);
    let first = one.hold(&reserve(&seat)).await;
    one.release(&first.id).await;
    let second = one.hold(&reserve(&seat)).await;
    for sidecar in [&two, &one] {
        let released = sidecar.release(&first.id).await;
        judged(&released, Verdict::Replayed, Layer::Replay, Rule::Released);
        let renewed = sidecar.renew(&first.id).await;
        judged(
            &renewed.decision,
            Verdict::Fenced,
            Layer::Fence,
            Rule::Released,
        );
        let free = ask(&seat, "free")
            .from(&["held"])
            .to("free")
            .under(&first.id);
        let moved = sidecar.transition(&free).await;
        judged(&moved, Verdict::Fenced, Layer::Fence, Rule::Released);
        assert_eq!(sidecar.state(&seat).await, "held");
        assert_eq!(sidecar.live(&seat).await, Some(second.token));
    }
    let free = ask(&seat, "free")
        .from(&["held"])
        .to("free")
        .under(&second.id);
    applied(&two.transition(&free).await);
}

async fn a_round_so_old_that_the_record_forgot_its_end_is_still_harmless(backend: Backend) {
    let sidecars = backend.sidecars().await;
    let resource = fresh_resource();
    let mut rounds = Vec::new();
    for round in 0..PAST_ROUNDS_MAX + 4 {
        let grant = sidecars[round % 2].hold(&reserve(&resource)).await;
        sidecars[round % 2].release(&grant.id).await;
        rounds.push(grant);
    }
    let live = sidecars[0].hold(&reserve(&resource)).await;
    for sidecar in &sidecars {
        let oldest = sidecar.release(&rounds[0].id).await;
        judged(&oldest, Verdict::Replayed, Layer::Replay, Rule::Over);
        let latest = sidecar.release(&rounds.last().unwrap().id).await;
        judged(&latest, Verdict::Replayed, Layer::Replay, Rule::Released);
        assert_eq!(sidecar.live(&resource).await, Some(live.token));
    }
}

async fn an_operation_finished_without_the_round_that_reports_it_is_fenced_and_its_result_kept(
    backend: Backend,
) {
    let [one, two] = backend.sidecars().await;
    let resource = fresh_resource();
    applied(&one.transition(&create(&resource, "pending")).await);
    let pay = ask(&resource, "pay").from(&["pending"]).to("paid");
    let lost = one.hold(&reserve(&resource)).await;
    one.release(&lost.id).await;
    let second = two.hold(&reserve(&resource)).await;
    applied(
        &two.transition(&pay.clone().under(&second.id).result("second"))
            .await,
    );
    let late = one
        .transition(&pay.clone().under(&lost.id).result("first"))
        .await;
    judged(
        &late,
        Verdict::Fenced,
        Layer::Replay,
        Rule::DoneWithoutRound,
    );
    assert_eq!(late.result, None);
    let incidents = two.incidents(&resource).await;
    assert_eq!(incidents.len(), 1, "{incidents:?}");
    assert_eq!(late.incident.as_ref(), Some(&incidents[0].id));
    assert_eq!(evidence(&incidents[0]), [body("first")]);
    two.release(&second.id).await;
    let third = two.hold(&reserve(&resource)).await;
    let live = one.transition(&pay.under(&third.id).result("third")).await;
    assert_eq!(live.verdict, Verdict::Replayed, "{live:?}");
    assert_eq!(live.result, Some(crate::support::ask::body("second")));
}

async fn every_result_of_a_round_that_is_over_is_kept_as_it_was_first_reported(backend: Backend) {
    let [one, two] = backend.sidecars().await;
    let resource = fresh_resource();
    let round = one.hold(&reserve(&resource)).await;
    one.release(&round.id).await;
    let pay = ask(&resource, "pay").under(&round.id);
    let fenced = one.transition(&pay.clone().result("first")).await;
    assert_eq!(fenced.verdict, Verdict::Fenced);
    let first = one.incidents(&resource).await;
    assert_eq!(first.len(), 1, "{first:?}");
    assert_eq!(evidence(&first[0]), [body("first")]);
    // The same result once more, from elsewhere and with another content: the first report stands.
    let again = pay.clone().json(r#"{"other": true}"#).result("first");
    let fenced = two.transition(&again).await;
    assert_eq!(fenced.incident.as_ref(), Some(&first[0].id));
    let same = two.incidents(&resource).await;
    assert_eq!(same[0].evidence, first[0].evidence);
    // Another result is evidence of another run.
    let fenced = two.transition(&pay.clone().result("second")).await;
    assert_eq!(fenced.incident.as_ref(), Some(&first[0].id));
    let both = one.incidents(&resource).await;
    assert_eq!(both.len(), 1, "{both:?}");
    assert_eq!(evidence(&both[0]), [body("first"), body("second")]);
}

everywhere! {
    every_result_of_a_round_that_is_over_is_kept_as_it_was_first_reported,
    a_release_that_is_sent_again_does_not_end_the_next_round,
    a_slow_worker_cannot_release_the_round_of_its_successor,
    a_release_that_never_left_says_so_and_works_when_it_is_sent_again,
    a_hold_that_ran_out_cannot_be_confirmed_even_if_nobody_took_it_since,
    a_round_that_looks_the_same_is_not_the_same,
    a_round_so_old_that_the_record_forgot_its_end_is_still_harmless,
    an_operation_finished_without_the_round_that_reports_it_is_fenced_and_its_result_kept,
}
