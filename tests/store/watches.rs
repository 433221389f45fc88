//! Following keys: nothing is missed and nothing is told twice, whatever breaks meanwhile.

use std::time::Duration;

use fencepost::domain::ids::Kind;
use fencepost::domain::machine::{Filed, Lineage, MachineHash, MachineVersion};
use fencepost::domain::token::Revision;
use fencepost::store::{MachineNews, MachineWatch, ResourceNews, Store};

use crate::etcd::free_url;
use crate::proxy::Proxy;
use crate::world::{World, open, resource};

/// Short, so that a call that waits for a hung endpoint ends soon.
const SHORT: Duration = Duration::from_millis(1_000);
/// How long news may take.
const NEWS_WITHIN: Duration = Duration::from_secs(10);

fn machine(kind: &str, version: u32) -> Filed {
    Filed {
        kind: Kind::parse(kind).unwrap(),
        version: MachineVersion::new(version).unwrap(),
        hash: MachineHash::from_bytes([version as u8; 32]),
        source: bytes::Bytes::from(format!("version: {version}")),
        time_ms: 1,
        lineage: Lineage::default(),
    }
}

/// Puts a version in force that must be put in force.
async fn install(store: &Store, kind: &str, version: u32) -> Revision {
    let known = Kind::parse(kind).unwrap();
    let follows = store.machine(&known).await.unwrap().map(|(_, since)| since);
    let filed = machine(kind, version);
    assert!(store.install_machine(&filed, follows).await.unwrap());
    let (found, since) = store.machine(&known).await.unwrap().unwrap();
    assert_eq!(found, filed);
    assert!(
        !store.install_machine(&filed, follows).await.unwrap(),
        "twice"
    );
    since
}

async fn news(watch: &mut MachineWatch) -> MachineNews {
    let news = tokio::time::timeout(NEWS_WITHIN, watch.next()).await;
    news.expect("there is news")
}

/// Everything, by kind and version.
async fn everything(watch: &mut MachineWatch) -> Vec<(String, u32)> {
    match news(watch).await {
        MachineNews::All(found) => found
            .into_iter()
            .map(|(kind, filed)| (kind.to_string(), filed.unwrap().0.version.get()))
            .collect(),
        other => panic!("not everything: {other:?}"),
    }
}

/// One change: kind, revision and version; 0: it is gone.
async fn change(watch: &mut MachineWatch) -> (String, Revision, u32) {
    match news(watch).await {
        MachineNews::One(kind, at, filed) => {
            let version = filed.map_or(0, |filed| filed.unwrap().version.get());
            (kind.to_string(), at, version)
        }
        other => panic!("not one change: {other:?}"),
    }
}

