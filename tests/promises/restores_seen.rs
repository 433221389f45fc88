//! What counts as a sign that etcd was restored, what does not, and what a new timeline does on both engines.

use std::time::Duration;

use fencepost::domain::decision::{Layer, Rule, Verdict};
use fencepost::domain::retention::Keeping;
use fencepost::domain::timeline::Halt;
use fencepost::domain::token::{FencingToken, TOKEN_MAX};
use fencepost::engine::{Clock, EngineOptions, Fault, Health};

use crate::support::ask::{ask, create, fresh_resource, reserve, reserve_for};
use crate::support::backend::Backend;
use crate::support::claim::{applied, judged};
use crate::support::fault::{Action, Rpc};
use crate::support::rewound::Rewinding;
use crate::support::sidecar::{Sidecar, caller};
use crate::support::{engines, until};

const CALL_TIMEOUT: Duration = Duration::from_secs(5);
/// How long a sidecar may take to find out about a halt, or its end.
pub(super) const FOUND_WITHIN: Duration = Duration::from_secs(20);
/// Further back than other tests, which share this etcd, write meanwhile.
pub(super) const FAR: i64 = 2_000;
const HOUR: Duration = Duration::from_secs(3600);

pub(super) async fn rewinding(backend: &Backend) -> (Sidecar, Rewinding) {
    let (channel, rewinding) = Rewinding::wrap(backend.channel());
    let sidecar = Sidecar::open(channel, backend.prefix(), CALL_TIMEOUT).await;
    (sidecar, rewinding)
}

/// Comes so far that what is put back by `FAR` is behind, and still a revision.
pub(super) async fn come_far(backend: &Backend) {
    let raw = backend.raw().await;
    let key = format!("{}raised", backend.prefix());
    for _ in 0..FAR / 100 + 1 {
        let puts = (0..100).map(|_| {
            let (mut raw, key) = (raw.clone(), key.clone());
            async move { raw.put(key, "", None).await.unwrap() }
        });
        futures_util::future::join_all(puts).await;
    }
}

/// When the keys that say how things stand were last written.
pub(super) async fn written(backend: &Backend, key: &str) -> Option<i64> {
    let key = format!("{}meta/{key}", backend.prefix());
    let all = backend.written().await;
    all.into_iter()
        .find(|(name, _)| *name == key)
        .map(|(_, at)| at)
}

pub(super) async fn asks_until_well(sidecar: &Sidecar) {
    until("calls are answered", FOUND_WITHIN, || async {
        let seen = sidecar.engine.inspect(fresh_resource(), caller()).await;
        seen.ok()
    })
    .await;
}

async fn a_reply_that_is_behind_is_not_used_and_halts_nothing(backend: Backend) {
    let (one, rewinding) = rewinding(&backend).await;
    let resource = fresh_resource();
    applied(&one.transition(&create(&resource, "open")).await);
    let before = written(&backend, "timeline").await;
    come_far(&backend).await;
    one.inspect(&resource).await;
    // A member that is wrong about itself, again and again.
    rewinding.rewind_reads(FAR);
    let read = one.engine.inspect(fresh_resource(), caller()).await;
    assert!(
        matches!(read, Err(Fault::StoreUnavailable { .. })),
        "it was used: {read:?}"
    );
    until("a write shows where etcd is", FOUND_WITHIN, || async {
        written(&backend, "probe").await
    })
    .await;
    rewinding.stop();
    asks_until_well(&one).await;
    let mut health = one.engine.health();
    let well = health.wait_for(|health| *health == Health::Serving);
    tokio::time::timeout(FOUND_WITHIN, well)
        .await
        .unwrap()
        .unwrap();
    assert_eq!(written(&backend, "timeline").await, before);
    applied(
        &one.transition(&ask(&resource, "shut").from(&["open"]).to("shut"))
            .await,
    );
}

async fn a_write_that_is_behind_halts_all_and_a_new_timeline_goes_on_from_there(backend: Backend) {
    let (one, rewinding) = rewinding(&backend).await;
    let two = backend.sidecar().await;
    let resource = fresh_resource();
    come_far(&backend).await;
    let held = one.hold(&reserve(&resource)).await;
    rewinding.rewind(FAR);
    until("it halts", FOUND_WITHIN, || async {
        match one.engine.inspect(resource.clone(), caller()).await {
            Err(Fault::Halted { .. }) => Some(()),
            Err(Fault::StoreUnavailable { .. }) => None,
            other => panic!("{other:?}"),
        }
    })
    .await;
    // It has seen nothing of that itself. What asks etcd learns it at once.
    let told = two.try_reserve(&reserve(&fresh_resource())).await;
    let Err(Fault::Halted { halt }) = told else {
        panic!("{told:?}");
    };
    assert!(matches!(halt, Halt::WentBack { .. }), "{halt:?}");
    assert!(
        Fault::Halted { halt }
            .to_string()
            .contains("start-timeline")
    );
    rewinding.stop();
    let started = one.start_timeline("the test says so").await;
    assert_eq!(started.ended, 1);
    for sidecar in [&one, &two] {
        asks_until_well(sidecar).await;
        let fenced = sidecar.fence(&resource, held.token).await;
        judged(&fenced, Verdict::Fenced, Layer::Fence, Rule::OlderTimeline);
        let grant = sidecar.hold(&reserve(&resource)).await;
        assert!(grant.token.get() >= started.timeline.min_token);
        sidecar.release(&grant.id).await;
    }
}

