//! Replies about several resources that are lost, and requests that arrive late: nothing is ever held in part.

use etcd_client::GetOptions;
use fencepost::domain::decision::{Layer, Rule, Verdict};
use fencepost::domain::record::PAST_ROUNDS_MAX;

use crate::support::ask::{create, fresh_resources, reserve, together};
use crate::support::backend::Backend;
use crate::support::claim::{applied, judged, not_failed};
use crate::support::engines;
use crate::support::fault::{Action, Ending, Rpc};
use crate::support::rounds::whole_at_every_revision;

/// Which of the two sidecars is asked first, for each way in which a reply is lost.
const CASES: [(Ending, usize); 4] = [
    (Ending::Silence, 0),
    (Ending::Silence, 1),
    (Ending::Reset, 0),
    (Ending::Reset, 1),
];

async fn a_grant_of_several_whose_reply_was_lost_is_given_when_it_is_asked_for_again(
    backend: Backend,
) {
    let mut sets = Vec::new();
    for (ending, asked_first) in CASES {
        let (one, plan) = backend.faulty().await;
        let two = backend.sidecar().await;
        let all: [_; 3] = fresh_resources();
        let mine = together(&all);
        let lost = plan.when(Rpc::Txn).containing(all[1].id());
        let lost = lost.then(Action::LoseReply(ending));
        let first = one.try_reserve_together(&mine).await;
        not_failed(&first);
        lost.met().await;
        for resource in &all {
            let stranger = two.reserve(&reserve(resource)).await.decision;
            judged(&stranger, Verdict::Busy, Layer::Fence, Rule::Held);
        }
        if let Ok(first) = &first {
            let (layer, rule) = (Layer::Result, Rule::WasFree);
            judged(&first.decision, Verdict::Granted, layer, rule);
        }
        let first = first.ok().into_iter();
        let mut tokens: Vec<_> = first.map(|first| first.grant.unwrap().token).collect();
        let mut sidecars = [&one, &two];
        sidecars.rotate_left(asked_first);
        for sidecar in sidecars {
            let again = sidecar.reserve_together(&mine).await;
            let (layer, rule) = (Layer::Replay, Rule::SameRequest);
            judged(&again.decision, Verdict::Granted, layer, rule);
            tokens.push(again.grant.unwrap().token);
        }
        for resource in &all {
            tokens.extend(one.live(resource).await);
        }
        tokens.dedup();
        assert_eq!(tokens.len(), 1, "one grant, one token: {tokens:?}");
        sets.push(all);
    }
    let sets: Vec<&[_]> = sets.iter().map(|set| &set[..]).collect();
    assert_eq!(whole_at_every_revision(&backend, &sets).await, CASES.len());
}

async fn a_grant_of_several_that_arrives_late_takes_nothing_from_a_later_holder(backend: Backend) {
    let mut sets = Vec::new();
    for ending in Ending::BOTH {
        let (one, plan) = backend.faulty().await;
        let two = backend.sidecar().await;
        let all: [_; 3] = fresh_resources();
        let [a, b, c] = &all;
        let mine = together(&[a.clone(), b.clone()]);
        let other = together(&[c.clone(), b.clone()]);
        let late = plan.when(Rpc::Txn).containing(b.id());
        let late = late.then(Action::DeliverLate(ending));
        let first = one.try_reserve_together(&mine).await;
        not_failed(&first);
        late.met().await;
        let theirs = two.reserve_together(&other).await;
        let decided = two.live(b).await.expect("one of the two has it");
        late.deliver().await;
        for sidecar in [&one, &two] {
            assert_eq!(sidecar.live(b).await, Some(decided));
            let again = [&mine, &other].map(|ask| sidecar.reserve_together(ask));
            let again = futures_util::future::join_all(again).await;
            let granted = again.iter().filter_map(|answer| answer.grant.as_ref());
            let granted: Vec<_> = granted.collect();
            assert_eq!(granted.len(), 1, "{again:?}");
            assert_eq!(granted[0].token, decided);
            if let Some(theirs) = &theirs.grant {
                assert_eq!(granted[0].id, theirs.id);
            }
            let outside = [a, c].map(|resource| sidecar.live(resource));
            let outside = futures_util::future::join_all(outside).await;
            let held = outside.iter().flatten().count();
            assert_eq!(held, 1, "a part of the other set is held: {outside:?}");
        }
        sets.extend([vec![a.clone(), b.clone()], vec![b.clone(), c.clone()]]);
    }
    let sets: Vec<&[_]> = sets.iter().map(Vec::as_slice).collect();
    let began = whole_at_every_revision(&backend, &sets).await;
    assert_eq!(began, Ending::BOTH.len());
}

async fn a_grant_of_several_that_arrives_after_its_round_is_over_takes_nothing(backend: Backend) {
    for ending in Ending::BOTH {
        let (one, plan) = backend.faulty().await;
        let two = backend.sidecar().await;
        let all: [_; 2] = fresh_resources();
        let mine = together(&all);
        let late = plan.when(Rpc::Txn).containing(all[0].id());
        let late = late.then(Action::DeliverLate(ending));
        not_failed(&one.try_reserve_together(&mine).await);
        late.met().await;
        let grant = one.hold_together(&mine).await;
        one.release(&grant.id).await;
        late.deliver().await;
        for resource in &all {
            assert_eq!(two.live(resource).await, None);
        }
        let over = two.reserve_together(&mine).await.decision;
        judged(&over, Verdict::Fenced, Layer::Fence, Rule::Released);
        two.hold_together(&together(&all)).await;
    }
}

