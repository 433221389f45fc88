//! What is kept for a time is replayable for that time, on every sidecar and whatever their clocks say, and then it is gone.

use std::time::Duration;

use fencepost::domain::decision::{Decision, Layer, Rule, Verdict};
use fencepost::domain::ids::ResourceId;
use fencepost::domain::request::EndedRounds;
use fencepost::domain::retention::Keeping;
use fencepost::engine::clock::wall_clock_ms;
use fencepost::engine::{Clock, Engine, EngineOptions, Fault, OperationState};
use futures_util::future::join_all;
use futures_util::{StreamExt as _, stream};

use crate::support::ask::{ask, body, create, fresh_resource, reserve};
use crate::support::backend::{Backend, SHORT_CALL_TIMEOUT};
use crate::support::claim::{applied, judged, replayed};
use crate::support::engines;
use crate::support::fault::{Action, Ending, FaultPlan, Rpc};
use crate::support::sidecar::Sidecar;

const RETENTION: Duration = Duration::from_secs(3600);
const INCIDENT_RETENTION: Duration = Duration::from_secs(2 * 3600);
/// Longer than the retention with all that is added to it.
const OVER: Duration = Duration::from_secs(4400);
/// Resources of a single use.
const ONCE: usize = 3_000;
const RESERVED: usize = 500;
/// Asked at once.
const AT_ONCE: usize = 200;

fn options(clock: &Clock) -> EngineOptions {
    EngineOptions {
        keeping: Keeping {
            operations: RETENTION,
            incidents: INCIDENT_RETENTION,
            forget: None,
        },
        clock: clock.clone(),
        ..EngineOptions::default()
    }
}

/// Two sidecars with one clock, which the test moves.
async fn aged(backend: &Backend) -> ([Sidecar; 2], [FaultPlan; 2], Clock) {
    let clock = Clock::default();
    let (one, plan_one) = backend.keeping(options(&clock)).await;
    let (two, plan_two) = backend.keeping(options(&clock)).await;
    ([one, two], [plan_one, plan_two], clock)
}

/// Sweeps until there is nothing left to remove.
async fn swept(engine: &Engine) {
    for _ in 0..10 {
        let swept = engine.sweep().await.expect("a sweep is made");
        if swept.looked_through && swept.resources + swept.incidents == 0 {
            return;
        }
    }
}

/// It was recorded, for the first time as far as anybody knows.
fn recorded(decision: &Decision) {
    judged(decision, Verdict::Applied, Layer::Result, Rule::RanOnce);
}

async fn keys(backend: &Backend) -> Vec<String> {
    let all = backend.dump().await.into_iter();
    all.map(|(key, _)| key).collect()
}

async fn many_resources_of_a_single_use_leave_an_almost_empty_store(backend: Backend) {
    let (sidecars, _, clock) = aged(&backend).await;
    let resources: Vec<ResourceId> = (0..ONCE + RESERVED).map(|_| fresh_resource()).collect();
    stream::iter(resources.iter().enumerate())
        .for_each_concurrent(AT_ONCE, |(at, resource)| {
            let sidecar = &sidecars[at % 2];
            async move {
                if at >= ONCE {
                    let grant = sidecar.hold(&reserve(resource)).await;
                    sidecar.release(&grant.id).await;
                    return;
                }
                // Each hundredth result is too large for the record, and has a conflict.
                let large = at % 100 == 0;
                let result = "x".repeat(if large { 3_000 } else { 10 });
                let once = ask(resource, "remind").result(result);
                recorded(&sidecar.transition(&once).await);
                if large {
                    let other = sidecar.transition(&once.json("1")).await;
                    assert_eq!(other.verdict, Verdict::Conflict);
                }
            }
        })
        .await;
    let before = keys(&backend).await.len();
    assert!(before > ONCE + RESERVED, "{before} keys");
    // Within the retention a sweep takes nothing.
    clock.pass(RETENTION / 2);
    sidecars[0].engine.sweep().await.expect("a sweep is made");
    assert_eq!(keys(&backend).await.len(), before);
    for sidecar in [0, 1, 0] {
        clock.pass(OVER);
        swept(&sidecars[sidecar].engine).await;
    }
    let left = keys(&backend).await;
    println!(
        "| {:8} | {before} keys before, {} after |",
        backend.name(),
        left.len()
    );
    assert_eq!(left.len(), 2, "{left:?}");
    assert!(left.iter().all(|key| key.contains("/meta/")), "{left:?}");
    // And what is done then is done as ever.
    recorded(&sidecars[1].transition(&ask(&resources[0], "remind")).await);
}

