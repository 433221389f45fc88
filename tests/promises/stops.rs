//! A sidecar that is told to stop: what is under way is finished, who waits or holds is told, nothing of its own stays in etcd,
//! and what belongs to callers goes on at the next.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use fencepost::engine::Boottime;
use fencepost::proto::v1;
use fencepost::proto::v1::coordination_service_client::CoordinationServiceClient;
use futures_util::future::join_all;
use futures_util::poll;
use rustix::process::Signal;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tonic::transport::Channel;
use tonic::{Code, Status};
use tonic_health::pb::health_check_response::ServingStatus;
use tonic_health::pb::health_client::HealthClient;
use tonic_health::pb::{HealthCheckRequest, HealthCheckResponse};
use tonic_types::StatusExt as _;
use uuid::Uuid;

use crate::support::backend::Backend;
use crate::support::etcd::Etcd;
use crate::support::process::Process;
use crate::support::proxy::Proxy;
use crate::support::{bounded, until};

type Client = CoordinationServiceClient<Channel>;

/// Transitions under way when the signal comes.
const UNDER_WAY: usize = 20;
/// A part of the keys of all of them.
const KEYS: &[u8] = b"/order/u";
/// Callers that wait for one busy resource.
const WAITING: usize = 3;
const SOON: Duration = Duration::from_secs(10);

fn resource(id: &str) -> Option<v1::Resource> {
    Some(v1::Resource {
        kind: "order".to_owned(),
        id: id.to_owned(),
    })
}

fn seconds(seconds: i64) -> Option<prost_types::Duration> {
    Some(prost_types::Duration { seconds, nanos: 0 })
}

fn reserve(id: &str, ttl: i64, wait: i64) -> v1::ReserveRequest {
    v1::ReserveRequest {
        resource: resource(id),
        request_id: Uuid::new_v4().to_string(),
        ttl: seconds(ttl),
        wait: seconds(wait),
        ..Default::default()
    }
}

fn intent(operation: &str) -> v1::Intent {
    v1::Intent {
        operation_id: operation.to_owned(),
        content: Some(v1::intent::Content::Json("{}".into())),
        ..Default::default()
    }
}

fn run_once(id: &str, result: &str) -> v1::TransitionRequest {
    v1::TransitionRequest {
        resource: resource(id),
        intent: Some(intent("pay")),
        result: Some(v1::Result {
            body: result.to_owned().into(),
            ..Default::default()
        }),
        ..Default::default()
    }
}

async fn held(client: &mut Client, request: v1::ReserveRequest) -> v1::Reservation {
    let answer = client.reserve(request).await.unwrap().into_inner();
    let decision = answer.decision;
    let held = answer.reservation;
    held.unwrap_or_else(|| panic!("{decision:?} instead of a reservation"))
}

async fn hold(
    client: &mut Client,
    of: &v1::Reservation,
    release_on_close: bool,
) -> tonic::Streaming<v1::HoldResponse> {
    let request = v1::HoldRequest {
        reservation_ids: vec![of.reservation_id.clone()],
        release_on_close,
    };
    client.hold(request).await.unwrap().into_inner()
}

/// How a stream ended.
async fn end_of<T>(mut stream: tonic::Streaming<T>) -> Status {
    let end = async {
        loop {
            match stream.message().await {
                Ok(Some(_)) => {}
                Ok(None) => panic!("it ended well"),
                Err(status) => return status,
            }
        }
    };
    let ended = tokio::time::timeout(SOON, end).await;
    ended.expect("the stream is ended at once")
}

/// The keys of this test below the prefix, with their leases, those of finished operations left out; and all leases.
async fn left_in_etcd(backend: &Backend) -> (BTreeSet<(String, i64)>, BTreeSet<i64>) {
    let mut raw = backend.raw().await;
    let all = Some(etcd_client::GetOptions::new().with_prefix());
    let prefix = backend.prefix();
    let found = raw.get(prefix, all).await.unwrap();
    let keys = found.kvs().iter().map(|kv| {
        let key = String::from_utf8_lossy(kv.key()).into_owned();
        (key.strip_prefix(prefix).unwrap().to_owned(), kv.lease())
    });
    let lasting = |key: &str| {
        ["r/", "meta/timeline", "meta/clock"]
            .iter()
            .any(|of| key.starts_with(of))
    };
    let keys = keys.filter(|(key, _)| !lasting(key)).collect();
    let leases = raw.leases().await.unwrap();
    (keys, leases.leases().iter().map(|one| one.id()).collect())
}

async fn entries(backend: &Backend, wanted: usize) {
    until("all are queued", SOON, || async {
        let (keys, _) = left_in_etcd(backend).await;
        let queued = keys.iter().filter(|(key, _)| key.starts_with("w/"));
        (queued.count() == wanted).then_some(())
    })
    .await;
}

