//! A token passes only while nothing was granted after it.

use std::time::Duration;

use fencepost::domain::decision::{Advice, Layer, Rule, Verdict};
use fencepost::domain::ids::Nonce;
use fencepost::domain::request::EndedRounds;
use fencepost::domain::token::{FencingToken, TOKEN_MAX, Timeline};
use uuid::Uuid;

use crate::support::ask::{ask, body, create, fresh_resource, reserve, reserve_for};
use crate::support::backend::Backend;
use crate::support::claim::{applied, evidence, judged};
use crate::support::sidecar::Sidecar;
use crate::support::{engines, until};

/// The shortest reservation there is, and the time etcd may take to notice its end.
pub(crate) const SHORTEST_SECONDS: u32 = 3;
pub(crate) const OVER_WITHIN: Duration = Duration::from_secs(20);

/// Waits until a reservation that nobody renews is over.
pub(crate) async fn over(sidecar: &Sidecar, resource: &fencepost::domain::ids::ResourceId) {
    until("the reservation runs out", OVER_WITHIN, || async {
        sidecar.live(resource).await.is_none().then_some(())
    })
    .await;
}

// C2
async fn the_live_token_passes_each_time_and_an_older_one_never_again(backend: Backend) {
    let [one, two] = backend.sidecars().await;
    let resource = fresh_resource();
    let first = one.hold(&reserve(&resource)).await;
    for sidecar in [&one, &two, &one] {
        let good = sidecar.fence(&resource, first.token).await;
        judged(&good, Verdict::Granted, Layer::Fence, Rule::Live);
        assert_eq!(good.advice(), Advice::Proceed);
    }
    one.release(&first.id).await;
    let second = two.hold(&reserve(&resource)).await;
    for sidecar in [&one, &two] {
        let good = sidecar.fence(&resource, second.token).await;
        judged(&good, Verdict::Granted, Layer::Fence, Rule::Live);
        let stale = sidecar.fence(&resource, first.token).await;
        judged(&stale, Verdict::Fenced, Layer::Fence, Rule::Overtaken);
        assert_eq!(stale.advice(), Advice::Abandon);
        let live = stale.now.unwrap().live.unwrap();
        assert_eq!(live.token, second.token, "it shows who is the later one");
    }
}

async fn a_forged_token_is_refused_and_locks_nobody_out(backend: Backend) {
    let [one, two] = backend.sidecars().await;
    let resource = fresh_resource();
    let forged = FencingToken::shown(TOKEN_MAX as i64).unwrap();
    let never = two.fence(&resource, forged).await;
    judged(&never, Verdict::Fenced, Layer::Fence, Rule::NeverIssued);
    let grant = one.hold(&reserve(&resource)).await;
    let next = FencingToken::shown(grant.token.get() as i64 + 1).unwrap();
    for token in [forged, next] {
        for ended in [EndedRounds::Refused, EndedRounds::Accepted] {
            let refused = two.fence_with(&resource, token, ended).await;
            judged(&refused, Verdict::Fenced, Layer::Fence, Rule::NeverIssued);
        }
    }
    let good = two.fence(&resource, grant.token).await;
    judged(&good, Verdict::Granted, Layer::Fence, Rule::Live);
}

async fn a_token_of_one_resource_says_nothing_about_another(backend: Backend) {
    let [one, two] = backend.sidecars().await;
    let grant = one.hold(&reserve(&fresh_resource())).await;
    let refused = two.fence(&fresh_resource(), grant.token).await;
    judged(&refused, Verdict::Fenced, Layer::Fence, Rule::NeverIssued);
}

