//! Finished operations move out of the record and are found there for ever.

use std::time::Duration;

use fencepost::domain::decision::{Layer, Rule, Verdict};
use fencepost::engine::{Fault, OperationState};
use futures_util::future::join_all;

use crate::support::ask::{Ask, ask, body, create, fresh_resource, reserve};
use crate::support::backend::Backend;
use crate::support::claim::{applied, judged, replayed};
use crate::support::engines;
use crate::support::fault::{Action, Rpc};
use crate::support::sidecar::Sidecar;

/// Far more than a record keeps inline.
const MANY: usize = 300;
/// Asked at once.
const AT_ONCE: usize = 50;
/// A record that is read and written with every move has to stay small.
const RECORD_BYTES_MAX: usize = 16 * 1024;
/// Operations with large results.
const LARGE: usize = 12;
const LARGE_BYTES: usize = 60_000;
/// A sidecar that waits for a held request must not give up meanwhile.
const PATIENT_CALL: Duration = Duration::from_secs(15);

fn step(resource: &fencepost::domain::ids::ResourceId, at: usize) -> Ask {
    ask(resource, &format!("step {at}")).result(format!("result of {at} {}", "x".repeat(at % 200)))
}

/// Pushes everything older out of the record.
async fn push_out(sidecar: &Sidecar, resource: &fencepost::domain::ids::ResourceId) {
    let fill = (0..AT_ONCE).map(|at| {
        let fill = ask(resource, &format!("fill {at}")).result("x".repeat(900));
        async move { sidecar.transition(&fill).await.verdict }
    });
    assert!(
        join_all(fill)
            .await
            .iter()
            .all(|verdict| *verdict == Verdict::Applied)
    );
}

// A value that somebody else put where an operation is to go is reported, also by the first operation of all, and stays.
async fn a_foreign_value_at_an_operations_key_is_never_overwritten(backend: Backend) {
    let sidecars = backend.sidecars().await;
    let resource = fresh_resource();
    let large = |operation: &str| ask(&resource, operation).result("x".repeat(LARGE_BYTES));
    let other = fresh_resource();
    let id = resource.id();
    let mine = format!("{}o/{}/{id}/mine", backend.prefix(), resource.kind());
    let mut raw = backend.raw().await;
    raw.put(mine.clone(), "foreign", None).await.unwrap();
    for sidecar in &sidecars {
        let refused = sidecar.try_transition(&large("mine")).await;
        assert_eq!(refused, Err(Fault::CorruptRecord));
        // Nothing of it was done, and nobody else is in its way.
        assert_eq!(sidecar.inspect(&resource).await.revision, None);
    }
    applied(&sidecars[0].transition(&create(&other, "open")).await);
    let another = sidecars[1].transition(&large("another")).await;
    judged(&another, Verdict::Applied, Layer::Result, Rule::RanOnce);
    let kept = raw.get(mine, None).await.unwrap();
    assert_eq!(kept.kvs()[0].value(), b"foreign");
}

async fn hundreds_of_operations_on_one_resource_are_all_replayed(backend: Backend) {
    let sidecars = backend.sidecars().await;
    let resource = fresh_resource();
    applied(&sidecars[0].transition(&create(&resource, "open")).await);
    for chunk in 0..MANY / AT_ONCE {
        let asks = (chunk * AT_ONCE..(chunk + 1) * AT_ONCE).map(|at| {
            let (sidecar, step) = (&sidecars[at % 2], step(&resource, at));
            async move { sidecar.transition(&step).await }
        });
        for answer in join_all(asks).await {
            judged(&answer, Verdict::Applied, Layer::Result, Rule::RanOnce);
        }
    }
    let keys = backend.dump().await;
    assert!(
        keys.len() > MANY / 2,
        "{} keys: they stay in the record",
        keys.len()
    );
    let largest = keys.iter().map(|(_, value)| value.len()).max().unwrap();
    assert!(largest <= RECORD_BYTES_MAX, "a record of {largest} bytes");
    let restarted = backend.sidecar().await;
    for at in 0..MANY {
        let step = step(&resource, at);
        let first = step.build().result.unwrap();
        for sidecar in [&sidecars[(at + 1) % 2], &restarted] {
            replayed(
                &sidecar.transition(&step.clone().result("other")).await,
                &first,
            );
        }
        let conflict = sidecars[at % 2].transition(&step.json("1")).await;
        judged(
            &conflict,
            Verdict::Conflict,
            Layer::Digest,
            Rule::OtherContent,
        );
    }
    assert_eq!(restarted.incidents(&resource).await.len(), MANY);
    assert_eq!(restarted.state(&resource).await, "open");
}

