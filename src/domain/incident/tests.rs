//! What an incident counts, what closes it and what opens it again.

use bytes::Bytes;

use super::*;

fn content(text: &str) -> ContentDigest {
    ContentDigest::of_raw(text.as_bytes()).unwrap()
}

fn raised() -> Incident {
    let resource = ResourceId::new(Kind::parse("order").unwrap(), "1").unwrap();
    let operation = OperationId::parse("pay").unwrap();
    let (verdict, rule) = (Verdict::Conflict, Rule::OtherContent);
    Incident {
        id: Incident::id_of(&resource, Some(&operation), verdict, rule),
        resource,
        operation: Some(operation),
        verdict,
        rule,
        explanation: "found".to_owned(),
        time_ms: 10,
        first_digest: Some(content("first")),
        digest: Some(content("second")),
        evidence: Vec::new(),
        more_evidence: 0,
        unkept: 0,
        state: None,
        sender: None,
        fields: Vec::new(),
        again: 0,
        last_ms: 10,
        last_digest: None,
        closing: None,
        expiry: None,
    }
}

fn ran(body: &'static str, round: Option<u8>) -> Evidence {
    Evidence {
        result: StoredResult {
            body: Bytes::from_static(body.as_bytes()),
            ..StoredResult::default()
        },
        round: round.map(|round| Nonce::from_bytes([round; 16])),
        digest: Some(content("second")),
        sender: None,
        time_ms: 20,
    }
}

fn close(incident: &mut Incident, by: &str) {
    let by = Holder::parse(by).unwrap();
    incident.close(by, Reason::parse("seen").unwrap(), 30);
}

fn seen(times: u32, last_ms: u64, said: &str) -> Sighting {
    Sighting {
        times,
        last_ms,
        digest: Some(content(said)),
        unkept: 0,
    }
}

#[test]
fn deliveries_add_up_and_the_last_time_never_goes_back() {
    let mut incident = raised();
    incident.count(&seen(3, 50, "second"));
    incident.count(&seen(1, 40, "second"));
    assert_eq!((incident.again, incident.last_ms), (4, 50));
    assert_eq!(incident.last_digest, None);
    incident.count(&seen(u32::MAX, 60, "third"));
    assert_eq!((incident.again, incident.last_ms), (u32::MAX, 60));
    assert_eq!(incident.last_digest, Some(content("third")));
}

#[test]
fn what_was_judged_stays_closed_and_a_new_content_opens_it() {
    let mut incident = raised();
    assert!(incident.is_open());
    close(&mut incident, "ann");
    close(&mut incident, "bob");
    assert_eq!(incident.closing.as_ref().unwrap().by.as_str(), "ann");
    incident.count(&seen(5, 40, "second"));
    assert!(!incident.is_open());
    incident.count(&seen(1, 41, "third"));
    assert!(incident.is_open());
    close(&mut incident, "bob");
    for known in ["third", "second"] {
        incident.count(&seen(1, 42, known));
        assert!(!incident.is_open(), "{known}");
    }
}

#[test]
fn evidence_that_nobody_had_seen_opens_it_wherever_it_is_kept() {
    let mut incident = raised();
    incident.evidence.push(ran("one", Some(1)));
    close(&mut incident, "ann");
    assert!(!incident.is_open());
    incident.more_evidence = 1;
    assert!(incident.is_open());
    close(&mut incident, "ann");
    assert_eq!(incident.closing.as_ref().unwrap().evidence, 2);
    assert!(!incident.is_open());
}

#[test]
fn each_result_of_each_round_is_a_part_of_its_own_and_no_incident_is_one() {
    let mut parts = std::collections::BTreeSet::new();
    for evidence in [
        ran("one", Some(1)),
        ran("two", Some(1)),
        ran("one", Some(2)),
        ran("one", None),
        ran("", None),
    ] {
        let mut incident = raised();
        assert_eq!(incident.part(), None);
        incident.evidence.push(evidence);
        let id = incident.part().unwrap();
        assert_eq!(incident.part(), Some(id.clone()));
        let bytes = format!("-{}", incident.evidence[0].result.size());
        assert!(id.0.ends_with(&bytes), "{id:?}");
        let part = Incident {
            id,
            ..incident.clone()
        };
        assert_eq!(part.part(), None, "a part has no parts");
        assert!(part.id.is_a_part() && part.id.is_part_of(&incident.id));
        assert!(!incident.id.is_a_part() && !incident.id.is_part_of(&part.id));
        parts.insert(part.id);
    }
    assert_eq!(parts.len(), 5);
}

#[test]
fn an_operation_has_one_incident_for_each_kind_of_finding() {
    let incident = raised();
    let id = |operation: &str, verdict, rule| {
        let operation = OperationId::parse(operation).unwrap();
        Incident::id_of(&incident.resource, Some(&operation), verdict, rule)
    };
    let same = id("pay", Verdict::Conflict, Rule::OtherContent);
    assert_eq!(same, incident.id);
    for other in [
        id("pay2", Verdict::Conflict, Rule::OtherContent),
        id("pay", Verdict::Fenced, Rule::OtherContent),
        id("pay", Verdict::Conflict, Rule::OtherResult),
    ] {
        assert_ne!(other, same);
    }
}

#[test]
fn a_filter_lets_through_what_it_names() {
    let mut incident = raised();
    let filter = |kind: Option<&str>, open| IncidentFilter {
        kind: kind.map(|kind| Kind::parse(kind).unwrap()),
        open,
    };
    assert!(filter(None, false).admits(&incident));
    assert!(filter(Some("order"), true).admits(&incident));
    assert!(!filter(Some("seat"), false).admits(&incident));
    close(&mut incident, "ann");
    assert!(!filter(None, true).admits(&incident));
    assert!(filter(None, false).admits(&incident));
}
