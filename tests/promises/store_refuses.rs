//! etcd refuses: it has no space, too much to do, or does not let the sidecar in. Whoever is told that nothing was done is told
//! the truth, and what needs no write goes on.

use std::time::Duration;

use fencepost::domain::decision::{Layer, Rule, Verdict};
use fencepost::engine::{Boottime, Fault};
use fencepost::store::BATCH_MEMBERS_MAX;
use futures_util::future::join_all;
use tonic::Code;

use crate::support::ask::{ask, body, create, fresh_resource, fresh_resources, reserve, together};
use crate::support::backend::Backend;
use crate::support::claim::{applied, judged, replayed};
use crate::support::fault::{Action, Ending, FaultPlan, Injected, NO_SPACE, Rpc};
use crate::support::sidecar::{caller, caller_for};
use crate::support::{engines, until};

/// More than a call of a sidecar may take here.
const PATIENT_CALL: Duration = Duration::from_secs(5);
/// What etcd says when it has too much to do.
pub(super) const BUSY: (Code, &str) = (Code::ResourceExhausted, "etcdserver: too many requests");

/// etcd has no space left, until these are lifted.
pub(super) fn full(plan: &FaultPlan) -> Vec<Injected> {
    let of = |rpc| plan.when(rpc).always().then(Action::NoSpace);
    [Rpc::Txn, Rpc::LeaseGrant].into_iter().map(of).collect()
}

// J6
async fn without_space_writes_are_refused_and_all_else_goes_on(backend: Backend) {
    let (one, plan) = backend.faulty().await;
    let two = backend.sidecar().await;
    let (order, held) = (fresh_resource(), fresh_resource());
    applied(
        &one.transition(&create(&order, "pending").result("made"))
            .await,
    );
    let grant = one.hold(&reserve(&held)).await;
    let faults = full(&plan);

    let pay = ask(&order, "pay").from(&["pending"]).to("paid");
    let refused = one.try_transition(&pay).await;
    assert!(
        matches!(refused, Err(Fault::StoreFull { .. })),
        "{refused:?}"
    );
    assert_eq!(two.state(&order).await, "pending", "nothing was done");
    let other = one.try_reserve(&reserve(&fresh_resource())).await;
    // A lease may have been at hand; then it is the commit that is refused.
    assert!(matches!(other, Err(Fault::StoreFull { .. })), "{other:?}");

    // What was done is told, what holds is renewed, what is true is judged.
    replayed(
        &one.transition(&create(&order, "pending")).await,
        &body("made"),
    );
    assert_eq!(one.state(&order).await, "pending");
    one.lookup(&order, "create").await;
    let renewed = one.renew(&grant.id).await;
    assert_eq!(renewed.decision.verdict, Verdict::Granted);
    let fenced = one.fence(&held, grant.token).await;
    judged(&fenced, Verdict::Granted, Layer::Fence, Rule::Live);

    // A release is a deletion.
    let released = one.release(&grant.id).await;
    assert_eq!(released.verdict, Verdict::Applied, "{released:?}");
    assert_eq!(two.live(&held).await, None);
    let next = two.hold(&reserve(&held)).await;
    assert!(next.token > grant.token);
    assert_eq!(one.release(&grant.id).await.verdict, Verdict::Replayed);
    assert_eq!(two.live(&held).await, Some(next.token));

    // There is space again, and nobody restarted anything.
    for fault in faults {
        fault.lift();
    }
    applied(&one.transition(&pay).await);
}

async fn the_write_that_took_the_last_space_is_answered_as_done(backend: Backend) {
    let (one, plan) = backend.faulty().await;
    let resource = fresh_resource();
    applied(&one.transition(&create(&resource, "pending")).await);
    let last = plan
        .when(Rpc::Txn)
        .containing(resource.id())
        .then(Action::DoAndSay(NO_SPACE.0, NO_SPACE.1));
    let faults = full(&plan);
    let pay = ask(&resource, "pay").from(&["pending"]).to("paid");
    applied(&one.transition(&pay.clone().result("first")).await);
    assert_eq!(last.hits(), 1);
    for fault in faults {
        fault.lift();
    }
    replayed(&one.transition(&pay.result("second")).await, &body("first"));
}

