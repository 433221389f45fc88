//! One timeline for all, and nobody works on an old one.

use fencepost::store::{NotApplied, Prefix, Store, StoreOptions};

use crate::world::{
    CALL_TIMEOUT, World, ask, commit_all, committed, corruption, create, read, reason, timeline,
};

#[tokio::test]
async fn of_many_sidecars_that_start_at_once_one_makes_the_timeline() {
    let world = World::new().await;
    let prefix = format!("{}fresh/", world.prefix);
    let mut opening = tokio::task::JoinSet::new();
    for id in 10..18 {
        let endpoint = fencepost::store::Endpoint::connect(&world.etcd.url).unwrap();
        let options = StoreOptions {
            prefix: Prefix::parse(&prefix).unwrap(),
            call_timeout: CALL_TIMEOUT,
        };
        opening.spawn(Store::open(vec![endpoint], options, timeline(id)));
    }
    let opened = opening.join_all().await;
    let first = opened[0].as_ref().unwrap().timeline();
    assert!((10..18).any(|id| timeline(id) == first));
    for store in &opened {
        assert_eq!(store.as_ref().unwrap().timeline(), first);
    }
    let (a, b) = (opened[0].as_ref().unwrap(), opened[7].as_ref().unwrap());
    let revision = committed(a, create("1")).await;
    assert_eq!(read(b, "1").await.unwrap().record.unwrap().1, revision);
}

#[tokio::test]
async fn a_replaced_timeline_is_noticed_by_a_commit_and_by_a_read() {
    let mut world = World::new().await;
    let (writer, reader) = (world.store.clone(), world.another().await);
    let old = writer.timeline();
    // What another store would have written under this prefix.
    let raw = format!("{}else/", world.prefix);
    let other = Store::open(
        vec![fencepost::store::Endpoint::connect(&world.etcd.url).unwrap()],
        StoreOptions {
            prefix: Prefix::parse(&raw).unwrap(),
            call_timeout: CALL_TIMEOUT,
        },
        timeline(77),
    )
    .await
    .unwrap();
    let value = world.value("else/meta/timeline").await.unwrap();
    world.put("meta/timeline", value).await;

    let moved = commit_all(&writer, [create("1"), create("2")]).await;
    assert_eq!(reason(moved), NotApplied::TimelineMoved);
    assert_eq!(writer.timeline(), other.timeline());
    assert_ne!(writer.timeline(), old);

    assert_eq!(reader.timeline(), old);
    let moved = reader.read(&[ask("1")]).await;
    assert_eq!(reason(moved), NotApplied::TimelineMoved);
    assert_eq!(reader.timeline(), other.timeline());

    // Nothing was written, and both go on in the new one.
    assert!(read(&reader, "1").await.unwrap().record.is_none());
    committed(&writer, create("1")).await;
    committed(&reader, create("2")).await;
}

#[tokio::test]
async fn a_timeline_that_was_put_anew_is_a_move_even_with_the_same_value() {
    let mut world = World::new().await;
    let value = world.value("meta/timeline").await.unwrap();
    world.put("meta/timeline", value).await;
    let moved = commit_all(&world.store, [create("1")]).await;
    assert_eq!(reason(moved), NotApplied::TimelineMoved);
    committed(&world.store, create("1")).await;
}

#[tokio::test]
async fn without_a_timeline_or_with_a_foreign_one_nothing_is_done() {
    let mut world = World::new().await;
    let key = format!("{}meta/timeline", world.prefix);
    let store = world.store.clone();
    world.raw.delete(key.clone(), None).await.unwrap();
    let (found, why) = corruption(commit_all(&store, [create("1")]).await);
    assert_eq!(found, key);
    assert!(why.contains("gone"), "{why}");
    corruption(store.read(&[ask("1")]).await);

    world.put("meta/timeline", "foreign").await;
    corruption(commit_all(&store, [create("1")]).await);
    corruption(crate::world::open(&[&world.etcd.url], &world.prefix, CALL_TIMEOUT).await);
    assert_eq!(world.value("meta/timeline").await.unwrap(), b"foreign");
    assert_eq!(world.value("r/order/1").await, None);
}
