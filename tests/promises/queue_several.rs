//! Waiting for several resources: one place in all their queues, one order for all who wait, and nothing in part.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use etcd_client::{EventType, WatchOptions};
use fencepost::domain::decision::{Layer, Rule, Verdict};
use fencepost::domain::ids::ResourceId;
use fencepost::domain::together::TOGETHER_MAX;
use fencepost::domain::token::FencingToken;
use fencepost::engine::Reserved;
use futures_util::future::{join_all, select_all};

use super::queue::{
    LONG, LOOKED_WITHIN, PATIENT_CALL, WOKEN_WITHIN, granted, nobody_waits, queued, queued_within,
    served, waits,
};
use crate::support::ask::{fresh_resources, reserve, together};
use crate::support::backend::Backend;
use crate::support::claim::judged;
use crate::support::fault::{Action, Counts, FaultPlan, Rpc};
use crate::support::rounds::whole_at_every_revision;
use crate::support::sidecar::{Sidecar, Waiting};
use crate::support::{engines, until};

/// Those who wait in the test of order.
const MIXED: usize = 50;

/// A Reserve of all of these that waits as long as any of these tests takes.
pub(super) fn waits_for_all(sidecar: &Sidecar, all: &[ResourceId]) -> Waiting<Reserved> {
    sidecar.together_waiting(&together(all), LONG, 2 * LONG)
}

/// Fails unless whoever waited was entered into all its queues at one revision, and left them at one. Answers how many waited.
pub(super) async fn placed_whole_at_every_revision(backend: &Backend) -> usize {
    let family = format!("{}w/", backend.prefix());
    let mut raw = backend.raw().await;
    let end = format!("{family}~");
    raw.put(end.clone(), "the end", None).await.unwrap();
    let options = WatchOptions::new().with_prefix().with_start_revision(1);
    let mut news = raw.watch(family, Some(options)).await.unwrap();
    // By what names one who waits: its keys, when they were made, and when they went.
    type Keys = BTreeMap<String, BTreeSet<i64>>;
    let (mut made, mut gone) = (Keys::new(), Keys::new());
    let mut keys = BTreeMap::<String, [usize; 2]>::new();
    'all: loop {
        let told = news.message().await.unwrap().expect("the watch goes on");
        for event in told.events() {
            let entry = event.kv().unwrap();
            let key = entry.key_str().unwrap();
            if key == end {
                break 'all;
            }
            let (_, name) = key.rsplit_once('/').unwrap();
            let (when, at) = match event.event_type() {
                EventType::Put => (&mut made, 0),
                EventType::Delete => (&mut gone, 1),
            };
            when.entry(name.to_owned())
                .or_default()
                .insert(entry.mod_revision());
            keys.entry(name.to_owned()).or_default()[at] += 1;
        }
    }
    for (name, revisions) in made.iter().chain(&gone) {
        assert_eq!(revisions.len(), 1, "{name} at {revisions:?}");
    }
    for (name, [made, gone]) in &keys {
        assert!(*gone == 0 || made == gone, "{name}: {gone} of {made} went");
    }
    keys.len()
}

async fn several_wait_for_all_their_holders_and_nobody_overtakes_them(backend: Backend) {
    let [one, two] = backend.sidecars().await;
    let all: [_; 3] = fresh_resources();
    let [a, b, c] = &all;
    let of_a = one.hold(&reserve(a)).await;
    let of_b = two.hold(&reserve(b)).await;
    let both = [a.clone(), b.clone()];
    let first = waits_for_all(&one, &both);
    queued(&backend, b, 1).await;
    queued(&backend, a, 1).await;
    let single = waits(&two, b);
    queued(&backend, b, 2).await;
    // In whatever order they are named.
    let last = waits_for_all(&two, &[b.clone(), a.clone()]);
    queued(&backend, b, 3).await;
    queued(&backend, a, 2).await;
    one.release(&of_a.id).await;
    // It is free, and is kept for whoever comes first.
    for sidecar in [&one, &two] {
        let alone = sidecar.reserve(&reserve(a)).await.decision;
        judged(&alone, Verdict::Busy, Layer::Fence, Rule::Queued);
        let barges = together(&[c.clone(), a.clone()]);
        let barges = sidecar.reserve_together(&barges).await.decision;
        judged(&barges, Verdict::Busy, Layer::Fence, Rule::Queued);
        assert!(barges.retry_after.is_some());
        assert_eq!(sidecar.live(a).await, None);
    }
    assert!(!first.is_finished() && !single.is_finished() && !last.is_finished());
    two.release(&of_b.id).await;
    let grant = served(first, WOKEN_WITHIN).await;
    assert!(grant.token > of_b.token);
    assert!(
        grant.safe_for > grant.ttl.as_duration(),
        "the wait is part of it: {grant:?}"
    );
    for resource in &both {
        assert_eq!(two.live(resource).await, Some(grant.token));
    }
    two.release(&grant.id).await;
    let of_b = served(single, WOKEN_WITHIN).await;
    let barges = one.reserve(&reserve(a)).await.decision;
    judged(&barges, Verdict::Busy, Layer::Fence, Rule::Queued);
    assert!(!last.is_finished(), "it waits for the other one");
    one.release(&of_b.id).await;
    let grant = served(last, WOKEN_WITHIN).await;
    one.release(&grant.id).await;
    for resource in &all {
        queued(&backend, resource, 0).await;
    }
    nobody_waits(&one).await;
    nobody_waits(&two).await;
    one.hold(&reserve(a)).await;
    let sets: [&[ResourceId]; 3] = [&both, std::slice::from_ref(a), std::slice::from_ref(b)];
    assert_eq!(whole_at_every_revision(&backend, &sets).await, 6);
    assert_eq!(placed_whole_at_every_revision(&backend).await, 3);
}

