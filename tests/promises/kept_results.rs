//! What an effect said and was refused is kept as evidence, up to a limit that is told, and as long as somebody may need it.

use std::time::Duration;

use fencepost::domain::claim::Finding;
use fencepost::domain::decision::{Advice, Layer, Rule, Verdict};
use fencepost::domain::ids::{Holder, Reason, ResourceId};
use fencepost::domain::incident::{EVIDENCE_PIECES_MAX, EVIDENCE_SHOWN_MAX, Incident};
use fencepost::domain::outcome::RESULT_BODY_BYTES_MAX;
use fencepost::domain::retention::Keeping;
use fencepost::engine::{Clock, EngineOptions, OperationState};
use serde_json::{Value, json};
use uuid::Uuid;

use super::fence::{SHORTEST_SECONDS, over};
use crate::support::ask::{
    Ask, ask, body, create, fresh_resource, reserve, resolution, resource_of,
};
use crate::support::backend::Backend;
use crate::support::claim::{applied, evidence, judged};
use crate::support::door::{House, order};
use crate::support::sidecar::{Sidecar, caller};
use crate::support::{engines, until};

/// Counts are written about a second after they were counted.
const COUNTED_WITHIN: Duration = Duration::from_secs(20);
const RETENTION: Duration = Duration::from_secs(3600);
/// Longer than both retentions with all that is added to them.
const OVER: Duration = Duration::from_secs(2 * 4400);

fn pay(resource: &ResourceId) -> Ask {
    ask(resource, "pay").from(&["pending"]).to("paid")
}

/// The one incident of the resource.
async fn incident(sidecar: &Sidecar, resource: &ResourceId) -> Incident {
    let mut all = sidecar.incidents(resource).await;
    assert_eq!(all.len(), 1, "{all:?}");
    all.remove(0)
}

async fn each_result_of_what_was_refused_is_kept_whoever_asks_where(backend: Backend) {
    let sidecars = backend.sidecars().await;
    let resource = fresh_resource();
    applied(
        &sidecars[0]
            .transition(&create(&resource, "cancelled"))
            .await,
    );
    let charge = ask(&resource, "pay").from(&["new"]).to("paid");
    let said = ["charged 1", "charged 2", "charged 3"];
    for turn in 0..2 {
        for (at, said) in said.iter().enumerate() {
            let told = sidecars[(at + turn) % 2]
                .transition(&charge.clone().result(said))
                .await;
            judged(&told, Verdict::Rejected, Layer::State, Rule::Passed);
        }
    }
    let mut kept = evidence(&incident(&sidecars[1], &resource).await);
    kept.sort_by_key(|result| result.body.clone());
    assert_eq!(kept, said.map(body));
}

async fn a_result_for_a_claim_that_died_is_kept_under_another_round(backend: Backend) {
    let [one, two] = backend.sidecars().await;
    let resource = fresh_resource();
    applied(&one.transition(&create(&resource, "pending")).await);
    let grant = one.hold(&pay(&resource).claim()).await;
    one.release(&grant.id).await;
    let other = two.hold(&reserve(&resource)).await;
    let told = two
        .transition(&pay(&resource).under(&other.id).result("charged"))
        .await;
    let (verdict, rule) = (Verdict::Interrupted, Rule::ClaimDied);
    judged(&told, verdict, Layer::Replay, rule);
    let kept = evidence(&incident(&one, &resource).await);
    assert!(kept.contains(&body("charged")), "{kept:?}");
}

