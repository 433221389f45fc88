//! Who stays on the stream keeps what it holds, and is told in time when that is not so.

use std::time::Duration;

use fencepost::domain::decision::{Advice, Decision, Grant, Layer, Rule, Verdict};
use fencepost::domain::ids::ReservationId;
use fencepost::engine::{AtClose, Boottime, Fault, HELD_MAX, Held, Hold, HoldEnd, HoldNews};

use super::fence::{OVER_WITHIN, SHORTEST_SECONDS, over};
use super::keepalives::{STREAM_FAULTS, many_held};
use crate::support::ask::{fresh_resource, reserve, reserve_for};
use crate::support::backend::Backend;
use crate::support::claim::judged;
use crate::support::fault::{Action, Ending, FaultPlan, Injected, Rpc};
use crate::support::sidecar::{Sidecar, caller};
use crate::support::{engines, until};

const SHORTEST: Duration = Duration::from_secs(3);
/// Long enough that nothing here is due before the test is over.
const LONG_SECONDS: u32 = 3_600;
/// What is told at once is told within this.
const SOON: Duration = Duration::from_secs(10);
/// More than a call of these sidecars may take.
const PATIENT_CALL: Duration = Duration::from_secs(5);

pub(super) async fn opened(sidecar: &Sidecar, ids: &[&ReservationId], at_close: AtClose) -> Hold {
    let ids = ids.iter().map(|id| (*id).clone()).collect();
    let hold = sidecar.engine.hold(ids, at_close, caller()).await;
    hold.expect("the stream opens")
}

pub(super) async fn told(hold: &mut Hold) -> Held {
    let next = tokio::time::timeout(OVER_WITHIN, hold.next()).await;
    next.expect("news in time").expect("the stream goes on")
}

pub(super) async fn renewed(hold: &mut Hold) -> Grant {
    match told(hold).await.news {
        HoldNews::Renewed(grant) => grant,
        other => panic!("{other:?} instead of a renewal"),
    }
}

pub(super) async fn lost(hold: &mut Hold) -> Decision {
    loop {
        match told(hold).await.news {
            HoldNews::Lost(decision) => return *decision,
            HoldNews::Renewed(_) | HoldNews::Expiring(_) => {}
        }
    }
}

/// How many calls met a cut line. Watches come back by themselves, whatever else is done.
pub(super) fn hits_but_of_watches(cut: &[Injected]) -> usize {
    let others = cut.iter().filter(|cut| cut.rpc() != Rpc::Watch);
    others.map(Injected::hits).sum()
}

/// From now on etcd gets nothing and says nothing.
pub(super) fn silence(plan: &FaultPlan) -> Vec<Injected> {
    let silent = [Rpc::LeaseKeepAlive, Rpc::Txn, Rpc::Range, Rpc::LeaseGrant];
    let silent = silent.map(|rpc| {
        let every = plan.when(rpc).always();
        every.then(Action::DeliverLate(Ending::Silence))
    });
    silent.into()
}

async fn a_reservation_lasts_for_as_long_as_it_is_held_and_safe_for_grows_from_the_opening(
    backend: Backend,
) {
    let [one, two] = backend.sidecars().await;
    let resource = fresh_resource();
    let grant = one.hold(&reserve_for(&resource, SHORTEST_SECONDS)).await;
    let opening = Boottime::now();
    let mut hold = opened(&one, &[&grant.id], AtClose::Keep).await;
    let mut safe_for = Duration::ZERO;
    while opening.plus(3 * SHORTEST).since(Boottime::now()) > Duration::ZERO {
        let asked_before = Boottime::now();
        let renewal = renewed(&mut hold).await;
        assert_eq!((renewal.token, &renewal.id), (grant.token, &grant.id));
        assert!(renewal.safe_for > safe_for, "{renewal:?} {safe_for:?}");
        safe_for = renewal.safe_for;
        // Never more than a TTL from the moment at which it was told, and that from the opening.
        assert!(safe_for <= Boottime::now().since(opening) + SHORTEST);
        assert!(
            safe_for + SHORTEST >= asked_before.since(opening),
            "useless: {safe_for:?}"
        );
        assert_eq!(two.live(&resource).await, Some(grant.token));
    }
    // Nobody renews it any more.
    drop(hold);
    over(&two, &resource).await;
    let ended = two.renew(&grant.id).await.decision;
    judged(&ended, Verdict::Fenced, Layer::Fence, Rule::Lost);
}