#[tokio::test]
async fn a_watch_tells_everything_first_and_then_each_change_in_order() {
    let mut world = World::new().await;
    for kind in ["b", "a"] {
        install(&world.store, kind, 1).await;
    }
    let many: Vec<String> = (0..20).map(|at| format!("many-{at:02}")).collect();
    for kind in &many {
        install(&world.store, kind, 1).await;
    }
    let mut watch = world.another().await.watch_machines();
    let all = everything(&mut watch).await;
    assert_eq!(all.len(), 22, "more than a page");
    assert_eq!(all[0], ("a".to_owned(), 1));
    let second = install(&world.store, "a", 2).await;
    let third = install(&world.store, "a", 3).await;
    assert_eq!(change(&mut watch).await, ("a".to_owned(), second, 2));
    assert_eq!(change(&mut watch).await, ("a".to_owned(), third, 3));
    let key = format!("{}m/b", world.prefix);
    world.raw.delete(key, None).await.unwrap();
    let (kind, at, gone) = change(&mut watch).await;
    assert_eq!((kind.as_str(), gone), ("b", 0));
    assert!(at > third);
    // What is no machine is told as such, by its kind, and what is no kind not at all.
    world.put("m/a b", "foreign").await;
    world.put("m/c", "foreign").await;
    match news(&mut watch).await {
        MachineNews::One(kind, _, Some(Err(error))) => {
            assert_eq!(kind.as_str(), "c");
            assert!(error.to_string().contains("m/c"), "{error}");
        }
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_watch_that_was_cut_goes_on_where_it_was() {
    let world = World::new().await;
    let proxy = Proxy::start(&world.etcd.url).await;
    let store = open(&[&proxy.url], &world.prefix, SHORT).await.unwrap();
    let mut watch = store.watch_machines();
    assert_eq!(everything(&mut watch).await, []);
    for version in 1..4 {
        let first = install(&world.store, "a", 2 * version - 1).await;
        assert_eq!(
            change(&mut watch).await,
            ("a".to_owned(), first, 2 * version - 1)
        );
        proxy.cut_all();
        let second = install(&world.store, "a", 2 * version).await;
        assert_eq!(
            change(&mut watch).await,
            ("a".to_owned(), second, 2 * version)
        );
    }
}

#[tokio::test]
async fn what_etcd_has_forgotten_meanwhile_is_read_anew() {
    let mut world = World::alone().await;
    let proxy = Proxy::start(&world.etcd.url).await;
    let store = open(&[&proxy.url], &world.prefix, SHORT).await.unwrap();
    let mut watch = store.watch_machines();
    assert_eq!(everything(&mut watch).await, []);
    install(&world.store, "gone", 1).await;
    assert_eq!(change(&mut watch).await.2, 1);
    proxy.cut_all();
    install(&world.store, "a", 1).await;
    install(&world.store, "a", 2).await;
    let key = format!("{}m/gone", world.prefix);
    let gone = world.raw.delete(key, None).await.unwrap();
    let now = gone.header().unwrap().revision();
    world.raw.compact(now, None).await.unwrap();
    assert_eq!(everything(&mut watch).await, [("a".to_owned(), 2)]);
    install(&world.store, "a", 3).await;
    assert_eq!(change(&mut watch).await.2, 3);
}

#[tokio::test]
async fn a_watch_goes_to_another_endpoint_when_its_own_falls_silent_or_is_gone() {
    let world = World::new().await;
    let proxy = Proxy::start(&world.etcd.url).await;
    let dead = free_url();
    let urls = [proxy.url.as_str(), &dead, &world.etcd.url];
    let store = open(&urls, &world.prefix, SHORT).await.unwrap();
    let mut watch = store.watch_machines();
    assert_eq!(everything(&mut watch).await, []);
    install(&world.store, "a", 1).await;
    assert_eq!(change(&mut watch).await.2, 1);
    proxy.fall_silent();
    proxy.cut_all();
    let accepted = proxy.accepted();
    install(&world.store, "a", 2).await;
    assert_eq!(change(&mut watch).await.2, 2);
    assert!(proxy.accepted() >= accepted);
    install(&world.store, "a", 3).await;
    assert_eq!(change(&mut watch).await.2, 3);
}

#[tokio::test]
async fn whoever_stops_waiting_misses_nothing() {
    let world = World::new().await;
    let mut watch = world.another().await.watch_machines();
    assert_eq!(everything(&mut watch).await, []);
    for version in 1..30 {
        let waits = Duration::from_micros(u64::from(version) * 150);
        let _ = tokio::time::timeout(waits, std::future::pending::<()>()).await;
        install(&world.store, "a", version).await;
        // Given up at any point, then asked again.
        let mut told = None;
        while told.is_none() {
            told = tokio::time::timeout(waits, watch.next()).await.ok();
        }
        match told {
            Some(MachineNews::One(_, _, Some(Ok(filed)))) => {
                assert_eq!(filed.version.get(), version);
            }
            other => panic!("{other:?}"),
        }
    }
    watch.restart();
    assert_eq!(everything(&mut watch).await, [("a".to_owned(), 29)]);
}

/// etcd puts up to a thousand revisions into one message, which the client does not read if it is longer than its limit.
#[tokio::test]
async fn a_backlog_that_no_message_can_carry_is_said_to_be_missed() {
    /// More revisions than one message has, of more bytes than one is read of.
    const CHANGES: usize = 1_100;
    const BYTES: usize = 17 * 1024;
    let mut world = World::alone().await;
    let resource = resource("long");
    let before = world.raw.put("before", "", None).await.unwrap();
    let before = before.header().unwrap().revision();
    let key = format!("{}r/{}/{}", world.prefix, resource.kind(), resource.id());
    for _ in 0..CHANGES {
        world
            .raw
            .put(key.clone(), vec![b'x'; BYTES], None)
            .await
            .unwrap();
    }
    let after = Revision::from_etcd(before).unwrap();
    let mut watch = world.store.resource_changes(&resource, after);
    let news = tokio::time::timeout(NEWS_WITHIN, watch.next()).await;
    let news = news.expect("it is told");
    assert!(matches!(news, Ok(ResourceNews::Missed)), "{news:?}");
}
