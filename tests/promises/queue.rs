//! Waiting for a busy resource: first come, first served, whichever sidecar they came to.

use std::time::Duration;

use etcd_client::PutOptions;
use fencepost::domain::decision::{Grant, Layer, Rule, Verdict};
use fencepost::domain::ids::ResourceId;
use fencepost::engine::{Boottime, Fault, Reserved, Waiters};
use futures_util::future::{join_all, select_all};

use super::fence::SHORTEST_SECONDS;
use crate::support::ask::{ask, create, fresh_resource, reserve, reserve_for, resource};
use crate::support::backend::Backend;
use crate::support::claim::{applied, judged};
use crate::support::fault::{Action, Ending, FaultPlan, Rpc};
use crate::support::sidecar::{Sidecar, Waiting, caller_for};
use crate::support::{engines, until};

/// Longer than any of these tests takes.
pub(super) const LONG: Duration = Duration::from_secs(60);
/// A hand-off that is heard of comes within this; without a watch one looks no sooner than after 4 s.
pub(super) const WOKEN_WITHIN: Duration = Duration::from_secs(3);
/// Entries are made and removed within this: sooner than a session that is not kept alive takes them along.
const WRITTEN_WITHIN: Duration = Duration::from_secs(6);
/// Two looks without a change come within this.
pub(super) const LOOKED_WITHIN: Duration = Duration::from_secs(13);
/// Entries of a sidecar that has died are gone within this: the TTL of its session, and what etcd takes to end a lease.
pub(super) const SESSION_OVER_WITHIN: Duration = Duration::from_secs(20);
/// A sidecar that waits for a held request must not give up meanwhile.
pub(super) const PATIENT_CALL: Duration = Duration::from_secs(15);
/// Callers at once.
const MANY: usize = 1_000;

/// The entries in the queue of a resource.
async fn entries(backend: &Backend, resource: &ResourceId) -> usize {
    let queue = format!(
        "{}w/{}/{}/",
        backend.prefix(),
        resource.kind(),
        resource.id()
    );
    let all = backend.written().await;
    all.iter()
        .filter(|(key, _)| key.starts_with(&queue))
        .count()
}

pub(super) async fn queued(backend: &Backend, resource: &ResourceId, wanted: usize) {
    queued_within(backend, resource, wanted, WRITTEN_WITHIN).await;
}

pub(super) async fn queued_within(
    backend: &Backend,
    resource: &ResourceId,
    wanted: usize,
    limit: Duration,
) {
    let look = || async { (entries(backend, resource).await == wanted).then_some(()) };
    until(&format!("{wanted} are queued"), limit, look).await;
}

async fn nobody_waits(sidecar: &Sidecar) {
    let none = Waiters {
        calls: 0,
        followed: 0,
    };
    let look = || async { (sidecar.engine.waiters() == none).then_some(()) };
    until("nobody waits and nothing is followed", WOKEN_WITHIN, look).await;
}

pub(super) fn waits(sidecar: &Sidecar, resource: &ResourceId) -> Waiting<Reserved> {
    let (engine, ask) = (sidecar.engine.clone(), reserve(resource));
    // Longer than a busy machine takes for any of these tests.
    tokio::spawn(async move {
        engine
            .reserve_or_wait(ask, LONG, caller_for(2 * LONG))
            .await
    })
}

#[track_caller]
pub(super) fn granted(told: Result<Result<Reserved, Fault>, tokio::task::JoinError>) -> Grant {
    let reserved = told.unwrap().expect("it is judged");
    let decision = reserved.decision;
    let grant = reserved.grant;
    grant.unwrap_or_else(|| panic!("{decision:?} instead of a reservation"))
}

pub(super) async fn served(waiting: Waiting<Reserved>, within: Duration) -> Grant {
    let told = tokio::time::timeout(within, waiting).await;
    granted(told.expect("it is its turn in time"))
}

