//! What a person must judge: one incident for each operation and kind of finding, counted, and closed with a reason.

use std::collections::BTreeSet;
use std::time::Duration;

use fencepost::domain::decision::{Decision, IncidentId, Rule, Verdict};
use fencepost::domain::digest::{ContentDigest, Given};
use fencepost::domain::ids::{Holder, Kind, REASON_BYTES_MAX, Reason};
use fencepost::domain::incident::{EVIDENCE_SHOWN_MAX, Incident, IncidentFilter};
use fencepost::domain::machine::DigestRule;
use fencepost::engine::Fault;

use crate::support::ask::{Ask, ask, body, create, fresh_resource, reserve, resource_of};
use crate::support::backend::Backend;
use crate::support::claim::{applied, evidence, judged, replayed};
use crate::support::sidecar::{Sidecar, caller};
use crate::support::{engines, until};

/// Counts are written about a second after they were counted.
const COUNTED_WITHIN: Duration = Duration::from_secs(20);

fn reason(text: &str) -> Reason {
    Reason::parse(text).unwrap()
}

fn person(name: &str) -> Holder {
    Holder::parse(name).unwrap()
}

async fn close(sidecar: &Sidecar, id: &IncidentId, by: &str, why: &str) -> Incident {
    let closed = sidecar
        .engine
        .close_incident(id.clone(), person(by), reason(why), caller());
    closed.await.expect("it is closed").0
}

async fn shown(sidecar: &Sidecar, id: &IncidentId) -> Incident {
    let incident = sidecar.engine.incident(id, 0, caller()).await;
    incident.expect("there is such an incident")
}

/// The incident once it was found again so often.
async fn found_again(sidecar: &Sidecar, id: &IncidentId, times: u32) -> Incident {
    until("the deliveries are counted", COUNTED_WITHIN, || async {
        let incident = shown(sidecar, id).await;
        assert!(incident.again <= times, "{incident:?}");
        (incident.again == times).then_some(incident)
    })
    .await
}

fn conflict_of(decision: &Decision) -> IncidentId {
    assert_eq!(decision.verdict, Verdict::Conflict, "{decision:?}");
    decision.incident.clone().expect("an incident")
}

