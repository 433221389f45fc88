//! Several resources in one reservation: all or nothing, under one token, renewed and released whole.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use fencepost::domain::decision::{Advice, Layer, Rule, Verdict};
use fencepost::domain::ids::ResourceId;
use fencepost::domain::request::{Afterwards, EndedRounds, Ride, Ttl};
use fencepost::domain::together::{ReserveTogether, TOGETHER_MAX};
use fencepost::domain::token::FencingToken;
use fencepost::engine::Fault;
use fencepost::proto::v1;
use futures_util::future::join_all;
use uuid::Uuid;

use super::fence::{SHORTEST_SECONDS, over};
use crate::support::ask::{
    ask, create, fresh_request, fresh_resource, fresh_resources, reserve, together,
};
use crate::support::backend::Backend;
use crate::support::claim::{applied, judged};
use crate::support::fault::{Action, Rpc};
use crate::support::process::Process;
use crate::support::rounds::whole_at_every_revision;
use crate::support::sidecar::{Sidecar, caller, caller_for};
use crate::support::{bounded, engines, until};

/// A sidecar that waits for a held request must not give up meanwhile.
const PATIENT_CALL: Duration = Duration::from_secs(15);
/// Callers that want overlapping sets at once, and how often each gets its own.
const CALLERS: usize = 8;
const ROUNDS: usize = 8;
/// Callers that ask the same lane again and again.
const CROWD: usize = 64;
/// How long such a caller waits before it asks again: the holds here last no time.
const ASK_AGAIN: Duration = Duration::from_millis(3);
/// More questions than this for each grant would be no progress.
const ASKS_PER_GRANT_MAX: usize = 2_000;

#[track_caller]
fn invalid<T: std::fmt::Debug>(answer: Result<T, Fault>, named: &str) {
    match answer {
        Err(Fault::InvalidField { field, .. }) => assert_eq!(field, named),
        other => panic!("{other:?}"),
    }
}

async fn all_of_several_are_held_under_one_token_and_released_whole(backend: Backend) {
    let [one, two] = backend.sidecars().await;
    let all: [_; 3] = fresh_resources();
    let [a, b, c] = &all;
    // In whatever order they are named.
    let grant = one
        .hold_together(&together(&[c.clone(), a.clone(), b.clone()]))
        .await;
    for resource in &all {
        for sidecar in [&one, &two] {
            assert_eq!(sidecar.live(resource).await, Some(grant.token));
            let good = sidecar.fence(resource, grant.token).await;
            judged(&good, Verdict::Granted, Layer::Fence, Rule::Live);
            let busy = sidecar.reserve(&reserve(resource)).await.decision;
            judged(&busy, Verdict::Busy, Layer::Fence, Rule::Held);
            let moved = sidecar.transition(&create(resource, "x")).await;
            judged(&moved, Verdict::Busy, Layer::Fence, Rule::Held);
        }
    }
    for sidecar in [&two, &one] {
        let renewed = sidecar.renew(&grant.id).await;
        judged(
            &renewed.decision,
            Verdict::Granted,
            Layer::Fence,
            Rule::Renewed,
        );
        let renewed = renewed.grant.unwrap();
        assert_eq!((&renewed.id, renewed.token), (&grant.id, grant.token));
    }
    let ended = two.release(&grant.id).await;
    judged(&ended, Verdict::Applied, Layer::Result, Rule::Ended);
    for resource in &all {
        let ended = one.fence(resource, grant.token).await;
        judged(&ended, Verdict::Fenced, Layer::Fence, Rule::TokenEnded);
        let last = two
            .fence_with(resource, grant.token, EndedRounds::Accepted)
            .await;
        judged(&last, Verdict::Granted, Layer::Fence, Rule::LastGranted);
        let next = two.hold(&reserve(resource)).await;
        assert!(next.token > grant.token);
    }
    for sidecar in [&one, &two] {
        let over = sidecar.renew(&grant.id).await.decision;
        judged(&over, Verdict::Fenced, Layer::Fence, Rule::Released);
    }
}

