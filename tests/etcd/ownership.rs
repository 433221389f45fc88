//! Who owns what while leaders die, stall and change: sidecars on different members of one cluster.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::time::Duration;

use fencepost::domain::decision::{Decision, Grant, Verdict};
use fencepost::domain::ids::{ReservationId, ResourceId};
use fencepost::domain::request::{Left, Reserve};
use fencepost::domain::token::FencingToken;
use fencepost::engine::{AtClose, Boottime, Fault, Hold, HoldEnd, HoldNews};
use fencepost::store::Endpoint;
use futures_util::future::join_all;

use crate::support::ask::{fresh_resource, reserve_for};
use crate::support::cluster::{Cluster, MEMBERS};
use crate::support::proxy::Proxy;
use crate::support::sidecar::{Sidecar, caller_for};
use crate::support::{bounded, until};

pub(super) const PREFIX: &str = "/owned/";
pub(super) const CALL_TIMEOUT: Duration = Duration::from_secs(1);
/// Elections take seconds on a busy machine.
pub(super) const BACK_WITHIN: Duration = Duration::from_secs(40);
/// How long a leader stands still: longer than an election.
const STALL: Duration = Duration::from_secs(3);
/// What a machine that is busy with other tests may take on top.
const SLACK: Duration = Duration::from_secs(3);

/// Sidecars that begin with different members.
pub(super) async fn sidecars(cluster: &Cluster) -> [Sidecar; 2] {
    let on = |first| Sidecar::on(cluster.endpoints_from(first), None, PREFIX, CALL_TIMEOUT);
    [on(0).await, on(1).await]
}

/// What an outage may answer. Asking again with the same ids gives the truth.
pub(super) fn passes(fault: &Fault) -> bool {
    matches!(
        fault,
        Fault::StoreUnavailable { .. } | Fault::UnknownOutcome { .. } | Fault::DeadlinePassed
    )
}

/// Waits for a turn, with one request id, until it is granted. The moment is that before the call that was answered.
pub(super) async fn insisted(sidecar: &Sidecar, ask: &Reserve) -> (Grant, Boottime) {
    let granted = until("it is granted", 2 * BACK_WITHIN, || async {
        let called = Boottime::now();
        let patience = Duration::from_secs(10);
        let asked = sidecar
            .engine
            .reserve_or_wait(ask.clone(), patience, caller_for(2 * patience));
        match asked.await {
            Ok(reserved) => reserved.grant.map(|grant| (grant, called)),
            Err(fault) => {
                assert!(passes(&fault), "{fault:?}");
                None
            }
        }
    });
    granted.await
}

/// Releases, again until it is known.
pub(super) async fn released(sidecar: &Sidecar, round: &ReservationId) -> Decision {
    until("it is released", BACK_WITHIN, || async {
        let told = sidecar.engine.release(
            round.clone(),
            Left::Unsaid,
            caller_for(Duration::from_secs(5)),
        );
        match told.await {
            Ok(decision) => Some(decision),
            Err(fault) => {
                assert!(passes(&fault), "{fault:?}");
                None
            }
        }
    })
    .await
}

/// A resource as those see it who believe that they hold it.
#[derive(Debug, Default)]
struct Room {
    inside: bool,
    tokens: Vec<FencingToken>,
}

impl Room {
    fn enter(&mut self, resource: &ResourceId, token: FencingToken) {
        assert!(!self.inside, "two hold {resource}");
        self.inside = true;
        let last = self.tokens.last().copied();
        assert!(Some(token) > last, "{token:?} after {last:?}");
        self.tokens.push(token);
    }
}

