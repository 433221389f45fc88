//! A write whose reply was lost is unknown until it is settled: no answer says "failed" for what was done, and a write that
//! arrives late never lands on top of a later decision.

use fencepost::domain::decision::{Layer, Rule, Verdict};

use super::fence::{SHORTEST_SECONDS, over};
use crate::support::ask::{ask, body, create, fresh_resource, reserve, reserve_for};
use crate::support::backend::Backend;
use crate::support::claim::{applied, judged, lasting, not_failed, replayed};
use crate::support::engines;
use crate::support::fault::{Action, Ending, Rpc};

async fn a_transition_whose_reply_was_lost_is_replayed_with_its_first_result(backend: Backend) {
    for (ending, asked_first) in [
        (Ending::Silence, 0),
        (Ending::Silence, 1),
        (Ending::Reset, 0),
        (Ending::Reset, 1),
    ] {
        let (one, plan) = backend.faulty().await;
        let two = backend.sidecar().await;
        let resource = fresh_resource();
        applied(&one.transition(&create(&resource, "pending")).await);
        let pay = ask(&resource, "pay").from(&["pending"]).to("paid");
        let lost = plan
            .when(Rpc::Txn)
            .containing(resource.id())
            .then(Action::LoseReply(ending));
        let first = one.try_transition(&pay.clone().result("first")).await;
        not_failed(&first);
        if let Ok(first) = &first {
            applied(first);
        }
        lost.met().await;
        let mut sidecars = [&one, &two];
        sidecars.rotate_left(asked_first);
        for sidecar in sidecars {
            let again = sidecar.transition(&pay.clone().result("second")).await;
            replayed(&again, &body("first"));
            assert_eq!(sidecar.state(&resource).await, "paid");
        }
        assert_eq!(
            two.incidents(&resource).await,
            [],
            "it must not suspect itself"
        );
    }
}

async fn a_lost_reply_stays_unknown_while_etcd_is_away_and_is_settled_when_it_is_back(
    backend: Backend,
) {
    let (one, plan) = backend.faulty().await;
    let resource = fresh_resource();
    let txn = || plan.when(Rpc::Txn).containing(resource.id());
    let lost = txn().then(Action::LoseReply(Ending::Reset));
    let away = txn().times(4).then(Action::Cut);
    // That nothing was sent since says nothing of what was sent before.
    applied(&one.transition(&create(&resource, "paid")).await);
    assert_eq!((lost.hits(), away.hits()), (1, 4));
    assert_eq!(backend.sidecar().await.state(&resource).await, "paid");
}

async fn a_transition_that_arrives_late_never_lands_on_a_later_decision(backend: Backend) {
    for ending in Ending::BOTH {
        let (one, plan) = backend.faulty().await;
        let two = backend.sidecar().await;
        let resource = fresh_resource();
        applied(&one.transition(&create(&resource, "pending")).await);
        let pay = ask(&resource, "pay")
            .from(&["pending"])
            .to("paid")
            .result("receipt");
        let late = plan
            .when(Rpc::Txn)
            .containing(resource.id())
            .then(Action::DeliverLate(ending));
        let first = one.try_transition(&pay).await;
        not_failed(&first);
        late.met().await;

        let cancel = ask(&resource, "cancel").from(&["pending"]).to("cancelled");
        let cancelled = two.transition(&cancel).await;
        let decided = two.state(&resource).await;
        match (&first, cancelled.verdict) {
            // The sidecar settled it by a write of its own, before or while the other one asked.
            (Ok(_), Verdict::Rejected) | (Err(_), Verdict::Rejected) => assert_eq!(decided, "paid"),
            (Err(_), Verdict::Applied) => assert_eq!(decided, "cancelled"),
            _ => panic!("{first:?}, and then {cancelled:?}"),
        }
        late.deliver().await;
        let mut answers = Vec::new();
        for sidecar in [&two, &one, &two] {
            assert_eq!(sidecar.state(&resource).await, decided);
            let again = sidecar.transition(&pay).await;
            if decided == "paid" {
                replayed(&again, &body("receipt"));
            } else {
                judged(&again, Verdict::Rejected, Layer::State, Rule::Passed);
            }
            answers.push((again.verdict, again.result, again.explanation));
        }
        answers.dedup();
        assert_eq!(answers.len(), 1, "{answers:?}");
    }
}