async fn requests_of_one_commit_are_each_told_whether_they_need_space(backend: Backend) {
    let (one, plan) = backend.faulty().await;
    let resource = fresh_resource();
    applied(&one.transition(&create(&resource, "pending")).await);
    let grant = one.hold(&reserve(&resource)).await;
    let _faults = full(&plan);
    let pay = ask(&resource, "pay")
        .from(&["pending"])
        .to("paid")
        .under(&grant.id);
    let (paid, state, live, released) = tokio::join!(
        one.try_transition(&pay),
        one.state(&resource),
        one.fence(&resource, grant.token),
        one.try_renew(&grant.id),
    );
    assert!(matches!(paid, Err(Fault::StoreFull { .. })), "{paid:?}");
    assert_eq!(state, "pending");
    judged(&live, Verdict::Granted, Layer::Fence, Rule::Live);
    assert_eq!(released.unwrap().decision.verdict, Verdict::Granted);
}

async fn a_release_is_taken_also_while_others_ask_for_space(backend: Backend) {
    let (one, plan) = backend.faulty().await;
    let mut grants = Vec::new();
    for _ in 0..20 {
        grants.push(one.hold(&reserve(&fresh_resource())).await);
    }
    let _faults = full(&plan);
    let others: Vec<_> = (0..24)
        .map(|_| {
            let one = one.clone();
            tokio::spawn(async move {
                loop {
                    let refused = one
                        .try_transition(&create(&fresh_resource(), "pending"))
                        .await;
                    assert!(
                        matches!(refused, Err(Fault::StoreFull { .. })),
                        "{refused:?}"
                    );
                }
            })
        })
        .collect();
    for grant in grants {
        assert_eq!(one.release(&grant.id).await.verdict, Verdict::Applied);
    }
    for other in others {
        other.abort();
    }
}

async fn a_claim_that_is_given_back_without_space_is_taken_for_interrupted(backend: Backend) {
    let (one, plan) = backend.faulty().await;
    let resource = fresh_resource();
    applied(&one.transition(&create(&resource, "pending")).await);
    let pay = ask(&resource, "pay").from(&["pending"]).to("paid");
    let grant = one.hold(&pay.claim()).await;
    let faults = full(&plan);
    let given_back = one.give_back(&grant.id).await;
    assert_eq!(given_back.verdict, Verdict::Applied, "{given_back:?}");
    for fault in faults {
        fault.lift();
    }
    // That nothing was done could not be written down; so nobody runs it again unasked.
    let again = one.reserve(&pay.claim()).await;
    assert_eq!(again.decision.verdict, Verdict::Interrupted);
}

/// The lane has to look again while it does not know what became of a release: here because somebody started a timeline.
async fn a_release_without_space_whose_reply_was_lost_is_not_told_that_nothing_was_done(
    backend: Backend,
) {
    let (one, plan) = backend.faulty_within(PATIENT_CALL).await;
    let two = backend.sidecar().await;
    let resource = fresh_resource();
    let grant = one.hold(&reserve(&resource)).await;
    let next = || plan.when(Rpc::Txn).containing(resource.id());
    // The release, the look at what is true, the bare release, and its repetition.
    let refused = next().then(Action::NoSpace);
    let look = next().then(Action::NoSpace);
    let lost = next().then(Action::LoseReply(Ending::Reset));
    let again = next().then(Action::Hold);
    let _full = full(&plan);
    let release = tokio::spawn({
        let (one, id) = (one.clone(), grant.id.clone());
        async move { one.try_release(&id).await }
    });
    again.met().await;
    assert_eq!((refused.hits(), lost.hits()), (1, 1));
    drop(look);
    assert_eq!(two.live(&resource).await, None, "it was done");
    two.start_timeline("the test says so").await;
    again.deliver().await;
    let told = release.await.unwrap();
    match &told {
        Ok(decision) => judged(decision, Verdict::Replayed, Layer::Replay, Rule::Lost),
        Err(fault) => assert!(matches!(fault, Fault::UnknownOutcome { .. }), "{told:?}"),
    }
}

/// Sooner than a call's deadline.
const TOLD_WITHIN: Duration = Duration::from_secs(4);