async fn a_sidecar_holds_what_another_one_granted(backend: Backend) {
    let [one, two] = backend.sidecars().await;
    let resource = fresh_resource();
    let grant = one.hold(&reserve_for(&resource, SHORTEST_SECONDS)).await;
    let begun = Boottime::now();
    let mut hold = opened(&two, &[&grant.id], AtClose::Keep).await;
    while Boottime::now().since(begun) < 2 * SHORTEST {
        assert_eq!(renewed(&mut hold).await.token, grant.token);
    }
    assert_eq!(one.live(&resource).await, Some(grant.token));
}

// B3
async fn a_holder_hears_of_the_loss_before_its_time_is_over_though_etcd_says_nothing(
    backend: Backend,
) {
    let (one, plan) = backend.faulty_within(PATIENT_CALL).await;
    let grant = one
        .hold(&reserve_for(&fresh_resource(), SHORTEST_SECONDS))
        .await;
    let opening = Boottime::now();
    let mut hold = opened(&one, &[&grant.id], AtClose::Keep).await;
    let mut safe_for = renewed(&mut hold).await.safe_for;
    let silent = silence(&plan);
    let mut warned = false;
    let decision = loop {
        match told(&mut hold).await.news {
            HoldNews::Renewed(grant) => safe_for = grant.safe_for,
            HoldNews::Expiring(grant) => {
                assert_eq!(grant.safe_for, safe_for, "what is left does not grow");
                warned = true;
            }
            HoldNews::Lost(decision) => break *decision,
        }
    };
    let heard = Boottime::now().since(opening);
    assert!(heard <= safe_for, "{heard:?} > {safe_for:?}");
    assert!(warned, "the loss came without a warning");
    judged(&decision, Verdict::Fenced, Layer::Fence, Rule::Lost);
    assert_eq!((decision.advice(), decision.now), (Advice::Abandon, None));
    assert_eq!(hold.next().await, Err(HoldEnd::AllLost));
    drop(silent);
}

// B7
async fn a_reservation_outlives_a_cut_that_is_shorter_than_its_time(backend: Backend) {
    const TTL_SECONDS: u32 = 6;
    let ttl = Duration::from_secs(TTL_SECONDS.into());
    let cuts: [fn(&FaultPlan) -> Vec<Injected>; 2] = [FaultPlan::cut_all, silence];
    let runs = cuts.map(|cut| {
        let backend = backend.clone();
        async move {
            let (one, plan) = backend.faulty_within(PATIENT_CALL).await;
            let grant = one.hold(&reserve_for(&fresh_resource(), TTL_SECONDS)).await;
            let mut hold = opened(&one, &[&grant.id], AtClose::Keep).await;
            let begun = Boottime::now();
            renewed(&mut hold).await;
            // Shortly before the next renewal is due.
            tokio::time::sleep(ttl / 5).await;
            let cut = cut(&plan);
            tokio::time::sleep(ttl / 3).await;
            // That comes at random within a while, so the cut lasts until it has met one.
            until("a renewal fails", ttl / 3, || async {
                (one.engine.holdings().failed > 0).then_some(())
            })
            .await;
            cut.iter().for_each(Injected::lift);
            let (mut failed, mut renewed) = (0, 0);
            while Boottime::now().since(begun) < 2 * ttl || renewed < 2 {
                match told(&mut hold).await.news {
                    HoldNews::Renewed(_) => renewed += 1,
                    HoldNews::Expiring(_) => failed += 1,
                    HoldNews::Lost(decision) => panic!("{decision:?}"),
                }
            }
            let holdings = one.engine.holdings();
            assert!(failed > 0 && holdings.failed > 0, "{holdings:?}");
            assert_eq!((holdings.held, holdings.lost), (1, 0));
        }
    });
    futures_util::future::join_all(runs).await;
}