async fn one_that_is_held_keeps_all_from_being_held_and_nothing_is_written(backend: Backend) {
    let [one, two] = backend.sidecars().await;
    let all: [_; 3] = fresh_resources();
    for held in &all {
        let other = two.hold(&reserve(held)).await;
        let written = backend.written().await;
        for sidecar in [&one, &two, &one] {
            let busy = sidecar.reserve_together(&together(&all)).await;
            assert_eq!(busy.grant, None);
            let busy = busy.decision;
            judged(&busy, Verdict::Busy, Layer::Fence, Rule::Held);
            assert_eq!(busy.advice(), Advice::Retry);
            assert!(busy.retry_after.is_some(), "{busy:?}");
            assert!(busy.explanation.contains(held.id()), "{}", busy.explanation);
            let now = busy.now.unwrap();
            assert_eq!(now.resource, *held);
            assert_eq!(now.live.unwrap().token, other.token);
        }
        assert_eq!(backend.written().await, written);
        for free in all.iter().filter(|resource| *resource != held) {
            assert_eq!(two.live(free).await, None);
        }
        two.release(&other.id).await;
    }
    one.hold_together(&together(&all)).await;
}

async fn of_several_that_are_held_the_first_is_named(backend: Backend) {
    let [one, two] = backend.sidecars().await;
    let all: [_; 3] = fresh_resources();
    for held in [&all[2], &all[1]] {
        two.hold(&reserve(held)).await;
    }
    let busy = one.reserve_together(&together(&all)).await.decision;
    assert_eq!(busy.now.unwrap().resource, all[1]);
}

async fn the_same_request_gets_the_same_round_and_for_other_resources_nothing(backend: Backend) {
    let sidecars = backend.sidecars().await;
    let all: [_; 3] = fresh_resources();
    let [a, b, c] = &all;
    let mine = together(&all);
    let first = sidecars[0].hold_together(&mine).await;
    let other_order = ReserveTogether {
        request: mine.request,
        ..together(&[b.clone(), c.clone(), a.clone()])
    };
    for (sidecar, ask) in [(&sidecars[1], &mine), (&sidecars[0], &other_order)] {
        let again = sidecar.reserve_together(ask).await;
        judged(
            &again.decision,
            Verdict::Granted,
            Layer::Replay,
            Rule::SameRequest,
        );
        let again = again.grant.unwrap();
        assert_eq!((again.id, again.token), (first.id.clone(), first.token));
    }
    let written = backend.written().await;
    for sidecar in &sidecars {
        for others in [&all[..2], &all[1..], &[a.clone(), fresh_resource()]] {
            let others = ReserveTogether {
                request: mine.request,
                ..together(others)
            };
            invalid(sidecar.try_reserve_together(&others).await, "request_id");
        }
        for resource in &all {
            let mut alone = reserve(resource);
            alone.request = mine.request;
            invalid(sidecar.try_reserve(&alone).await, "request_id");
        }
    }
    assert_eq!(backend.written().await, written);
    sidecars[1].release(&first.id).await;
    for sidecar in &sidecars {
        let over = sidecar.reserve_together(&mine).await.decision;
        judged(&over, Verdict::Fenced, Layer::Fence, Rule::Released);
    }
    // Nor does an attempt at one become one at several.
    let mut alone = reserve(b);
    alone.request = fresh_request();
    sidecars[0].hold(&alone).await;
    let several = ReserveTogether {
        request: alone.request,
        ..together(&all)
    };
    invalid(
        sidecars[1].try_reserve_together(&several).await,
        "request_id",
    );
}

async fn each_of_them_moves_under_the_round_and_nothing_else_does(backend: Backend) {
    let [one, two] = backend.sidecars().await;
    let all: [_; 3] = fresh_resources();
    let grant = one.hold_together(&together(&all)).await;
    for (at, resource) in all.iter().enumerate() {
        let sidecar = [&one, &two][at % 2];
        applied(
            &sidecar
                .transition(&create(resource, "x").under(&grant.id))
                .await,
        );
        let ends = ask(resource, "more").to("y").under(&grant.id);
        let ends = ends.then(Afterwards::Ends);
        invalid(sidecar.try_transition(&ends).await, "release");
        let stays = ask(resource, "more").to("y").under(&grant.id);
        applied(&sidecar.transition(&stays.then(Afterwards::Stays)).await);
        assert_eq!(sidecar.live(resource).await, Some(grant.token));
    }
    let stranger = fresh_resource();
    let fenced = two
        .transition(&create(&stranger, "x").under(&grant.id))
        .await;
    assert_eq!(fenced.verdict, Verdict::Fenced, "{fenced:?}");
    let ride = ask(&all[0], "effect").to("z").build().intent;
    let ride = Ride {
        reservation: grant.id.clone(),
        request: fresh_request(),
        intent: ride,
    };
    invalid(one.engine.ride(ride, caller()).await, "reservation_id");
    two.release(&grant.id).await;
    for resource in &all {
        let late = ask(resource, "late").to("z").under(&grant.id);
        let late = one.transition(&late).await;
        judged(&late, Verdict::Fenced, Layer::Fence, Rule::Released);
        assert_eq!(two.state(resource).await, "y");
    }
}

