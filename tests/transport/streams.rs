//! Hold and Watch as their callers meet them.

use std::time::Duration;

use fencepost::engine::Boottime;
use fencepost::proto::v1 as pb;
use fencepost::proto::v1::coordination_service_client::CoordinationServiceClient;
use fencepost::proto::v1::hold_response::News;
use rustix::process::Signal;
use tonic::transport::{Channel, Endpoint};
use tonic::{Code, Request, Status, Streaming};
use tonic_types::StatusExt as _;

use crate::sidecar::{PATIENCE, Sidecar};

type Client = CoordinationServiceClient<Channel>;

/// Streams that one connection may have open.
const STREAMS_PER_CONNECTION: usize = 128;

async fn client(sidecar: &Sidecar) -> Client {
    let endpoint = Endpoint::from_shared(sidecar.url()).unwrap();
    Client::new(endpoint.connect().await.unwrap())
}

fn order(id: &str) -> Option<pb::Resource> {
    Some(pb::Resource {
        kind: "order".into(),
        id: id.into(),
    })
}

async fn reserved(client: &mut Client, id: &str) -> pb::Reservation {
    let request = pb::ReserveRequest {
        resource: order(id),
        request_id: uuid::Uuid::new_v4().to_string(),
        ..Default::default()
    };
    let answer = client.reserve(request).await.unwrap().into_inner();
    answer.reservation.unwrap()
}

fn of(reservation: &pb::Reservation, release_on_close: bool) -> pb::HoldRequest {
    pb::HoldRequest {
        reservation_ids: vec![reservation.reservation_id.clone()],
        release_on_close,
    }
}

async fn held(
    client: &mut Client,
    request: impl tonic::IntoRequest<pb::HoldRequest>,
) -> Streaming<pb::HoldResponse> {
    client.hold(request).await.unwrap().into_inner()
}

async fn news(
    stream: &mut Streaming<pb::HoldResponse>,
) -> Result<Option<pb::HoldResponse>, Status> {
    let next = tokio::time::timeout(PATIENCE, stream.message());
    next.await.expect("news in time")
}

async fn live_token(client: &mut Client, id: &str) -> i64 {
    let request = pb::InspectRequest {
        resource: order(id),
        ..Default::default()
    };
    let answer = client.inspect(request).await.unwrap().into_inner();
    answer.snapshot.unwrap().live_token
}

