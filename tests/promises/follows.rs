//! Who watches a resource is told each of its states in order, or that some are missing.

use std::sync::Arc;
use std::time::Duration;

use fencepost::domain::decision::Verdict;
use fencepost::domain::ids::ResourceId;
use fencepost::domain::token::Revision;
use fencepost::engine::{After, Boottime, FollowEnd, Following, STATES_WAITING_MAX, Shown};

use super::fence::{OVER_WITHIN, SHORTEST_SECONDS, over};
use crate::support::ask::{Ask, ask, create, fresh_resource, reserve, reserve_for};
use crate::support::backend::{Backend, connection};
use crate::support::claim::applied;
use crate::support::etcd::Etcd;
use crate::support::fault::{Action, Injected, Rpc};
use crate::support::proxy::Proxy;
use crate::support::sidecar::{Sidecar, caller};
use crate::support::{bounded, engines, until};

/// Long enough for whatever would still come.
const QUIET: Duration = Duration::from_millis(500);
/// How long a sidecar waits for an answer of etcd.
const CALL_TIMEOUT: Duration = Duration::from_secs(5);

pub(super) async fn following(
    sidecar: &Sidecar,
    resource: &ResourceId,
    after: Option<Revision>,
) -> Following {
    let timeline = None;
    let after = after.map(|revision| After { revision, timeline });
    let following = sidecar.engine.follow(resource.clone(), after, caller());
    following.await.expect("the stream opens")
}

pub(super) async fn shown(following: &mut Following) -> Shown {
    let next = tokio::time::timeout(OVER_WITHIN, following.next()).await;
    next.expect("a state in time").expect("the stream goes on")
}

/// State and whether it is held, of the next so many.
async fn states(following: &mut Following, count: usize) -> Vec<(String, bool)> {
    let mut states = Vec::new();
    let mut last = None;
    for _ in 0..count {
        let Shown { snapshot, gap, .. } = shown(following).await;
        assert!(!gap, "{snapshot:?}");
        assert!(snapshot.revision > last, "{snapshot:?} after {last:?}");
        last = snapshot.revision;
        let state = snapshot.state.map(|state| state.to_string());
        states.push((state.unwrap_or_default(), snapshot.live.is_some()));
    }
    states
}

fn moved(resource: &ResourceId, from: &str, to: &str) -> Ask {
    ask(resource, &format!("{from} to {to}"))
        .from(&[from])
        .to(to)
}

fn expected(states: &[(&str, bool)]) -> Vec<(String, bool)> {
    let owned = states
        .iter()
        .map(|(state, held)| ((*state).to_owned(), *held));
    owned.collect()
}

/// All that can become of a resource, with two sidecars.
async fn life(one: &Sidecar, two: &Sidecar, resource: &ResourceId) -> Vec<(String, bool)> {
    applied(&one.transition(&moved(resource, "made", "a")).await);
    let grant = two.hold(&reserve(resource)).await;
    two.release(&grant.id).await;
    applied(&two.transition(&moved(resource, "a", "b")).await);
    two.hold(&reserve_for(resource, SHORTEST_SECONDS)).await;
    over(one, resource).await;
    let next = one.hold(&reserve(resource)).await;
    one.release(&next.id).await;
    applied(&one.transition(&moved(resource, "b", "c")).await);
    expected(&[
        ("a", false),
        ("a", true),
        ("a", false),
        ("b", false),
        ("b", true),
        // Its time ran out, which the record does not show.
        ("b", false),
        ("b", true),
        ("b", false),
        ("c", false),
    ])
}

async fn each_state_is_told_in_order_from_now_and_again_from_a_revision_on(backend: Backend) {
    let [one, two] = backend.sidecars().await;
    let resource = fresh_resource();
    applied(&one.transition(&create(&resource, "made")).await);
    let mut live = following(&two, &resource, None).await;
    let first = shown(&mut live).await;
    assert_eq!(first.snapshot, two.inspect(&resource).await);
    let lived = life(&one, &two, &resource).await;
    assert_eq!(states(&mut live, lived.len()).await, lived);
    // Somebody who has seen the first state goes on from there, elsewhere.
    let mut again = following(&one, &resource, first.snapshot.revision).await;
    assert_eq!(states(&mut again, lived.len()).await, lived);
    for following in [&mut live, &mut again] {
        let more = tokio::time::timeout(QUIET, following.next()).await;
        assert!(more.is_err(), "{more:?}");
    }
    let now = two.inspect(&resource).await.revision;
    let mut nothing_new = following(&two, &resource, now).await;
    let more = tokio::time::timeout(QUIET, nothing_new.next()).await;
    assert!(more.is_err(), "{more:?}");
}

