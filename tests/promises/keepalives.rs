//! The streams that renewals go over: enough of them, and none that one reservation spoils for the others.

use std::time::Duration;

use etcd_client::GetOptions;
use etcd_client::proto::PbLeaseKeepAliveRequest;
use fencepost::domain::decision::{Layer, Rule, Verdict};
use fencepost::domain::ids::{ReservationId, ResourceId};
use fencepost::engine::{AtClose, Boottime, Fault, Hold, HoldNews};
use futures_util::future::join_all;
use prost::Message as _;
use tonic::Code;

use super::fence::{OVER_WITHIN, SHORTEST_SECONDS};
use super::holds::{opened, renewed, told};
use crate::support::ask::{fresh_resource, reserve, reserve_for};
use crate::support::backend::Backend;
use crate::support::claim::judged;
use crate::support::fault::{Action, Ending, FaultPlan, Injected, Rpc};
use crate::support::sidecar::{Sidecar, caller};
use crate::support::{engines, until};

/// More than a call of these sidecars may take.
const PATIENT_CALL: Duration = Duration::from_secs(5);
/// Reservations of one stream.
const PER_STREAM: usize = 200;

/// Opens streams for many reservations, one after another: what was reserved must not run out while others are reserved.
pub(super) async fn many_held(one: &Sidecar, count: usize, ttl_seconds: u32) -> Vec<Hold> {
    let mut streams = Vec::new();
    for _ in 0..count / PER_STREAM {
        let asks: Vec<_> = (0..PER_STREAM)
            .map(|_| reserve_for(&fresh_resource(), ttl_seconds))
            .collect();
        let grants = join_all(asks.iter().map(|ask| one.hold(ask))).await;
        let ids: Vec<_> = grants.iter().map(|grant| &grant.id).collect();
        streams.push(opened(one, &ids, AtClose::Keep).await);
    }
    streams
}

/// Reads a stream for so long; nothing on it is lost.
async fn nothing_lost(hold: &mut Hold, span: Duration) {
    let begun = Boottime::now();
    while Boottime::now().since(begun) < span {
        match told(hold).await.news {
            HoldNews::Renewed(_) | HoldNews::Expiring(_) => {}
            HoldNews::Lost(decision) => panic!("{decision:?}"),
        }
    }
}

/// As through a member that has to ask a leader far away for each.
async fn hundreds_are_held_through_a_member_that_takes_its_time_for_each_keepalive(
    backend: Backend,
) {
    /// So that each second 120 are due, of which four streams could carry 80.
    const HELD: usize = 800;
    const TTL_SECONDS: u32 = 20;
    const EACH: Duration = Duration::from_millis(50);
    let (one, plan) = backend.faulty_within(PATIENT_CALL).await;
    let slow = plan.when(Rpc::LeaseKeepAlive).always();
    let slow = slow.then(Action::SlowReply(EACH));
    let mut streams = many_held(&one, HELD, TTL_SECONDS).await;
    let span = Duration::from_secs(TTL_SECONDS.into()) * 3 / 2;
    join_all(streams.iter_mut().map(|hold| nothing_lost(hold, span))).await;
    let holdings = one.engine.holdings();
    assert_eq!((holdings.held, holdings.lost), (HELD, 0), "{holdings:?}");
    assert!(!holdings.strained, "{holdings:?}");
    // Each when its stream was opened, and then about every third of the TTL.
    assert!(slow.hits() >= 3 * HELD, "{holdings:?}, {}", slow.hits());
}