async fn whoever_came_first_is_served_first_whichever_sidecar_it_came_to(backend: Backend) {
    let sidecars = [
        backend.sidecar().await,
        backend.sidecar().await,
        backend.sidecar().await,
    ];
    let resource = fresh_resource();
    let first = reserve(&resource);
    let mut holder = sidecars[0].hold(&first).await;
    let mut all = Vec::new();
    for (at, from) in [0, 1, 2, 2, 1, 0, 1, 1].into_iter().enumerate() {
        all.push(waits(&sidecars[from], &resource));
        queued(&backend, &resource, at + 1).await;
    }
    // Those who wait hold up no retry of the call that has the resource.
    let again = sidecars[1].hold(&first).await;
    assert_eq!(again.id, holder.id);
    while !all.is_empty() {
        let late = all.split_off(1);
        let next = all.pop().unwrap();
        sidecars[all.len() % 3].release(&holder.id).await;
        let grant = served(next, WOKEN_WITHIN).await;
        assert!(grant.token > holder.token);
        assert!(
            grant.safe_for > grant.ttl.as_duration(),
            "the wait is part of it: {grant:?}"
        );
        assert!(late.iter().all(|waits| !waits.is_finished()));
        holder = grant;
        all = late;
    }
    queued(&backend, &resource, 0).await;
    for sidecar in &sidecars {
        nobody_waits(sidecar).await;
    }
}

async fn of_many_who_wait_one_is_woken_and_a_hand_off_costs_few_requests(backend: Backend) {
    const HAND_OFFS: usize = 20;
    let one = backend.sidecar().await;
    let (two, plan_two) = backend.faulty_within(PATIENT_CALL).await;
    let (three, plan_three) = backend.faulty_within(PATIENT_CALL).await;
    let resource = fresh_resource();
    let mut holder = one.hold(&reserve(&resource)).await;
    let half = |sidecar: &Sidecar| (0..100).map(|_| waits(sidecar, &resource)).collect();
    let mut all: Vec<Waiting<Reserved>> = half(&two);
    all.extend(half(&three));
    queued_within(&backend, &resource, 200, LONG).await;
    let followed = |plan: &FaultPlan| plan.counts().of(Rpc::Watch) >= 2;
    let look = || async { (followed(&plan_two) && followed(&plan_three)).then_some(()) };
    until("both follow", LOOKED_WITHIN, look).await;
    assert_eq!(
        (
            two.engine.waiters().followed,
            three.engine.waiters().followed
        ),
        (1, 1)
    );
    let before = [plan_two.counts(), plan_three.counts()];
    for _ in 0..HAND_OFFS {
        one.release(&holder.id).await;
        let woken = tokio::time::timeout(WOKEN_WITHIN, select_all(all));
        let (told, _, left) = woken.await.expect("one is woken");
        holder = granted(told);
        all = left;
    }
    let took = [
        plan_two.counts().since(&before[0]),
        plan_three.counts().since(&before[1]),
    ];
    let sum = |of: fn(&crate::support::fault::Counts) -> usize| took.iter().map(of).sum::<usize>();
    println!(
        "{}: {HAND_OFFS} hand-offs took {} and {}",
        backend.name(),
        took[0],
        took[1]
    );
    assert!(sum(|counts| counts.all()) <= 4 * HAND_OFFS, "{took:?}");
    // The woken one reads what the release has left, and commits; beside that each sidecar looks now and then. More would be a
    // second one that was woken.
    assert!(sum(|counts| counts.keys()) <= 2 * HAND_OFFS + 6, "{took:?}");
    for waits in &all {
        waits.abort();
    }
    queued(&backend, &resource, 0).await;
}

async fn nobody_barges_in_between_a_release_and_the_hand_off(backend: Backend) {
    let one = backend.sidecar().await;
    let (two, plan) = backend.faulty_within(PATIENT_CALL).await;
    let resource = fresh_resource();
    let holder = one.hold(&reserve(&resource)).await;
    let next = waits(&two, &resource);
    queued(&backend, &resource, 1).await;
    let hand_off = plan
        .when(Rpc::Txn)
        .containing(resource.id())
        .then(Action::Hold);
    one.release(&holder.id).await;
    hand_off.met().await;
    for ask in [reserve(&resource), ask(&resource, "claimed").claim()] {
        let barges = one.reserve(&ask).await.decision;
        judged(&barges, Verdict::Busy, Layer::Fence, Rule::Queued);
        assert!(barges.retry_after.is_some());
        assert_eq!(barges.now.unwrap().live, None);
    }
    // A Transition that needs the resource only for its commit takes nothing from anybody.
    applied(&one.transition(&create(&resource, "new")).await);
    hand_off.deliver().await;
    let grant = served(next, WOKEN_WITHIN).await;
    assert_eq!(one.live(&resource).await, Some(grant.token));
    let late = one.reserve(&reserve(&resource)).await.decision;
    judged(&late, Verdict::Busy, Layer::Fence, Rule::Held);
}

