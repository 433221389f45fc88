//! Guards hold, batches are one transaction, and what is read is what was written.

use fencepost::domain::decision::IncidentId;
use fencepost::domain::record::{LeaseId, Record};
use fencepost::store::{
    BATCH_MEMBERS_MAX, Batch, Commit, MemberOutcome, NotApplied, READ_OPERATIONS_MAX, ReadAsk,
    ReservationGuard, ReservationWrite, Seen, SeenReservation,
};

use crate::world::{
    World, ask, commit_all, committed, create, fresh_lease, grant, granted_lease, incident, listed,
    operation, operation_id, overtaken, read, reason, record, resource, round,
};

fn nothing(seen: &Seen) -> bool {
    seen.record.is_none() && seen.reservation.is_none() && seen.operations.is_empty()
}

#[tokio::test]
async fn what_is_committed_is_read_with_its_revisions() {
    let world = World::new().await;
    let store = &world.store;
    assert!(nothing(&read(store, "1").await.unwrap()));

    let lease = granted_lease(store).await;
    let mut commit = grant("1", 7, lease);
    commit.operations = vec![operation(1), operation("a/b %")];
    commit.absent_operations = vec![operation_id(1), operation_id("a/b %")];
    let written = commit.record.clone().unwrap();
    let revision = committed(store, commit).await;

    let asks = [
        ReadAsk {
            resource: resource("1"),
            operations: vec![operation_id("none"), operation_id("a/b %")],
            machine: false,
        },
        ask("2"),
    ];
    let mut found = store.read(&asks).await.unwrap();
    assert!(nothing(&found.pop().unwrap().unwrap()));
    let seen = found.pop().unwrap().unwrap();
    assert_eq!(seen.record, Some((written, revision)));
    let reservation = SeenReservation {
        granted: revision,
        lease,
    };
    assert_eq!(seen.reservation, Some(reservation));
    assert_eq!(seen.operations, [operation("a/b %")]);

    // The release takes the key away, and the record stays.
    let mut release = create("1");
    release.seen = Some(revision);
    release.reservation = ReservationGuard::GrantedAt(revision);
    release.record = None;
    release.reservation_write = ReservationWrite::Delete;
    committed(store, release).await;
    let seen = read(store, "1").await.unwrap();
    assert_eq!(seen.record.unwrap().1, revision);
    assert_eq!(seen.reservation, None);
}

#[tokio::test]
async fn each_guard_alone_stops_a_commit_and_shows_how_things_stand() {
    let world = World::new().await;
    let store = &world.store;
    let lease = granted_lease(store).await;
    let mut first = grant("1", 1, lease);
    first.operations = vec![operation(1)];
    let revision = committed(store, first).await;
    let other = committed(store, create("2")).await;

    let good = Commit {
        seen: Some(revision),
        reservation: ReservationGuard::GrantedAt(revision),
        absent_operations: vec![operation_id(2)],
        record: Some(record(2)),
        operations: vec![operation(2)],
        incidents: vec![incident("inc-guards", "must not be written")],
        ..create("1")
    };
    let mut broken = Vec::new();
    for seen in [None, Some(other)] {
        broken.push(Commit {
            seen,
            ..good.clone()
        });
    }
    broken.push(Commit {
        reservation: ReservationGuard::GrantedAt(other),
        ..good.clone()
    });
    // Who makes a reservation key, or a record beside one, must find none.
    let next = Record {
        round: Some(round(2, lease)),
        ..record(2)
    };
    broken.push(Commit {
        reservation: ReservationGuard::Absent,
        reservation_write: ReservationWrite::Grant(lease),
        record: Some(next),
        ..good.clone()
    });
    broken.push(Commit {
        absent_operations: vec![operation_id(2), operation_id(1)],
        ..good.clone()
    });
    for commit in broken {
        let asked = commit.absent_operations.clone();
        let seen = overtaken(store, commit.clone()).await;
        assert_eq!(seen.record.unwrap().1, revision, "{commit:?}");
        assert_eq!(seen.reservation.unwrap().granted, revision);
        let known = asked.contains(&operation_id(1));
        assert_eq!(seen.operations, vec![operation(1); usize::from(known)]);
    }
    let looked = ReadAsk {
        resource: resource("1"),
        operations: vec![operation_id(2)],
        machine: false,
    };
    let seen = store.read(&[looked]).await.unwrap().remove(0).unwrap();
    assert!(seen.operations.is_empty());
    assert!(listed(store, None, 10).await.is_empty());

    // The same with all guards right.
    let second = committed(store, good).await;
    assert!(second > revision);
    assert_eq!(read(store, "1").await.unwrap().record.unwrap().1, second);
    assert_eq!(listed(store, None, 10).await.len(), 1);
}