async fn a_transition_asked_again_before_it_arrives_late_is_done_once(backend: Backend) {
    for (ending, asked) in [
        (Ending::Silence, 0),
        (Ending::Silence, 1),
        (Ending::Reset, 0),
        (Ending::Reset, 1),
    ] {
        let (one, plan) = backend.faulty().await;
        let two = backend.sidecar().await;
        let resource = fresh_resource();
        let pay = create(&resource, "paid");
        let late = plan
            .when(Rpc::Txn)
            .containing(resource.id())
            .then(Action::DeliverLate(ending));
        not_failed(&one.try_transition(&pay.clone().result("first")).await);
        late.met().await;
        let again = [&one, &two][asked]
            .transition(&pay.clone().result("second"))
            .await;
        assert!(
            matches!(again.verdict, Verdict::Applied | Verdict::Replayed),
            "{again:?}"
        );
        let result = again.result.unwrap();
        let ship = ask(&resource, "ship").from(&["paid"]).to("shipped");
        applied(&two.transition(&ship).await);
        late.deliver().await;
        for sidecar in [&one, &two] {
            replayed(&sidecar.transition(&pay).await, &result);
            assert_eq!(sidecar.state(&resource).await, "shipped");
        }
    }
}

async fn a_reserve_whose_reply_was_lost_gets_its_reservation_when_it_asks_again(backend: Backend) {
    for (ending, asked_first) in [
        (Ending::Silence, 0),
        (Ending::Silence, 1),
        (Ending::Reset, 0),
        (Ending::Reset, 1),
    ] {
        let (one, plan) = backend.faulty().await;
        let two = backend.sidecar().await;
        let resource = fresh_resource();
        let mine = reserve(&resource);
        let lost = plan
            .when(Rpc::Txn)
            .containing(resource.id())
            .then(Action::LoseReply(ending));
        let first = one.try_reserve(&mine).await;
        not_failed(&first);
        lost.met().await;
        let stranger = two.reserve(&reserve(&resource)).await.decision;
        judged(&stranger, Verdict::Busy, Layer::Fence, Rule::Held);
        if let Ok(first) = &first {
            let (layer, rule) = (Layer::Result, Rule::WasFree);
            judged(&first.decision, Verdict::Granted, layer, rule);
        }
        let mut tokens: Vec<_> = first
            .ok()
            .into_iter()
            .map(|first| first.grant.unwrap().token)
            .collect();
        let mut sidecars = [&one, &two];
        sidecars.rotate_left(asked_first);
        for sidecar in sidecars {
            let again = sidecar.reserve(&mine).await;
            judged(
                &again.decision,
                Verdict::Granted,
                Layer::Replay,
                Rule::SameRequest,
            );
            tokens.push(again.grant.unwrap().token);
            let good = sidecar.fence(&resource, tokens[0]).await;
            judged(&good, Verdict::Granted, Layer::Fence, Rule::Live);
        }
        tokens.dedup();
        assert_eq!(tokens.len(), 1, "one grant, one token: {tokens:?}");
    }
}

// A7, when the caller never comes back.
async fn a_reservation_that_nobody_learned_of_ends_by_itself(backend: Backend) {
    let (one, plan) = backend.faulty().await;
    let two = backend.sidecar().await;
    let resource = fresh_resource();
    let lost = plan
        .when(Rpc::Txn)
        .containing(resource.id())
        .then(Action::LoseReply(Ending::Reset));
    not_failed(
        &one.try_reserve(&reserve_for(&resource, SHORTEST_SECONDS))
            .await,
    );
    lost.met().await;
    over(&two, &resource).await;
    two.hold(&reserve(&resource)).await;
}

async fn a_reserve_that_arrives_late_takes_nothing_from_a_later_holder(backend: Backend) {
    for ending in Ending::BOTH {
        let (one, plan) = backend.faulty().await;
        let two = backend.sidecar().await;
        let resource = fresh_resource();
        let (mine, other) = (reserve(&resource), reserve(&resource));
        let late = plan
            .when(Rpc::Txn)
            .containing(resource.id())
            .then(Action::DeliverLate(ending));
        let first = one.try_reserve(&mine).await;
        not_failed(&first);
        late.met().await;
        let theirs = two.reserve(&other).await;
        let decided = two.live(&resource).await.expect("one of the two has it");
        late.deliver().await;
        for sidecar in [&one, &two] {
            assert_eq!(sidecar.live(&resource).await, Some(decided));
            let again = [sidecar.reserve(&mine).await, sidecar.reserve(&other).await];
            let granted: Vec<_> = again
                .iter()
                .filter_map(|answer| answer.grant.as_ref())
                .collect();
            assert_eq!(granted.len(), 1, "{again:?}");
            assert_eq!(granted[0].token, decided);
            if let Some(theirs) = &theirs.grant {
                assert_eq!(granted[0].id, theirs.id);
            }
        }
    }
}

