//! Side effects run once: of many deliveries one is told to run it, its result is stored with the move, and whoever dies
//! over it leaves a trace instead of a second run.

use std::time::Duration;

use fencepost::domain::claim::Finding;
use fencepost::domain::decision::{Advice, Layer, Rule, Verdict};
use fencepost::domain::request::{Afterwards, Running};
use fencepost::engine::{Fault, OperationState};
use futures_util::future::join_all;

use super::fence::{SHORTEST_SECONDS, over};
use super::laws::{By, by_both_laws, cancel, mail, pay, paying_again, ship};
use crate::support::ask::{ask, body, fresh_resource, reserve, resolution, resource_of};
use crate::support::backend::Backend;
use crate::support::claim::{applied, evidence, judged, replayed};
use crate::support::engines;
use crate::support::fault::{Action, Rpc};
use fencepost::domain::ids::EventName;

/// Copies of one message at once.
const COPIES: usize = 10;

// Scene 2: ten copies at once, one runs.
async fn of_ten_copies_at_once_one_is_told_to_run_it_and_all_get_its_result(
    backend: Backend,
    by: By,
) {
    let sidecars = [
        backend.sidecar().await,
        backend.sidecar().await,
        backend.sidecar().await,
    ];
    let resource = by.pending(&sidecars[0]).await;
    let copies = (0..COPIES).map(|copy| {
        let (sidecar, claim) = (&sidecars[copy % 3], pay(&resource).claim());
        async move { sidecar.reserve(&claim).await }
    });
    let answers = join_all(copies).await;
    let (granted, others): (Vec<_>, Vec<_>) = answers
        .iter()
        .partition(|answer| answer.decision.advice() == Advice::Proceed);
    assert_eq!(granted.len(), 1, "{granted:?}");
    for other in others {
        let (layer, rule) = (Layer::Replay, Rule::Running);
        judged(&other.decision, Verdict::InProgress, layer, rule);
        assert!(other.decision.retry_after.unwrap() <= Duration::from_secs(30));
    }
    let grant = granted[0].grant.as_ref().unwrap();
    assert_eq!(grant.attempt, 1);
    let known = sidecars[1].lookup(&resource, "pay").await;
    assert_eq!(known.state, OperationState::Running);
    applied(&sidecars[2].complete(&grant.id, "receipt").await);
    for sidecar in &sidecars {
        let again = sidecar.reserve(&pay(&resource).claim()).await;
        replayed(&again.decision, &body("receipt"));
        replayed(&sidecar.transition(&pay(&resource)).await, &body("receipt"));
        assert_eq!(sidecar.state(&resource).await, "paid");
        assert_eq!(sidecar.live(&resource).await, None, "its round has ended");
    }
    assert_eq!(sidecars[0].incidents(&resource).await, []);
}

// A7 with an intent: my own retry adopts my claim, from any sidecar, also after a restart.
async fn my_retry_gets_my_claim_back_with_the_same_token(backend: Backend, by: By) {
    let [one, two] = backend.sidecars().await;
    let resource = by.pending(&one).await;
    let mine = pay(&resource).claim();
    let grant = one.hold(&mine).await;
    let restarted = backend.sidecar().await;
    for sidecar in [&one, &two, &restarted] {
        let again = sidecar.reserve(&mine).await;
        let (layer, rule) = (Layer::Replay, Rule::SameRequest);
        judged(&again.decision, Verdict::Granted, layer, rule);
        let again = again.grant.unwrap();
        assert_eq!((&again.id, again.token), (&grant.id, grant.token));
        assert_eq!(again.attempt, 1);
        let other = sidecar.reserve(&pay(&resource).claim()).await.decision;
        judged(&other, Verdict::InProgress, Layer::Replay, Rule::Running);
    }
    applied(&restarted.complete(&grant.id, "receipt").await);
    replayed(&one.reserve(&mine).await.decision, &body("receipt"));
}

