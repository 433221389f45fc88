//! Callers that begin to say something and do not end: they hold up neither others nor a stop, and are let go in time.

use std::io::{Read, Write};
use std::pin::Pin;
use std::time::Duration;

use bytes::Bytes;
use fencepost::engine::Boottime;
use fencepost::proto::v1 as pb;
use fencepost::proto::v1::coordination_service_client::CoordinationServiceClient;
use futures_util::future::join_all;
use futures_util::{StreamExt as _, poll, stream};
use http_body::Frame;
use http_body_util::{BodyExt as _, StreamBody};
use rustix::process::Signal;
use tokio::task::unconstrained;
use tonic::body::Body;
use tonic::transport::{Channel, Endpoint};
use tonic::{Code, Status};
use tonic_types::StatusExt as _;
use tower::{Service as _, ServiceExt as _};

use crate::sidecar::{PATIENCE, Sidecar};

/// Calls on one connection: room is left for one that is answered at once.
const CALLS_PER_CONNECTION: usize = 250;
/// Calls under way that a sidecar has room for.
const CALLS_UNDER_WAY_MAX: usize = 4096;
/// Half-sent calls of each kind at a stop.
const HALF_SENT: usize = 1000;
/// Of them as JSON, those that come on connections of their own.
const ALONE: usize = 200;
/// How long a call may take whose caller says nothing about it.
const DEADLINE_DEFAULT: Duration = Duration::from_secs(10);
/// How long a stop may take that has nothing to wait for.
const STOP_BOUND: Duration = Duration::from_secs(5);
/// What a machine that is busy with other tests may take on top.
const SLACK: Duration = Duration::from_secs(8);

const INSPECT: &str = "/fencepost.v1.CoordinationService/Inspect";

type Answer = Pin<Box<dyn Future<Output = (http::response::Parts, String)>>>;

/// In which form a call is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    Grpc,
    Json,
}

impl Form {
    fn named(self) -> &'static str {
        match self {
            Self::Grpc => "application/grpc",
            Self::Json => "application/json",
        }
    }

    /// The header by which a caller says that it waits for a minute.
    fn minute(self) -> (&'static str, &'static str) {
        match self {
            Self::Grpc => ("grpc-timeout", "1M"),
            Self::Json => ("connect-timeout-ms", "60000"),
        }
    }

    /// How a message begins.
    fn beginning(self) -> Bytes {
        match self {
            Self::Grpc => Bytes::from_static(b"\0\0\0\0\x0c\x0a"),
            Self::Json => Bytes::from_static(b"{\"resource\":"),
        }
    }
}

async fn connected(sidecar: &Sidecar) -> Channel {
    let endpoint = Endpoint::from_shared(sidecar.url()).unwrap();
    endpoint.connect().await.unwrap()
}

/// A call whose message begins and does not end.
fn half_sent(channel: &Channel, form: Form, deadline: Option<(&str, &str)>) -> Answer {
    let mut request = http::Request::post(INSPECT)
        .header("content-type", form.named())
        .header("te", "trailers");
    if let Some((name, value)) = deadline {
        request = request.header(name, value);
    }
    let first = stream::iter([Ok::<_, Status>(Frame::data(form.beginning()))]);
    let body = StreamBody::new(first.chain(stream::pending()));
    let request = request.body(Body::new(body)).unwrap();
    let mut channel = channel.clone();
    // Else only the first so many of those that are begun at once would be sent.
    Box::pin(unconstrained(async move {
        let answer = channel.ready().await.unwrap().call(request);
        let (head, body) = answer.await.unwrap().into_parts();
        let body = body.collect().await.unwrap().to_bytes();
        (head, String::from_utf8(body.to_vec()).unwrap())
    }))
}

