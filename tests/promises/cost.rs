//! What a call costs: requests to etcd.

use std::sync::Arc;
use std::time::Duration;

use fencepost::domain::decision::Verdict;
use fencepost::domain::ids::Nonce;
use fencepost::domain::judge::{self, Law};
use fencepost::domain::machine::{InForce, Lineage, Machine};
use fencepost::domain::retention::{Keeping, StoreTime, When};
use fencepost::domain::together::TOGETHER_MAX;
use fencepost::domain::token::Timeline;
use fencepost::engine::Boottime;

use crate::support::ask::{
    ask, create, fresh_resource, fresh_resources, reserve, reserve_for, resource_of, together,
};
use crate::support::backend::Backend;
use crate::support::claim::applied;
use crate::support::fault::{Counts, FaultPlan, Rpc};
use crate::support::sidecar::Sidecar;
use crate::support::{engines, until};

/// Each call is measured so often.
const TIMES: usize = 5;

/// One line of the table, with the most that was seen.
struct Line {
    call: &'static str,
    keys_max: usize,
    all: Vec<Counts>,
}

async fn measured<T>(plan: &FaultPlan, call: impl Future<Output = T>) -> (T, Counts) {
    let before = plan.counts();
    let answer = call.await;
    (answer, plan.counts().since(&before))
}

impl Line {
    fn new(call: &'static str) -> Self {
        Self {
            call,
            keys_max: 0,
            all: Vec::new(),
        }
    }

    fn add(&mut self, counts: Counts) {
        self.keys_max = self.keys_max.max(counts.keys());
        self.all.push(counts);
    }

    fn tell(&self, backend: &Backend) {
        let last = self.all.last().map(ToString::to_string).unwrap_or_default();
        let (name, call, most) = (backend.name(), self.call, self.keys_max);
        println!("| {name:8} | {call:24} | {most} | {last} |");
    }
}

/// Leases are granted ahead at the recent rate: some rounds, and they are at hand.
async fn warm(sidecar: &Sidecar) {
    for _ in 0..2 * TIMES {
        let grant = sidecar.hold(&reserve(&fresh_resource())).await;
        sidecar.release(&grant.id).await;
    }
}

