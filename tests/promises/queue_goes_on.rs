//! A queue goes on: a free resource does not idle while somebody waits for it, and what is left of those who have left holds up
//! nobody, also when etcd fails or has no space.

use std::time::Duration;

use etcd_client::PutOptions;
use fencepost::domain::decision::{Layer, Rule, Verdict};
use fencepost::engine::Boottime;
use futures_util::future::{join_all, select_all};

use super::queue::{
    LONG, LOOKED_WITHIN, PATIENT_CALL, SESSION_OVER_WITHIN, WOKEN_WITHIN, entries, granted, queued,
    queued_within, served, waits,
};
use super::queue_several::waits_for_all;
use crate::support::ask::{ask, create, fresh_resource, fresh_resources, reserve, together};
use crate::support::backend::Backend;
use crate::support::claim::{applied, judged};
use crate::support::fault::{Action, Ending, FaultPlan, Injected, NO_SPACE, Rpc};
use crate::support::sidecar::Sidecar;
use crate::support::{engines, until};

/// Sooner than one who looks now and then finds out anything, however often it has to.
const NO_LOOK_WITHIN: Duration = Duration::from_secs(2);
/// Copies of a message that are queued at once.
const COPIES: usize = 8;

fn full(plan: &FaultPlan) -> Vec<Injected> {
    let of = |rpc| plan.when(rpc).always().then(Action::NoSpace);
    [Rpc::Txn, Rpc::LeaseGrant].into_iter().map(of).collect()
}

async fn copies_that_were_queued_hand_the_resource_on_at_once(backend: Backend) {
    let one = backend.sidecar().await;
    let (two, plan) = backend.faulty_within(PATIENT_CALL).await;
    let resource = fresh_resource();
    applied(&one.transition(&create(&resource, "pending")).await);
    let holder = one.hold(&reserve(&resource)).await;
    let pay = ask(&resource, "pay").from(&["pending"]).to("paid");
    let mut copies = Vec::new();
    for at in 0..COPIES {
        copies.push(two.reserve_waiting(&pay.claim(), LONG));
        queued(&backend, &resource, at + 1).await;
    }
    let behind = waits(&one, &resource);
    queued(&backend, &resource, COPIES + 1).await;
    one.release(&holder.id).await;
    let (claimed, _, copies) = select_all(copies).await;
    let claim = granted(claimed);
    applied(&two.complete(&claim.id, "receipt").await);
    let (completed, before) = (Boottime::now(), plan.counts());
    for told in join_all(copies).await {
        assert_eq!(told.unwrap().unwrap().decision.verdict, Verdict::Replayed);
    }
    served(behind, LONG).await;
    let took = Boottime::now().since(completed);
    let sent = plan.counts().since(&before);
    println!(
        "{}: {COPIES} copies took {took:?} and {sent}",
        backend.name()
    );
    assert!(took < NO_LOOK_WITHIN, "{took:?}");
    // Each entry is removed, and nobody has to look whether its caller holds something now.
    assert!(sent.keys() <= COPIES + COPIES / 2, "{sent}");
}

async fn moves_that_are_queued_go_on_when_one_in_their_midst_hangs_up(backend: Backend) {
    const MOVES: usize = 10;
    let one = backend.sidecar().await;
    let (two, plan) = backend.faulty_within(PATIENT_CALL).await;
    let resource = fresh_resource();
    applied(&one.transition(&create(&resource, "pending")).await);
    let holder = one.hold(&reserve(&resource)).await;
    let mut moves = Vec::new();
    for at in 0..MOVES {
        let noted = ask(&resource, &format!("note-{at}")).from(&["pending"]);
        moves.push(two.transition_waiting(&noted, LONG));
        queued(&backend, &resource, at + 1).await;
    }
    let hangs_up = waits(&one, &resource);
    queued(&backend, &resource, MOVES + 1).await;
    let first = plan
        .when(Rpc::Txn)
        .containing("w/order/")
        .then(Action::Hold);
    one.release(&holder.id).await;
    first.met().await;
    // It is free, and one leaves who might hold it for all that is known.
    hangs_up.abort();
    queued(&backend, &resource, MOVES).await;
    first.deliver().await;
    let began = Boottime::now();
    for told in join_all(moves).await {
        assert_eq!(told.unwrap().unwrap().verdict, Verdict::Applied);
    }
    let took = Boottime::now().since(began);
    println!("{}: {MOVES} moves took {took:?}", backend.name());
    assert!(took < NO_LOOK_WITHIN, "{took:?}");
    queued(&backend, &resource, 0).await;
}

