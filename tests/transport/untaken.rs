//! Answers that nobody reads: they are counted, are hung up on in time, and hold up neither others nor a stop.

use std::io::{Read, Write};
use std::time::Duration;

use bytes::{BufMut as _, Bytes, BytesMut};
use fencepost::engine::Boottime;
use fencepost::proto::v1 as pb;
use fencepost::proto::v1::coordination_service_client::CoordinationServiceClient;
use fencepost::transport::ANSWER_TAKEN_WITHIN;
use futures_util::future::join_all;
use http_body_util::{BodyExt as _, Full};
use prost::Message as _;
use rustix::process::Signal;
use tokio::task::unconstrained;
use tonic::body::Body;
use tonic::transport::{Channel, Endpoint};
use tonic::{Code, Status};
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_client::HealthClient;
use tonic_types::StatusExt as _;
use tower::{Service as _, ServiceExt as _};

use crate::sidecar::{PATIENCE, Sidecar};

/// Calls on one connection: room is left for one that is answered at once.
const CALLS_PER_CONNECTION: usize = 250;
/// Calls under way that a sidecar has room for, those included whose answers were not taken.
const CALLS_UNDER_WAY_MAX: usize = 4096;
/// Bytes of large answers that a sidecar has room for.
const ANSWER_BYTES_MAX: usize = 64 * 1024 * 1024;
const RESULT_BYTES: usize = 64 * 1024;
/// More than what a large answer has beside its result.
const BESIDE_RESULT_BYTES: usize = 1024;
/// How often connections are looked at.
const LOOK_EVERY: Duration = Duration::from_secs(10);
/// What a machine that is busy with other tests may take on top.
const SLACK: Duration = Duration::from_secs(20);
/// How long a stop may take that has nothing to wait for.
const STOP_BOUND: Duration = Duration::from_secs(5);

/// A call that has an answer, whose body nobody has read.
type Untaken = http::Response<Body>;

async fn connected(sidecar: &Sidecar) -> Channel {
    let endpoint = Endpoint::from_shared(sidecar.url()).unwrap();
    endpoint.connect().await.unwrap()
}

/// One that has room for hardly anything of what it does not read.
async fn narrow(sidecar: &Sidecar) -> Channel {
    let endpoint = Endpoint::from_shared(sidecar.url()).unwrap();
    let endpoint = endpoint.initial_stream_window_size(1);
    endpoint.connect().await.unwrap()
}

fn order() -> Option<pb::Resource> {
    Some(pb::Resource {
        kind: "order".into(),
        id: "1".into(),
    })
}

fn inspect() -> pb::InspectRequest {
    pb::InspectRequest {
        resource: order(),
        ..Default::default()
    }
}

/// A move whose answer is large, the first time and ever after.
fn large() -> pb::TransitionRequest {
    pb::TransitionRequest {
        resource: order(),
        intent: Some(pb::Intent {
            operation_id: "pay".into(),
            content: Some(pb::intent::Content::Raw(Bytes::new())),
            r#move: Some(pb::Move {
                initial_state: "new".into(),
                to_state: "paid".into(),
                ..Default::default()
            }),
            ..Default::default()
        }),
        result: Some(pb::Result {
            body: vec![7; RESULT_BYTES].into(),
            ..Default::default()
        }),
        ..Default::default()
    }
}

async fn ask_large(channel: &Channel) -> Result<pb::TransitionResponse, Status> {
    let mut client = CoordinationServiceClient::new(channel.clone());
    Ok(client.transition(large()).await?.into_inner())
}

async fn ask_small(channel: &Channel) -> Result<(), Status> {
    let mut client = CoordinationServiceClient::new(channel.clone());
    client.inspect(inspect()).await.map(drop)
}

/// Calls that are answered, and whose answers are not read.
async fn left<M: prost::Message>(
    channel: &Channel,
    method: &str,
    message: &M,
    count: usize,
) -> Vec<Untaken> {
    let mut framed = BytesMut::new();
    framed.put_u8(0);
    framed.put_u32(u32::try_from(message.encoded_len()).unwrap());
    message.encode(&mut framed).unwrap();
    let framed = framed.freeze();
    let path = format!("/fencepost.v1.CoordinationService/{method}");
    let calls = (0..count).map(|_| {
        let request = http::Request::post(&path)
            .header("content-type", "application/grpc")
            .header("te", "trailers")
            .header("grpc-timeout", "1M");
        let request = request.body(Body::new(Full::new(framed.clone()))).unwrap();
        let mut channel = channel.clone();
        // Else only the first so many of those that are begun at once would be sent.
        unconstrained(async move { channel.ready().await.unwrap().call(request).await.unwrap() })
    });
    tokio::time::timeout(PATIENCE, join_all(calls))
        .await
        .unwrap()
}