async fn an_old_round_of_several_changes_nothing(backend: Backend) {
    let [one, two] = backend.sidecars().await;
    let all: [_; 2] = fresh_resources();
    let old = one.hold_together(&together(&all)).await;
    one.release(&old.id).await;
    let new = two.hold_together(&together(&all)).await;
    for sidecar in [&one, &two] {
        let late = sidecar.release(&old.id).await;
        judged(&late, Verdict::Replayed, Layer::Replay, Rule::Released);
        let late = sidecar.renew(&old.id).await.decision;
        judged(&late, Verdict::Fenced, Layer::Fence, Rule::Released);
    }
    for resource in &all {
        assert_eq!(one.live(resource).await, Some(new.token));
        let overtaken = one.fence(resource, old.token).await;
        judged(&overtaken, Verdict::Fenced, Layer::Fence, Rule::Overtaken);
    }
}

async fn a_sidecar_that_was_not_there_renews_and_releases_by_the_id_alone(backend: Backend) {
    let all: [_; 3] = fresh_resources();
    let grant = {
        let first = backend.sidecar().await;
        first.hold_together(&together(&all)).await
    };
    let renewed = backend.sidecar().await.renew(&grant.id).await;
    assert_eq!(renewed.grant.unwrap().token, grant.token);
    let ended = backend.sidecar().await.release(&grant.id).await;
    judged(&ended, Verdict::Applied, Layer::Result, Rule::Ended);
    let last = backend.sidecar().await;
    last.hold_together(&together(&all)).await;
    let began = whole_at_every_revision(&backend, &[&all]).await;
    assert_eq!(began, 2);
}

async fn a_round_that_nobody_renews_ends_for_all_at_one_revision(backend: Backend) {
    let [one, two] = backend.sidecars().await;
    let all: [_; 3] = fresh_resources();
    let mut mine = together(&all);
    mine.ttl = Ttl::from_seconds(SHORTEST_SECONDS).unwrap();
    let grant = one.hold_together(&mine).await;
    over(&two, &all[1]).await;
    for resource in &all {
        assert_eq!(two.live(resource).await, None);
        let ended = one.fence(resource, grant.token).await;
        judged(&ended, Verdict::Fenced, Layer::Fence, Rule::TokenEnded);
    }
    let lost = one.renew(&grant.id).await.decision;
    judged(&lost, Verdict::Fenced, Layer::Fence, Rule::Lost);
    let lost = two.release(&grant.id).await;
    judged(&lost, Verdict::Replayed, Layer::Replay, Rule::Lost);
    let lost = one.reserve_together(&mine).await.decision;
    judged(&lost, Verdict::Fenced, Layer::Fence, Rule::Lost);
    two.hold_together(&together(&all)).await;
    assert_eq!(whole_at_every_revision(&backend, &[&all]).await, 2);
}