/// So many, on as many connections as they need; the sidecar has them all when this returns.
async fn all_half_sent(
    sidecar: &Sidecar,
    forms: &[Form],
    count: usize,
    said: fn(Form) -> Option<(&'static str, &'static str)>,
) -> (Vec<(Form, Answer)>, Vec<Channel>) {
    let (mut calls, mut channels) = (Vec::new(), Vec::new());
    while calls.len() < count {
        let channel = connected(sidecar).await;
        for at in 0..CALLS_PER_CONNECTION.min(count - calls.len()) {
            let form = forms[at % forms.len()];
            let mut call = half_sent(&channel, form, said(form));
            assert!(poll!(call.as_mut()).is_pending());
            calls.push((form, call));
        }
        // On the same connection, behind all of them. It is answered, or told that there is no room.
        drop(inspected(&channel).await);
        channels.push(channel);
    }
    (calls, channels)
}

async fn inspected(channel: &Channel) -> Result<(), Status> {
    let request = pb::InspectRequest {
        resource: Some(pb::Resource {
            kind: "order".into(),
            id: "1".into(),
        }),
        ..Default::default()
    };
    let mut client = CoordinationServiceClient::new(channel.clone());
    client.inspect(request).await.map(drop)
}

fn reason_of(status: &Status) -> String {
    let details = status.get_error_details();
    details.error_info().unwrap().reason.clone()
}

/// What is told to a call that did not end its message.
fn told(form: Form, (head, body): &(http::response::Parts, String)) -> String {
    match form {
        Form::Grpc => {
            let status = Status::from_header_map(&head.headers);
            reason_of(&status.unwrap_or_else(|| panic!("{head:?}: {body}")))
        }
        Form::Json => {
            let answer: serde_json::Value = serde_json::from_str(body).unwrap();
            let mut details = answer["details"].as_array().unwrap().iter();
            let reason = details.find_map(|detail| detail["debug"]["reason"].as_str());
            reason.unwrap().to_owned()
        }
    }
}

/// Waits until all are told this.
async fn all_told(calls: Vec<(Form, Answer)>, reason: &str) {
    let answers = calls.into_iter();
    let answers = join_all(answers.map(async |(form, call)| (form, call.await)));
    let answers = tokio::time::timeout(PATIENCE, answers).await;
    for (form, answer) in answers.expect("they are told in time") {
        assert_eq!(told(form, &answer), reason, "{form:?}: {answer:?}");
    }
}

#[tokio::test]
async fn thousands_who_do_not_end_their_messages_hold_up_nobody_and_no_stop() {
    let sidecar = Sidecar::dev_with(&["--drain-limit", "1h"], &[]);
    let forms = [Form::Grpc, Form::Json];
    let (mut calls, channels) =
        all_half_sent(&sidecar, &forms, 2 * HALF_SENT, |form| Some(form.minute())).await;
    let mut alone: Vec<_> = (0..ALONE).map(|_| sidecar.connect()).collect();
    for line in &mut alone {
        let (name, value) = Form::Json.minute();
        let head = format!(
            "POST {INSPECT} HTTP/1.1\r\nhost: x\r\nexpect: 100-continue\r\ncontent-type: application/json\r\n\
             {name}: {value}\r\ncontent-length: 40\r\n\r\n"
        );
        line.write_all(head.as_bytes()).unwrap();
        // The call is under way once its body is asked for.
        let mut asked = [0; 25];
        line.read_exact(&mut asked).unwrap();
        assert_eq!(&asked, b"HTTP/1.1 100 Continue\r\n\r\n");
        line.write_all(b"{").unwrap();
    }
    for (form, call) in &mut calls {
        assert!(poll!(call.as_mut()).is_pending(), "{form:?}");
    }
    for channel in &channels {
        inspected(channel).await.unwrap();
    }

    let begun = Boottime::now();
    sidecar.signal(Signal::TERM);
    all_told(calls, "STOPPING").await;
    for line in &mut alone {
        let mut answer = String::new();
        line.read_to_string(&mut answer).unwrap();
        assert!(answer.starts_with("HTTP/1.1 503 "), "{answer}");
        assert!(answer.contains("STOPPING"), "{answer}");
    }
    let (status, _, log, _) = sidecar.ended();
    assert_eq!(status.code(), Some(0), "{log}");
    assert!(log.contains("every call was answered"), "{log}");
    let took = Boottime::now().since(begun);
    assert!(took < STOP_BOUND, "{took:?}");
}