// B5
async fn a_stream_of_keepalives_that_fails_or_freezes_costs_no_reservation(backend: Backend) {
    let runs = STREAM_FAULTS.map(|fault| {
        let backend = backend.clone();
        async move {
            let (one, plan) = backend.faulty_within(PATIENT_CALL).await;
            let grant = one
                .hold(&reserve_for(&fresh_resource(), SHORTEST_SECONDS))
                .await;
            let mut hold = opened(&one, &[&grant.id], AtClose::Keep).await;
            renewed(&mut hold).await;
            let fault = plan.when(Rpc::LeaseKeepAlive).then(fault);
            fault.met().await;
            let begun = Boottime::now();
            while Boottime::now().since(begun) < 2 * SHORTEST {
                match told(&mut hold).await.news {
                    HoldNews::Renewed(_) | HoldNews::Expiring(_) => {}
                    HoldNews::Lost(decision) => panic!("{fault:?}: {decision:?}"),
                }
            }
        }
    });
    futures_util::future::join_all(runs).await;
}

async fn a_holder_hears_at_once_that_its_reservation_was_released_elsewhere(backend: Backend) {
    let [one, two] = backend.sidecars().await;
    let resource = fresh_resource();
    let grant = one.hold(&reserve_for(&resource, LONG_SECONDS)).await;
    let mut hold = opened(&one, &[&grant.id], AtClose::Release).await;
    renewed(&mut hold).await;
    // It hears of the ends that come after it has begun to listen.
    let ended = until("the loss is told", SOON, || async {
        let other = fresh_resource();
        let id = one.hold(&reserve_for(&other, LONG_SECONDS)).await.id;
        let mut hold = opened(&one, &[&id], AtClose::Keep).await;
        renewed(&mut hold).await;
        assert_eq!(two.release(&id).await.verdict, Verdict::Applied);
        let ended = tokio::time::timeout(SOON / 5, hold.next()).await;
        ended.ok()
    });
    let Ok(Held {
        news: HoldNews::Lost(ended),
        ..
    }) = ended.await
    else {
        panic!("another end");
    };
    judged(&ended, Verdict::Fenced, Layer::Fence, Rule::Released);
    assert_eq!(two.release(&grant.id).await.verdict, Verdict::Applied);
    let next = two.hold(&reserve_for(&resource, LONG_SECONDS)).await;
    let decision = lost(&mut hold).await;
    judged(&decision, Verdict::Fenced, Layer::Fence, Rule::Released);
    let live = decision.now.and_then(|now| now.live).map(|live| live.token);
    assert!(live.is_none() || live == Some(next.token));
    assert_eq!(hold.next().await, Err(HoldEnd::AllLost));
    // The end of the stream releases nothing of the next round.
    drop(hold);
    assert_eq!(one.live(&resource).await, Some(next.token));
}

async fn a_loss_is_seen_with_the_next_renewal_though_its_end_was_not_heard_of(backend: Backend) {
    let (one, plan) = backend.faulty_within(PATIENT_CALL).await;
    let two = backend.sidecar().await;
    let deaf = plan.when(Rpc::Watch).always().then(Action::Cut);
    let resource = fresh_resource();
    let grant = one.hold(&reserve_for(&resource, SHORTEST_SECONDS)).await;
    let mut hold = opened(&one, &[&grant.id], AtClose::Keep).await;
    renewed(&mut hold).await;
    two.release(&grant.id).await;
    // The lease lives on, and with it what a keepalive says.
    let next = two.hold(&reserve(&resource)).await;
    let ended = lost(&mut hold).await;
    judged(&ended, Verdict::Fenced, Layer::Fence, Rule::Released);
    let live = ended.now.and_then(|now| now.live).map(|live| live.token);
    assert_eq!(live, Some(next.token));
    drop(deaf);
}

async fn what_is_over_when_the_stream_opens_is_told_and_the_rest_is_held(backend: Backend) {
    let [one, two] = backend.sidecars().await;
    let resource = fresh_resource();
    let gone = one.hold(&reserve(&resource)).await;
    one.release(&gone.id).await;
    let next = two.hold(&reserve(&resource)).await;
    let kept = one.hold(&reserve(&fresh_resource())).await;
    let mut hold = opened(&one, &[&gone.id, &kept.id], AtClose::Keep).await;
    let first = told(&mut hold).await;
    assert_eq!(first.reservation, gone.id);
    let HoldNews::Lost(decision) = first.news else {
        panic!("{first:?}");
    };
    judged(&decision, Verdict::Fenced, Layer::Fence, Rule::Released);
    let live = decision.now.and_then(|now| now.live).map(|live| live.token);
    assert_eq!(live, Some(next.token));
    assert_eq!(renewed(&mut hold).await.id, kept.id);
    let mut all_gone = opened(&two, &[&gone.id], AtClose::Keep).await;
    lost(&mut all_gone).await;
    assert_eq!(all_gone.next().await, Err(HoldEnd::AllLost));
}