/// What was sent may still arrive, and cannot be settled; whoever asks about these resources is told so, and all else goes on.
async fn where_an_outcome_cannot_be_settled_without_space_everybody_is_told_so_at_once(
    backend: Backend,
) {
    let (one, plan) = backend.faulty().await;
    let [order, a, b] = fresh_resources();
    let held = fresh_resource();
    applied(&one.transition(&create(&order, "pending")).await);
    let grant = one.hold(&reserve(&order)).await;
    let elsewhere = one.hold(&reserve(&held)).await;
    let lost = [order.id(), a.id()].map(|id| {
        let commit = plan.when(Rpc::Txn).containing(id);
        commit.then(Action::Lose)
    });
    // Only once these are lost: what is refused before is not unsettled.
    let pay = ask(&order, "pay").from(&["pending"]).under(&grant.id);
    let both = together(&[a.clone(), b.clone()]);
    let sent = [
        tokio::spawn({
            let (one, pay) = (one.clone(), pay.clone());
            async move { one.try_transition(&pay).await.err() }
        }),
        tokio::spawn({
            let (one, both) = (one.clone(), both.clone());
            async move { one.try_reserve_together(&both).await.err() }
        }),
    ];
    let unsettled = [order.id(), a.id()].map(|id| {
        let again = plan.when(Rpc::Txn).containing(id).always();
        again.then(Action::NoSpace)
    });
    for fault in lost.iter().chain(&unsettled) {
        fault.met().await;
    }
    let asked = async {
        let inspected = one.engine.inspect(order.clone(), caller());
        let borrowed = one.engine.inspect(b.clone(), caller());
        let others = together(&[order.clone(), b.clone()]);
        tokio::join!(
            async { inspected.await.err() },
            async { borrowed.await.err() },
            async { one.try_renew(&grant.id).await.err() },
            async { one.try_release(&grant.id).await.err() },
            async { one.try_reserve(&reserve(&a)).await.err() },
            async { one.try_reserve_together(&others).await.err() },
        )
    };
    let told = tokio::time::timeout(TOLD_WITHIN, Box::pin(asked)).await;
    let (a, b, renewed, d, e, f) = told.expect("sooner than their deadlines");
    // Its keepalive was sent.
    assert!(
        matches!(renewed, Some(Fault::UnknownOutcome { .. })),
        "{renewed:?}"
    );
    for told in [a, b, d, e, f] {
        assert!(matches!(told, Some(Fault::StoreFull { .. })), "{told:?}");
    }
    assert!(one.renew(&elsewhere.id).await.grant.is_some());
    for fault in unsettled {
        fault.lift();
    }
    // There is space again, and what was sent is settled, and answered to whoever still waits.
    for sent in sent {
        assert_eq!(sent.await.unwrap(), None);
    }
    assert_eq!(
        one.fence(&order, grant.token).await.verdict,
        Verdict::Granted
    );
}

/// More calls than may be under way at once, those included whose callers have left.
const LEFT: usize = 20_000;
/// Those who call at once, so few that each has come as far as its lane before it leaves.
const AT_ONCE: usize = 500;
/// Lanes that stand still, so many that none has to turn anybody away.
const STILL: usize = 6;

async fn callers_who_have_left_lanes_that_stand_still_take_no_place_from_others(backend: Backend) {
    let (one, plan) = backend.faulty().await;
    let held = one.hold(&reserve(&fresh_resource())).await;
    let still: [_; STILL] = fresh_resources();
    for resource in &still {
        let silent = plan.when(Rpc::Txn).containing(resource.id()).always();
        silent.then(Action::DeliverLate(Ending::Reset));
    }
    let soon = Duration::from_millis(200);
    for _ in 0..LEFT / AT_ONCE {
        let calls = (0..AT_ONCE).map(|at| {
            let ask = reserve(&still[at % STILL]);
            one.engine.reserve(ask, caller_for(soon))
        });
        for told in join_all(calls).await {
            let told = told.unwrap_err();
            assert!(
                matches!(told, Fault::DeadlinePassed | Fault::UnknownOutcome { .. }),
                "{told:?}"
            );
        }
    }
    assert!(one.renew(&held.id).await.grant.is_some());
    one.hold(&reserve(&fresh_resource())).await;
}

