//! What the sweeper and the counting of incidents do when etcd fails on them, or somebody else is in the way.

use std::time::Duration;

use fencepost::domain::decision::Verdict;
use fencepost::domain::ids::ResourceId;
use fencepost::domain::retention::Keeping;
use fencepost::engine::{Clock, EngineOptions, OperationState};
use futures_util::{StreamExt as _, stream};

use crate::support::ask::{Ask, ask, create, fresh_resource};
use crate::support::backend::Backend;
use crate::support::claim::applied;
use crate::support::engines;
use crate::support::fault::{Action, FaultPlan, Rpc};
use crate::support::sidecar::Sidecar;

const RETENTION: Duration = Duration::from_secs(3600);
/// Longer than the retention with all that is added to it.
const OVER: Duration = Duration::from_secs(4400);
/// The sweeper looks whether its right to sweep still holds after so many records, of 128 in a page.
const RECORDS_BETWEEN_LOOKS: usize = 8 * 128;
/// Asked at once.
const AT_ONCE: usize = 200;
/// Longer than any of these tests takes.
const LONG: Duration = Duration::from_secs(60);

/// A sidecar with a clock of its own, which the test moves.
async fn aged(backend: &Backend) -> (Sidecar, FaultPlan, Clock) {
    let clock = Clock::default();
    let options = EngineOptions {
        keeping: Keeping {
            operations: RETENTION,
            incidents: RETENTION * 2,
            forget: None,
        },
        clock: clock.clone(),
        ..EngineOptions::default()
    };
    let (sidecar, plan) = backend.keeping(options).await;
    (sidecar, plan, clock)
}

fn remind(resource: &ResourceId) -> Ask {
    ask(resource, "remind")
}

async fn once(sidecar: &Sidecar, resource: &ResourceId) {
    let done = sidecar.transition(&remind(resource)).await;
    assert_eq!(done.verdict, Verdict::Applied);
}

/// When a key below the prefix was last written.
async fn written(backend: &Backend, key: &str) -> Option<i64> {
    let key = format!("{}{key}", backend.prefix());
    let all = backend.written().await;
    let found = all.into_iter().find(|(name, _)| *name == key);
    found.map(|(_, revision)| revision)
}

async fn what_is_kept_is_waited_for_also_after_a_look_that_failed(backend: Backend) {
    let (one, plan, clock) = aged(&backend).await;
    // It has seen that nothing has an end.
    let seen = one.engine.sweep().await.expect("it looks");
    assert!(seen.looked_through);
    let resource = fresh_resource();
    once(&one, &resource).await;
    clock.pass(OVER);
    let records = format!("{}r/", backend.prefix());
    let cut = plan.when(Rpc::Range).containing(records).always();
    let cut = cut.then(Action::Cut);
    assert!(one.engine.sweep().await.is_err());
    cut.lift();
    // Its time of day is wrong, so that it only looks at the clock; what it has stored is still known to have an end, and time
    // goes on for that.
    clock.put_wall_off(60_000);
    let before = written(&backend, "meta/clock").await;
    let looked = one.engine.sweep().await.expect("it looks");
    assert!(!looked.looked_through);
    assert!(written(&backend, "meta/clock").await > before);
    // Who comes now knows that the time has passed.
    let (two, _plan, _clock) = aged(&backend).await;
    two.engine.sweep().await.expect("it looks");
    let known = two.lookup(&resource, "remind").await;
    assert_eq!(known.state, OperationState::NeverSeen);
}

async fn a_sweep_that_fails_leaves_the_next_one_free_to_begin(backend: Backend) {
    let (one, plan, clock) = aged(&backend).await;
    let (two, _plan, other_clock) = aged(&backend).await;
    let resource = fresh_resource();
    let fails = [
        (Rpc::Range, format!("{}i/", backend.prefix())),
        (Rpc::Txn, format!("{}meta/sweep", backend.prefix())),
    ];
    for (turn, (rpc, of)) in fails.into_iter().enumerate() {
        once(&one, &resource).await;
        clock.pass(OVER);
        other_clock.pass(OVER);
        // A look reads the right to sweep first, in the second case; taking it is a write that is sent once.
        let cut = match rpc {
            Rpc::Txn => {
                let lease = plan.counts().of(Rpc::LeaseGrant);
                let held = plan.when(Rpc::LeaseGrant).then(Action::Hold);
                let engine = one.engine.clone();
                let sweep = tokio::spawn(async move { engine.sweep().await });
                held.met().await;
                let lost = plan.when(rpc).containing(of).then(Action::Lose);
                held.deliver().await;
                assert!(sweep.await.unwrap().is_err());
                assert_eq!(plan.counts().of(Rpc::LeaseGrant), lease + 1);
                lost
            }
            _ => {
                let cut = plan.when(rpc).containing(of).always();
                let cut = cut.then(Action::Cut);
                assert!(one.engine.sweep().await.is_err());
                cut
            }
        };
        assert!(cut.hits() > 0);
        cut.lift();
        assert_eq!(written(&backend, "meta/sweep").await, None, "{turn}");
        assert_eq!(plan.counts().of(Rpc::LeaseRevoke), turn + 1);
        let swept = two.engine.sweep().await.expect("it sweeps");
        assert!(swept.looked_through, "{turn}");
    }
}

