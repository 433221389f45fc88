//! Health and reflection have limits of their own: nobody opens more streams than there may be, and health is told also when
//! nothing else has room.

use std::io::{Read, Write};
use std::time::Duration;

use bytes::Bytes;
use fencepost::engine::Boottime;
use futures_util::{StreamExt as _, stream};
use http_body::Frame;
use http_body_util::StreamBody;
use rustix::process::Signal;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::body::Body;
use tonic::transport::{Channel, Endpoint};
use tonic::{Code, Status, Streaming};
use tonic_health::pb::health_check_response::ServingStatus;
use tonic_health::pb::health_client::HealthClient;
use tonic_health::pb::{HealthCheckRequest, HealthCheckResponse};
use tonic_reflection::pb::v1::server_reflection_client::ServerReflectionClient;
use tonic_reflection::pb::v1::{ServerReflectionRequest, ServerReflectionResponse};
use tonic_types::StatusExt as _;
use tower::{Service as _, ServiceExt as _};

use crate::sidecar::{PATIENCE, Sidecar};

const STREAMS_PER_CONNECTION_MAX: usize = 128;
const HEALTH_WATCHES_MAX: usize = 1024;
const REFLECTIONS_MAX: usize = 64;
const HEALTH_CHECKS_MAX: usize = 1024;
const HEALTH_CHECK_WITHIN: Duration = Duration::from_secs(10);
/// Calls on one connection: room is left for one that is answered at once.
const CALLS_PER_CONNECTION: usize = 250;

async fn connected(sidecar: &Sidecar) -> Channel {
    let endpoint = Endpoint::from_shared(sidecar.url()).unwrap();
    endpoint.connect().await.unwrap()
}

async fn checked(channel: &Channel) -> Result<ServingStatus, Status> {
    let mut client = HealthClient::new(channel.clone());
    let answer = client.check(HealthCheckRequest::default()).await?;
    Ok(answer.into_inner().status())
}

async fn watched(channel: &Channel) -> Result<Streaming<HealthCheckResponse>, Status> {
    let mut client = HealthClient::new(channel.clone());
    let stream = client.watch(HealthCheckRequest::default()).await?;
    Ok(stream.into_inner())
}

/// A stream of reflection, and what ends it when it is dropped.
type Reflected = (
    mpsc::Sender<ServerReflectionRequest>,
    Streaming<ServerReflectionResponse>,
);

async fn reflected(channel: &Channel) -> Result<Reflected, Status> {
    let mut client = ServerReflectionClient::new(channel.clone());
    let (questions, asked) = mpsc::channel(1);
    let asked = ReceiverStream::new(asked);
    let stream = client.server_reflection_info(asked).await?;
    Ok((questions, stream.into_inner()))
}

fn limit_met(status: &Status, limit: usize) {
    assert_eq!(status.code(), Code::ResourceExhausted, "{status:?}");
    let details = status.get_error_details();
    assert_eq!(details.error_info().unwrap().reason, "OVERLOADED");
    assert!(details.retry_info().is_some());
    assert!(status.message().contains(&limit.to_string()), "{status:?}");
}

#[tokio::test]
async fn streams_of_health_are_bounded_on_a_connection_and_together_and_health_is_told_beside_them()
{
    let sidecar = Sidecar::dev();
    let (mut channels, mut streams) = (Vec::new(), Vec::new());
    while streams.len() < HEALTH_WATCHES_MAX {
        let channel = connected(&sidecar).await;
        for _ in 0..STREAMS_PER_CONNECTION_MAX {
            streams.push(watched(&channel).await.unwrap());
        }
        let one_more = watched(&channel).await.expect_err("a connection is full");
        limit_met(
            &one_more,
            if streams.len() < HEALTH_WATCHES_MAX {
                STREAMS_PER_CONNECTION_MAX
            } else {
                HEALTH_WATCHES_MAX
            },
        );
        channels.push(channel);
    }
    let other = connected(&sidecar).await;
    limit_met(&watched(&other).await.err().unwrap(), HEALTH_WATCHES_MAX);
    assert_eq!(checked(&other).await.unwrap(), ServingStatus::Serving);
    assert_eq!(checked(&channels[0]).await.unwrap(), ServingStatus::Serving);

    // All that are open are told what changes, and the end of one is room for another.
    let first = streams[0].message().await.unwrap().unwrap();
    assert_eq!(first.status(), ServingStatus::Serving);
    drop(streams.pop());
    let mut again = loop {
        match watched(&other).await {
            Ok(stream) => break stream,
            Err(status) => limit_met(&status, HEALTH_WATCHES_MAX),
        }
    };
    let told = again.message().await.unwrap().unwrap();
    assert_eq!(told.status(), ServingStatus::Serving);
    sidecar.signal(Signal::TERM);
    let told = again.message().await.unwrap().unwrap();
    assert_eq!(told.status(), ServingStatus::NotServing);
    let (status, _, log, _) = sidecar.ended();
    assert_eq!(status.code(), Some(0), "{log}");
}