#[tokio::test]
async fn a_grant_stops_whoever_knows_of_no_reservation() {
    let mut world = World::new().await;
    let store = world.store.clone();
    let free = committed(&store, create("1")).await;
    let lease = granted_lease(&store).await;
    let mut taken = grant("1", 1, lease);
    taken.seen = Some(free);
    let taken = committed(&store, taken).await;
    let mut late = create("1");
    late.seen = Some(free);
    let seen = overtaken(&store, late).await;
    assert_eq!(seen.record.unwrap().1, taken);
    assert_eq!(seen.reservation.unwrap().granted, taken);

    // Nor is a record begun beside a reservation, should the one before have been deleted by hand.
    world.delete("r/order/1").await;
    let seen = overtaken(&store, create("1")).await;
    assert_eq!(seen.record, None);
    assert_eq!(seen.reservation.unwrap().granted, taken);
}

#[tokio::test]
async fn a_resource_that_exists_is_not_created_again() {
    let world = World::new().await;
    let revision = committed(&world.store, create("1")).await;
    let seen = overtaken(&world.store, create("1")).await;
    assert_eq!(seen.record.unwrap().1, revision);
    // One that does not exist is not changed either.
    let mut change = create("2");
    change.seen = Some(revision);
    assert!(nothing(&overtaken(&world.store, change).await));
}

#[tokio::test]
async fn a_member_is_overtaken_without_harm_to_the_others() {
    let world = World::new().await;
    let store = &world.store;
    let first = committed(store, create("2")).await;
    let outcome = commit_all(store, [create("1"), create("2"), create("3")])
        .await
        .unwrap();
    assert!(matches!(
        &outcome.members[..],
        [
            Ok(MemberOutcome::Committed { .. }),
            Ok(MemberOutcome::Overtaken(..)),
            Ok(MemberOutcome::Committed { .. })
        ]
    ));
    for (id, revision) in [
        ("1", outcome.revision),
        ("2", first),
        ("3", outcome.revision),
    ] {
        assert_eq!(read(store, id).await.unwrap().record.unwrap().1, revision);
    }
}

#[tokio::test]
async fn one_dead_lease_turns_the_whole_batch_away() {
    let world = World::new().await;
    let store = &world.store;
    let dead = grant("2", 1, fresh_lease());
    let refused = commit_all(store, [create("1"), dead, create("3")]).await;
    assert_eq!(reason(refused), NotApplied::LeaseGone);
    for id in ["1", "2", "3"] {
        assert!(nothing(&read(store, id).await.unwrap()), "{id}");
    }
    // Alone, the healthy ones pass.
    committed(store, create("1")).await;
}

#[tokio::test]
async fn of_two_sidecars_exactly_one_writes_after_each_revision() {
    const ROUNDS: u64 = 50;
    let world = World::new().await;
    let sidecars = [world.store.clone(), world.another().await];
    let mut revision = None;
    let mut wins = 0;
    for moves in 0..ROUNDS {
        let attempt = |store| async move {
            let mut commit = create("1");
            commit.seen = revision;
            commit.record = Some(record(moves));
            commit_all(store, [commit]).await.unwrap()
        };
        let (a, b) = tokio::join!(attempt(&sidecars[0]), attempt(&sidecars[1]));
        let mut winners = Vec::new();
        for outcome in [a, b] {
            match outcome.members.into_iter().next().unwrap().unwrap() {
                MemberOutcome::Committed { .. } => winners.push(outcome.revision),
                MemberOutcome::Overtaken(seen, _) => {
                    let (found, at) = seen.record.unwrap();
                    assert_eq!(found, record(moves));
                    assert!(Some(at) > revision);
                }
            }
        }
        assert_eq!(winners.len(), 1, "after {revision:?}");
        wins += 1;
        revision = winners.pop();
    }
    assert_eq!(wins, ROUNDS);
}

#[tokio::test]
async fn etcd_takes_the_fullest_batch() {
    let world = World::new().await;
    let store = &world.store;
    let full = |id: usize, operations: usize| Commit {
        absent_operations: (0..operations).map(operation_id).collect(),
        operations: (0..operations).map(operation).collect(),
        ..create(&id.to_string())
    };
    let mut batch = Batch::new();
    for id in 1..BATCH_MEMBERS_MAX {
        batch.try_add(store.prepare(&full(id, 1))).unwrap();
    }
    // The largest member that fits beside them: 63 operations, and a level more for its incident.
    let mut largest = full(0, 61);
    largest.absent_operations.truncate(1);
    largest.incidents = vec![incident("inc-large", "")];
    let largest = store.prepare(&largest);
    assert_eq!(largest.operation_count(), 64);
    batch.try_add(largest).unwrap();
    assert_eq!(batch.len(), BATCH_MEMBERS_MAX);

    let outcome = store.commit(batch.members()).await.unwrap();
    for member in &outcome.members {
        assert!(
            matches!(member, Ok(MemberOutcome::Committed { .. })),
            "{member:?}"
        );
    }
    // All of it at one revision, and a repetition shows it all.
    let outcome = store.commit(batch.members()).await.unwrap();
    for member in outcome.members {
        let Ok(MemberOutcome::Overtaken(seen, _)) = member else {
            panic!("{member:?}");
        };
        assert_eq!(seen.operations, [operation(0)]);
    }
}