// Invariants 1, 6 and 7.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_at_a_time_holds_and_tokens_rise_through_leaders_that_die_or_stall() {
    const TTL_SECONDS: u32 = 20;
    const SECTION: Duration = Duration::from_millis(5);
    bounded(Box::pin(async {
        let mut cluster = Cluster::start().await;
        let sidecars = sidecars(&cluster).await;
        let rooms: Vec<_> = (0..3)
            .map(|_| (fresh_resource(), Mutex::new(Room::default())))
            .collect();
        let over = Mutex::new(false);
        let workers = (0..12).map(|worker| {
            let (resource, room) = &rooms[worker % rooms.len()];
            let (sidecar, over) = (&sidecars[worker / rooms.len() % 2], &over);
            async move {
                let mut before: Option<ReservationId> = None;
                while !*over.lock().unwrap() {
                    let ask = reserve_for(resource, TTL_SECONDS);
                    let (grant, called) = insisted(sidecar, &ask).await;
                    if grant.safe_for > Boottime::now().since(called) + 10 * SECTION {
                        room.lock().unwrap().enter(resource, grant.token);
                        tokio::time::sleep(SECTION).await;
                        // An old round is harmless, however alike things look.
                        if let Some(before) = &before {
                            let again = released(sidecar, before).await;
                            assert_eq!(again.verdict, Verdict::Replayed, "{again:?}");
                        }
                        room.lock().unwrap().inside = false;
                    }
                    let ended = released(sidecar, &grant.id).await.verdict;
                    // A lost reply, and the release that was sent again.
                    assert!(
                        matches!(ended, Verdict::Applied | Verdict::Replayed),
                        "{ended:?}"
                    );
                    before = Some(grant.id);
                }
            }
        });
        let grants = || {
            let count = |room: &(ResourceId, Mutex<Room>)| room.1.lock().unwrap().tokens.len();
            rooms.iter().map(count).collect::<Vec<_>>()
        };
        // Whoever waits is granted after the leader changed.
        let go_on = |what: &'static str| {
            let before = grants();
            async move {
                until(what, BACK_WITHIN, || async {
                    let now = grants();
                    let all = now.iter().zip(&before).all(|(now, then)| *now >= then + 5);
                    all.then_some(())
                })
                .await;
            }
        };
        let faults = async {
            go_on("it begins").await;
            let killed = cluster.leader().await;
            cluster.kill(killed).await;
            go_on("it goes on without the leader").await;
            cluster.revive(killed);
            let stalled = cluster.leader().await;
            cluster.pause(stalled).await;
            tokio::time::sleep(STALL).await;
            cluster.resume(stalled);
            go_on("it goes on after the stall").await;
            *over.lock().unwrap() = true;
        };
        tokio::join!(join_all(workers.collect::<Vec<_>>()), faults);
    }))
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_waits_is_served_in_order_after_the_leader_has_died() {
    bounded(Box::pin(async {
        let cluster = Cluster::start().await;
        let sidecars = sidecars(&cluster).await;
        let resource = fresh_resource();
        let first = sidecars[0].hold(&reserve_for(&resource, 60)).await;
        let mut waits = Vec::new();
        for at in 0..6 {
            let (sidecar, ask) = (sidecars[at % 2].clone(), reserve_for(&resource, 60));
            waits.push(tokio::spawn(
                async move { insisted(&sidecar, &ask).await.0 },
            ));
            let prefix = format!("{PREFIX}w/");
            until("it is queued", BACK_WITHIN, || async {
                let client = crate::support::backend::connection(cluster.url(0));
                let client = etcd_client::Client::from_channel(client, None).await;
                let options = etcd_client::GetOptions::new()
                    .with_prefix()
                    .with_count_only();
                let found = client.unwrap().get(prefix.clone(), Some(options)).await;
                (found.ok()?.count() == i64::try_from(at).unwrap() + 1).then_some(())
            })
            .await;
        }
        let leader = cluster.leader().await;
        cluster.kill(leader).await;
        let mut holder = first;
        for (at, next) in waits.into_iter().enumerate() {
            released(&sidecars[(at + 1) % 2], &holder.id).await;
            let told = tokio::time::timeout(BACK_WITHIN, next).await;
            let grant = told.expect("it is its turn").unwrap();
            assert!(grant.token > holder.token);
            holder = grant;
        }
    }))
    .await;
}

/// What became of a hold.
#[derive(Debug)]
pub(super) struct Fate {
    /// The last moment at which the holder may believe in it.
    pub(super) until: Boottime,
    pub(super) lost: bool,
}

fn not_silent(fates: &BTreeMap<String, Fate>) {
    let now = Boottime::now();
    for (id, of) in fates {
        // The news of many come one after another.
        let silent = now.since(of.until);
        assert!(of.lost || silent < CALL_TIMEOUT / 2, "{id} for {silent:?}");
    }
}

