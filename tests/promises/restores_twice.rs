//! A second restore, to before the first new timeline: that timeline is gone from the store, and its tokens are not granted again.

use fencepost::domain::decision::{Grant, Layer, Rule, Verdict};
use fencepost::domain::ids::{Holder, Reason, ResourceId};
use fencepost::domain::timeline::Halt;
use fencepost::domain::token::FencingToken;
use fencepost::engine::{Fault, NewTimeline, StartAsk};

use super::restores_seen::{FAR, FOUND_WITHIN, asks_until_well, come_far, rewinding};
use crate::support::ask::{fresh_resource, reserve, reserve_for};
use crate::support::backend::Backend;
use crate::support::claim::judged;
use crate::support::sidecar::{Sidecar, caller};
use crate::support::{engines, until};

/// Far above whatever the clock says, as after an etcd whose revisions were raised.
const ABOVE: i64 = 1 << 52;
/// Longer than any test.
const LONG_SECONDS: u32 = 3_600;

/// What etcd has at the timeline's key.
async fn stored(backend: &Backend) -> Vec<u8> {
    let key = format!("{}meta/timeline", backend.prefix());
    let found = backend.raw().await.get(key, None).await.unwrap();
    found.kvs()[0].value().to_vec()
}

/// As a backup has it.
async fn put_back(backend: &Backend, timeline: Vec<u8>) {
    let key = format!("{}meta/timeline", backend.prefix());
    backend.raw().await.put(key, timeline, None).await.unwrap();
}

async fn start_above(sidecar: &Sidecar) -> NewTimeline {
    let ask = StartAsk {
        by: Holder::parse("ann").unwrap(),
        reason: Reason::parse("the first restore").unwrap(),
        above: Some(FencingToken::shown(ABOVE).unwrap()),
    };
    sidecar.engine.start_timeline(ask, caller()).await.unwrap()
}

async fn halted(sidecar: &Sidecar) -> Halt {
    until("it halts", FOUND_WITHIN, || async {
        match sidecar.engine.inspect(fresh_resource(), caller()).await {
            Err(Fault::Halted { halt }) => Some(halt),
            _ => None,
        }
    })
    .await
}

/// One that never knew the timeline that is gone starts the next, and says nothing of what was granted.
async fn goes_on(backend: &Backend, resource: &ResourceId, before: &Grant) {
    let late = backend.sidecar().await;
    assert!(late.timeline().base < before.token.get());
    let started = late.start_timeline("the second restore").await;
    assert!(
        started.timeline.base >= before.token.get(),
        "{started:?} after {before:?}"
    );
    asks_until_well(&late).await;
    let old = late.fence(resource, before.token).await;
    judged(&old, Verdict::Fenced, Layer::Fence, Rule::OlderTimeline);
    let next = late.hold(&reserve(resource)).await;
    assert!(next.token > before.token);
}

async fn what_a_timeline_granted_that_is_gone_is_never_granted_again(backend: Backend) {
    let one = backend.sidecar().await;
    let (resource, backup) = (fresh_resource(), stored(&backend).await);
    start_above(&one).await;
    let granted = one.hold(&reserve_for(&resource, LONG_SECONDS)).await;
    assert!(granted.token.get() > u64::try_from(ABOVE).unwrap());
    put_back(&backend, backup).await;
    let halt = halted(&one).await;
    assert!(matches!(halt, Halt::OlderTimeline { .. }), "{halt:?}");
    goes_on(&backend, &resource, &granted).await;
}

async fn nor_if_it_is_seen_by_its_revision_first(backend: Backend) {
    let (one, rewinding) = rewinding(&backend).await;
    let (resource, backup) = (fresh_resource(), stored(&backend).await);
    start_above(&one).await;
    come_far(&backend).await;
    let granted = one.hold(&reserve_for(&resource, LONG_SECONDS)).await;
    rewinding.rewind(FAR);
    put_back(&backend, backup).await;
    let halt = halted(&one).await;
    assert!(matches!(halt, Halt::WentBack { .. }), "{halt:?}");
    goes_on(&backend, &resource, &granted).await;
}

async fn the_one_that_knew_it_starts_the_next_above_it_though_no_halt_tells(backend: Backend) {
    let one = backend.sidecar().await;
    let (resource, backup) = (fresh_resource(), stored(&backend).await);
    start_above(&one).await;
    let granted = one.hold(&reserve_for(&resource, LONG_SECONDS)).await;
    put_back(&backend, backup).await;
    let started = one.start_timeline("the second restore").await;
    assert!(started.timeline.base >= granted.token.get(), "{started:?}");
}

async fn a_halt_from_the_backup_is_told_what_was_granted_since(backend: Backend) {
    let (one, rewinding) = rewinding(&backend).await;
    let two = backend.sidecar().await;
    come_far(&backend).await;
    one.inspect(&fresh_resource()).await;
    rewinding.rewind(FAR);
    halted(&one).await;
    rewinding.stop();
    // The backup is of this moment.
    let backup = stored(&backend).await;
    start_above(&one).await;
    asks_until_well(&two).await;
    let resource = fresh_resource();
    let granted = two.hold(&reserve_for(&resource, LONG_SECONDS)).await;
    drop(one);
    put_back(&backend, backup.clone()).await;
    halted(&two).await;
    until("the halt says more", FOUND_WITHIN, || async {
        (stored(&backend).await != backup).then_some(())
    })
    .await;
    goes_on(&backend, &resource, &granted).await;
}

engines! {
    what_a_timeline_granted_that_is_gone_is_never_granted_again,
    nor_if_it_is_seen_by_its_revision_first,
    the_one_that_knew_it_starts_the_next_above_it_though_no_halt_tells,
    a_halt_from_the_backup_is_told_what_was_granted_since,
}
