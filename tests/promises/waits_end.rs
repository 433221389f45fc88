//! How waits for busy resources end where something is amiss: by a cancelled call, in silence, without a right, over the limit.

use std::time::Duration;

use fencepost::domain::decision::{Advice, Decision, Layer, Rule, Verdict};
use fencepost::domain::together::TOGETHER_MAX;
use fencepost::engine::{Boottime, Fault, WAITERS_MAX};
use fencepost::proto::v1;
use futures_util::TryFutureExt as _;
use futures_util::future::join_all;
use tonic::Code;
use uuid::Uuid;

use super::holds::silence;
use super::queue::{
    LONG, LOOKED_WITHIN, SESSION_OVER_WITHIN, WOKEN_WITHIN, nobody_waits, queued, queued_within,
    served, waits,
};
use super::queue_several::waits_for_all;
use crate::support::ask::{ask, create, fresh_resource, fresh_resources, reserve, together};
use crate::support::backend::{Backend, SHORT_CALL_TIMEOUT};
use crate::support::claim::{applied, judged};
use crate::support::fault::{Action, FaultPlan, Injected, Rpc};
use crate::support::process::Process;
use crate::support::sidecar::{Sidecar, Waiting, caller_for};
use crate::support::{bounded, engines, until};

/// Long enough for an entry to be made before it is over.
const WAIT: Duration = Duration::from_secs(6);
/// When the caller is no longer there.
const DEADLINE: Duration = Duration::from_secs(9);
/// A call of a sidecar to etcd may take so long that it outlasts what is left of a wait.
const PATIENT_CALL: Duration = Duration::from_secs(5);
/// What etcd says to a user without the right.
const DENIED: (Code, &str) = (Code::PermissionDenied, "etcdserver: permission denied");

/// What a call that waited was told, and when.
type Ended = (Result<Decision, Fault>, Boottime);

/// One of each kind of call, waiting for a busy resource of its own; and a way to free these.
struct Three {
    holder: Sidecar,
    rounds: Vec<fencepost::domain::ids::ReservationId>,
    began: Boottime,
    calls: Vec<tokio::task::JoinHandle<Ended>>,
    resources: [fencepost::domain::ids::ResourceId; 4],
}

impl Three {
    /// They are queued at `waiting`, and `holder` holds what they wait for.
    async fn wait(backend: &Backend, holder: &Sidecar, waiting: &Sidecar) -> Self {
        let resources: [_; 4] = fresh_resources();
        let [one, moved, first, second] = &resources;
        let both = || together(&[first.clone(), second.clone()]);
        applied(&holder.transition(&create(moved, "pending")).await);
        let rounds = vec![
            holder.hold(&reserve(one)).await.id,
            holder.hold(&reserve(moved)).await.id,
            holder.hold_together(&both()).await.id,
        ];
        let began = Boottime::now();
        let (caller, engine) = (caller_for(DEADLINE), &waiting.engine);
        let reserve = {
            let (engine, ask) = (engine.clone(), reserve(one));
            tokio::spawn(async move {
                let asked = engine.reserve_or_wait(ask, WAIT, caller);
                let told = asked.map_ok(|reserved| reserved.decision).await;
                (told, Boottime::now())
            })
        };
        let transition = {
            let pay = ask(moved, "pay").from(&["pending"]).to("paid");
            let (engine, ask) = (engine.clone(), pay.build());
            tokio::spawn(async move {
                let told = engine.transition_or_wait(ask, WAIT, caller).await;
                (told, Boottime::now())
            })
        };
        let several = {
            let (engine, ask) = (engine.clone(), both());
            tokio::spawn(async move {
                let asked = engine.reserve_together_or_wait(ask, WAIT, caller);
                let told = asked.map_ok(|reserved| reserved.decision).await;
                (told, Boottime::now())
            })
        };
        for resource in &resources {
            queued(backend, resource, 1).await;
        }
        Self {
            holder: holder.clone(),
            rounds,
            began,
            calls: vec![reserve, transition, several],
            resources,
        }
    }

    /// All that they wait for becomes free.
    async fn free(&self) {
        for round in &self.rounds {
            let ended = self.holder.release(round).await;
            judged(&ended, Verdict::Applied, Layer::Result, Rule::Ended);
        }
    }