// F2, F4 (hold), D8: the time runs out, and nobody makes up a result.
async fn a_claim_that_dies_leaves_the_operation_to_a_person(backend: Backend, by: By) {
    let [one, two] = backend.sidecars().await;
    let resource = by.pending(&one).await;
    let dead = one.hold(&pay(&resource).claim_for(SHORTEST_SECONDS)).await;
    let meanwhile = two.reserve(&pay(&resource).claim()).await.decision;
    judged(
        &meanwhile,
        Verdict::InProgress,
        Layer::Replay,
        Rule::Running,
    );
    over(&two, &resource).await;
    let mut incidents = Vec::new();
    for sidecar in [&two, &one] {
        let found = sidecar.reserve(&pay(&resource).claim()).await.decision;
        let (layer, rule) = (Layer::Replay, Rule::ClaimDied);
        judged(&found, Verdict::Interrupted, layer, rule);
        assert_eq!(found.advice(), Advice::Retry);
        assert!(found.retry_after.unwrap() >= Duration::from_secs(30));
        incidents.extend(found.incident);
        let cancel = cancel(&resource);
        let waits = sidecar.transition(&cancel).await;
        let (layer, rule) = (Layer::Fence, Rule::OtherInterrupted);
        judged(&waits, Verdict::Interrupted, layer, rule);
        incidents.extend(waits.incident);
        let known = sidecar.lookup(&resource, "pay").await;
        assert_eq!(known.state, OperationState::Interrupted);
        assert_eq!(sidecar.state(&resource).await, "pending");
    }
    // The worker wakes up: its result is kept, and nothing else.
    for sidecar in [&one, &two] {
        let late = sidecar.complete(&dead.id, "receipt 7").await;
        judged(&late, Verdict::Fenced, Layer::Fence, Rule::Lost);
        assert_eq!(late.advice(), Advice::Abandon);
        incidents.extend(late.incident);
    }
    incidents.sort();
    incidents.dedup();
    let written = two.incidents(&resource).await;
    let mut ids: Vec<_> = written.iter().map(|incident| incident.id.clone()).collect();
    ids.sort();
    assert_eq!(ids, incidents, "one for the death, one for the evidence");
    let said = written.iter().flat_map(evidence);
    let said: Vec<_> = said.filter(|result| !result.is_empty()).collect();
    assert_eq!(said, [body("receipt 7")]);
    assert_eq!(two.state(&resource).await, "pending");
}

// F4 (rerun): a higher number each time, and the one before cannot complete.
async fn an_operation_that_may_run_again_does_with_the_attempt_counted(backend: Backend, by: By) {
    let [one, two] = backend.sidecars().await;
    let resource = by.pending(&one).await;
    let pay = paying_again(&resource);
    let first = one.hold(&pay.claim_for(SHORTEST_SECONDS)).await;
    over(&two, &resource).await;
    let second = two.hold(&pay.claim()).await;
    assert_eq!((first.attempt, second.attempt), (1, 2));
    assert!(second.token > first.token);
    let late = one.complete(&first.id, "first").await;
    judged(&late, Verdict::Fenced, Layer::Fence, Rule::Lost);
    applied(&one.complete(&second.id, "second").await);
    for sidecar in [&one, &two] {
        let late = sidecar.complete(&first.id, "first").await;
        let (layer, rule) = (Layer::Replay, Rule::DoneWithoutRound);
        judged(&late, Verdict::Fenced, layer, rule);
        replayed(&sidecar.transition(&pay).await, &body("second"));
        replayed(
            &sidecar.complete(&second.id, "second").await,
            &body("second"),
        );
    }
    let kept = two.incidents(&resource).await;
    assert!(kept.iter().all(|one| evidence(one) == [body("first")]));
    assert_eq!(kept.len(), 2, "{kept:?}");
}