async fn whoever_leaves_keeps_no_place(backend: Backend) {
    let [one, two] = backend.sidecars().await;
    let resource = fresh_resource();
    let holder = one.hold(&reserve(&resource)).await;
    // It hangs up.
    let gone = two.reserve_waiting(&reserve_for(&resource, 60), LONG);
    queued(&backend, &resource, 1).await;
    gone.abort();
    queued(&backend, &resource, 0).await;
    // Its wait is over.
    let (wait, began) = (Duration::from_millis(600), Boottime::now());
    let waits_shortly = two.reserve_waiting(&reserve(&resource), wait);
    queued(&backend, &resource, 1).await;
    let told = waits_shortly.await.unwrap().unwrap().decision;
    judged(&told, Verdict::Busy, Layer::Fence, Rule::Held);
    assert!(Boottime::now().since(began) >= wait);
    // Its deadline is near, and it is told before.
    let patience = Duration::from_millis(1_500);
    let asked = two
        .engine
        .reserve_or_wait(reserve(&resource), LONG, caller_for(patience));
    let told = asked
        .await
        .expect("a decision before the deadline")
        .decision;
    judged(&told, Verdict::Busy, Layer::Fence, Rule::Held);
    queued(&backend, &resource, 0).await;
    nobody_waits(&two).await;
    let first = waits(&two, &resource);
    queued(&backend, &resource, 1).await;
    let next = waits(&one, &resource);
    queued(&backend, &resource, 2).await;
    first.abort();
    queued(&backend, &resource, 1).await;
    two.release(&holder.id).await;
    let grant = served(next, WOKEN_WITHIN).await;
    // It leaves while its hand-off is under way: the grant that it will not hear of is not made.
    let (three, plan) = backend.faulty_within(PATIENT_CALL).await;
    let leaves = waits(&three, &resource);
    queued(&backend, &resource, 1).await;
    let next = waits(&two, &resource);
    queued(&backend, &resource, 2).await;
    assert_eq!(three.live(&resource).await, Some(grant.token));
    let commits = plan
        .when(Rpc::Txn)
        .containing("w/order/")
        .then(Action::Hold);
    one.release(&grant.id).await;
    commits.met().await;
    leaves.abort();
    queued(&backend, &resource, 1).await;
    commits.deliver().await;
    served(next, LOOKED_WITHIN).await;
}

async fn a_place_is_kept_for_as_long_as_its_call_waits(backend: Backend) {
    let [one, two] = backend.sidecars().await;
    let resource = fresh_resource();
    let holder = one.hold(&reserve_for(&resource, 60)).await;
    let [first, second] = [waits(&two, &resource), waits(&two, &resource)];
    queued(&backend, &resource, 2).await;
    let places = || async {
        let all = backend.written().await;
        let queue = format!("{}w/", backend.prefix());
        let mine =
            |(key, _): &(String, i64)| key.starts_with(&queue) && key.contains(resource.id());
        all.into_iter().filter(mine).collect::<Vec<_>>()
    };
    let before = places().await;
    // Longer than the session of a sidecar lasts by itself.
    tokio::time::sleep(Duration::from_secs(16)).await;
    assert_eq!(places().await, before);
    one.release(&holder.id).await;
    served(first, WOKEN_WITHIN).await;
    second.abort();
}

async fn a_wait_that_is_longer_than_the_ttl_ends_in_a_live_reservation(backend: Backend) {
    let [one, two] = backend.sidecars().await;
    let resource = fresh_resource();
    // It is never released: its lease ends.
    one.hold(&reserve_for(&resource, 2 * SHORTEST_SECONDS))
        .await;
    let began = Boottime::now();
    let ask = reserve_for(&resource, SHORTEST_SECONDS);
    let grant = served(two.reserve_waiting(&ask, LONG), LONG).await;
    let waited = Boottime::now().since(began);
    assert!(waited > grant.ttl.as_duration(), "{waited:?}");
    assert!(grant.safe_for > waited, "{grant:?}");
    let fence = one.fence(&resource, grant.token).await;
    judged(&fence, Verdict::Granted, Layer::Fence, Rule::Live);
    assert_eq!(
        one.renew(&grant.id).await.decision.verdict,
        Verdict::Granted
    );
    queued(&backend, &resource, 0).await;
}

