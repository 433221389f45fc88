//! Leases, and the stream that keeps them alive.

use std::time::Duration;

use fencepost::domain::record::LeaseId;
use fencepost::store::{NotApplied, StoreError};
use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::proxy::Proxy;
use crate::world::{World, fresh_lease, granted_lease, open, reason};

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
