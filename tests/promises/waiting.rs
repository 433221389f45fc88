//! Waiting for an operation that is in progress: whoever waits is told as soon as it is settled, whatever number they are.

use std::time::Duration;

use fencepost::domain::decision::{Rule, Verdict};
use fencepost::domain::ids::{Holder, ResourceId};
use fencepost::domain::request::Reserve;
use fencepost::engine::{Boottime, OperationState, WAITERS_MAX, Waiters};
use futures_util::future::join_all;
use serde_json::json;
use uuid::Uuid;

use super::fence::SHORTEST_SECONDS;
use crate::support::ask::{Ask, ask, body, create, fresh_resource};
use crate::support::backend::Backend;
use crate::support::claim::{applied, replayed};
use crate::support::door::{House, order};
use crate::support::fault::{Action, Rpc};
use crate::support::sidecar::{Sidecar, Waiting, caller, caller_for};
use crate::support::{engines, until};

/// Longer than any of these tests takes.
const LONG: Duration = Duration::from_secs(60);
/// A change wakes within this; without one the operation is looked at no sooner than after 4 s.
const WOKEN_WITHIN: Duration = Duration::from_secs(2);
/// Two looks without a change come within this.
const LOOKED_WITHIN: Duration = Duration::from_secs(10);
/// Callers at once.
const MANY: usize = 1_000;

async fn pending(sidecar: &Sidecar) -> ResourceId {
    let resource = fresh_resource();
    applied(&sidecar.transition(&create(&resource, "pending")).await);
    resource
}

fn pay(resource: &ResourceId) -> Ask {
    ask(resource, "pay").from(&["pending"]).to("paid")
}

/// Waits until so many wait, with one operation followed for all of them.
async fn waiting(sidecar: &Sidecar, calls: usize) {
    let wanted = Waiters { calls, followed: 1 };
    let what = format!("{wanted:?}");
    let look = || async { (sidecar.engine.waiters() == wanted).then_some(()) };
    until(&what, LOOKED_WITHIN, look).await;
}

async fn nobody_waits(sidecar: &Sidecar) {
    let none = Waiters {
        calls: 0,
        followed: 0,
    };
    let look = || async { (sidecar.engine.waiters() == none).then_some(()) };
    until("nobody waits and nothing is followed", WOKEN_WITHIN, look).await;
}

async fn told<T>(waiting: Waiting<T>, within: Duration) -> T {
    let answer = tokio::time::timeout(within, waiting).await;
    let answer = answer.expect("it is woken in time").unwrap();
    answer.expect("it is judged")
}

async fn whoever_waits_gets_the_first_bytes_when_another_sidecar_completes(backend: Backend) {
    let [one, two] = backend.sidecars().await;
    let resource = pending(&one).await;
    let grant = one.hold(&pay(&resource).claim()).await;
    let transition = two.transition_waiting(&pay(&resource), LONG);
    let reserve = two.reserve_waiting(&pay(&resource).claim(), LONG);
    let lookup = two.lookup_waiting(&resource, "pay", LONG);
    waiting(&two, 3).await;
    // A change of the resource that settles nothing wakes nobody.
    applied(
        &one.transition(&ask(&resource, "n").stay().under(&grant.id))
            .await,
    );
    assert_eq!(
        one.lookup(&resource, "pay").await.state,
        OperationState::Running
    );
    tokio::time::sleep(Duration::from_millis(100)).await;
    waiting(&two, 3).await;
    applied(&one.complete(&grant.id, "receipt").await);
    replayed(&told(transition, WOKEN_WITHIN).await, &body("receipt"));
    let reserved = told(reserve, WOKEN_WITHIN).await;
    replayed(&reserved.decision, &body("receipt"));
    let known = told(lookup, WOKEN_WITHIN).await;
    assert_eq!(known.state, OperationState::Done);
    nobody_waits(&two).await;
    // What is settled already, and what was never seen, is not waited for.
    let again = two.transition_waiting(&pay(&resource), LONG);
    replayed(&told(again, WOKEN_WITHIN).await, &body("receipt"));
    let unseen = told(two.lookup_waiting(&resource, "x", LONG), WOKEN_WITHIN).await;
    assert_eq!(unseen.state, OperationState::NeverSeen);
}