/// Sends these on one connection and returns once the sidecar has them all and waits for etcd, whose line is frozen, with one at least.
macro_rules! sent {
    ($line:expr, $client:expr, $calls:expr) => {{
        for call in &mut $calls {
            assert!(poll!(call.as_mut()).is_pending());
        }
        // Answered from memory, and on the same connection behind all the others; once for each, since what one call says is sent
        // by a task of its own.
        for _ in 0..$calls.len() {
            let known = $client.transition(run_once("known", "another")).await;
            let known = known.unwrap().into_inner().decision.unwrap();
            assert_eq!(known.verdict(), v1::Verdict::Replayed, "{known:?}");
        }
        // What one call says is also judged by a task of its own.
        until("one is on its way to etcd", SOON, || async {
            $line.holds(KEYS).then_some(())
        })
        .await;
    }};
}

async fn known(client: &mut Client) {
    let first = client.transition(run_once("known", "first")).await;
    let first = first.unwrap().into_inner().decision.unwrap();
    assert_eq!(first.verdict(), v1::Verdict::Applied, "{first:?}");
}

// I2
async fn a_stop_finishes_what_is_under_way_tells_who_waits_or_holds_and_leaves_only_what_is_theirs(
    backend: Backend,
) {
    let url = backend.url().await;
    let line = Proxy::to_url(&url);
    let process = Process::serve(&line.url(), backend.prefix(), &[]).await;
    let mut client = process.client();
    known(&mut client).await;
    // Leases are held ready, and those of a day would stay for a day.
    for round in 0..10 {
        let other = held(&mut client, reserve(&format!("w{round}"), 86_400, 0)).await;
        let release = v1::ReleaseRequest {
            reservation_id: other.reservation_id,
            nothing_done: false,
            result: None,
        };
        client.release(release).await.unwrap();
    }
    let mine = held(&mut client, reserve("mine", 3_600, 0)).await;
    let worker = held(&mut client, reserve("released", 3_600, 0)).await;
    let claim = v1::ReserveRequest {
        intent: Some(intent("pay")),
        ..reserve("claimed", 3_600, 0)
    };
    held(&mut client, claim).await;
    let streams = [
        hold(&mut client, &mine, false).await,
        hold(&mut client, &worker, true).await,
    ];
    let watching = v1::WatchRequest {
        resource: resource("mine"),
        after_revision: 0,
        timeline_id: String::new(),
    };
    let watch = client.watch(watching).await.unwrap().into_inner();
    let busy: Vec<_> = (0..WAITING)
        .map(|_| {
            let mut client = process.client();
            tokio::spawn(async move { client.reserve(reserve("mine", 30, 600)).await })
        })
        .collect();
    let mut running = process.client();
    let in_progress = v1::TransitionRequest {
        wait: seconds(600),
        ..run_once("claimed", "late")
    };
    let in_progress = tokio::spawn(async move { running.transition(in_progress).await });
    entries(&backend, WAITING).await;

    line.freeze();
    let mut calls: Vec<_> = (0..UNDER_WAY)
        .map(|at| {
            let mut client = client.clone();
            Box::pin(async move {
                let ask = run_once(&format!("u{at}"), "first");
                client.transition(ask).await
            })
        })
        .collect();
    sent!(line, client, calls);
    process.signal(Signal::TERM);
    // All this is told while etcd is silent.
    for stream in streams {
        let ended = end_of(stream).await;
        assert_eq!(ended.code(), Code::Unavailable, "{ended:?}");
        let details = ended.get_error_details();
        assert_eq!(details.error_info().unwrap().reason, "STOPPING");
    }
    assert_eq!(end_of(watch).await.code(), Code::Unavailable);
    for waits in busy {
        let told = waits.await.unwrap().unwrap().into_inner().decision.unwrap();
        assert_eq!(told.verdict(), v1::Verdict::Busy, "{told:?}");
    }
    let told = in_progress.await.unwrap().unwrap().into_inner().decision;
    assert_eq!(told.unwrap().verdict(), v1::Verdict::InProgress);
    line.heal();
    for answer in join_all(calls).await {
        let decision = answer.unwrap().into_inner().decision.unwrap();
        assert_eq!(decision.verdict(), v1::Verdict::Applied, "{decision:?}");
    }
    assert_eq!(process.ended().await, 0, "{}", process.logs());
    let logs = process.logs();
    assert!(logs.contains("every call was answered"), "{logs}");

    let (keys, leases) = left_in_etcd(&backend).await;
    let names: Vec<_> = keys.iter().map(|(key, _)| key.as_str()).collect();
    assert_eq!(names, ["h/order/claimed", "h/order/mine"]);
    let theirs: BTreeSet<_> = keys.iter().map(|(_, lease)| *lease).collect();
    assert_eq!(leases, theirs, "leases that no reservation hangs on");

    // Another process goes on with them by their ids.
    let next = Process::serve(&url, backend.prefix(), &[]).await;
    let mut client = next.client();
    let renew = v1::RenewRequest {
        reservation_id: mine.reservation_id.clone(),
    };
    let renewed = client.renew(renew).await.unwrap().into_inner();
    let reservation = renewed.reservation.unwrap();
    assert_eq!(reservation.token, mine.token);
    let release = v1::ReleaseRequest {
        reservation_id: mine.reservation_id,
        nothing_done: false,
        result: None,
    };
    let ended = client.release(release).await.unwrap().into_inner();
    assert_eq!(ended.decision.unwrap().verdict(), v1::Verdict::Applied);
    assert!(held(&mut client, reserve("mine", 30, 0)).await.token > mine.token);
    let free = held(&mut client, reserve("released", 30, 0)).await;
    assert!(free.token > worker.token);
}

