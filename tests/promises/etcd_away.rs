//! Whoever asks while etcd does not take or answer anything is told so, with when to ask again, and that nothing was done is true.

use std::time::Duration;

use fencepost::engine::Fault;
use serde_json::{Value, json};
use tonic::Code;

use super::fence::OVER_WITHIN;
use crate::support::ask::{ask, create, fresh_resource, reserve};
use crate::support::backend::Backend;
use crate::support::claim::applied;
use crate::support::door::{Door, Refusal, order};
use crate::support::fault::{Action, Rpc};
use crate::support::process::Process;
use crate::support::proxy::Proxy;
use crate::support::{engines, until};

/// What a member says for as long as it knows of no leader.
const NO_LEADER: (Code, &str) = (Code::Unavailable, "etcdserver: no leader");
/// Less than etcd has for an answer here, and more than a sidecar needs to begin.
const SHORT: Duration = Duration::from_millis(500);

fn run_once(id: &str, operation: &str) -> Value {
    json!({"resource": order(id), "intent": {"operationId": operation, "json": "e30="}})
}

fn inspect(id: &str) -> Value {
    json!({"resource": order(id)})
}

fn to_be_asked_again(refusal: &Refusal) {
    let found = (&*refusal.code, &*refusal.reason, refusal.retry);
    let expected = ("unavailable", "STORE_UNAVAILABLE", true);
    assert_eq!(found, expected, "{refusal:?}");
    let truth = "nothing was done, ask again with the same ids";
    assert!(refusal.message.contains(truth), "{refusal:?}");
}

async fn while_etcd_has_no_leader_calls_are_told_when_to_ask_again_and_change_nothing(
    backend: Backend,
) {
    let (one, plan) = backend.faulty().await;
    let two = backend.sidecar().await;
    let (resource, held) = (fresh_resource(), fresh_resource());
    applied(&one.transition(&create(&resource, "pending")).await);
    let grant = one.hold(&reserve(&held)).await;
    let election = Rpc::ALL.map(|rpc| {
        let refused = plan.when(rpc).always();
        refused.then(Action::Refuse(NO_LEADER.0, NO_LEADER.1))
    });
    let pay = ask(&resource, "pay").from(&["pending"]).to("paid");
    let told = [
        one.try_transition(&pay).await.err(),
        one.try_reserve(&reserve(&fresh_resource())).await.err(),
        one.try_release(&grant.id).await.err(),
    ];
    for told in told {
        let Some(Fault::StoreUnavailable { retry_after }) = told else {
            panic!("{told:?}");
        };
        assert!(retry_after > Duration::ZERO);
    }
    assert_eq!(two.state(&resource).await, "pending");
    assert_eq!(two.live(&held).await, Some(grant.token));
    for refused in election {
        refused.lift();
    }
    applied(&one.transition(&pay).await);
}

async fn what_was_not_sent_to_etcd_is_told_with_when_to_ask_again_at_both_doors(backend: Backend) {
    let line = Proxy::to_url(&backend.url().await);
    let process = Process::serve(&line.url(), backend.prefix(), &[]).await;
    let doors = [Door::json(&process), Door::grpc(&process)];
    doors[0].ask("Inspect", &inspect("order")).await;
    line.cut();
    // What is under way when a line breaks may have arrived; what comes after it finds nobody.
    let found_out = until("it is found out", OVER_WITHIN, || async {
        let refusal = doors[0].refused("Inspect", &inspect("order")).await;
        (refusal.reason == "STORE_UNAVAILABLE").then_some(())
    });
    found_out.await;
    for (door, operation) in doors.iter().zip(["by JSON", "by gRPC"]) {
        to_be_asked_again(
            &door
                .refused("Transition", &run_once("order", operation))
                .await,
        );
        to_be_asked_again(&door.refused("Inspect", &inspect("order")).await);
    }
    line.heal();
    for (door, operation) in doors.iter().zip(["by JSON", "by gRPC"]) {
        let again = until("etcd is found again", OVER_WITHIN, || async {
            let ask = run_once("order", operation);
            door.try_ask("Transition", &ask).await.ok()
        });
        let verdict = again.await["decision"]["verdict"].clone();
        assert_eq!(verdict, json!("VERDICT_APPLIED"), "nothing was done before");
    }
}

async fn a_question_to_an_etcd_that_hangs_ends_at_its_timeout_or_the_callers_and_says_which(
    backend: Backend,
) {
    let line = Proxy::to_url(&backend.url().await);
    let settings = ["--etcd-timeout", "1s"];
    let process = Process::serve(&line.url(), backend.prefix(), &settings).await;
    let doors = [Door::json(&process), Door::grpc(&process)];
    doors[0].ask("Inspect", &inspect("order")).await;
    line.freeze();
    for door in &doors {
        // Sooner than the deadline that a call has if it names none.
        to_be_asked_again(&door.refused("Inspect", &inspect("order")).await);
    }
    let hasty = doors[0].within(SHORT);
    let refusal = hasty.refused("Inspect", &inspect("order")).await;
    let found = (&*refusal.code, &*refusal.reason);
    let expected = ("deadline_exceeded", "DEADLINE_PASSED");
    assert_eq!(found, expected, "{refusal:?}");
    let truth = "nothing was done, ask again with the same ids";
    assert!(refusal.message.contains(truth), "{refusal:?}");
    line.heal();
    let again = until("etcd is found again", OVER_WITHIN, || async {
        doors[1].try_ask("Inspect", &inspect("order")).await.ok()
    });
    again.await;
}

engines! {
    while_etcd_has_no_leader_calls_are_told_when_to_ask_again_and_change_nothing,
    what_was_not_sent_to_etcd_is_told_with_when_to_ask_again_at_both_doors,
    a_question_to_an_etcd_that_hangs_ends_at_its_timeout_or_the_callers_and_says_which,
}