async fn until_free(client: &mut Client, id: &str) {
    let begun = Boottime::now();
    while live_token(client, id).await != 0 {
        assert!(
            Boottime::now().since(begun) < PATIENCE,
            "{id} is still held"
        );
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

#[tokio::test]
async fn a_stream_tells_of_renewals_and_its_end_releases_what_it_held() {
    let sidecar = Sidecar::dev();
    let mut client = client(&sidecar).await;
    let reservation = reserved(&mut client, "1").await;
    let mut stream = held(&mut client, of(&reservation, true)).await;
    let first = news(&mut stream).await.unwrap().unwrap();
    assert_eq!(first.reservation_id, reservation.reservation_id);
    let Some(News::Renewed(renewed)) = first.news else {
        panic!("{first:?}");
    };
    assert_eq!(renewed.token, reservation.token);
    assert!(renewed.safe_for.is_some());
    // Cancelled.
    drop(stream);
    until_free(&mut client, "1").await;
    // Hung up, with everything that goes over the connection.
    let reservation = reserved(&mut client, "2").await;
    let mut other = self::client(&sidecar).await;
    let stream = held(&mut other, of(&reservation, true)).await;
    drop((stream, other));
    until_free(&mut client, "2").await;
}

#[tokio::test]
async fn a_stream_ends_well_when_all_is_lost() {
    let sidecar = Sidecar::dev();
    let mut client = client(&sidecar).await;
    let reservation = reserved(&mut client, "1").await;
    let mut stream = held(&mut client, of(&reservation, false)).await;
    news(&mut stream).await.unwrap().unwrap();
    let release = pb::ReleaseRequest {
        reservation_id: reservation.reservation_id.clone(),
        nothing_done: false,
        result: None,
    };
    client.release(release).await.unwrap();
    let mut over = held(&mut client, of(&reservation, false)).await;
    let lost = news(&mut over).await.unwrap().unwrap();
    let Some(News::Lost(decision)) = lost.news else {
        panic!("{lost:?}");
    };
    assert_eq!(
        (decision.advice(), &*decision.rule),
        (pb::Advice::Abandon, "RELEASED")
    );
    assert_eq!(news(&mut over).await.unwrap(), None);
}

#[tokio::test]
async fn a_deadline_ends_a_stream_and_without_one_it_stays() {
    let sidecar = Sidecar::dev();
    let mut client = client(&sidecar).await;
    let reservation = reserved(&mut client, "1").await;
    let mut request = Request::new(of(&reservation, true));
    // As a caller says it whose own library does not end the call.
    let timeout = "300m".parse().unwrap();
    request.metadata_mut().insert("grpc-timeout", timeout);
    let mut stream = held(&mut client, request).await;
    let begun = Boottime::now();
    let ended = loop {
        assert!(Boottime::now().since(begun) < PATIENCE, "it goes on");
        match news(&mut stream).await {
            Ok(Some(_)) => {}
            Ok(None) => panic!("it ended well"),
            Err(status) => break status,
        }
    };
    assert_eq!(ended.code(), Code::DeadlineExceeded, "{ended:?}");
    until_free(&mut client, "1").await;
}

/// A stream whose reader takes nothing has no window, and is not asked for more.
#[tokio::test]
async fn a_deadline_gives_back_what_a_stream_holds_although_nobody_reads_it() {
    let sidecar = Sidecar::dev();
    let mut reading = client(&sidecar).await;
    let reservation = reserved(&mut reading, "1").await;
    let endpoint = Endpoint::from_shared(sidecar.url()).unwrap();
    let endpoint = endpoint.initial_stream_window_size(0);
    let mut deaf = Client::new(endpoint.connect().await.unwrap());
    let mut request = Request::new(of(&reservation, true));
    let timeout = "300m".parse().unwrap();
    request.metadata_mut().insert("grpc-timeout", timeout);
    let stream = held(&mut deaf, request).await;
    until_free(&mut reading, "1").await;
    drop(stream);
}

/// Whoever gives up all its calls at one moment does no wrong, and keeps its connection.
#[tokio::test]
async fn as_many_calls_as_a_connection_has_may_be_given_up_at_once() {
    const ROUNDS: usize = 40;
    const CALLS: usize = 200;
    let sidecar = Sidecar::dev();
    let mut client = client(&sidecar).await;
    let reservation = reserved(&mut client, "1").await;
    let mut hold = held(&mut client, of(&reservation, false)).await;
    news(&mut hold).await.unwrap().unwrap();
    for round in 0..ROUNDS {
        let calls = (0..CALLS).map(|_| {
            let mut client = client.clone();
            tokio::spawn(async move {
                let request = pb::ReserveRequest {
                    resource: order("1"),
                    request_id: uuid::Uuid::new_v4().to_string(),
                    wait: Some(prost_types::Duration {
                        seconds: 20,
                        nanos: 0,
                    }),
                    ..Default::default()
                };
                client.reserve(request).await
            })
        });
        let calls: Vec<_> = calls.collect();
        // Sent, and given up before they are looked at: some of them, at some time.
        for _ in 0..round {
            tokio::task::yield_now().await;
        }
        for call in &calls {
            call.abort();
        }
        for call in calls {
            let given_up = call.await;
            assert!(
                matches!(&given_up, Err(error) if error.is_cancelled()),
                "round {round}: {given_up:?}"
            );
        }
        // Behind them, so that they have been looked at.
        assert_eq!(live_token(&mut client, "1").await, reservation.token);
    }
    let quiet = tokio::time::timeout(Duration::from_millis(500), hold.message()).await;
    assert!(
        quiet.as_ref().is_err() || matches!(quiet, Ok(Ok(Some(_)))),
        "the stream goes on: {quiet:?}"
    );
}

#[tokio::test]
async fn a_stop_tells_holders_and_watchers_where_to_go_on_and_keeps_what_is_theirs() {
    let sidecar = Sidecar::dev();
    let mut client = client(&sidecar).await;
    let reservation = reserved(&mut client, "1").await;
    let mut hold = held(&mut client, of(&reservation, false)).await;
    let watching = pb::WatchRequest {
        resource: order("1"),
        ..Default::default()
    };
    let mut watch = client.watch(watching).await.unwrap().into_inner();
    news(&mut hold).await.unwrap().unwrap();
    let first = watch.message().await.unwrap().unwrap();
    assert_eq!(first.snapshot.unwrap().live_token, reservation.token);
    sidecar.signal(Signal::TERM);
    let held = loop {
        match news(&mut hold).await {
            Ok(Some(_)) => {}
            Ok(None) => panic!("it ended well"),
            Err(status) => break status,
        }
    };
    let watched = watch.message().await.unwrap_err();
    for status in [held, watched] {
        assert_eq!(status.code(), Code::Unavailable, "{status:?}");
        let details = status.get_error_details();
        assert_eq!(details.error_info().unwrap().reason, "STOPPING");
        assert!(details.retry_info().unwrap().retry_delay.is_some());
    }
    let (status, took, log, _) = sidecar.ended();
    assert_eq!(status.code(), Some(0), "{log}");
    assert!(took < Duration::from_secs(5), "{took:?}\n{log}");
}

#[tokio::test]
async fn a_stop_of_a_sidecar_within_a_process_tells_its_streams_too() {
    let running = fencepost::server::start_dev("127.0.0.1:0".parse().unwrap());
    let running = running.await.unwrap();
    let endpoint = Endpoint::from_shared(format!("http://{}", running.addr())).unwrap();
    let mut client = Client::new(endpoint.connect().await.unwrap());
    let reservation = reserved(&mut client, "1").await;
    let mut hold = held(&mut client, of(&reservation, false)).await;
    let watching = pb::WatchRequest {
        resource: order("1"),
        after_revision: 0,
        timeline_id: String::new(),
    };
    let mut watch = client.watch(watching).await.unwrap().into_inner();
    news(&mut hold).await.unwrap().unwrap();
    watch.message().await.unwrap().unwrap();
    running.stop().await;
    let held = loop {
        match news(&mut hold).await {
            Ok(Some(_)) => {}
            Ok(None) => panic!("it ended well"),
            Err(status) => break status,
        }
    };
    for status in [held, watch.message().await.unwrap_err()] {
        assert_eq!(status.code(), Code::Unavailable, "{status:?}");
        let details = status.get_error_details();
        assert_eq!(details.error_info().unwrap().reason, "STOPPING");
    }
}

#[tokio::test]
async fn streams_leave_room_on_their_connection_for_calls() {
    let sidecar = Sidecar::dev();
    let mut client = client(&sidecar).await;
    let reservation = reserved(&mut client, "1").await;
    let mut streams = Vec::new();
    for _ in 0..STREAMS_PER_CONNECTION {
        streams.push(held(&mut client, of(&reservation, false)).await);
    }
    let refused = client.hold(of(&reservation, false)).await.unwrap_err();
    assert_eq!(refused.code(), Code::ResourceExhausted, "{refused:?}");
    assert!(refused.get_error_details().retry_info().is_some());
    assert_eq!(live_token(&mut client, "1").await, reservation.token);
    let mut other = self::client(&sidecar).await;
    let mut elsewhere = held(&mut other, of(&reservation, false)).await;
    news(&mut elsewhere).await.unwrap().unwrap();
    // A place is given back.
    drop(streams.pop());
    let begun = Boottime::now();
    while client.hold(of(&reservation, false)).await.is_err() {
        assert!(
            Boottime::now().since(begun) < PATIENCE,
            "no place came back"
        );
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

#[tokio::test]
async fn what_cannot_be_held_or_watched_is_refused_with_its_field() {
    let sidecar = Sidecar::dev();
    let mut client = client(&sidecar).await;
    let mut fields = Vec::new();
    for reservation_ids in [Vec::new(), vec!["x".to_owned()]] {
        let request = pb::HoldRequest {
            reservation_ids,
            release_on_close: false,
        };
        fields.push(client.hold(request).await.unwrap_err());
    }
    for (resource, after_revision) in [(None, 0), (order("1"), -1)] {
        let request = pb::WatchRequest {
            resource,
            after_revision,
            ..Default::default()
        };
        fields.push(client.watch(request).await.unwrap_err());
    }
    let named: Vec<_> = fields
        .iter()
        .map(|status| {
            assert_eq!(status.code(), Code::InvalidArgument, "{status:?}");
            let details = status.get_error_details();
            details.bad_request().unwrap().field_violations[0]
                .field
                .clone()
        })
        .collect();
    let expected = [
        "reservation_ids",
        "reservation_ids[0]",
        "resource",
        "after_revision",
    ];
    assert_eq!(named, expected);
}

#[test]
fn as_json_a_stream_is_refused_with_what_to_use_instead() {
    let sidecar = Sidecar::dev();
    for (method, instead) in [("Hold", "call Renew"), ("Watch", "call Inspect")] {
        let request = format!(
            "POST /fencepost.v1.CoordinationService/{method} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\
             content-type: application/json\r\ncontent-length: 2\r\n\r\n{{}}"
        );
        let answer = sidecar.raw(request.as_bytes());
        assert!(answer.starts_with("HTTP/1.1 501 "), "{answer}");
        assert!(
            answer.contains("\"unimplemented\"") && answer.contains(instead),
            "{answer}"
        );
    }
}