#[tokio::test]
async fn messages_that_do_not_end_give_their_places_back_at_a_deadline_that_nobody_named() {
    let sidecar = Sidecar::dev();
    let forms = [Form::Grpc, Form::Json];
    let begun = Boottime::now();
    let (calls, channels) = all_half_sent(&sidecar, &forms, CALLS_UNDER_WAY_MAX, |_| None).await;
    let sent = Boottime::now();
    let full = inspected(&channels[0]).await.unwrap_err();
    assert_eq!(full.code(), Code::ResourceExhausted, "{full:?}");
    assert_eq!(reason_of(&full), "OVERLOADED");
    assert!(full.get_error_details().retry_info().is_some());

    all_told(calls, "DEADLINE_PASSED").await;
    let took = Boottime::now().since(begun);
    assert!(took >= DEADLINE_DEFAULT, "{took:?}");
    let took = Boottime::now().since(sent);
    assert!(took < DEADLINE_DEFAULT + SLACK, "{took:?}");
    for channel in &channels {
        inspected(channel).await.unwrap();
    }
}

/// What a caller says, and how long it is listened to: named as in `server::connections`.
struct Unfinished {
    what: &'static str,
    says: Vec<u8>,
    /// Said again and again.
    drips: &'static [u8],
    within: Duration,
}

#[test]
fn whoever_does_not_end_its_greeting_or_its_headers_is_hung_up_on() {
    const GREETING_LIMIT: Duration = Duration::from_secs(10);
    const HEADERS_LIMIT: Duration = Duration::from_secs(30);
    /// A ping after 30 s of silence, which has 10 s to be answered.
    const PING_LIMIT: Duration = Duration::from_secs(40);
    /// How often a drop falls.
    const DRIP: Duration = Duration::from_millis(500);
    let sidecar = Sidecar::dev();
    let http1 = format!("POST {INSPECT} HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\n");
    let preface = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0";
    // HEADERS of stream 1, one field of them, and more to come (no END_HEADERS).
    let http2 = [&preface[..], b"\0\0\x01\x01\0\0\0\0\x01\x83"].concat();
    let unfinished = |what, says: &[u8], drips, within| Unfinished {
        what,
        says: says.to_vec(),
        drips,
        within,
    };
    let all = [
        unfinished("says nothing", b"", b"", GREETING_LIMIT),
        unfinished("half a greeting", b"PRI * HT", b"", GREETING_LIMIT),
        unfinished("half its headers", http1.as_bytes(), b"", HEADERS_LIMIT),
        unfinished(
            "a header now and then",
            http1.as_bytes(),
            b"a: b\r\n",
            HEADERS_LIMIT,
        ),
        unfinished("half a frame of headers", &http2, b"", PING_LIMIT),
        // An empty CONTINUATION of the same headers.
        unfinished(
            "a frame now and then",
            &http2,
            b"\0\0\0\x09\0\0\0\0\x01",
            PING_LIMIT,
        ),
    ];
    let ends = all.map(|one| {
        let mut line = sidecar.connect();
        std::thread::spawn(move || {
            let begun = Boottime::now();
            line.write_all(&one.says).unwrap();
            line.set_read_timeout(Some(DRIP)).unwrap();
            let mut some = [0; 1024];
            loop {
                let took = Boottime::now().since(begun);
                assert!(took < one.within + SLACK, "{} is still heard", one.what);
                match line.read(&mut some) {
                    Ok(0) => return,
                    Ok(_) => {}
                    Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {
                        // It may have been hung up on, which the next read tells.
                        let _ = line.write_all(one.drips);
                    }
                    Err(_) => return,
                }
            }
        })
    });
    for end in ends {
        end.join().unwrap();
    }
    // Whoever ends what it says is answered.
    let whole = format!(
        "{http1}connection: close\r\ncontent-length: 41\r\n\r\n{{\"resource\":{{\"kind\":\"order\",\"id\":\"1001\"}}}}"
    );
    let answer = sidecar.raw(whole.as_bytes());
    assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
}