/// Reads a stream for so long. No holder is ever left with a belief that has run out.
pub(super) async fn held_for(
    mut hold: Hold,
    opened: Boottime,
    grants: &[Grant],
    span: Duration,
) -> BTreeMap<String, Fate> {
    let fate = |grant: &Grant| {
        let until = opened.plus(grant.ttl.as_duration());
        (grant.id.to_string(), Fate { until, lost: false })
    };
    let mut fates: BTreeMap<_, _> = grants.iter().map(fate).collect();
    let end = opened.plus(span);
    while !end.left().is_zero() {
        let told = match tokio::time::timeout(end.left(), hold.next()).await {
            Err(_) => break,
            Ok(Err(HoldEnd::AllLost)) => break,
            Ok(Err(HoldEnd::Stopping)) => panic!("nobody stops it"),
            Ok(Ok(told)) => told,
        };
        let of = fates.get_mut(&told.reservation.to_string()).unwrap();
        assert!(!of.lost, "it was lost, and now {:?}", told.news);
        match told.news {
            HoldNews::Renewed(grant) => {
                of.until = opened.plus(grant.safe_for);
                // B11: never later than a whole TTL from now, whatever a leader makes of the lease.
                let ttl = grant.ttl.as_duration();
                assert!(of.until <= Boottime::now().plus(ttl), "{grant:?}");
            }
            HoldNews::Expiring(grant) => {
                assert!(opened.plus(grant.safe_for) <= of.until, "it has grown");
            }
            HoldNews::Lost(decision) => {
                assert_eq!(decision.verdict, Verdict::Fenced, "{decision:?}");
                of.lost = true;
            }
        }
        not_silent(&fates);
    }
    not_silent(&fates);
    fates
}

// J2, invariant 8.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn holds_are_kept_or_told_as_lost_while_leaders_die_and_stall() {
    const SHORT: (usize, u32) = (25, 4);
    const LONG: (usize, u32) = (5, 15);
    const SPAN: Duration = Duration::from_secs(12);
    bounded(Box::pin(async {
        let mut cluster = Cluster::start().await;
        let sidecars = sidecars(&cluster).await;
        let streams = sidecars.iter().flat_map(|sidecar| {
            [SHORT, LONG].map(|(count, seconds)| async move {
                let asks: Vec<_> = (0..count)
                    .map(|_| reserve_for(&fresh_resource(), seconds))
                    .collect();
                let grants = join_all(asks.iter().map(|ask| sidecar.hold(ask))).await;
                let ids = grants.iter().map(|grant| grant.id.clone()).collect();
                let opened = Boottime::now();
                let opening = sidecar
                    .engine
                    .hold(ids, AtClose::Keep, caller_for(2 * CALL_TIMEOUT));
                (seconds, grants, opened, opening.await.unwrap())
            })
        });
        let streams = join_all(streams.collect::<Vec<_>>()).await;
        let faults = async {
            tokio::time::sleep(Duration::from_secs(1)).await;
            let killed = cluster.leader().await;
            cluster.kill(killed).await;
            tokio::time::sleep(STALL).await;
            cluster.revive(killed);
            let stalled = cluster.leader().await;
            cluster.pause(stalled).await;
            tokio::time::sleep(STALL).await;
            cluster.resume(stalled);
        };
        let reading = streams
            .into_iter()
            .map(|(seconds, grants, opened, hold)| async move {
                let fates = held_for(hold, opened, &grants, SPAN).await;
                (seconds, grants, fates)
            });
        let (all, ()) = tokio::join!(join_all(reading.collect::<Vec<_>>()), faults);
        let (mut kept, mut lost) = (0, 0);
        for (at, (seconds, grants, fates)) in all.into_iter().enumerate() {
            // Asked of the other sidecar.
            let other = &sidecars[1 - at / 2];
            for grant in grants {
                let fate = &fates[&grant.id.to_string()];
                let resource = grant.id.resource();
                if fate.lost {
                    assert_ne!(seconds, LONG.1, "{fate:?}: it had time enough");
                    lost += 1;
                    let ask = reserve_for(resource, 60);
                    let next = insisted(other, &ask).await.0;
                    assert!(next.token > grant.token, "{next:?} after {grant:?}");
                } else {
                    kept += 1;
                    let live = until("etcd answers", BACK_WITHIN, || async {
                        other
                            .engine
                            .renew(grant.id.clone(), caller_for(SLACK))
                            .await
                            .ok()
                    })
                    .await;
                    // The stream is over, so a short one may have ended since.
                    if seconds == LONG.1 {
                        let token = live.grant.map(|live| live.token);
                        assert_eq!(token, Some(grant.token), "{:?}", live.decision);
                    }
                }
            }
        }
        println!("holds through two changes of leaders: {kept} kept, {lost} told as lost");
        let told: u64 = sidecars
            .iter()
            .map(|sidecar| sidecar.engine.holdings().lost)
            .sum();
        assert_eq!(told, lost, "what was told is counted");
    }))
    .await;
}