fn reason_of(status: &Status) -> String {
    let details = status.get_error_details();
    details.error_info().unwrap().reason.clone()
}

#[tokio::test]
async fn answers_that_nobody_takes_keep_their_places_until_they_are_hung_up_on() {
    let sidecar = Sidecar::dev();
    let honest = connected(&sidecar).await;
    let begun = Boottime::now();
    let (mut watches, mut answers) = (Vec::new(), Vec::new());
    while answers.len() < CALLS_UNDER_WAY_MAX {
        let channel = narrow(&sidecar).await;
        // Tells when the connection is gone.
        let mut health = HealthClient::new(channel.clone());
        let watch = health.watch(HealthCheckRequest::default()).await;
        let mut watch = watch.unwrap().into_inner();
        watch.message().await.unwrap();
        watches.push(watch);
        let count = CALLS_PER_CONNECTION.min(CALLS_UNDER_WAY_MAX - answers.len());
        answers.extend(left(&channel, "Inspect", &inspect(), count).await);
    }
    let full = ask_small(&honest).await.unwrap_err();
    assert_eq!(full.code(), Code::ResourceExhausted, "{full:?}");
    assert_eq!(reason_of(&full), "OVERLOADED");
    assert!(full.get_error_details().retry_info().is_some());
    let limit = CALLS_UNDER_WAY_MAX.to_string();
    assert!(full.message().contains(&limit), "{full:?}");

    // One that is given up, or taken after all, is a place at once.
    drop(answers.pop());
    while ask_small(&honest).await.is_err() {
        tokio::task::yield_now().await;
    }
    let taken = answers.pop().unwrap().into_body().collect().await.unwrap();
    assert_eq!(taken.trailers().unwrap()["grpc-status"], "0");
    assert!(taken.to_bytes().len() > 5);

    // The rest is hung up on, and nobody else is.
    let cut = join_all(watches.into_iter().map(
        async |mut watch| {
            while let Ok(Some(_)) = watch.message().await {}
        },
    ));
    let cut = tokio::time::timeout(ANSWER_TAKEN_WITHIN + LOOK_EVERY + SLACK, cut).await;
    cut.expect("they are hung up on in time");
    let took = Boottime::now().since(begun);
    assert!(took >= ANSWER_TAKEN_WITHIN, "{took:?}");
    for answer in answers {
        let read = answer.into_body().collect().await;
        assert!(read.is_err(), "an answer was read whole");
    }
    ask_small(&honest).await.unwrap();
    drop(honest);
    sidecar.signal(Signal::TERM);
    let (status, _, log, _) = sidecar.ended();
    assert_eq!(status.code(), Some(0), "{log}");
    assert!(log.contains("an answer was not taken in time"), "{log}");
}

/// A refusal over HTTP has a text, which can be left like any other answer.
#[tokio::test]
async fn refusals_that_nobody_takes_are_hung_up_on_like_answers() {
    let sidecar = Sidecar::dev();
    let begun = Boottime::now();
    let refused = [
        (
            "/fencepost.v1.CoordinationService/Reserve",
            "application/json",
            400,
        ),
        (
            "/fencepost.v1.CoordinationService/Reserve",
            "text/plain",
            415,
        ),
        ("/elsewhere", "application/json", 404),
    ];
    let cut = refused.map(async |(path, form, code)| {
        let mut channel = narrow(&sidecar).await;
        let mut health = HealthClient::new(channel.clone());
        let watch = health.watch(HealthCheckRequest::default()).await;
        let mut watch = watch.unwrap().into_inner();
        let request = http::Request::post(path).header("content-type", form);
        let request = request.body(Body::new(Full::from("{}"))).unwrap();
        let answer = channel.ready().await.unwrap().call(request).await.unwrap();
        assert_eq!(answer.status(), code, "{path}");
        while let Ok(Some(_)) = watch.message().await {}
        assert!(answer.into_body().collect().await.is_err(), "{path}");
    });
    let cut = tokio::time::timeout(ANSWER_TAKEN_WITHIN + LOOK_EVERY + SLACK, join_all(cut)).await;
    cut.expect("they are hung up on in time");
    assert!(Boottime::now().since(begun) >= ANSWER_TAKEN_WITHIN);
}