async fn an_idle_store_is_looked_through_without_a_write(backend: Backend) {
    let (sidecars, plans, clock) = aged(&backend).await;
    let resource = fresh_resource();
    applied(&sidecars[0].transition(&create(&resource, "open")).await);
    for _ in 0..3 {
        clock.pass(OVER);
        swept(&sidecars[0].engine).await;
        swept(&sidecars[1].engine).await;
    }
    // What has no end is left; there is nothing to wait for.
    let before = backend.written().await;
    let asked = plans.each_ref().map(FaultPlan::counts);
    for _ in 0..3 {
        clock.pass(OVER);
        for sidecar in &sidecars {
            let swept = sidecar.engine.sweep().await.expect("a sweep is made");
            assert!(swept.looked_through);
        }
    }
    assert_eq!(backend.written().await, before);
    for (plan, asked) in plans.iter().zip(asked) {
        // Who takes it upon itself to remove something takes a lease for that.
        assert_eq!(plan.counts().since(&asked).of(Rpc::LeaseGrant), 0);
    }
    assert_eq!(sidecars[1].state(&resource).await, "open");
}

// Time that one has counted while nothing had an end is no time for what another stores then.
async fn a_sidecar_that_was_idle_for_long_removes_nothing_of_one_that_comes(backend: Backend) {
    let (idle, new) = (Clock::default(), Clock::default());
    let (one, _plan) = backend.keeping(options(&idle)).await;
    swept(&one.engine).await;
    for _ in 0..3 {
        idle.pass(OVER);
        swept(&one.engine).await;
    }
    let (two, _plan) = backend.keeping(options(&new)).await;
    let resource = fresh_resource();
    recorded(&two.transition(&ask(&resource, "remind")).await);
    for _ in 0..2 {
        one.engine.sweep().await.expect("a sweep is made");
        two.engine.sweep().await.expect("a sweep is made");
    }
    for sidecar in [&one, &two] {
        let known = sidecar.lookup(&resource, "remind").await;
        assert_eq!(known.state, OperationState::DoneEmpty);
    }
    // Each of them sees the time pass, and after it the operation is gone.
    for clock in [&idle, &new] {
        clock.pass(OVER);
    }
    swept(&two.engine).await;
    let known = one.lookup(&resource, "remind").await;
    assert_eq!(known.state, OperationState::NeverSeen);
}

async fn memory_tells_nothing_that_another_sidecar_has_removed(backend: Backend) {
    let ([one, two], _, clock) = aged(&backend).await;
    let resource = fresh_resource();
    applied(&one.transition(&create(&resource, "open")).await);
    for result in [String::from("small"), "x".repeat(3_000)] {
        let remind = ask(&resource, "remind").result(result.clone());
        recorded(&one.transition(&remind).await);
        replayed(&one.transition(&remind).await, &body(&result));
        clock.pass(OVER);
        swept(&two.engine).await;
        let known = one.lookup(&resource, "remind").await;
        assert_eq!(known.state, OperationState::NeverSeen);
        recorded(&one.transition(&remind).await);
        clock.pass(OVER);
        swept(&two.engine).await;
    }
}

async fn a_removed_operation_is_refused_by_its_age_or_by_the_state(backend: Backend) {
    let ([one, two], _, clock) = aged(&backend).await;
    let resource = fresh_resource();
    let made = wall_clock_ms();
    applied(&one.transition(&create(&resource, "open")).await);
    let pay = ask(&resource, "pay").from(&["open"]).to("paid");
    applied(&one.transition(&pay).await);
    clock.pass(OVER);
    swept(&two.engine).await;
    for sidecar in [&one, &two] {
        let late = sidecar.transition(&pay.clone().made_at(made)).await;
        judged(&late, Verdict::Expired, Layer::Key, Rule::TooOld);
        assert!(late.incident.is_some());
    }
    let late = two.transition(&pay).await;
    judged(&late, Verdict::Superseded, Layer::State, Rule::AlreadyMoved);
    assert_eq!(one.state(&resource).await, "paid");
    // A time out of the future would never be too old.
    let ahead = ask(&resource, "x").made_at(made * 1000);
    let refused = one.try_transition(&ahead).await;
    assert!(matches!(refused, Err(Fault::InvalidField { .. })));
}