// Dijkstra's table: each set overlaps with the next, named in opposite orders, at two sidecars.
async fn overlapping_sets_in_opposite_orders_exclude_each_other_and_all_get_their_turn(
    backend: Backend,
) {
    let sidecars = backend.sidecars().await;
    let all: [ResourceId; 4] = fresh_resources();
    let [a, b, c, d] = all.clone();
    let sets = [
        vec![a.clone(), b.clone()],
        vec![b.clone(), a.clone()],
        vec![c.clone(), b.clone()],
        vec![b, c.clone(), d.clone()],
        vec![d.clone(), c, a.clone()],
        vec![a, d],
    ];
    let held: BTreeMap<_, _> = all
        .iter()
        .map(|one| (one.clone(), AtomicBool::new(false)))
        .collect();
    let held = Arc::new(held);
    let tokens: Arc<Mutex<BTreeMap<ResourceId, Vec<FencingToken>>>> = Arc::default();
    let callers = (0..CALLERS).map(|at| {
        let sidecar: Sidecar = sidecars[at % 2].clone();
        let other = sidecars[(at + at / 2) % 2].clone();
        let set = sets[at % sets.len()].clone();
        let (held, tokens) = (Arc::clone(&held), Arc::clone(&tokens));
        tokio::spawn(async move {
            for _ in 0..ROUNDS {
                let ask = together(&set);
                let mut asked = 0;
                let grant = loop {
                    asked += 1;
                    assert!(asked < ASKS_PER_GRANT_MAX, "no progress");
                    match sidecar.reserve_together(&ask).await.grant {
                        Some(grant) => break grant,
                        None => tokio::time::sleep(ASK_AGAIN).await,
                    }
                };
                for one in &set {
                    let before = held[one].swap(true, Ordering::SeqCst);
                    assert!(!before, "two hold {one} at once");
                    tokens
                        .lock()
                        .unwrap()
                        .entry(one.clone())
                        .or_default()
                        .push(grant.token);
                }
                tokio::task::yield_now().await;
                for one in &set {
                    assert!(held[one].swap(false, Ordering::SeqCst), "it was not held");
                }
                let ended = other.release(&grant.id).await;
                judged(&ended, Verdict::Applied, Layer::Result, Rule::Ended);
            }
        })
    });
    for caller in join_all(callers).await {
        caller.unwrap();
    }
    for (resource, tokens) in tokens.lock().unwrap().iter() {
        let falls = tokens.windows(2).find(|pair| pair[0] >= pair[1]);
        assert_eq!(falls, None, "tokens of {resource} must rise");
    }
    let sets: Vec<&[ResourceId]> = sets.iter().map(Vec::as_slice).collect();
    let began = whole_at_every_revision(&backend, &sets).await;
    assert_eq!(began, CALLERS * ROUNDS);
}

async fn sixteen_are_one_reservation(backend: Backend) {
    let [one, two] = backend.sidecars().await;
    let all: [ResourceId; TOGETHER_MAX] = fresh_resources();
    let grant = one.hold_together(&together(&all)).await;
    let tokens = join_all(all.iter().map(|one| two.live(one))).await;
    assert!(tokens.iter().all(|token| *token == Some(grant.token)));
    two.release(&grant.id).await;
    assert_eq!(whole_at_every_revision(&backend, &[&all]).await, 1);
}

/// Whether the lane of a resource stands still: a question is not answered within its short time.
async fn stands_still(sidecar: &Sidecar, resource: &ResourceId) -> bool {
    let short = caller_for(Duration::from_millis(150));
    sidecar.engine.inspect(resource.clone(), short).await == Err(Fault::DeadlinePassed)
}

async fn whoever_leaves_while_waiting_for_one_lane_gives_the_others_back(backend: Backend) {
    let (one, plan) = backend.faulty_within(PATIENT_CALL).await;
    let [a, b] = fresh_resources();
    let txn = plan.when(Rpc::Txn).containing(b.id()).then(Action::Hold);
    let (sidecar, slow) = (one.clone(), create(&b, "x"));
    let slow = tokio::spawn(async move { sidecar.transition(&slow).await });
    txn.met().await;
    // One hangs up, the deadline of the other passes.
    let (sidecar, both) = (one.clone(), together(&[a.clone(), b.clone()]));
    let call = tokio::spawn(async move { sidecar.try_reserve_together(&both).await });
    until("the first lane is lent", PATIENT_CALL, || async {
        stands_still(&one, &a).await.then_some(())
    })
    .await;
    call.abort();
    assert!(call.await.unwrap_err().is_cancelled());
    applied(&one.transition(&create(&a, "x")).await);
    let both = together(&[a.clone(), b.clone()]);
    let short = caller_for(Duration::from_millis(300));
    let late = one.engine.reserve_together(both, short).await;
    assert_eq!(late.unwrap_err(), Fault::DeadlinePassed);
    applied(&one.transition(&ask(&a, "next").to("y")).await);
    assert!(!slow.is_finished(), "the second lane was busy all the time");
    txn.deliver().await;
    applied(&slow.await.unwrap());
    one.hold_together(&together(&[a, b])).await;
}

