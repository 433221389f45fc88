//! A message states a fact; only the current state grants permission.

use fencepost::domain::decision::{Advice, Decision, Layer, Rule, Verdict};
use fencepost::domain::ids::OperationId;
use fencepost::engine::OperationState;

use crate::support::ask::{Ask, ask, body, create, fresh_resource};
use crate::support::backend::Backend;
use crate::support::claim::{applied, evidence, judged, lasting, replayed};
use crate::support::engines;
use crate::support::sidecar::Sidecar;

/// A stored "no" must be the same each time, from each sidecar; its first time comes with every repetition.
async fn the_same_no(sidecars: &[Sidecar; 2], ask: &Ask, first: &Decision) {
    for sidecar in [&sidecars[1], &sidecars[0], &sidecars[1]] {
        let again = sidecar.transition(ask).await;
        assert!(again.first_time_ms.is_some(), "{again:?}");
        let again = Decision {
            first_time_ms: first.first_time_ms,
            ..lasting(&again)
        };
        assert_eq!(again, lasting(first));
    }
    let operation = ask.build().intent.operation;
    let resource = ask.build().resource;
    let known = sidecars[1].lookup(&resource, operation.as_str()).await;
    assert_eq!(known.state, OperationState::Refused);
}

// D1, scene 1: the order stays cancelled and a person learns of the payment.
async fn a_late_payment_for_a_cancelled_order_is_refused_and_reported(backend: Backend) {
    let sidecars = backend.sidecars().await;
    let order = fresh_resource();
    applied(
        &sidecars[0]
            .transition(&create(&order, "pending").sets("payment_attempt_id", "p1"))
            .await,
    );
    applied(
        &sidecars[1]
            .transition(&ask(&order, "cancel").from(&["pending"]).to("cancelled"))
            .await,
    );
    let pay = ask(&order, "pay").from(&["pending"]).to("paid");
    let pay = pay.matching("payment_attempt_id", "p1").result("charged");
    let refused = sidecars[0].transition(&pay).await;
    judged(&refused, Verdict::Rejected, Layer::State, Rule::Passed);
    assert_eq!(refused.advice(), Advice::Refuse);
    assert!(
        refused.explanation.contains("cancelled"),
        "{}",
        refused.explanation
    );
    let expected: Vec<_> = refused.expected.iter().map(ToString::to_string).collect();
    assert_eq!(expected, ["pending"]);
    let now = refused.now.clone().unwrap();
    assert_eq!(now.state.unwrap().as_str(), "cancelled");
    assert_eq!(refused.result, None);
    the_same_no(&sidecars, &pay, &refused).await;
    let incidents = sidecars[1].incidents(&order).await;
    assert_eq!(incidents.len(), 1, "{incidents:?}");
    assert_eq!(refused.incident.as_ref(), Some(&incidents[0].id));
    assert_eq!(evidence(&incidents[0]), [body("charged")]);
    let operation = incidents[0].operation.as_ref();
    assert_eq!(operation.map(OperationId::as_str), Some("pay"));
    assert_eq!(sidecars[0].state(&order).await, "cancelled");
}

// D2: a late cancel, of this payment and of an older one.
async fn a_late_cancel_does_not_undo_a_payment(backend: Backend) {
    let sidecars = backend.sidecars().await;
    let order = fresh_resource();
    applied(
        &sidecars[0]
            .transition(&create(&order, "pending").sets("attempt", "p0"))
            .await,
    );
    applied(
        &sidecars[0]
            .transition(&ask(&order, "try again").stay().sets("attempt", "p1"))
            .await,
    );
    let pay = ask(&order, "pay")
        .from(&["pending"])
        .to("paid")
        .matching("attempt", "p1");
    applied(&sidecars[1].transition(&pay).await);
    let cancel = ask(&order, "cancel p1")
        .from(&["pending"])
        .to("cancelled")
        .matching("attempt", "p1");
    let refused = sidecars[0].transition(&cancel).await;
    judged(&refused, Verdict::Rejected, Layer::State, Rule::Passed);
    the_same_no(&sidecars, &cancel, &refused).await;
    let old = ask(&order, "cancel p0")
        .from(&["pending"])
        .to("cancelled")
        .matching("attempt", "p0");
    let ignored = sidecars[0].transition(&old).await;
    judged(
        &ignored,
        Verdict::OtherRound,
        Layer::Identity,
        Rule::Replaced,
    );
    assert_eq!(ignored.advice(), Advice::Acknowledge);
    the_same_no(&sidecars, &old, &ignored).await;
    assert_eq!(sidecars[1].state(&order).await, "paid");
}