async fn among_those_who_want_one_and_those_who_want_several_nobody_overtakes(backend: Backend) {
    let one = backend.sidecar().await;
    let (two, plan_two) = backend.faulty_within(PATIENT_CALL).await;
    let (three, plan_three) = backend.faulty_within(PATIENT_CALL).await;
    let all: [_; 3] = fresh_resources();
    let [a, b, c] = &all;
    let holder = one.hold_together(&together(&all)).await;
    let wanted: [&[&ResourceId]; 7] = [&[a, b], &[b], &[c, b], &[a], &[b, c, a], &[c], &[a, c]];
    let before = [plan_two.counts(), plan_three.counts()];
    let mut served = Vec::new();
    let mut places = [0; 3];
    for at in 0..MIXED {
        let sidecar = if at % 3 == 0 { &two } else { &three }.clone();
        let set: Vec<ResourceId> = wanted[at % wanted.len()].iter().copied().cloned().collect();
        let waiting = match &set[..] {
            [single] => waits(&sidecar, single),
            several => waits_for_all(&sidecar, several),
        };
        for (resource, places) in all.iter().zip(&mut places) {
            *places += usize::from(set.contains(resource));
            queued(&backend, resource, *places).await;
        }
        served.push(tokio::spawn(async move {
            let grant = granted(waiting.await);
            sidecar.release(&grant.id).await;
            (set, grant.token)
        }));
    }
    one.release(&holder.id).await;
    let told: Vec<(Vec<ResourceId>, FencingToken)> = tokio::time::timeout(LONG, join_all(served))
        .await
        .expect("all are served")
        .into_iter()
        .map(|told| told.unwrap())
        .collect();
    for (at, (early, token)) in told.iter().enumerate() {
        for (late, other) in &told[at + 1..] {
            let share = late.iter().any(|one| early.contains(one));
            assert!(!share || token < other, "{late:?} overtook {early:?}");
        }
    }
    let took = [
        plan_two.counts().since(&before[0]),
        plan_three.counts().since(&before[1]),
    ];
    println!(
        "{}: {MIXED} mixed waiters took {} and {}",
        backend.name(),
        took[0],
        took[1]
    );
    // Each is entered, woken once, granted a lease, and releases: two to four requests of several resources.
    assert!(
        took.iter().map(Counts::keys).sum::<usize>() <= 8 * MIXED,
        "{took:?}"
    );
    let sets: Vec<Vec<ResourceId>> = told
        .into_iter()
        .map(|(mut set, _)| {
            set.sort();
            set
        })
        .collect();
    let mut sets: Vec<&[ResourceId]> = sets.iter().map(Vec::as_slice).collect();
    sets.push(&all);
    assert_eq!(whole_at_every_revision(&backend, &sets).await, MIXED + 1);
    assert_eq!(placed_whole_at_every_revision(&backend).await, MIXED);
    nobody_waits(&two).await;
    nobody_waits(&three).await;
}

async fn of_many_who_wait_for_several_one_is_woken_and_a_hand_off_costs_few_requests(
    backend: Backend,
) {
    const HAND_OFFS: usize = 20;
    let one = backend.sidecar().await;
    let (two, plan_two) = backend.faulty_within(PATIENT_CALL).await;
    let (three, plan_three) = backend.faulty_within(PATIENT_CALL).await;
    let both: [_; 2] = fresh_resources();
    let mut holder = one.hold_together(&together(&both)).await;
    let many = |sidecar: &Sidecar| (0..50).map(|_| waits_for_all(sidecar, &both)).collect();
    let mut all: Vec<Waiting<Reserved>> = many(&two);
    all.extend(many(&three));
    for resource in &both {
        queued_within(&backend, resource, 100, LONG).await;
    }
    let followed = |plan: &FaultPlan| plan.counts().of(Rpc::Watch) >= 4;
    let look = || async { (followed(&plan_two) && followed(&plan_three)).then_some(()) };
    until("both follow", LOOKED_WITHIN, look).await;
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
    println!(
        "{}: {HAND_OFFS} hand-offs of two resources took {} and {}",
        backend.name(),
        took[0],
        took[1]
    );
    let sum = |of: fn(&Counts) -> usize| took.iter().map(of).sum::<usize>();
    assert!(sum(Counts::all) <= 4 * HAND_OFFS, "{took:?}");
    // The woken one reads what the release has left, and commits; beside that each sidecar looks at each resource now and then.
    assert!(sum(Counts::keys) <= 2 * HAND_OFFS + 12, "{took:?}");
    for waits in &all {
        waits.abort();
    }
    for resource in &both {
        queued(&backend, resource, 0).await;
    }
    placed_whole_at_every_revision(&backend).await;
}

