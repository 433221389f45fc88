//! A decision is one commit: what it moves, what it stores and what it reports are there together or not at all.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use etcd_client::GetOptions;
use fencepost::domain::decision::{Decision, Verdict};
use fencepost::domain::ids::ResourceId;
use fencepost::engine::Fault;
use futures_util::future::join_all;

use crate::support::ask::{Ask, ask, create, fresh_resource, reserve};
use crate::support::backend::Backend;
use crate::support::claim::applied;
use crate::support::etcd::Etcd;
use crate::support::fault::{Action, FaultPlan, Rpc};
use crate::support::sidecar::{Sidecar, caller_for};
use crate::support::{bounded, engines};

/// A sidecar that waits for a held request must not give up meanwhile.
const PATIENT_CALL: Duration = Duration::from_secs(15);
/// How long a caller waits whose request never arrives.
const SHORT: Duration = Duration::from_secs(2);
/// Commits gather this long behind those that are held. If it was too short, the round is repeated,
const GATHERING: Duration = Duration::from_millis(50);
/// so often.
const ROUNDS_MAX: usize = 20;
/// So many transactions may be under way.
const BATCHES_IN_FLIGHT_MAX: usize = 4;

/// Every key of the test, with the revision that wrote it last.
async fn written(backend: &Backend) -> BTreeMap<String, i64> {
    let all = Some(GetOptions::new().with_prefix());
    let found = backend
        .raw()
        .await
        .get(backend.prefix(), all)
        .await
        .unwrap();
    let pair =
        |entry: &etcd_client::KeyValue| (entry.key_str().unwrap().to_owned(), entry.mod_revision());
    found.kvs().iter().map(pair).collect()
}

/// Asks while its transaction is held: nothing may be there before it arrives, and all that it wrote has one revision.
async fn in_one_commit(
    backend: &Backend,
    (sidecar, plan): &(Sidecar, FaultPlan),
    resource: &ResourceId,
    ask: &Ask,
) -> (Decision, Vec<String>) {
    // What the sidecar believes is fresh then, and its first commit is the deciding one.
    sidecar.lookup(resource, "nothing").await;
    let before = written(backend).await;
    let sent = plan.counts();
    let held = plan
        .when(Rpc::Txn)
        .containing(resource.id())
        .then(Action::Hold);
    let (asked, copy) = (ask.clone(), sidecar.clone());
    let call = tokio::spawn(async move { copy.transition(&asked).await });
    held.met().await;
    assert_eq!(
        written(backend).await,
        before,
        "written ahead of the decision"
    );
    held.deliver().await;
    let decision = call.await.unwrap();
    // Before a result that is refused is added to an incident, it is read what that keeps; nothing is written by that.
    let refused = decision.verdict != Verdict::Applied;
    let looks = usize::from(refused && ask.build().result.is_some());
    let made = plan.counts().since(&sent).of(Rpc::Txn);
    assert_eq!(made, 1 + looks, "{decision:?}");
    let after = written(backend).await;
    let new: Vec<_> = after
        .iter()
        .filter(|(key, revision)| before.get(*key) != Some(revision))
        .collect();
    let revisions: Vec<_> = new.iter().map(|(_, revision)| **revision).collect();
    assert!(revisions.windows(2).all(|two| two[0] == two[1]), "{new:?}");
    (
        decision,
        new.into_iter().map(|(key, _)| key.clone()).collect(),
    )
}

fn incidents_among(keys: &[String], backend: &Backend) -> usize {
    let begin = format!("{}i/", backend.prefix());
    keys.iter().filter(|key| key.starts_with(&begin)).count()
}

async fn an_incident_is_written_with_the_decision_that_raises_it(backend: Backend) {
    let one = backend.faulty_within(PATIENT_CALL).await;
    let two = backend.sidecar().await;
    let order = fresh_resource();
    applied(&two.transition(&create(&order, "pending")).await);
    let lost = two.hold(&reserve(&order)).await;
    two.release(&lost.id).await;
    let record = two.key_of(&order);
    let pay = ask(&order, "pay")
        .from(&["pending"])
        .to("paid")
        .result("receipt");
    let (paid, keys) = in_one_commit(&backend, &one, &order, &pay).await;
    applied(&paid);
    assert_eq!(
        keys,
        std::slice::from_ref(&record),
        "state, result and digest lie in the record"
    );

    let cases = [
        // A refusal that is stored, a step that was made, other content, a round that is over.
        (
            ask(&order, "cancel").from(&["new"]).to("cancelled"),
            Verdict::Rejected,
        ),
        (
            ask(&order, "pay twice").from(&["pending"]).to("paid"),
            Verdict::Superseded,
        ),
        (pay.clone().json("1"), Verdict::Conflict),
        (
            ask(&order, "late").under(&lost.id).result("ran"),
            Verdict::Fenced,
        ),
    ];
    for (ask, verdict) in cases {
        let (decision, keys) = in_one_commit(&backend, &one, &order, &ask).await;
        assert_eq!(decision.verdict, verdict, "{decision:?}");
        let incident = decision.incident.expect("a person must learn of it");
        assert!(
            keys.iter().any(|key| key.ends_with(&incident.0)),
            "{keys:?}"
        );
        assert_eq!(incidents_among(&keys, &backend), 1, "{keys:?}");
        // A stored "no" is there with its incident, and nothing else is.
        let record_written = usize::from(keys.contains(&record));
        assert_eq!(keys.len(), 1 + record_written, "{keys:?}");
        if matches!(verdict, Verdict::Rejected | Verdict::Superseded) {
            assert_eq!(record_written, 1, "{keys:?}");
        }
    }
    assert_eq!(two.incidents(&order).await.len(), 4);
}

