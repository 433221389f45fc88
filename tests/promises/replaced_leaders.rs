//! What a leader of etcd says of a lease, after others have replaced it, promises nothing.

use std::time::Duration;

use fencepost::engine::{AtClose, Fault, HoldNews};
use tokio::time::Instant;

use super::fence::{OVER_WITHIN, SHORTEST_SECONDS, over};
use super::holds::{opened, renewed, told};
use crate::support::ask::{fresh_resource, reserve_for};
use crate::support::backend::Backend;
use crate::support::fault::{Action, FaultPlan, Injected, Rpc};
use crate::support::{engines, until};

/// Longer than anything here, but for the leases of its own.
const LONG_SECONDS: u32 = 60;
/// More than any call here takes.
const PATIENT_CALL: Duration = Duration::from_secs(15);
/// The term of the leader that was replaced, later than any of the etcd under test; and that of its successor.
const REPLACED: u64 = 1_000;
const SUCCESSOR: u64 = 1_001;

/// From now on another leader leads. Keepalives still go to the one before.
fn replaced(plan: &FaultPlan) -> [Injected; 2] {
    [Rpc::Txn, Rpc::Range].map(|rpc| replaced_as_told_by(plan, rpc))
}

/// The same, and only these calls tell of it.
fn replaced_as_told_by(plan: &FaultPlan, rpc: Rpc) -> Injected {
    plan.when(rpc).always().then(Action::InTerm(SUCCESSOR))
}

/// That one says that leases live for so long.
fn kept_in_vain(seconds: u32) -> Action {
    Action::KeptByReplaced(REPLACED, seconds.into())
}

async fn a_renewal_that_a_replaced_leader_confirmed_is_made_once_more(backend: Backend) {
    let (one, plan) = backend.faulty_within(PATIENT_CALL).await;
    let grant = one
        .hold(&reserve_for(&fresh_resource(), LONG_SECONDS))
        .await;
    // Opens the stream: what opens one is sent again when it is open.
    one.renew(&grant.id).await.grant.expect("it is held");
    let in_vain = plan
        .when(Rpc::LeaseKeepAlive)
        .then(kept_in_vain(LONG_SECONDS));
    let kept = plan.when(Rpc::LeaseKeepAlive).always();
    let kept = kept.then(Action::InTerm(SUCCESSOR));
    replaced(&plan);
    let again = one.renew(&grant.id).await.grant.expect("it is held");
    assert_eq!(again.token, grant.token);
    assert_eq!(
        (in_vain.hits(), kept.hits()),
        (1, 1),
        "keepalives that did not count, and did"
    );
}

async fn a_renewal_that_only_a_replaced_leader_confirms_is_not_told_as_made(backend: Backend) {
    let (one, plan) = backend.faulty_within(PATIENT_CALL).await;
    let grant = one
        .hold(&reserve_for(&fresh_resource(), LONG_SECONDS))
        .await;
    one.renew(&grant.id).await.grant.expect("it is held");
    let in_vain = plan.when(Rpc::LeaseKeepAlive).always();
    let in_vain = in_vain.then(kept_in_vain(LONG_SECONDS));
    let replies = replaced(&plan);
    for _ in 0..2 {
        let told = one.try_renew(&grant.id).await;
        assert!(
            matches!(told, Err(Fault::UnknownOutcome { .. })),
            "{told:?}"
        );
    }
    assert!(in_vain.hits() > 1, "{} keepalives", in_vain.hits());
    // An etcd whose elections are counted anew is believed again, without a restart of the sidecar.
    in_vain.lift();
    replies.iter().for_each(Injected::lift);
    let again = until("it is renewed", OVER_WITHIN, || async {
        one.try_renew(&grant.id).await.ok()?.grant
    });
    assert_eq!(again.await.token, grant.token);
}