#[tokio::test]
async fn a_member_that_is_too_large_for_etcd_is_definitely_refused() {
    let world = World::new().await;
    let store = &world.store;
    let mut many = create("1");
    many.operations = (0..130).map(operation).collect();
    assert_eq!(
        reason(commit_all(store, [many]).await),
        NotApplied::TooLarge
    );
    let mut long = create("1");
    long.operations = (0..40)
        .map(|id| {
            let mut operation = operation(id);
            operation.result.body = vec![b'x'; 60_000].into();
            operation
        })
        .collect();
    assert_eq!(
        reason(commit_all(store, [long]).await),
        NotApplied::TooLarge
    );
    let mut twice = create("1");
    twice.operations = vec![operation(1), operation(1)];
    assert_eq!(
        reason(commit_all(store, [twice]).await),
        NotApplied::Refused
    );
    assert_eq!(reason(store.commit(&[]).await), NotApplied::Refused);
    assert!(nothing(&read(store, "1").await.unwrap()));
}

#[tokio::test]
async fn a_read_takes_as_many_keys_as_etcd_does_and_no_more() {
    let world = World::new().await;
    let store = &world.store;
    let ask = |operations: usize| ReadAsk {
        resource: resource("1"),
        operations: (0..operations).map(operation_id).collect(),
        machine: false,
    };
    let most = ask(READ_OPERATIONS_MAX - 2);
    assert_eq!(most.operation_count(), READ_OPERATIONS_MAX);
    assert!(store.read(&[most]).await.unwrap().remove(0).is_ok());
    let over = store.read(&[ask(READ_OPERATIONS_MAX - 3), ask(0)]).await;
    assert_eq!(reason(over), NotApplied::TooLarge);
    assert!(store.read(&[]).await.unwrap().is_empty());
}

#[tokio::test]
async fn the_first_report_of_an_incident_stays() {
    let world = World::new().await;
    let store = &world.store;
    let mut first = create("1");
    first.incidents = vec![incident("inc-1", "first"), incident("inc-2", "other")];
    let revision = committed(store, first).await;
    let mut second = create("1");
    second.seen = Some(revision);
    second.incidents = vec![incident("inc-1", "again"), incident("inc-3", "new")];
    committed(store, second).await;
    let found = listed(store, None, 10).await;
    let texts: Vec<_> = found.iter().map(|i| i.explanation.as_str()).collect();
    assert_eq!(texts, ["first", "other", "new"]);
}

#[tokio::test]
async fn incidents_are_paged_in_the_order_of_their_ids() {
    let world = World::new().await;
    let store = &world.store;
    let names: Vec<String> = (0..300).map(|n| format!("inc-{n:03}")).collect();
    for (at, names) in names.chunks(60).enumerate() {
        let mut commit = create(&at.to_string());
        commit.incidents = names.iter().map(|name| incident(name, "")).collect();
        committed(store, commit).await;
    }
    let ids = |found: Vec<fencepost::domain::incident::Incident>| -> Vec<String> {
        found.into_iter().map(|incident| incident.id.0).collect()
    };
    // More than one request to etcd.
    assert_eq!(ids(listed(store, None, 1_000).await), names);
    assert_eq!(ids(listed(store, None, 7).await), names[..7]);
    let after = IncidentId("inc-006".to_owned());
    assert_eq!(ids(listed(store, Some(&after), 200).await), names[7..207]);
    let last = IncidentId("inc-299".to_owned());
    assert!(listed(store, Some(&last), 5).await.is_empty());
    assert!(listed(store, None, 0).await.is_empty());
}

#[tokio::test]
async fn a_reservation_goes_with_its_lease_and_a_new_one_has_a_later_revision() {
    let world = World::new().await;
    let store = &world.store;
    let lease = granted_lease(store).await;
    let first = committed(store, grant("1", 1, lease)).await;
    store.lease_revoke(lease).await.unwrap();
    let seen = read(store, "1").await.unwrap();
    assert_eq!(seen.reservation, None);
    assert_eq!(
        seen.record.unwrap().0.round.unwrap().lease,
        LeaseId(lease.0)
    );
    let mut next = grant("1", 2, granted_lease(store).await);
    next.seen = Some(first);
    assert!(committed(store, next).await > first);
}