async fn each_call_takes_as_few_requests_as_it_can(backend: Backend) {
    let (one, plan) = backend.faulty_within(Duration::from_secs(5)).await;
    let two = backend.sidecar().await;
    warm(&one).await;
    let [
        mut reserve_warm,
        mut reserve_again,
        mut renew,
        mut release,
        mut busy,
    ] = [
        "Reserve, warm",
        "Reserve, same request",
        "Renew",
        "Release",
        "Reserve, busy",
    ]
    .map(Line::new);
    let [mut cold_new, mut cold_existing, mut warm_line, mut replay] = [
        "Transition, new",
        "Transition, first here",
        "Transition, warm",
        "Transition, replay",
    ]
    .map(Line::new);
    let [mut fence, mut lookup, mut inspect] = ["Fence", "Lookup", "Inspect"].map(Line::new);
    let [mut event_new, mut event_warm, mut event_no, mut event_again] =
        ["Event, new", "Event, warm", "Event, a no", "Event, replay"].map(Line::new);
    let kind = format!("door-{}", fresh_resource().id());
    one.install(&format!(
        "kind: {kind}\nversion: 1\nretention: 1h\nstates: {{ shut: {{}}, open: {{}}, gone: {{ final: true }} }}\n\
         events: {{ build: {{ creates: shut }}, push: {{ from: [shut], to: open }}, raze: {{ from: [open], to: gone }} }}\n"
    ))
    .await;
    // The watch tells, or the first call finds out.
    let first = ask(&resource_of(&kind, "first"), "b").event("build");
    applied(&one.transition(&first).await);
    let [mut claim, mut complete, mut copy] = [
        "Reserve with an intent",
        "Transition, completing",
        "Reserve, claimed already",
    ]
    .map(Line::new);
    for _ in 0..TIMES {
        let resource = fresh_resource();
        let mine = reserve(&resource);
        let (grant, counts) = measured(&plan, one.hold(&mine)).await;
        reserve_warm.add(counts);
        let (_, counts) = measured(&plan, one.hold(&mine)).await;
        reserve_again.add(counts);
        let (_, counts) = measured(&plan, one.reserve(&reserve(&resource))).await;
        busy.add(counts);
        let (renewed, counts) = measured(&plan, one.renew(&grant.id)).await;
        assert_eq!(renewed.decision.verdict, Verdict::Granted);
        assert!(
            counts.of(Rpc::LeaseKeepAlive) >= 1,
            "a renewal without a keepalive: {counts}"
        );
        renew.add(counts);
        let (_, counts) = measured(&plan, one.fence(&resource, grant.token)).await;
        fence.add(counts);
        let (ended, counts) = measured(&plan, one.release(&grant.id)).await;
        assert_eq!(ended.verdict, Verdict::Applied);
        release.add(counts);

        let order = fresh_resource();
        let (first, counts) = measured(&plan, one.transition(&create(&order, "pending"))).await;
        applied(&first);
        cold_new.add(counts);
        let pay = ask(&order, "pay")
            .from(&["pending"])
            .to("paid")
            .result("receipt");
        let (paid, counts) = measured(&plan, one.transition(&pay)).await;
        applied(&paid);
        warm_line.add(counts);
        let (again, counts) = measured(&plan, one.transition(&pay)).await;
        assert_eq!(again.verdict, Verdict::Replayed);
        replay.add(counts);

        let door = resource_of(&kind, fresh_resource().id());
        let (built, counts) =
            measured(&plan, one.transition(&ask(&door, "b").event("build"))).await;
        applied(&built);
        event_new.add(counts);
        let (early, counts) = measured(&plan, one.transition(&ask(&door, "r").event("raze"))).await;
        assert_eq!(early.verdict, Verdict::TooEarly);
        event_no.add(counts);
        let push = ask(&door, "p").event("push");
        let (pushed, counts) = measured(&plan, one.transition(&push)).await;
        applied(&pushed);
        event_warm.add(counts);
        let (again, counts) = measured(&plan, one.transition(&push)).await;
        assert_eq!(again.verdict, Verdict::Replayed);
        event_again.add(counts);
        let claimed = fresh_resource();
        applied(&one.transition(&create(&claimed, "pending")).await);
        let pay = ask(&claimed, "pay").from(&["pending"]).to("paid");
        let (grant, counts) = measured(&plan, one.hold(&pay.claim())).await;
        claim.add(counts);
        let (running, counts) = measured(&plan, one.reserve(&pay.claim())).await;
        assert_eq!(running.decision.verdict, Verdict::InProgress);
        copy.add(counts);
        let (done, counts) = measured(&plan, one.complete(&grant.id, "receipt")).await;
        applied(&done);
        complete.add(counts);

        let known_elsewhere = fresh_resource();
        applied(&two.transition(&create(&known_elsewhere, "pending")).await);
        let pay = ask(&known_elsewhere, "pay").from(&["pending"]).to("paid");
        let (paid, counts) = measured(&plan, one.transition(&pay)).await;
        applied(&paid);
        cold_existing.add(counts);
        let (_, counts) = measured(&plan, one.lookup(&order, "never")).await;
        lookup.add(counts);
        let (_, counts) = measured(&plan, one.inspect(&order)).await;
        inspect.add(counts);
    }
    let table = [
        (&reserve_warm, 1),
        (&reserve_again, 2),
        (&busy, 1),
        (&renew, 2),
        (&release, 1),
        (&fence, 1),
        (&cold_new, 1),
        (&cold_existing, 2),
        (&warm_line, 1),
        (&replay, 0),
        (&lookup, 1),
        (&inspect, 1),
        (&event_new, 1),
        (&event_warm, 1),
        (&event_no, 1),
        (&event_again, 0),
        (&claim, 1),
        (&complete, 1),
        (&copy, 1),
    ];
    println!("| engine   | call                     | keys, most | last, all |");
    for (line, _) in table {
        line.tell(&backend);
    }
    for (line, most) in table {
        assert!(
            line.keys_max <= most,
            "{}: {} instead of {most}: {:?}",
            line.call,
            line.keys_max,
            line.all
        );
    }
    assert_eq!(reserve_warm.keys_max, 1, "a grant without a write?");
    let granting = reserve_warm
        .all
        .iter()
        .filter(|counts| counts.of(Rpc::LeaseGrant) > 0)
        .count();
    assert!(
        granting < TIMES,
        "a lease is granted for each Reserve, none ahead"
    );
}

async fn a_reservation_of_sixteen_takes_as_few_requests_as_one_of_one(backend: Backend) {
    let (one, plan) = backend.faulty_within(Duration::from_secs(5)).await;
    let two = backend.sidecar().await;
    warm(&one).await;
    let all: [_; TOGETHER_MAX] = fresh_resources();
    let mut lines = [
        "Reserve of 16, warm",
        "Reserve of 16, busy",
        "Renew of 16",
        "Release of 16",
        "Release of 16, cold",
    ]
    .map(Line::new);
    for _ in 0..TIMES {
        let (grant, granted) = Box::pin(measured(&plan, one.hold_together(&together(&all)))).await;
        let (_, busy) = Box::pin(measured(&plan, one.reserve_together(&together(&all)))).await;
        let (_, renewed) = measured(&plan, one.renew(&grant.id)).await;
        let (_, released) = measured(&plan, one.release(&grant.id)).await;
        // What another sidecar did is found out by the first commit.
        let grant = two.hold_together(&together(&all)).await;
        let (_, cold) = measured(&plan, one.release(&grant.id)).await;
        let counts = [granted, busy, renewed, released, cold];
        for (line, counts) in lines.iter_mut().zip(counts) {
            line.add(counts);
        }
    }
    for (line, most) in lines.iter().zip([1, 1, 2, 1, 3]) {
        line.tell(&backend);
        let (call, found) = (line.call, line.keys_max);
        assert!(found <= most, "{call}: {found} instead of {most}");
    }
}