async fn a_stop_that_etcd_does_not_answer_ends_soon_after_its_limit_and_the_truth_is_known_later(
    backend: Backend,
) {
    let limit = Duration::from_secs(1);
    let url = backend.url().await;
    let line = Proxy::to_url(&url);
    let settings = ["--drain-limit", "1s"];
    let process = Process::serve(&line.url(), backend.prefix(), &settings).await;
    let mut client = process.client();
    known(&mut client).await;
    let mine = held(&mut client, reserve("mine", 3_600, 0)).await;
    line.freeze();
    let mut calls: Vec<_> = (0..UNDER_WAY)
        .map(|at| {
            let mut client = client.clone();
            Box::pin(async move {
                let ask = run_once(&format!("u{at}"), "first");
                client.transition(ask).await
            })
        })
        .collect();
    sent!(line, client, calls);
    let begun = Boottime::now();
    process.signal(Signal::TERM);
    // Told, not cut off: of what was sent, that nothing is known; of what still waited to be sent, that nothing was done.
    let mut unsent = Vec::new();
    for answer in join_all(calls).await {
        let status = answer.unwrap_err();
        let reason = status.get_error_details().error_info().unwrap().clone();
        let told = (status.code(), reason.reason.as_str());
        unsent.push(told == (Code::Unavailable, "STOPPING"));
        assert!(
            unsent.ends_with(&[true]) || told == (Code::Aborted, "UNKNOWN_OUTCOME"),
            "{status:?}"
        );
    }
    assert!(unsent.contains(&false), "none was sent");
    assert_eq!(process.ended().await, 0, "{}", process.logs());
    let took = Boottime::now().since(begun);
    assert!(took < limit + SOON / 2, "{took:?}");
    let logs = process.logs();
    assert!(logs.contains("stopped at the drain limit"), "{logs}");
    line.heal();
    let next = Process::serve(&url, backend.prefix(), &[]).await;
    let mut client = next.client();
    for (at, unsent) in unsent.into_iter().enumerate() {
        let again = client
            .transition(run_once(&format!("u{at}"), "second"))
            .await;
        let decision = again.unwrap().into_inner().decision.unwrap();
        let body = decision.result.clone().unwrap().body;
        match decision.verdict() {
            v1::Verdict::Applied => assert_eq!(&body[..], b"second"),
            v1::Verdict::Replayed if !unsent => assert_eq!(&body[..], b"first"),
            other => panic!("{other:?}: {decision:?}"),
        }
    }
    let renew = v1::RenewRequest {
        reservation_id: mine.reservation_id,
    };
    let renewed = client.renew(renew).await.unwrap().into_inner();
    assert_eq!(renewed.reservation.unwrap().token, mine.token);
}

/// A sidecar that is told to stop while etcd is silent and a call is under way: so the stop goes on until the line is healed.
struct Draining {
    process: Process,
    line: Proxy,
    call: tokio::task::JoinHandle<Result<tonic::Response<v1::TransitionResponse>, Status>>,
    /// A connection that is open already.
    client: Client,
    watched: tonic::Streaming<HealthCheckResponse>,
}

async fn draining(backend: &Backend) -> Draining {
    let line = Proxy::to_url(&backend.url().await);
    let settings = ["--drain-limit", "1h"];
    let process = Process::serve(&line.url(), backend.prefix(), &settings).await;
    let mut client = process.client();
    known(&mut client).await;
    let mut health = HealthClient::new(channel(&process).await);
    let watched = health.watch(HealthCheckRequest::default()).await;
    let mut watched = watched.unwrap().into_inner();
    assert_eq!(said(&mut watched).await, ServingStatus::Serving);
    line.freeze();
    let mut under_way = client.clone();
    let call = async move { under_way.transition(run_once("u0", "first")).await };
    let mut calls = [Box::pin(call)];
    sent!(line, client, calls);
    let [call] = calls;
    process.signal(Signal::TERM);
    Draining {
        process,
        line,
        call: tokio::spawn(call),
        client,
        watched,
    }
}