async fn a_release_of_several_whose_reply_was_lost_has_ended_all(backend: Backend) {
    for ending in Ending::BOTH {
        let (one, plan) = backend.faulty().await;
        let two = backend.sidecar().await;
        let all: [_; 3] = fresh_resources();
        let grant = one.hold_together(&together(&all)).await;
        let lost = plan.when(Rpc::Txn).containing(all[2].id());
        let lost = lost.then(Action::LoseReply(ending));
        let ended = one.try_release(&grant.id).await;
        not_failed(&ended);
        lost.met().await;
        if let Ok(ended) = &ended {
            judged(ended, Verdict::Applied, Layer::Result, Rule::Ended);
        }
        for sidecar in [&two, &one] {
            let again = sidecar.release(&grant.id).await;
            judged(&again, Verdict::Replayed, Layer::Replay, Rule::Released);
            for resource in &all {
                assert_eq!(sidecar.live(resource).await, None);
            }
        }
    }
}

async fn a_release_of_several_that_arrives_late_ends_no_later_round(backend: Backend) {
    for ending in Ending::BOTH {
        let (one, plan) = backend.faulty().await;
        let two = backend.sidecar().await;
        let all: [_; 2] = fresh_resources();
        let old = one.hold_together(&together(&all)).await;
        let late = plan.when(Rpc::Txn).containing(all[1].id());
        let late = late.then(Action::DeliverLate(ending));
        not_failed(&one.try_release(&old.id).await);
        late.met().await;
        two.release(&old.id).await;
        let new = two.hold_together(&together(&all)).await;
        late.deliver().await;
        for resource in &all {
            for sidecar in [&one, &two] {
                assert_eq!(sidecar.live(resource).await, Some(new.token));
            }
        }
    }
}

// The same sidecar must not begin a second round by a name that others have learned.
async fn a_grant_of_several_that_was_done_and_is_forgotten_is_not_made_again_under_its_name(
    backend: Backend,
) {
    let (one, plan) = backend.faulty().await;
    let two = backend.sidecar().await;
    let all: [_; 2] = fresh_resources();
    let mine = together(&all);
    let txn = || plan.when(Rpc::Txn).containing(all[0].id());
    let lost = txn().then(Action::LoseReply(Ending::Reset));
    let away = txn().always().then(Action::Cut);
    let (sidecar, asked) = (one.clone(), mine.clone());
    let call = tokio::spawn(async move { sidecar.try_reserve_together(&asked).await });
    lost.met().await;
    let old = two.hold_together(&mine).await;
    two.release(&old.id).await;
    for _ in 0..=PAST_ROUNDS_MAX {
        let grant = two.hold_together(&together(&all)).await;
        two.release(&grant.id).await;
    }
    away.lift();
    let granted = call.await.unwrap();
    not_failed(&granted);
    if let Ok(granted) = granted {
        let new = granted
            .grant
            .expect("nothing is known of the first any more");
        assert_ne!(new.id, old.id);
        assert!(new.token > old.token);
    }
    let late = two.release(&old.id).await;
    judged(&late, Verdict::Replayed, Layer::Replay, Rule::Over);
}

async fn while_the_outcome_is_unknown_all_lanes_stand_still_and_then_go_on(backend: Backend) {
    let (one, plan) = backend.faulty().await;
    let all: [_; 2] = fresh_resources();
    let lost = plan.when(Rpc::Txn).containing(all[0].id());
    let lost = lost.then(Action::LoseReply(Ending::Reset));
    let away = plan.when(Rpc::Txn).containing(all[0].id()).times(4);
    let away = away.then(Action::Cut);
    let mine = together(&all);
    // That nothing was sent since says nothing of what was sent before.
    let grant = one.hold_together(&mine).await;
    assert_eq!((lost.hits(), away.hits()), (1, 4));
    for resource in &all {
        applied(
            &one.transition(&create(resource, "x").under(&grant.id))
                .await,
        );
    }
    assert_eq!(whole_at_every_revision(&backend, &[&all]).await, 1);
}

async fn several_that_come_with_a_lease_that_has_ended_get_another(backend: Backend) {
    let [one, two] = backend.sidecars().await;
    let mut raw = backend.raw().await;
    // The lease of a round that was released is the first to serve again.
    let [warm, a, b] = fresh_resources();
    let round = one.hold(&reserve(&warm)).await;
    let family = format!("{}h/", backend.prefix());
    let keys = Some(GetOptions::new().with_prefix());
    let gone = raw.get(family.clone(), keys.clone()).await.unwrap();
    let gone = gone.kvs()[0].lease();
    one.release(&round.id).await;
    raw.lease_revoke(gone).await.unwrap();
    let grant = one.hold_together(&together(&[a.clone(), b.clone()])).await;
    for resource in [&a, &b] {
        assert_eq!(two.live(resource).await, Some(grant.token));
    }
    let held = raw.get(family, keys).await.unwrap();
    assert!(held.kvs().iter().all(|key| key.lease() != gone));
    assert!(one.renew(&grant.id).await.grant.is_some());
}

engines! {
    several_that_come_with_a_lease_that_has_ended_get_another,
    a_grant_of_several_whose_reply_was_lost_is_given_when_it_is_asked_for_again,
    a_grant_of_several_that_arrives_late_takes_nothing_from_a_later_holder,
    a_grant_of_several_that_arrives_after_its_round_is_over_takes_nothing,
    a_release_of_several_whose_reply_was_lost_has_ended_all,
    a_release_of_several_that_arrives_late_ends_no_later_round,
    a_grant_of_several_that_was_done_and_is_forgotten_is_not_made_again_under_its_name,
    while_the_outcome_is_unknown_all_lanes_stand_still_and_then_go_on,
}