async fn an_etcd_with_too_much_to_do_is_asked_again_within_bounds(backend: Backend) {
    let (one, plan) = backend.faulty().await;
    let resource = fresh_resource();
    let busy = plan
        .when(Rpc::Txn)
        .times(3)
        .then(Action::Refuse(BUSY.0, BUSY.1));
    applied(&one.transition(&create(&resource, "pending")).await);
    assert_eq!(busy.hits(), 3);

    let busy = plan
        .when(Rpc::Txn)
        .always()
        .then(Action::Refuse(BUSY.0, BUSY.1));
    let pay = ask(&resource, "pay").from(&["pending"]).to("paid");
    let refused = one.try_transition(&pay).await;
    assert!(
        matches!(refused, Err(Fault::StoreUnavailable { .. })),
        "{refused:?}"
    );
    assert_eq!(busy.hits(), 7, "once, and six times again");
    // Nothing is on its way between two tries, and a caller whose time runs out then is told so.
    let soon = caller_for(Duration::from_millis(300));
    // What begins a resource is sent at once, without a look.
    let begins = create(&fresh_resource(), "pending");
    let late = one.engine.transition(begins.build(), soon).await;
    assert_eq!(late, Err(Fault::DeadlinePassed));
    busy.lift();
    applied(&one.transition(&pay).await);
}

async fn a_missing_right_is_told_apart_and_mended_without_a_restart(backend: Backend) {
    let (one, plan) = backend.faulty().await;
    let resource = fresh_resource();
    let denied = plan.when(Rpc::Txn).always().then(Action::Refuse(
        Code::PermissionDenied,
        "etcdserver: permission denied",
    ));
    let refused = one.try_transition(&create(&resource, "pending")).await;
    assert!(
        matches!(refused, Err(Fault::StoreDenied { .. })),
        "{refused:?}"
    );
    denied.lift();
    applied(&one.transition(&create(&resource, "pending")).await);
}

/// Callers that all come back when etcd does.
const CALLERS: usize = 400;
/// How long the outage may last.
const OUTAGE_MAX: Duration = Duration::from_secs(20);
/// A request for each caller would be a stampede; commits and reads are merged.
const REQUESTS_MAX: usize = CALLERS / 4;

// What waits in lanes while etcd is away comes back merged and spread.
async fn after_an_outage_all_come_back_with_few_requests(backend: Backend) {
    let (one, plan) = backend.faulty().await;
    let resources: Vec<_> = (0..CALLERS).map(|_| fresh_resource()).collect();
    // Their commits were sent and lost: they stay in their lanes until it is known what became of them.
    let lost = plan.when(Rpc::Txn).always().then(Action::Lose);
    let asks = resources.iter().map(|resource| create(resource, "pending"));
    let calls: Vec<_> = asks
        .map(|ask| {
            let one = one.clone();
            tokio::spawn(async move { one.try_transition(&ask).await })
        })
        .collect();
    // All have been sent at least once, in whatever batches.
    until("all commits are lost", OUTAGE_MAX, || async {
        (lost.hits() >= CALLERS / BATCH_MEMBERS_MAX * 4).then_some(())
    })
    .await;
    let before = plan.counts();
    let healed = Boottime::now();
    lost.lift();
    for answer in join_all(calls).await {
        applied(&answer.unwrap().unwrap());
    }
    let took = Boottime::now().since(healed);
    let sent = plan.counts().since(&before).all();
    assert!(
        sent <= REQUESTS_MAX,
        "{sent} requests for {CALLERS} callers in {took:?}"
    );
}

engines!(
    without_space_writes_are_refused_and_all_else_goes_on,
    the_write_that_took_the_last_space_is_answered_as_done,
    requests_of_one_commit_are_each_told_whether_they_need_space,
    a_release_is_taken_also_while_others_ask_for_space,
    a_claim_that_is_given_back_without_space_is_taken_for_interrupted,
    a_release_without_space_whose_reply_was_lost_is_not_told_that_nothing_was_done,
    an_etcd_with_too_much_to_do_is_asked_again_within_bounds,
    a_missing_right_is_told_apart_and_mended_without_a_restart,
    after_an_outage_all_come_back_with_few_requests,
    callers_who_have_left_lanes_that_stand_still_take_no_place_from_others,
    where_an_outcome_cannot_be_settled_without_space_everybody_is_told_so_at_once,
);
