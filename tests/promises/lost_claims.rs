//! Lost replies around claims: a grant, a completing, a release or a resolution whose reply was lost is settled, and never
//! becomes a second run.

use fencepost::domain::claim::Finding;
use fencepost::domain::decision::{Layer, Rule, Verdict};
use fencepost::domain::request::Ride;
use fencepost::engine::OperationState;

use super::laws::{By, by_both_laws, pay};
use crate::support::ask::{body, fresh_request, reserve, resolution};
use crate::support::backend::Backend;
use crate::support::claim::{applied, evidence, judged, not_failed, replayed};
use crate::support::fault::{Action, Ending, Rpc};

/// How a reply is lost, and which of two sidecars is asked next.
const WAYS: [(Ending, usize); 4] = [
    (Ending::Silence, 0),
    (Ending::Silence, 1),
    (Ending::Reset, 0),
    (Ending::Reset, 1),
];

async fn a_claim_whose_reply_was_lost_is_given_to_the_same_request_only(backend: Backend, by: By) {
    for (ending, asked) in WAYS {
        let (one, plan) = backend.faulty().await;
        let two = backend.sidecar().await;
        let resource = by.pending(&one).await;
        let mine = pay(&resource).claim();
        let lost = plan
            .when(Rpc::Txn)
            .containing(resource.id())
            .then(Action::LoseReply(ending));
        not_failed(&one.try_reserve(&mine).await);
        lost.met().await;
        let sidecar = [&one, &two][asked];
        let other = sidecar.reserve(&pay(&resource).claim()).await.decision;
        judged(&other, Verdict::InProgress, Layer::Replay, Rule::Running);
        let again = sidecar.hold(&mine).await;
        assert_eq!(again.attempt, 1, "its own attempt was counted twice");
        applied(&sidecar.complete(&again.id, "receipt").await);
        replayed(&one.reserve(&mine).await.decision, &body("receipt"));
    }
}

// A7: nobody asks again, and it ends by itself, as a claim that died.
async fn a_claim_that_nobody_learned_of_dies_and_is_found(backend: Backend, by: By) {
    let (one, plan) = backend.faulty().await;
    let two = backend.sidecar().await;
    let resource = by.pending(&one).await;
    let lost = plan
        .when(Rpc::Txn)
        .containing(resource.id())
        .then(Action::LoseReply(Ending::Reset));
    let mine = pay(&resource).claim_for(super::fence::SHORTEST_SECONDS);
    not_failed(&one.try_reserve(&mine).await);
    lost.met().await;
    super::fence::over(&two, &resource).await;
    for sidecar in [&one, &two] {
        let found = sidecar.reserve(&mine).await.decision;
        judged(&found, Verdict::Interrupted, Layer::Replay, Rule::ClaimDied);
    }
}

async fn a_claim_that_arrives_late_is_never_a_second_one(backend: Backend, by: By) {
    for ending in Ending::BOTH {
        let (one, plan) = backend.faulty().await;
        let two = backend.sidecar().await;
        let resource = by.pending(&one).await;
        let late = plan
            .when(Rpc::Txn)
            .containing(resource.id())
            .then(Action::DeliverLate(ending));
        let mine = pay(&resource).claim();
        not_failed(&one.try_reserve(&mine).await);
        late.met().await;
        let other = pay(&resource).claim();
        let theirs = two.reserve(&other).await;
        late.deliver().await;
        let granted = [one.reserve(&mine).await, two.reserve(&other).await];
        let granted: Vec<_> = granted.iter().filter_map(|it| it.grant.as_ref()).collect();
        assert_eq!(granted.len(), 1, "{granted:?}");
        assert_eq!(granted[0].attempt, 1);
        if let Some(theirs) = theirs.grant {
            assert_eq!(theirs.id, granted[0].id);
        }
        applied(&two.complete(&granted[0].id, "receipt").await);
        replayed(&one.transition(&pay(&resource)).await, &body("receipt"));
    }
}

async fn a_completing_whose_reply_was_lost_is_replayed_with_its_result(backend: Backend, by: By) {
    for (ending, asked) in WAYS {
        let (one, plan) = backend.faulty().await;
        let two = backend.sidecar().await;
        let resource = by.pending(&one).await;
        let grant = one.hold(&pay(&resource).claim()).await;
        let lost = plan
            .when(Rpc::Txn)
            .containing(resource.id())
            .then(Action::LoseReply(ending));
        let first = one.try_complete(&grant.id, "receipt").await;
        not_failed(&first);
        if let Ok(first) = &first {
            applied(first);
        }
        lost.met().await;
        let again = [&one, &two][asked].complete(&grant.id, "receipt").await;
        replayed(&again, &body("receipt"));
        assert_eq!(two.state(&resource).await, "paid");
        assert_eq!(two.live(&resource).await, None);
        assert_eq!(two.incidents(&resource).await, []);
    }
}