// A3
async fn the_end_of_a_stream_releases_what_it_held_if_that_was_asked_for_and_else_nothing(
    backend: Backend,
) {
    let [one, two] = backend.sidecars().await;
    let (released, kept) = (fresh_resource(), fresh_resource());
    let mine = one.hold(&reserve_for(&released, LONG_SECONDS)).await;
    let still_mine = one.hold(&reserve_for(&kept, LONG_SECONDS)).await;
    let unread = opened(&one, &[&mine.id], AtClose::Release).await;
    let mut other = opened(&one, &[&still_mine.id], AtClose::Keep).await;
    renewed(&mut other).await;
    drop((unread, other));
    until("it is released", SOON, || async {
        two.live(&released).await.is_none().then_some(())
    })
    .await;
    let again = two.release(&mine.id).await;
    judged(&again, Verdict::Replayed, Layer::Replay, Rule::Released);
    assert_eq!(two.live(&kept).await, Some(still_mine.token));
    assert_eq!(one.engine.holdings().held, 0);
}

async fn a_keepalive_that_was_answered_late_makes_the_hold_last_from_when_it_was_sent(
    backend: Backend,
) {
    const STALL: Duration = Duration::from_secs(3);
    const TTL: Duration = Duration::from_secs(60);
    let (one, plan) = backend.faulty_within(4 * PATIENT_CALL).await;
    let resource = fresh_resource();
    let grant = one.hold(&reserve_for(&resource, 60)).await;
    // What opens the stream of keepalives is sent once more when it is open.
    one.renew(&grant.id).await.grant.expect("it is held");
    let slow = plan.when(Rpc::LeaseKeepAlive);
    let slow = slow.then(Action::SlowReply(STALL));
    let opened_at = Boottime::now();
    let mut hold = opened(&one, &[&grant.id], AtClose::Keep).await;
    // etcd has renewed it by now, and is about to say so.
    slow.met().await;
    let renewed_by = Boottime::now();
    let told = renewed(&mut hold).await;
    assert!(Boottime::now().since(renewed_by) >= STALL / 2);
    // The holder counts from when it opened the stream.
    let believed = opened_at.plus(told.safe_for);
    let over = renewed_by.plus(TTL);
    assert!(believed <= over, "by {:?}", believed.since(over));
}

// B8
async fn a_release_at_the_end_of_a_stream_that_finds_no_etcd_is_made_up_for(backend: Backend) {
    let (one, plan) = backend.faulty().await;
    let two = backend.sidecar().await;
    let resource = fresh_resource();
    let grant = one.hold(&reserve_for(&resource, LONG_SECONDS)).await;
    let mut hold = opened(&one, &[&grant.id], AtClose::Release).await;
    renewed(&mut hold).await;
    let cut = plan.cut_all();
    drop(hold);
    until("a release has failed", SOON, || async {
        (hits_but_of_watches(&cut) > 1).then_some(())
    })
    .await;
    assert_eq!(two.live(&resource).await, Some(grant.token));
    cut.iter().for_each(Injected::lift);
    until("it is released", SOON, || async {
        two.live(&resource).await.is_none().then_some(())
    })
    .await;
}