// D5, scene 6: identity, not version.
async fn an_edited_note_does_not_turn_a_callback_away_but_a_new_attempt_does(backend: Backend) {
    let sidecars = backend.sidecars().await;
    let order = fresh_resource();
    applied(
        &sidecars[0]
            .transition(&create(&order, "pending").sets("attempt", "p1"))
            .await,
    );
    applied(
        &sidecars[1]
            .transition(&ask(&order, "note").stay().sets("note", "ring twice"))
            .await,
    );
    let pay = |operation: &str, attempt: &str| {
        ask(&order, operation)
            .from(&["pending"])
            .to("paid")
            .matching("attempt", attempt)
    };
    applied(
        &sidecars[1]
            .transition(&ask(&order, "start p2").stay().sets("attempt", "p2"))
            .await,
    );
    let old = pay("callback of p1", "p1");
    let ignored = sidecars[0].transition(&old).await;
    judged(
        &ignored,
        Verdict::OtherRound,
        Layer::Identity,
        Rule::Replaced,
    );
    assert!(
        !ignored.explanation.contains("p1"),
        "{}",
        ignored.explanation
    );
    applied(
        &sidecars[1]
            .transition(
                &ask(&order, "note again")
                    .stay()
                    .sets("note", "leave at the door"),
            )
            .await,
    );
    applied(&sidecars[0].transition(&pay("callback of p2", "p2")).await);
    the_same_no(&sidecars, &old, &ignored).await;
    let identity = sidecars[1].inspect(&order).await.identity;
    let identity: Vec<_> = identity
        .iter()
        .map(|(name, value)| (name.as_str(), value.as_str()))
        .collect();
    assert_eq!(identity, [("attempt", "p2"), ("note", "leave at the door")]);
}

// Scene 3: the message of a step that was passed long ago.
async fn a_step_that_was_made_already_is_acknowledged_and_not_made_again(backend: Backend) {
    let sidecars = backend.sidecars().await;
    let order = fresh_resource();
    applied(&sidecars[0].transition(&create(&order, "pending")).await);
    let pay = ask(&order, "pay")
        .from(&["pending"])
        .to("paid")
        .result("receipt");
    applied(&sidecars[0].transition(&pay).await);
    applied(
        &sidecars[1]
            .transition(&ask(&order, "ship").from(&["paid"]).to("shipped"))
            .await,
    );
    replayed(&sidecars[1].transition(&pay).await, &body("receipt"));
    let second = ask(&order, "pay by another channel")
        .from(&["pending"])
        .to("paid");
    let late = sidecars[0].transition(&second).await;
    judged(&late, Verdict::Superseded, Layer::State, Rule::AlreadyMoved);
    assert_eq!(late.advice(), Advice::Acknowledge);
    assert!(late.incident.is_some(), "a second real payment: {late:?}");
    the_same_no(&sidecars, &second, &late).await;
    assert_eq!(sidecars[1].state(&order).await, "shipped");
}