async fn a_reserve_that_arrives_after_its_round_is_over_takes_nothing(backend: Backend) {
    for ending in Ending::BOTH {
        let (one, plan) = backend.faulty().await;
        let two = backend.sidecar().await;
        let resource = fresh_resource();
        let mine = reserve(&resource);
        let late = plan
            .when(Rpc::Txn)
            .containing(resource.id())
            .then(Action::DeliverLate(ending));
        not_failed(&one.try_reserve(&mine).await);
        late.met().await;
        let grant = one.hold(&mine).await;
        one.release(&grant.id).await;
        late.deliver().await;
        for sidecar in [&one, &two] {
            assert_eq!(sidecar.live(&resource).await, None);
            assert_eq!(
                sidecar.reserve(&mine).await.decision.verdict,
                Verdict::Fenced
            );
        }
        let next = two.hold(&reserve(&resource)).await;
        assert!(next.token > grant.token);
    }
}

async fn a_reserve_whose_lease_was_lost_on_the_way_can_be_asked_again(backend: Backend) {
    for ending in Ending::BOTH {
        let (one, plan) = backend.faulty().await;
        let two = backend.sidecar().await;
        let resource = fresh_resource();
        let mine = reserve(&resource);
        let lost = plan.when(Rpc::LeaseGrant).then(Action::LoseReply(ending));
        let first = one.try_reserve(&mine).await;
        lost.met().await;
        let grant = one.hold(&mine).await;
        if let Ok(first) = first {
            assert_eq!(first.grant.map(|first| first.token), Some(grant.token));
        }
        assert_eq!(two.live(&resource).await, Some(grant.token));
    }
}

async fn a_release_whose_reply_was_lost_has_ended_the_round(backend: Backend) {
    for (ending, asked_first) in [
        (Ending::Silence, 0),
        (Ending::Silence, 1),
        (Ending::Reset, 0),
        (Ending::Reset, 1),
    ] {
        let (one, plan) = backend.faulty().await;
        let two = backend.sidecar().await;
        let resource = fresh_resource();
        let grant = one.hold(&reserve(&resource)).await;
        let lost = plan
            .when(Rpc::Txn)
            .containing(resource.id())
            .then(Action::LoseReply(ending));
        let first = one.try_release(&grant.id).await;
        not_failed(&first);
        if let Ok(first) = &first {
            judged(first, Verdict::Applied, Layer::Result, Rule::Ended);
        }
        lost.met().await;
        let mut sidecars = [&one, &two];
        sidecars.rotate_left(asked_first);
        for sidecar in sidecars {
            let again = sidecar.release(&grant.id).await;
            judged(&again, Verdict::Replayed, Layer::Replay, Rule::Released);
            assert_eq!(sidecar.live(&resource).await, None);
        }
    }
}

async fn a_release_that_arrives_late_does_not_end_the_next_round(backend: Backend) {
    for (ending, asked) in [
        (Ending::Silence, 0),
        (Ending::Silence, 1),
        (Ending::Reset, 0),
        (Ending::Reset, 1),
    ] {
        let (one, plan) = backend.faulty().await;
        let two = backend.sidecar().await;
        let resource = fresh_resource();
        let grant = one.hold(&reserve(&resource)).await;
        let late = plan
            .when(Rpc::Txn)
            .containing(resource.id())
            .then(Action::DeliverLate(ending));
        not_failed(&one.try_release(&grant.id).await);
        late.met().await;
        let again = [&one, &two][asked].release(&grant.id).await;
        assert!(
            matches!(again.verdict, Verdict::Applied | Verdict::Replayed),
            "{again:?}"
        );
        let next = two.hold(&reserve(&resource)).await;
        late.deliver().await;
        for sidecar in [&one, &two] {
            assert_eq!(sidecar.live(&resource).await, Some(next.token));
            let good = sidecar.fence(&resource, next.token).await;
            judged(&good, Verdict::Granted, Layer::Fence, Rule::Live);
        }
    }
}