async fn a_live_move_and_a_sweep_do_not_undo_each_other(backend: Backend) {
    let ([one, two], [plan, _], clock) = aged(&backend).await;
    let resource = fresh_resource();
    recorded(&one.transition(&ask(&resource, "old")).await);
    clock.pass(OVER);
    let held = plan
        .when(Rpc::Txn)
        .containing(resource.id())
        .then(Action::Hold);
    let sweeping = one.engine.clone();
    let sweep = tokio::spawn(async move { sweeping.sweep().await });
    held.met().await;
    // The sweep would remove all that it has seen; meanwhile there is more.
    recorded(&two.transition(&ask(&resource, "new").result("kept")).await);
    held.deliver().await;
    sweep.await.unwrap().expect("a sweep is made");
    replayed(&one.transition(&ask(&resource, "new")).await, &body("kept"));
    let grant = two.hold(&reserve(&resource)).await;
    clock.pass(OVER);
    swept(&one.engine).await;
    assert_eq!(two.live(&resource).await, Some(grant.token));
    assert_eq!(two.release(&grant.id).await.verdict, Verdict::Applied);
}

async fn a_sweep_whose_replies_are_lost_is_settled_and_removes_nothing_else(backend: Backend) {
    for ending in Ending::BOTH {
        for late in [false, true] {
            let clock = Clock::default();
            let impatient = backend.keeping_within(SHORT_CALL_TIMEOUT, options(&clock));
            let (one, plan) = impatient.await;
            let (two, _plan) = backend.keeping(options(&clock)).await;
            let resource = fresh_resource();
            recorded(&one.transition(&ask(&resource, "old")).await);
            clock.pass(OVER);
            let action = if late {
                Action::DeliverLate(ending)
            } else {
                Action::LoseReply(ending)
            };
            let lost = plan.when(Rpc::Txn).containing(resource.id()).then(action);
            let sweeping = one.engine.clone();
            let sweep = tokio::spawn(async move { sweeping.sweep().await });
            lost.met().await;
            sweep.await.unwrap().expect("a sweep is made");
            let gone = two.inspect(&resource).await;
            assert_eq!(gone.revision, None, "{ending:?} {late}");
            recorded(&two.transition(&ask(&resource, "old").result("anew")).await);
            if late {
                lost.deliver().await;
            }
            replayed(&one.transition(&ask(&resource, "old")).await, &body("anew"));
        }
    }
}

async fn two_sidecars_that_sweep_at_once_remove_the_same_once(backend: Backend) {
    let (sidecars, _, clock) = aged(&backend).await;
    let resources: Vec<_> = (0..100).map(|_| fresh_resource()).collect();
    let asks = resources.iter().map(|resource| {
        let one = &sidecars[0];
        async move { recorded(&one.transition(&ask(resource, "old")).await) }
    });
    join_all(asks).await;
    clock.pass(OVER);
    let sweeps = sidecars.iter().map(|sidecar| sidecar.engine.sweep());
    for swept in join_all(sweeps).await {
        swept.expect("a sweep is made");
    }
    for sidecar in &sidecars {
        clock.pass(OVER);
        swept(&sidecar.engine).await;
    }
    let left = keys(&backend).await;
    assert_eq!(left.len(), 2, "{left:?}");
}

async fn no_time_of_day_makes_anything_be_forgotten_early(backend: Backend) {
    let resource = fresh_resource();
    let clocks = [Clock::default(), Clock::default()];
    let (one, _) = backend.keeping(options(&clocks[0])).await;
    let (two, _) = backend.keeping(options(&clocks[1])).await;
    let year_ms = 365 * 24 * 3_600_000;
    for (at, off) in [year_ms, -year_ms, year_ms].into_iter().enumerate() {
        let remind = ask(&resource, &format!("remind {at}")).result("receipt");
        clocks[1].put_wall_off(off);
        recorded(&two.transition(&remind).await);
        for _ in 0..3 {
            one.engine.sweep().await.expect("a sweep is made");
            two.engine.sweep().await.expect("a sweep is made");
            clocks[0].pass(RETENTION / 4);
        }
        // A third, begun with the clock that is wrong.
        let wrong = Clock::default();
        wrong.put_wall_off(off);
        let (three, _) = backend.keeping(options(&wrong)).await;
        three.engine.sweep().await.expect("a sweep is made");
        for sidecar in [&one, &two, &three] {
            replayed(&sidecar.transition(&remind).await, &body("receipt"));
        }
    }
}