async fn a_stop_ends_the_streams_and_leaves_what_is_not_to_be_released(backend: Backend) {
    let [one, two] = backend.sidecars().await;
    let (released, kept) = (fresh_resource(), fresh_resource());
    let mine = one.hold(&reserve_for(&released, LONG_SECONDS)).await;
    let still_mine = one.hold(&reserve_for(&kept, LONG_SECONDS)).await;
    let mut first = opened(&one, &[&mine.id], AtClose::Release).await;
    let mut second = opened(&one, &[&still_mine.id], AtClose::Keep).await;
    renewed(&mut first).await;
    assert!(
        one.engine.stop(SOON).await,
        "the stop waits for the release"
    );
    assert_eq!(two.live(&released).await, None);
    assert_eq!(two.live(&kept).await, Some(still_mine.token));
    for hold in [&mut first, &mut second] {
        assert_eq!(hold.next().await, Err(HoldEnd::Stopping));
    }
    let late = one
        .engine
        .hold(vec![mine.id], AtClose::Keep, caller())
        .await;
    assert!(matches!(late, Err(Fault::Stopping { .. })), "{late:?}");
}

async fn who_does_not_read_keeps_the_reservation_and_then_hears_only_the_newest(backend: Backend) {
    const TTL_SECONDS: u32 = 6;
    let ttl = Duration::from_secs(TTL_SECONDS.into());
    let one = backend.sidecar().await;
    let grant = one.hold(&reserve_for(&fresh_resource(), TTL_SECONDS)).await;
    let opening = Boottime::now();
    let mut hold = opened(&one, &[&grant.id], AtClose::Keep).await;
    tokio::time::sleep(2 * ttl).await;
    // What was renewed by now is in the first of all news, or before it.
    let before = one.engine.holdings().renewed;
    let asked = Boottime::now().since(opening);
    let first = renewed(&mut hold).await;
    assert!(first.safe_for > asked, "{first:?} after {asked:?}");
    let second = renewed(&mut hold).await;
    assert!(second.safe_for > first.safe_for);
    assert!(
        one.engine.holdings().renewed > before,
        "it was not waited for"
    );
}

// B10
async fn renewals_that_come_late_stop_new_grants_before_anything_is_lost(backend: Backend) {
    const TTL_SECONDS: u32 = 9;
    const HELD: usize = 12;
    let (one, plan) = backend.faulty_within(PATIENT_CALL).await;
    let mut grants = Vec::new();
    for _ in 0..HELD {
        let ask = reserve_for(&fresh_resource(), TTL_SECONDS);
        grants.push((ask.clone(), one.hold(&ask).await));
    }
    let ids: Vec<_> = grants.iter().map(|(_, grant)| &grant.id).collect();
    let mut hold = opened(&one, &ids, AtClose::Keep).await;
    for _ in 0..HELD {
        renewed(&mut hold).await;
    }
    // Keepalives alone are not answered: everything else works.
    let slow = plan.when(Rpc::LeaseKeepAlive).always();
    let slow = slow.then(Action::DeliverLate(Ending::Silence));
    let refused = until("a grant is refused", OVER_WITHIN, || async {
        let refused = one.try_reserve(&reserve(&fresh_resource())).await;
        refused.err()
    });
    let refused = refused.await;
    assert!(matches!(refused, Fault::RenewalsLate { .. }), "{refused:?}");
    let strained = one.engine.holdings();
    assert!(strained.strained, "{strained:?}");
    assert_eq!((strained.held, strained.lost), (HELD, 0));
    // What is no new grant is judged as ever.
    let two = backend.sidecar().await;
    let busy = reserve(&grants[0].0.resource);
    let busy = one.reserve(&busy).await.decision;
    judged(&busy, Verdict::Busy, Layer::Fence, Rule::Held);
    two.hold(&reserve(&fresh_resource())).await;
    slow.lift();
    until("grants are given again", OVER_WITHIN, || async {
        one.try_reserve(&reserve(&fresh_resource())).await.ok()
    })
    .await;
    assert_eq!(one.engine.holdings().lost, 0);
}

async fn renewals_of_many_share_the_looks_at_their_keys(backend: Backend) {
    const HELD: usize = 100;
    let (one, plan) = backend.faulty_within(PATIENT_CALL).await;
    let mut ids = Vec::new();
    for _ in 0..HELD {
        ids.push(
            one.hold(&reserve_for(&fresh_resource(), LONG_SECONDS))
                .await
                .id,
        );
    }
    let mut hold = opened(&one, &ids.iter().collect::<Vec<_>>(), AtClose::Keep).await;
    let before = plan.counts();
    for _ in 0..HELD {
        renewed(&mut hold).await;
    }
    let asked = plan.counts().since(&before);
    assert!(asked.of(Rpc::Txn) <= HELD / 4, "{asked}");
    // On streams that are open it is one keepalive for each. The first of a stream opens it, and is sent once more; there is at
    // most one stream for each eight.
    let mut again = opened(&one, &ids.iter().collect::<Vec<_>>(), AtClose::Keep).await;
    for _ in 0..HELD {
        renewed(&mut again).await;
    }
    let asked = plan.counts().since(&before).of(Rpc::LeaseKeepAlive);
    assert!(asked <= 2 * HELD + HELD / 8 + 1, "{asked}");
}