async fn whoever_waits_for_several_asks_only_when_the_last_of_them_is_free(backend: Backend) {
    let one = backend.sidecar().await;
    let (two, plan) = backend.faulty_within(PATIENT_CALL).await;
    let all: [ResourceId; TOGETHER_MAX] = fresh_resources();
    let held = all
        .iter()
        .map(|resource| async { one.hold(&reserve(resource)).await });
    let held = join_all(held).await;
    let waits = waits_for_all(&two, &all);
    queued(&backend, &all[0], 1).await;
    let follows = || async { (plan.counts().of(Rpc::Watch) >= 2 * TOGETHER_MAX).then_some(()) };
    until("all are followed", LOOKED_WITHIN, follows).await;
    // Whoever looks whether it is its turn reads no record.
    let asks = plan.when(Rpc::Txn).containing("r/order/").always();
    let asks = asks.then(Action::SlowRequest(Duration::ZERO));
    for grant in &held {
        assert!(!waits.is_finished());
        one.release(&grant.id).await;
    }
    served(waits, WOKEN_WITHIN).await;
    assert_eq!(asks.hits(), 2, "it reads what is left, and commits");
}

async fn several_who_leave_free_all_their_queues_at_once(backend: Backend) {
    let [one, two] = backend.sidecars().await;
    let [a, b] = fresh_resources();
    let both = [a.clone(), b.clone()];
    let holder = one.hold(&reserve(&a)).await;
    // It hangs up; whoever waited behind it for the free one gets that.
    let gone = waits_for_all(&two, &both);
    queued(&backend, &b, 1).await;
    let next = waits(&one, &b);
    queued(&backend, &b, 2).await;
    gone.abort();
    let grant = served(next, LOOKED_WITHIN).await;
    queued(&backend, &a, 0).await;
    one.release(&grant.id).await;
    // Its wait is over, its deadline is near: it is told what it waited for, with a decision.
    let short = Duration::from_millis(600);
    let patience = Duration::from_millis(1_500);
    for (wait, patience) in [(short, LONG), (LONG, patience)] {
        let waits = two.together_waiting(&together(&both), wait, patience);
        let told = waits.await.unwrap().expect("a decision").decision;
        judged(&told, Verdict::Busy, Layer::Fence, Rule::Held);
        assert!(told.explanation.contains(a.id()), "{}", told.explanation);
    }
    queued(&backend, &a, 0).await;
    queued(&backend, &b, 0).await;
    nobody_waits(&two).await;
    // Its sidecar stops.
    let stopped = waits_for_all(&two, &both);
    queued(&backend, &b, 1).await;
    let next = waits_for_all(&one, &both);
    queued(&backend, &a, 2).await;
    assert!(two.engine.stop(LONG).await);
    let told = stopped.await.unwrap().unwrap().decision;
    judged(&told, Verdict::Busy, Layer::Fence, Rule::Held);
    queued(&backend, &b, 1).await;
    one.release(&holder.id).await;
    served(next, LOOKED_WITHIN).await;
    assert_eq!(placed_whole_at_every_revision(&backend).await, 6);
}

async fn sixteen_are_waited_for_together(backend: Backend) {
    let [one, two] = backend.sidecars().await;
    let all: [ResourceId; TOGETHER_MAX] = fresh_resources();
    let holder = one.hold(&reserve(&all[7])).await;
    let first = waits_for_all(&two, &all);
    queued(&backend, &all[15], 1).await;
    let next = waits_for_all(&one, &all);
    queued(&backend, &all[15], 2).await;
    one.release(&holder.id).await;
    let grant = served(first, WOKEN_WITHIN).await;
    for resource in &all {
        assert_eq!(one.live(resource).await, Some(grant.token));
    }
    two.release(&grant.id).await;
    served(next, WOKEN_WITHIN).await;
    assert_eq!(placed_whole_at_every_revision(&backend).await, 2);
}

engines! {
    several_wait_for_all_their_holders_and_nobody_overtakes_them,
    among_those_who_want_one_and_those_who_want_several_nobody_overtakes,
    of_many_who_wait_for_several_one_is_woken_and_a_hand_off_costs_few_requests,
    whoever_waits_for_several_asks_only_when_the_last_of_them_is_free,
    several_who_leave_free_all_their_queues_at_once,
    sixteen_are_waited_for_together,
}