async fn a_sidecar_whose_clock_is_behind_or_jumps_removes_nothing(backend: Backend) {
    let ([one, _], _, clock) = aged(&backend).await;
    let resource = fresh_resource();
    recorded(&one.transition(&ask(&resource, "old")).await);
    let before = keys(&backend).await;
    clock.pass(OVER);
    for off in [60_000, -60_000] {
        clock.put_wall_off(off);
        let swept = one.engine.sweep().await.expect("it looks");
        assert!(!swept.looked_through, "{off}");
    }
    let now = keys(&backend).await;
    assert_eq!(now, before);
    clock.put_wall_off(-55_000);
    swept(&one.engine).await;
    assert!(keys(&backend).await.len() < before.len());
}

async fn what_passed_is_known_to_those_who_come_later_and_what_nobody_saw_is_not_counted(
    backend: Backend,
) {
    let resource = fresh_resource();
    let first = Clock::default();
    let (one, _) = backend.keeping(options(&first)).await;
    recorded(&one.transition(&ask(&resource, "old")).await);
    first.pass(RETENTION / 2);
    one.engine.sweep().await.expect("a look is taken");
    // This is lost: it ends before anybody looks.
    first.pass(RETENTION);
    drop(one);
    let second = Clock::default();
    let (two, _) = backend.keeping(options(&second)).await;
    second.pass(RETENTION / 3);
    swept(&two.engine).await;
    let known = two.lookup(&resource, "old").await;
    assert_eq!(known.state, OperationState::DoneEmpty);
    second.pass(RETENTION / 2);
    swept(&two.engine).await;
    let known = two.lookup(&resource, "old").await;
    assert_eq!(known.state, OperationState::NeverSeen);
}

async fn incidents_are_kept_for_a_time_of_their_own(backend: Backend) {
    let ([one, two], _, clock) = aged(&backend).await;
    let resource = fresh_resource();
    applied(&one.transition(&create(&resource, "open")).await);
    let stray = ask(&resource, "stray").from(&["new"]).to("lost");
    assert_eq!(one.transition(&stray).await.verdict, Verdict::Rejected);
    clock.pass(OVER);
    swept(&two.engine).await;
    assert_eq!(one.incidents(&resource).await.len(), 1);
    clock.pass(OVER);
    swept(&two.engine).await;
    assert_eq!(one.incidents(&resource).await.len(), 0);
}

async fn a_token_is_refused_also_when_its_round_is_forgotten(backend: Backend) {
    let ([one, two], _, clock) = aged(&backend).await;
    let resource = fresh_resource();
    let first = one.hold(&reserve(&resource)).await;
    one.release(&first.id).await;
    clock.pass(RETENTION);
    swept(&two.engine).await;
    let last = two.fence_with(&resource, first.token, EndedRounds::Accepted);
    assert_eq!(last.await.rule, Rule::LastGranted);
    clock.pass(OVER);
    swept(&two.engine).await;
    for sidecar in [&one, &two] {
        let shown = sidecar.fence(&resource, first.token).await;
        judged(&shown, Verdict::Fenced, Layer::Fence, Rule::NeverIssued);
    }
    let second = two.hold(&reserve(&resource)).await;
    assert!(second.token > first.token);
    let shown = one.fence(&resource, first.token).await;
    judged(&shown, Verdict::Fenced, Layer::Fence, Rule::Overtaken);
    let late = one.release(&first.id).await;
    assert_eq!(late.verdict, Verdict::Replayed);
    assert_eq!(one.live(&resource).await, Some(second.token));
}

async fn who_only_asks_writes_nothing_and_is_told_what_is_true_now(backend: Backend) {
    let ([one, two], [plan, _], _) = aged(&backend).await;
    let resource = fresh_resource();
    applied(&one.transition(&create(&resource, "open")).await);
    let pay = ask(&resource, "pay").from(&["open"]).to("paid");
    let stray = ask(&resource, "stray").from(&["new"]).to("lost");
    let before = backend.written().await;
    for sidecar in [&one, &two] {
        let told = sidecar.transition(&pay.clone().only_asking()).await;
        judged(&told, Verdict::Applied, Layer::Result, Rule::Moved);
        assert!(told.only_asked, "{told:?}");
        let told = sidecar.transition(&stray.clone().only_asking()).await;
        judged(&told, Verdict::Rejected, Layer::State, Rule::Passed);
        assert_eq!(told.incident, None);
        assert!(told.explanation.contains("nothing was written"), "{told:?}");
    }
    assert_eq!(backend.written().await, before);
    // What another sidecar has done since is seen.
    applied(&two.transition(&pay).await);
    let asked = plan.counts();
    let again = ask(&resource, "again").from(&["open"]).to("paid");
    let told = one.transition(&again.only_asking()).await;
    assert_eq!(told.verdict, Verdict::Superseded);
    assert_eq!(
        plan.counts().since(&asked).keys(),
        1,
        "one read confirms it"
    );
}