async fn many_moves_of_one_resource_share_their_writes(backend: Backend) {
    let (one, plan) = backend.faulty_within(Duration::from_secs(5)).await;
    let resource = fresh_resource();
    applied(&one.transition(&create(&resource, "open")).await);
    let before = plan.counts();
    let asks = (0..200).map(|at| {
        let (one, step) = (&one, ask(&resource, &format!("step {at}")));
        async move { one.transition(&step).await.verdict }
    });
    let verdicts = futures_util::future::join_all(asks).await;
    assert!(verdicts.iter().all(|verdict| *verdict == Verdict::Applied));
    let made = plan.counts().since(&before).keys();
    println!(
        "| {:8} | 200 moves of one resource | {made} |",
        backend.name()
    );
    assert!(
        made <= 50,
        "{made} requests for 200 moves of one resource at once"
    );
}

async fn an_idle_sidecar_writes_nothing(backend: Backend) {
    let (one, plan) = backend.faulty_within(Duration::from_secs(5)).await;
    applied(&one.transition(&create(&fresh_resource(), "open")).await);
    // On a busy machine the watch over the machines is opened a little late.
    until(
        "it watches its machines",
        Duration::from_secs(20),
        || async { (plan.counts().of(Rpc::Watch) > 0).then_some(()) },
    )
    .await;
    let before = plan.counts();
    tokio::time::sleep(Duration::from_secs(8)).await;
    // Whether etcd is well is asked now and then, by a plain read of one key.
    let counts = plan.counts().since(&before);
    let asked = counts.of(Rpc::Range);
    assert!((1..=2).contains(&asked), "{counts}");
    assert_eq!(counts.all(), asked, "{counts}");
}

async fn a_sidecar_that_grants_no_more_lets_its_ready_leases_run_out(backend: Backend) {
    let (one, plan) = backend.faulty_within(Duration::from_secs(5)).await;
    // Of the shortest leases, which would have to be renewed every second.
    let grant = one.hold(&reserve_for(&fresh_resource(), 3)).await;
    one.release(&grant.id).await;
    let quiet = Duration::from_secs(3);
    until("it sends nothing", 10 * quiet, || async {
        let before = plan.counts();
        tokio::time::sleep(quiet).await;
        (plan.counts().since(&before).all() == 0).then_some(())
    })
    .await;
}

/// A machine of so many states in a row, with so many events.
fn machine(states: usize, events: usize) -> Law {
    let mut text = "kind: order\nversion: 1\nretention: 1h\nstates:\n".to_owned();
    for at in 0..states {
        let last = if at + 1 == states { "final: true" } else { "" };
        text.push_str(&format!("  s{at}: {{ {last} }}\n"));
    }
    text.push_str("events:\n  make: { creates: s0 }\n");
    for at in 0..states - 1 {
        text.push_str(&format!("  go{at}: {{ from: [s{at}], to: s{} }}\n", at + 1));
    }
    for at in states..events {
        text.push_str(&format!("  note{at}: {{ from: [s{}] }}\n", at % states));
    }
    let machine = Machine::read(text.as_bytes()).machine.unwrap();
    Law::Machine(Arc::new(InForce::new(machine, Lineage::default())))
}

/// The shortest time in which four messages of one resource are judged: two that move, one that comes again and one that is
/// told its history.
fn time_to_judge(law: &Law) -> Duration {
    let order = fresh_resource();
    let nonce = Nonce::from_bytes([1; 16]);
    let asks = [("a", "make"), ("b", "go0"), ("b", "go0"), ("c", "make")];
    let asks = asks.map(|(id, event)| {
        judge::Ask::Transition(Box::new(ask(&order, id).event(event).build()), nonce)
    });
    let absent = judge::Standing::absent();
    let timeline = Timeline::first(nonce, 1);
    let when = When {
        lag: Duration::ZERO,
        wall_ms: 1,
        now: StoreTime::from_seconds(1),
        keeping: Keeping::default(),
    };
    let rounds = (0..3_000).map(|_| {
        let begun = Boottime::now();
        let mut fold = judge::Fold::begin(&order, &absent, timeline, when).under(law);
        for ask in &asks {
            let judged = fold.judge(ask);
            assert!(matches!(judged, judge::Judged::Answered(_)), "{judged:?}");
        }
        Boottime::now().since(begun)
    });
    rounds.min().unwrap()
}

#[test]
fn fifty_states_and_five_hundred_events_cost_a_call_what_two_cost() {
    let (small, large) = (
        time_to_judge(&machine(2, 2)),
        time_to_judge(&machine(50, 500)),
    );
    println!("four messages: {small:?} under a small machine, {large:?} under a large one");
    assert!(large < 2 * small, "{large:?} instead of {small:?}");
}

engines! {
    a_sidecar_that_grants_no_more_lets_its_ready_leases_run_out,
    a_reservation_of_sixteen_takes_as_few_requests_as_one_of_one,
    each_call_takes_as_few_requests_as_it_can,
    many_moves_of_one_resource_share_their_writes,
    an_idle_sidecar_writes_nothing,
}