#[tokio::test]
async fn streams_of_reflection_are_bounded() {
    let sidecar = Sidecar::dev();
    let channel = connected(&sidecar).await;
    let mut streams = Vec::new();
    for _ in 0..REFLECTIONS_MAX {
        streams.push(reflected(&channel).await.unwrap());
    }
    let other = connected(&sidecar).await;
    limit_met(&reflected(&other).await.err().unwrap(), REFLECTIONS_MAX);
    assert_eq!(checked(&other).await.unwrap(), ServingStatus::Serving);
    assert!(watched(&other).await.is_ok());
    streams.pop();
    while reflected(&other).await.is_err() {
        tokio::task::yield_now().await;
    }
}

/// A question whose message does not end.
fn half_sent(channel: &Channel, method: &str) -> impl Future<Output = Status> + use<> {
    let first = stream::iter([Ok::<_, Status>(Frame::data(Bytes::from_static(
        b"\0\0\0\0\x01",
    )))]);
    let body = StreamBody::new(first.chain(stream::pending()));
    let request = http::Request::post(format!("/grpc.health.v1.Health/{method}"))
        .header("content-type", "application/grpc")
        .header("te", "trailers")
        .body(Body::new(body))
        .unwrap();
    let mut channel = channel.clone();
    tokio::task::unconstrained(async move {
        let answer = channel.ready().await.unwrap().call(request).await.unwrap();
        Status::from_header_map(answer.headers()).unwrap()
    })
}

#[tokio::test]
async fn questions_for_the_health_that_do_not_end_give_their_places_back_in_time() {
    let sidecar = Sidecar::dev();
    let begun = Boottime::now();
    let (mut channels, mut questions) = (Vec::new(), Vec::new());
    while questions.len() < HEALTH_CHECKS_MAX {
        let channel = connected(&sidecar).await;
        for _ in 0..CALLS_PER_CONNECTION.min(HEALTH_CHECKS_MAX - questions.len()) {
            let mut question = Box::pin(half_sent(&channel, "Check"));
            assert!(futures_util::poll!(question.as_mut()).is_pending());
            questions.push(question);
        }
        // Behind all of them, on the same connection.
        drop(checked(&channel).await);
        channels.push(channel);
    }
    let full = async {
        loop {
            if let Err(full) = checked(&channels[0]).await {
                break full;
            }
        }
    };
    let full = tokio::time::timeout(PATIENCE, full).await;
    limit_met(&full.expect("there is no place left"), HEALTH_CHECKS_MAX);
    // One that wants to follow it is waited for no longer.
    questions.push(Box::pin(half_sent(&channels[0], "Watch")));
    let ends = futures_util::future::join_all(questions);
    let ends = tokio::time::timeout(PATIENCE, ends).await;
    for told in ends.expect("they are told in time") {
        assert_eq!(told.code(), Code::DeadlineExceeded, "{told:?}");
    }
    assert!(Boottime::now().since(begun) >= HEALTH_CHECK_WITHIN);
    assert_eq!(checked(&channels[0]).await.unwrap(), ServingStatus::Serving);
}

#[test]
fn whoever_breaks_the_rules_again_and_again_does_not_fill_the_log() {
    /// Lines of libraries that are written in a second.
    const LINES_MAX: u64 = 10;
    let sidecar = Sidecar::dev();
    let mut line = sidecar.connect();
    let begun = Boottime::now();
    line.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0")
        .unwrap();
    // Answers to pings that nobody sent, each of which is warned of, and at last a ping.
    let unasked = b"\0\0\x08\x06\x01\0\0\0\0unasked!".repeat(20_000);
    line.write_all(&unasked).unwrap();
    line.write_all(b"\0\0\x08\x06\0\0\0\0\0the last").unwrap();
    let mut heard = Vec::new();
    while !heard.ends_with(b"\0\0\x08\x06\x01\0\0\0\0the last") {
        let mut some = [0; 1024];
        let count = line.read(&mut some).unwrap();
        assert!(count > 0, "{heard:?}");
        heard.extend_from_slice(&some[..count]);
    }
    let spans = Boottime::now().since(begun).as_secs() + 2;
    sidecar.signal(Signal::TERM);
    let (_, _, log, _) = sidecar.ended();
    let lines = log.lines().filter(|line| line.contains("PING ack"));
    let lines = u64::try_from(lines.count()).unwrap();
    assert!((1..=LINES_MAX * spans).contains(&lines), "{lines}: {log}");
}
