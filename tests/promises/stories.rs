//! The story of a resource: true at the moment it was asked for, bounded, and told without writing anything.

use std::time::Duration;

use fencepost::domain::decision::Verdict;
use fencepost::domain::explain::{INCIDENTS_TOLD_MAX, OPERATIONS_TOLD_MAX, Story, Topic};
use fencepost::domain::ids::{OperationId, ResourceId};
use fencepost::domain::request::Reserve;
use fencepost::domain::waiter::{WAITERS_TOLD_MAX, WaitingCall, WhoWaits};
use futures_util::future::join_all;
use serde_json::json;

use super::fence::{SHORTEST_SECONDS, over};
use super::queue::{LONG, queued, served};
use super::queue_several::waits_for_all;
use crate::support::ask::{
    ask, create, fresh_resource, fresh_resources, reserve, resource_of, together,
};
use crate::support::backend::Backend;
use crate::support::claim::applied;
use crate::support::door::House;
use crate::support::engines;
use crate::support::fault::{Action, Rpc};
use crate::support::sidecar::{Sidecar, caller, caller_for};

/// More than are looked at for one story.
const MANY: usize = 400;
/// Asked at once.
const AT_ONCE: usize = 50;

async fn story(sidecar: &Sidecar, resource: &ResourceId, operation: &str) -> Story {
    let operation = (!operation.is_empty()).then(|| OperationId::parse(operation).unwrap());
    let told = sidecar
        .engine
        .explain(resource.clone(), operation, caller());
    told.await.expect("a story")
}

fn of(story: &Story, topic: Topic) -> String {
    let all = story.sentences.iter();
    let some = all.filter(|sentence| sentence.topic == topic);
    let texts: Vec<&str> = some.map(|sentence| sentence.text.as_str()).collect();
    texts.join("\n")
}

#[track_caller]
fn says(story: &Story, topic: Topic, part: &str) {
    let text = of(story, topic);
    assert!(text.contains(part), "{part:?} in {text}");
}