async fn a_lane_under_load_is_lent_and_goes_on(backend: Backend) {
    let [one, two] = backend.sidecars().await;
    let [a, b] = fresh_resources();
    applied(&one.transition(&create(&b, "open")).await);
    let moves = (0..200).map(|at| {
        let (one, step) = (&one, ask(&b, &format!("step {at}")));
        async move { one.transition(&step).await.verdict }
    });
    let both = together(&[a.clone(), b.clone()]);
    let (grant, verdicts) = tokio::join!(one.hold_together(&both), join_all(moves));
    // Those before it were taken, those after it are turned away.
    let taken = verdicts
        .iter()
        .all(|verdict| matches!(verdict, Verdict::Applied | Verdict::Busy));
    assert!(taken, "{verdicts:?}");
    assert_eq!(two.live(&b).await, Some(grant.token));
    two.release(&grant.id).await;
    applied(&one.transition(&ask(&b, "after").to("shut")).await);
}

// Neither waits for all of the others, however many go on coming.
async fn requests_and_borrowers_of_a_lane_take_turns(backend: Backend) {
    let one = backend.sidecar().await;
    let [a, b] = fresh_resources();
    applied(&one.transition(&create(&b, "open")).await);
    let over = Arc::new(AtomicBool::new(false));
    // More than one commit takes: some always wait.
    let requests = (0..CROWD).map(|_| {
        let (one, b, over) = (one.clone(), b.clone(), Arc::clone(&over));
        tokio::spawn(async move {
            while !over.load(Ordering::SeqCst) {
                one.inspect(&b).await;
            }
        })
    });
    let requests: Vec<_> = requests.collect();
    let both = together(&[a.clone(), b.clone()]);
    let grant = tokio::time::timeout(PATIENT_CALL, one.hold_together(&both)).await;
    let grant = grant.expect("a borrower gets its turn");
    over.store(true, Ordering::SeqCst);
    for request in join_all(requests).await {
        request.unwrap();
    }
    over.store(false, Ordering::SeqCst);
    let borrowers = (0..CROWD).map(|_| {
        let (one, over) = (one.clone(), Arc::clone(&over));
        let both = [a.clone(), b.clone()];
        tokio::spawn(async move {
            while !over.load(Ordering::SeqCst) {
                one.reserve_together(&together(&both)).await;
            }
        })
    });
    let borrowers: Vec<_> = borrowers.collect();
    for _ in 0..10 {
        let asked = tokio::time::timeout(PATIENT_CALL, one.inspect(&a)).await;
        let live = asked.expect("a request gets its turn").live.unwrap();
        assert_eq!(live.token, grant.token);
    }
    over.store(true, Ordering::SeqCst);
    for borrower in join_all(borrowers).await {
        borrower.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_reservation_of_several_outlives_the_process_that_granted_it() {
    bounded(Box::pin(async {
        let backend = Backend::real().await;
        let url = backend.url().await;
        let seat = |id: &str| v1::Resource {
            kind: "seat".to_owned(),
            id: id.to_owned(),
        };
        let process = Process::serve(&url, backend.prefix(), &[]).await;
        let mine = v1::ReserveRequest {
            resource: Some(seat("2")),
            also: vec![seat("1"), seat("3")],
            request_id: Uuid::new_v4().to_string(),
            ..v1::ReserveRequest::default()
        };
        let held = process.client().reserve(mine.clone()).await.unwrap();
        let held = held.into_inner().reservation.unwrap();
        process.kill().await;
        let process = Process::serve(&url, backend.prefix(), &[]).await;
        let mut client = process.client();
        let again = client.reserve(mine).await.unwrap().into_inner();
        let again = again.reservation.unwrap();
        assert_eq!(
            (&again.reservation_id, again.token),
            (&held.reservation_id, held.token)
        );
        let renew = v1::RenewRequest {
            reservation_id: held.reservation_id.clone(),
        };
        let renewed = client.renew(renew).await.unwrap().into_inner();
        assert_eq!(renewed.reservation.unwrap().token, held.token);
        let release = v1::ReleaseRequest {
            reservation_id: held.reservation_id,
            ..v1::ReleaseRequest::default()
        };
        let ended = client.release(release).await.unwrap().into_inner();
        assert_eq!(ended.decision.unwrap().verdict(), v1::Verdict::Applied);
        for id in ["1", "2", "3"] {
            let fence = v1::FenceRequest {
                resource: Some(seat(id)),
                token: held.token,
                even_if_ended: false,
            };
            let fenced = client.fence(fence).await.unwrap().into_inner();
            assert_eq!(fenced.decision.unwrap().rule, "ENDED");
        }
    }))
    .await;
}

async fn whoever_asks_about_one_of_several_is_told_the_others(backend: Backend) {
    let [one, two] = backend.sidecars().await;
    let mut all: [ResourceId; 3] = fresh_resources();
    all.sort();
    let also = async |sidecar: &Sidecar, resource: &ResourceId| {
        let live = sidecar.inspect(resource).await.live;
        live.map(|live| live.also)
    };
    let grant = one.hold_together(&together(&all)).await;
    for sidecar in [&one, &two] {
        for resource in &all {
            let others = all.iter().filter(|other| *other != resource);
            let others: Vec<ResourceId> = others.cloned().collect();
            assert_eq!(also(sidecar, resource).await, Some(others));
        }
    }
    one.release(&grant.id).await;
    // One alone has none, also where the record still tells of those before.
    let alone = two.hold(&reserve(&all[1])).await;
    assert_eq!(also(&one, &all[1]).await, Some(Vec::new()));
    assert_eq!(also(&one, &all[0]).await, None);
    two.release(&alone.id).await;
}

async fn whoever_asks_about_one_of_several_is_not_told_a_part_of_them(backend: Backend) {
    let one = backend.sidecar().await;
    let (two, plan) = backend.faulty().await;
    let mut all: [ResourceId; 3] = fresh_resources();
    all.sort();
    let grant = one.hold_together(&together(&all)).await;
    // Only the record of the first lists them.
    let away = [Rpc::Range, Rpc::Txn].map(|rpc| {
        let first = plan.when(rpc).containing(all[0].id()).always();
        first.then(Action::Cut)
    });
    for resource in &all {
        let told = two.engine.inspect(resource.clone(), caller()).await;
        assert!(
            matches!(told, Err(Fault::StoreUnavailable { .. })),
            "{told:?}"
        );
    }
    for cut in away {
        cut.lift();
    }
    let live = two.inspect(&all[2]).await.live.unwrap();
    assert_eq!(live.also, all[..2]);
    // Where what is stored of the first is damaged, that is said of the first alone; the others are shown as their records have them.
    let first = format!("{}r/{}/{}", backend.prefix(), all[0].kind(), all[0].id());
    let mut raw = backend.raw().await;
    raw.put(first, "damaged", None).await.unwrap();
    let three = backend.sidecar().await;
    let told = three.engine.inspect(all[0].clone(), caller()).await;
    assert_eq!(told, Err(Fault::CorruptRecord));
    for other in &all[1..] {
        let live = three.inspect(other).await.live.unwrap();
        assert_eq!(live.token, grant.token);
        assert_eq!(live.also, all[..1]);
    }
}

engines! {
    whoever_asks_about_one_of_several_is_not_told_a_part_of_them,
    whoever_asks_about_one_of_several_is_told_the_others,
    all_of_several_are_held_under_one_token_and_released_whole,
    one_that_is_held_keeps_all_from_being_held_and_nothing_is_written,
    of_several_that_are_held_the_first_is_named,
    the_same_request_gets_the_same_round_and_for_other_resources_nothing,
    each_of_them_moves_under_the_round_and_nothing_else_does,
    an_old_round_of_several_changes_nothing,
    a_sidecar_that_was_not_there_renews_and_releases_by_the_id_alone,
    a_round_that_nobody_renews_ends_for_all_at_one_revision,
    overlapping_sets_in_opposite_orders_exclude_each_other_and_all_get_their_turn,
    sixteen_are_one_reservation,
    whoever_leaves_while_waiting_for_one_lane_gives_the_others_back,
    a_lane_under_load_is_lent_and_goes_on,
    requests_and_borrowers_of_a_lane_take_turns,
}