async fn once_a_leader_is_known_to_be_replaced_its_keepalives_are_sent_to_another_member(
    backend: Backend,
) {
    let other = backend.sidecar().await;
    for granter in ["this sidecar", "another one"] {
        let (one, [first, second]) = backend.faulty_on_two_lines(PATIENT_CALL).await;
        let by = if granter == "this sidecar" {
            &one
        } else {
            &other
        };
        let grant = by.hold(&reserve_for(&fresh_resource(), LONG_SECONDS)).await;
        one.renew(&grant.id).await.grant.expect("it is held");
        let in_vain = first.when(Rpc::LeaseKeepAlive).always();
        let in_vain = in_vain.then(kept_in_vain(LONG_SECONDS));
        let kept = second.when(Rpc::LeaseKeepAlive).always();
        let kept = kept.then(Action::InTerm(SUCCESSOR));
        for line in [&first, &second] {
            replaced(line);
        }
        let again = one.renew(&grant.id).await.grant;
        assert!(again.is_some(), "granted by {granter}");
        assert!(
            in_vain.hits() > 0 && kept.hits() > 0,
            "granted by {granter}"
        );
    }
}

async fn a_holder_is_not_told_of_a_renewal_by_a_replaced_leader_and_of_the_next_one(
    backend: Backend,
) {
    /// Far from over when the first renewals have failed.
    const TTL_SECONDS: u32 = 12;
    let (one, plan) = backend.faulty_within(PATIENT_CALL).await;
    let grant = one.hold(&reserve_for(&fresh_resource(), TTL_SECONDS)).await;
    let mut hold = opened(&one, &[&grant.id], AtClose::Keep).await;
    renewed(&mut hold).await;
    let in_vain = plan.when(Rpc::LeaseKeepAlive).always();
    let in_vain = in_vain.then(kept_in_vain(TTL_SECONDS));
    // Only the look after a renewal tells of it, so nothing else tells too early.
    replaced_as_told_by(&plan, Rpc::Txn);
    let next = told(&mut hold).await.news;
    let HoldNews::Expiring(failed) = next else {
        panic!(
            "{} keepalives of a replaced leader: {next:?}",
            in_vain.hits()
        );
    };
    assert!(in_vain.hits() > 0);
    in_vain.lift();
    plan.when(Rpc::LeaseKeepAlive)
        .always()
        .then(Action::InTerm(SUCCESSOR));
    let next = loop {
        match told(&mut hold).await.news {
            HoldNews::Renewed(next) => break next,
            HoldNews::Expiring(_) => {}
            HoldNews::Lost(decision) => panic!("{decision:?}"),
        }
    };
    assert!(next.safe_for > failed.safe_for, "{next:?} after {failed:?}");
}

async fn a_lease_that_a_replaced_leader_kept_ready_is_not_promised_for_longer(backend: Backend) {
    const BETWEEN: Duration = Duration::from_millis(50);
    /// The leases for the shortest TTL: two seconds more.
    const LEASE_SECONDS: u32 = SHORTEST_SECONDS + 2;
    let (one, plan) = backend.faulty_within(PATIENT_CALL).await;
    let two = backend.sidecar().await;
    let in_vain = plan.when(Rpc::LeaseKeepAlive).always();
    let in_vain = in_vain.then(kept_in_vain(LEASE_SECONDS));
    // Only the look after such keepalives tells of it, and what is asked between them tells otherwise.
    let looks = replaced_as_told_by(&plan, Rpc::Range);
    // From now on some are kept ready.
    let wish = || reserve_for(&fresh_resource(), SHORTEST_SECONDS);
    let warm = one.hold(&wish()).await;
    one.release(&warm.id).await;
    in_vain.met().await;
    looks.met().await;
    // By then they end before whoever took one up would expect it.
    let since = Instant::now();
    let resource = fresh_resource();
    while since.elapsed() < Duration::from_secs(SHORTEST_SECONDS.into()) {
        assert_eq!(one.live(&resource).await, None);
        tokio::time::sleep(BETWEEN).await;
    }
    let sent = Instant::now();
    let grant = one.hold(&reserve_for(&resource, SHORTEST_SECONDS)).await;
    over(&two, &resource).await;
    let lived = sent.elapsed();
    assert!(lived >= grant.safe_for, "{lived:?} < {grant:?}");
}

engines! {
    a_renewal_that_a_replaced_leader_confirmed_is_made_once_more,
    a_renewal_that_only_a_replaced_leader_confirms_is_not_told_as_made,
    once_a_leader_is_known_to_be_replaced_its_keepalives_are_sent_to_another_member,
    a_holder_is_not_told_of_a_renewal_by_a_replaced_leader_and_of_the_next_one,
    a_lease_that_a_replaced_leader_kept_ready_is_not_promised_for_longer,
}