async fn a_sidecar_that_is_cut_off_gives_its_places_away_and_queues_again(backend: Backend) {
    let one = backend.sidecar().await;
    let (two, plan) = backend.faulty_within(Duration::from_secs(2)).await;
    let resource = fresh_resource();
    let holder = one.hold(&reserve(&resource)).await;
    let [first, second] = [waits(&two, &resource), waits(&two, &resource)];
    queued(&backend, &resource, 2).await;
    let next = waits(&one, &resource);
    queued(&backend, &resource, 3).await;
    let cut = plan.cut_all();
    one.release(&holder.id).await;
    let grant = served(next, SESSION_OVER_WITHIN).await;
    assert!(!first.is_finished() && !second.is_finished());
    for cut in &cut {
        cut.lift();
    }
    queued_within(&backend, &resource, 2, LOOKED_WITHIN).await;
    one.release(&grant.id).await;
    let grant = served(first, LOOKED_WITHIN).await;
    two.release(&grant.id).await;
    served(second, LOOKED_WITHIN).await;
    queued(&backend, &resource, 0).await;
}

async fn without_a_watch_a_hand_off_comes_a_little_later(backend: Backend) {
    let one = backend.sidecar().await;
    let (two, plan) = backend.faulty_within(PATIENT_CALL).await;
    let resource = fresh_resource();
    let holder = one.hold(&reserve(&resource)).await;
    let cut = plan.when(Rpc::Watch).always().then(Action::Cut);
    let all: Vec<_> = (0..20).map(|_| waits(&two, &resource)).collect();
    queued(&backend, &resource, 20).await;
    one.release(&holder.id).await;
    let woken = tokio::time::timeout(LOOKED_WITHIN, select_all(all)).await;
    granted(woken.expect("one is woken").0);
    cut.lift();
}

async fn a_thousand_who_wait_cost_two_watches_and_leave_nothing_behind(backend: Backend) {
    let one = backend.sidecar().await;
    let (two, plan) = backend.faulty_within(PATIENT_CALL).await;
    let resource = fresh_resource();
    let holder = one.hold(&reserve(&resource)).await;
    let once = two.reserve_waiting(&reserve(&resource), Duration::from_millis(300));
    once.await.unwrap().unwrap();
    nobody_waits(&two).await;
    queued(&backend, &resource, 0).await;
    let tasks = || {
        tokio::runtime::Handle::current()
            .metrics()
            .num_alive_tasks()
    };
    let (tasks_before, before) = (tasks(), plan.counts());
    let all: Vec<_> = (0..MANY).map(|_| waits(&two, &resource)).collect();
    let wanted = Waiters {
        calls: MANY,
        followed: 1,
    };
    let look = || async { (two.engine.waiters() == wanted).then_some(()) };
    until("all wait", LONG, look).await;
    queued(&backend, &resource, MANY).await;
    let took = plan.counts().since(&before);
    assert!(took.of(Rpc::Watch) <= 2, "{took}");
    // None of them has taken a lease but the sidecar for all.
    assert!(took.of(Rpc::LeaseGrant) <= 1, "{took}");
    println!("{}: {MANY} began to wait with {took}", backend.name());
    for one in &all {
        one.abort();
    }
    queued_within(&backend, &resource, 0, LONG).await;
    nobody_waits(&two).await;
    let look = || async { (tasks() <= tasks_before).then_some(()) };
    until("the tasks are as many as before", LONG, look).await;
    let next = waits(&two, &resource);
    queued(&backend, &resource, 1).await;
    one.release(&holder.id).await;
    served(next, WOKEN_WITHIN).await;
}

async fn entries_and_hand_offs_whose_replies_are_lost_come_out_right(backend: Backend) {
    for ending in Ending::BOTH {
        let one = backend.sidecar().await;
        let (two, plan) = backend.faulty().await;
        let resource = fresh_resource();
        let holder = one.hold(&reserve(&resource)).await;
        let entry = || plan.when(Rpc::Txn).containing("ws/");
        let lost = entry().then(Action::LoseReply(ending));
        let first = waits(&two, &resource);
        lost.met().await;
        queued(&backend, &resource, 1).await;
        // The next arrives only after it was sent again, and after its caller has left.
        let late = entry().then(Action::DeliverLate(ending));
        let gone = waits(&two, &resource);
        late.met().await;
        queued(&backend, &resource, 2).await;
        gone.abort();
        queued(&backend, &resource, 1).await;
        late.deliver().await;
        assert_eq!(entries(&backend, &resource).await, 1, "it arrived late");
        let hand_off = plan
            .when(Rpc::Txn)
            .containing(resource.id())
            .then(Action::LoseReply(ending));
        one.release(&holder.id).await;
        let grant = served(first, LOOKED_WITHIN).await;
        assert_eq!(hand_off.hits(), 1);
        assert_eq!(one.live(&resource).await, Some(grant.token));
        queued(&backend, &resource, 0).await;
        // A hand-off that is sent again, and then arrives late.
        let next = waits(&two, &resource);
        queued(&backend, &resource, 1).await;
        let late = plan
            .when(Rpc::Txn)
            .containing(resource.id())
            .then(Action::DeliverLate(ending));
        one.release(&grant.id).await;
        let grant = served(next, LOOKED_WITHIN).await;
        late.deliver().await;
        assert_eq!(one.live(&resource).await, Some(grant.token));
        one.release(&grant.id).await;
        queued(&backend, &resource, 0).await;
    }
}