async fn the_end_of_a_claim_wakes_and_a_person_or_the_next_attempt_follows(backend: Backend) {
    let [one, two] = backend.sidecars().await;
    // It dies without a word: only the key on its lease shows it.
    let dies = pending(&one).await;
    one.hold(&pay(&dies).claim_for(SHORTEST_SECONDS)).await;
    let waits = two.transition_waiting(&pay(&dies), LONG);
    waiting(&two, 1).await;
    let found = told(waits, LONG).await;
    assert_eq!(
        (found.verdict, found.rule),
        (Verdict::Interrupted, Rule::ClaimDied)
    );
    assert!(found.incident.is_some());

    let reruns = pending(&one).await;
    let pay = pay(&reruns).reruns();
    let first = one.hold(&pay.claim()).await;
    let began = Boottime::now();
    let others = [
        two.reserve_waiting(&pay.claim(), LONG),
        two.reserve_waiting(&pay.claim(), LONG),
    ];
    waiting(&two, 2).await;
    tokio::time::sleep(Duration::from_millis(300)).await;
    one.release(&first.id).await;
    let [mut a, mut b] = others;
    let (granted, waits) = tokio::select! {
        granted = &mut a => (granted, b),
        granted = &mut b => (granted, a),
    };
    let granted = granted.unwrap().unwrap();
    assert_eq!(granted.decision.verdict, Verdict::Granted);
    let grant = granted.grant.unwrap();
    assert_eq!(grant.attempt, 2);
    // The caller counts from before it sent the call.
    assert!(grant.safe_for > grant.ttl.as_duration(), "{grant:?}");
    assert!(grant.safe_for <= grant.ttl.as_duration() + Boottime::now().since(began));
    waiting(&two, 1).await;
    applied(&one.complete(&grant.id, "second").await);
    replayed(&told(waits, WOKEN_WITHIN).await.decision, &body("second"));
}

async fn a_wait_that_is_over_first_answers_in_progress_in_time(backend: Backend) {
    let [one, two] = backend.sidecars().await;
    let resource = pending(&one).await;
    one.hold(&pay(&resource).claim()).await;
    let in_progress = |began: Boottime, wait: Duration, decision: Verdict| {
        assert_eq!(decision, Verdict::InProgress);
        assert!(
            Boottime::now().since(began) >= wait,
            "{:?}",
            Boottime::now().since(began)
        );
        assert!(
            Boottime::now().since(began) < wait + WOKEN_WITHIN,
            "{:?}",
            Boottime::now().since(began)
        );
    };
    let (wait, began) = (Duration::from_millis(300), Boottime::now());
    let answer = told(two.transition_waiting(&pay(&resource), wait), LONG).await;
    in_progress(began, wait, answer.verdict);
    // The deadline comes before the wait is over; the answer comes before the deadline.
    let (patience, began) = (Duration::from_millis(1_500), Boottime::now());
    let answer = two
        .engine
        .reserve_or_wait(pay(&resource).claim(), LONG, caller_for(patience));
    let answer = answer
        .await
        .expect("a decision before the deadline")
        .decision;
    in_progress(began, Duration::from_millis(900), answer.verdict);
    assert!(
        Boottime::now().since(began) < patience,
        "{:?}",
        Boottime::now().since(began)
    );
    // Too short a deadline for any wait.
    let short = caller_for(Duration::from_millis(400));
    let answer = two
        .engine
        .transition_or_wait(pay(&resource).build(), LONG, short);
    assert_eq!(answer.await.unwrap().verdict, Verdict::InProgress);
    nobody_waits(&two).await;
}

async fn a_thousand_who_wait_cost_one_watch_and_few_requests(backend: Backend) {
    let one = backend.sidecar().await;
    let (two, plan) = backend.faulty_within(Duration::from_secs(5)).await;
    let resource = pending(&one).await;
    let grant = one.hold(&pay(&resource).claim()).await;
    let before = plan.counts();
    let half = MANY / 2;
    let transitions: Vec<_> = (0..half)
        .map(|_| two.transition_waiting(&pay(&resource), LONG))
        .collect();
    let reserves: Vec<_> = (0..half)
        .map(|_| two.reserve_waiting(&pay(&resource).claim(), LONG))
        .collect();
    waiting(&two, MANY).await;
    until("the watch stands", WOKEN_WITHIN, || async {
        (plan.counts().since(&before).of(Rpc::Watch) >= 2).then_some(())
    })
    .await;
    let asked = plan.counts().since(&before);
    // One read answers up to 24, as they arrive; the resource is followed by its two keys, which are read first.
    assert_eq!(asked.of(Rpc::Watch), 2, "{asked}");
    assert_eq!(asked.of(Rpc::LeaseGrant), 0, "{asked}");
    assert!(asked.keys() <= MANY / 4, "{asked}");
    let woken = plan.counts();
    applied(&one.complete(&grant.id, "receipt").await);
    for answer in join_all(transitions).await {
        replayed(&answer.unwrap().unwrap(), &body("receipt"));
    }
    for answer in join_all(reserves).await {
        let decision = answer.unwrap().unwrap().decision;
        assert_eq!(decision.result, Some(body("receipt")));
    }
    let took = plan.counts().since(&woken);
    assert!(took.all() <= 6, "{took}");
    println!(
        "{}: {MANY} began to wait with {asked}, and were told with {took}",
        backend.name()
    );
    // Each is one delivery, whatever it was told on the way.
    let (_, counts) = two.engine.counts();
    let deliveries: u64 = counts.iter().map(|row| row.deliveries()).sum();
    assert_eq!(deliveries, MANY as u64);
    let known = two.lookup(&resource, "pay").await.decision.unwrap();
    assert_eq!(known.deliveries, Some(MANY as u32 + 1));
    nobody_waits(&two).await;
}