/// The write that takes the last space is done, and answered as if it were not.
fn last_entry(plan: &FaultPlan) -> Injected {
    plan.when(Rpc::Txn)
        .containing("ws/")
        .then(Action::DoAndSay(NO_SPACE.0, NO_SPACE.1))
}

async fn an_entry_that_took_the_last_space_is_gone_with_its_caller(backend: Backend) {
    let one = backend.sidecar().await;
    let (two, plan) = backend.faulty_within(PATIENT_CALL).await;
    let [elsewhere, resource] = fresh_resources();
    one.hold(&reserve(&elsewhere)).await;
    let holder = one.hold(&reserve(&resource)).await;
    // Its session is kept alive by another one.
    let _other = waits(&two, &elsewhere);
    queued(&backend, &elsewhere, 1).await;
    let last = last_entry(&plan);
    let full = full(&plan);
    let leaves = waits(&two, &resource);
    last.met().await;
    queued(&backend, &resource, 1).await;
    leaves.abort();
    queued(&backend, &resource, 0).await;
    one.release(&holder.id).await;
    one.hold(&reserve(&resource)).await;
    drop(full);
}

async fn an_entry_that_took_the_last_space_keeps_its_place(backend: Backend) {
    let one = backend.sidecar().await;
    let (two, plan) = backend.faulty_within(PATIENT_CALL).await;
    let resource = fresh_resource();
    let holder = one.hold(&reserve(&resource)).await;
    let places = || async {
        let all = backend.written().await;
        let queue = format!("{}w/", backend.prefix());
        let queued = all.into_iter().filter(|(key, _)| key.starts_with(&queue));
        queued.collect::<Vec<_>>()
    };
    let last = last_entry(&plan);
    let first = waits(&two, &resource);
    last.met().await;
    queued(&backend, &resource, 1).await;
    let before = places().await;
    let second = waits(&two, &resource);
    queued(&backend, &resource, 2).await;
    let now = places().await;
    assert!(before.iter().all(|place| now.contains(place)), "{now:?}");
    one.release(&holder.id).await;
    let grant = served(first, WOKEN_WITHIN).await;
    two.release(&grant.id).await;
    served(second, WOKEN_WITHIN).await;
}

async fn whoever_leaves_a_queue_keeps_no_place_although_there_is_no_space(backend: Backend) {
    let one = backend.sidecar().await;
    let (two, plan) = backend.faulty_within(PATIENT_CALL).await;
    let [elsewhere, resource] = fresh_resources();
    one.hold(&reserve(&elsewhere)).await;
    let holder = one.hold(&reserve(&resource)).await;
    let stays = waits(&two, &elsewhere);
    queued(&backend, &elsewhere, 1).await;
    let leaves = waits(&two, &resource);
    queued(&backend, &resource, 1).await;
    let full = full(&plan);
    // This one cannot be entered, and nor does that keep the other's entry.
    let comes = waits(&two, &resource);
    let look = || async { (two.engine.waiters().calls == 3).then_some(()) };
    until("it waits", WOKEN_WITHIN, look).await;
    leaves.abort();
    queued(&backend, &resource, 0).await;
    assert_eq!(entries(&backend, &elsewhere).await, 1, "it keeps its place");
    one.release(&holder.id).await;
    let next = one.hold(&reserve(&resource)).await;
    for full in full {
        full.lift();
    }
    queued_within(&backend, &resource, 1, LOOKED_WITHIN).await;
    one.release(&next.id).await;
    served(comes, WOKEN_WITHIN).await;
    stays.abort();
}