async fn what_was_turned_away_because_others_waited_is_not_granted_when_it_arrives_late(
    backend: Backend,
) {
    let one = backend.sidecar().await;
    let (two, plan_two) = backend.faulty_within(PATIENT_CALL).await;
    let resources = [fresh_resource(), fresh_resource()];
    // One whose record is known, and one that has none: a reservation that is over leaves one, a queue without one does not.
    for resource in &resources {
        let (three, plan) = backend.faulty().await;
        let holder = one.hold(&reserve(resource)).await;
        let waits = waits(&two, resource);
        queued(&backend, resource, 1).await;
        let hand_off = plan_two
            .when(Rpc::Txn)
            .containing(resource.id())
            .then(Action::Hold);
        one.release(&holder.id).await;
        hand_off.met().await;
        // It knows the record, so that only the queue is in its way.
        assert_eq!(three.live(resource).await, None);
        let late = plan
            .when(Rpc::Txn)
            .containing(resource.id())
            .then(Action::DeliverLate(Ending::Reset));
        let told = three.reserve(&reserve(resource)).await.decision;
        judged(&told, Verdict::Busy, Layer::Fence, Rule::Queued);
        waits.abort();
        queued(&backend, resource, 0).await;
        late.deliver().await;
        assert_eq!(
            one.live(resource).await,
            None,
            "it arrived late, and was granted"
        );
        // Nor is anything granted to whoever has left the queue. Its sidecar answers this once that is settled.
        hand_off.deliver().await;
        assert_eq!(two.live(resource).await, None);
        assert_eq!(one.live(resource).await, None);
        one.hold(&reserve(resource)).await;
    }
}

async fn neither_a_sibling_nor_a_foreign_key_is_a_waiter(backend: Backend) {
    let [one, two] = backend.sidecars().await;
    let id = fresh_resource().id().to_owned();
    let busy = resource(&format!("{id}/1"));
    let holder = one.hold(&reserve(&busy)).await;
    let waits_there = waits(&two, &busy);
    // A slash in an id is escaped in its keys.
    let escaped = |rest: &str| format!("{}w/order/{id}%2F1{rest}", backend.prefix());
    let entered = || async {
        let all = backend.written().await;
        let is_there = |(key, _): &(String, i64)| key.starts_with(&escaped("/"));
        all.iter().any(is_there).then_some(())
    };
    until("it is queued", LOOKED_WITHIN, entered).await;
    for sibling in ["/10", "", "/1/x", "/1 ", "%2F1", "/"] {
        let sibling = resource(&format!("{id}{sibling}"));
        one.hold(&reserve(&sibling)).await;
    }
    let mut raw = backend.raw().await;
    for foreign in ["", ".", "0", "/", "/x", "/0000000000000000-x"] {
        raw.put(escaped(foreign), "foreign", None).await.unwrap();
    }
    one.release(&holder.id).await;
    let grant = served(waits_there, WOKEN_WITHIN).await;
    // Now the foreign keys are the first.
    one.release(&grant.id).await;
    let grant = one.hold(&reserve(&busy)).await;
    let next = waits(&two, &busy);
    let place = || async { (two.engine.waiters().calls == 1).then_some(()) };
    until("it waits", WOKEN_WITHIN, place).await;
    tokio::time::sleep(Duration::from_millis(100)).await;
    one.release(&grant.id).await;
    let grant = served(next, LOOKED_WITHIN).await;
    one.release(&grant.id).await;
    // An entry of ours without its lease, or one whose value is damaged, waits for nothing.
    let lease = raw.lease_grant(60, None).await.unwrap().id();
    let name = "/0000000000000001-00000000000000000000000000000001";
    let on_lease = Some(PutOptions::new().with_lease(lease));
    raw.put(escaped(name), "damaged", on_lease).await.unwrap();
    one.hold(&reserve(&busy)).await;
}

