//! After an outage all who hold, wait and watch come back with few requests, and nobody has lost anything.

use std::time::Duration;

use fencepost::domain::ids::ResourceId;
use fencepost::engine::{AtClose, Boottime, Following, Hold};
use futures_util::future::join_all;

use super::follows::{following, shown};
use super::holds::opened;
use super::queue::{
    LONG, LOOKED_WITHIN, SESSION_OVER_WITHIN, entries, granted, queued_within, waits,
};
use crate::support::ask::{ask, create, fresh_resource, reserve_for};
use crate::support::backend::{Backend, connection};
use crate::support::claim::applied;
use crate::support::engines;
use crate::support::fault::{Counts, FaultPlan, FaultyLink, Rpc};
use crate::support::proxy::Proxy;
use crate::support::sidecar::Sidecar;
use crate::support::until;

/// Reservations held at each of two sidecars,
const HOLDS: usize = 100;
/// callers that wait there,
const WAITERS: usize = 100;
/// for so many resources,
const BUSY: usize = 5;
/// and streams that watch.
const WATCHERS: usize = 10;
/// Long enough that a cut which ends all places in queues costs no reservation.
const TTL_SECONDS: u32 = 36;
/// Watches of one sidecar: two for each resource that is waited for, and for each stream; on machines, and on what is held.
const STREAMS: usize = 2 * BUSY + 2 * WATCHERS + 2;
/// Leases that may be held ready for one TTL, each of which is granted, or given up, by a request.
const LEASES_READY: usize = 64;
const CALL_TIMEOUT: Duration = Duration::from_secs(5);

/// A sidecar whose line can be cut, and whose requests are counted.
struct Place {
    sidecar: Sidecar,
    proxy: Proxy,
    plan: FaultPlan,
}

impl Place {
    async fn new(backend: &Backend, url: &str) -> Self {
        let proxy = Proxy::to_url(url);
        let (channel, plan) = FaultyLink::wrap(connection(&proxy.url()));
        let sidecar = Sidecar::open(channel, backend.prefix(), CALL_TIMEOUT).await;
        Self {
            sidecar,
            proxy,
            plan,
        }
    }

    async fn hold(&self) -> Hold {
        let wishes: Vec<_> = (0..HOLDS)
            .map(|_| reserve_for(&fresh_resource(), TTL_SECONDS))
            .collect();
        let grants = join_all(wishes.iter().map(|wish| self.sidecar.hold(wish))).await;
        let ids: Vec<_> = grants.iter().map(|grant| &grant.id).collect();
        opened(&self.sidecar, &ids, AtClose::Keep).await
    }
}