#[tokio::test]
async fn large_answers_that_nobody_takes_are_bounded_by_their_bytes_and_can_be_asked_for_again() {
    let sidecar = Sidecar::dev();
    let honest = connected(&sidecar).await;
    let first = ask_large(&honest).await.unwrap();
    let bytes = first.encoded_len();
    assert!((RESULT_BYTES..RESULT_BYTES + BESIDE_RESULT_BYTES).contains(&bytes));
    let room = ANSWER_BYTES_MAX / (RESULT_BYTES + BESIDE_RESULT_BYTES);
    let (mut channels, mut answers) = (Vec::new(), Vec::new());
    while answers.len() < room {
        let channel = narrow(&sidecar).await;
        let count = CALLS_PER_CONNECTION.min(room - answers.len());
        answers.extend(left(&channel, "Transition", &large(), count).await);
        channels.push(channel);
    }
    assert!(
        answers
            .iter()
            .all(|it| !it.headers().contains_key("grpc-status"))
    );
    // There is room for a few more, as no answer is as large as was reckoned.
    let more = left(&narrow(&sidecar).await, "Transition", &large(), 100).await;
    let refused = more
        .iter()
        .filter_map(|it| Status::from_header_map(it.headers()));
    let refused: Vec<Status> = refused.collect();
    assert!(!refused.is_empty(), "there is no end to it");
    for told in refused {
        assert_eq!(told.code(), Code::Aborted, "{told:?}");
        assert_eq!(reason_of(&told), "UNKNOWN_OUTCOME");
        assert!(told.get_error_details().retry_info().is_some());
        let limit = ANSWER_BYTES_MAX.to_string();
        assert!(told.message().contains(&limit), "{told:?}");
    }
    // Others go on: nearly all answers are small.
    ask_small(&honest).await.unwrap();
    drop((more, channels, answers));
    let again = loop {
        match ask_large(&honest).await {
            Ok(answer) => break answer,
            Err(status) => assert_eq!(reason_of(&status), "UNKNOWN_OUTCOME"),
        }
    };
    let result = |answer: pb::TransitionResponse| answer.decision.unwrap().result;
    assert_eq!(result(again), result(first));
}

#[tokio::test]
async fn a_stop_does_not_wait_for_those_who_do_not_take_their_answers() {
    let sidecar = Sidecar::dev_with(&["--drain-limit", "1h"], &[]);
    let channel = narrow(&sidecar).await;
    let mut answers = left(&channel, "Transition", &large(), CALLS_PER_CONNECTION).await;
    answers.extend(
        left(
            &narrow(&sidecar).await,
            "Inspect",
            &inspect(),
            CALLS_PER_CONNECTION,
        )
        .await,
    );
    let begun = Boottime::now();
    sidecar.signal(Signal::TERM);
    let (status, _, log, _) = sidecar.ended();
    assert_eq!(status.code(), Some(0), "{log}");
    assert!(log.contains("every call was answered"), "{log}");
    let took = Boottime::now().since(begun);
    assert!(took < STOP_BOUND, "{took:?}");
    drop(answers);
}

#[test]
fn whoever_reads_nothing_at_all_is_hung_up_on_whatever_it_was_told() {
    let sidecar = Sidecar::dev();
    let refused = b"POST /fencepost.v1.CoordinationService/Nothing HTTP/1.1\r\nhost: x\r\ncontent-length: 0\r\n\r\n";
    let many = refused.repeat(1000);
    let mut line = sidecar.connect();
    line.set_nonblocking(true).unwrap();
    let begun = Boottime::now();
    let mut at = 0;
    loop {
        let took = Boottime::now().since(begun);
        assert!(
            took < PATIENCE + ANSWER_TAKEN_WITHIN + LOOK_EVERY,
            "it may still write"
        );
        match line.write(&many[at..]) {
            Ok(count) => at = (at + count) % many.len(),
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {
                std::thread::sleep(Duration::from_millis(20));
            }
            Err(_) => break,
        }
    }
    let took = Boottime::now().since(begun);
    assert!(took >= ANSWER_TAKEN_WITHIN, "{took:?}");
    let answer = sidecar.raw(b"GET / HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n");
    assert!(answer.starts_with("HTTP/1.1 404 "), "{answer}");
    drop(line.read(&mut [0; 16]));
}

#[tokio::test(flavor = "multi_thread")]
async fn whoever_takes_its_answers_keeps_its_connection() {
    let sidecar = Sidecar::dev();
    let channels = [connected(&sidecar).await, narrow(&sidecar).await];
    let begun = Boottime::now();
    ask_large(&channels[0]).await.unwrap();
    for channel in &channels {
        ask_small(channel).await.unwrap();
    }
    let mut line = sidecar.connect();
    // A connection of HTTP/1.1 may be idle for 30 s, so something is asked meanwhile.
    let asked = b"GET / HTTP/1.1\r\nhost: x\r\n\r\n";
    while Boottime::now().since(begun) < ANSWER_TAKEN_WITHIN + 2 * LOOK_EVERY {
        line.write_all(asked).unwrap();
        let mut some = [0; 1024];
        assert!(line.read(&mut some).unwrap() > 0);
        tokio::time::sleep(LOOK_EVERY / 2).await;
    }
    drop((channels, line));
    sidecar.signal(Signal::TERM);
    let (_, _, log, _) = sidecar.ended();
    assert!(!log.contains("closed a connection"), "{log}");
}