// C1
async fn a_paused_holder_is_refused_after_its_successor_took_over_and_after_it_finished(
    backend: Backend,
) {
    let [one, two] = backend.sidecars().await;
    let resource = fresh_resource();
    let paused = one.hold(&reserve_for(&resource, SHORTEST_SECONDS)).await;
    over(&two, &resource).await;
    let ended = one.fence(&resource, paused.token).await;
    judged(&ended, Verdict::Fenced, Layer::Fence, Rule::TokenEnded);
    let successor = two.hold(&reserve(&resource)).await;
    for sidecar in [&one, &two] {
        let stale = sidecar.fence(&resource, paused.token).await;
        judged(&stale, Verdict::Fenced, Layer::Fence, Rule::Overtaken);
    }
    two.release(&successor.id).await;
    for sidecar in [&one, &two] {
        for ended in [EndedRounds::Refused, EndedRounds::Accepted] {
            let stale = sidecar.fence_with(&resource, paused.token, ended).await;
            judged(&stale, Verdict::Fenced, Layer::Fence, Rule::Overtaken);
        }
        let over = sidecar.fence(&resource, successor.token).await;
        judged(&over, Verdict::Fenced, Layer::Fence, Rule::TokenEnded);
        let last = sidecar
            .fence_with(&resource, successor.token, EndedRounds::Accepted)
            .await;
        judged(&last, Verdict::Granted, Layer::Fence, Rule::LastGranted);
    }
}

// C8
async fn a_holder_that_lost_its_round_after_a_good_fence_cannot_commit(backend: Backend) {
    let [one, two] = backend.sidecars().await;
    let resource = fresh_resource();
    applied(&one.transition(&create(&resource, "pending")).await);
    let lost = one.hold(&reserve_for(&resource, SHORTEST_SECONDS)).await;
    let good = one.fence(&resource, lost.token).await;
    judged(&good, Verdict::Granted, Layer::Fence, Rule::Live);
    over(&two, &resource).await;
    let successor = two.hold(&reserve(&resource)).await;
    let cancel = ask(&resource, "cancel").from(&["pending"]).to("cancelled");
    applied(&two.transition(&cancel.under(&successor.id)).await);

    let pay = ask(&resource, "pay").from(&["pending"]).to("paid");
    let pay = pay.under(&lost.id).result("charged");
    let mut found = Vec::new();
    for sidecar in [&one, &two] {
        let fenced = sidecar.transition(&pay).await;
        assert_eq!(
            (fenced.verdict, fenced.layer),
            (Verdict::Fenced, Layer::Fence),
            "{fenced:?}"
        );
        assert_eq!(fenced.advice(), Advice::Abandon);
        assert_eq!(fenced.result, None);
        found.push(fenced.incident.unwrap());
    }
    assert_eq!(one.state(&resource).await, "cancelled");
    let incidents = one.incidents(&resource).await;
    assert_eq!(incidents.len(), 1, "{incidents:?}");
    assert_eq!(
        evidence(&incidents[0]),
        [body("charged")],
        "the effect ran: keep its result"
    );
    assert!(found.iter().all(|id| *id == incidents[0].id));
    let silent = ask(&resource, "pay silently")
        .from(&["pending"])
        .to("paid")
        .under(&lost.id);
    let fenced = two.transition(&silent).await;
    assert_eq!((fenced.verdict, fenced.incident), (Verdict::Fenced, None));
}

async fn a_token_of_an_older_timeline_is_refused(backend: Backend) {
    let id = Nonce::from_bytes(*Uuid::new_v4().as_bytes());
    let first = Timeline {
        min_token: 1_000,
        ..Timeline::first(id, 1_800_000_000)
    };
    let prefix = backend.prefix();
    let timeout = Duration::from_secs(5);
    let one = Sidecar::open_with(backend.channel(), prefix, timeout, first).await;
    let two = backend.sidecar().await;
    assert_eq!(two.timeline(), first, "the first one to open decides");
    let resource = fresh_resource();
    let grant = one.hold(&reserve(&resource)).await;
    let old = FencingToken::shown(999).unwrap();
    for sidecar in [&one, &two] {
        let refused = sidecar.fence(&resource, old).await;
        judged(&refused, Verdict::Fenced, Layer::Fence, Rule::OlderTimeline);
        let good = sidecar.fence(&resource, grant.token).await;
        judged(&good, Verdict::Granted, Layer::Fence, Rule::Live);
    }
}

engines! {
    the_live_token_passes_each_time_and_an_older_one_never_again,
    a_forged_token_is_refused_and_locks_nobody_out,
    a_token_of_one_resource_says_nothing_about_another,
    a_paused_holder_is_refused_after_its_successor_took_over_and_after_it_finished,
    a_holder_that_lost_its_round_after_a_good_fence_cannot_commit,
    a_token_of_an_older_timeline_is_refused,
}
