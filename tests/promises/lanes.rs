//! Requests that meet in one lane or one transaction: what becomes of one does not harm the others.

use std::time::Duration;

use etcd_client::GetOptions;
use fencepost::domain::decision::{Layer, Rule, Verdict};
use fencepost::domain::ids::{Nonce, ResourceId};
use fencepost::domain::token::{TOKEN_MAX, Timeline};
use fencepost::engine::{Fault, OperationState};
use futures_util::future::{join_all, poll_immediate};

use crate::support::ask::{ask, create, fresh_resource, reserve};
use crate::support::backend::Backend;
use crate::support::claim::{applied, judged};
use crate::support::engines;
use crate::support::fault::{Action, Ending, FaultPlan, Injected, Rpc};
use crate::support::sidecar::{Sidecar, caller_for};

/// A sidecar that waits for a held request must not give up meanwhile.
const PATIENT_CALL: Duration = Duration::from_secs(15);
/// Long enough for a request to be on its way, short enough to wait for.
const IMPATIENT: Duration = Duration::from_millis(300);
/// So many may wait in a lane.
const LANE_QUEUE_MAX: usize = 4096;
/// So many transactions may be under way.
const BATCHES_IN_FLIGHT_MAX: usize = 4;
/// A record knows how the last round ended, and this many before it.
const PAST_ROUNDS: usize = 8;

fn hold_next(plan: &FaultPlan, resource: &ResourceId) -> Injected {
    plan.when(Rpc::Txn)
        .containing(resource.id())
        .then(Action::Hold)
}

fn spawn_create(sidecar: &Sidecar, resource: &ResourceId) -> tokio::task::JoinHandle<()> {
    let (sidecar, ask) = (sidecar.clone(), create(resource, "new"));
    tokio::spawn(async move { applied(&sidecar.transition(&ask).await) })
}

async fn a_request_withdrawn_while_it_waits_is_never_done(backend: Backend) {
    let (one, plan) = backend.faulty_within(PATIENT_CALL).await;
    let resource = fresh_resource();
    let held = hold_next(&plan, &resource);
    let first = spawn_create(&one, &resource);
    held.met().await;
    let withdrawn = ask(&resource, "withdrawn").build();
    let answer = one.engine.transition(withdrawn, caller_for(IMPATIENT));
    assert_eq!(answer.await, Err(Fault::DeadlinePassed));
    held.deliver().await;
    first.await.unwrap();
    let other = one.transition(&ask(&resource, "other")).await;
    assert_eq!(other.verdict, Verdict::Applied);
    let known = backend.sidecar().await.lookup(&resource, "withdrawn").await;
    assert_eq!(known.state, OperationState::NeverSeen);
}

async fn callers_who_have_left_hold_no_place_in_a_lane(backend: Backend) {
    let (one, plan) = backend.faulty_within(PATIENT_CALL).await;
    let resource = fresh_resource();
    let held = hold_next(&plan, &resource);
    let first = spawn_create(&one, &resource);
    held.met().await;
    let leaving = (0..LANE_QUEUE_MAX).map(|_| {
        let asked = one.engine.inspect(resource.clone(), caller_for(IMPATIENT));
        async move { asked.await.unwrap_err() }
    });
    let answers = join_all(leaving).await;
    assert!(answers.iter().all(|fault| *fault == Fault::DeadlinePassed));
    let mut stays = Box::pin(one.state(&resource));
    let answer = poll_immediate(&mut stays).await;
    assert_eq!(answer, None, "it waits with those who have left");
    held.deliver().await;
    first.await.unwrap();
    assert_eq!(stays.await, "new");
}