async fn an_incident_whose_decision_never_arrived_is_not_there(backend: Backend) {
    let (one, plan) = backend.faulty().await;
    let two = backend.sidecar().await;
    let order = fresh_resource();
    applied(&two.transition(&create(&order, "cancelled")).await);
    // It knows how the order stands, so the first that it sends is the decision.
    one.lookup(&order, "nothing").await;
    let never = plan
        .when(Rpc::Txn)
        .containing(order.id())
        .always()
        .then(Action::Lose);
    let pay = ask(&order, "pay")
        .from(&["new"])
        .to("paid")
        .result("charged");
    let answer = one.engine.transition(pay.build(), caller_for(SHORT)).await;
    assert!(
        matches!(answer, Err(Fault::UnknownOutcome { .. })),
        "{answer:?}"
    );
    assert!(never.hits() > 0);
    assert_eq!(two.incidents(&order).await, []);
    never.lift();
    for sidecar in [&two, &one] {
        assert_eq!(sidecar.transition(&pay).await.verdict, Verdict::Rejected);
        assert_eq!(
            sidecar.incidents(&order).await.len(),
            1,
            "told once, whoever wrote it"
        );
    }
}

// One member of a batch whose lease is gone makes etcd refuse the whole of it.
async fn a_lease_that_is_gone_spoils_nobody_elses_commit(backend: Backend) {
    let (one, plan) = backend.faulty_within(PATIENT_CALL).await;
    let two = backend.sidecar().await;
    let mut raw = backend.raw().await;
    for _ in 0..ROUNDS_MAX {
        // Every place for a transaction is taken, so that what comes next gathers into one batch.
        let mut plugs = Vec::new();
        for _ in 0..BATCHES_IN_FLIGHT_MAX {
            let plug = fresh_resource();
            let held = plan.when(Rpc::Txn).containing(plug.id()).then(Action::Hold);
            let copy = one.clone();
            let call = tokio::spawn(async move { copy.transition(&create(&plug, "open")).await });
            held.met().await;
            plugs.push((held, call));
        }
        let seat = fresh_resource();
        let orders: Vec<_> = (0..20).map(|_| fresh_resource()).collect();
        // A plain look: whoever is sent twice was in a batch that was refused.
        let sent = plan
            .when(Rpc::Txn)
            .containing(orders[0].id())
            .always()
            .then(Action::SlowReply(Duration::ZERO));
        let (copy, mine) = (one.clone(), reserve(&seat));
        let granted = tokio::spawn(async move { copy.hold(&mine).await });
        let moves = orders.iter().map(|order| {
            let (copy, run) = (one.clone(), create(order, "open"));
            tokio::spawn(async move { copy.transition(&run).await })
        });
        let moves: Vec<_> = moves.collect();
        tokio::time::sleep(GATHERING).await;
        for lease in raw.leases().await.unwrap().leases() {
            // One of them may have ended by itself.
            let _ = raw.lease_revoke(lease.id()).await;
        }
        let before = plan.counts();
        for (held, call) in plugs {
            held.deliver().await;
            applied(&call.await.unwrap());
        }
        for moved in join_all(moves).await {
            applied(&moved.unwrap());
        }
        let grant = granted.await.unwrap();
        assert_eq!(
            two.live(&seat).await,
            Some(grant.token),
            "it got another lease"
        );
        // The refused batch was taken apart: each went alone, and nobody had to be folded anew but the one.
        let alone = plan.counts().since(&before).of(Rpc::Txn) > orders.len();
        let spoiled = sent.hits() > 1 && alone;
        sent.lift();
        if spoiled {
            return;
        }
    }
    panic!("in {ROUNDS_MAX} rounds no batch was refused for one member and taken apart");
}

engines! {
    an_incident_is_written_with_the_decision_that_raises_it,
    an_incident_whose_decision_never_arrived_is_not_there,
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lease_that_is_gone_spoils_nobody_elses_commit_on_etcd() {
    // Its own, for all leases are taken away.
    let backend = Backend::of_etcd(Arc::new(Etcd::start().await));
    bounded(Box::pin(a_lease_that_is_gone_spoils_nobody_elses_commit(
        backend,
    )))
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lease_that_is_gone_spoils_nobody_elses_commit_on_the_embedded_engine() {
    let backend = Backend::embedded();
    bounded(Box::pin(a_lease_that_is_gone_spoils_nobody_elses_commit(
        backend,
    )))
    .await;
}