async fn a_sidecar_that_is_asked_nothing_learns_of_a_halt_and_of_its_end(backend: Backend) {
    let (one, rewinding) = rewinding(&backend).await;
    let idle = backend.sidecar().await;
    let resource = fresh_resource();
    applied(&idle.transition(&create(&resource, "open")).await);
    come_far(&backend).await;
    applied(&one.transition(&create(&fresh_resource(), "open")).await);
    rewinding.rewind(FAR);
    drop(one.engine.inspect(fresh_resource(), caller()).await);
    let mut health = idle.engine.health();
    let halted = health.wait_for(|health| matches!(health, Health::Halted(_)));
    tokio::time::timeout(FOUND_WITHIN, halted)
        .await
        .unwrap()
        .unwrap();
    // Not even a fact is told from memory.
    let again = idle.try_transition(&create(&resource, "open")).await;
    assert!(matches!(again, Err(Fault::Halted { .. })), "{again:?}");
    rewinding.stop();
    one.start_timeline("the test says so").await;
    let well = health.wait_for(|health| *health == Health::Serving);
    tokio::time::timeout(FOUND_WITHIN, well)
        .await
        .unwrap()
        .unwrap();
}

async fn tokens_that_callers_make_up_halt_nothing(backend: Backend) {
    let [one, two] = backend.sidecars().await;
    let resource = fresh_resource();
    let grant = one.hold(&reserve(&resource)).await;
    let before = written(&backend, "timeline").await;
    let above = grant.token.get() + 1;
    for made_up in [above, above + 1_000_000_000_000, TOKEN_MAX] {
        let token = FencingToken::shown(i64::try_from(made_up).unwrap()).unwrap();
        for sidecar in [&one, &two] {
            let fenced = sidecar.fence(&resource, token).await;
            judged(&fenced, Verdict::Fenced, Layer::Fence, Rule::NeverIssued);
            assert!(!sidecar.engine.health().has_changed().unwrap());
        }
    }
    let live = two.fence(&resource, grant.token).await;
    judged(&live, Verdict::Granted, Layer::Fence, Rule::Live);
    assert_eq!(written(&backend, "timeline").await, before);
    assert_eq!(
        written(&backend, "probe").await,
        None,
        "it was not even suspected"
    );
}

async fn a_start_that_was_cut_short_is_made_good_by_the_next(backend: Backend) {
    let (one, plan) = backend.faulty_within(CALL_TIMEOUT).await;
    let two = backend.sidecar().await;
    let mut held = Vec::new();
    // More than a page of them.
    for _ in 0..70 {
        held.push(two.hold(&reserve_for(&fresh_resource(), 3600)).await);
    }
    let family = format!("{}h/", backend.prefix());
    let mut raw = backend.raw().await;
    let all = Some(etcd_client::GetOptions::new().with_prefix());
    let found = raw.get(family.clone(), all).await.unwrap();
    let leases: Vec<i64> = found.kvs().iter().map(|kv| kv.lease()).collect();
    assert_eq!(leases.len(), held.len());
    // The reservations stay, whatever is tried.
    let cut = plan
        .when(Rpc::Txn)
        .containing(&family)
        .always()
        .then(Action::Cut);
    let short = one.try_start_timeline("cut short").await;
    assert!(
        matches!(short, Err(Fault::UnknownOutcome { .. })),
        "{short:?}"
    );
    for sidecar in [&one, &two] {
        let told = sidecar.try_reserve(&reserve(&fresh_resource())).await;
        assert!(
            matches!(
                told,
                Err(Fault::Halted {
                    halt: Halt::Starting { .. }
                })
            ),
            "{told:?}"
        );
    }
    cut.lift();
    let started = two.start_timeline("made good").await;
    assert_eq!(started.ended, held.len());
    let left = backend.dump().await;
    assert!(!left.iter().any(|(key, _)| key.starts_with(&family)));
    for lease in leases {
        let left = raw.lease_time_to_live(lease, None).await.unwrap();
        assert!(left.ttl() <= 0, "lease {lease} is left");
    }
    asks_until_well(&one).await;
    for grant in [held.first().unwrap(), held.last().unwrap()] {
        let renewed = one.renew(&grant.id).await.decision;
        judged(&renewed, Verdict::Fenced, Layer::Fence, Rule::Lost);
    }
    let now = one.engine.timeline_now(caller()).await.unwrap();
    let reasons: Vec<_> = now
        .starts
        .iter()
        .map(|start| start.reason.to_string())
        .collect();
    assert_eq!(reasons, ["made good", "cut short"]);
}

