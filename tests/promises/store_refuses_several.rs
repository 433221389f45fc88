//! etcd refuses what is asked about several resources: none of them is taken, and their reservation ends whole.

use std::time::Duration;

use fencepost::domain::decision::{Layer, Rule, Verdict};
use fencepost::domain::ids::ResourceId;
use fencepost::domain::request::Left;
use fencepost::engine::Fault;

use super::queue::{LONG, LOOKED_WITHIN, queued, served};
use super::queue_several::waits_for_all;
use super::store_refuses::{BUSY, full};
use crate::support::ask::{fresh_resources, reserve, together};
use crate::support::backend::Backend;
use crate::support::claim::judged;
use crate::support::engines;
use crate::support::fault::{Action, Ending, FaultPlan, Injected, Rpc};
use crate::support::rounds::whole_at_every_revision;
use crate::support::sidecar::{Sidecar, caller_for};

/// More than a call of a sidecar may take here.
const PATIENT_CALL: Duration = Duration::from_secs(15);
/// A commit or a read is sent once and six times again while etcd has too much to do.
const TRIES_MAX: usize = 7;
/// Less than those take.
const SHORT: Duration = Duration::from_millis(300);
/// At most so many of them begin within that.
const TRIES_WITHIN_SHORT_MAX: usize = 6;

async fn none_is_held(sidecar: &Sidecar, all: &[ResourceId]) {
    for resource in all {
        assert_eq!(sidecar.live(resource).await, None, "{resource}");
    }
}

/// The records, as they were written last.
async fn records(backend: &Backend) -> Vec<(String, i64)> {
    let family = format!("{}r/", backend.prefix());
    let mut all = backend.written().await;
    all.retain(|(key, _)| key.starts_with(&family));
    all
}

async fn without_space_none_of_several_is_taken_and_a_release_of_them_is_a_deletion(
    backend: Backend,
) {
    let (one, plan) = backend.faulty().await;
    let two = backend.sidecar().await;
    let all: [_; 3] = fresh_resources();
    let others: [_; 2] = fresh_resources();
    let grant = one.hold_together(&together(&all)).await;
    let before = records(&backend).await;

    let refused = async || {
        let refused = one.try_reserve_together(&together(&others)).await;
        assert!(
            matches!(refused, Err(Fault::StoreFull { .. })),
            "{refused:?}"
        );
        none_is_held(&two, &others).await;
    };
    // As if a lease were at hand: it is the commit that is refused. Then the lease is.
    let commit = plan.when(Rpc::Txn).then(Action::NoSpace);
    refused().await;
    assert_eq!(commit.hits(), 1);
    let faults = full(&plan);
    refused().await;
    // What needs no write is judged as ever.
    let mixed = [others[0].clone(), all[1].clone()];
    let busy = one.reserve_together(&together(&mixed)).await.decision;
    judged(&busy, Verdict::Busy, Layer::Fence, Rule::Held);
    let renewed = one.renew(&grant.id).await;
    assert_eq!(renewed.decision.verdict, Verdict::Granted);

    let released = one.release(&grant.id).await;
    judged(&released, Verdict::Applied, Layer::Result, Rule::Ended);
    none_is_held(&two, &all).await;
    assert_eq!(records(&backend).await, before, "no record was put");
    // The records still show the round, as one that ran out.
    let again = one.release(&grant.id).await;
    judged(&again, Verdict::Replayed, Layer::Replay, Rule::Lost);
    let next = two.hold_together(&together(&all)).await;
    assert!(next.token > grant.token);
    let late = one.release(&grant.id).await;
    assert_eq!(late.verdict, Verdict::Replayed, "{late:?}");
    for resource in &all {
        assert_eq!(two.live(resource).await, Some(next.token));
    }

    // There is space again, and nobody restarted anything.
    for fault in faults {
        fault.lift();
    }
    one.hold_together(&together(&others)).await;
    let sets: [&[ResourceId]; 2] = [&all, &others];
    assert_eq!(whole_at_every_revision(&backend, &sets).await, 3);
}

/// The bare release, the third request of a release without space: the first is refused, and then what is true is read.
fn bare_release(plan: &FaultPlan, lead: &ResourceId, action: Action) -> (Injected, [Injected; 2]) {
    let next = || plan.when(Rpc::Txn).containing(lead.id());
    let before = [next().then(Action::NoSpace), next().then(Action::NoSpace)];
    (next().then(action), before)
}

async fn a_bare_release_of_several_that_comes_late_ends_no_later_round(backend: Backend) {
    let (one, plan) = backend.faulty_within(PATIENT_CALL).await;
    let two = backend.sidecar().await;
    let all: [_; 3] = fresh_resources();
    let grant = one.hold_together(&together(&all)).await;
    let (bare, _before) = bare_release(&plan, &all[0], Action::Hold);
    let _full = full(&plan);
    let release = tokio::spawn({
        let (one, id) = (one.clone(), grant.id.clone());
        async move { one.try_release(&id).await }
    });
    bare.met().await;
    let ended = two.release(&grant.id).await;
    judged(&ended, Verdict::Applied, Layer::Result, Rule::Ended);
    let next = two.hold_together(&together(&all)).await;
    bare.deliver().await;
    let told = release.await.unwrap().expect("it is judged");
    judged(&told, Verdict::Replayed, Layer::Replay, Rule::Released);
    for resource in &all {
        assert_eq!(two.live(resource).await, Some(next.token));
    }
    let sets: [&[ResourceId]; 1] = [&all];
    assert_eq!(whole_at_every_revision(&backend, &sets).await, 2);
}