async fn a_transition_that_waits_takes_its_turn_among_the_others(backend: Backend) {
    let [one, two] = backend.sidecars().await;
    let resource = fresh_resource();
    applied(&one.transition(&create(&resource, "pending")).await);
    let holder = one.hold(&reserve(&resource)).await;
    let first = waits(&two, &resource);
    queued(&backend, &resource, 1).await;
    let pay = ask(&resource, "pay").from(&["pending"]).to("paid");
    let moves = one.transition_waiting(&pay, LONG);
    queued(&backend, &resource, 2).await;
    let last = waits(&two, &resource);
    queued(&backend, &resource, 3).await;
    one.release(&holder.id).await;
    let grant = served(first, WOKEN_WITHIN).await;
    assert!(!moves.is_finished());
    two.release(&grant.id).await;
    let moved = tokio::time::timeout(WOKEN_WITHIN, moves).await;
    applied(&moved.expect("it moves in its turn").unwrap().unwrap());
    served(last, WOKEN_WITHIN).await;
    assert_eq!(two.state(&resource).await, "paid");
    queued(&backend, &resource, 0).await;
}

async fn whoever_waits_for_its_turn_and_then_for_an_operation_gets_its_result(backend: Backend) {
    let [one, two] = backend.sidecars().await;
    let resource = fresh_resource();
    applied(&one.transition(&create(&resource, "pending")).await);
    let holder = one.hold(&reserve(&resource)).await;
    let pay = ask(&resource, "pay").from(&["pending"]).to("paid");
    let copies: Vec<_> = [&one, &two, &two]
        .map(|sidecar| sidecar.reserve_waiting(&pay.claim(), LONG))
        .into();
    queued(&backend, &resource, 3).await;
    one.release(&holder.id).await;
    let (claimed, _, copies) = select_all(copies).await;
    let claim = granted(claimed);
    assert_eq!(claim.attempt, 1);
    applied(&one.complete(&claim.id, "receipt").await);
    for copy in join_all(copies).await {
        let told = copy.unwrap().unwrap().decision;
        let result = Some(crate::support::ask::body("receipt"));
        assert_eq!((told.verdict, told.result), (Verdict::Replayed, result));
    }
    queued(&backend, &resource, 0).await;
    // What a caller heard on the way is no delivery.
    let known = one.lookup(&resource, "pay").await.decision.unwrap();
    assert!(known.deliveries.unwrap() <= 3 + 1, "{known:?}");
}

async fn a_sidecar_that_stops_takes_its_callers_out_of_the_queue(backend: Backend) {
    let [one, two] = backend.sidecars().await;
    let resource = fresh_resource();
    let holder = one.hold(&reserve(&resource)).await;
    let stopped = waits(&two, &resource);
    queued(&backend, &resource, 1).await;
    let next = waits(&one, &resource);
    queued(&backend, &resource, 2).await;
    assert!(two.engine.stop(LONG).await);
    let told = stopped.await.unwrap().unwrap().decision;
    judged(&told, Verdict::Busy, Layer::Fence, Rule::Held);
    queued(&backend, &resource, 1).await;
    one.release(&holder.id).await;
    served(next, WOKEN_WITHIN).await;
}

engines! {
    whoever_came_first_is_served_first_whichever_sidecar_it_came_to,
    of_many_who_wait_one_is_woken_and_a_hand_off_costs_few_requests,
    nobody_barges_in_between_a_release_and_the_hand_off,
    whoever_leaves_keeps_no_place,
    a_place_is_kept_for_as_long_as_its_call_waits,
    a_wait_that_is_longer_than_the_ttl_ends_in_a_live_reservation,
    a_sidecar_that_is_cut_off_gives_its_places_away_and_queues_again,
    without_a_watch_a_hand_off_comes_a_little_later,
    a_thousand_who_wait_cost_two_watches_and_leave_nothing_behind,
    entries_and_hand_offs_whose_replies_are_lost_come_out_right,
    what_was_turned_away_because_others_waited_is_not_granted_when_it_arrives_late,
    neither_a_sibling_nor_a_foreign_key_is_a_waiter,
    a_transition_that_waits_takes_its_turn_among_the_others,
    whoever_waits_for_its_turn_and_then_for_an_operation_gets_its_result,
    a_sidecar_that_stops_takes_its_callers_out_of_the_queue,
}