// B10
async fn thousands_of_late_renewals_stop_new_grants_before_one_of_them_is_lost(backend: Backend) {
    const HELD: usize = 2_000;
    const TTL_SECONDS: u32 = 20;
    /// What a keepalive takes, more and more, in milliseconds.
    const STEPS: [u64; 6] = [10, 50, 200, 400, 800, 800];
    /// How long each of these lasts, if it is borne so long.
    const STEP: Duration = Duration::from_secs(4);
    let (one, plan) = backend.faulty_within(PATIENT_CALL).await;
    let mut streams = many_held(&one, HELD, TTL_SECONDS).await;
    let asking = async {
        let mut slow = None::<Injected>;
        for step in STEPS {
            let next = plan.when(Rpc::LeaseKeepAlive).always();
            let next = next.then(Action::SlowReply(Duration::from_millis(step)));
            if let Some(before) = slow.replace(next) {
                before.lift();
            }
            let begun = Boottime::now();
            while Boottime::now().since(begun) < STEP {
                let wish = reserve(&fresh_resource());
                if let Err(fault) = one.try_reserve(&wish).await {
                    return (fault, slow);
                }
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        }
        panic!("nothing was ever late: {:?}", one.engine.holdings());
    };
    let (refused, slow) = asking.await;
    assert!(matches!(refused, Fault::RenewalsLate { .. }), "{refused:?}");
    let strained = one.engine.holdings();
    assert!(strained.strained, "{strained:?}");
    assert_eq!((strained.held, strained.lost), (HELD, 0));
    slow.iter().for_each(Injected::lift);
    until("grants are given again", OVER_WITHIN, || async {
        let wish = reserve(&fresh_resource());
        one.try_reserve(&wish).await.ok()
    })
    .await;
    // All of them outlive it.
    let span = Duration::from_secs(TTL_SECONDS.into());
    join_all(streams.iter_mut().map(|hold| nothing_lost(hold, span))).await;
    let holdings = one.engine.holdings();
    assert_eq!((holdings.held, holdings.lost), (HELD, 0), "{holdings:?}");
}

/// The lease of a live reservation, as a keepalive names it.
async fn named_in_keepalives(backend: &Backend, resource: &ResourceId) -> Vec<u8> {
    let all = Some(GetOptions::new().with_prefix());
    let holds = format!("{}h/", backend.prefix());
    let found = backend.raw().await.get(holds, all).await.unwrap();
    let mut keys = found.kvs().iter();
    let key = keys.find(|kv| String::from_utf8_lossy(kv.key()).contains(resource.id()));
    let id = key.expect("it is held").lease();
    PbLeaseKeepAliveRequest { id }.encode_to_vec()
}

/// etcd answers no keepalive of a lease that has run out until it has ended it, nor any that comes after it on that stream. Of a
/// round that another sidecar granted nobody knows here whether it has.
async fn a_reservation_of_unknown_end_holds_up_no_other_and_makes_no_member_suspect(
    backend: Backend,
) {
    const TTL_SECONDS: u32 = 6;
    const OWN: usize = 50;
    let (one, plans) = backend.faulty_on_two_lines(PATIENT_CALL).await;
    let other = backend.sidecar().await;
    let resource = fresh_resource();
    let foreign = other.hold(&reserve(&resource)).await;
    let lease = named_in_keepalives(&backend, &resource).await;
    let mut own = Vec::new();
    for _ in 0..OWN {
        own.push(one.hold(&reserve_for(&fresh_resource(), TTL_SECONDS)).await);
    }
    let ids: Vec<&ReservationId> = own.iter().map(|grant| &grant.id).collect();
    let mut own = opened(&one, &ids, AtClose::Keep).await;
    for _ in 0..OWN {
        renewed(&mut own).await;
    }
    let unanswered = plans.each_ref().map(|plan| {
        let its = plan.when(Rpc::LeaseKeepAlive).containing(&lease);
        its.always().then(Action::Hold)
    });
    let before = plans.each_ref().map(FaultPlan::counts);
    let mut held = opened(&one, &[&foreign.id], AtClose::Keep).await;
    let asked = tokio::spawn({
        let (one, id) = (one.clone(), foreign.id.clone());
        async move { one.try_renew(&id).await }
    });
    let span = 2 * Duration::from_secs(TTL_SECONDS.into());
    nothing_lost(&mut own, span).await;
    let renewal = asked.await.unwrap();
    assert!(
        matches!(renewal, Err(Fault::UnknownOutcome { .. })),
        "{renewal:?}"
    );
    let holdings = one.engine.holdings();
    assert_eq!((holdings.held, holdings.lost), (OWN + 1, 0));
    let hits: usize = unanswered.iter().map(Injected::hits).sum();
    assert!(hits > 1, "it is asked for again: {hits}");
    // Whoever is ejected is asked for nothing while there is another. On a busy machine a look may be slow, and asked of both.
    let asked = [0, 1].map(|at| plans[at].counts().since(&before[at]).of(Rpc::Txn));
    assert!(asked[0] > 10 * asked[1], "{asked:?}");
    // etcd has made up its mind.
    for plan in unanswered.iter().filter(|plan| plan.hits() > 0) {
        plan.deliver().await;
    }
    unanswered.iter().for_each(Injected::lift);
    assert_eq!(renewed_at_last(&mut held).await, foreign.token);
}

async fn renewed_at_last(hold: &mut Hold) -> fencepost::domain::token::FencingToken {
    loop {
        match told(hold).await.news {
            HoldNews::Renewed(grant) => return grant.token,
            HoldNews::Expiring(_) => {}
            HoldNews::Lost(decision) => panic!("{decision:?}"),
        }
    }
}

/// Keepalives go over a member that is well, and the looks that belong to them to one that answers nothing else.
async fn a_member_that_hangs_for_all_but_keepalives_costs_not_even_the_shortest_hold(
    backend: Backend,
) {
    let ttl = Duration::from_secs(SHORTEST_SECONDS.into());
    let (one, [first, second]) = backend.faulty_on_two_lines(PATIENT_CALL).await;
    let resource = fresh_resource();
    let grant = one.hold(&reserve_for(&resource, SHORTEST_SECONDS)).await;
    let mut hold = opened(&one, &[&grant.id], AtClose::Keep).await;
    renewed(&mut hold).await;
    // Questions go to the second from now on; the streams stay where they are.
    let hiccup = [Rpc::Txn, Rpc::Range].map(|rpc| first.when(rpc).always().then(Action::Cut));
    until("questions go elsewhere", OVER_WITHIN, || async {
        one.live(&resource).await?;
        (second.counts().keys() > 0).then_some(())
    })
    .await;
    hiccup.iter().for_each(Injected::lift);
    renewed(&mut hold).await;
    let before = first.counts();
    let hung = [Rpc::Txn, Rpc::Range].map(|rpc| {
        let every = second.when(rpc).always();
        every.then(Action::DeliverLate(Ending::Silence))
    });
    nothing_lost(&mut hold, 3 * ttl).await;
    assert!(first.counts().since(&before).of(Rpc::LeaseKeepAlive) > 0);
    let hits: usize = hung.iter().map(Injected::hits).sum();
    assert!(hits > 0, "no look met it");
    let live = one.renew(&grant.id).await;
    judged(
        &live.decision,
        Verdict::Granted,
        Layer::Fence,
        Rule::Renewed,
    );
}

// B5
async fn after_a_fault_of_its_stream_a_renewal_is_confirmed_within_a_third_of_the_ttl(
    backend: Backend,
) {
    const TTL_SECONDS: u32 = 9;
    let third = Duration::from_secs(TTL_SECONDS.into()) / 3;
    let runs = STREAM_FAULTS.map(|fault| {
        let backend = backend.clone();
        async move {
            let (one, plan) = backend.faulty_within(PATIENT_CALL).await;
            let grant = one.hold(&reserve_for(&fresh_resource(), TTL_SECONDS)).await;
            let hold = one.engine.hold(vec![grant.id], AtClose::Keep, caller());
            let mut hold = hold.await.unwrap();
            renewed(&mut hold).await;
            let fault = plan.when(Rpc::LeaseKeepAlive).then(fault);
            fault.met().await;
            let begun = Boottime::now();
            renewed_at_last(&mut hold).await;
            let took = Boottime::now().since(begun);
            assert!(took < third, "{fault:?}: {took:?}");
        }
    });
    join_all(runs).await;
}

/// What becomes of one message of a stream of keepalives, and of the stream with it.
pub(super) const STREAM_FAULTS: [Action; 8] = [
    Action::LoseReply(Ending::Silence),
    Action::LoseReply(Ending::Reset),
    Action::DeliverLate(Ending::Silence),
    Action::Lose,
    // Nothing that is sent on that stream after it arrives either.
    Action::Hold,
    // The member has lost its leader, stops, or knows the token no more.
    Action::Refuse(Code::Unavailable, "etcdserver: no leader"),
    Action::Refuse(Code::Unavailable, "etcdserver: server stopped"),
    Action::Refuse(Code::Unknown, "etcdserver: request timed out"),
];

/// Where more is due than can be answered, what is answered is of use to somebody.
async fn a_renewal_that_nobody_waits_for_any_more_is_not_sent(backend: Backend) {
    const TTL_SECONDS: u32 = 6;
    const HELD: usize = 640;
    /// So slow that most tries end before they could be sent, and not so slow that a stream falls silent.
    const EACH: Duration = Duration::from_millis(500);
    let (one, plan) = backend.faulty_within(PATIENT_CALL).await;
    let asks: Vec<_> = (0..HELD)
        .map(|_| reserve_for(&fresh_resource(), TTL_SECONDS))
        .collect();
    let grants = join_all(asks.iter().map(|ask| one.hold(ask))).await;
    let ids: Vec<_> = grants.iter().map(|grant| &grant.id).collect();
    let before = plan.counts();
    let slow = plan.when(Rpc::LeaseKeepAlive).always();
    let slow = slow.then(Action::SlowReply(EACH));
    let held = opened(&one, &ids, AtClose::Keep).await;
    let tried = until("all were tried twice in vain", OVER_WITHIN, || async {
        let failed = usize::try_from(one.engine.holdings().failed).unwrap();
        (failed >= 2 * HELD).then_some(failed)
    });
    let tried = tried.await;
    let asked = plan.counts().since(&before);
    assert!(asked.of(Rpc::LeaseKeepAlive) < tried, "{asked} of {tried}");
    slow.lift();
    drop(held);
}

engines! {
    a_member_that_hangs_for_all_but_keepalives_costs_not_even_the_shortest_hold,
    a_renewal_that_nobody_waits_for_any_more_is_not_sent,
    a_reservation_of_unknown_end_holds_up_no_other_and_makes_no_member_suspect,
    after_a_fault_of_its_stream_a_renewal_is_confirmed_within_a_third_of_the_ttl,
    hundreds_are_held_through_a_member_that_takes_its_time_for_each_keepalive,
    thousands_of_late_renewals_stop_new_grants_before_one_of_them_is_lost,
}