// Somebody has written the session behind its back, so that it takes no more entries.
async fn a_session_that_takes_no_entries_holds_up_nobody_with_those_it_has(backend: Backend) {
    let [one, two] = backend.sidecars().await;
    let resource = fresh_resource();
    let holder = one.hold(&reserve(&resource)).await;
    let first = waits(&two, &resource);
    queued(&backend, &resource, 1).await;
    let session = format!("{}ws/", backend.prefix());
    let mut written = backend.dump().await;
    written.retain(|(key, _)| key.starts_with(&session));
    let (key, value) = written.pop().unwrap();
    let keep = Some(PutOptions::new().with_ignore_lease());
    let mut raw = backend.raw().await;
    raw.put(key, value, keep).await.unwrap();
    let second = waits(&two, &resource);
    let anew = || async { (entries(&backend, &resource).await >= 2).then_some(()) };
    until("they are entered anew", LOOKED_WITHIN, anew).await;
    let began = Boottime::now();
    one.release(&holder.id).await;
    let (told, _, left) = tokio::time::timeout(LONG, select_all([first, second]))
        .await
        .unwrap();
    let took = Boottime::now().since(began);
    assert!(took < NO_LOOK_WITHIN, "{took:?}");
    two.release(&granted(told).id).await;
    for waits in left {
        served(waits, LOOKED_WITHIN).await;
    }
}

/// A removal that is met by this so many times, and then the next is served.
async fn removal_fails(backend: &Backend, times: usize, action: Action, within: Duration) {
    let one = backend.sidecar().await;
    let (two, plan) = backend.faulty().await;
    let [elsewhere, resource] = fresh_resources();
    one.hold(&reserve(&elsewhere)).await;
    let holder = one.hold(&reserve(&resource)).await;
    let stays = waits(&two, &elsewhere);
    queued(backend, &elsewhere, 1).await;
    let leaves = waits(&two, &resource);
    queued(backend, &resource, 1).await;
    let next = waits(&one, &resource);
    queued(backend, &resource, 2).await;
    let removal = plan.when(Rpc::Txn).containing(resource.id()).times(times);
    let removal = removal.then(action);
    leaves.abort();
    removal.met().await;
    one.release(&holder.id).await;
    served(next, within).await;
    removal.lift();
    // Who stays waits on, perhaps in another place.
    queued_within(backend, &elsewhere, 1, LOOKED_WITHIN).await;
    assert!(!stays.is_finished());
    stays.abort();
}

async fn an_entry_whose_removal_fails_a_few_times_holds_up_nobody_for_long(backend: Backend) {
    let faults = [
        Action::Cut,
        Action::Lose,
        Action::LoseReply(Ending::Reset),
        Action::LoseReply(Ending::Silence),
    ];
    let all = faults.map(|action| removal_fails(&backend, 3, action, SESSION_OVER_WITHIN));
    join_all(all).await;
}

async fn an_entry_that_cannot_be_removed_goes_with_its_session(backend: Backend) {
    let faults = [
        Action::Cut,
        Action::Lose,
        Action::DeliverLate(Ending::Silence),
    ];
    let all = faults.map(|action| removal_fails(&backend, usize::MAX, action, SESSION_OVER_WITHIN));
    join_all(all).await;
}

// Nor when that cannot be ended: then it runs out.
async fn an_entry_that_cannot_be_removed_runs_out_with_its_session(backend: Backend) {
    let one = backend.sidecar().await;
    let (two, plan) = backend.faulty().await;
    let [elsewhere, resource] = fresh_resources();
    one.hold(&reserve(&elsewhere)).await;
    let holder = one.hold(&reserve(&resource)).await;
    let stays = waits(&two, &elsewhere);
    queued(&backend, &elsewhere, 1).await;
    let leaves = waits(&two, &resource);
    queued(&backend, &resource, 1).await;
    let next = waits(&one, &resource);
    queued(&backend, &resource, 2).await;
    for rpc in [Rpc::Txn, Rpc::LeaseRevoke] {
        plan.when(rpc).always().then(Action::Cut);
    }
    leaves.abort();
    one.release(&holder.id).await;
    served(next, SESSION_OVER_WITHIN).await;
    assert!(!stays.is_finished());
    stays.abort();
}

