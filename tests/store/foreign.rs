//! What Fencepost did not write, or what was damaged, is reported and never trusted nor overwritten.

use fencepost::store::{MemberOutcome, ReadAsk, ReservationGuard};

use crate::world::{
    World, ask, commit_all, committed, corruption, create, grant, granted_lease, incident, listed,
    operation, operation_id, read, resource,
};

#[tokio::test]
async fn a_foreign_record_is_reported_with_its_key_and_not_overwritten() {
    let mut world = World::new().await;
    world.put("r/order/a%2F1", "{\"state\":\"paid\"}").await;
    let store = world.store.clone();

    let (key, why) = corruption(read(&store, "a/1").await);
    assert_eq!(key, format!("{}r/order/a%2F1", world.prefix));
    assert_eq!(key, store.key_of(&resource("a/1")));
    assert!(why.contains("foreign"), "{why}");

    // In a batch it stands in nobody's way.
    let mut outcome = commit_all(&store, [create("a/1"), create("a/2")])
        .await
        .unwrap();
    assert!(matches!(
        outcome.members.pop(),
        Some(Ok(MemberOutcome::Committed { .. }))
    ));
    let (found, _) = corruption(outcome.members.pop().unwrap());
    assert_eq!(found, key);
    assert_eq!(
        world.value("r/order/a%2F1").await.unwrap(),
        b"{\"state\":\"paid\"}"
    );
}

#[tokio::test]
async fn a_damaged_or_misplaced_record_is_reported() {
    let mut world = World::new().await;
    let store = world.store.clone();
    committed(&store, create("1")).await;
    let good = world.value("r/order/1").await.unwrap();

    let mut flipped = good.clone();
    *flipped.last_mut().unwrap() ^= 1;
    let mut newer = good.clone();
    newer[0] += 16;
    for (value, word) in [
        (flipped, "checksum"),
        (good[..good.len() - 1].to_vec(), "checksum"),
        (good[..4].to_vec(), "too short"),
        (Vec::new(), "too short"),
        (newer, "upgrade"),
    ] {
        world.put("r/order/1", value.clone()).await;
        let (_, why) = corruption(read(&store, "1").await);
        assert!(why.contains(word), "{why}");
        // A read of two shows the other one.
        let both = store.read(&[ask("1"), ask("2")]).await.unwrap();
        assert!(both[0].is_err() && both[1].is_ok());
        let outcome = commit_all(&store, [create("1")]).await.unwrap();
        corruption(outcome.members.into_iter().next().unwrap());
        assert_eq!(world.value("r/order/1").await.unwrap(), value);
    }
    // Copied to the key of another resource, a good record is none.
    world.put("r/order/2", good).await;
    let (_, why) = corruption(read(&store, "2").await);
    assert!(why.contains("copied"), "{why}");
}

#[tokio::test]
async fn a_foreign_reservation_or_operation_is_reported() {
    let mut world = World::new().await;
    let store = world.store.clone();
    world.put("h/order/1", "mine").await;
    let (key, _) = corruption(read(&store, "1").await);
    assert!(key.ends_with("h/order/1"), "{key}");

    // A true value without a lease would hold the resource for ever.
    let lease = granted_lease(&store).await;
    committed(&store, grant("2", 1, lease)).await;
    let value = world.value("h/order/2").await.unwrap();
    world.put("h/order/2", value).await;
    let (_, why) = corruption(read(&store, "2").await);
    assert!(why.contains("no lease"), "{why}");

    let mut commit = create("3");
    commit.operations = vec![operation(1)];
    committed(&store, commit).await;
    let value = world.value("o/order/3/op-1").await.unwrap();
    world.put("o/order/3/op-2", value).await;
    let looked = ReadAsk {
        resource: resource("3"),
        operations: vec![operation_id(1), operation_id(2)],
        machine: false,
    };
    let (key, _) = corruption(store.read(&[looked]).await.unwrap().remove(0));
    assert!(key.ends_with("o/order/3/op-2"), "{key}");
}

#[tokio::test]
async fn foreign_incidents_are_passed_over_in_a_page() {
    let mut world = World::new().await;
    let store = world.store.clone();
    let mut commit = create("1");
    commit.incidents = ["inc-b", "inc-d", "inc-f"]
        .map(|id| incident(id, ""))
        .into();
    committed(&store, commit).await;
    let copied = world.value("i/inc-b").await.unwrap();
    world.put("i/inc-a", "foreign").await;
    world.put("i/inc-c", copied).await;
    world.put("i/inc-e/below", "foreign").await;
    let page = listed(&store, None, 2).await;
    let ids: Vec<_> = page.iter().map(|i| i.id.0.as_str()).collect();
    assert_eq!(ids, ["inc-b", "inc-d"]);
    let rest = listed(&store, Some(&page[1].id), 2).await;
    assert_eq!(rest.len(), 1);
}

/// Case A1: names that lie near each other, and keys put by hand among them.
#[tokio::test]
async fn near_names_and_foreign_keys_are_in_nobodys_way() {
    let mut world = World::new().await;
    let store = world.store.clone();
    for key in [
        "r/order/1/x",
        "h/order/1/zzz",
        "h/order/",
        "x",
        "r/order",
        "meta/timeline/x",
    ] {
        world.put(key, "foreign").await;
    }
    let names = [
        "1",
        "10",
        "order",
        "1/x",
        "1 ",
        "order%2F1",
        "order/1",
        "%",
        "é\n",
    ];
    let mut tokens = std::collections::BTreeSet::new();
    for (at, name) in names.iter().enumerate() {
        let lease = granted_lease(&store).await;
        tokens.insert(committed(&store, grant(name, at as u8, lease)).await);
    }
    assert_eq!(tokens.len(), names.len());
    for (at, name) in names.iter().enumerate() {
        let seen = read(&store, name).await.unwrap();
        let (record, revision) = seen.record.unwrap();
        assert_eq!(record.round.unwrap().nonce.as_bytes(), &[at as u8; 16]);
        assert_eq!(seen.reservation.unwrap().granted, revision);
        let mut next = create(name);
        next.seen = Some(revision);
        next.reservation = ReservationGuard::GrantedAt(revision);
        committed(&store, next).await;
    }
}