    async fn are_told_busy_before_their_deadline(self) {
        for (at, call) in self.calls.into_iter().enumerate() {
            let (told, when) = call.await.unwrap();
            let told = told.unwrap_or_else(|fault| panic!("call {at}: {fault:?}"));
            assert_eq!(told.verdict, Verdict::Busy, "call {at}: {told:?}");
            let took = when.since(self.began);
            assert!((WAIT..DEADLINE).contains(&took), "call {at}: {took:?}");
        }
    }
}

// A3
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_call_that_is_cancelled_while_it_waits_holds_up_nobody() {
    bounded(Box::pin(async {
        let backend = Backend::real().await;
        let url = backend.url().await;
        let one = backend.sidecar().await;
        let process = Process::serve(&url, backend.prefix(), &[]).await;
        for hangs_up in [false, true] {
            let resource = fresh_resource();
            let holder = one.hold(&reserve(&resource)).await;
            let wish = v1::ReserveRequest {
                resource: Some(v1::Resource {
                    kind: resource.kind().to_string(),
                    id: resource.id().to_owned(),
                }),
                request_id: Uuid::new_v4().to_string(),
                ttl: Some(seconds(60)),
                wait: Some(seconds(30)),
                ..v1::ReserveRequest::default()
            };
            let client = process.client();
            // Where another client of the same connection is left, only the call is cancelled.
            let stays = (!hangs_up).then(|| client.clone());
            let mut client = client;
            let call = tokio::spawn(async move { client.reserve(wish).await });
            queued(&backend, &resource, 1).await;
            let next = waits(&one, &resource);
            queued(&backend, &resource, 2).await;
            call.abort();
            assert!(call.await.unwrap_err().is_cancelled());
            one.release(&holder.id).await;
            let grant = served(next, WOKEN_WITHIN).await;
            assert_eq!(one.live(&resource).await, Some(grant.token));
            queued(&backend, &resource, 0).await;
            // Nor does it come back.
            one.release(&grant.id).await;
            one.hold(&reserve(&resource)).await;
            drop(stays);
        }
    }))
    .await;
}

fn seconds(seconds: i64) -> prost_types::Duration {
    prost_types::Duration { seconds, nanos: 0 }
}

async fn a_wait_ends_in_a_decision_before_the_deadline_though_etcd_says_nothing(backend: Backend) {
    let runs = [SHORT_CALL_TIMEOUT, PATIENT_CALL].map(|call_timeout| {
        let backend = backend.clone();
        async move {
            let one = backend.sidecar().await;
            let (two, plan) = backend.faulty_within(call_timeout).await;
            let waiting = Three::wait(&backend, &one, &two).await;
            let silent = silence(&plan);
            // What is heard of it wakes them, and they ask in vain. As nothing is granted on a guess, no outcome is unknown.
            waiting.free().await;
            let resources = waiting.resources.clone();
            waiting.are_told_busy_before_their_deadline().await;
            let asked: usize = silent.iter().map(Injected::hits).sum();
            assert!(asked > 0, "nobody asked");
            silent.iter().for_each(Injected::lift);
            // Whoever was told BUSY holds nothing, and no place.
            for resource in &resources {
                queued_within(&backend, resource, 0, SESSION_OVER_WITHIN).await;
                assert_eq!(one.live(resource).await, None);
            }
            assert_eq!(one.state(&resources[1]).await, "pending");
            one.hold_together(&together(&resources)).await;
        }
    });
    join_all(runs).await;
}

/// From now on etcd lets nobody do anything.
fn deny(plan: &FaultPlan) -> Vec<Injected> {
    let denied = [Rpc::Txn, Rpc::Range, Rpc::LeaseGrant].map(|rpc| {
        let every = plan.when(rpc).always();
        every.then(Action::Refuse(DENIED.0, DENIED.1))
    });
    denied.into()
}

async fn a_wait_outlasts_a_right_that_is_missing_for_a_while(backend: Backend) {
    let one = backend.sidecar().await;
    let (two, plan) = backend.faulty_within(PATIENT_CALL).await;
    let resource = fresh_resource();
    let both: [_; 2] = fresh_resources();
    let holders = [
        one.hold(&reserve(&resource)).await,
        one.hold_together(&together(&both)).await,
    ];
    let all = [waits(&two, &resource), waits_for_all(&two, &both)];
    queued(&backend, &resource, 1).await;
    queued(&backend, &both[1], 1).await;
    let denied = deny(&plan);
    for holder in &holders {
        one.release(&holder.id).await;
    }
    // Each has asked, and asked again.
    until("questions are denied", LOOKED_WITHIN, || async {
        let denied: usize = denied.iter().map(Injected::hits).sum();
        (denied >= 8).then_some(())
    })
    .await;
    denied.iter().for_each(Injected::lift);
    for waits in all {
        served(waits, LOOKED_WITHIN).await;
    }
}

