//! A reservation of several resources on a stream: renewed, lost and released for all of them.

use std::time::Duration;

use fencepost::domain::decision::{Layer, Rule, Verdict};
use fencepost::domain::ids::ResourceId;
use fencepost::domain::request::Ttl;
use fencepost::domain::together::ReserveTogether;
use fencepost::engine::{AtClose, Boottime, HoldEnd};

use super::fence::{SHORTEST_SECONDS, over};
use super::holds::{hits_but_of_watches, lost, opened, renewed};
use crate::support::ask::{fresh_resources, reserve, together};
use crate::support::backend::Backend;
use crate::support::claim::judged;
use crate::support::fault::{Action, Ending, Injected, Rpc};
use crate::support::sidecar::Sidecar;
use crate::support::{engines, until};

/// Long enough that nothing here is due before the test is over.
const LONG_SECONDS: u32 = 3_600;
/// What is told, or done, at once is told within this.
const SOON: Duration = Duration::from_secs(10);

fn for_seconds(resources: &[ResourceId], seconds: u32) -> ReserveTogether {
    let ttl = Duration::from_secs(seconds.into());
    ReserveTogether {
        ttl: Ttl::parse(Some(ttl)).unwrap(),
        ..together(resources)
    }
}

async fn all_are_free(sidecar: &Sidecar, resources: &[ResourceId]) {
    for resource in resources {
        until("it is free", SOON, || async {
            sidecar.live(resource).await.is_none().then_some(())
        })
        .await;
    }
}

async fn the_end_of_a_stream_releases_all_of_them(backend: Backend) {
    let [one, two] = backend.sidecars().await;
    let all: [_; 3] = fresh_resources();
    let grant = one.hold_together(&for_seconds(&all, LONG_SECONDS)).await;
    // It need not be the sidecar that granted it.
    let mut hold = opened(&two, &[&grant.id], AtClose::Release).await;
    renewed(&mut hold).await;
    drop(hold);
    all_are_free(&one, &all).await;
    let again = one.release(&grant.id).await;
    judged(&again, Verdict::Replayed, Layer::Replay, Rule::Released);
    for resource in &all {
        let next = two.hold(&reserve(resource)).await;
        assert!(next.token > grant.token);
    }
}

async fn a_release_of_all_that_finds_no_etcd_or_loses_its_reply_is_made_up_for(backend: Backend) {
    let (one, plan) = backend.faulty().await;
    let two = backend.sidecar().await;
    for cut in [true, false] {
        let all: [_; 2] = fresh_resources();
        let grant = one.hold_together(&for_seconds(&all, LONG_SECONDS)).await;
        let mut hold = opened(&one, &[&grant.id], AtClose::Release).await;
        renewed(&mut hold).await;
        if cut {
            let cut = plan.cut_all();
            drop(hold);
            until("it was tried", SOON, || async {
                (hits_but_of_watches(&cut) > 2).then_some(())
            })
            .await;
            cut.iter().for_each(Injected::lift);
        } else {
            let lost = plan.when(Rpc::Txn).containing(all[0].id());
            let lost = lost.then(Action::LoseReply(Ending::Reset));
            drop(hold);
            lost.met().await;
        }
        all_are_free(&two, &all).await;
        let again = two.release(&grant.id).await;
        judged(&again, Verdict::Replayed, Layer::Replay, Rule::Released);
    }
}

async fn they_last_for_as_long_as_they_are_held(backend: Backend) {
    let [one, two] = backend.sidecars().await;
    let all: [_; 3] = fresh_resources();
    let grant = one
        .hold_together(&for_seconds(&all, SHORTEST_SECONDS))
        .await;
    let opening = Boottime::now();
    let mut hold = opened(&one, &[&grant.id], AtClose::Keep).await;
    let shortest = Duration::from_secs(SHORTEST_SECONDS.into());
    while Boottime::now().since(opening) < 2 * shortest {
        let renewal = renewed(&mut hold).await;
        assert_eq!((renewal.token, &renewal.id), (grant.token, &grant.id));
        for resource in &all {
            assert_eq!(two.live(resource).await, Some(grant.token));
        }
    }
    // Nobody renews them any more.
    drop(hold);
    for resource in &all {
        over(&two, resource).await;
    }
}

async fn their_loss_is_told_once_and_at_once(backend: Backend) {
    let [one, two] = backend.sidecars().await;
    // It hears of the ends that come after it has begun to listen.
    let decision = until("the loss is told", 3 * SOON, || async {
        let all: [_; 3] = fresh_resources();
        let grant = one.hold_together(&for_seconds(&all, LONG_SECONDS)).await;
        let mut hold = opened(&one, &[&grant.id], AtClose::Keep).await;
        renewed(&mut hold).await;
        assert_eq!(two.release(&grant.id).await.verdict, Verdict::Applied);
        let told = tokio::time::timeout(SOON / 5, lost(&mut hold)).await.ok()?;
        assert_eq!(hold.next().await, Err(HoldEnd::AllLost));
        Some(told)
    })
    .await;
    judged(&decision, Verdict::Fenced, Layer::Fence, Rule::Released);
}

engines! {
    the_end_of_a_stream_releases_all_of_them,
    a_release_of_all_that_finds_no_etcd_or_loses_its_reply_is_made_up_for,
    they_last_for_as_long_as_they_are_held,
    their_loss_is_told_once_and_at_once,
}
