//! Leases, and the stream that keeps them alive.

use std::time::Duration;

use fencepost::domain::record::LeaseId;
use fencepost::store::{LeaseUse, NotApplied, StoreError};
use futures_util::future::join_all;
use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::proxy::Proxy;
use crate::world::{CALL_TIMEOUT, World, fresh_lease, granted_lease, open, reason};

const SHORT: Duration = Duration::from_millis(2_000);

#[tokio::test]
async fn a_lease_lives_is_kept_alive_and_ends() {
    let world = World::new().await;
    let store = &world.store;
    let lease = granted_lease(store).await;
    let left = store.lease_time_to_live(lease).await.unwrap().unwrap();
    assert!((58..=60).contains(&left), "{left}");
    assert_eq!(store.lease_keep_alive(lease).await.unwrap(), Some(60));
    store.lease_revoke(lease).await.unwrap();
    assert_eq!(store.lease_time_to_live(lease).await.unwrap(), None);
    assert_eq!(store.lease_keep_alive(lease).await.unwrap(), None);
    // It has ended; to end it again changes nothing.
    store.lease_revoke(lease).await.unwrap();
}

#[tokio::test]
async fn a_lease_is_granted_once_and_its_true_ttl_is_answered() {
    let world = World::new().await;
    let store = &world.store;
    let lease = fresh_lease();
    // etcd raises what is below its own least; the answer says so.
    assert!(store.lease_grant(lease, 1).await.unwrap() >= 2);
    assert_eq!(
        reason(store.lease_grant(lease, 60).await),
        NotApplied::Refused
    );
    for id in [0, -1] {
        assert_eq!(
            reason(store.lease_grant(LeaseId(id), 60).await),
            NotApplied::Refused
        );
    }
}

#[tokio::test]
async fn a_gone_lease_does_not_disturb_the_others() {
    let world = World::new().await;
    let store = &world.store;
    // The first keepalive of all opens the stream.
    assert_eq!(store.lease_keep_alive(fresh_lease()).await.unwrap(), None);
    let lease = granted_lease(store).await;
    for _ in 0..3 {
        assert_eq!(store.lease_keep_alive(lease).await.unwrap(), Some(60));
        assert_eq!(store.lease_keep_alive(fresh_lease()).await.unwrap(), None);
    }
}

#[tokio::test]
async fn many_callers_share_the_stream_and_each_gets_its_own_answer() {
    const LEASES: u32 = 60;
    const CALLS_EACH: usize = 40;
    let world = World::new().await;
    let mut leases = Vec::new();
    for ttl in 100..100 + LEASES {
        let lease = fresh_lease();
        // Every lease has a TTL of its own, and every tenth is gone.
        let expected = if ttl % 10 == 0 {
            None
        } else {
            Some(world.store.lease_grant(lease, ttl).await.unwrap())
        };
        leases.push((lease, expected));
    }
    let mut calls = JoinSet::new();
    for _ in 0..CALLS_EACH {
        for (lease, expected) in leases.clone() {
            let store = world.store.clone();
            calls.spawn(async move {
                assert_eq!(store.lease_keep_alive(lease).await.unwrap(), expected);
            });
        }
    }
    while let Some(done) = calls.join_next().await {
        done.unwrap();
    }
}

#[tokio::test]
async fn the_stream_is_made_anew_after_it_was_cut() {
    let world = World::new().await;
    let proxy = Proxy::start(&world.etcd.url).await;
    let store = open(&[&proxy.url], &world.prefix, SHORT).await.unwrap();
    let lease = granted_lease(&store).await;
    for _ in 0..3 {
        assert_eq!(store.lease_keep_alive(lease).await.unwrap(), Some(60));
        let before = proxy.accepted();
        proxy.cut_all();
        // Sent again on the new stream if it was lost with the old one.
        assert_eq!(store.lease_keep_alive(lease).await.unwrap(), Some(60));
        assert_eq!(proxy.accepted(), before + 1);
    }
}

#[tokio::test]
async fn a_silent_stream_is_left_for_another_endpoint_within_the_call() {
    let world = World::new().await;
    let proxy = Proxy::start(&world.etcd.url).await;
    let store = open(&[&proxy.url, &world.etcd.url], &world.prefix, SHORT)
        .await
        .unwrap();
    let lease = granted_lease(&store).await;
    assert_eq!(store.lease_keep_alive(lease).await.unwrap(), Some(60));
    proxy.fall_silent();
    assert_eq!(store.lease_keep_alive(lease).await.unwrap(), Some(60));
    let began = Instant::now();
    assert_eq!(store.lease_keep_alive(lease).await.unwrap(), Some(60));
    assert!(began.elapsed() < SHORT / 4, "{:?}", began.elapsed());
}