async fn history_and_not_likeness_decides_whether_a_step_was_made(backend: Backend) {
    let [one, two] = backend.sidecars().await;
    let order = fresh_resource();
    // Paid in the first round, reopened for a second one, which was cancelled: its payment was never made.
    applied(
        &one.transition(&create(&order, "pending").sets("attempt", "p1"))
            .await,
    );
    let pay = |operation: &str, attempt: &str| {
        ask(&order, operation)
            .from(&["pending"])
            .to("paid")
            .matching("attempt", attempt)
    };
    applied(&one.transition(&pay("pay p1", "p1")).await);
    applied(
        &one.transition(
            &ask(&order, "reopen")
                .from(&["paid"])
                .to("pending")
                .sets("attempt", "p2"),
        )
        .await,
    );
    applied(
        &two.transition(&ask(&order, "cancel").from(&["pending"]).to("cancelled"))
            .await,
    );
    let refused = two.transition(&pay("pay p2", "p2")).await;
    judged(&refused, Verdict::Rejected, Layer::State, Rule::Passed);
    assert_eq!(one.state(&order).await, "cancelled");
}

async fn a_step_made_before_the_last_visit_to_its_start_does_not_count(backend: Backend) {
    let [one, two] = backend.sidecars().await;
    let order = fresh_resource();
    let pay = |operation: &str| ask(&order, operation).from(&["pending"]).to("paid");
    applied(&one.transition(&create(&order, "pending")).await);
    applied(&two.transition(&pay("pay")).await);
    let reopen = ask(&order, "reopen").from(&["paid"]).to("pending");
    applied(&one.transition(&reopen).await);
    let cancel = ask(&order, "cancel").from(&["pending"]).to("cancelled");
    applied(&two.transition(&cancel).await);
    let refused = one.transition(&pay("pay again")).await;
    judged(&refused, Verdict::Rejected, Layer::State, Rule::Passed);
}

async fn too_early_is_stored_nowhere_and_comes_right_by_itself(backend: Backend) {
    let [one, two] = backend.sidecars().await;
    let order = fresh_resource();
    applied(&one.transition(&create(&order, "pending")).await);
    let before = (backend.dump().await, two.inspect(&order).await.revision);
    let ship = ask(&order, "ship")
        .from(&["paid"])
        .to("shipped")
        .result("parcel");
    for sidecar in [&one, &two, &one] {
        let early = sidecar.transition(&ship).await;
        judged(&early, Verdict::TooEarly, Layer::State, Rule::NotYetReached);
        assert_eq!(early.advice(), Advice::Retry);
        assert!(early.retry_after.is_some(), "{early:?}");
        assert_eq!((&early.incident, &early.result), (&None, &None));
        let expected: Vec<_> = early.expected.iter().map(ToString::to_string).collect();
        assert_eq!(expected, ["paid"]);
        let known = sidecar.lookup(&order, "ship").await.state;
        assert_eq!(known, OperationState::NeverSeen);
    }
    let after = (backend.dump().await, two.inspect(&order).await.revision);
    assert_eq!(before, after);
    applied(
        &one.transition(&ask(&order, "pay").from(&["pending"]).to("paid"))
            .await,
    );
    let shipped = two.transition(&ship).await;
    applied(&shipped);
    assert_eq!(shipped.result, Some(body("parcel")));
}

async fn a_callback_that_overtook_its_own_start_is_early_and_then_right(backend: Backend) {
    let [one, two] = backend.sidecars().await;
    let order = fresh_resource();
    applied(&one.transition(&create(&order, "pending")).await);
    let pay = ask(&order, "pay")
        .from(&["pending"])
        .to("paid")
        .matching("attempt", "p1");
    let unset = two.transition(&pay).await;
    judged(
        &unset,
        Verdict::TooEarly,
        Layer::Identity,
        Rule::NotYetKnown,
    );
    applied(
        &one.transition(&ask(&order, "start p0").stay().sets("attempt", "p0"))
            .await,
    );
    let unknown = two.transition(&pay).await;
    judged(
        &unknown,
        Verdict::TooEarly,
        Layer::Identity,
        Rule::NotYetKnown,
    );
    assert_eq!(
        two.lookup(&order, "pay").await.state,
        OperationState::NeverSeen
    );
    applied(
        &one.transition(&ask(&order, "start p1").stay().sets("attempt", "p1"))
            .await,
    );
    applied(&two.transition(&pay).await);
}