// A worker under a finished round that repeats itself with a timestamp in its result.
async fn an_incident_keeps_so_many_results_and_counts_those_beyond(backend: Backend) {
    let (one, plan) = backend.faulty_within(Duration::from_secs(5)).await;
    let two = backend.sidecar().await;
    let resource = fresh_resource();
    let grant = one.hold(&reserve(&resource)).await;
    let run = ask(&resource, "run").under(&grant.id);
    one.transition(&run.clone().result("first")).await;
    for at in 0..EVIDENCE_PIECES_MAX {
        let told = [&one, &two][at % 2]
            .transition(&run.clone().result(format!("at {at}")))
            .await;
        assert_eq!(told.rule, Rule::OtherResult);
        assert!(!told.result_unkept, "{at}");
    }
    let keys = backend.dump().await.len();
    let before = plan.counts();
    for at in 0..5 {
        let told = one
            .transition(&run.clone().result(format!("later {at}")))
            .await;
        assert_eq!(told.rule, Rule::OtherResult);
        assert_eq!(told.result, Some(body("first")));
        assert!(told.result_unkept && told.explanation.contains("NOT kept"));
        let known = one
            .transition(&run.clone().result(format!("at {at}")))
            .await;
        assert!(!known.result_unkept);
    }
    // Each looks what is kept, by its names alone, and writes nothing. (The counts are written beside it.)
    println!("| {} | {} |", backend.name(), plan.counts().since(&before));
    assert_eq!(backend.dump().await.len(), keys);
    let counted = until("they are counted", COUNTED_WITHIN, || async {
        let found = incident(&two, &resource).await;
        (found.unkept == 5).then_some(found)
    });
    let counted = counted.await;
    assert_eq!(counted.evidence_count(), EVIDENCE_PIECES_MAX);
    assert_eq!(counted.evidence.len(), EVIDENCE_SHOWN_MAX);
    let shown = two
        .engine
        .incident(&counted.id, EVIDENCE_PIECES_MAX - 2, caller());
    let shown = shown.await.expect("it is there");
    assert_eq!(
        (shown.evidence.len(), shown.evidence_count()),
        (2, EVIDENCE_PIECES_MAX)
    );
    // It was judged, with all that it keeps; that more comes wakes nobody.
    let closed = close(&two, &counted).await;
    assert!(!closed.is_open());
    assert_eq!(closed.evidence.len(), EVIDENCE_SHOWN_MAX);
    assert!(one.transition(&run.result("last")).await.result_unkept);
    assert!(!incident(&two, &resource).await.is_open());
}

async fn close(sidecar: &Sidecar, incident: &Incident) -> Incident {
    let (by, why) = (
        Holder::parse("ann").unwrap(),
        Reason::parse("seen").unwrap(),
    );
    let closed = sidecar
        .engine
        .close_incident(incident.id.clone(), by, why, caller());
    closed.await.expect("it is closed").0
}

fn options(clock: &Clock) -> EngineOptions {
    EngineOptions {
        keeping: Keeping {
            operations: RETENTION,
            incidents: 2 * RETENTION,
            forget: None,
        },
        clock: clock.clone(),
        ..EngineOptions::default()
    }
}

async fn sweep(sidecar: &Sidecar, clock: &Clock) {
    clock.pass(OVER);
    for _ in 0..3 {
        sidecar.engine.sweep().await.expect("a sweep is made");
    }
}