async fn a_lease_that_is_gone_spoils_nothing_for_those_who_came_with_it(backend: Backend) {
    let (one, plan) = backend.faulty_within(PATIENT_CALL).await;
    let mut raw = backend.raw().await;
    // The lease of a round that was released is the first to serve again.
    let warm = fresh_resource();
    let round = one.hold(&reserve(&warm)).await;
    let family = format!("{}h/", backend.prefix());
    let keys = Some(GetOptions::new().with_prefix());
    let lease = raw.get(family, keys).await.unwrap().kvs()[0].lease();
    one.release(&round.id).await;
    raw.lease_revoke(lease).await.unwrap();

    let blockers: Vec<_> = (0..BATCHES_IN_FLIGHT_MAX)
        .map(|_| fresh_resource())
        .collect();
    let mut holding = Vec::new();
    for blocker in &blockers {
        let held = hold_next(&plan, blocker);
        let call = spawn_create(&one, blocker);
        held.met().await;
        holding.push((held, call));
    }
    let (taken, moved) = (fresh_resource(), fresh_resource());
    let mine = reserve(&taken);
    let poisoned = one.engine.reserve(mine.clone(), caller_for(IMPATIENT));
    let pay = ask(&moved, "pay").result("receipt");
    let beside = one.engine.transition(pay.build(), caller_for(IMPATIENT));
    let (poisoned, beside) = tokio::join!(poisoned, beside);
    assert!(matches!(poisoned, Err(Fault::UnknownOutcome { .. })));
    assert!(matches!(beside, Err(Fault::UnknownOutcome { .. })));
    for (held, call) in holding {
        held.deliver().await;
        call.await.unwrap();
    }
    let two = backend.sidecar().await;
    let again = one.reserve(&mine).await;
    judged(
        &again.decision,
        Verdict::Granted,
        Layer::Replay,
        Rule::SameRequest,
    );
    assert_eq!(two.live(&taken).await, Some(again.grant.unwrap().token));
    let again = two.transition(&pay).await;
    assert_eq!(again.verdict, Verdict::Replayed, "it was done all the same");
}

async fn a_grant_that_came_and_went_unseen_is_not_given_its_old_name_again(backend: Backend) {
    let (one, plan) = backend.faulty_within(PATIENT_CALL).await;
    let two = backend.sidecar().await;
    let resource = fresh_resource();
    let mine = reserve(&resource);
    let next_txn = || plan.when(Rpc::Txn).containing(resource.id());
    let lost = next_txn().then(Action::LoseReply(Ending::Reset));
    let settling = next_txn().then(Action::Hold);
    let (sidecar, asked) = (one.clone(), mine.clone());
    let unseen = tokio::spawn(async move { sidecar.reserve(&asked).await });
    lost.met().await;
    settling.met().await;
    // Meanwhile the caller learns of its round elsewhere, ends it, and so many follow that the record forgets it.
    let first = two.hold(&mine).await;
    two.release(&first.id).await;
    for _ in 0..=PAST_ROUNDS {
        let round = two.hold(&reserve(&resource)).await;
        two.release(&round.id).await;
    }
    settling.deliver().await;
    let later = unseen.await.unwrap().grant.expect("it is free");
    assert!(later.token > first.token);
    assert_ne!(later.id, first.id);
    let old = two
        .transition(&ask(&resource, "old").under(&first.id))
        .await;
    assert_eq!(old.verdict, Verdict::Fenced, "{old:?}");
    assert_eq!(two.renew(&first.id).await.grant, None);
}

// A token that no etcd reaches: the one way to break an invariant of ours from outside.
async fn a_request_whose_work_broke_down_is_not_said_to_be_undone(backend: Backend) {
    let timeline = Timeline {
        id: Nonce::from_bytes([7; 16]),
        base: TOKEN_MAX,
        min_token: 0,
    };
    let prefix = backend.prefix();
    let one = Sidecar::open_with(backend.channel(), prefix, PATIENT_CALL, timeline).await;
    let answer = one.try_reserve(&reserve(&fresh_resource())).await;
    assert!(
        matches!(answer, Err(Fault::UnknownOutcome { .. })),
        "{answer:?}"
    );
}

engines! {
    a_request_withdrawn_while_it_waits_is_never_done,
    callers_who_have_left_hold_no_place_in_a_lane,
    a_lease_that_is_gone_spoils_nothing_for_those_who_came_with_it,
    a_grant_that_came_and_went_unseen_is_not_given_its_old_name_again,
    a_request_whose_work_broke_down_is_not_said_to_be_undone,
}