async fn deliveries_add_up_and_are_counted_without_a_write(backend: Backend) {
    let ([one, two], [plan, _], _) = aged(&backend).await;
    let resource = fresh_resource();
    let remind = ask(&resource, "remind");
    let first = one.transition(&remind).await;
    assert_eq!(first.deliveries, None);
    let before = plan.counts();
    for delivery in 2..=4 {
        let again = one.transition(&remind).await;
        assert_eq!(again.deliveries, Some(delivery));
    }
    assert_eq!(plan.counts().since(&before).keys(), 0);
    // They are written with the next write, and then others know.
    recorded(&one.transition(&ask(&resource, "other")).await);
    let again = two.transition(&remind).await;
    assert_eq!(again.deliveries, Some(5));
    let told = one.transition(&remind.clone().only_asking()).await;
    assert_eq!(told.verdict, Verdict::Replayed);
    let conflict = one.transition(&remind.json("1")).await;
    assert_eq!(conflict.verdict, Verdict::Conflict);
    let (_, rows) = one.engine.counts();
    let [row] = &rows[..] else {
        panic!("{rows:?}");
    };
    let verdicts = [
        (Verdict::Applied, 2),
        (Verdict::Replayed, 3),
        (Verdict::Conflict, 1),
    ];
    assert_eq!(row.verdicts, verdicts.into());
    assert_eq!(row.deliveries(), 6);
}

// It is allowed when it is asked and its commit is sent; by the time that the commit is settled it is too old.
async fn what_is_answered_as_never_run_does_not_land_afterwards(backend: Backend) {
    for created in [true, false] {
        let clock = Clock::default();
        let impatient = backend.keeping_within(SHORT_CALL_TIMEOUT, options(&clock));
        let (one, plan) = impatient.await;
        let two = backend.sidecar().await;
        let resource = fresh_resource();
        if created {
            applied(&one.transition(&create(&resource, "open")).await);
        }
        let skew = RETENTION / 10;
        let pay = if created {
            ask(&resource, "pay").from(&["open"]).to("paid")
        } else {
            ask(&resource, "pay").initial("open").to("paid")
        };
        let edge = (RETENTION - 2 * skew).as_millis() as u64;
        let pay = pay.made_at(wall_clock_ms() - edge);
        let late = plan
            .when(Rpc::Txn)
            .containing(resource.id())
            .then(Action::DeliverLate(Ending::Silence));
        let (engine, asked) = (one.engine.clone(), pay.build());
        let told = tokio::spawn(async move {
            let caller = crate::support::sidecar::caller();
            engine.transition(asked, caller).await
        });
        late.met().await;
        clock.pass(3 * skew);
        let told = told.await.unwrap().expect("it is judged");
        judged(&told, Verdict::Expired, Layer::Key, Rule::TooOld);
        late.deliver().await;
        let state = if created { "open" } else { "" };
        for sidecar in [&one, &two] {
            assert_eq!(sidecar.state(&resource).await, state);
            let known = sidecar.lookup(&resource, "pay").await;
            assert_eq!(known.state, OperationState::NeverSeen);
        }
        judged(
            &one.transition(&pay).await,
            Verdict::Expired,
            Layer::Key,
            Rule::TooOld,
        );
    }
}

engines! {
    what_is_answered_as_never_run_does_not_land_afterwards,
    a_sidecar_that_was_idle_for_long_removes_nothing_of_one_that_comes,
    a_live_move_and_a_sweep_do_not_undo_each_other,
    a_removed_operation_is_refused_by_its_age_or_by_the_state,
    a_sidecar_whose_clock_is_behind_or_jumps_removes_nothing,
    a_sweep_whose_replies_are_lost_is_settled_and_removes_nothing_else,
    a_token_is_refused_also_when_its_round_is_forgotten,
    an_idle_store_is_looked_through_without_a_write,
    deliveries_add_up_and_are_counted_without_a_write,
    incidents_are_kept_for_a_time_of_their_own,
    many_resources_of_a_single_use_leave_an_almost_empty_store,
    memory_tells_nothing_that_another_sidecar_has_removed,
    no_time_of_day_makes_anything_be_forgotten_early,
    two_sidecars_that_sweep_at_once_remove_the_same_once,
    what_passed_is_known_to_those_who_come_later_and_what_nobody_saw_is_not_counted,
    who_only_asks_writes_nothing_and_is_told_what_is_true_now,
}
