//! What a person finds out about an operation is stored with it, and ends the incident that asked for it.

use fencepost::domain::claim::Finding;
use fencepost::domain::decision::{IncidentId, Layer, Rule, Verdict};
use fencepost::domain::incident::Incident;
use fencepost::domain::request::Left;

use crate::support::ask::{ask, body, create, fresh_resource, resolution};
use crate::support::backend::Backend;
use crate::support::claim::{applied, evidence, judged, not_failed};
use crate::support::engines;
use crate::support::fault::{Action, Ending, Rpc};
use crate::support::sidecar::{Sidecar, caller};

async fn shown(sidecar: &Sidecar, id: &IncidentId) -> Incident {
    let incident = sidecar.engine.incident(id, 0, caller()).await;
    incident.expect("there is such an incident")
}

async fn resolving_an_operation_closes_the_incident_of_its_dead_claims_and_no_other(
    backend: Backend,
) {
    let [one, two] = backend.sidecars().await;
    for finding in [Finding::Done, Finding::NotDone, Finding::Refused] {
        let resource = fresh_resource();
        applied(&one.transition(&create(&resource, "pending")).await);
        let pay = ask(&resource, "pay").from(&["pending"]).to("paid");
        let grant = one.hold(&pay.claim()).await;
        let died = one.release(&grant.id).await.incident.unwrap();
        let late = one.complete(&grant.id, "late").await.incident.unwrap();
        assert_ne!(died, late);
        let found = resolution(&resource, "pay", finding, "by the books");
        let told = two.resolve(&found).await;
        judged(&told, Verdict::Applied, Layer::Result, Rule::Resolved);
        assert_eq!(told.incident.as_ref(), Some(&died));
        assert!(
            told.explanation.contains("is closed"),
            "{}",
            told.explanation
        );
        let closed = shown(&one, &died).await;
        assert!(!closed.is_open());
        let closing = closed.closing.unwrap();
        assert_eq!(
            (closing.by, closing.reason),
            (found.by.clone(), found.reason.clone())
        );
        assert!(
            shown(&one, &late).await.is_open(),
            "nobody has judged that one"
        );
        if finding == Finding::NotDone {
            // Another attempt that dies opens it again.
            let grant = two.hold(&pay.claim()).await;
            assert_eq!(two.release(&grant.id).await.incident, Some(died.clone()));
            assert!(shown(&one, &died).await.is_open());
        }
    }
}

async fn a_resolution_whose_reply_was_lost_closes_the_incident_when_it_is_sent_again(
    backend: Backend,
) {
    let (one, plan) = backend.faulty().await;
    let two = backend.sidecar().await;
    let resource = fresh_resource();
    let grant = one.hold(&ask(&resource, "mail").claim()).await;
    let died = one.release(&grant.id).await.incident.unwrap();
    let found = resolution(&resource, "mail", Finding::Done, "sent");
    let lost = plan
        .when(Rpc::Txn)
        .containing(resource.id())
        .then(Action::LoseReply(Ending::Reset));
    not_failed(&one.try_resolve(&found).await);
    lost.met().await;
    let again = two.resolve(&found).await;
    assert!(
        matches!(again.verdict, Verdict::Applied | Verdict::Replayed),
        "{again:?}"
    );
    assert!(!shown(&two, &died).await.is_open());
}

async fn how_an_effect_ended_is_kept_with_its_release(backend: Backend) {
    let [one, two] = backend.sidecars().await;
    let resource = fresh_resource();
    let mut kept = Vec::new();
    for attempt in 1..=3 {
        let grant = one.hold(&ask(&resource, "mail").claim()).await;
        assert_eq!(grant.attempt, attempt);
        let said = body(format!("exit code {attempt}"));
        kept.push(said.clone());
        let left = Left::Ended(Box::new(said));
        let died = two.engine.release(grant.id.clone(), left.clone(), caller());
        let died = died.await.unwrap().incident.unwrap();
        // Over is over: what is said then changes nothing.
        let again = one.engine.release(grant.id, left, caller()).await.unwrap();
        assert_eq!(again.verdict, Verdict::Replayed);
        let mut found = evidence(&shown(&one, &died).await);
        found.sort_by_key(|result| result.body.clone());
        assert_eq!(found, kept);
        two.resolve(&resolution(&resource, "mail", Finding::NotDone, ""))
            .await;
    }
}

engines! {
    resolving_an_operation_closes_the_incident_of_its_dead_claims_and_no_other,
    a_resolution_whose_reply_was_lost_closes_the_incident_when_it_is_sent_again,
    how_an_effect_ended_is_kept_with_its_release,
}
