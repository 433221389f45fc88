//! Turns in the queue of a busy resource that come although something is amiss: faults at the wrong moment, a strained sidecar, a new
//! timeline, callers who ask all the time.

use std::time::Duration;

use fencepost::domain::decision::Verdict;
use fencepost::domain::ids::ResourceId;
use fencepost::engine::{AtClose, Fault};
use futures_util::future::{join_all, select_all};

use super::queue::{
    LONG, LOOKED_WITHIN, PATIENT_CALL, SESSION_OVER_WITHIN, WOKEN_WITHIN, granted, queued,
    queued_within, served, waits,
};
use crate::support::ask::{ask, create, fresh_resource, reserve, reserve_for};
use crate::support::backend::Backend;
use crate::support::claim::applied;
use crate::support::fault::{Action, Ending, FaultPlan, Rpc};
use crate::support::sidecar::{Sidecar, Waiting, caller};
use crate::support::{engines, until};

/// How long a sidecar may take to find out about a new timeline.
const FOUND_WITHIN: Duration = Duration::from_secs(20);
/// A sidecar whose renewals are not answered finds out within this.
const STRAINED_WITHIN: Duration = Duration::from_secs(30);
/// Longer than a session lasts that is not kept alive, and shorter than a call may take.
const SESSION_AND_MORE: Duration = Duration::from_secs(13);

/// The entries of a resource: the key, when it was made, and its lease.
async fn places(backend: &Backend, resource: &ResourceId) -> Vec<(Vec<u8>, i64, i64)> {
    let (prefix, id) = (backend.prefix(), resource.id());
    let queue = format!("{prefix}w/{}/{id}/", resource.kind());
    let all = Some(etcd_client::GetOptions::new().with_prefix());
    let found = backend.raw().await.get(queue, all).await.unwrap();
    let place = |kv: &etcd_client::KeyValue| (kv.key().to_vec(), kv.create_revision(), kv.lease());
    found.kvs().iter().map(place).collect()
}

/// So many who wait at a sidecar, entered by one write.
async fn together(
    backend: &Backend,
    sidecar: &Sidecar,
    plan: &FaultPlan,
    resource: &ResourceId,
    callers: usize,
) -> Vec<Waiting<fencepost::engine::Reserved>> {
    let before = places(backend, resource).await.len();
    let others = sidecar.engine.waiters().calls;
    let entry = plan.when(Rpc::Txn).containing("ws/").then(Action::Hold);
    let mut all = vec![waits(sidecar, resource)];
    entry.met().await;
    all.extend((1..callers).map(|_| waits(sidecar, resource)));
    let look = || async { (sidecar.engine.waiters().calls == others + callers).then_some(()) };
    until("all wait", LONG, look).await;
    entry.deliver().await;
    queued_within(backend, resource, before + callers, LOOKED_WITHIN).await;
    all
}

// etcd does not sort those who were entered by one write among themselves, if there are more than a dozen in a queue.
async fn who_asks_all_the_time_takes_no_turn_from_those_who_were_entered_together(
    backend: Backend,
) {
    const TOGETHER: usize = 21;
    const HAND_OFFS: usize = 10;
    const POLLERS: usize = 8;
    let one = backend.sidecar().await;
    let (two, plan_two) = backend.faulty_within(PATIENT_CALL).await;
    let (three, plan_three) = backend.faulty_within(PATIENT_CALL).await;
    let resource = fresh_resource();
    let mut holder = one.hold(&reserve(&resource)).await;
    let mut all = together(&backend, &two, &plan_two, &resource, TOGETHER).await;
    let others = together(&backend, &three, &plan_three, &resource, TOGETHER).await;
    let polls = |_| {
        let (two, resource) = (two.clone(), resource.clone());
        tokio::spawn(async move {
            loop {
                let told = two.reserve(&reserve(&resource)).await.decision;
                assert_eq!(told.verdict, Verdict::Busy, "{told:?}");
            }
        })
    };
    let pollers: Vec<_> = (0..POLLERS).map(polls).collect();
    for _ in 0..HAND_OFFS {
        one.release(&holder.id).await;
        let woken = tokio::time::timeout(WOKEN_WITHIN, select_all(all)).await;
        let (told, _, left) = woken.expect("the first of all is woken, and served");
        holder = granted(told);
        all = left;
    }
    for poller in pollers {
        assert!(!poller.is_finished(), "one was granted, or failed");
        poller.abort();
    }
    all.extend(others);
    for waits in all {
        waits.abort();
    }
    queued(&backend, &resource, 0).await;
}