async fn large_results_leave_the_record_at_once_and_are_replayed_whole(backend: Backend) {
    let sidecars = backend.sidecars().await;
    let resource = fresh_resource();
    let large =
        |at: usize| ask(&resource, &format!("large {at}")).result(vec![at as u8; LARGE_BYTES]);
    let asks = (0..LARGE).map(|at| {
        let (sidecar, large) = (&sidecars[at % 2], large(at));
        async move { sidecar.transition(&large).await }
    });
    for answer in join_all(asks).await {
        judged(&answer, Verdict::Applied, Layer::Result, Rule::RanOnce);
    }
    let keys = backend.dump().await;
    let large_keys = keys.iter().filter(|(_, value)| value.len() >= LARGE_BYTES);
    assert_eq!(large_keys.count(), LARGE, "each in a key of its own");
    let restarted = backend.sidecar().await;
    for at in 0..LARGE {
        for sidecar in [&sidecars[(at + 1) % 2], &restarted] {
            replayed(
                &sidecar.transition(&large(at)).await,
                &body(vec![at as u8; LARGE_BYTES]),
            );
            let known = sidecar
                .lookup(&resource, &format!("large {at}"))
                .await
                .state;
            assert_eq!(known, OperationState::Done);
        }
    }
}

async fn a_sidecar_that_remembers_the_record_before_an_operation_moved_out_still_finds_it(
    backend: Backend,
) {
    // What the other sidecar remembers: nothing of the resource, a record without spilled operations, one with them.
    for remembers in 0..3 {
        let [one, two] = backend.sidecars().await;
        let resource = fresh_resource();
        if remembers > 0 {
            applied(&two.transition(&create(&resource, "open")).await);
        }
        if remembers > 1 {
            let before = (0..40).map(|at| {
                let fill = ask(&resource, &format!("before {at}")).result("x".repeat(900));
                let two = &two;
                async move { two.transition(&fill).await.verdict }
            });
            assert!(
                join_all(before)
                    .await
                    .iter()
                    .all(|verdict| *verdict == Verdict::Applied)
            );
        }
        let pay = ask(&resource, "pay");
        let first = one.transition(&pay.clone().result("first")).await;
        judged(&first, Verdict::Applied, Layer::Result, Rule::RanOnce);
        push_out(&one, &resource).await;
        let again = two.transition(&pay.result("second")).await;
        replayed(&again, &body("first"));
    }
}

async fn a_sidecar_that_knows_nothing_finds_an_operation_that_moved_out(backend: Backend) {
    let one = backend.sidecar().await;
    let resource = fresh_resource();
    let first = ask(&resource, "first").result("receipt");
    assert_eq!(one.transition(&first).await.verdict, Verdict::Applied);
    push_out(&one, &resource).await;
    one.hold(&reserve(&resource)).await;
    // The record alone does not show it, and would have the answer be "never seen" or "busy".
    let known = backend.sidecar().await.lookup(&resource, "first").await;
    assert_eq!(known.state, OperationState::Done);
    replayed(
        &backend.sidecar().await.transition(&first).await,
        &body("receipt"),
    );
}

async fn a_duplicate_meets_an_operation_that_moved_out_between_its_read_and_its_commit(
    backend: Backend,
) {
    for spilled_before in [false, true] {
        let (late, plan) = backend.faulty_within(PATIENT_CALL).await;
        let one = backend.sidecar().await;
        let resource = fresh_resource();
        applied(&late.transition(&create(&resource, "open")).await);
        if spilled_before {
            let large = ask(&resource, "large").result(vec![0; LARGE_BYTES]);
            judged(
                &late.transition(&large).await,
                Verdict::Applied,
                Layer::Result,
                Rule::RanOnce,
            );
        }
        let pay = ask(&resource, "pay");
        let held = plan
            .when(Rpc::Txn)
            .containing(resource.id())
            .then(Action::Hold);
        let (sidecar, duplicate) = (late.clone(), pay.clone().result("second"));
        let duplicate = tokio::spawn(async move { sidecar.transition(&duplicate).await });
        held.met().await;
        let first = one.transition(&pay.result("first")).await;
        judged(&first, Verdict::Applied, Layer::Result, Rule::RanOnce);
        push_out(&one, &resource).await;
        held.deliver().await;
        replayed(&duplicate.await.unwrap(), &body("first"));
    }
}

async fn a_conflict_with_an_operation_that_moved_out_is_reported_once(backend: Backend) {
    let [one, two] = backend.sidecars().await;
    let resource = fresh_resource();
    let pay = ask(&resource, "pay").json("1");
    judged(
        &one.transition(&pay).await,
        Verdict::Applied,
        Layer::Result,
        Rule::RanOnce,
    );
    push_out(&one, &resource).await;
    for sidecar in [&two, &one, &two] {
        let conflict = sidecar.transition(&pay.clone().json("2")).await;
        judged(
            &conflict,
            Verdict::Conflict,
            Layer::Digest,
            Rule::OtherContent,
        );
    }
    assert_eq!(one.incidents(&resource).await.len(), 1);
    assert_eq!(two.transition(&pay).await.verdict, Verdict::Replayed);
}

engines! {
    a_foreign_value_at_an_operations_key_is_never_overwritten,
    a_sidecar_that_knows_nothing_finds_an_operation_that_moved_out,
    hundreds_of_operations_on_one_resource_are_all_replayed,
    large_results_leave_the_record_at_once_and_are_replayed_whole,
    a_sidecar_that_remembers_the_record_before_an_operation_moved_out_still_finds_it,
    a_duplicate_meets_an_operation_that_moved_out_between_its_read_and_its_commit,
    a_conflict_with_an_operation_that_moved_out_is_reported_once,
}
