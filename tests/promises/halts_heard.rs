//! Whoever has something open when all is halted hears of that at once: who watches, who holds, who waits.

use std::time::Duration;

use fencepost::domain::decision::{Layer, Rule, Verdict};
use fencepost::engine::{After, AtClose, Fault, FollowEnd, Following, HoldNews, Shown};

use super::holds::{lost, opened, renewed, told};
use super::restores_seen::{FAR, FOUND_WITHIN, asks_until_well, come_far, rewinding};
use crate::support::ask::{ask, create, fresh_resource, reserve, reserve_for};
use crate::support::backend::Backend;
use crate::support::claim::{applied, judged};
use crate::support::rewound::Rewinding;
use crate::support::sidecar::{Sidecar, caller, caller_for};
use crate::support::{engines, until};

/// Longer than any test: nothing here is due, or over, by itself.
const LONG_SECONDS: u32 = 3_600;
const LONG: Duration = Duration::from_secs(600);

/// One that will see etcd go back, and one that is asked nothing.
async fn before(backend: &Backend) -> (Sidecar, Rewinding, Sidecar) {
    let (one, rewinding) = rewinding(backend).await;
    let idle = backend.sidecar().await;
    come_far(backend).await;
    one.inspect(&fresh_resource()).await;
    (one, rewinding, idle)
}

async fn halt(one: &Sidecar, rewinding: &Rewinding) {
    rewinding.rewind(FAR);
    until("it halts", FOUND_WITHIN, || async {
        let told = one.engine.inspect(fresh_resource(), caller()).await;
        matches!(told, Err(Fault::Halted { .. })).then_some(())
    })
    .await;
}

async fn shown(following: &mut Following) -> Result<Shown, FollowEnd> {
    let next = tokio::time::timeout(FOUND_WITHIN, following.next()).await;
    next.expect("an answer in time")
}

async fn whoever_watches_is_told_of_a_halt(backend: Backend) {
    let (one, rewinding, idle) = before(&backend).await;
    let mut streams = Vec::new();
    for sidecar in [&one, &idle] {
        let following = sidecar.engine.follow(fresh_resource(), None, caller());
        let mut following = following.await.unwrap();
        shown(&mut following).await.unwrap();
        streams.push(following);
    }
    halt(&one, &rewinding).await;
    for mut following in streams {
        let end = shown(&mut following).await;
        assert!(
            matches!(end, Err(FollowEnd::Failed(Fault::Halted { .. }))),
            "{end:?}"
        );
    }
}

async fn whoever_holds_is_warned_by_a_halt_and_told_the_loss_by_the_next_timeline(
    backend: Backend,
) {
    let (one, rewinding, idle) = before(&backend).await;
    let grant = idle
        .hold(&reserve_for(&fresh_resource(), LONG_SECONDS))
        .await;
    let mut hold = opened(&idle, &[&grant.id], AtClose::Keep).await;
    renewed(&mut hold).await;
    halt(&one, &rewinding).await;
    let warned = told(&mut hold).await.news;
    assert!(matches!(warned, HoldNews::Expiring(_)), "{warned:?}");
    rewinding.stop();
    one.start_timeline("the test says so").await;
    let decision = lost(&mut hold).await;
    judged(&decision, Verdict::Fenced, Layer::Fence, Rule::Lost);
    // And the ends of what is held next are heard as ever.
    asks_until_well(&idle).await;
    let next = idle
        .hold(&reserve_for(&fresh_resource(), LONG_SECONDS))
        .await;
    let mut hold = opened(&idle, &[&next.id], AtClose::Keep).await;
    renewed(&mut hold).await;
    asks_until_well(&one).await;
    one.release(&next.id).await;
    let decision = lost(&mut hold).await;
    judged(&decision, Verdict::Fenced, Layer::Fence, Rule::Released);
}

async fn whoever_waits_is_told_of_a_halt_before_its_wait_is_over(backend: Backend) {
    let (one, rewinding, idle) = before(&backend).await;
    let (seat, order) = (fresh_resource(), fresh_resource());
    one.hold(&reserve_for(&seat, LONG_SECONDS)).await;
    applied(&one.transition(&create(&order, "pending")).await);
    let pay = ask(&order, "pay").from(&["pending"]).to("paid");
    one.hold(&pay.claim_for(LONG_SECONDS)).await;
    let engine = idle.engine.clone();
    let busy = reserve(&seat);
    let busy = tokio::spawn(async move {
        let waiting = engine.reserve_or_wait(busy, LONG, caller_for(LONG));
        waiting.await.map(|told| told.decision)
    });
    let engine = idle.engine.clone();
    let running = pay.claim();
    let running = tokio::spawn(async move {
        let waiting = engine.reserve_or_wait(running, LONG, caller_for(LONG));
        waiting.await.map(|told| told.decision)
    });
    until("both wait", FOUND_WITHIN, || async {
        (idle.engine.waiters().calls >= 2).then_some(())
    })
    .await;
    halt(&one, &rewinding).await;
    for waiting in [busy, running] {
        let told = tokio::time::timeout(FOUND_WITHIN, waiting).await;
        let told = told.expect("it hears of it").unwrap();
        assert!(matches!(told, Err(Fault::Halted { .. })), "{told:?}");
    }
}

async fn a_revision_of_a_timeline_before_is_answered_by_the_newest_and_a_gap(backend: Backend) {
    let [one, two] = backend.sidecars().await;
    let resource = fresh_resource();
    applied(&one.transition(&create(&resource, "a")).await);
    let following = one.engine.follow(resource.clone(), None, caller());
    let first = shown(&mut following.await.unwrap()).await.unwrap();
    assert_eq!(first.timeline, one.timeline().id);
    let after = Some(After {
        revision: first.snapshot.revision.unwrap(),
        timeline: Some(first.timeline),
    });
    let moved = ask(&resource, "b").from(&["a"]).to("b");
    applied(&one.transition(&moved).await);
    // In its own timeline it goes on from there.
    let following = two.engine.follow(resource.clone(), after, caller());
    let told = shown(&mut following.await.unwrap()).await.unwrap();
    assert_eq!(
        (told.gap, told.snapshot.state.unwrap().to_string()),
        (false, "b".to_owned())
    );
    one.start_timeline("the test says so").await;
    asks_until_well(&two).await;
    let following = two.engine.follow(resource.clone(), after, caller());
    let mut following = following.await.unwrap();
    let told = shown(&mut following).await.unwrap();
    assert!(told.gap, "{told:?}");
    assert_eq!(told.timeline, two.timeline().id);
    assert_ne!(told.timeline, first.timeline);
    assert_eq!(told.snapshot.state.unwrap().to_string(), "b");
    let moved = ask(&resource, "c").from(&["b"]).to("c");
    applied(&two.transition(&moved).await);
    assert!(!shown(&mut following).await.unwrap().gap);
}

engines! {
    whoever_watches_is_told_of_a_halt,
    whoever_holds_is_warned_by_a_halt_and_told_the_loss_by_the_next_timeline,
    whoever_waits_is_told_of_a_halt_before_its_wait_is_over,
    a_revision_of_a_timeline_before_is_answered_by_the_newest_and_a_gap,
}