async fn claims_that_died_and_were_settled_leave_an_almost_empty_store(backend: Backend) {
    let clock = Clock::default();
    let (one, _) = backend.keeping(options(&clock)).await;
    let (two, _) = backend.keeping(options(&clock)).await;
    let resources: Vec<_> = (0..12).map(|_| fresh_resource()).collect();
    for (at, resource) in resources.iter().enumerate() {
        let mail = ask(resource, "mail");
        for _ in 0..=at % 2 {
            let grant = one.hold(&mail.claim()).await;
            one.release(&grant.id).await;
            // Evidence of its own beside the incident.
            let late = two
                .transition(&mail.clone().under(&grant.id).result("sent"))
                .await;
            assert_eq!(late.verdict, Verdict::Fenced);
            two.transition(&mail.clone().result("sent")).await;
            if at % 2 == 1 {
                two.resolve(&resolution(resource, "mail", Finding::NotDone, ""))
                    .await;
            }
        }
    }
    // Nobody has looked into them: they stay, however long that takes.
    // Those that a person settled get their end, then their parts go, then they.
    for sidecar in [&two, &one, &two] {
        sweep(sidecar, &clock).await;
    }
    for (at, resource) in resources.iter().enumerate() {
        let died = two.incidents(resource).await;
        let died = died.iter().filter(|one| one.rule == Rule::ClaimDied);
        assert_eq!(died.count(), usize::from(at % 2 == 0), "{at}");
    }
    for (at, resource) in resources.iter().enumerate().filter(|(at, _)| at % 2 == 0) {
        let died = incident(&two, resource).await;
        if at % 4 == 0 {
            close(&one, &died).await;
        }
        let finding = [Finding::Done, Finding::Refused][at / 2 % 2];
        let resolved = two
            .resolve(&resolution(resource, "mail", finding, "sent"))
            .await;
        judged(&resolved, Verdict::Applied, Layer::Result, Rule::Resolved);
        // It keeps its whole retention from when it was settled.
        one.engine.sweep().await.expect("a sweep is made");
        assert_eq!(two.incidents(resource).await.len(), 1);
    }
    clock.pass(RETENTION);
    two.engine.sweep().await.expect("a sweep is made");
    assert_eq!(incident(&one, &resources[0]).await.rule, Rule::ClaimDied);
    for sidecar in [&two, &one, &two] {
        sweep(sidecar, &clock).await;
    }
    let left = backend.dump().await;
    let left: Vec<_> = left.iter().map(|(key, _)| key).collect();
    assert!(left.iter().all(|key| key.contains("/meta/")), "{left:?}");
}

async fn a_live_round_is_not_over_because_what_it_completed_is_forgotten(backend: Backend) {
    let clock = Clock::default();
    let (one, _) = backend.keeping(options(&clock)).await;
    let resource = fresh_resource();
    let grant = one.hold(&reserve(&resource)).await;
    one.ride(&ask(&resource, "mail"), &grant.id).await;
    let done = one.complete(&grant.id, "sent").await;
    judged(&done, Verdict::Applied, Layer::Result, Rule::RanOnce);
    clock.pass(OVER);
    one.transition(&ask(&resource, "other").under(&grant.id))
        .await;
    let again = one.complete(&grant.id, "sent once more").await;
    judged(&again, Verdict::Expired, Layer::Key, Rule::TooOld);
    let renewed = one.renew(&grant.id).await;
    assert_eq!(renewed.decision.advice(), Advice::Proceed);
    let kept = incident(&one, &resource).await;
    assert_eq!(evidence(&kept), [body("sent once more")]);
}

async fn an_event_that_is_to_be_put_off_asks_a_person_when_its_claim_dies(backend: Backend) {
    let [one, two] = backend.sidecars().await;
    let kind = format!("job-{}", fresh_resource().id());
    let (_, findings) = one
        .apply(&format!(
            "kind: {kind}\nversion: 1\nretention: 1h\nstates: {{ open: {{}}, done: {{ final: true }} }}\n\
             events:\n  start: {{ creates: open }}\n  work: {{ from: [open], to: done, interrupted: defer }}\n"
        ))
        .await;
    let told = findings
        .iter()
        .any(|said| said.contains("is treated as `ask`"));
    assert!(told, "{findings:?}");
    let resource = resource_of(&kind, "1");
    applied(&one.transition(&ask(&resource, "s").event("start")).await);
    let work = ask(&resource, "w").event("work");
    one.hold(&work.claim_for(SHORTEST_SECONDS)).await;
    over(&two, &resource).await;
    for sidecar in [&two, &one] {
        let found = sidecar.reserve(&work.claim()).await.decision;
        judged(&found, Verdict::Interrupted, Layer::Replay, Rule::ClaimDied);
        assert!(found.incident.is_some());
    }
    let known = one.lookup(&resource, "w").await;
    assert_eq!(known.state, OperationState::Interrupted);
}