async fn a_lease_on_which_somebody_elses_key_hangs_is_left_alone(backend: Backend) {
    let one = backend.sidecar().await;
    let resource = fresh_resource();
    one.hold(&reserve_for(&resource, 3600)).await;
    let mut raw = backend.raw().await;
    let key = format!("{}h/order/{}", backend.prefix(), resource.id());
    let found = raw.get(key, None).await.unwrap();
    let lease = found.kvs()[0].lease();
    let foreign = format!("{}-foreign", backend.prefix().trim_end_matches('/'));
    let options = etcd_client::PutOptions::new().with_lease(lease);
    raw.put(foreign.clone(), "x", Some(options)).await.unwrap();
    assert_eq!(one.start_timeline("the test says so").await.ended, 1);
    let found = raw.get(foreign.clone(), None).await.unwrap();
    assert_eq!(found.kvs().len(), 1);
    raw.delete(foreign, None).await.unwrap();
    let left = raw.lease_time_to_live(lease, None).await.unwrap();
    assert!(left.ttl() > 0, "its lease was ended");
}

async fn a_store_that_was_emptied_goes_on_with_a_new_timeline(backend: Backend) {
    let [one, two] = backend.sidecars().await;
    let resource = fresh_resource();
    let held = one.hold(&reserve(&resource)).await;
    let mut raw = backend.raw().await;
    let all = Some(etcd_client::DeleteOptions::new().with_prefix());
    raw.delete(backend.prefix(), all).await.unwrap();
    let told = one.engine.inspect(resource.clone(), caller()).await;
    assert_eq!(told, Err(Fault::CorruptRecord));
    two.start_timeline("it was emptied").await;
    for sidecar in [&one, &two] {
        asks_until_well(sidecar).await;
    }
    let grant = one.hold(&reserve(&resource)).await;
    assert!(grant.token > held.token);
}

/// The store's clock went back with the store. A sidecar that ran on would be ahead by what the backup was old, and remove what
/// others store as if it were that old.
async fn a_sidecar_that_ran_through_a_restore_removes_nothing_too_early(backend: Backend) {
    let clock = Clock::default();
    let keeping = Keeping {
        operations: HOUR,
        ..Keeping::default()
    };
    let options = |clock: &Clock| EngineOptions {
        keeping,
        clock: clock.clone(),
        ..EngineOptions::default()
    };
    let (ran_on, _) = backend.keeping(options(&clock)).await;
    let key = format!("{}meta/clock", backend.prefix());
    let mut raw = backend.raw().await;
    let backup = raw.get(key.clone(), None).await.unwrap();
    let backup = backup.kvs()[0].value().to_vec();
    // What is stored has an end, so the clock counts.
    applied(&ran_on.transition(&create(&fresh_resource(), "open")).await);
    clock.pass(5 * HOUR);
    ran_on.engine.sweep().await.unwrap();
    raw.put(key, backup, None).await.unwrap();
    let (came, _) = backend.keeping(options(&Clock::default())).await;
    came.start_timeline("the test says so").await;
    asks_until_well(&ran_on).await;
    let run = ask(&fresh_resource(), "once");
    let first = came.transition(&run).await;
    assert_eq!(first.verdict, Verdict::Applied);
    clock.pass(HOUR / 4);
    ran_on.engine.sweep().await.unwrap();
    let again = came.transition(&run).await;
    assert_eq!(again.verdict, Verdict::Replayed);
    let known = Sidecar::open(backend.channel(), backend.prefix(), CALL_TIMEOUT).await;
    let known = known.lookup(&run.build().resource, "once").await;
    assert!(known.decision.is_some(), "it was removed: {known:?}");
}

engines! {
    a_reply_that_is_behind_is_not_used_and_halts_nothing,
    a_write_that_is_behind_halts_all_and_a_new_timeline_goes_on_from_there,
    a_sidecar_that_is_asked_nothing_learns_of_a_halt_and_of_its_end,
    tokens_that_callers_make_up_halt_nothing,
    a_start_that_was_cut_short_is_made_good_by_the_next,
    a_lease_on_which_somebody_elses_key_hangs_is_left_alone,
    a_store_that_was_emptied_goes_on_with_a_new_timeline,
    a_sidecar_that_ran_through_a_restore_removes_nothing_too_early,
}