async fn a_resource_that_was_never_seen_is_told_as_such_and_then_as_it_begins(backend: Backend) {
    let one = backend.sidecar().await;
    let resource = fresh_resource();
    let mut live = following(&one, &resource, None).await;
    let first = shown(&mut live).await.snapshot;
    assert_eq!((first.state, first.revision), (None, None));
    applied(&one.transition(&create(&resource, "made")).await);
    assert_eq!(states(&mut live, 1).await, expected(&[("made", false)]));
}

async fn a_cut_line_costs_time_and_no_state(backend: Backend) {
    let (one, plan) = backend.faulty().await;
    let two = backend.sidecar().await;
    let resource = fresh_resource();
    applied(&two.transition(&create(&resource, "made")).await);
    let mut live = following(&one, &resource, None).await;
    shown(&mut live).await;
    // It is heard as it happens, so the line stands.
    applied(&two.transition(&moved(&resource, "made", "heard")).await);
    assert_eq!(states(&mut live, 1).await, expected(&[("heard", false)]));
    let cut = plan.cut_all();
    let back = cut.iter().find(|cut| cut.rpc() == Rpc::Watch);
    back.expect("all are cut").met().await;
    applied(&two.transition(&moved(&resource, "heard", "made")).await);
    let lived = life(&two, &two, &resource).await;
    let more = tokio::time::timeout(QUIET, live.next()).await;
    assert!(more.is_err(), "it came through a cut line: {more:?}");
    cut.iter().for_each(Injected::lift);
    assert_eq!(states(&mut live, 1).await, expected(&[("made", false)]));
    assert_eq!(states(&mut live, lived.len()).await, lived);
}

/// What is heard of its record ends each wait for the watch of its ends, which comes up all the same.
async fn the_end_of_a_lease_is_told_of_a_resource_whose_record_changes_all_the_time(
    backend: Backend,
) {
    const SLOW: Duration = Duration::from_millis(500);
    let (one, plan) = backend.faulty().await;
    let two = backend.sidecar().await;
    let resource = fresh_resource();
    applied(&two.transition(&create(&resource, "s0")).await);
    let ends = format!("/h/{}/{}", resource.kind(), resource.id());
    let slow = plan.when(Rpc::Watch).containing(&ends).always();
    let slow = slow.then(Action::SlowRequest(SLOW));
    let mut live = following(&one, &resource, None).await;
    shown(&mut live).await;
    slow.met().await;
    // Each is heard long before that watch is up.
    let begun = Boottime::now();
    let mut moves = 0;
    while Boottime::now().since(begun) < 2 * SLOW {
        moves += 1;
        let to = format!("s{}", moves % 2);
        let moved = ask(&resource, &format!("move {moves}")).to(&to);
        applied(&two.transition(&moved).await);
        assert_eq!(states(&mut live, 1).await, expected(&[(&to, false)]));
    }
    assert!(moves > 2, "{moves}");
    assert_eq!(slow.hits(), 1, "it was begun anew within {moves} moves");
    let last = format!("s{}", moves % 2);
    two.hold(&reserve_for(&resource, SHORTEST_SECONDS)).await;
    over(&two, &resource).await;
    let lived = [(&*last, true), (&*last, false)];
    assert_eq!(states(&mut live, 2).await, expected(&lived));
}

