//! While renewals are late no new reservation is granted, and nobody else is refused for that.

use std::time::Duration;

use fencepost::domain::decision::Verdict;
use fencepost::engine::{AtClose, Fault};
use tonic::Code;

use super::fence::OVER_WITHIN;
use super::holds::{opened, renewed};
use crate::support::ask::{ask, create, fresh_resource, reserve_for};
use crate::support::backend::Backend;
use crate::support::claim::applied;
use crate::support::fault::{Action, Ending, Rpc};
use crate::support::{engines, until};

/// As many late ones as are strain.
const HELD: usize = 12;
const TTL_SECONDS: u32 = 9;
/// Longer than it takes until renewals are late.
const PATIENT_CALL: Duration = Duration::from_secs(30);
/// How long requests may take to come to their lane.
const QUEUED_WITHIN: Duration = Duration::from_millis(500);
const NO_LEASE: (Code, &str) = (Code::NotFound, "etcdserver: requested lease not found");

async fn whose_lease_ended_is_refused_alone_of_all_in_its_commit(backend: Backend) {
    let (one, plan) = backend.faulty_within(PATIENT_CALL).await;
    let resource = fresh_resource();
    applied(&one.transition(&create(&resource, "pending")).await);
    let mut grants = Vec::new();
    for _ in 0..HELD {
        let ask = reserve_for(&fresh_resource(), TTL_SECONDS);
        grants.push(one.hold(&ask).await);
    }
    let ids: Vec<_> = grants.iter().map(|grant| &grant.id).collect();
    let mut hold = opened(&one, &ids, AtClose::Keep).await;
    for _ in 0..HELD {
        renewed(&mut hold).await;
    }
    // The lane is busy, so that those that come now share the next commit. The lease is taken before renewals are late.
    let busy = plan.when(Rpc::Txn).containing(resource.id());
    let busy = busy.then(Action::Hold);
    let note = |name: &str| ask(&resource, name).stay();
    let (first, second) = (note("first"), note("second"));
    let first = tokio::spawn({
        let one = one.clone();
        async move { one.try_transition(&first).await }
    });
    busy.met().await;
    let second = tokio::spawn({
        let one = one.clone();
        async move { one.try_transition(&second).await }
    });
    // What a release gives back is at hand for the next.
    let spare = reserve_for(&fresh_resource(), TTL_SECONDS);
    let spare = one.hold(&spare).await;
    one.release(&spare.id).await;
    let wish = reserve_for(&resource, TTL_SECONDS);
    let third = tokio::spawn({
        let one = one.clone();
        async move { one.try_reserve(&wish).await }
    });
    tokio::time::sleep(QUEUED_WITHIN).await;
    let slow = plan.when(Rpc::LeaseKeepAlive).always();
    let slow = slow.then(Action::DeliverLate(Ending::Silence));
    until("renewals are late", OVER_WITHIN, || async {
        one.engine.holdings().strained.then_some(())
    })
    .await;
    let gone = plan.when(Rpc::Txn).containing(resource.id());
    let gone = gone.then(Action::Refuse(NO_LEASE.0, NO_LEASE.1));
    busy.deliver().await;
    for note in [first, second] {
        let told = note.await.unwrap();
        assert_eq!(told.unwrap().verdict, Verdict::Applied);
    }
    let told = third.await.unwrap();
    assert!(matches!(told, Err(Fault::RenewalsLate { .. })), "{told:?}");
    assert_eq!(gone.hits(), 1);
    slow.lift();
}

engines! {
    whose_lease_ended_is_refused_alone_of_all_in_its_commit,
}
