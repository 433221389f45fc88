//! Those who wait, on bad days: late requests, sidecars that die, timelines that are replaced.

use std::time::Duration;

use etcd_client::DeleteOptions;
use fencepost::domain::decision::{Advice, Layer, Rule, Verdict};
use fencepost::engine::Fault;
use fencepost::proto::v1;
use futures_util::future::select_all;
use uuid::Uuid;

use super::queue::{
    LONG, LOOKED_WITHIN, PATIENT_CALL, SESSION_OVER_WITHIN, entries, granted, queued,
    queued_within, served, waits,
};
use super::queue_several::waits_for_all;
use crate::support::ask::{
    ask, body, fresh_resource, fresh_resources, reserve, reserve_for, together,
};
use crate::support::backend::Backend;
use crate::support::claim::{applied, judged};
use crate::support::fault::{Action, Ending, Rpc};
use crate::support::process::Process;
use crate::support::sidecar::caller_for;
use crate::support::{bounded, engines, until};

/// A user's order that is made and paid.
const ORDER: &str = "kind: order\nversion: 1\nretention: 96h\nstates: { open: {}, paid: { final: true } }\n\
    events:\n  place: { creates: open }\n  pay: { from: [open], to: paid, origin: user }\n";

async fn whoever_leaves_while_its_entry_is_written_keeps_no_place(backend: Backend) {
    let (one, plan) = backend.faulty_within(PATIENT_CALL).await;
    let (resource, elsewhere) = (fresh_resource(), fresh_resource());
    let holder = one.hold(&reserve_for(&resource, 60)).await;
    one.hold(&reserve_for(&elsewhere, 60)).await;
    // It keeps alive what all entries of the sidecar hang on, so that none goes by itself.
    let stays = waits(&one, &elsewhere);
    queued(&backend, &elsewhere, 1).await;
    let written = plan.when(Rpc::Txn).containing("w/order/");
    let written = written.then(Action::Hold);
    let leaves = waits(&one, &resource);
    written.met().await;
    leaves.abort();
    assert!(leaves.await.unwrap_err().is_cancelled());
    written.deliver().await;
    queued_within(&backend, &resource, 0, LOOKED_WITHIN).await;
    one.release(&holder.id).await;
    // Nobody comes before.
    one.hold(&reserve(&resource)).await;
    assert!(!stays.is_finished());
    stays.abort();
}

async fn several_that_were_turned_away_because_others_waited_are_not_granted_when_they_arrive_late(
    backend: Backend,
) {
    for known in [true, false] {
        let one = backend.sidecar().await;
        let (two, plan_two) = backend.faulty_within(PATIENT_CALL).await;
        let (three, plan) = backend.faulty().await;
        let all: [_; 3] = fresh_resources();
        let [a, b, _] = &all;
        if known {
            let grant = one.hold(&reserve(a)).await;
            one.release(&grant.id).await;
        }
        let holder = one.hold(&reserve(b)).await;
        let waits = waits(&two, b);
        queued(&backend, b, 1).await;
        let hand_off = plan_two
            .when(Rpc::Txn)
            .containing("w/order/")
            .then(Action::Hold);
        one.release(&holder.id).await;
        hand_off.met().await;
        // It knows the records, so that only the queue is in its way.
        for resource in &all {
            assert_eq!(three.live(resource).await, None);
        }
        let late = plan
            .when(Rpc::Txn)
            .containing(b.id())
            .then(Action::DeliverLate(Ending::Reset));
        let told = three.reserve_together(&together(&all)).await.decision;
        judged(&told, Verdict::Busy, Layer::Fence, Rule::Queued);
        waits.abort();
        queued(&backend, b, 0).await;
        late.deliver().await;
        for resource in &all {
            let live = one.live(resource).await;
            assert_eq!(live, None, "it arrived late, and was granted");
        }
        hand_off.deliver().await;
        assert_eq!(two.live(b).await, None);
        one.hold_together(&together(&all)).await;
    }
}

async fn nothing_is_granted_to_one_who_has_left_an_empty_queue(backend: Backend) {
    let one = backend.sidecar().await;
    let (two, plan) = backend.faulty_within(PATIENT_CALL).await;
    let both: [_; 2] = fresh_resources();
    for several in [false, true] {
        let holder = one.hold_together(&together(&both)).await;
        let leaves = if several {
            waits_for_all(&two, &both)
        } else {
            waits(&two, &both[0])
        };
        queued(&backend, &both[0], 1).await;
        let hand_off = plan
            .when(Rpc::Txn)
            .containing("w/order/")
            .then(Action::Hold);
        one.release(&holder.id).await;
        hand_off.met().await;
        leaves.abort();
        queued(&backend, &both[0], 0).await;
        hand_off.deliver().await;
        // Its sidecar answers this once that is settled.
        for resource in &both {
            assert_eq!(two.live(resource).await, None);
            assert_eq!(one.live(resource).await, None);
        }
    }
}