async fn who_does_not_read_is_told_the_newest_and_that_states_are_missing(backend: Backend) {
    let one = backend.sidecar().await;
    let resource = fresh_resource();
    applied(&one.transition(&create(&resource, "s0")).await);
    let mut live = following(&one, &resource, None).await;
    let mut beside = following(&one, &resource, None).await;
    let moves = 2 * STATES_WAITING_MAX;
    for at in 0..moves {
        let (from, to) = (format!("s{}", at % 2), format!("s{}", (at + 1) % 2));
        let moved = ask(&resource, &format!("move {at}")).from(&[&from]).to(&to);
        applied(&one.transition(&moved).await);
    }
    let newest = one.inspect(&resource).await.revision;
    // One that is read tells that all has come by now, and the other has been told as much.
    while shown(&mut beside).await.snapshot.revision != newest {}
    tokio::time::sleep(QUIET).await;
    let (mut last, mut told, mut gaps) = (None, 0, 0);
    while last != newest {
        let Shown { snapshot, gap, .. } = shown(&mut live).await;
        assert!(snapshot.revision > last);
        last = snapshot.revision;
        told += 1;
        gaps += usize::from(gap);
    }
    assert!(told <= STATES_WAITING_MAX && told < moves, "{told}");
    assert!(gaps > 0, "it was not said that states are missing");
}

async fn a_revision_that_is_of_no_state_of_this_store_is_answered_by_the_newest_and_a_gap(
    backend: Backend,
) {
    let one = backend.sidecar().await;
    let resource = fresh_resource();
    applied(&one.transition(&create(&resource, "made")).await);
    let later = Revision::from_etcd(1 << 50);
    let mut live = following(&one, &resource, later).await;
    let first = shown(&mut live).await;
    assert!(first.gap);
    assert_eq!(first.snapshot, one.inspect(&resource).await);
    applied(&one.transition(&moved(&resource, "made", "a")).await);
    assert_eq!(states(&mut live, 1).await, expected(&[("a", false)]));
}

async fn a_stop_ends_the_streams_that_watch(backend: Backend) {
    let one = backend.sidecar().await;
    let mut live = following(&one, &fresh_resource(), None).await;
    shown(&mut live).await;
    one.engine.stop(OVER_WITHIN).await;
    assert_eq!(live.next().await, Err(FollowEnd::Stopping));
}

engines! {
    a_cut_line_costs_time_and_no_state,
    a_resource_that_was_never_seen_is_told_as_such_and_then_as_it_begins,
    a_revision_that_is_of_no_state_of_this_store_is_answered_by_the_newest_and_a_gap,
    a_stop_ends_the_streams_that_watch,
    each_state_is_told_in_order_from_now_and_again_from_a_revision_on,
    the_end_of_a_lease_is_told_of_a_resource_whose_record_changes_all_the_time,
    who_does_not_read_is_told_the_newest_and_that_states_are_missing,
}

/// Compacting meets everybody on an etcd, so this has one of its own.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn states_that_etcd_has_compacted_away_are_said_to_be_missing() {
    let etcd = Backend::of_etcd(Arc::new(Etcd::start().await));
    for backend in [etcd, Backend::embedded()] {
        bounded(Box::pin(compacted(backend))).await;
    }
}

async fn compacted(backend: Backend) {
    let one = backend.sidecar().await;
    let resource = fresh_resource();
    applied(&one.transition(&create(&resource, "made")).await);
    let first = one.inspect(&resource).await.revision;
    applied(&one.transition(&moved(&resource, "made", "a")).await);
    applied(&one.transition(&moved(&resource, "a", "b")).await);
    let newest = one.inspect(&resource).await;
    let at = newest.revision.and_then(|at| i64::try_from(at.get()).ok());
    let mut raw = backend.raw().await;
    raw.compact(at.unwrap(), None).await.unwrap();
    let mut late = following(&one, &resource, first).await;
    let told = shown(&mut late).await;
    assert!(told.gap, "{told:?}");
    assert_eq!(told.snapshot, newest);
    let grant = one.hold(&reserve(&resource)).await;
    assert_eq!(states(&mut late, 1).await, expected(&[("b", true)]));
    let ended = until("it is released", OVER_WITHIN, || async {
        Some(one.release(&grant.id).await.verdict)
    });
    assert_eq!(ended.await, Verdict::Applied);
    assert_eq!(states(&mut late, 1).await, expected(&[("b", false)]));
}