async fn a_story_is_told_of_what_is_stored_and_writes_nothing(backend: Backend) {
    let [one, two] = backend.sidecars().await;
    let resource = fresh_resource();
    let create = create(&resource, "open")
        .json(r#"{"amount":10}"#)
        .result("receipt");
    applied(&one.transition(&create).await);
    let conflict = one
        .transition(&create.clone().json(r#"{"amount":11}"#))
        .await;
    assert_eq!(conflict.verdict, Verdict::Conflict);
    let incident = conflict.incident.unwrap().0;
    let round = one.hold(&reserve(&resource)).await;
    let written = backend.written().await;
    for sidecar in [&one, &two] {
        let told = story(sidecar, &resource, "create").await;
        assert!(told.known);
        // Who granted a round knows how much of it is left; what is stored says only how much a renewal gives.
        let mut shown = one.inspect(&resource).await;
        if let (Some(shown), Some(told)) = (&mut shown.live, &told.snapshot.live) {
            assert!(shown.at_most <= told.at_most);
            shown.at_most = told.at_most;
        }
        assert_eq!(told.snapshot, shown);
        says(&told, Topic::State, "is in state open since move 2 of 2");
        says(&told, Topic::Round, "It is held by \"worker\"");
        says(
            &told,
            Topic::Token,
            &format!("Token {} is good", round.token),
        );
        says(
            &told,
            Topic::Operation,
            "Operation \"create\": APPLIED (MOVED)",
        );
        says(
            &told,
            Topic::Incident,
            &format!("Incident {incident} about \"create\""),
        );
        says(&told, Topic::Incident, "it differs at \"/amount\"");
        says(
            &told,
            Topic::Answer,
            "answered REPLAYED (ACKNOWLEDGE), with the first result",
        );
        says(
            &told,
            Topic::Next,
            &format!("fencepost incidents close {incident}"),
        );
        let all = format!("{told:?}");
        assert!(
            !all.contains("receipt") && !all.contains("amount\":"),
            "{all}"
        );
        let never = story(sidecar, &fresh_resource(), "").await;
        assert!(!never.known && never.snapshot.revision.is_none());
        let never = story(sidecar, &resource, "other").await;
        assert!(!never.known);
    }
    assert_eq!(backend.written().await, written);
}

async fn a_story_shows_what_was_answered_before_it_was_asked_for(backend: Backend) {
    let [one, two] = backend.sidecars().await;
    let resource = fresh_resource();
    for _ in 0..10 {
        let round = one.hold(&reserve(&resource)).await;
        let held = story(&two, &resource, "").await;
        assert_eq!(held.snapshot.live.map(|live| live.token), Some(round.token));
        one.release(&round.id).await;
        let free = story(&two, &resource, "").await;
        assert_eq!(free.snapshot.live, None);
        says(
            &free,
            Topic::Round,
            "the last round, of \"worker\", was released",
        );
    }
}

async fn a_story_is_told_by_the_machine_in_force_also_where_nobody_has_heard_of_it(
    backend: Backend,
) {
    let one = backend.sidecar().await;
    let (two, plan) = backend.faulty().await;
    plan.when(Rpc::Watch).always().then(Action::Cut);
    let kind = format!("lamp-{}", fresh_resource().id());
    let lamp = resource_of(&kind, "1");
    let machine = |version: u32, push: &str| {
        format!(
            "kind: {kind}\nversion: {version}\nretention: 96h\nstates: {{ off: {{}}, on: {{ final: true }} }}\n\
             events:\n  make: {{ creates: off }}\n  {push}: {{ from: [off], to: on }}\n"
        )
    };
    one.install(&machine(1, "push")).await;
    applied(&one.transition(&ask(&lamp, "make").event("make")).await);
    for (version, event) in [(1, "push"), (2, "press"), (3, "turn")] {
        if version > 1 {
            let before = if version == 2 { "push" } else { "press" };
            let map = format!("map: {{ events: {{ {before}: {event} }} }}\n");
            one.install(&(machine(version, event) + &map)).await;
        }
        let told = story(&two, &lamp, "make").await;
        says(&told, Topic::Event, &format!("Allowed now: {event}."));
        says(
            &told,
            Topic::Event,
            "SUPERSEDED, for the resource has made this move already: make.",
        );
        says(
            &told,
            Topic::State,
            &format!("It follows version {version} of its machine."),
        );
        says(
            &told,
            Topic::Operation,
            "event make by version 1 of the machine",
        );
    }
}

/// Runs so many operations, from `step 0` on.
async fn steps(sidecar: &Sidecar, resource: &ResourceId, many: usize) {
    for first in (0..many).step_by(AT_ONCE) {
        let asks = (first..many.min(first + AT_ONCE)).map(|at| {
            let step = ask(resource, &format!("step {at}")).result("x".repeat(300));
            async move { sidecar.transition(&step).await.verdict }
        });
        let answers = join_all(asks).await;
        assert!(answers.iter().all(|verdict| *verdict == Verdict::Applied));
    }
}

async fn conflict(sidecar: &Sidecar, resource: &ResourceId, at: usize) {
    let other = ask(resource, &format!("step {at}")).json("1");
    let answer = sidecar.transition(&other).await;
    assert_eq!(answer.verdict, Verdict::Conflict);
}

async fn a_story_of_hundreds_of_operations_is_short_and_says_what_it_leaves_out(backend: Backend) {
    let [one, two] = backend.sidecars().await;
    let resource = fresh_resource();
    steps(&one, &resource, MANY).await;
    conflict(&one, &resource, 0).await;
    let told = story(&two, &resource, "").await;
    let operations = of(&told, Topic::Operation);
    assert_eq!(operations.lines().count(), OPERATIONS_TOLD_MAX + 1);
    let beside = MANY - OPERATIONS_TOLD_MAX;
    says(
        &told,
        Topic::Operation,
        &format!("… and {beside} more are stored"),
    );
    says(
        &told,
        Topic::Operation,
        "in keys of their own were not looked at",
    );
    let other = "Incidents about other operations are not looked for";
    says(&told, Topic::Incident, other);
    // Whoever is asked about by name is found wherever it is, and so is what was found about it.
    let named = story(&two, &resource, "step 0").await;
    assert!(named.known);
    says(
        &named,
        Topic::Answer,
        "Operation \"step 0\": APPLIED (RAN_ONCE)",
    );
    says(
        &named,
        Topic::Incident,
        "about \"step 0\": CONFLICT (OTHER_CONTENT)",
    );
    says(&named, Topic::Next, "fencepost incidents show inc-");
}

async fn a_story_of_many_incidents_says_how_many_more_there_are_and_leaves_none_of_the_named_out(
    backend: Backend,
) {
    let [one, two] = backend.sidecars().await;
    let resource = fresh_resource();
    steps(&one, &resource, OPERATIONS_TOLD_MAX).await;
    for at in 0..OPERATIONS_TOLD_MAX {
        conflict(&one, &resource, at).await;
    }
    let more = OPERATIONS_TOLD_MAX - INCIDENTS_TOLD_MAX;
    for named in ["", "step 0", "step 17", "step 31"] {
        let told = story(&two, &resource, named).await;
        assert_eq!(
            of(&told, Topic::Operation).lines().count(),
            OPERATIONS_TOLD_MAX
        );
        let incidents = of(&told, Topic::Incident);
        assert_eq!(
            incidents.matches("Incident inc-").count(),
            INCIDENTS_TOLD_MAX
        );
        says(
            &told,
            Topic::Incident,
            &format!("… and {more} more about these operations"),
        );
        if !named.is_empty() {
            says(
                &told,
                Topic::Incident,
                &format!("about \"{named}\": CONFLICT"),
            );
        }
    }
}

async fn a_story_tells_of_a_claim_that_died_before_anybody_has_reported_it(backend: Backend) {
    let [one, two] = backend.sidecars().await;
    let resource = fresh_resource();
    applied(&one.transition(&create(&resource, "pending")).await);
    let pay = ask(&resource, "pay").from(&["pending"]).to("paid");
    one.hold(&pay.claim_for(SHORTEST_SECONDS)).await;
    let running = story(&two, &resource, "pay").await;
    assert!(running.known);
    says(
        &running,
        Topic::Claim,
        "Operation \"pay\" is running under the live reservation",
    );
    says(&running, Topic::Answer, "answered IN_PROGRESS (RETRY)");
    over(&two, &resource).await;
    let written = backend.written().await;
    let died = story(&two, &resource, "pay").await;
    says(
        &died,
        Topic::Claim,
        "is interrupted: attempt 1 ended without a result",
    );
    says(
        &died,
        Topic::Answer,
        "answered INTERRUPTED (RETRY), by layer REPLAY, rule CLAIM_DIED",
    );
    says(
        &died,
        Topic::Next,
        &format!(
            "fencepost resolve order \"{}\" \"pay\" --attempt 1",
            resource.id()
        ),
    );
    says(
        &died,
        Topic::Incident,
        "There is no incident about these operations.",
    );
    assert_eq!(backend.written().await, written, "a story reports nothing");
    let found = one.transition(&pay).await;
    let incident = found.incident.expect("it is reported").0;
    let reported = story(&two, &resource, "").await;
    says(
        &reported,
        Topic::Incident,
        &format!("Incident {incident} about \"pay\": INTERRUPTED"),
    );
}

async fn a_story_names_the_other_resources_of_a_round(backend: Backend) {
    let [one, two] = backend.sidecars().await;
    let all: [_; 3] = fresh_resources();
    let grant = one.hold_together(&together(&all)).await;
    let [lead, other, third] = &all;
    for released in [false, true] {
        if released {
            one.release(&grant.id).await;
        }
        let told = story(&two, lead, "").await;
        says(
            &told,
            Topic::Round,
            &format!("together with {other}, {third}:"),
        );
        let told = story(&two, other, "").await;
        says(
            &told,
            Topic::Round,
            &format!("together with {lead} and whatever"),
        );
    }
}

async fn who_waits_is_told_in_order_by_a_story_and_by_inspect(backend: Backend) {
    let [one, two] = backend.sidecars().await;
    let both: [_; 2] = fresh_resources();
    let [resource, other] = &both;
    applied(&one.transition(&create(resource, "pending")).await);
    let holder = one.hold(&reserve(resource)).await;
    let nobody = story(&two, resource, "").await;
    assert_eq!(nobody.waiting, WhoWaits::default());
    assert_eq!(of(&nobody, Topic::Queue), "");
    let patient = || caller_for(2 * LONG);
    let waits_as = |sidecar: &Sidecar, ask: Reserve| {
        let engine = sidecar.engine.clone();
        tokio::spawn(async move { engine.reserve_or_wait(ask, LONG, patient()).await })
    };
    let many = WAITERS_TOLD_MAX + 2;
    // Those who come first are not those whose sidecar has counted the fewest arrivals.
    let short = Duration::from_millis(1);
    let left = (0..many).map(|_| one.reserve_waiting(&reserve(resource), short));
    for left in join_all(left).await {
        left.unwrap().expect("it is judged");
    }
    queued(&backend, resource, 0).await;
    let mine = reserve(resource);
    let mut waiting = vec![waits_as(&one, mine.clone())];
    queued(&backend, resource, 1).await;
    let pay = ask(resource, "pay").from(&["pending"]).to("paid");
    let (engine, moves) = (two.engine.clone(), pay.build());
    let moves =
        tokio::spawn(async move { engine.transition_or_wait(moves, LONG, patient()).await });
    queued(&backend, resource, 2).await;
    waiting.push(waits_as(&two, pay.claim()));
    queued(&backend, resource, 3).await;
    waiting.push(waits_for_all(&one, &both));
    queued(&backend, resource, 4).await;
    waiting.extend((4..many).map(|_| waits_as(&two, reserve(resource))));
    queued(&backend, resource, many).await;
    for sidecar in [&one, &two] {
        let told = story(sidecar, resource, "").await;
        let asked = sidecar.engine.who_waits(resource, caller()).await.unwrap();
        assert_eq!(told.waiting, asked);
        assert_eq!(asked.calls, many as u64);
        assert_eq!(asked.first.len(), WAITERS_TOLD_MAX);
        let first: Vec<_> = asked.first.iter().take(4).collect();
        let calls = first.iter().map(|waiter| waiter.call);
        let (reserve, transition) = (WaitingCall::Reserve, WaitingCall::Transition);
        let expected = [reserve, transition, reserve, reserve];
        assert_eq!(calls.collect::<Vec<_>>(), expected);
        assert_eq!(first[0].request, Some(mine.request));
        let pay = OperationId::parse("pay").ok();
        let operations = first.iter().map(|waiter| waiter.operation.clone());
        assert_eq!(
            operations.collect::<Vec<_>>(),
            [None, pay.clone(), pay, None]
        );
        assert_eq!((first[1].request, first[3].also), (None, 1));
        let since = first.iter().map(|waiter| waiter.time_ms);
        assert!(since.is_sorted() && first[0].time_ms > 0, "{first:?}");
        says(&told, Topic::Queue, &format!("{many} calls wait for it"));
        let request = format!("1. A Reserve of \"worker\", request {}", mine.request);
        says(&told, Topic::Queue, &request);
        says(
            &told,
            Topic::Queue,
            "2. A Transition of \"test\", for operation \"pay\"",
        );
        says(
            &told,
            Topic::Queue,
            "which waits for 1 other resource as well",
        );
        says(&told, Topic::Queue, "… and 2 more.");
        let asked = sidecar.engine.who_waits(other, caller()).await.unwrap();
        assert_eq!((asked.calls, asked.first[0].also), (1, 1));
    }
    // Whoever is served waits no longer.
    one.release(&holder.id).await;
    let grant = served(waiting.remove(0), LONG).await;
    let asked = two.engine.who_waits(resource, caller()).await.unwrap();
    assert_eq!(asked.calls, many as u64 - 1);
    assert_eq!(asked.first[0].call, WaitingCall::Transition);
    // Inspect tells it at the doors, if it is asked to.
    let house = House::on(&backend.url().await, backend.prefix()).await;
    let named = json!({"kind": resource.kind().as_str(), "id": resource.id()});
    for door in &house.doors {
        let plain = door.ask("Inspect", &json!({"resource": named})).await;
        assert_eq!(plain["queue"], json!(null));
        let asked = json!({"resource": named, "withQueue": true});
        let told = door.ask("Inspect", &asked).await;
        assert!(told["snapshot"]["liveToken"].is_string(), "{told}");
        let queue = &told["queue"];
        assert_eq!(queue["calls"], json!(many - 1), "{queue}");
        assert_eq!(queue["first"].as_array().unwrap().len(), WAITERS_TOLD_MAX);
        assert_eq!(queue["first"][0]["operationId"], "pay");
        assert_eq!(queue["first"][0]["call"], "WAITING_CALL_TRANSITION");
        let shown = queue.to_string();
        assert!(!shown.contains("requestId"), "{shown}");
    }
    assert!(!moves.is_finished());
    for waits in waiting {
        waits.abort();
    }
    moves.abort();
    queued(&backend, resource, 0).await;
    let nobody = two.engine.who_waits(resource, caller()).await.unwrap();
    assert_eq!(nobody, WhoWaits::default());
    one.release(&grant.id).await;
}

engines! {
    who_waits_is_told_in_order_by_a_story_and_by_inspect,
    a_story_names_the_other_resources_of_a_round,
    a_story_tells_of_a_claim_that_died_before_anybody_has_reported_it,
    a_story_is_told_of_what_is_stored_and_writes_nothing,
    a_story_shows_what_was_answered_before_it_was_asked_for,
    a_story_is_told_by_the_machine_in_force_also_where_nobody_has_heard_of_it,
    a_story_of_hundreds_of_operations_is_short_and_says_what_it_leaves_out,
    a_story_of_many_incidents_says_how_many_more_there_are_and_leaves_none_of_the_named_out,
}