async fn a_completing_that_arrives_after_the_claim_was_resolved_changes_nothing(
    backend: Backend,
    by: By,
) {
    for ending in Ending::BOTH {
        let (one, plan) = backend.faulty().await;
        let two = backend.sidecar().await;
        let resource = by.pending(&one).await;
        let grant = one.hold(&pay(&resource).claim()).await;
        let late = plan
            .when(Rpc::Txn)
            .containing(resource.id())
            .then(Action::DeliverLate(ending));
        let first = one.try_complete(&grant.id, "receipt").await;
        not_failed(&first);
        late.met().await;
        two.release(&grant.id).await;
        let refused = two
            .resolve(&resolution(&resource, "pay", Finding::Refused, ""))
            .await;
        late.deliver().await;
        // Either its sidecar had settled it before, or the person was first.
        let known = two.lookup(&resource, "pay").await.state;
        match refused.verdict {
            Verdict::Applied => {
                assert_eq!(known, OperationState::Refused);
                assert_eq!(two.state(&resource).await, "pending");
                let again = one.complete(&grant.id, "receipt").await;
                assert_eq!(again.verdict, Verdict::Fenced);
                let kept = two.incidents(&resource).await;
                let kept: Vec<_> = kept.iter().flat_map(evidence).collect();
                assert_eq!(kept, [body("receipt")]);
            }
            Verdict::Rejected => {
                assert_eq!(known, OperationState::Done);
                assert_eq!(two.state(&resource).await, "paid");
            }
            other => panic!("{other:?}"),
        }
    }
}

async fn a_release_and_a_resolution_whose_replies_were_lost_are_settled(backend: Backend, by: By) {
    for (ending, asked) in WAYS {
        let (one, plan) = backend.faulty().await;
        let two = backend.sidecar().await;
        let resource = by.pending(&one).await;
        let grant = one.hold(&pay(&resource).claim()).await;
        let lose = || {
            plan.when(Rpc::Txn)
                .containing(resource.id())
                .then(Action::LoseReply(ending))
        };
        let lost = lose();
        not_failed(&one.try_release(&grant.id).await);
        lost.met().await;
        let sidecar = [&one, &two][asked];
        let again = sidecar.release(&grant.id).await;
        judged(&again, Verdict::Replayed, Layer::Replay, Rule::Released);
        let known = sidecar.lookup(&resource, "pay").await.state;
        assert_eq!(known, OperationState::Interrupted);
        let lost = lose();
        let ask = resolution(&resource, "pay", Finding::Done, "by the books");
        not_failed(&one.try_resolve(&ask).await);
        lost.met().await;
        let again = sidecar.resolve(&ask).await;
        judged(&again, Verdict::Replayed, Layer::Replay, Rule::Finished);
        assert_eq!(sidecar.state(&resource).await, "paid");
        replayed(
            &sidecar.transition(&pay(&resource)).await,
            &body("by the books"),
        );
    }
}

async fn a_ride_whose_reply_was_lost_is_given_to_the_same_request_only(backend: Backend, by: By) {
    for (ending, asked) in WAYS {
        let (one, plan) = backend.faulty().await;
        let two = backend.sidecar().await;
        let resource = by.pending(&one).await;
        let held = one.hold(&reserve(&resource)).await;
        let ride = Ride {
            reservation: held.id.clone(),
            request: fresh_request(),
            intent: pay(&resource).build().intent,
        };
        let lost = plan
            .when(Rpc::Txn)
            .containing(resource.id())
            .then(Action::LoseReply(ending));
        not_failed(&one.try_ride(&ride).await);
        lost.met().await;
        let sidecar = [&one, &two][asked];
        let other = sidecar.ride(&pay(&resource), &held.id).await.decision;
        judged(&other, Verdict::InProgress, Layer::Replay, Rule::Running);
        let again = sidecar.try_ride(&ride).await.unwrap().grant.unwrap();
        assert_eq!((again.token, again.attempt), (held.token, 1));
        applied(&sidecar.complete(&held.id, "receipt").await);
        replayed(&two.complete(&held.id, "receipt").await, &body("receipt"));
        assert_eq!(one.live(&resource).await, Some(held.token));
        assert_eq!(two.incidents(&resource).await, []);
    }
}

async fn a_ride_that_arrives_after_its_round_is_over_claims_nothing(backend: Backend, by: By) {
    for ending in Ending::BOTH {
        let (one, plan) = backend.faulty().await;
        let two = backend.sidecar().await;
        let resource = by.pending(&one).await;
        let held = one.hold(&reserve(&resource)).await;
        let ride = Ride {
            reservation: held.id.clone(),
            request: fresh_request(),
            intent: pay(&resource).build().intent,
        };
        let late = plan
            .when(Rpc::Txn)
            .containing(resource.id())
            .then(Action::DeliverLate(ending));
        not_failed(&one.try_ride(&ride).await);
        late.met().await;
        two.give_back(&held.id).await;
        late.deliver().await;
        for sidecar in [&one, &two] {
            let known = sidecar.lookup(&resource, "pay").await.state;
            assert_eq!(known, OperationState::NeverSeen);
            let over = sidecar.try_ride(&ride).await.unwrap();
            assert_eq!((over.decision.verdict, over.grant), (Verdict::Fenced, None));
        }
        let next = two.hold(&pay(&resource).claim()).await;
        assert!(next.token > held.token);
        applied(&one.complete(&next.id, "receipt").await);
        assert_eq!(two.state(&resource).await, "paid");
    }
}