async fn hand_offs_to_several_whose_replies_are_lost_come_out_right(backend: Backend) {
    for ending in Ending::BOTH {
        let one = backend.sidecar().await;
        let (two, plan) = backend.faulty().await;
        let both: [_; 2] = fresh_resources();
        let mut holder = one.hold_together(&together(&both)).await;
        let first = waits_for_all(&two, &both);
        queued(&backend, &both[1], 1).await;
        let all = [first, waits_for_all(&two, &both)];
        queued(&backend, &both[1], 2).await;
        let hand_off = || plan.when(Rpc::Txn).containing("w/order/");
        let actions = [Action::LoseReply(ending), Action::DeliverLate(ending)];
        for (waits, action) in all.into_iter().zip(actions) {
            let injected = hand_off().then(action);
            let ended = one.release(&holder.id).await;
            judged(&ended, Verdict::Applied, Layer::Result, Rule::Ended);
            holder = served(waits, LOOKED_WITHIN).await;
            assert_eq!(injected.hits(), 1);
            if matches!(action, Action::DeliverLate(_)) {
                injected.deliver().await;
            }
            for resource in &both {
                assert_eq!(one.live(resource).await, Some(holder.token));
            }
        }
        queued(&backend, &both[0], 0).await;
    }
}

async fn a_sidecar_that_is_cut_off_queues_for_several_again(backend: Backend) {
    let one = backend.sidecar().await;
    let (two, plan) = backend.faulty_within(Duration::from_secs(2)).await;
    let both: [_; 2] = fresh_resources();
    let holder = one.hold_together(&together(&both)).await;
    let first = waits_for_all(&two, &both);
    queued(&backend, &both[1], 1).await;
    let next = waits_for_all(&one, &both);
    queued(&backend, &both[1], 2).await;
    let cut = plan.cut_all();
    one.release(&holder.id).await;
    let grant = served(next, SESSION_OVER_WITHIN).await;
    assert!(!first.is_finished());
    for cut in &cut {
        cut.lift();
    }
    queued_within(&backend, &both[0], 1, LOOKED_WITHIN).await;
    queued_within(&backend, &both[1], 1, LOOKED_WITHIN).await;
    one.release(&grant.id).await;
    served(first, LOOKED_WITHIN).await;
}

async fn those_who_wait_are_queued_again_in_the_next_timeline(backend: Backend) {
    let [one, two] = backend.sidecars().await;
    let [a, b] = fresh_resources();
    let both = [a.clone(), b.clone()];
    let old = one.hold_together(&together(&both)).await;
    let mut waiting = vec![waits_for_all(&two, &both), waits(&two, &a)];
    queued(&backend, &a, 2).await;
    let started = one.start_timeline("the store was restored").await;
    // All that was held is over. They are served, in whatever order, for their places were lost with the timeline.
    while !waiting.is_empty() {
        let (told, _, left) = select_all(waiting).await;
        waiting = left;
        let grant = granted(told);
        assert!(grant.token > old.token);
        assert!(grant.token.get() >= started.timeline.base);
        two.release(&grant.id).await;
    }
    queued(&backend, &a, 0).await;
    queued(&backend, &b, 0).await;
    // The places that are kept now are kept by this timeline's session.
    let holder = one.hold(&reserve(&b)).await;
    let waits = waits_for_all(&two, &both);
    queued(&backend, &b, 1).await;
    one.release(&holder.id).await;
    served(waits, LOOKED_WITHIN).await;
}

async fn whoever_waits_through_a_halt_is_served_and_who_comes_in_it_is_told_of_it(
    backend: Backend,
) {
    let (one, plan) = backend.faulty_within(PATIENT_CALL).await;
    let two = backend.sidecar().await;
    let both: [_; 2] = fresh_resources();
    one.hold_together(&together(&both)).await;
    let waits = waits_for_all(&two, &both);
    queued(&backend, &both[0], 1).await;
    // A start that is cut short leaves everything halted.
    let cut = plan.when(Rpc::Range).always().then(Action::Cut);
    one.try_start_timeline("cut short").await.unwrap_err();
    let halted = || async {
        let asked = two.try_reserve(&reserve(&fresh_resource())).await;
        matches!(asked, Err(Fault::Halted { .. })).then_some(())
    };
    until("it is halted", LOOKED_WITHIN, halted).await;
    // It seems to be its turn now.
    let mut raw = backend.raw().await;
    let held = format!("{}h/", backend.prefix());
    let all = Some(DeleteOptions::new().with_prefix());
    raw.delete(held, all).await.unwrap();
    let late = two.together_waiting(&together(&both), Duration::from_secs(1), LONG);
    let told = late.await.unwrap();
    assert!(matches!(told, Err(Fault::Halted { .. })), "{told:?}");
    assert!(!waits.is_finished());
    cut.lift();
    one.start_timeline("whole").await;
    served(waits, LONG).await;
}

