//! An operation is applied at most once, and every answer to it carries the first result, byte for byte.

use bytes::Bytes;
use fencepost::domain::decision::{Advice, Layer, Rule, Verdict};
use fencepost::domain::outcome::StoredResult;
use fencepost::engine::OperationState;
use futures_util::future::join_all;

use crate::support::ask::{ask, body, create, fresh_resource};
use crate::support::backend::Backend;
use crate::support::claim::{applied, evidence, judged, lasting, replayed};
use crate::support::engines;

/// Copies of one message, or different messages, at once.
const COPIES: usize = 100;

// D4, the same key.
async fn of_a_hundred_copies_at_once_one_is_applied_and_all_get_its_result(backend: Backend) {
    let sidecars = backend.sidecars().await;
    let resource = fresh_resource();
    applied(&sidecars[0].transition(&create(&resource, "pending")).await);
    // Each copy brings another result: whichever is first, all must get that one.
    let copies = (0..COPIES).map(|copy| {
        let pay = ask(&resource, "pay").from(&["pending"]).to("paid");
        let pay = pay.result(format!("receipt {copy}"));
        let sidecar = &sidecars[copy % 2];
        async move { sidecar.transition(&pay).await }
    });
    let answers = join_all(copies).await;
    let first: Vec<_> = answers
        .iter()
        .enumerate()
        .filter(|(_, answer)| answer.verdict == Verdict::Applied)
        .collect();
    assert_eq!(first.len(), 1, "{first:?}");
    let (winner, first) = first[0];
    applied(first);
    let result = body(format!("receipt {winner}"));
    assert_eq!(first.result.as_ref(), Some(&result));
    for (copy, answer) in answers
        .iter()
        .enumerate()
        .filter(|(copy, _)| *copy != winner)
    {
        replayed(answer, &result);
        assert_eq!(answer.advice(), Advice::Acknowledge, "copy {copy}");
    }
    assert_eq!(sidecars[0].state(&resource).await, "paid");
}

// D4, different keys. The case has the losers refused by state; the design, which wins, acknowledges a move that was made
// already, and reports it.
async fn of_a_hundred_rivals_at_once_one_moves_the_state(backend: Backend) {
    let sidecars = backend.sidecars().await;
    let resource = fresh_resource();
    applied(&sidecars[0].transition(&create(&resource, "pending")).await);
    let rivals = (0..COPIES).map(|rival| {
        let pay = ask(&resource, &format!("pay {rival}"))
            .from(&["pending"])
            .to("paid");
        let sidecar = &sidecars[rival % 2];
        async move { sidecar.transition(&pay).await }
    });
    let answers = join_all(rivals).await;
    let moved = answers
        .iter()
        .filter(|answer| answer.verdict == Verdict::Applied);
    assert_eq!(moved.count(), 1);
    for answer in answers
        .iter()
        .filter(|answer| answer.verdict != Verdict::Applied)
    {
        judged(
            answer,
            Verdict::Superseded,
            Layer::State,
            Rule::AlreadyMoved,
        );
        assert!(
            answer.incident.is_some(),
            "a second real payment: {answer:?}"
        );
    }
    assert_eq!(sidecars[1].incidents(&resource).await.len(), COPIES - 1);
}

async fn a_replay_is_byte_for_byte_the_first_result_from_every_sidecar_and_after_a_restart(
    backend: Backend,
) {
    let sidecars = backend.sidecars().await;
    let resource = fresh_resource();
    let every_byte: Vec<u8> = (0..=255).collect();
    let result = StoredResult {
        body: Bytes::from(every_byte),
        code: 201,
        content_type: "application/json; charset=utf-8".to_owned(),
        headers: vec![
            ("x-b".to_owned(), "2".to_owned()),
            ("x-a".to_owned(), " 1 ".to_owned()),
            ("x-b".to_owned(), String::new()),
        ],
    };
    let pay = create(&resource, "paid").full_result(result.clone());
    let first = sidecars[0].transition(&pay).await;
    applied(&first);
    assert_eq!(first.result.as_ref(), Some(&result));
    let restarted = backend.sidecar().await;
    let mut answers = Vec::new();
    for sidecar in [&sidecars[0], &sidecars[1], &restarted, &sidecars[1]] {
        let answer = sidecar.transition(&pay).await;
        replayed(&answer, &result);
        answers.push(lasting(&answer));
        let known = sidecar.lookup(&resource, "create").await;
        assert_eq!(known.state, OperationState::Done);
        answers.push(lasting(&known.decision.unwrap()));
    }
    answers.dedup();
    assert_eq!(answers.len(), 1, "{answers:#?}");
}