async fn a_release_interrupts_unless_nothing_was_done(backend: Backend, by: By) {
    let [one, two] = backend.sidecars().await;
    let resource = by.pending(&one).await;
    let first = one.hold(&pay(&resource).claim()).await;
    let back = two.give_back(&first.id).await;
    judged(&back, Verdict::Applied, Layer::Result, Rule::Ended);
    assert_eq!(back.incident, None);
    let known = one.lookup(&resource, "pay").await;
    assert_eq!(
        (known.state, known.decision),
        (OperationState::NeverSeen, None)
    );
    let second = one.hold(&pay(&resource).claim()).await;
    assert_eq!(second.attempt, 2);
    let ended = two.release(&second.id).await;
    judged(&ended, Verdict::Applied, Layer::Result, Rule::Ended);
    let incidents = one.incidents(&resource).await;
    assert_eq!(Some(&incidents[0].id), ended.incident.as_ref());
    let found = one.reserve(&pay(&resource).claim()).await.decision;
    judged(&found, Verdict::Interrupted, Layer::Replay, Rule::ClaimDied);
    assert_eq!(found.incident, ended.incident);
}

async fn a_claim_rides_on_a_reservation_and_leaves_it_to_its_holder(backend: Backend, by: By) {
    let [one, two] = backend.sidecars().await;
    let resource = by.pending(&one).await;
    let held = one.hold(&reserve(&resource)).await;
    let bare = two.try_complete(&held.id, "x").await;
    let Err(Fault::InvalidField { field, .. }) = bare else {
        panic!("a result of no operation: {bare:?}");
    };
    assert_eq!(field, "intent");
    let ridden = two.ride(&pay(&resource), &held.id).await;
    judged(
        &ridden.decision,
        Verdict::Granted,
        Layer::Result,
        Rule::Claimed,
    );
    let grant = ridden.grant.unwrap();
    assert_eq!((&grant.id, grant.token), (&held.id, held.token));
    assert!(grant.safe_for > Duration::from_secs(20));
    let second = one.ride(&mail(&resource), &held.id).await;
    judged(
        &second.decision,
        Verdict::Busy,
        Layer::Fence,
        Rule::ClaimOpen,
    );
    applied(&one.complete(&held.id, "receipt").await);
    assert_eq!(two.live(&resource).await, Some(held.token));
    let ship = ship(&resource).under(&held.id).then(Afterwards::Ends);
    applied(&two.transition(&ship).await);
    assert_eq!(one.live(&resource).await, None);
    let over = one.ride(&mail(&resource), &held.id).await;
    judged(
        &over.decision,
        Verdict::Fenced,
        Layer::Fence,
        Rule::Released,
    );
}

async fn a_round_that_completing_ended_gives_its_lease_back(backend: Backend, by: By) {
    let one = backend.sidecar().await;
    for at in 0..3 {
        let resource = by.pending(&one).await;
        let grant = one.hold(&pay(&resource).claim()).await;
        applied(&one.complete(&grant.id, "receipt").await);
        // Another sidecar's view: the resource is free at once.
        let next = backend.sidecar().await.hold(&reserve(&resource)).await;
        assert!(next.token > grant.token, "{at}");
    }
}

async fn what_a_person_found_out_is_stored_and_fences_the_old_claim(backend: Backend, by: By) {
    let [one, two] = backend.sidecars().await;
    for finding in [Finding::Done, Finding::NotDone, Finding::Refused] {
        let resource = by.pending(&one).await;
        let dead = one.hold(&pay(&resource).claim()).await;
        let ask = resolution(&resource, "pay", finding, "by the books");
        let spared = two.resolve(&ask).await;
        judged(&spared, Verdict::InProgress, Layer::Replay, Rule::Running);
        one.release(&dead.id).await;
        let told = two.resolve(&ask).await;
        judged(&told, Verdict::Applied, Layer::Result, Rule::Resolved);
        let again = one.resolve(&ask).await;
        judged(&again, Verdict::Replayed, Layer::Replay, Rule::Finished);
        let late = one.complete(&dead.id, "late").await;
        assert_eq!(late.verdict, Verdict::Fenced);
        let kept = two.incidents(&resource).await;
        let kept = kept
            .iter()
            .find(|one| Some(&one.id) == late.incident.as_ref());
        assert_eq!(evidence(kept.unwrap()), [body("late")]);
        let known = one.lookup(&resource, "pay").await;
        match finding {
            Finding::Done => {
                replayed(
                    &two.transition(&pay(&resource)).await,
                    &body("by the books"),
                );
                assert_eq!(known.state, OperationState::Done);
                assert_eq!(two.state(&resource).await, "paid");
            }
            Finding::NotDone => {
                let next = two.hold(&pay(&resource).claim()).await;
                assert_eq!(next.attempt, 2);
                continue;
            }
            Finding::Refused => {
                let next = two.reserve(&pay(&resource).claim()).await.decision;
                judged(&next, Verdict::Rejected, Layer::Replay, Rule::Voided);
                assert_eq!(known.state, OperationState::Refused);
                assert_eq!(two.state(&resource).await, "pending");
            }
        }
        let told = known.decision.unwrap().explanation;
        assert!(told.contains("alice") && told.contains("books"), "{told}");
    }
}