async fn a_bare_release_of_several_whose_reply_was_lost_is_told_as_unknown(backend: Backend) {
    for ending in Ending::BOTH {
        let (one, plan) = backend.faulty().await;
        let two = backend.sidecar().await;
        let all: [_; 2] = fresh_resources();
        let grant = one.hold_together(&together(&all)).await;
        let (lost, _before) = bare_release(&plan, &all[0], Action::LoseReply(ending));
        let _full = full(&plan);
        let told = one.try_release(&grant.id).await;
        assert!(
            matches!(told, Err(Fault::UnknownOutcome { .. })),
            "{told:?}"
        );
        assert_eq!(lost.hits(), 1);
        none_is_held(&two, &all).await;
        let again = one.release(&grant.id).await;
        judged(&again, Verdict::Replayed, Layer::Replay, Rule::Lost);
    }
}

async fn whoever_has_its_turn_at_several_while_there_is_no_space_is_served_once_there_is(
    backend: Backend,
) {
    let (one, plan) = backend.faulty().await;
    let two = backend.sidecar().await;
    let both: [_; 2] = fresh_resources();
    let holder = two.hold_together(&together(&both)).await;
    let waits = waits_for_all(&one, &both);
    queued(&backend, &both[1], 1).await;
    let faults = full(&plan);
    two.release(&holder.id).await;
    faults[0].met().await;
    assert!(!waits.is_finished(), "it waits on");
    for fault in faults {
        fault.lift();
    }
    let grant = served(waits, LOOKED_WITHIN).await;
    for resource in &both {
        assert_eq!(two.live(resource).await, Some(grant.token));
    }
    queued(&backend, &both[0], 0).await;
}

async fn an_etcd_with_too_much_to_do_is_asked_again_for_several_as_for_one(backend: Backend) {
    let (one, plan) = backend.faulty().await;
    let two = backend.sidecar().await;
    let all: [_; 3] = fresh_resources();
    let busy = || plan.when(Rpc::Txn).containing(all[0].id());
    let says = Action::Refuse(BUSY.0, BUSY.1);
    let some = busy().times(3).then(says);
    let grant = one.hold_together(&together(&all)).await;
    assert_eq!(some.hits(), 3);
    let some = busy().times(3).then(says);
    let ended = one.release(&grant.id).await;
    judged(&ended, Verdict::Applied, Layer::Result, Rule::Ended);
    assert_eq!(some.hits(), 3);

    let always = busy().always().then(says);
    let refused = one.try_reserve_together(&together(&all)).await;
    assert!(
        matches!(refused, Err(Fault::StoreUnavailable { .. })),
        "{refused:?}"
    );
    assert_eq!(always.hits(), TRIES_MAX);
    // Nothing is on its way between two tries, and a caller whose time runs out then is told so.
    let asked = together(&all);
    let late = one.engine.reserve_together(asked, caller_for(SHORT)).await;
    assert!(matches!(late, Err(Fault::DeadlinePassed)), "{late:?}");
    always.lift();
    none_is_held(&two, &all).await;
    let grant = one.hold_together(&together(&all)).await;
    for resource in &all {
        assert_eq!(two.live(resource).await, Some(grant.token));
    }
}

async fn whoever_leaves_while_etcd_has_too_much_to_do_keeps_no_lanes_from_others(backend: Backend) {
    let one = backend.sidecar().await;
    let (two, plan) = backend.faulty().await;
    let all: [_; 2] = fresh_resources();
    let grant = one.hold_together(&together(&all)).await;
    // It knows nothing of the round, and has to read which resources it is of.
    let always = plan.when(Rpc::Txn).containing(all[0].id()).always();
    let always = always.then(Action::Refuse(BUSY.0, BUSY.1));
    let (id, left) = (grant.id.clone(), Left::Unsaid);
    let late = two.engine.release(id, left, caller_for(SHORT)).await;
    assert_eq!(late, Err(Fault::DeadlinePassed));
    // This one gets the lane as soon as it is given back, and makes all its tries.
    let next = two.engine.reserve(reserve(&all[0]), caller_for(LONG)).await;
    assert!(
        matches!(next, Err(Fault::StoreUnavailable { .. })),
        "{next:?}"
    );
    let most = TRIES_WITHIN_SHORT_MAX + TRIES_MAX;
    assert!(always.hits() <= most, "{} tries", always.hits());
    always.lift();
    assert_eq!(one.live(&all[0]).await, Some(grant.token));
}

engines! {
    without_space_none_of_several_is_taken_and_a_release_of_them_is_a_deletion,
    a_bare_release_of_several_that_comes_late_ends_no_later_round,
    a_bare_release_of_several_whose_reply_was_lost_is_told_as_unknown,
    whoever_has_its_turn_at_several_while_there_is_no_space_is_served_once_there_is,
    an_etcd_with_too_much_to_do_is_asked_again_for_several_as_for_one,
    whoever_leaves_while_etcd_has_too_much_to_do_keeps_no_lanes_from_others,
}