async fn one_whose_wait_ends_in_a_halt_is_told_of_it_by_then(backend: Backend) {
    let (one, plan) = backend.faulty_within(PATIENT_CALL).await;
    let two = backend.sidecar().await;
    let resource = fresh_resource();
    one.hold(&reserve(&resource)).await;
    let wait = Duration::from_secs(3);
    let engine = two.engine.clone();
    let asked = reserve(&resource);
    let waits = tokio::spawn(async move {
        let asked = engine.reserve_or_wait(asked, wait, caller_for(LONG));
        tokio::time::timeout(2 * wait, asked).await
    });
    queued(&backend, &resource, 1).await;
    plan.when(Rpc::Range).always().then(Action::Cut);
    one.try_start_timeline("cut short").await.unwrap_err();
    let told = waits
        .await
        .unwrap()
        .expect("an answer by the end of its wait");
    assert!(matches!(told, Err(Fault::Halted { .. })), "{told:?}");
}

// It is told to come again for as long as it waits, so nothing is lost; what is told for good is kept.
async fn a_user_who_waited_in_vain_keeps_its_result(backend: Backend) {
    let [one, two] = backend.sidecars().await;
    one.install(ORDER).await;
    let resource = fresh_resource();
    applied(
        &one.transition(&ask(&resource, "place").event("place"))
            .await,
    );
    let holder = one.hold(&reserve(&resource)).await;
    let pay = |operation: &str| ask(&resource, operation).event("pay").result("charged");
    let stopped = two.transition_waiting(&pay("stopped"), LONG);
    queued(&backend, &resource, 1).await;
    assert_eq!(one.incidents(&resource).await, [], "it may still be done");
    assert!(two.engine.stop(LONG).await);
    let told = stopped.await.unwrap().unwrap();
    judged(&told, Verdict::Busy, Layer::Fence, Rule::Held);
    assert_eq!(told.advice(), Advice::Retry);
    assert_eq!(one.incidents(&resource).await, []);
    let over = one.transition_waiting(&pay("over"), Duration::from_millis(300));
    let told = over.await.unwrap().unwrap();
    judged(&told, Verdict::Busy, Layer::Fence, Rule::Held);
    assert_eq!(told.advice(), Advice::Refuse);
    let [incident] = <[_; 1]>::try_from(one.incidents(&resource).await).unwrap();
    let kept = incident.evidence.iter().map(|kept| kept.result.clone());
    assert_eq!(kept.collect::<Vec<_>>(), [body("charged")]);
    // And one that gets its turn raises nothing.
    let done = one.transition_waiting(&pay("done"), LONG);
    queued(&backend, &resource, 1).await;
    one.release(&holder.id).await;
    applied(&done.await.unwrap().unwrap());
    assert_eq!(one.incidents(&resource).await.len(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whoever_waits_at_a_sidecar_that_is_killed_loses_its_places_and_the_next_are_served() {
    bounded(Box::pin(async {
        let backend = Backend::real().await;
        let url = backend.url().await;
        let one = backend.sidecar().await;
        let both: [_; 2] = fresh_resources();
        let holder = one.hold_together(&together(&both)).await;
        let process = Process::serve(&url, backend.prefix(), &[]).await;
        let named = |at: usize| v1::Resource {
            kind: both[at].kind().to_string(),
            id: both[at].id().to_owned(),
        };
        let call = |also: Vec<v1::Resource>| {
            let mut client = process.client();
            let ask = v1::ReserveRequest {
                resource: Some(named(0)),
                also,
                request_id: Uuid::new_v4().to_string(),
                wait: Some(prost_types::Duration {
                    seconds: 60,
                    nanos: 0,
                }),
                ..v1::ReserveRequest::default()
            };
            tokio::spawn(async move { client.reserve(ask).await })
        };
        let calls = [call(vec![named(1)]), call(Vec::new())];
        queued(&backend, &both[0], 2).await;
        assert_eq!(entries(&backend, &both[1]).await, 1);
        let next = waits_for_all(&one, &both);
        queued(&backend, &both[1], 2).await;
        process.kill().await;
        one.release(&holder.id).await;
        served(next, SESSION_OVER_WITHIN).await;
        for call in calls {
            call.await.unwrap().unwrap_err();
        }
        queued(&backend, &both[0], 0).await;
    }))
    .await;
}

engines! {
    whoever_leaves_while_its_entry_is_written_keeps_no_place,
    several_that_were_turned_away_because_others_waited_are_not_granted_when_they_arrive_late,
    nothing_is_granted_to_one_who_has_left_an_empty_queue,
    hand_offs_to_several_whose_replies_are_lost_come_out_right,
    a_sidecar_that_is_cut_off_queues_for_several_again,
    those_who_wait_are_queued_again_in_the_next_timeline,
    whoever_waits_through_a_halt_is_served_and_who_comes_in_it_is_told_of_it,
    one_whose_wait_ends_in_a_halt_is_told_of_it_by_then,
    a_user_who_waited_in_vain_keeps_its_result,
}
