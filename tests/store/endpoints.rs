//! Endpoints that are dead, hung, or fall silent.

use std::time::Duration;

use fencepost::store::{NotApplied, StoreError};
use tokio::net::TcpListener;
use tokio::time::Instant;

use crate::etcd::free_url;
use crate::proxy::Proxy;
use crate::world::{
    World, ask, commit_all, committed, create, fresh_lease, open, overtaken, read, reason,
};

/// Short, so that a call that waits for a hung endpoint ends soon.
const SHORT: Duration = Duration::from_millis(1_000);

/// Accepts connections and never answers.
async fn hung() -> (TcpListener, String) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    (listener, url)
}

#[tokio::test]
async fn a_dead_and_a_hung_endpoint_are_left_and_calls_succeed_on_the_good_one() {
    let world = World::new().await;
    let dead = free_url();
    let (_listener, hung) = hung().await;
    let good = world.etcd.url.as_str();
    for urls in [[&dead, &hung, good], [&hung, good, &dead]] {
        let store = open(&urls, &world.prefix, SHORT).await.unwrap();
        let began = Instant::now();
        let id = urls[0].to_owned();
        committed(&store, create(&id)).await;
        overtaken(&store, create(&id)).await;
        read(&store, &id).await.unwrap();
        let lease = fresh_lease();
        store.lease_grant(lease, 60).await.unwrap();
        assert_eq!(store.lease_keep_alive(lease).await.unwrap(), Some(60));
        // The bad ones were found out by `open`: nobody waits for them again.
        assert!(began.elapsed() < SHORT, "{:?}", began.elapsed());
    }
}

#[tokio::test]
async fn without_any_endpoint_nothing_is_sent_and_the_caller_knows() {
    let urls = [free_url(), free_url()];
    let urls: Vec<&str> = urls.iter().map(String::as_str).collect();
    let began = Instant::now();
    let opened = open(&urls, "/none/", Duration::from_secs(30)).await;
    assert_eq!(reason(opened), NotApplied::Unreachable);
    // Refused connections are not waited for.
    assert!(began.elapsed() < Duration::from_secs(5));
    assert_eq!(
        reason(open(&[], "/none/", SHORT).await),
        NotApplied::Refused
    );
}

#[tokio::test]
async fn a_hung_etcd_is_reported_within_the_limit() {
    let (_listener, hung) = hung().await;
    let began = Instant::now();
    let opened = open(&[&hung], "/none/", SHORT).await;
    assert_eq!(reason(opened), NotApplied::Unreachable);
    assert!(began.elapsed() < SHORT * 4);
}

#[tokio::test]
async fn a_write_into_silence_is_unknown_and_the_next_goes_elsewhere() {
    let world = World::new().await;
    let proxy = Proxy::start(&world.etcd.url).await;
    let store = open(&[&proxy.url, &world.etcd.url], &world.prefix, SHORT)
        .await
        .unwrap();
    committed(&store, create("1")).await;

    proxy.fall_silent();
    let lost = commit_all(&store, [create("2")]).await;
    assert!(
        matches!(lost, Err(StoreError::Indeterminate { .. })),
        "{lost:?}"
    );
    let began = Instant::now();
    committed(&store, create("3")).await;
    read(&store, "3").await.unwrap();
    assert!(began.elapsed() < SHORT / 2, "{:?}", began.elapsed());
}

#[tokio::test]
async fn a_read_into_silence_is_answered_by_another_endpoint() {
    let world = World::new().await;
    let proxy = Proxy::start(&world.etcd.url).await;
    let store = open(&[&proxy.url, &world.etcd.url], &world.prefix, SHORT)
        .await
        .unwrap();
    committed(&store, create("1")).await;
    proxy.fall_silent();
    assert!(read(&store, "1").await.unwrap().record.is_some());
}

#[tokio::test]
async fn a_write_waits_for_an_endpoint_to_prove_itself_after_it_failed() {
    let world = World::new().await;
    let proxy = Proxy::start(&world.etcd.url).await;
    let store = open(&[&proxy.url], &world.prefix, SHORT).await.unwrap();
    committed(&store, create("1")).await;
    proxy.fall_silent();
    // The first write is lost in the silence; the second is not even sent.
    let lost = commit_all(&store, [create("2")]).await;
    assert!(
        matches!(lost, Err(StoreError::Indeterminate { .. })),
        "{lost:?}"
    );
    let kept = commit_all(&store, [create("3")]).await;
    assert_eq!(reason(kept), NotApplied::Unreachable);
}

#[tokio::test]
async fn a_silent_endpoint_is_waited_for_once_and_not_once_for_each_caller() {
    let world = World::new().await;
    let proxy = Proxy::start(&world.etcd.url).await;
    let store = open(&[&proxy.url], &world.prefix, SHORT).await.unwrap();
    proxy.fall_silent();
    commit_all(&store, [create("1")]).await.unwrap_err();
    let began = Instant::now();
    let grants = (0..10).map(|_| store.lease_grant(fresh_lease(), 60));
    for granted in futures_util::future::join_all(grants).await {
        assert_eq!(reason(granted), NotApplied::Unreachable);
    }
    assert!(began.elapsed() < 3 * SHORT, "{:?}", began.elapsed());
}

#[tokio::test]
async fn a_cut_connection_is_made_anew() {
    let world = World::new().await;
    let proxy = Proxy::start(&world.etcd.url).await;
    let store = open(&[&proxy.url], &world.prefix, SHORT).await.unwrap();
    committed(&store, create("1")).await;
    for round in 2..5 {
        proxy.cut_all();
        // A read may be sent again, so it always succeeds.
        store.read(&[ask("1")]).await.unwrap();
        assert_eq!(proxy.accepted(), round);
    }
    committed(&store, create("2")).await;
}

#[tokio::test]
async fn what_is_not_etcd_is_refused() {
    let world = World::new().await;
    // etcd's own peer port and the like speak HTTP/1; the proxy here speaks nothing at all.
    let (listener, url) = hung().await;
    tokio::spawn(async move {
        loop {
            let (connection, _) = listener.accept().await.unwrap();
            drop(connection);
        }
    });
    let opened = open(&[&url], "/none/", SHORT).await;
    assert_eq!(reason(opened), NotApplied::Unreachable);
    let store = open(&[&url, &world.etcd.url], &world.prefix, SHORT)
        .await
        .unwrap();
    committed(&store, create("1")).await;
}