async fn a_stop_gives_up_the_right_to_sweep(backend: Backend) {
    let (one, plan, clock) = aged(&backend).await;
    let (two, _plan, other_clock) = aged(&backend).await;
    once(&one, &fresh_resource()).await;
    clock.pass(OVER);
    other_clock.pass(OVER);
    let incidents = format!("{}i/", backend.prefix());
    let read = plan.when(Rpc::Range).containing(incidents);
    let read = read.then(Action::Hold);
    let engine = one.engine.clone();
    let sweep = tokio::spawn(async move { engine.sweep().await });
    read.met().await;
    assert!(written(&backend, "meta/sweep").await.is_some());
    // As the sidecar's own sweep is when it stops.
    sweep.abort();
    assert!(sweep.await.unwrap_err().is_cancelled());
    assert!(one.engine.stop(LONG).await);
    assert_eq!(written(&backend, "meta/sweep").await, None);
    let made = plan.counts();
    assert_eq!(made.of(Rpc::LeaseGrant), made.of(Rpc::LeaseRevoke));
    let swept = two.engine.sweep().await.expect("it sweeps");
    assert!(swept.looked_through, "{swept:?}");
}

async fn a_sweeper_that_lost_its_right_on_the_way_goes_no_further(backend: Backend) {
    let (one, plan, clock) = aged(&backend).await;
    let resources: Vec<_> = (0..RECORDS_BETWEEN_LOOKS + 100)
        .map(|_| fresh_resource())
        .collect();
    stream::iter(&resources)
        .for_each_concurrent(AT_ONCE, |resource| async {
            applied(&one.transition(&create(resource, "open")).await);
        })
        .await;
    clock.pass(OVER);
    let incidents = format!("{}i/", backend.prefix());
    let read = plan
        .when(Rpc::Range)
        .containing(&incidents)
        .then(Action::Hold);
    let kept = plan.when(Rpc::LeaseKeepAlive).then(Action::Hold);
    let engine = one.engine.clone();
    let sweep = tokio::spawn(async move { engine.sweep().await });
    kept.met().await;
    let mut raw = backend.raw().await;
    let of = format!("{}meta/sweep", backend.prefix());
    let found = raw.get(of, None).await.unwrap();
    raw.lease_revoke(found.kvs()[0].lease()).await.unwrap();
    kept.deliver().await;
    let swept = sweep.await.unwrap().expect("it is no error");
    assert!(!swept.looked_through, "{swept:?}");
    assert_eq!(swept.resources, RECORDS_BETWEEN_LOOKS);
    assert_eq!(read.hits(), 0);
    read.lift();
    let rest = one.engine.sweep().await.expect("it sweeps");
    assert!(rest.looked_through);
    assert_eq!(rest.resources, 100);
}

async fn what_was_counted_is_written_at_a_stop_also_when_a_write_is_under_way(backend: Backend) {
    let (one, plan, _clock) = aged(&backend).await;
    let two = backend.sidecar().await;
    let resources = [fresh_resource(), fresh_resource()];
    for resource in &resources {
        once(&one, resource).await;
        let other = remind(resource).json("1");
        let first = one.transition(&other).await;
        assert_eq!(first.verdict, Verdict::Conflict);
    }
    // The count is written beside what the incident says; that is read before, which must not be what is held.
    let write = plan.when(Rpc::Txn).containing("with other content");
    let write = write.then(Action::Hold);
    for resource in &resources {
        one.transition(&remind(resource).json("1")).await;
    }
    write.met().await;
    assert!(one.engine.stop(LONG).await);
    // What was sent arrives.
    write.deliver().await;
    for resource in &resources {
        let found = two.incidents(resource).await;
        assert_eq!(found[0].again, 1, "{found:?}");
    }
}

engines! {
    a_stop_gives_up_the_right_to_sweep,
    a_sweep_that_fails_leaves_the_next_one_free_to_begin,
    a_sweeper_that_lost_its_right_on_the_way_goes_no_further,
    what_is_kept_is_waited_for_also_after_a_look_that_failed,
    what_was_counted_is_written_at_a_stop_also_when_a_write_is_under_way,
}