async fn what_was_never_created_is_not_created_by_asking(backend: Backend) {
    let [one, two] = backend.sidecars().await;
    let order = fresh_resource();
    let before = backend.dump().await;
    let pay = ask(&order, "pay").from(&["pending"]).to("paid");
    for sidecar in [&one, &two] {
        let early = sidecar.transition(&pay).await;
        judged(&early, Verdict::TooEarly, Layer::State, Rule::NoState);
        let now = sidecar.inspect(&order).await;
        assert_eq!((now.state, now.revision, now.live), (None, None, None));
    }
    assert_eq!(backend.dump().await, before);
    applied(&one.transition(&pay.initial("pending")).await);
    assert_eq!(two.state(&order).await, "paid");
}

async fn an_initial_state_is_only_for_what_has_none(backend: Backend) {
    let [one, two] = backend.sidecars().await;
    let order = fresh_resource();
    applied(&one.transition(&create(&order, "paid")).await);
    let again = ask(&order, "pay")
        .initial("pending")
        .from(&["pending"])
        .to("paid");
    judged(
        &two.transition(&again).await,
        Verdict::TooEarly,
        Layer::State,
        Rule::NotYetReached,
    );
    assert_eq!(two.state(&order).await, "paid");
}

async fn the_layers_are_asked_in_their_order(backend: Backend) {
    let [one, two] = backend.sidecars().await;
    let order = fresh_resource();
    applied(
        &one.transition(&create(&order, "paid").sets("attempt", "p1"))
            .await,
    );
    applied(
        &one.transition(&ask(&order, "start p2").stay().sets("attempt", "p2"))
            .await,
    );
    let grant = one.hold(&crate::support::ask::reserve(&order)).await;
    // Wrong in every layer at once; each one that is put right shows the next.
    let wrong = ask(&order, "create")
        .from(&["new"])
        .to("cancelled")
        .matching("attempt", "p1");
    let conflict = two.transition(&wrong.clone().json("1")).await;
    judged(
        &conflict,
        Verdict::Conflict,
        Layer::Digest,
        Rule::OtherContent,
    );
    let replay = two.transition(&wrong).await;
    judged(&replay, Verdict::Replayed, Layer::Replay, Rule::SameContent);
    let wrong = ask(&order, "other")
        .from(&["new"])
        .to("cancelled")
        .matching("attempt", "p1");
    let busy = two.transition(&wrong).await;
    judged(&busy, Verdict::Busy, Layer::Fence, Rule::Held);
    let round = two.transition(&wrong.under(&grant.id)).await;
    judged(&round, Verdict::OtherRound, Layer::Identity, Rule::Replaced);
    let wrong = ask(&order, "third")
        .from(&["new"])
        .to("cancelled")
        .matching("attempt", "p2");
    let state = two.transition(&wrong.under(&grant.id)).await;
    judged(&state, Verdict::Rejected, Layer::State, Rule::Passed);
}

engines! {
    a_late_payment_for_a_cancelled_order_is_refused_and_reported,
    a_late_cancel_does_not_undo_a_payment,
    an_edited_note_does_not_turn_a_callback_away_but_a_new_attempt_does,
    a_step_that_was_made_already_is_acknowledged_and_not_made_again,
    history_and_not_likeness_decides_whether_a_step_was_made,
    a_step_made_before_the_last_visit_to_its_start_does_not_count,
    too_early_is_stored_nowhere_and_comes_right_by_itself,
    a_callback_that_overtook_its_own_start_is_early_and_then_right,
    what_was_never_created_is_not_created_by_asking,
    an_initial_state_is_only_for_what_has_none,
    the_layers_are_asked_in_their_order,
}