async fn whoever_hangs_up_leaves_nothing_behind(backend: Backend) {
    let [one, two] = backend.sidecars().await;
    let resource = pending(&one).await;
    let grant = one.hold(&pay(&resource).claim()).await;
    let once = two.transition_waiting(&pay(&resource), Duration::from_millis(50));
    told(once, LONG).await;
    nobody_waits(&two).await;
    let tasks = || {
        tokio::runtime::Handle::current()
            .metrics()
            .num_alive_tasks()
    };
    let before = tasks();
    let all: Vec<_> = (0..MANY)
        .map(|_| two.transition_waiting(&pay(&resource), LONG))
        .collect();
    waiting(&two, MANY).await;
    for one in &all {
        one.abort();
    }
    nobody_waits(&two).await;
    let look = || async { (tasks() <= before).then_some(()) };
    until("the tasks are as many as before", WOKEN_WITHIN, look).await;
    // And whoever comes later waits as ever.
    let waits = two.transition_waiting(&pay(&resource), LONG);
    waiting(&two, 1).await;
    applied(&one.complete(&grant.id, "receipt").await);
    replayed(&told(waits, WOKEN_WITHIN).await, &body("receipt"));
}

async fn without_a_watch_a_wait_ends_a_little_later(backend: Backend) {
    let one = backend.sidecar().await;
    let (two, plan) = backend.faulty_within(Duration::from_secs(5)).await;
    let resource = pending(&one).await;
    let grant = one.hold(&pay(&resource).claim()).await;
    let cut = plan.when(Rpc::Watch).always().then(Action::Cut);
    let waits = two.transition_waiting(&pay(&resource), LONG);
    waiting(&two, 1).await;
    applied(&one.complete(&grant.id, "receipt").await);
    replayed(&told(waits, LOOKED_WITHIN).await, &body("receipt"));
    cut.lift();
}

// What the follower hears wakes; the question that follows is the caller's own, and only its commit names who sends it.
async fn an_etcd_that_fails_on_a_wake_ends_no_wait(backend: Backend) {
    let one = backend.sidecar().await;
    let (two, plan) = backend.faulty_within(Duration::from_secs(5)).await;
    let claim_by = |resource: &ResourceId, name: &str| Reserve {
        holder: Some(Holder::parse(name).unwrap()),
        ..pay(resource).reruns().claim()
    };
    // It passes: the next attempt is granted all the same.
    let resource = pending(&one).await;
    let first = one.hold(&pay(&resource).reruns().claim()).await;
    let waits = two.reserve_waiting(&claim_by(&resource, "unlucky"), LONG);
    waiting(&two, 1).await;
    let cut = plan.when(Rpc::Txn).containing("unlucky").times(6);
    let cut = cut.then(Action::Cut);
    one.release(&first.id).await;
    let granted = told(waits, LOOKED_WITHIN).await;
    assert_eq!(granted.decision.verdict, Verdict::Granted);
    assert_eq!(cut.hits(), 6);
    // It does not pass: at the end of the wait the last answer is told, and it is asked at a pace until then.
    let resource = pending(&one).await;
    let first = one.hold(&pay(&resource).reruns().claim()).await;
    let (wait, began) = (Duration::from_secs(2), Boottime::now());
    let waits = two.reserve_waiting(&claim_by(&resource, "outcast"), wait);
    waiting(&two, 1).await;
    let cut = plan.when(Rpc::Txn).containing("outcast").always();
    let cut = cut.then(Action::Cut);
    one.release(&first.id).await;
    let over = told(waits, LONG).await;
    assert_eq!(over.decision.verdict, Verdict::InProgress);
    assert!(Boottime::now().since(began) >= wait);
    assert!((2..=40).contains(&cut.hits()), "{}", cut.hits());
    nobody_waits(&two).await;
}

