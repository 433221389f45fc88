//! A sidecar that is killed, a caller that hangs up, a deadline that passes: no half-done work, and asking again with the
//! same ids gives the truth.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use fencepost::domain::decision::Verdict;
use fencepost::domain::ids::Nonce;
use fencepost::domain::token::{TOKEN_MAX, Timeline};
use fencepost::engine::{Fault, OperationState};
use fencepost::proto::v1;
use futures_util::future::join_all;
use rustix::process::Signal;
use uuid::Uuid;

use crate::support::ask::{ask, body, create, fresh_resource, reserve};
use crate::support::backend::Backend;
use crate::support::claim::{applied, replayed};
use crate::support::etcd::Etcd;
use crate::support::fault::{Action, Rpc};
use crate::support::process::Process;
use crate::support::proxy::Proxy;
use crate::support::sidecar::{Sidecar, caller_for};
use crate::support::{bounded, engines, until};

/// Callers under whose load the sidecar is killed.
const CALLERS: usize = 16;
/// So many answers have come before it is killed, each time.
const ANSWERS_BEFORE: usize = 100;
/// It is killed so often.
const KILLS: usize = 3;
/// A sidecar that waits for a held request must not give up meanwhile.
const PATIENT_CALL: Duration = Duration::from_secs(15);

fn resource(id: &str) -> Option<v1::Resource> {
    Some(v1::Resource {
        kind: "order".to_owned(),
        id: id.to_owned(),
    })
}

fn run_once(resource_id: &str, operation: &str, result: String) -> v1::TransitionRequest {
    v1::TransitionRequest {
        resource: resource(resource_id),
        intent: Some(v1::Intent {
            operation_id: operation.to_owned(),
            content: Some(v1::intent::Content::Json("{}".into())),
            ..v1::Intent::default()
        }),
        result: Some(v1::Result {
            body: result.into(),
            ..v1::Result::default()
        }),
        ..v1::TransitionRequest::default()
    }
}

