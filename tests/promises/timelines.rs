//! A timeline that was replaced: nothing that the old one decided is committed, and nothing that it remembered is answered.

use std::time::Duration;

use fencepost::domain::decision::{Layer, Rule, Verdict};
use fencepost::domain::ids::Nonce;
use fencepost::domain::token::Timeline;
use fencepost::engine::{Fault, OperationState};
use uuid::Uuid;

use crate::support::ask::{create, fresh_resource, reserve};
use crate::support::backend::Backend;
use crate::support::claim::{applied, judged};
use crate::support::engines;
use crate::support::fault::{Action, Rpc};
use crate::support::sidecar::{Sidecar, caller_for};

/// A sidecar that waits for a held request must not give up meanwhile.
const PATIENT_CALL: Duration = Duration::from_secs(15);
/// So many transactions may be under way.
const BATCHES_IN_FLIGHT_MAX: usize = 4;
/// Long enough for a request to be on its way, short enough to wait for.
const IMPATIENT: Duration = Duration::from_millis(300);

/// What an operator does after a restore: another timeline, whose tokens are above all that were.
async fn replace_timeline(backend: &Backend, old: Timeline) -> Timeline {
    let base = old.base + (1 << 40);
    let next = Timeline {
        id: Nonce::from_bytes(*Uuid::new_v4().as_bytes()),
        base,
        min_token: base,
    };
    // What a store writes that begins with it.
    let elsewhere = format!("{}else/", backend.prefix());
    Sidecar::open_with(backend.channel(), &elsewhere, PATIENT_CALL, next).await;
    let mut raw = backend.raw().await;
    let written = raw.get(format!("{elsewhere}meta/timeline"), None).await;
    let value = written.unwrap().kvs()[0].value().to_vec();
    let key = format!("{}meta/timeline", backend.prefix());
    raw.put(key, value, None).await.unwrap();
    next
}

async fn a_grant_judged_in_an_old_timeline_is_not_made_in_the_next(backend: Backend) {
    let (one, plan) = backend.faulty_within(PATIENT_CALL).await;
    let warm = one.hold(&reserve(&fresh_resource())).await;
    one.release(&warm.id).await;
    // Transactions that are held leave no place for another commit: it waits, judged already.
    let mut holding = Vec::new();
    for _ in 0..BATCHES_IN_FLIGHT_MAX {
        let resource = fresh_resource();
        let held = plan
            .when(Rpc::Txn)
            .containing(resource.id())
            .then(Action::Hold);
        let sidecar = one.clone();
        let call = tokio::spawn(async move { sidecar.transition(&create(&resource, "a")).await });
        held.met().await;
        holding.push((held, call));
    }
    let resource = fresh_resource();
    let mine = reserve(&resource);
    let waits = one.engine.reserve(mine.clone(), caller_for(IMPATIENT));
    let waits = waits.await;
    assert!(
        matches!(waits, Err(Fault::UnknownOutcome { .. })),
        "{waits:?}"
    );

    let next = replace_timeline(&backend, one.timeline()).await;
    one.inspect(&fresh_resource()).await;
    assert_eq!(one.timeline(), next, "a question noticed it");
    for (held, call) in holding {
        held.deliver().await;
        applied(&call.await.unwrap());
    }
    let again = one.reserve(&mine).await;
    let token = again.grant.expect("it is ours").token;
    assert!(token.get() >= next.base, "{token} is of the old timeline");
    let good = backend.sidecar().await.fence(&resource, token).await;
    judged(&good, Verdict::Granted, Layer::Fence, Rule::Live);
}

async fn the_first_call_after_a_timeline_was_replaced_is_judged_in_the_new_one(backend: Backend) {
    let resource = fresh_resource();
    let [writer, reader] = backend.sidecars().await;
    let old = reader.hold(&reserve(&resource)).await;
    let next = replace_timeline(&backend, writer.timeline()).await;
    let grant = writer.hold(&reserve(&fresh_resource())).await;
    assert!(grant.token.get() >= next.base, "{}", grant.token);
    let fenced = reader.fence(&resource, old.token).await;
    judged(&fenced, Verdict::Fenced, Layer::Fence, Rule::OlderTimeline);
    assert_eq!([writer.timeline(), reader.timeline()], [next, next]);
}

async fn what_was_remembered_in_a_replaced_timeline_is_not_answered(backend: Backend) {
    let one = backend.sidecar().await;
    let resource = fresh_resource();
    applied(&one.transition(&create(&resource, "paid")).await);
    assert_eq!(
        one.lookup(&resource, "create").await.state,
        OperationState::DoneEmpty
    );
    // The backup was older than the operation.
    let mut raw = backend.raw().await;
    raw.delete(one.key_of(&resource), None).await.unwrap();
    let next = replace_timeline(&backend, one.timeline()).await;
    one.inspect(&fresh_resource()).await;
    assert_eq!(one.timeline(), next);
    let known = one.lookup(&resource, "create").await;
    assert_eq!(known.state, OperationState::NeverSeen);
}

engines! {
    a_grant_judged_in_an_old_timeline_is_not_made_in_the_next,
    the_first_call_after_a_timeline_was_replaced_is_judged_in_the_new_one,
    what_was_remembered_in_a_replaced_timeline_is_not_answered,
}