async fn a_renewal_whose_reply_was_lost_can_be_asked_again(backend: Backend) {
    for rpc in [Rpc::LeaseKeepAlive, Rpc::Txn, Rpc::Range] {
        for ending in Ending::BOTH {
            let (one, plan) = backend.faulty().await;
            let two = backend.sidecar().await;
            let resource = fresh_resource();
            let grant = one.hold(&reserve(&resource)).await;
            let lost = plan.when(rpc).always().then(Action::LoseReply(ending));
            let first = one.try_renew(&grant.id).await;
            not_failed(&first);
            lost.lift();
            for sidecar in [&one, &two] {
                let again = sidecar.renew(&grant.id).await;
                judged(
                    &again.decision,
                    Verdict::Granted,
                    Layer::Fence,
                    Rule::Renewed,
                );
                assert_eq!(again.grant.unwrap().token, grant.token);
            }
        }
    }
}

async fn a_renewal_that_arrives_late_revives_nothing(backend: Backend) {
    for ending in Ending::BOTH {
        let (one, plan) = backend.faulty().await;
        let two = backend.sidecar().await;
        let resource = fresh_resource();
        let grant = one.hold(&reserve(&resource)).await;
        let late = plan
            .when(Rpc::LeaseKeepAlive)
            .always()
            .then(Action::DeliverLate(ending));
        not_failed(&one.try_renew(&grant.id).await);
        late.met().await;
        judged(
            &two.release(&grant.id).await,
            Verdict::Applied,
            Layer::Result,
            Rule::Ended,
        );
        let next = two.hold(&reserve(&resource)).await;
        late.deliver().await;
        for sidecar in [&one, &two] {
            let old = sidecar.renew(&grant.id).await.decision;
            judged(&old, Verdict::Fenced, Layer::Fence, Rule::Released);
            assert_eq!(sidecar.live(&resource).await, Some(next.token));
        }
    }
}

async fn a_renewal_that_arrives_after_the_time_ran_out_revives_nothing(backend: Backend) {
    for ending in Ending::BOTH {
        let (one, plan) = backend.faulty().await;
        let two = backend.sidecar().await;
        let resource = fresh_resource();
        let grant = one.hold(&reserve_for(&resource, SHORTEST_SECONDS)).await;
        let late = plan
            .when(Rpc::LeaseKeepAlive)
            .always()
            .then(Action::DeliverLate(ending));
        not_failed(&one.try_renew(&grant.id).await);
        late.met().await;
        over(&two, &resource).await;
        let next = two.hold(&reserve(&resource)).await;
        late.deliver().await;
        late.lift();
        for sidecar in [&one, &two] {
            let old = sidecar.renew(&grant.id).await.decision;
            judged(&old, Verdict::Fenced, Layer::Fence, Rule::Lost);
            assert_eq!(sidecar.live(&resource).await, Some(next.token));
        }
    }
}

async fn a_refusal_whose_reply_was_lost_is_the_same_refusal_when_asked_again(backend: Backend) {
    let (one, plan) = backend.faulty().await;
    let two = backend.sidecar().await;
    let resource = fresh_resource();
    applied(&one.transition(&create(&resource, "cancelled")).await);
    let pay = ask(&resource, "pay").from(&["new"]).to("paid");
    let lost = plan
        .when(Rpc::Txn)
        .containing(resource.id())
        .then(Action::LoseReply(Ending::Reset));
    not_failed(&one.try_transition(&pay).await);
    lost.met().await;
    let answers = [two.transition(&pay).await, one.transition(&pay).await];
    judged(&answers[0], Verdict::Rejected, Layer::State, Rule::Passed);
    assert_eq!(lasting(&answers[0]), lasting(&answers[1]));
    assert_eq!(two.incidents(&resource).await.len(), 1);
}

engines! {
    a_lost_reply_stays_unknown_while_etcd_is_away_and_is_settled_when_it_is_back,
    a_transition_whose_reply_was_lost_is_replayed_with_its_first_result,
    a_transition_that_arrives_late_never_lands_on_a_later_decision,
    a_transition_asked_again_before_it_arrives_late_is_done_once,
    a_reserve_whose_reply_was_lost_gets_its_reservation_when_it_asks_again,
    a_reservation_that_nobody_learned_of_ends_by_itself,
    a_reserve_that_arrives_late_takes_nothing_from_a_later_holder,
    a_reserve_that_arrives_after_its_round_is_over_takes_nothing,
    a_reserve_whose_lease_was_lost_on_the_way_can_be_asked_again,
    a_release_whose_reply_was_lost_has_ended_the_round,
    a_release_that_arrives_late_does_not_end_the_next_round,
    a_renewal_whose_reply_was_lost_can_be_asked_again,
    a_renewal_that_arrives_late_revives_nothing,
    a_renewal_that_arrives_after_the_time_ran_out_revives_nothing,
    a_refusal_whose_reply_was_lost_is_the_same_refusal_when_asked_again,
}