/// One caller: it sends one operation after another until the sidecar is gone. What was answered goes to the ledger; the
/// one that got no answer goes there without.
async fn call_until_it_dies(
    process: &Process,
    caller: usize,
    ledger: &Mutex<BTreeMap<String, Option<Vec<u8>>>>,
) {
    let mut client = process.client();
    for step in 0.. {
        let operation = format!("{}-{caller}-{step}", process.address());
        let request = run_once(
            &format!("r{}", caller % 4),
            &operation,
            format!("first {operation}"),
        );
        let answer = client.transition(request).await;
        let answered = answer.ok().map(|answer| {
            let decision = answer.into_inner().decision.expect("a decision");
            assert_eq!(decision.verdict(), v1::Verdict::Applied, "{decision:?}");
            decision.result.expect("a result").body.to_vec()
        });
        let gone = answered.is_none();
        ledger.lock().unwrap().insert(operation, answered);
        if gone {
            return;
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_sidecar_killed_under_load_forgets_nothing_it_answered_and_does_nothing_twice() {
    bounded(Box::pin(async {
        let etcd = Etcd::shared().await;
        let prefix = format!("/crash-{}/", Uuid::new_v4().simple());
        let ledger = Arc::new(Mutex::new(BTreeMap::new()));
        for kill in 1..=KILLS {
            // Both serve the same resources under load; one is killed, and the other goes on until it is.
            let process = Process::serve(etcd.url(), &prefix, &[]).await;
            let survivor = Process::serve(etcd.url(), &prefix, &[]).await;
            let callers = join_all((0..CALLERS).map(|caller| {
                let served_by = [&process, &survivor][caller / 4 % 2];
                call_until_it_dies(served_by, caller, &ledger)
            }));
            let killer = async {
                until("answers come", Duration::from_secs(30), || async {
                    let answered = ledger.lock().unwrap().values().flatten().count();
                    (answered >= kill * ANSWERS_BEFORE).then_some(())
                })
                .await;
                process.kill().await;
                let answered = ledger.lock().unwrap().values().flatten().count();
                until("the other goes on", Duration::from_secs(30), || async {
                    let now = ledger.lock().unwrap().values().flatten().count();
                    (now >= answered + ANSWERS_BEFORE / 4).then_some(())
                })
                .await;
                survivor.kill().await;
            };
            tokio::join!(callers, killer);
        }
        let process = Process::serve(etcd.url(), &prefix, &[]).await;
        let other = Process::serve(etcd.url(), &prefix, &[]).await;
        let (mut client, mut other) = (process.client(), other.client());
        let ledger = ledger.lock().unwrap().clone();
        assert!(
            ledger.values().any(Option::is_none),
            "nothing was under way when it was killed"
        );
        for (operation, answered) in ledger {
            let caller: usize = operation.rsplit('-').nth(1).unwrap().parse().unwrap();
            let again = |result: String| run_once(&format!("r{}", caller % 4), &operation, result);
            let second = client
                .transition(again(format!("second {operation}")))
                .await;
            let second = second.unwrap().into_inner().decision.unwrap();
            let result = second.result.clone().unwrap().body.to_vec();
            match (answered, second.verdict()) {
                (Some(first), v1::Verdict::Replayed) => assert_eq!(result, first, "{operation}"),
                (None, v1::Verdict::Replayed) => {
                    assert_eq!(result, format!("first {operation}").into_bytes())
                }
                (None, v1::Verdict::Applied) => {
                    assert_eq!(result, format!("second {operation}").into_bytes())
                }
                (answered, _) => panic!("{operation}: {answered:?}, and then {second:?}"),
            }
            let third = other.transition(again("third".to_owned())).await;
            let third = third.unwrap().into_inner().decision.unwrap();
            assert_eq!(third.verdict(), v1::Verdict::Replayed, "{operation}");
            assert_eq!(third.result.unwrap().body.to_vec(), result, "{operation}");
        }
    }))
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_reservation_outlives_the_sidecar_that_granted_it() {
    bounded(Box::pin(async {
        let etcd = Etcd::shared().await;
        let prefix = format!("/crash-{}/", Uuid::new_v4().simple());
        let process = Process::serve(etcd.url(), &prefix, &[]).await;
        let mine = v1::ReserveRequest {
            resource: resource("seat"),
            request_id: Uuid::new_v4().to_string(),
            ..v1::ReserveRequest::default()
        };
        let first = process
            .client()
            .reserve(mine.clone())
            .await
            .unwrap()
            .into_inner();
        let first = first.reservation.unwrap();
        process.kill().await;
        let process = Process::serve(etcd.url(), &prefix, &[]).await;
        let mut client = process.client();
        let stranger = v1::ReserveRequest {
            request_id: Uuid::new_v4().to_string(),
            ..mine.clone()
        };
        let busy = client.reserve(stranger.clone()).await.unwrap().into_inner();
        assert_eq!(busy.decision.unwrap().verdict(), v1::Verdict::Busy);
        let again = client
            .reserve(mine)
            .await
            .unwrap()
            .into_inner()
            .reservation
            .unwrap();
        assert_eq!(
            (again.token, &again.reservation_id),
            (first.token, &first.reservation_id)
        );
        let release = v1::ReleaseRequest {
            nothing_done: false,
            result: None,
            reservation_id: first.reservation_id,
        };
        let ended = client
            .release(release)
            .await
            .unwrap()
            .into_inner()
            .decision
            .unwrap();
        assert_eq!(ended.verdict(), v1::Verdict::Applied);
        let next = client
            .reserve(stranger)
            .await
            .unwrap()
            .into_inner()
            .reservation
            .unwrap();
        assert!(next.token > first.token);
    }))
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_line_to_etcd_that_goes_deaf_costs_no_truth() {
    bounded(Box::pin(async {
        let etcd = Etcd::shared().await;
        let prefix = format!("/crash-{}/", Uuid::new_v4().simple());
        let line = Proxy::to_url(etcd.url());
        let process = Process::serve(&line.url(), &prefix, &[]).await;
        let other = Process::serve(etcd.url(), &prefix, &[]).await;
        let (mut client, mut other) = (process.client(), other.client());
        let run = |operation: &str, result: &str| run_once("r", operation, result.to_owned());
        client.transition(run("before", "first")).await.unwrap();
        line.drop_replies();
        let lost = client.transition(run("lost", "first")).await;
        if let Err(status) = &lost {
            assert_eq!(
                status.code(),
                tonic::Code::Aborted,
                "it was sent: {status:?}"
            );
        }
        assert!(line.dropped_bytes() > 0, "no reply was lost");
        let truth = other
            .transition(run("lost", "second"))
            .await
            .unwrap()
            .into_inner();
        let truth = truth.decision.unwrap().result.unwrap().body;
        line.heal();
        let again = until("it finds etcd again", Duration::from_secs(20), || {
            let mut client = client.clone();
            let ask = run("lost", "third");
            async move { client.transition(ask).await.ok() }
        })
        .await;
        assert_eq!(
            again.into_inner().decision.unwrap().result.unwrap().body,
            truth
        );
    }))
    .await;
}

async fn a_caller_that_hangs_up_leaves_no_half_done_work(backend: Backend) {
    let (one, plan) = backend.faulty_within(PATIENT_CALL).await;
    let two = backend.sidecar().await;
    let resource = fresh_resource();
    applied(&one.transition(&create(&resource, "pending")).await);
    let pay = ask(&resource, "pay").from(&["pending"]).to("paid");
    let held = plan
        .when(Rpc::Txn)
        .containing(resource.id())
        .then(Action::Hold);
    let (sidecar, first) = (one.clone(), pay.clone().result("first"));
    let call = tokio::spawn(async move { sidecar.transition(&first).await });
    held.met().await;
    call.abort();
    assert!(call.await.unwrap_err().is_cancelled());
    held.deliver().await;
    for sidecar in [&two, &one] {
        replayed(
            &sidecar.transition(&pay.clone().result("second")).await,
            &body("first"),
        );
        assert_eq!(sidecar.state(&resource).await, "paid");
    }
}

async fn a_caller_that_hangs_up_while_it_reserves_can_ask_again(backend: Backend) {
    let (one, plan) = backend.faulty_within(PATIENT_CALL).await;
    let two = backend.sidecar().await;
    let resource = fresh_resource();
    let mine = reserve(&resource);
    let held = plan
        .when(Rpc::Txn)
        .containing(resource.id())
        .then(Action::Hold);
    let (sidecar, ask) = (one.clone(), mine.clone());
    let call = tokio::spawn(async move { sidecar.reserve(&ask).await });
    held.met().await;
    call.abort();
    held.deliver().await;
    let tokens = [two.hold(&mine).await.token, one.hold(&mine).await.token];
    assert_eq!(tokens[0], tokens[1]);
}

async fn a_deadline_that_passes_on_the_way_leaves_no_half_done_work(backend: Backend) {
    let (one, plan) = backend.faulty_within(PATIENT_CALL).await;
    let two = backend.sidecar().await;
    let resource = fresh_resource();
    applied(&one.transition(&create(&resource, "pending")).await);
    let pay = ask(&resource, "pay").from(&["pending"]).to("paid");
    let held = plan
        .when(Rpc::Txn)
        .containing(resource.id())
        .then(Action::Hold);
    let first = pay.clone().result("first").build();
    let answer = one
        .engine
        .transition(first, caller_for(Duration::from_millis(300)));
    let answer = tokio::time::timeout(Duration::from_secs(5), answer).await;
    let answer = answer.expect("a deadline is kept");
    assert!(
        matches!(answer, Err(Fault::UnknownOutcome { .. })),
        "it was sent: {answer:?}"
    );
    held.deliver().await;
    for sidecar in [&two, &one] {
        replayed(
            &sidecar.transition(&pay.clone().result("second")).await,
            &body("first"),
        );
    }
}

async fn a_deadline_that_has_passed_on_arrival_does_nothing(backend: Backend) {
    let (one, plan) = backend.faulty_within(PATIENT_CALL).await;
    let resource = fresh_resource();
    let before = plan.counts();
    let run = create(&resource, "open").build();
    let answer = one.engine.transition(run, caller_for(Duration::ZERO)).await;
    assert_eq!(answer, Err(Fault::DeadlinePassed));
    assert_eq!(plan.counts().since(&before).keys(), 0);
    let known = backend
        .sidecar()
        .await
        .lookup(&resource, "create")
        .await
        .state;
    assert_eq!(known, OperationState::NeverSeen);
}

// A token that no etcd reaches: the one way to break an invariant of ours from outside.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_broken_invariant_stops_the_process_with_its_reason() {
    let etcd = Etcd::shared().await;
    let backend = Backend::real().await;
    let timeline = Timeline {
        id: Nonce::from_bytes([7; 16]),
        base: TOKEN_MAX,
        min_token: 0,
    };
    Sidecar::open_with(backend.channel(), backend.prefix(), PATIENT_CALL, timeline).await;
    for quiet in [&[][..], &["--log-level", "off"]] {
        let process = Process::serve(etcd.url(), backend.prefix(), quiet).await;
        let ask = v1::ReserveRequest {
            resource: resource(fresh_resource().id()),
            request_id: Uuid::new_v4().to_string(),
            ..v1::ReserveRequest::default()
        };
        process.client().reserve(ask).await.unwrap_err();
        let aborted = 128 + i32::from(Signal::ABORT.as_raw() as u8);
        assert_eq!(process.ended().await, aborted, "{}", process.logs());
        let logs = process.logs();
        assert!(
            logs.contains("fault in fencepost itself") && logs.contains("src/engine/outcome.rs"),
            "{logs}"
        );
    }
}

async fn an_engine_that_stops_finishes_what_is_under_way_and_takes_nothing_new(backend: Backend) {
    let (one, plan) = backend.faulty_within(PATIENT_CALL).await;
    let two = backend.sidecar().await;
    let resource = fresh_resource();
    let mine = two.hold(&reserve(&fresh_resource())).await;
    let pay = create(&resource, "paid").result("receipt");
    let held = plan
        .when(Rpc::Txn)
        .containing(resource.id())
        .then(Action::Hold);
    let (sidecar, ask) = (one.clone(), pay.clone());
    let call = tokio::spawn(async move { sidecar.transition(&ask).await });
    held.met().await;
    let stopping = one.engine.clone();
    let stop = tokio::spawn(async move { stopping.stop(PATIENT_CALL).await });
    until("it refuses new work", Duration::from_secs(10), || async {
        let answer = one.try_reserve(&reserve(&fresh_resource())).await;
        matches!(answer, Err(Fault::Stopping { .. })).then_some(())
    })
    .await;
    held.deliver().await;
    assert!(stop.await.unwrap(), "it had time enough");
    assert_eq!(call.await.unwrap().verdict, Verdict::Applied);
    replayed(&two.transition(&pay).await, &body("receipt"));
    assert_eq!(two.renew(&mine.id).await.decision.verdict, Verdict::Granted);
}

async fn an_engine_that_must_stop_leaves_what_it_cannot_settle_unknown(backend: Backend) {
    let (one, plan) = backend.faulty().await;
    let resource = fresh_resource();
    let lost = plan
        .when(Rpc::Txn)
        .containing(resource.id())
        .always()
        .then(Action::Lose);
    let (sidecar, asked) = (one.clone(), create(&resource, "paid"));
    let call = tokio::spawn(async move { sidecar.try_transition(&asked).await });
    lost.met().await;
    assert!(!one.engine.stop(Duration::from_millis(200)).await);
    // It gives up at the limit, and long before its caller does.
    let answer = tokio::time::timeout(PATIENT_CALL, call).await;
    let answer = answer.expect("the lane has ended").unwrap();
    assert!(
        matches!(answer, Err(Fault::UnknownOutcome { .. })),
        "{answer:?}"
    );
}

async fn an_engine_that_nobody_holds_any_more_sends_nothing(backend: Backend) {
    let (one, plan) = backend.faulty().await;
    let resource = fresh_resource();
    let lost = plan
        .when(Rpc::Txn)
        .containing(resource.id())
        .always()
        .then(Action::Lose);
    let call = tokio::spawn(async move { one.try_transition(&create(&resource, "paid")).await });
    lost.met().await;
    call.abort();
    until("it is quiet", PATIENT_CALL, || async {
        let before = plan.counts();
        // Longer than a lane waits between two tries.
        tokio::time::sleep(Duration::from_secs(3)).await;
        (plan.counts() == before).then_some(())
    })
    .await;
}

engines! {
    an_engine_that_nobody_holds_any_more_sends_nothing,
    an_engine_that_must_stop_leaves_what_it_cannot_settle_unknown,
    a_caller_that_hangs_up_leaves_no_half_done_work,
    a_caller_that_hangs_up_while_it_reserves_can_ask_again,
    a_deadline_that_passes_on_the_way_leaves_no_half_done_work,
    a_deadline_that_has_passed_on_arrival_does_nothing,
    an_engine_that_stops_finishes_what_is_under_way_and_takes_nothing_new,
}