async fn a_running_claim_can_be_ended_and_is_fenced_from_then_on(backend: Backend, by: By) {
    let [one, two] = backend.sidecars().await;
    let resource = by.pending(&one).await;
    let running = one.hold(&pay(&resource).claim()).await;
    let mut ask = resolution(&resource, "pay", Finding::Refused, "");
    ask.running = Running::Ended;
    let told = two.resolve(&ask).await;
    judged(&told, Verdict::Applied, Layer::Result, Rule::Resolved);
    assert_eq!(one.live(&resource).await, None);
    let renewed = one.renew(&running.id).await.decision;
    judged(&renewed, Verdict::Fenced, Layer::Fence, Rule::Released);
    let late = one.complete(&running.id, "late").await;
    assert_eq!(
        (late.verdict, late.advice()),
        (Verdict::Fenced, Advice::Abandon)
    );
    assert!(late.incident.is_some());
}

// F5 for claims: an empty result is a result.
async fn an_empty_result_completes_a_claim(backend: Backend, by: By) {
    let [one, two] = backend.sidecars().await;
    for result in ["", "null", "false", "[]", "\0"] {
        let resource = by.pending(&one).await;
        let grant = one.hold(&pay(&resource).claim()).await;
        applied(&two.complete(&grant.id, result).await);
        let again = one.reserve(&pay(&resource).claim()).await;
        replayed(&again.decision, &body(result));
        let known = two.lookup(&resource, "pay").await.state;
        let empty = result.is_empty();
        assert_eq!(known == OperationState::DoneEmpty, empty, "{result:?}");
    }
}

// What a claim comes to is counted like all else: each call by its one verdict, and the first run once.
async fn the_counts_of_a_claim_add_up(backend: Backend) {
    let one = backend.sidecar().await;
    let resource = fresh_resource();
    let mail = ask(&resource, "mail");
    let grant = one.hold(&mail.claim()).await;
    let copy = one.reserve(&mail.claim()).await.decision;
    assert_eq!(
        (copy.verdict, copy.deliveries),
        (Verdict::InProgress, Some(2))
    );
    let done = one.complete(&grant.id, "sent").await;
    judged(&done, Verdict::Applied, Layer::Result, Rule::RanOnce);
    let again = one.transition(&mail).await;
    assert_eq!(
        (again.verdict, again.deliveries),
        (Verdict::Replayed, Some(3))
    );
    one.hold(&reserve(&resource)).await;
    let (_, counts) = one.engine.counts();
    let verdicts: Vec<_> = counts[0].verdicts.clone().into_iter().collect();
    assert_eq!(
        verdicts,
        [
            (Verdict::Granted, 1),
            (Verdict::Applied, 1),
            (Verdict::Replayed, 1),
            (Verdict::InProgress, 1)
        ],
        "a plain reservation delivers nothing"
    );
    assert_eq!(counts.len(), 1);
}

