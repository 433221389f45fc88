//! A commit that takes a turn holds only if the queue is as it says.

use std::sync::Arc;

use fencepost::domain::ids::Nonce;
use fencepost::domain::token::Revision;
use fencepost::domain::waiter::{Place, Waiter, WaiterName, WaitingCall};
use fencepost::store::{
    Commit, Entering, QueueGuard, ReservationWrite, SeenQueue, SessionWrite, WaitSession,
};

use crate::world::{World, committed, create, grant, granted_lease, overtaken, resource};

fn name(arrival: u64) -> WaiterName {
    let nonce = Nonce::from_bytes([3; 16]);
    WaiterName { arrival, nonce }
}

/// Enters all of these into the queue of resource 1, in one write.
async fn entered(world: &World, session: &mut WaitSession, arrivals: &[u64]) -> Revision {
    let enter = arrivals.iter().map(|arrival| Entering {
        name: name(*arrival),
        resources: Arc::from([resource("1")]),
        waiter: Waiter {
            holder: None,
            call: WaitingCall::Reserve,
            operation: None,
            request: None,
            also: 0,
            time_ms: 0,
        },
    });
    let enter: Vec<_> = enter.collect();
    match world.store.enter_waiters(session, &enter).await {
        Ok(SessionWrite::Done(at)) => {
            session.written = Some(at);
            at
        }
        other => panic!("not entered: {other:?}"),
    }
}

#[tokio::test]
async fn a_grant_to_whoever_waits_holds_only_if_it_still_waits_and_comes_first() {
    let world = World::new().await;
    let store = &world.store;
    let mut session = WaitSession {
        name: Nonce::from_bytes([1; 16]),
        lease: granted_lease(store).await,
        written: None,
        under: store.timeline_seen(),
    };
    let together = entered(&world, &mut session, &[2, 1]).await;
    // It came to another sidecar first, and was entered later.
    let later = entered(&world, &mut session, &[0]).await;
    let place = |since, arrival| Place {
        since,
        name: name(arrival),
    };
    let [first, second, third] = [place(together, 1), place(together, 2), place(later, 0)];
    let lease = granted_lease(store).await;
    let turn = |place: Option<Place>| Commit {
        queue: place.map_or(QueueGuard::NobodyWaits, QueueGuard::First),
        leaves: place.map(|place| place.name),
        ..grant("1", 7, lease)
    };
    let found = async |place| {
        let seen = overtaken(store, turn(place)).await;
        assert!(seen.record.is_none() && seen.reservation.is_none());
        seen.queue.expect("it was looked at")
    };
    // Nobody barges in, and nobody overtakes: neither those who were entered before, nor those who were entered together with
    // it and came before it.
    for late in [None, Some(third)] {
        let found = found(late).await;
        let one_of = matches!(&found, SeenQueue::OneOf { since, gone: None } if *since == together);
        assert!(one_of, "{found:?} for {late:?}");
    }
    let found_first = found(Some(second)).await;
    let is_first = matches!(&found_first, SeenQueue::First(place) if *place == first);
    assert!(is_first, "{found_first:?}");
    // Whoever has left is granted nothing, although nobody comes before its place.
    let leaves = [(resource("1"), first.name)];
    store.remove_waiters(session.under, &leaves).await.unwrap();
    let found_gone = found(Some(first)).await;
    let gone = matches!(&found_gone, SeenQueue::OneOf { since, gone } if *since == together && *gone == Some(first));
    assert!(gone, "{found_gone:?}");
    // Now it is the turn of the next, and its entry goes with the grant.
    let granted = committed(store, turn(Some(second))).await;
    let release = Commit {
        seen: Some(granted),
        reservation: fencepost::store::ReservationGuard::GrantedAt(granted),
        record: None,
        reservation_write: ReservationWrite::Delete,
        ..create("1")
    };
    committed(store, release).await;
    let again = Commit {
        seen: Some(granted),
        ..turn(Some(third))
    };
    committed(store, again).await;
    let waits = store.who_waits(&resource("1")).await.unwrap();
    assert_eq!(waits.calls, 0, "{waits:?}");
}