// F11, D11-E8
async fn a_conflict_names_the_amount_only_and_counts_every_delivery(backend: Backend) {
    let sidecars = backend.sidecars().await;
    let kind = format!("bill-{}", fresh_resource().id());
    let machine = format!(
        "kind: {kind}\nversion: 1\nretention: 1h\nstates: {{ paid: {{ final: true }} }}\n\
         events: {{ pay: {{ creates: paid, digest: {{ exclude: [/note] }} }} }}\n"
    );
    sidecars[0].install(&machine).await;
    let resource = resource_of(&kind, "1");
    let text = |amount: &str, note: &str| {
        format!(r#"{{"amount":{amount},"currency":"EUR","note":"{note}"}}"#)
    };
    let exclude = DigestRule::Exclude(vec!["/note".to_owned()]);
    let pay = |amount: &str, note: &str| {
        let text = text(amount, note);
        ask(&resource, "pay")
            .event("pay")
            .result("receipt")
            .content(Given::Json(text.as_bytes()), &exclude)
    };
    applied(&sidecars[0].transition(&pay("10.00", "first")).await);
    replayed(
        &sidecars[1].transition(&pay("10", "other")).await,
        &body("receipt"),
    );
    let record = backend.dump().await;
    let mut ids = BTreeSet::new();
    for (at, note) in ["a", "b", "c", "d"].into_iter().enumerate() {
        let conflict = sidecars[at % 2].transition(&pay("100.00", note)).await;
        assert_eq!(conflict.differing, ["/amount"]);
        ids.insert(conflict_of(&conflict));
        replayed(
            &sidecars[at % 2].transition(&pay("10", note)).await,
            &body("receipt"),
        );
    }
    assert_eq!(ids.len(), 1);
    let id = ids.pop_first().unwrap();
    let incident = found_again(&sidecars[1], &id, 3).await;
    assert_eq!(incident.fields, ["/amount"]);
    assert_eq!(incident.sender, Some(person("test")));
    assert!(incident.last_ms >= incident.time_ms);
    assert_eq!(
        (incident.verdict, incident.rule),
        (Verdict::Conflict, Rule::OtherContent)
    );
    assert_ne!(incident.first_digest, incident.digest);
    // No value came into the store, and the operation kept what it had said first.
    for (key, value) in record.iter().chain(&backend.dump().await) {
        let text = String::from_utf8_lossy(value);
        assert!(
            !text.contains("10.00") && !text.contains("EUR"),
            "{key}: {text}"
        );
    }
    replayed(
        &sidecars[0].transition(&pay("10.0", "again")).await,
        &body("receipt"),
    );
}

async fn closing_needs_a_reason_and_the_same_finding_again_is_counted_and_stays_closed(
    backend: Backend,
) {
    let [one, two] = backend.sidecars().await;
    let resource = fresh_resource();
    let pay = create(&resource, "paid");
    applied(&one.transition(&pay.clone().json("1")).await);
    let id = conflict_of(&one.transition(&pay.clone().json("2")).await);
    assert!(shown(&two, &id).await.is_open());
    for blank in ["", " ", "\n\t"] {
        let refused = Reason::parse(blank).unwrap_err().to_string();
        assert!(refused.contains("is required"), "{refused}");
    }
    assert!(Reason::parse(&"x".repeat(REASON_BYTES_MAX + 1)).is_err());
    let closed = close(&two, &id, "ann", "the sender was told").await;
    assert!(!closed.is_open());
    // Whoever comes second does not take the first one's place.
    let again = close(&one, &id, "bob", "I know better").await;
    let closing = again.closing.unwrap();
    assert_eq!(
        (closing.by.as_str(), closing.reason.as_str()),
        ("ann", "the sender was told")
    );
    for _ in 0..3 {
        assert_eq!(
            conflict_of(&one.transition(&pay.clone().json("2")).await),
            id
        );
    }
    let counted = found_again(&two, &id, 3).await;
    assert!(!counted.is_open(), "{counted:?}");
    // A third content is news.
    assert_eq!(
        conflict_of(&two.transition(&pay.clone().json("3")).await),
        id
    );
    let opened = found_again(&one, &id, 4).await;
    assert!(opened.is_open(), "{opened:?}");
    assert_eq!(
        opened.last_digest,
        Some(ContentDigest::of_json(b"3").unwrap())
    );
    let closed = close(&one, &id, "bob", "that one too").await;
    assert_eq!(closed.closing.unwrap().by.as_str(), "bob");
    let nobody = IncidentId("inc-0".to_owned());
    let missing = one
        .engine
        .close_incident(nobody.clone(), person("ann"), reason("x"), caller());
    assert_eq!(missing.await, Err(Fault::NoSuchIncident));
    let missing = one.engine.incident(&nobody, 0, caller()).await;
    assert_eq!(missing, Err(Fault::NoSuchIncident));
}

async fn every_other_result_is_kept_in_one_incident_and_opens_it_again(backend: Backend) {
    let sidecars = backend.sidecars().await;
    let resource = fresh_resource();
    let grant = sidecars[0].hold(&reserve(&resource)).await;
    let pay = create(&resource, "paid").under(&grant.id);
    applied(&sidecars[0].transition(&pay.clone().result("first")).await);
    let more = EVIDENCE_SHOWN_MAX + 3;
    let mut ids = BTreeSet::new();
    for round in 0..2 {
        for at in 0..more {
            let other = pay.clone().result(format!("other {at}"));
            let told = sidecars[(at + round) % 2].transition(&other).await;
            assert_eq!(
                (told.verdict, told.rule),
                (Verdict::Replayed, Rule::OtherResult)
            );
            assert_eq!(told.result, Some(body("first")));
            ids.insert(told.incident.unwrap());
        }
    }
    assert_eq!(ids.len(), 1);
    let id = ids.pop_first().unwrap();
    let listed = sidecars[1].incidents(&resource).await;
    assert_eq!(listed.len(), 1, "{listed:?}");
    assert_eq!(listed[0].evidence.len(), EVIDENCE_SHOWN_MAX);
    assert_eq!(listed[0].evidence_count(), more);
    // What is not shown at once can be shown, and nothing is lost.
    let rest = sidecars[0]
        .engine
        .incident(&id, EVIDENCE_SHOWN_MAX, caller());
    let rest = rest.await.unwrap();
    let kept = [evidence(&listed[0]), evidence(&rest)].concat();
    let kept: BTreeSet<_> = kept.iter().map(|result| result.body.to_vec()).collect();
    let sent: BTreeSet<_> = (0..more)
        .map(|at| format!("other {at}").into_bytes())
        .collect();
    assert_eq!(kept, sent);
    for one in listed[0].evidence.iter().chain(&rest.evidence) {
        assert_eq!(
            one.sender,
            Some(person("worker")),
            "the holder of the round"
        );
        assert_eq!(one.round, Some(grant.id.round()));
    }
    assert!(!close(&sidecars[0], &id, "ann", "refunded").await.is_open());
    let told = sidecars[0].transition(&pay.clone().result("other 3")).await;
    assert_eq!(told.incident.as_ref(), Some(&id));
    assert!(!shown(&sidecars[1], &id).await.is_open(), "it was judged");
    sidecars[1]
        .transition(&pay.clone().result("one more"))
        .await;
    let opened = shown(&sidecars[0], &id).await;
    assert!(opened.is_open(), "a result that nobody had seen");
    assert_eq!(opened.closing.unwrap().by.as_str(), "ann");
}

async fn incidents_are_paged_while_others_are_added_and_none_is_told_twice(backend: Backend) {
    let [one, two] = backend.sidecars().await;
    let (order, seat) = (fresh_resource(), resource_of("seat", "1"));
    let raise = |number: usize| {
        let which = if number.is_multiple_of(3) {
            &seat
        } else {
            &order
        };
        let first = ask(which, &format!("op {number}")).json("1");
        let other = ask(which, &format!("op {number}")).json("2");
        (first, other)
    };
    let alert = async |sidecar: &Sidecar, (first, other): (Ask, Ask)| {
        sidecar.transition(&first).await;
        conflict_of(&sidecar.transition(&other).await)
    };
    let mut before = BTreeSet::new();
    for number in 0..12 {
        before.insert(alert(&one, raise(number)).await);
    }
    let all = IncidentFilter::default();
    let mut told = Vec::new();
    let mut after = None;
    let mut number = 100;
    loop {
        let page = two
            .engine
            .incidents(after, 3, &all, caller())
            .await
            .unwrap();
        assert!(page.incidents.len() <= 3);
        told.extend(page.incidents.into_iter().map(|incident| incident.id));
        alert(&one, raise(number)).await;
        number += 1;
        match page.next {
            // The list may grow behind the page for ever; two more pages are enough.
            Some(next) if told.len() < 30 => after = Some(next),
            Some(_) | None => break,
        }
    }
    let distinct: BTreeSet<_> = told.iter().cloned().collect();
    assert_eq!(distinct.len(), told.len(), "one is told twice");
    let missed: Vec<_> = before.difference(&distinct).collect();
    assert!(missed.is_empty(), "{missed:?}");
    // Under a filter.
    let seats = IncidentFilter {
        kind: Some(Kind::parse("seat").unwrap()),
        open: true,
    };
    let found = one
        .engine
        .incidents(None, 100, &seats, caller())
        .await
        .unwrap();
    assert!(found.incidents.len() >= 4 && found.next.is_none());
    assert!(
        found
            .incidents
            .iter()
            .all(|incident| incident.resource == seat)
    );
    close(&two, &found.incidents[0].id, "ann", "seen").await;
    let left = one
        .engine
        .incidents(None, 100, &seats, caller())
        .await
        .unwrap();
    assert_eq!(left.incidents.len(), found.incidents.len() - 1);
    assert!(
        left.incidents
            .iter()
            .all(|incident| incident.id != found.incidents[0].id)
    );
}

async fn the_same_content_under_a_second_key_is_counted_and_changes_nothing(backend: Backend) {
    let [one, two] = backend.sidecars().await;
    let resource = fresh_resource();
    let run = |operation: &str, text: &str| ask(&resource, operation).json(text).result(operation);
    for (operation, text, narrow) in [
        ("evt-1", r#"{"invoice":7}"#, 0),
        ("evt-2", r#"{"invoice":8}"#, 0),
        ("evt-3", r#"{ "invoice": 7.0 }"#, 1),
        ("evt-4", "{}", 1),
        ("evt-5", "{}", 1),
    ] {
        let told = one.transition(&run(operation, text)).await;
        judged(
            &told,
            Verdict::Applied,
            fencepost::domain::decision::Layer::Result,
            Rule::RanOnce,
        );
        assert_eq!(told.incident, None);
        assert_eq!(one.engine.narrow_keys(), narrow, "{operation}");
    }
    // A resend is no second key, and a move to elsewhere is another action.
    replayed(
        &one.transition(&run("evt-3", r#"{"invoice":7}"#)).await,
        &body("evt-3"),
    );
    let place = create(&resource, "placed").json(r#"{"invoice":7}"#);
    applied(&one.transition(&place).await);
    let ship = ask(&resource, "ship")
        .to("shipped")
        .json(r#"{"invoice":7}"#);
    applied(&one.transition(&ship).await);
    assert_eq!(one.engine.narrow_keys(), 1);
    let note = |operation: &str| ask(&resource, operation).stay().json(r#"{"note":"x"}"#);
    applied(&two.transition(&note("note-1")).await);
    applied(&two.transition(&note("note-2")).await);
    assert_eq!(two.engine.narrow_keys(), 1);
    assert!(one.incidents(&resource).await.is_empty());
}

async fn a_content_in_another_form_conflicts_and_names_no_field(backend: Backend) {
    let [one, two] = backend.sidecars().await;
    let text = r#"{"amount":10}"#;
    let digest = [7; 32];
    let forms = [
        Given::Json(text.as_bytes()),
        Given::Raw(text.as_bytes()),
        Given::Digest(&digest),
    ];
    for first in forms {
        let resource = fresh_resource();
        let run = ask(&resource, "op");
        one.transition(&run.clone().content(first, &DigestRule::Whole))
            .await;
        for second in forms.into_iter().filter(|second| *second != first) {
            let conflict = two
                .transition(&run.clone().content(second, &DigestRule::Whole))
                .await;
            conflict_of(&conflict);
            assert_eq!(conflict.differing, [""; 0]);
            assert!(
                conflict.explanation.contains("in another form"),
                "{}",
                conflict.explanation
            );
        }
    }
}

async fn what_was_counted_is_written_before_a_sidecar_stops(backend: Backend) {
    let [one, two] = backend.sidecars().await;
    let resource = fresh_resource();
    let pay = create(&resource, "paid");
    applied(&one.transition(&pay.clone().json("1")).await);
    let id = conflict_of(&one.transition(&pay.clone().json("2")).await);
    for _ in 0..5 {
        one.transition(&pay.clone().json("2")).await;
    }
    assert!(one.engine.stop(Duration::from_secs(5)).await);
    assert_eq!(shown(&two, &id).await.again, 5);
}

engines! {
    a_conflict_names_the_amount_only_and_counts_every_delivery,
    closing_needs_a_reason_and_the_same_finding_again_is_counted_and_stays_closed,
    every_other_result_is_kept_in_one_incident_and_opens_it_again,
    incidents_are_paged_while_others_are_added_and_none_is_told_twice,
    the_same_content_under_a_second_key_is_counted_and_changes_nothing,
    a_content_in_another_form_conflicts_and_names_no_field,
    what_was_counted_is_written_before_a_sidecar_stops,
}