// Deciding is at the grant; completing follows the version in force, also at a sidecar that has not heard of it.
async fn a_claimed_event_completes_under_the_version_in_force(backend: Backend) {
    let one = backend.sidecar().await;
    let (two, plan) = backend.faulty().await;
    plan.when(Rpc::Watch).always().then(Action::Cut);
    let kind = format!("bulb-{}", fresh_resource().id());
    let file = |version: u32, lit: &str, map: &str| {
        format!(
            "kind: {kind}\nversion: {version}\nretention: 1h\nstates: {{ off: {{}}, {lit}: {{}}, gone: {{ final: true }} }}\n\
             events:\n  make: {{ creates: off }}\n  push: {{ from: [off], to: {lit}, interrupted: rerun, claim: 45s }}\n  \
             take: {{ from: [{lit}], to: gone }}\n{map}"
        )
    };
    one.install(&file(1, "on", "")).await;
    let bulb = resource_of(&kind, "1");
    applied(&two.transition(&ask(&bulb, "m").event("make")).await);
    let push = ask(&bulb, "p").event("push");
    let grant = two.hold(&push.claim()).await;
    let copy = one.reserve(&push.claim()).await.decision;
    judged(&copy, Verdict::InProgress, Layer::Replay, Rule::Running);
    one.install(&file(2, "lit", "map: { states: { on: lit } }\n"))
        .await;
    let done = two.complete(&grant.id, "receipt").await;
    applied(&done);
    assert_eq!(
        done.now.as_ref().unwrap().machine.map(|it| it.get()),
        Some(2)
    );
    assert_eq!(one.state(&bulb).await, "lit");
    for sidecar in [&one, &two] {
        let copy = sidecar.transition(&push).await;
        replayed(&copy, &body("receipt"));
    }
    let take = ask(&bulb, "t").event("take");
    let grant = one.hold(&take.claim()).await;
    applied(&two.complete(&grant.id, "").await);
    assert_eq!(two.state(&bulb).await, "gone");
    assert!(one.incidents(&bulb).await.is_empty());
}

// A completing that is repeated finds what it did, wherever that is kept by now.
async fn an_outcome_that_left_the_record_is_replayed_at_a_sidecar_that_does_not_know_it(
    backend: Backend,
) {
    let [one, two] = [backend.sidecar().await, backend.sidecar().await];
    let kind = format!("bulb-{}", fresh_resource().id());
    one.install(&format!(
        "kind: {kind}\nversion: 1\nretention: 1h\n\
         states: {{ off: {{}}, on: {{ final: true }}, broken: {{ final: true }} }}\n\
         events:\n  make: {{ creates: off }}\n  push: {{ from: [off], to: on }}\n  fail: {{ from: [off], to: broken }}\n"
    ))
    .await;
    let bulb = resource_of(&kind, "1");
    applied(&one.transition(&ask(&bulb, "m").event("make")).await);
    let push = ask(&bulb, "p").event("push");
    let grant = one.hold(&push.claim()).await;
    let large = "x".repeat(3_000);
    let mut failed = push.clone().under(&grant.id).result(&large);
    failed.0.outcome = Some(EventName::parse("fail").unwrap());
    applied(&one.transition(&failed).await);
    assert_eq!(one.state(&bulb).await, "broken");
    replayed(&two.transition(&failed).await, &body(&large));
}

engines! {
    an_outcome_that_left_the_record_is_replayed_at_a_sidecar_that_does_not_know_it,
    a_claimed_event_completes_under_the_version_in_force,
    the_counts_of_a_claim_add_up,
}

by_both_laws! {
    of_ten_copies_at_once_one_is_told_to_run_it_and_all_get_its_result,
    my_retry_gets_my_claim_back_with_the_same_token,
    a_claim_that_dies_leaves_the_operation_to_a_person,
    an_operation_that_may_run_again_does_with_the_attempt_counted,
    a_release_interrupts_unless_nothing_was_done,
    a_claim_rides_on_a_reservation_and_leaves_it_to_its_holder,
    a_round_that_completing_ended_gives_its_lease_back,
    what_a_person_found_out_is_stored_and_fences_the_old_claim,
    a_running_claim_can_be_ended_and_is_fenced_from_then_on,
    an_empty_result_completes_a_claim,
}