// B7
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn four_seconds_without_any_member_cost_no_hold_of_fifteen() {
    const CUT: Duration = Duration::from_secs(4);
    bounded(Box::pin(async {
        let cluster = Cluster::start().await;
        let lines: Vec<_> = (0..MEMBERS)
            .map(|at| Proxy::to_url(cluster.url(at)))
            .collect();
        let endpoints = lines.iter().map(|line| Endpoint::connect(&line.url()));
        let endpoints = endpoints.collect::<Result<Vec<_>, _>>().unwrap();
        let one = Sidecar::on(endpoints, None, PREFIX, CALL_TIMEOUT).await;
        let [other, _] = sidecars(&cluster).await;
        let resource = fresh_resource();
        let grant = one.hold(&reserve_for(&resource, 15)).await;
        let opening = one.engine.hold(
            vec![grant.id.clone()],
            AtClose::Keep,
            caller_for(2 * CALL_TIMEOUT),
        );
        let mut hold = opening.await.unwrap();
        let begun = Boottime::now();
        // About when its second renewal is due.
        tokio::time::sleep(Duration::from_secs(3)).await;
        lines.iter().for_each(Proxy::cut);
        tokio::time::sleep(CUT).await;
        // That comes at random within a while, so the cut lasts until it has met one.
        until("a renewal fails", CUT, || async {
            (one.engine.holdings().failed > 0).then_some(())
        })
        .await;
        let before = one.engine.holdings().renewed;
        lines.iter().for_each(Proxy::heal);
        // Past the end of what was left when the line was cut.
        while Boottime::now().since(begun) < Duration::from_secs(20) {
            let told = tokio::time::timeout(Duration::from_secs(15), hold.next()).await;
            match told
                .expect("news in time")
                .expect("the stream goes on")
                .news
            {
                HoldNews::Renewed(renewed) => assert_eq!(renewed.token, grant.token),
                HoldNews::Expiring(_) => {}
                HoldNews::Lost(decision) => panic!("{decision:?}"),
            }
        }
        let now = one.engine.holdings();
        assert!(now.renewed > before && now.lost == 0, "{now:?}");
        assert_eq!(other.live(&resource).await, Some(grant.token));
    }))
    .await;
}

// B11, J3
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_wait_ends_in_time_though_each_new_leader_lets_an_old_lease_begin_anew() {
    const TTL: Duration = Duration::from_secs(6);
    const WAIT: Duration = Duration::from_secs(9);
    bounded(Box::pin(async {
        let mut cluster = Cluster::start().await;
        let [one, two] = sidecars(&cluster).await;
        let resource = fresh_resource();
        let called = Boottime::now();
        let dead = one.hold(&reserve_for(&resource, 6)).await;
        // What its holder believes rests on its own clock, whatever leaders make of the lease.
        assert!(dead.safe_for <= TTL, "{dead:?}");
        let ask = reserve_for(&resource, 60);
        let waits = async {
            let asked = Boottime::now();
            let told = two
                .engine
                .reserve_or_wait(ask.clone(), WAIT, caller_for(10 * WAIT));
            let told = told.await;
            let took = Boottime::now().since(asked);
            assert!(took < WAIT + SLACK, "{took:?}: {told:?}");
            told
        };
        let faults = async {
            for _ in 0..2 {
                tokio::time::sleep(TTL / 2).await;
                let leader = cluster.leader().await;
                cluster.kill(leader).await;
                cluster.revive(leader);
            }
        };
        let (told, ()) = tokio::join!(waits, faults);
        let reserved = told.expect("a decision, whatever leaders do");
        let next = match reserved.grant {
            Some(grant) => grant,
            None => {
                assert_eq!(reserved.decision.verdict, Verdict::Busy, "{reserved:?}");
                insisted(&two, &ask).await.0
            }
        };
        // Nobody had it before its first holder's time was over.
        let since = Boottime::now().since(called);
        assert!(
            next.token > dead.token && since >= dead.safe_for,
            "{since:?}"
        );
    }))
    .await;
}