async fn moves_that_were_queued_follow_each_other_without_a_look_each(backend: Backend) {
    const MOVES: usize = 30;
    let one = backend.sidecar().await;
    let (two, plan) = backend.faulty_within(PATIENT_CALL).await;
    let resource = fresh_resource();
    applied(&one.transition(&create(&resource, "pending")).await);
    let holder = one.hold(&reserve(&resource)).await;
    let moves = (0..MOVES).map(|at| {
        let noted = ask(&resource, &format!("note-{at}")).from(&["pending"]);
        two.transition_waiting(&noted, LONG)
    });
    let moves: Vec<_> = moves.collect();
    queued(&backend, &resource, MOVES).await;
    let before = plan.counts();
    one.release(&holder.id).await;
    for told in join_all(moves).await {
        assert_eq!(told.unwrap().unwrap().verdict, Verdict::Applied);
    }
    let took = plan.counts().since(&before);
    println!("{}: {MOVES} queued moves took {took}", backend.name());
    // A commit each, and what the first one reads; a little for looks that are due anyway.
    assert!(took.keys() <= MOVES + MOVES / 3, "{took}");
    queued(&backend, &resource, 0).await;
}

async fn whoever_waits_while_a_timeline_is_started_is_served_in_it(backend: Backend) {
    let [one, two] = backend.sidecars().await;
    let resource = fresh_resource();
    one.hold(&reserve_for(&resource, 600)).await;
    let first = waits(&two, &resource);
    queued(&backend, &resource, 1).await;
    let second = waits(&two, &resource);
    queued(&backend, &resource, 2).await;
    let before = places(&backend, &resource).await;
    one.start_timeline("nobody knows why").await;
    // Their session lives on, but starting a timeline removes all that wait.
    let (told, _, mut left) = tokio::time::timeout(FOUND_WITHIN, select_all([first, second]))
        .await
        .expect("one is served");
    let grant = granted(told);
    let left_waits = left.pop().unwrap();
    let now = places(&backend, &resource).await;
    assert!(now.iter().all(|place| !before.contains(place)));
    assert_eq!(two.live(&resource).await, Some(grant.token));
    two.release(&grant.id).await;
    served(left_waits, LOOKED_WITHIN).await;
    queued(&backend, &resource, 0).await;
}

async fn a_fault_at_the_hand_off_does_not_leave_the_resource_idle(backend: Backend) {
    let one = backend.sidecar().await;
    let (two, plan) = backend.faulty_within(PATIENT_CALL).await;
    let resource = fresh_resource();
    let holder = one.hold(&reserve(&resource)).await;
    let first = waits(&two, &resource);
    queued(&backend, &resource, 1).await;
    let second = waits(&two, &resource);
    queued(&backend, &resource, 2).await;
    let fault = plan
        .when(Rpc::Txn)
        .containing(resource.id())
        .then(Action::Cut);
    one.release(&holder.id).await;
    let grant = served(first, WOKEN_WITHIN).await;
    assert_eq!(fault.hits(), 1);
    assert!(!second.is_finished());
    one.release(&grant.id).await;
    served(second, WOKEN_WITHIN).await;
}