async fn channel(process: &Process) -> Channel {
    let endpoint = Channel::from_shared(format!("http://{}", process.address()));
    endpoint.unwrap().connect().await.unwrap()
}

async fn said(watched: &mut tonic::Streaming<HealthCheckResponse>) -> ServingStatus {
    let next = tokio::time::timeout(SOON, watched.message()).await;
    let next = next.expect("health is said in time");
    next.unwrap().unwrap().status()
}

async fn checked(process: &Process) -> ServingStatus {
    let mut health = HealthClient::new(channel(process).await);
    let checked = health.check(HealthCheckRequest::default()).await;
    checked.unwrap().into_inner().status()
}

fn stopping(status: &Status) {
    assert_eq!(status.code(), Code::Unavailable, "{status:?}");
    let details = status.get_error_details();
    assert_eq!(details.error_info().unwrap().reason, "STOPPING");
    assert!(details.retry_info().unwrap().retry_delay.is_some());
}

/// Asks what is answered from memory, until that is refused.
async fn refused(client: &Client) -> Status {
    until("a new call is refused", SOON, || async {
        client
            .clone()
            .transition(run_once("known", "another"))
            .await
            .err()
    })
    .await
}

async fn whoever_is_refused_by_a_stop_finds_it_said_that_nothing_is_served(backend: Backend) {
    let Draining {
        process,
        line,
        call,
        client,
        mut watched,
    } = draining(&backend).await;
    stopping(&refused(&client).await);
    // From the first refusal on, and also to whoever comes only now.
    assert_eq!(checked(&process).await, ServingStatus::NotServing);
    let mut late = CoordinationServiceClient::new(channel(&process).await);
    stopping(&late.reserve(reserve("new", 30, 0)).await.unwrap_err());
    let as_json = as_json(&process).await;
    assert!(as_json.starts_with("HTTP/1.1 503 "), "{as_json}");
    assert!(as_json.contains("STOPPING"), "{as_json}");
    assert_eq!(said(&mut watched).await, ServingStatus::NotServing);
    // What is under way is answered as ever.
    assert!(!call.is_finished());
    line.heal();
    let decision = call.await.unwrap().unwrap().into_inner().decision.unwrap();
    assert_eq!(decision.verdict(), v1::Verdict::Applied, "{decision:?}");
    assert_eq!(process.ended().await, 0, "{}", process.logs());
    let logs = process.logs();
    assert!(logs.contains("every call was answered"), "{logs}");
}

/// Inspects over a connection of its own.
async fn as_json(process: &Process) -> String {
    let body = r#"{"resource":{"kind":"order","id":"new"}}"#;
    let request = format!(
        "POST /fencepost.v1.CoordinationService/Inspect HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\
         content-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    );
    let mut line = TcpStream::connect(process.address()).await.unwrap();
    line.write_all(request.as_bytes()).await.unwrap();
    let mut answer = String::new();
    line.read_to_string(&mut answer).await.unwrap();
    answer
}

async fn a_second_signal_ends_a_stop_at_once(backend: Backend) {
    let Draining {
        process,
        line,
        call,
        client,
        ..
    } = draining(&backend).await;
    // The first signal has been taken once calls are refused.
    stopping(&refused(&client).await);
    let begun = Boottime::now();
    process.signal(Signal::INT);
    assert_eq!(process.ended().await, 130, "{}", process.logs());
    let took = Boottime::now().since(begun);
    assert!(took < SOON / 2, "{took:?}");
    call.await.unwrap().unwrap_err();
    // Silent until here.
    line.heal();
}

/// An etcd of its own, for all its leases are listed.
async fn alone() -> Backend {
    Backend::of_etcd(Arc::new(Etcd::start().await))
}

macro_rules! both {
    ($($claim:ident),* $(,)?) => {
        mod real {
            $(
                #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
                async fn $claim() {
                    super::bounded(Box::pin(super::$claim(super::alone().await))).await;
                }
            )*
        }

        mod embedded {
            $(
                #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
                async fn $claim() {
                    let backend = super::Backend::embedded();
                    super::bounded(Box::pin(super::$claim(backend))).await;
                }
            )*
        }
    };
}

both! {
    a_stop_finishes_what_is_under_way_tells_who_waits_or_holds_and_leaves_only_what_is_theirs,
    a_stop_that_etcd_does_not_answer_ends_soon_after_its_limit_and_the_truth_is_known_later,
    whoever_is_refused_by_a_stop_finds_it_said_that_nothing_is_served,
    a_second_signal_ends_a_stop_at_once,
}