/// A whole gRPC connection has room for some megabytes that nobody has read. A look that fails to come through takes the rest of
/// the sidecar with it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_who_go_on_from_far_back_hold_nobody_up() {
    bounded(Box::pin(far_back(Backend::real().await))).await;
}

async fn far_back(backend: Backend) {
    const FOLLOWERS: usize = 32;
    const ROUNDS: usize = 100;
    let [two, three] = backend.sidecars().await;
    let (one, plan) = backend.faulty_within(Duration::from_secs(3)).await;
    // As much as the record of a resource itself keeps of what was done.
    let long = "x".repeat(800);
    let resources: Vec<_> = (0..FOLLOWERS).map(|_| fresh_resource()).collect();
    let lived = resources.iter().map(|resource| async {
        applied(&two.transition(&create(resource, "a").result(&long)).await);
        for (from, to) in [("a", "b"), ("b", "c"), ("c", "d")] {
            let moving = moved(resource, from, to).result(&long);
            applied(&two.transition(&moving).await);
        }
        let from = two.inspect(resource).await.revision;
        for _ in 0..ROUNDS {
            let grant = two.hold(&reserve(resource)).await;
            three.release(&grant.id).await;
        }
        from
    });
    let began = futures_util::future::join_all(lived).await;
    let slow = plan.when(Rpc::Txn).always();
    let slow = slow.then(Action::SlowRequest(Duration::from_millis(500)));
    let opening = resources.iter().zip(&began);
    let opening = opening.map(|(resource, from)| following(&one, resource, *from));
    let mut followed = futures_util::future::join_all(opening).await;
    let moving = create(&fresh_resource(), "made");
    applied(&one.transition(&moving).await);
    for (following, resource) in followed.iter_mut().zip(&resources) {
        let newest = two.inspect(resource).await.revision;
        loop {
            let told = shown(following).await;
            if told.snapshot.revision == newest {
                break;
            }
        }
    }
    slow.lift();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn states_that_were_compacted_away_while_the_line_was_cut_are_said_to_be_missing() {
    let etcd = Backend::of_etcd(Arc::new(Etcd::start().await));
    for backend in [etcd, Backend::embedded()] {
        bounded(Box::pin(compacted_under_an_open_stream(backend))).await;
    }
}

async fn compacted_under_an_open_stream(backend: Backend) {
    let one = backend.sidecar().await;
    let proxy = Proxy::to_url(&backend.url().await);
    let two = Sidecar::open(connection(&proxy.url()), backend.prefix(), CALL_TIMEOUT).await;
    let resource = fresh_resource();
    applied(&one.transition(&create(&resource, "made")).await);
    let mut live = following(&two, &resource, None).await;
    shown(&mut live).await;
    // It is heard as it happens, so the line stands.
    applied(&one.transition(&moved(&resource, "made", "a")).await);
    assert_eq!(states(&mut live, 1).await, expected(&[("a", false)]));
    // A cut alone costs time and no state.
    proxy.cut();
    applied(&one.transition(&moved(&resource, "a", "made")).await);
    applied(&one.transition(&ask(&resource, "again").to("a")).await);
    proxy.heal();
    let missed = [("made", false), ("a", false)];
    assert_eq!(states(&mut live, 2).await, expected(&missed));
    proxy.cut();
    applied(&one.transition(&moved(&resource, "a", "b")).await);
    applied(&one.transition(&moved(&resource, "b", "c")).await);
    let newest = one.inspect(&resource).await;
    let at = newest.revision.and_then(|at| i64::try_from(at.get()).ok());
    let mut raw = backend.raw().await;
    raw.compact(at.unwrap(), None).await.unwrap();
    proxy.heal();
    let told = shown(&mut live).await;
    assert!(told.gap, "{told:?}");
    assert_eq!(told.snapshot, newest);
    // From there on nothing is missing.
    let grant = one.hold(&reserve(&resource)).await;
    one.release(&grant.id).await;
    let after = [("c", true), ("c", false)];
    assert_eq!(states(&mut live, 2).await, expected(&after));
}