async fn whoever_waits_where_nothing_can_be_granted_holds_up_nobody(backend: Backend) {
    const HELD: usize = 12;
    let (one, plan) = backend.faulty_within(PATIENT_CALL).await;
    let two = backend.sidecar().await;
    let asks: Vec<_> = (0..HELD)
        .map(|_| reserve_for(&fresh_resource(), 9))
        .collect();
    let grants = join_all(asks.iter().map(|ask| one.hold(ask))).await;
    let ids = grants.into_iter().map(|grant| grant.id).collect();
    let held = one.engine.hold(ids, AtClose::Keep, caller()).await;
    let _held = held.expect("it opens");
    let slow = plan.when(Rpc::LeaseKeepAlive).always();
    let slow = slow.then(Action::DeliverLate(Ending::Silence));
    let refused = until("a grant is refused", STRAINED_WITHIN, || async {
        one.try_reserve(&reserve(&fresh_resource())).await.err()
    });
    let refused = refused.await;
    assert!(matches!(refused, Fault::RenewalsLate { .. }), "{refused:?}");
    let resource = fresh_resource();
    let holder = two.hold(&reserve(&resource)).await;
    // What it knows nothing of it would refuse as if that were free.
    assert_eq!(one.live(&resource).await, Some(holder.token));
    let strained = waits(&one, &resource);
    queued(&backend, &resource, 1).await;
    let next = waits(&two, &resource);
    queued(&backend, &resource, 2).await;
    two.release(&holder.id).await;
    let grant = served(next, WOKEN_WITHIN).await;
    assert!(!strained.is_finished(), "it waits on");
    slow.lift();
    two.release(&grant.id).await;
    served(strained, STRAINED_WITHIN).await;
}

async fn an_entry_that_is_slow_to_be_written_costs_nobody_a_place(backend: Backend) {
    let one = backend.sidecar().await;
    let (two, plan) = backend.faulty_within(PATIENT_CALL).await;
    let resource = fresh_resource();
    let holder = one.hold(&reserve_for(&resource, 600)).await;
    let first = waits(&two, &resource);
    queued(&backend, &resource, 1).await;
    let before = places(&backend, &resource).await;
    let slow = plan.when(Rpc::Txn).containing("ws/").then(Action::Hold);
    let second = waits(&two, &resource);
    slow.met().await;
    tokio::time::sleep(SESSION_AND_MORE).await;
    assert_eq!(places(&backend, &resource).await, before);
    slow.deliver().await;
    queued(&backend, &resource, 2).await;
    one.release(&holder.id).await;
    let grant = served(first, WOKEN_WITHIN).await;
    two.release(&grant.id).await;
    served(second, WOKEN_WITHIN).await;
}

async fn a_session_that_may_have_run_out_is_given_up_with_its_entries(backend: Backend) {
    let one = backend.sidecar().await;
    let (two, plan) = backend.faulty_within(PATIENT_CALL).await;
    let resource = fresh_resource();
    let holder = one.hold(&reserve_for(&resource, 600)).await;
    let silent = plan.when(Rpc::LeaseKeepAlive).always();
    let silent = silent.then(Action::DeliverLate(Ending::Silence));
    let first = waits(&two, &resource);
    queued(&backend, &resource, 1).await;
    let before = places(&backend, &resource).await;
    // Nobody but this test keeps it alive, of which the sidecar knows nothing.
    let (mut raw, lease) = (backend.raw().await, before[0].2);
    let kept = tokio::spawn(async move {
        let (mut keeper, mut replies) = raw.lease_keep_alive(lease).await.unwrap();
        while keeper.keep_alive().await.is_ok() {
            drop(replies.message().await);
            tokio::time::sleep(Duration::from_secs(2)).await;
        }
    });
    let anew = || async {
        let now = places(&backend, &resource).await;
        (now.len() == 1 && now != before).then_some(())
    };
    until("it is entered anew", SESSION_OVER_WITHIN, anew).await;
    kept.abort();
    silent.lift();
    one.release(&holder.id).await;
    served(first, LOOKED_WITHIN).await;
}

engines! {
    a_fault_at_the_hand_off_does_not_leave_the_resource_idle,
    a_session_that_may_have_run_out_is_given_up_with_its_entries,
    an_entry_that_is_slow_to_be_written_costs_nobody_a_place,
    moves_that_were_queued_follow_each_other_without_a_look_each,
    who_asks_all_the_time_takes_no_turn_from_those_who_were_entered_together,
    whoever_waits_where_nothing_can_be_granted_holds_up_nobody,
    whoever_waits_while_a_timeline_is_started_is_served_in_it,
}