async fn all_who_hold_wait_and_watch_come_back_with_few_requests(backend: Backend) {
    let url = backend.url().await;
    let far = backend.sidecar().await;
    let places = [
        Place::new(&backend, &url).await,
        Place::new(&backend, &url).await,
    ];
    let busy: [_; BUSY] = std::array::from_fn(|_| fresh_resource());
    let seen = fresh_resource();
    applied(&far.transition(&create(&seen, "made")).await);
    let mut holders = Vec::new();
    for resource in &busy {
        holders.push(far.hold(&reserve_for(resource, 600)).await);
    }
    let mut waiting = Vec::new();
    for place in &places {
        waiting.extend((0..WAITERS).map(|at| waits(&place.sidecar, &busy[at % BUSY])));
    }
    for resource in &busy {
        queued_within(&backend, resource, 2 * WAITERS / BUSY, LONG).await;
    }
    let mut watching: Vec<Following> = Vec::new();
    for place in &places {
        for _ in 0..WATCHERS {
            let mut live = following(&place.sidecar, &seen, None).await;
            shown(&mut live).await;
            watching.push(live);
        }
    }
    let held = [places[0].hold().await, places[1].hold().await];
    let renewed = |place: &Place| place.sidecar.engine.holdings().renewed;
    until("all were renewed once", LONG, || async {
        let all = places.iter().all(|place| renewed(place) >= count(HOLDS));
        all.then_some(())
    })
    .await;
    let begun = places.each_ref().map(|place| place.plan.counts());
    places.iter().for_each(|place| place.proxy.cut());
    let cut_at = Boottime::now();
    until("half of the renewals have failed", LONG, || async {
        let failed = |place: &Place| place.sidecar.engine.holdings().failed;
        let half = places.iter().all(|place| failed(place) >= count(HOLDS / 2));
        half.then_some(())
    })
    .await;
    until("no place is left", SESSION_OVER_WITHIN, || async {
        (all_queued(&backend, &busy).await == 0).then_some(())
    })
    .await;
    // What nobody hears of until the line stands again.
    applied(
        &far.transition(&ask(&seen, "move").from(&["made"]).to("moved"))
            .await,
    );
    let cut = places.each_ref().map(|place| place.plan.counts());
    let (renewed_before, healed) = (places.each_ref().map(renewed), Boottime::now());
    places.iter().for_each(|place| place.proxy.heal());
    for live in &mut watching {
        let told = shown(live).await;
        assert!(!told.gap);
        assert_eq!(told.snapshot.state.unwrap().to_string(), "moved");
    }
    until("all were renewed again", LONG, || async {
        let all = places
            .iter()
            .zip(renewed_before)
            .all(|(place, before)| renewed(place) >= before + count(HOLDS));
        all.then_some(())
    })
    .await;
    until("all are queued again", SESSION_OVER_WITHIN, || async {
        (all_queued(&backend, &busy).await == 2 * WAITERS).then_some(())
    })
    .await;
    let (cut_for, back_in) = (healed.since(cut_at), Boottime::now().since(healed));
    for (at, place) in places.iter().enumerate() {
        let (during, after) = (
            cut[at].since(&begun[at]),
            place.plan.counts().since(&cut[at]),
        );
        println!(
            "{}: cut for {cut_for:?}, {during}; back in {back_in:?}, {after}",
            backend.name()
        );
        tried_at_a_pace(&during, whole_seconds(cut_for));
        came_back_merged(&after, whole_seconds(back_in));
        let holdings = place.sidecar.engine.holdings();
        assert_eq!((holdings.held, holdings.lost), (HOLDS, 0), "{holdings:?}");
    }
    // Nobody was told anything but what is true, and the first of each queue are served.
    assert!(waiting.iter().all(|waits| !waits.is_finished()));
    for holder in &holders {
        far.release(&holder.id).await;
        let next = futures_util::future::select_all(waiting);
        let (told, _, left) = tokio::time::timeout(LOOKED_WITHIN, next).await.unwrap();
        let grant = granted(told);
        assert_eq!(grant.id.resource(), holder.id.resource());
        waiting = left;
    }
    waiting.iter().for_each(tokio::task::JoinHandle::abort);
    drop(held);
}

fn count(count: usize) -> u64 {
    count.try_into().unwrap()
}

fn whole_seconds(time: Duration) -> usize {
    time.as_secs().try_into().unwrap()
}

async fn all_queued(backend: &Backend, busy: &[ResourceId]) -> usize {
    let mut all = 0;
    for resource in busy {
        all += entries(backend, resource).await;
    }
    all
}

/// Each stream and each reservation is tried at its own growing pace; of all else there is less than one try for each caller.
fn tried_at_a_pace(counts: &Counts, seconds: usize) {
    let (watches, keepalives) = (counts.of(Rpc::Watch), counts.of(Rpc::LeaseKeepAlive));
    assert!(watches <= STREAMS * (8 + seconds), "{counts}");
    assert!(keepalives <= HOLDS * (1 + seconds / 2), "{counts}");
    let rest = counts.all() - watches - keepalives;
    assert!(rest <= HOLDS + WAITERS, "{counts}");
}

/// A watch for each that was open, a keepalive and at most a look for each renewal; and for those who wait a few transactions.
fn came_back_merged(counts: &Counts, seconds: usize) {
    // After a third of its TTL each is renewed once more.
    let renewals = HOLDS * (1 + seconds / 12);
    assert!(counts.of(Rpc::Watch) <= 2 * STREAMS, "{counts}");
    let keepalives = counts.of(Rpc::LeaseKeepAlive);
    assert!(keepalives <= renewals + HOLDS + LEASES_READY, "{counts}");
    let leases = counts.of(Rpc::LeaseGrant) + counts.of(Rpc::LeaseRevoke);
    assert!(leases <= 2 * LEASES_READY + 2, "{counts}");
    assert!(counts.keys() <= renewals + WAITERS / 4, "{counts}");
}

engines! {
    all_who_hold_wait_and_watch_come_back_with_few_requests,
}