// F5: an empty result is a result.
async fn empty_results_are_kept_as_they_are_and_never_run_again(backend: Backend) {
    let sidecars = backend.sidecars().await;
    let results: [&[u8]; 5] = [b"", b"\0", b"null", b"false", b"[]"];
    for result in results {
        let resource = fresh_resource();
        let never = sidecars[1].lookup(&resource, "create").await;
        assert_eq!(
            (never.state, never.decision),
            (OperationState::NeverSeen, None)
        );
        let run = create(&resource, "done").result(result);
        let first = sidecars[0].transition(&run).await;
        applied(&first);
        assert_eq!(first.result, Some(body(result)));
        for sidecar in &sidecars {
            replayed(&sidecar.transition(&run).await, &body(result));
            let known = sidecar.lookup(&resource, "create").await.state;
            let expected = if result.is_empty() {
                OperationState::DoneEmpty
            } else {
                OperationState::Done
            };
            assert_eq!(known, expected, "{result:?}");
        }
    }
}

async fn an_absent_result_is_done_and_empty(backend: Backend) {
    let [one, two] = backend.sidecars().await;
    let resource = fresh_resource();
    let run = create(&resource, "done");
    applied(&one.transition(&run).await);
    replayed(&two.transition(&run).await, &StoredResult::default());
    assert_eq!(
        two.lookup(&resource, "create").await.state,
        OperationState::DoneEmpty
    );
}

async fn a_run_once_operation_needs_no_state_and_changes_none(backend: Backend) {
    let [one, two] = backend.sidecars().await;
    let resource = fresh_resource();
    let run = ask(&resource, "mail 7").result("sent");
    judged(
        &one.transition(&run).await,
        Verdict::Applied,
        Layer::Result,
        Rule::RanOnce,
    );
    replayed(&two.transition(&run).await, &body("sent"));
    assert_eq!(two.inspect(&resource).await.state, None);
    let other = ask(&resource, "mail 8").result("sent too");
    judged(
        &two.transition(&other).await,
        Verdict::Applied,
        Layer::Result,
        Rule::RanOnce,
    );
}

async fn a_finished_operation_is_replayed_whoever_holds_the_resource_since(backend: Backend) {
    let [one, two] = backend.sidecars().await;
    let resource = fresh_resource();
    let grant = one.hold(&crate::support::ask::reserve(&resource)).await;
    let pay = create(&resource, "paid").result("receipt");
    applied(&one.transition(&pay.clone().under(&grant.id)).await);
    replayed(
        &two.transition(&pay.clone().under(&grant.id)).await,
        &body("receipt"),
    );
    one.release(&grant.id).await;
    let next = two.hold(&crate::support::ask::reserve(&resource)).await;
    replayed(&two.transition(&pay).await, &body("receipt"));
    replayed(
        &one.transition(&pay.clone().under(&grant.id)).await,
        &body("receipt"),
    );
    assert_eq!(one.live(&resource).await, Some(next.token));
}

async fn another_result_from_the_same_round_is_reported_and_the_first_one_stands(backend: Backend) {
    let [one, two] = backend.sidecars().await;
    let resource = fresh_resource();
    let grant = one.hold(&crate::support::ask::reserve(&resource)).await;
    let pay = create(&resource, "paid").under(&grant.id);
    applied(&one.transition(&pay.clone().result("first")).await);
    let mut found = Vec::new();
    for sidecar in [&two, &one] {
        let other = sidecar.transition(&pay.clone().result("second")).await;
        judged(&other, Verdict::Replayed, Layer::Replay, Rule::OtherResult);
        assert_eq!(other.result, Some(body("first")));
        found.push(other.incident.unwrap());
    }
    let incidents = one.incidents(&resource).await;
    assert_eq!(incidents.len(), 1, "{incidents:?}");
    assert!(found.iter().all(|id| *id == incidents[0].id));
    assert_eq!(evidence(&incidents[0]), [body("second")]);
}

engines! {
    of_a_hundred_copies_at_once_one_is_applied_and_all_get_its_result,
    of_a_hundred_rivals_at_once_one_moves_the_state,
    a_replay_is_byte_for_byte_the_first_result_from_every_sidecar_and_after_a_restart,
    empty_results_are_kept_as_they_are_and_never_run_again,
    an_absent_result_is_done_and_empty,
    a_run_once_operation_needs_no_state_and_changes_none,
    a_finished_operation_is_replayed_whoever_holds_the_resource_since,
    another_result_from_the_same_round_is_reported_and_the_first_one_stands,
}