async fn there_are_never_more_who_wait_than_the_limit(backend: Backend) {
    let [one, two] = backend.sidecars().await;
    let resource = pending(&one).await;
    let grant = one.hold(&pay(&resource).claim()).await;
    let most = usize::try_from(WAITERS_MAX).unwrap();
    let all: Vec<_> = (0..most)
        .map(|_| two.lookup_waiting(&resource, "pay", LONG))
        .collect();
    waiting(&two, most).await;
    let full = two.engine.places();
    assert_eq!((full.taken, full.most, full.missed), (most, most, 0));
    let began = Boottime::now();
    let over = told(two.transition_waiting(&pay(&resource), LONG), WOKEN_WITHIN).await;
    assert_eq!(
        over.verdict,
        Verdict::InProgress,
        "{:?}",
        Boottime::now().since(began)
    );
    assert_eq!(two.engine.places().missed, 1);
    applied(&one.complete(&grant.id, "receipt").await);
    for known in join_all(all).await {
        assert_eq!(known.unwrap().unwrap().state, OperationState::Done);
    }
    assert_eq!(two.engine.places().taken, 0);
}

async fn a_sidecar_that_stops_answers_what_it_knows(backend: Backend) {
    let [one, two] = backend.sidecars().await;
    let resource = pending(&one).await;
    one.hold(&pay(&resource).claim()).await;
    let waits = two.transition_waiting(&pay(&resource), LONG);
    waiting(&two, 1).await;
    let began = Boottime::now();
    assert!(two.engine.stop(LONG).await);
    let answer = told(waits, WOKEN_WITHIN).await;
    assert_eq!(answer.verdict, Verdict::InProgress);
    assert!(
        Boottime::now().since(began) < WOKEN_WITHIN,
        "{:?}",
        Boottime::now().since(began)
    );
    let late = two
        .engine
        .transition_or_wait(pay(&resource).build(), LONG, caller());
    assert!(late.await.is_err());
}

async fn a_wait_is_asked_for_at_every_door_and_refused_beyond_its_limit(backend: Backend) {
    let house = House::on(&backend.url().await, backend.prefix()).await;
    let intent = json!({"operationId": "pay", "json": "e30=", "move": {"initialState": "new", "toState": "paid"}});
    let attempt = || Uuid::new_v4().to_string();
    for (at, door) in house.doors.iter().enumerate() {
        let resource = order(&format!("waits {at}"));
        let claim = json!({"resource": resource, "requestId": attempt(), "intent": intent});
        let claimed = house.door(at + 1).ask("Reserve", &claim).await;
        let round = claimed["reservation"]["reservationId"].clone();
        let with = |wait: &str| {
            [
                (
                    "Transition",
                    json!({"resource": resource, "intent": intent, "wait": wait}),
                ),
                (
                    "Reserve",
                    json!({"resource": resource, "requestId": attempt(), "intent": intent, "wait": wait}),
                ),
                (
                    "Lookup",
                    json!({"resource": resource, "operationId": "pay", "wait": wait}),
                ),
            ]
        };
        for wrong in ["-1s", "600.001s"] {
            for (method, ask) in with(wrong) {
                let refusal = door.refused(method, &ask).await;
                assert_eq!(
                    (&*refusal.code, &*refusal.field),
                    ("invalid_argument", "wait")
                );
            }
        }
        let bare = json!({"resource": resource, "requestId": attempt(), "wait": "0.2s"});
        let told = &door.ask("Reserve", &bare).await["decision"];
        assert_eq!(
            (&told["verdict"], &told["rule"]),
            (&json!("VERDICT_BUSY"), &json!("HELD"))
        );
        for (method, ask) in with("0.2s") {
            let told = &door.ask(method, &ask).await["decision"]["verdict"];
            assert_eq!(told, "VERDICT_IN_PROGRESS", "{method}");
        }
        let asks = with("60s");
        let answers = join_all(asks.iter().map(|(method, ask)| door.ask(method, ask)));
        let complete = async {
            // Whether they wait already or come later, the answer is the same; most wait by then.
            tokio::time::sleep(Duration::from_millis(200)).await;
            let done = json!({"resource": resource, "reservationId": round, "result": {"body": "cmVjZWlwdA=="}});
            house.door(at + 2).ask("Transition", &done).await
        };
        let (answers, _) = tokio::join!(answers, complete);
        for answer in answers {
            let decision = &answer["decision"];
            assert_eq!(decision["verdict"], "VERDICT_REPLAYED", "{answer}");
            assert_eq!(decision["result"]["body"], "cmVjZWlwdA==", "{answer}");
        }
    }
}

engines! {
    whoever_waits_gets_the_first_bytes_when_another_sidecar_completes,
    the_end_of_a_claim_wakes_and_a_person_or_the_next_attempt_follows,
    a_wait_that_is_over_first_answers_in_progress_in_time,
    a_thousand_who_wait_cost_one_watch_and_few_requests,
    whoever_hangs_up_leaves_nothing_behind,
    without_a_watch_a_wait_ends_a_little_later,
    an_etcd_that_fails_on_a_wake_ends_no_wait,
    there_are_never_more_who_wait_than_the_limit,
    a_sidecar_that_stops_answers_what_it_knows,
    a_wait_is_asked_for_at_every_door_and_refused_beyond_its_limit,
}
