//! The same operation with other content is never applied and never replayed: it is a conflict, and a person learns of it.

use fencepost::domain::decision::{Advice, Layer, Rule, Verdict};
use fencepost::domain::digest::ContentDigest;
use futures_util::future::join_all;

use crate::support::ask::{Ask, ask, body, create, fresh_resource, resource};
use crate::support::backend::Backend;
use crate::support::claim::{applied, evidence, judged, lasting, replayed};
use crate::support::engines;
use crate::support::sidecar::Sidecar;

/// Each content goes to both sidecars under one operation: which ones are told to be the same as the first?
async fn same_as_the_first(sidecars: &[Sidecar; 2], contents: &[Ask]) -> Vec<bool> {
    let mut same = Vec::new();
    for (at, content) in contents.iter().enumerate() {
        let answer = sidecars[at % 2].transition(content).await;
        match (at, answer.verdict) {
            (0, Verdict::Applied) => {}
            (_, Verdict::Replayed) => same.push(true),
            (_, Verdict::Conflict) => same.push(false),
            _ => panic!("content {at}: {answer:?}"),
        }
    }
    same
}

/// Under a fresh resource, JSON texts as contents of one operation.
fn texts(texts: &[&str]) -> Vec<Ask> {
    let resource = fresh_resource();
    texts
        .iter()
        .map(|text| ask(&resource, "op").json(text))
        .collect()
}