async fn a_wait_that_ends_while_a_right_is_missing_ends_in_a_decision(backend: Backend) {
    let one = backend.sidecar().await;
    let (two, plan) = backend.faulty_within(PATIENT_CALL).await;
    let waiting = Three::wait(&backend, &one, &two).await;
    let denied = deny(&plan);
    waiting.free().await;
    waiting.are_told_busy_before_their_deadline().await;
    // Who comes only now, and of whom nothing is known yet, is told the reason.
    let told = two
        .engine
        .reserve_or_wait(reserve(&fresh_resource()), WAIT, caller_for(DEADLINE));
    let told = told.await;
    assert!(matches!(told, Err(Fault::StoreDenied { .. })), "{told:?}");
    denied.iter().for_each(Injected::lift);
}

/// Fails unless it is told at once, as if it did not want to wait, and clearly.
async fn is_answered_at_once(waits: Waiting<fencepost::engine::Reserved>) {
    let told = tokio::time::timeout(WOKEN_WITHIN, waits).await;
    let told = told.expect("at once").unwrap().expect("a decision");
    judged(&told.decision, Verdict::Busy, Layer::Fence, Rule::Held);
    assert_eq!(told.decision.advice(), Advice::Retry);
    assert!(told.decision.retry_after.is_some());
    assert!(told.decision.now.unwrap().live.is_some());
    assert_eq!(told.grant, None);
}

async fn of_those_who_wait_for_busy_resources_there_are_never_more_than_the_limit(
    backend: Backend,
) {
    let [one, two] = backend.sidecars().await;
    let all: [_; TOGETHER_MAX] = fresh_resources();
    let busy = fresh_resource();
    let of_all = one.hold_together(&together(&all)).await;
    let of_one = one.hold(&reserve(&busy)).await;
    let most = usize::try_from(WAITERS_MAX).unwrap();
    // Half of the places are taken by some who want all, and most of the rest by many who want one.
    let few = most / 2 / TOGETHER_MAX;
    let many = most - few * TOGETHER_MAX - (TOGETHER_MAX - 1);
    let calls = |wanted: usize| {
        let two = &two;
        async move {
            let look = || async { (two.engine.waiters().calls == wanted).then_some(()) };
            until(&format!("{wanted} wait"), LONG, look).await;
        }
    };
    let mut for_all: Vec<_> = (0..few).map(|_| waits_for_all(&two, &all)).collect();
    calls(few).await;
    let mut for_one: Vec<_> = (0..many).map(|_| waits(&two, &busy)).collect();
    calls(few + many).await;
    // One place too few is left.
    is_answered_at_once(waits_for_all(&two, &all)).await;
    let last = waits_for_all(&two, &all[1..]);
    calls(few + many + 1).await;
    is_answered_at_once(waits(&two, &busy)).await;
    is_answered_at_once(waits_for_all(&two, &all[..2])).await;
    // What one who leaves gives back, another takes.
    last.abort();
    calls(few + many).await;
    queued_within(&backend, &all[1], few, LONG).await;
    let last = waits(&two, &busy);
    calls(few + many + 1).await;
    queued_within(&backend, &busy, many + 1, LONG).await;
    // All the others still wait, and are served.
    let gone = for_all.iter().chain(&for_one).chain([&last]);
    assert_eq!(gone.filter(|waits| waits.is_finished()).count(), 0);
    one.release(&of_all.id).await;
    one.release(&of_one.id).await;
    for left in [&mut for_all, &mut for_one] {
        let (told, _, rest) = futures_util::future::select_all(std::mem::take(left)).await;
        let grant = super::queue::granted(told);
        let live = one.live(grant.id.resource()).await;
        assert_eq!(live, Some(grant.token));
        *left = rest;
    }
    for waits in for_all.iter().chain(&for_one).chain([&last]) {
        waits.abort();
    }
    for resource in [&all[0], &all[TOGETHER_MAX - 1], &busy] {
        queued_within(&backend, resource, 0, LONG).await;
    }
    nobody_waits(&two).await;
}

engines! {
    a_wait_ends_in_a_decision_before_the_deadline_though_etcd_says_nothing,
    a_wait_outlasts_a_right_that_is_missing_for_a_while,
    a_wait_that_ends_while_a_right_is_missing_ends_in_a_decision,
    of_those_who_wait_for_busy_resources_there_are_never_more_than_the_limit,
}