async fn a_foreign_entry_that_is_gone_lets_nobody_barge_in(backend: Backend) {
    let [one, two] = backend.sidecars().await;
    let [a, b, c] = fresh_resources();
    let holder_of_c = two.hold(&reserve(&c)).await;
    let foreign = format!("{}w/order/{}/", backend.prefix(), a.id());
    let mut raw = backend.raw().await;
    raw.put(foreign.clone(), "foreign", None).await.unwrap();
    // Others wait for B and C, so that A and B are not had; what stands at A is seen by that.
    let _x = waits_for_all(&two, &[b.clone(), c.clone()]);
    queued(&backend, &b, 1).await;
    let told = one
        .reserve_together(&together(&[a.clone(), b.clone()]))
        .await;
    judged(&told.decision, Verdict::Busy, Layer::Fence, Rule::Queued);
    raw.delete(foreign, None).await.unwrap();
    let first = waits_for_all(&two, &[a.clone(), c.clone()]);
    queued(&backend, &a, 1).await;
    let barges = one.reserve(&reserve(&a)).await.decision;
    judged(&barges, Verdict::Busy, Layer::Fence, Rule::Queued);
    // The same for one that waits, and for several.
    let barges = one.reserve_waiting(&reserve(&a), Duration::from_millis(300));
    let barges = barges.await.unwrap().unwrap().decision;
    judged(&barges, Verdict::Busy, Layer::Fence, Rule::Queued);
    assert!(!first.is_finished());
    drop(holder_of_c);
}

async fn deliveries(sidecar: &Sidecar, verdict: Verdict) -> u64 {
    let (_, rows) = sidecar.engine.counts();
    let of = |row: &fencepost::engine::Count| row.verdicts.get(&verdict).copied();
    rows.iter().filter_map(of).sum()
}

async fn whoever_is_told_what_was_known_before_is_counted_too(backend: Backend) {
    const MOVES: usize = 3;
    let one = backend.sidecar().await;
    let (two, plan) = backend.faulty().await;
    let resource = fresh_resource();
    applied(&one.transition(&create(&resource, "pending")).await);
    let holder = one.hold(&reserve(&resource)).await;
    let moves = |wait: Duration| {
        let moves = (0..MOVES).map(|at| {
            let noted = ask(&resource, &format!("note-{at}")).from(&["pending"]);
            two.transition_waiting(&noted, wait)
        });
        moves.collect::<Vec<_>>()
    };
    let over = moves(Duration::from_secs(2));
    queued(&backend, &resource, MOVES).await;
    assert_eq!(deliveries(&two, Verdict::Busy).await, 0, "they wait");
    // From before the last question on, etcd is silent.
    let silent: Vec<_> = [Rpc::Txn, Rpc::Range]
        .into_iter()
        .map(|rpc| {
            let silent = plan.when(rpc).always();
            silent.then(Action::DeliverLate(Ending::Silence))
        })
        .collect();
    for told in join_all(over).await {
        judged(
            &told.unwrap().unwrap(),
            Verdict::Busy,
            Layer::Fence,
            Rule::Held,
        );
    }
    assert_eq!(deliveries(&two, Verdict::Busy).await, 3);
    for silent in silent {
        silent.lift();
    }
    queued_within(&backend, &resource, 0, LOOKED_WITHIN).await;
    // One who asks a last time is counted once.
    for told in join_all(moves(Duration::from_millis(300))).await {
        judged(
            &told.unwrap().unwrap(),
            Verdict::Busy,
            Layer::Fence,
            Rule::Held,
        );
    }
    assert_eq!(deliveries(&two, Verdict::Busy).await, 6);
    // Whoever is told by the end of the sidecar, too.
    queued(&backend, &resource, 0).await;
    let stopped = moves(LONG);
    queued(&backend, &resource, MOVES).await;
    assert!(two.engine.stop(LONG).await);
    for told in join_all(stopped).await {
        assert_eq!(told.unwrap().unwrap().verdict, Verdict::Busy);
    }
    assert_eq!(deliveries(&two, Verdict::Busy).await, 9);
    one.release(&holder.id).await;
}

engines! {
    a_foreign_entry_that_is_gone_lets_nobody_barge_in,
    a_session_that_takes_no_entries_holds_up_nobody_with_those_it_has,
    an_entry_that_cannot_be_removed_goes_with_its_session,
    an_entry_that_cannot_be_removed_runs_out_with_its_session,
    an_entry_that_took_the_last_space_is_gone_with_its_caller,
    an_entry_that_took_the_last_space_keeps_its_place,
    an_entry_whose_removal_fails_a_few_times_holds_up_nobody_for_long,
    copies_that_were_queued_hand_the_resource_on_at_once,
    moves_that_are_queued_go_on_when_one_in_their_midst_hangs_up,
    whoever_is_told_what_was_known_before_is_counted_too,
    whoever_leaves_a_queue_keeps_no_place_although_there_is_no_space,
}