// F11, and scene 7 of the field: a changed amount.
async fn a_changed_amount_is_a_conflict_and_changes_nothing(backend: Backend) {
    let sidecars = backend.sidecars().await;
    let resource = fresh_resource();
    let pay = create(&resource, "paid").result("receipt");
    let right = pay.clone().json(r#"{"amount":10.00}"#);
    let wrong = pay
        .clone()
        .json(r#"{"amount":100.00}"#)
        .result("receipt of the wrong one");
    applied(&sidecars[0].transition(&right).await);
    let mut conflicts = Vec::new();
    for sidecar in [&sidecars[0], &sidecars[1], &sidecars[0]] {
        let conflict = sidecar.transition(&wrong).await;
        judged(
            &conflict,
            Verdict::Conflict,
            Layer::Digest,
            Rule::OtherContent,
        );
        assert_eq!(conflict.advice(), Advice::Refuse);
        assert_eq!(conflict.result, None, "it never gets the first result");
        assert!(
            !conflict.explanation.contains("100"),
            "{}",
            conflict.explanation
        );
        conflicts.push(lasting(&conflict));
        replayed(&sidecar.transition(&right).await, &body("receipt"));
    }
    conflicts.dedup();
    assert_eq!(conflicts.len(), 1, "{conflicts:#?}");
    let incidents = sidecars[1].incidents(&resource).await;
    assert_eq!(incidents.len(), 1, "{incidents:?}");
    let incident = &incidents[0];
    assert_eq!(Some(&incident.id), conflicts[0].incident.as_ref());
    assert_eq!(
        (incident.verdict, incident.rule),
        (Verdict::Conflict, Rule::OtherContent)
    );
    let digest = |text: &str| ContentDigest::of_json(text.as_bytes()).unwrap();
    assert_eq!(incident.first_digest, Some(digest(r#"{"amount":10}"#)));
    assert_eq!(incident.digest, Some(digest(r#"{"amount":100}"#)));
    assert_eq!(evidence(incident), [body("receipt of the wrong one")]);
    assert_eq!(sidecars[0].state(&resource).await, "paid");
}

async fn of_many_contents_at_once_one_is_applied_and_the_others_conflict(backend: Backend) {
    let sidecars = backend.sidecars().await;
    let resource = fresh_resource();
    let rivals = (0..60).map(|rival| {
        // Three copies of each of twenty contents.
        let content = rival % 20;
        let run = create(&resource, "paid")
            .json(&format!("{content}"))
            .result(format!("{content}"));
        let sidecar = &sidecars[rival % 2];
        async move { (content, sidecar.transition(&run).await) }
    });
    let answers = join_all(rivals).await;
    let first = answers
        .iter()
        .find(|(_, answer)| answer.verdict == Verdict::Applied)
        .unwrap();
    for (content, answer) in &answers {
        if content == &first.0 {
            assert!(
                matches!(answer.verdict, Verdict::Applied | Verdict::Replayed),
                "{answer:?}"
            );
            assert_eq!(answer.result, Some(body(format!("{content}"))));
        } else {
            judged(answer, Verdict::Conflict, Layer::Digest, Rule::OtherContent);
        }
    }
    let done = answers
        .iter()
        .filter(|(_, answer)| answer.verdict == Verdict::Applied);
    assert_eq!(done.count(), 1);
}

async fn a_refused_operation_with_other_content_conflicts_too(backend: Backend) {
    let [one, two] = backend.sidecars().await;
    let resource = fresh_resource();
    applied(&one.transition(&create(&resource, "cancelled")).await);
    let pay = ask(&resource, "pay").from(&["new"]).to("paid");
    let refused = one.transition(&pay.clone().json("1")).await;
    judged(&refused, Verdict::Rejected, Layer::State, Rule::Passed);
    let conflict = two.transition(&pay.clone().json("2")).await;
    judged(
        &conflict,
        Verdict::Conflict,
        Layer::Digest,
        Rule::OtherContent,
    );
    let again = two.transition(&pay.json("1")).await;
    judged(&again, Verdict::Rejected, Layer::State, Rule::Passed);
}

// E1
async fn order_of_members_and_white_space_are_not_content_but_order_of_elements_is(
    backend: Backend,
) {
    let sidecars = backend.sidecars().await;
    let contents = texts(&[
        r#"{"a":1,"b":[1,2],"c":{"x":1,"y":2}}"#,
        r#"{ "c" : {"y":2, "x":1}, "b":[1,2], "a":1 }"#,
        "{\n\t\"a\": 1,\r\n\t\"b\": [ 1, 2 ],\n\t\"c\": { \"x\": 1, \"y\": 2 }\n}\n",
        r#"{"a":1,"b":[2,1],"c":{"x":1,"y":2}}"#,
    ]);
    assert_eq!(
        same_as_the_first(&sidecars, &contents).await,
        [true, true, false]
    );
}

// E2
async fn numbers_are_compared_by_value_and_never_by_their_spelling(backend: Backend) {
    let sidecars = backend.sidecars().await;
    let one = texts(&[
        "1",
        "1.0",
        "1e0",
        "10e-1",
        "0.1e1",
        "1.00000000000000000001",
    ]);
    assert_eq!(
        same_as_the_first(&sidecars, &one).await,
        [true, true, true, true, false]
    );
    let large = texts(&[
        "100000000000000000000",
        "1e20",
        "1E+20",
        "100000000000000000001",
    ]);
    assert_eq!(
        same_as_the_first(&sidecars, &large).await,
        [true, true, false]
    );
    let small = texts(&["0.0000001", "1e-7", "1e-07", "1e-8"]);
    assert_eq!(
        same_as_the_first(&sidecars, &small).await,
        [true, true, false]
    );
    let zero = texts(&["0", "-0", "0.0", "-0e9", "\"0\""]);
    assert_eq!(
        same_as_the_first(&sidecars, &zero).await,
        [true, true, true, false]
    );
}

// E3
async fn large_integers_are_never_rounded_together(backend: Backend) {
    let sidecars = backend.sidecars().await;
    let numbers = texts(&[
        "9007199254740992",
        "9007199254740993",
        "\"9007199254740992\"",
    ]);
    assert_eq!(same_as_the_first(&sidecars, &numbers).await, [false, false]);
    let huge = texts(&["1e400", "1e401", "10e399"]);
    assert_eq!(same_as_the_first(&sidecars, &huge).await, [false, true]);
    let sum = texts(&["0.3", "0.30000000000000004"]);
    assert_eq!(same_as_the_first(&sidecars, &sum).await, [false]);
}

// E5, what is not refused: nothing, null, "" and {} are four contents.
async fn nothing_null_the_empty_string_and_the_empty_object_are_four_contents(backend: Backend) {
    let sidecars = backend.sidecars().await;
    for first in 0..4 {
        let resource = fresh_resource();
        let run = ask(&resource, "op");
        let mut contents = [
            run.clone().raw(b""),
            run.clone().json("null"),
            run.clone().json(r#""""#),
            run.json("{}"),
        ];
        contents.rotate_left(first);
        assert_eq!(same_as_the_first(&sidecars, &contents).await, [false; 3]);
    }
}

// E10
async fn an_operation_id_means_nothing_outside_its_resource(backend: Backend) {
    let [one, two] = backend.sidecars().await;
    let (seven, eight) = (resource("7"), resource("8"));
    let pay_seven = create(&seven, "paid").json(r#"{"pay":1}"#).result("of 7");
    let pay_eight = create(&eight, "paid").json(r#"{"pay":1}"#).result("of 8");
    applied(&one.transition(&pay_seven).await);
    applied(&one.transition(&pay_eight).await);
    replayed(&two.transition(&pay_eight).await, &body("of 8"));
    replayed(&two.transition(&pay_seven).await, &body("of 7"));
}

engines! {
    a_changed_amount_is_a_conflict_and_changes_nothing,
    of_many_contents_at_once_one_is_applied_and_the_others_conflict,
    a_refused_operation_with_other_content_conflicts_too,
    order_of_members_and_white_space_are_not_content_but_order_of_elements_is,
    numbers_are_compared_by_value_and_never_by_their_spelling,
    large_integers_are_never_rounded_together,
    nothing_null_the_empty_string_and_the_empty_object_are_four_contents,
    an_operation_id_means_nothing_outside_its_resource,
}

#[test]
fn contents_that_could_be_read_in_two_ways_are_refused_before_they_get_here() {
    let bad: [&[u8]; 5] = [
        br#""\ud800""#,
        b"\"\xed\xa0\x80\"",
        b"\xef\xbb\xbf{}",
        br#"{"a":1,"a":2}"#,
        b"",
    ];
    for text in bad {
        let refused = ContentDigest::of_json(text);
        assert!(refused.is_err(), "{:?}", String::from_utf8_lossy(text));
    }
    let nested = "[".repeat(10_000) + &"]".repeat(10_000);
    assert!(ContentDigest::of_json(nested.as_bytes()).is_err());
}