async fn the_sidecar_that_granted_a_round_tells_how_long_it_lasts(backend: Backend) {
    let [one, two] = backend.sidecars().await;
    let resource = fresh_resource();
    let claim = ask(&resource, "run").claim_for(10);
    one.hold(&claim).await;
    let lease = Duration::from_secs(claim.ttl.lease_seconds().into());
    let copy = ask(&resource, "run");
    let rest = until("some of it has passed", COUNTED_WITHIN, || async {
        let told = one.reserve(&copy.claim_for(10)).await.decision;
        judged(&told, Verdict::InProgress, Layer::Replay, Rule::Running);
        let live = told.now.unwrap().live.expect("it is live");
        assert!(live.at_most <= lease);
        (live.at_most < lease - Duration::from_secs(2)).then_some(live.at_most)
    });
    let rest = rest.await;
    // Another one cannot know, and says the most that it may be.
    let told = two.reserve(&copy.claim_for(10)).await.decision;
    assert_eq!(told.now.unwrap().live.unwrap().at_most, lease);
    let shown = one.inspect(&resource).await.live.unwrap().at_most;
    assert!(shown <= rest, "{shown:?}");
    // When it ends is not waited for longer than it lasts.
    let ending = until("it ends", COUNTED_WITHIN, || async {
        let told = one.reserve(&copy.claim_for(10)).await.decision;
        let Some(live) = told.now.and_then(|now| now.live) else {
            return Some(());
        };
        let after = told.retry_after.expect("it says when");
        let soonest = Duration::from_millis(100);
        assert!(after <= live.at_most.max(soonest) || live.at_most == lease);
        None
    });
    ending.await;
}

async fn a_result_that_is_too_large_leaves_the_claim_as_it_was(backend: Backend) {
    let house = House::on(&backend.url().await, backend.prefix()).await;
    for turn in 0..4 {
        let door = house.door(turn);
        let id = Uuid::new_v4().simple().to_string();
        let intent = json!({"operationId": "run", "json": "e30="});
        let claim = json!({
            "resource": order(&id), "requestId": Uuid::new_v4().to_string(), "intent": intent,
        });
        let granted = door.ask("Reserve", &claim).await;
        assert_eq!(
            granted["decision"]["verdict"], "VERDICT_GRANTED",
            "{granted}"
        );
        let round = granted["reservation"]["reservationId"].clone();
        let complete = |body: &[u8]| -> Value {
            use base64::Engine as _;
            let body = base64::engine::general_purpose::STANDARD.encode(body);
            json!({"resource": order(&id), "reservationId": round, "result": {"body": body}})
        };
        let refused = door
            .refused("Transition", &complete(&vec![7; RESULT_BODY_BYTES_MAX + 1]))
            .await;
        assert_eq!(
            (&*refused.code, &*refused.field),
            ("invalid_argument", "result.body")
        );
        assert!(refused.message.contains("a reference to it"), "{refused:?}");
        // Wherever one asks, the claim is open, and its round completes it.
        let lookup = json!({"resource": order(&id), "operationId": "run"});
        let known = house.door(turn + 1).ask("Lookup", &lookup).await;
        assert_eq!(known["state"], "OPERATION_STATE_RUNNING", "{known}");
        let done = door.ask("Transition", &complete(b"s3://results/1")).await;
        assert_eq!(done["decision"]["verdict"], "VERDICT_APPLIED", "{done}");
        let known = house.door(turn + 1).ask("Lookup", &lookup).await;
        assert_eq!(known["state"], "OPERATION_STATE_DONE", "{known}");
    }
}

engines! {
    each_result_of_what_was_refused_is_kept_whoever_asks_where,
    a_result_for_a_claim_that_died_is_kept_under_another_round,
    an_incident_keeps_so_many_results_and_counts_those_beyond,
    claims_that_died_and_were_settled_leave_an_almost_empty_store,
    a_live_round_is_not_over_because_what_it_completed_is_forgotten,
    an_event_that_is_to_be_put_off_asks_a_person_when_its_claim_dies,
    the_sidecar_that_granted_a_round_tells_how_long_it_lasts,
    a_result_that_is_too_large_leaves_the_claim_as_it_was,
}