async fn two_thousand_reservations_are_held_without_a_loss(backend: Backend) {
    const HELD: usize = 2_000;
    const TTL_SECONDS: u32 = 12;
    let ttl = Duration::from_secs(TTL_SECONDS.into());
    let one = backend.sidecar().await;
    let mut streams = many_held(&one, HELD, TTL_SECONDS).await;
    let begun = Boottime::now();
    let reading = streams.iter_mut().map(|hold| async move {
        let mut renewals = 0;
        while Boottime::now().since(begun) < ttl + ttl / 2 {
            match told(hold).await.news {
                HoldNews::Renewed(_) => renewals += 1,
                HoldNews::Expiring(_) => {}
                HoldNews::Lost(decision) => panic!("{decision:?}"),
            }
        }
        renewals
    });
    let renewals: usize = futures_util::future::join_all(reading).await.iter().sum();
    let holdings = one.engine.holdings();
    assert_eq!((holdings.held, holdings.lost), (HELD, 0), "{holdings:?}");
    // Each at least three times: when its stream was opened, and then about every third of the TTL.
    assert!(renewals >= 3 * HELD, "{renewals}");
}

async fn more_than_a_sidecar_may_hold_is_a_limit_of_the_moment_and_what_is_held_stays(
    backend: Backend,
) {
    let one = backend.sidecar().await;
    let resource = fresh_resource();
    let grant = one.hold(&reserve_for(&resource, LONG_SECONDS)).await;
    let mut hold = opened(&one, &[&grant.id], AtClose::Keep).await;
    // One is held, so these do not all have room. Nothing is looked up for that.
    let many = vec![grant.id.clone(); HELD_MAX];
    let refused = one.engine.hold(many, AtClose::Keep, caller()).await;
    match refused.map(drop) {
        Err(fault @ Fault::Overloaded { limit, .. }) => {
            assert_eq!(limit, HELD_MAX);
            assert!(fault.to_string().contains(&HELD_MAX.to_string()), "{fault}");
        }
        other => panic!("{other:?} instead of a limit that passes"),
    }
    assert_eq!(one.engine.holdings().held, 1);
    renewed(&mut hold).await;
    drop(opened(&one, &[&grant.id], AtClose::Keep).await);
}

engines! {
    a_holder_hears_at_once_that_its_reservation_was_released_elsewhere,
    a_holder_hears_of_the_loss_before_its_time_is_over_though_etcd_says_nothing,
    a_loss_is_seen_with_the_next_renewal_though_its_end_was_not_heard_of,
    a_keepalive_that_was_answered_late_makes_the_hold_last_from_when_it_was_sent,
    a_release_at_the_end_of_a_stream_that_finds_no_etcd_is_made_up_for,
    a_reservation_lasts_for_as_long_as_it_is_held_and_safe_for_grows_from_the_opening,
    a_reservation_outlives_a_cut_that_is_shorter_than_its_time,
    a_sidecar_holds_what_another_one_granted,
    more_than_a_sidecar_may_hold_is_a_limit_of_the_moment_and_what_is_held_stays,
    a_stop_ends_the_streams_and_leaves_what_is_not_to_be_released,
    a_stream_of_keepalives_that_fails_or_freezes_costs_no_reservation,
    renewals_of_many_share_the_looks_at_their_keys,
    renewals_that_come_late_stop_new_grants_before_anything_is_lost,
    the_end_of_a_stream_releases_what_it_held_if_that_was_asked_for_and_else_nothing,
    two_thousand_reservations_are_held_without_a_loss,
    what_is_over_when_the_stream_opens_is_told_and_the_rest_is_held,
    who_does_not_read_keeps_the_reservation_and_then_hears_only_the_newest,
}