#[tokio::test]
async fn in_silence_everywhere_a_keepalive_ends_by_its_limit_as_unknown() {
    let world = World::new().await;
    let proxy = Proxy::start(&world.etcd.url).await;
    let store = open(&[&proxy.url], &world.prefix, SHORT).await.unwrap();
    let lease = granted_lease(&store).await;
    assert_eq!(store.lease_keep_alive(lease).await.unwrap(), Some(60));
    proxy.fall_silent();
    for _ in 0..2 {
        let began = Instant::now();
        let lost = store.lease_keep_alive(lease).await;
        assert!(
            matches!(lost, Err(StoreError::Indeterminate { .. })),
            "{lost:?}"
        );
        assert!(began.elapsed() < SHORT + SHORT / 4);
    }
    let lost = store.lease_grant(fresh_lease(), 60).await;
    assert_eq!(reason(lost), NotApplied::Unreachable);
}

#[tokio::test]
async fn whose_time_is_about_to_end_decides_nothing_for_the_others_on_its_stream() {
    const OTHERS: usize = 200;
    const SILENCE: Duration = Duration::from_millis(300);
    const LITTLE: Duration = Duration::from_millis(100);
    let world = World::new().await;
    let first = Proxy::start(&world.etcd.url).await;
    let second = Proxy::start(&world.etcd.url).await;
    let urls = [first.url.as_str(), second.url.as_str()];
    let store = open(&urls, &world.prefix, CALL_TIMEOUT).await.unwrap();
    let leases = join_all((0..OTHERS).map(|_| granted_lease(&store))).await;
    let before = second.accepted();
    let silence = CALL_TIMEOUT / 2;
    let keep = |lease, patience| {
        let store = store.clone();
        async move {
            let of = LeaseUse::Held { silence };
            store.lease_keep_alive_within(lease, of, patience).await
        }
    };
    // While the streams are opened, and when they are open.
    for _ in 0..2 {
        first.fall_silent();
        // One of them beside each few of the others.
        let dying = leases.iter().step_by(4).map(|lease| keep(*lease, LITTLE));
        let dying = tokio::spawn(join_all(dying.collect::<Vec<_>>()));
        let others = leases.iter().map(|lease| keep(*lease, silence));
        let others = tokio::spawn(join_all(others.collect::<Vec<_>>()));
        tokio::time::sleep(SILENCE).await;
        first.speak();
        for kept in others.await.unwrap() {
            assert!(matches!(kept, Ok(Some(60))), "{kept:?}");
        }
        let lost = dying.await.unwrap();
        assert!(lost.iter().any(Result::is_err), "none of them was short");
    }
    // So short a silence tells nothing of a member.
    assert_eq!(second.accepted(), before);
}

#[tokio::test]
async fn who_has_time_left_outlasts_a_silence_that_is_too_much_for_its_stream() {
    const SILENCE: Duration = Duration::from_millis(200);
    let world = World::new().await;
    let proxy = Proxy::start(&world.etcd.url).await;
    let store = open(&[&proxy.url], &world.prefix, CALL_TIMEOUT).await;
    let store = store.unwrap();
    let leases = join_all((0..40).map(|_| granted_lease(&store))).await;
    let of = LeaseUse::Held { silence: SILENCE };
    for _ in 0..2 {
        proxy.fall_silent();
        let kept = leases.iter().map(|lease| {
            let (store, lease) = (store.clone(), *lease);
            async move { store.lease_keep_alive_within(lease, of, CALL_TIMEOUT).await }
        });
        let kept = tokio::spawn(join_all(kept.collect::<Vec<_>>()));
        tokio::time::sleep(4 * SILENCE).await;
        proxy.speak();
        for kept in kept.await.unwrap() {
            assert!(matches!(kept, Ok(Some(60))), "{kept:?}");
        }
    }
}

#[tokio::test]
async fn a_lease_of_unknown_end_is_kept_alive_and_one_that_is_gone_is_told() {
    let world = World::new().await;
    let store = &world.store;
    let keep = |lease| store.lease_keep_alive_within(lease, LeaseUse::Unsure, CALL_TIMEOUT);
    let lease = granted_lease(store).await;
    let left = || async { store.lease_time_to_live(lease).await.unwrap().unwrap() };
    until_below(59, left).await;
    assert_eq!(keep(lease).await.unwrap(), Some(60));
    assert!(left().await >= 59);
    assert_eq!(keep(fresh_lease()).await.unwrap(), None);
}

async fn until_below<F: Future<Output = u32>>(most: u32, left: impl Fn() -> F) {
    let below = async {
        while left().await >= most {
            tokio::time::sleep(SHORT / 100).await;
        }
    };
    tokio::time::timeout(2 * SHORT, below).await.unwrap();
}