async fn a_claim_that_was_given_back_by_a_lost_reply_is_given_back_once(backend: Backend, by: By) {
    for (ending, asked) in WAYS {
        let (one, plan) = backend.faulty().await;
        let two = backend.sidecar().await;
        let resource = by.pending(&one).await;
        let grant = one.hold(&pay(&resource).claim()).await;
        let lost = plan
            .when(Rpc::Txn)
            .containing(resource.id())
            .then(Action::LoseReply(ending));
        not_failed(&one.try_give_back(&grant.id).await);
        lost.met().await;
        let sidecar = [&one, &two][asked];
        let again = sidecar.give_back(&grant.id).await;
        judged(&again, Verdict::Replayed, Layer::Replay, Rule::Released);
        let known = sidecar.lookup(&resource, "pay").await.state;
        assert_eq!(known, OperationState::NeverSeen);
        let next = sidecar.hold(&pay(&resource).claim()).await;
        assert_eq!(next.attempt, 2);
        applied(&two.complete(&next.id, "receipt").await);
        assert_eq!(
            one.incidents(&resource).await,
            [],
            "nothing was interrupted"
        );
    }
}

async fn giving_back_that_arrives_late_takes_nothing_from_a_completed_claim(
    backend: Backend,
    by: By,
) {
    for ending in Ending::BOTH {
        let (one, plan) = backend.faulty().await;
        let two = backend.sidecar().await;
        let resource = by.pending(&one).await;
        let grant = one.hold(&pay(&resource).claim()).await;
        let late = plan
            .when(Rpc::Txn)
            .containing(resource.id())
            .then(Action::DeliverLate(ending));
        not_failed(&one.try_give_back(&grant.id).await);
        late.met().await;
        let done = two.complete(&grant.id, "receipt").await;
        late.deliver().await;
        let known = two.lookup(&resource, "pay").await.state;
        match done.verdict {
            Verdict::Applied => {
                assert_eq!(known, OperationState::Done);
                assert_eq!(one.state(&resource).await, "paid");
                replayed(&one.transition(&pay(&resource)).await, &body("receipt"));
            }
            // Its sidecar had settled it before.
            Verdict::Fenced => {
                assert_eq!(known, OperationState::NeverSeen);
                assert_eq!(one.state(&resource).await, "pending");
                assert_eq!(one.hold(&pay(&resource).claim()).await.attempt, 2);
            }
            other => panic!("{other:?}"),
        }
    }
}

async fn a_resolution_that_arrives_late_changes_nothing_that_was_found_since(
    backend: Backend,
    by: By,
) {
    for ending in Ending::BOTH {
        let (one, plan) = backend.faulty().await;
        let two = backend.sidecar().await;
        let resource = by.pending(&one).await;
        let grant = one.hold(&pay(&resource).claim()).await;
        one.release(&grant.id).await;
        let late = plan
            .when(Rpc::Txn)
            .containing(resource.id())
            .then(Action::DeliverLate(ending));
        let refused = resolution(&resource, "pay", Finding::Refused, "");
        not_failed(&one.try_resolve(&refused).await);
        late.met().await;
        let done = resolution(&resource, "pay", Finding::Done, "by the books");
        let found = two.resolve(&done).await;
        late.deliver().await;
        for sidecar in [&two, &one] {
            let known = sidecar.lookup(&resource, "pay").await.state;
            match found.verdict {
                Verdict::Applied => {
                    assert_eq!(known, OperationState::Done);
                    assert_eq!(sidecar.state(&resource).await, "paid");
                    let again = sidecar.transition(&pay(&resource)).await;
                    replayed(&again, &body("by the books"));
                }
                // Its sidecar had settled it before.
                Verdict::Rejected => {
                    assert_eq!(known, OperationState::Refused);
                    assert_eq!(sidecar.state(&resource).await, "pending");
                }
                other => panic!("{other:?}"),
            }
        }
    }
}

by_both_laws! {
    a_ride_whose_reply_was_lost_is_given_to_the_same_request_only,
    a_ride_that_arrives_after_its_round_is_over_claims_nothing,
    a_claim_that_was_given_back_by_a_lost_reply_is_given_back_once,
    giving_back_that_arrives_late_takes_nothing_from_a_completed_claim,
    a_resolution_that_arrives_late_changes_nothing_that_was_found_since,
    a_claim_whose_reply_was_lost_is_given_to_the_same_request_only,
    a_claim_that_nobody_learned_of_dies_and_is_found,
    a_claim_that_arrives_late_is_never_a_second_one,
    a_completing_whose_reply_was_lost_is_replayed_with_its_result,
    a_completing_that_arrives_after_the_claim_was_resolved_changes_nothing,
    a_release_and_a_resolution_whose_replies_were_lost_are_settled,
}
