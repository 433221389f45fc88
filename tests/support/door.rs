//! The two ways into a sidecar, with requests and answers as proto3 JSON for both.

use std::sync::LazyLock;
use std::time::Duration;

use fencepost::proto::v1;
use fencepost::proto::v1::coordination_service_client::CoordinationServiceClient;
use prost::Message;
use prost_reflect::{DescriptorPool, DynamicMessage, MessageDescriptor, SerializeOptions};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tonic::transport::Channel;
use tonic::{Code, Request, Status};
use tonic_types::StatusExt as _;

use super::process::Process;

const SERVICE: &str = "fencepost.v1.CoordinationService";
/// One way into one sidecar. Clones of a gRPC door share its connection.
#[derive(Clone, Debug)]
pub(crate) struct Door {
    way: Way,
    /// Told to the sidecar. A client of gRPC would end the call by itself at that very moment, so only JSON tells it.
    patience: Option<Duration>,
}

#[derive(Clone, Debug)]
enum Way {
    Grpc(CoordinationServiceClient<Channel>),
    Json(String),
}

/// An answer that is no answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Refusal {
    /// As the Connect protocol spells it.
    pub(crate) code: String,
    pub(crate) reason: String,
    /// The field to blame; empty if none is.
    pub(crate) field: String,
    pub(crate) message: String,
    /// Whether it says when to ask again.
    pub(crate) retry: bool,
}

impl Door {
    pub(crate) fn grpc(process: &Process) -> Self {
        Self::of(Way::Grpc(process.client()))
    }

    pub(crate) fn json(process: &Process) -> Self {
        Self::of(Way::Json(process.address().to_owned()))
    }

    fn of(way: Way) -> Self {
        Self {
            way,
            patience: None,
        }
    }

    /// The same, for a caller who waits no longer than this, if it can say so.
    pub(crate) fn within(&self, patience: Duration) -> Self {
        Self {
            patience: Some(patience),
            ..self.clone()
        }
    }

    /// Asks; fails the test if there is no answer.
    pub(crate) async fn ask(&self, method: &str, request: &Value) -> Value {
        let answer = self.try_ask(method, request).await;
        answer.unwrap_or_else(|refusal| panic!("{method} {request}: {refusal:?}"))
    }

    /// Asks; fails the test if there is an answer.
    pub(crate) async fn refused(&self, method: &str, request: &Value) -> Refusal {
        match self.try_ask(method, request).await {
            Ok(answer) => panic!("{method} {request}: {answer}"),
            Err(refusal) => refusal,
        }
    }

    pub(crate) async fn try_ask(&self, method: &str, request: &Value) -> Result<Value, Refusal> {
        match &self.way {
            Way::Grpc(client) => self.by_grpc(client.clone(), method, request).await,
            Way::Json(address) => self.by_json(address, method, request).await,
        }
    }

    async fn by_grpc(
        &self,
        mut client: CoordinationServiceClient<Channel>,
        method: &str,
        request: &Value,
    ) -> Result<Value, Refusal> {
        let (bytes, answer) = (encoded(method, request), message(method, "Response"));
        macro_rules! call {
            ($call:ident) => {{
                let request = Request::new(Message::decode(&bytes[..]).unwrap());
                let answer = client.$call(request).await;
                answer.map(|answer| answer.into_inner().encode_to_vec())
            }};
        }
        let bytes = match method {
            "Reserve" => call!(reserve),
            "Transition" => call!(transition),
            "Fence" => call!(fence),
            "Renew" => call!(renew),
            "Release" => call!(release),
            "Lookup" => call!(lookup),
            "Inspect" => call!(inspect),
            other => panic!("no call is named {other}"),
        };
        let bytes = bytes.map_err(|status| refusal_of(&status))?;
        let decoded = DynamicMessage::decode(answer, &bytes[..]).unwrap();
        let serializer = serde_json::value::Serializer;
        Ok(decoded
            .serialize_with_options(serializer, &SerializeOptions::new())
            .unwrap())
    }

    async fn by_json(
        &self,
        address: &str,
        method: &str,
        request: &Value,
    ) -> Result<Value, Refusal> {
        let body = request.to_string();
        let patience = self.patience.map(|patience| patience.as_millis());
        let patience = patience.map(|ms| format!("connect-timeout-ms: {ms}\r\n"));
        let patience = patience.unwrap_or_default();
        let head = format!(
            "POST /{SERVICE}/{method} HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n\
             content-type: application/json\r\n{patience}content-length: {}\r\n\r\n",
            body.len()
        );
        let mut stream = TcpStream::connect(address).await.unwrap();
        stream.write_all((head + &body).as_bytes()).await.unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        let body: Value = serde_json::from_str(body).unwrap_or_else(|_| panic!("{answer}"));
        if head.starts_with("HTTP/1.1 200 ") {
            return Ok(body);
        }
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let detail = |name: &str| {
            let all = body["details"].as_array().into_iter().flatten();
            all.into_iter()
                .find(|detail| detail["type"] == format!("google.rpc.{name}"))
                .map(|detail| detail["debug"].clone())
        };
        let bad = detail("BadRequest").unwrap_or_default();
        Err(Refusal {
            code: text(&body["code"]),
            reason: text(&detail("ErrorInfo").unwrap_or_default()["reason"]),
            field: text(&bad["fieldViolations"][0]["field"]),
            message: text(&body["message"]),
            retry: detail("RetryInfo").is_some(),
        })
    }
}

/// Read once: it takes so long that a caller with hundreds of calls under way would outlive its reservations.
static INTERFACE: LazyLock<DescriptorPool> =
    LazyLock::new(|| DescriptorPool::decode(v1::FILE_DESCRIPTOR_SET).unwrap());

fn message(method: &str, suffix: &str) -> MessageDescriptor {
    let name = format!("fencepost.v1.{method}{suffix}");
    INTERFACE.get_message_by_name(&name).unwrap()
}

/// A request as a client of gRPC sends it.
fn encoded(method: &str, request: &Value) -> Vec<u8> {
    let mut request = request.clone();
    // JSON libraries refuse durations that gRPC carries.
    let ttl = request.as_object_mut().and_then(|it| it.remove("ttl"));
    let read = DynamicMessage::deserialize(message(method, "Request"), request).unwrap();
    let mut bytes = read.encode_to_vec();
    if let Some(ttl) = ttl {
        let ttl = ttl.as_str().unwrap().strip_suffix('s').unwrap();
        let (seconds, part) = ttl.split_once('.').unwrap_or((ttl, ""));
        let sign = if ttl.starts_with('-') { -1 } else { 1 };
        let only_ttl = v1::ReserveRequest {
            ttl: Some(prost_types::Duration {
                seconds: seconds.parse().unwrap(),
                nanos: sign * format!("{part:0<9}").parse::<i32>().unwrap(),
            }),
            ..v1::ReserveRequest::default()
        };
        bytes.extend(only_ttl.encode_to_vec());
    }
    bytes
}

fn refusal_of(status: &Status) -> Refusal {
    let details = status.get_error_details();
    let info = details.error_info().map(|info| info.reason.clone());
    let bad = details
        .bad_request()
        .and_then(|bad| bad.field_violations.first());
    let code = match status.code() {
        Code::InvalidArgument => "invalid_argument",
        Code::ResourceExhausted => "resource_exhausted",
        Code::Unavailable => "unavailable",
        Code::DeadlineExceeded => "deadline_exceeded",
        Code::Aborted => "aborted",
        Code::DataLoss => "data_loss",
        other => panic!("{other:?} is no code of ours: {status:?}"),
    };
    Refusal {
        code: code.to_owned(),
        reason: info.unwrap_or_default(),
        field: bad.map(|bad| bad.field.clone()).unwrap_or_default(),
        message: status.message().to_owned(),
        retry: details.retry_info().is_some(),
    }
}

/// Two sidecars on one store, and both ways into each.
#[derive(Debug)]
pub(crate) struct House {
    pub(crate) sidecars: [Process; 2],
    /// Neighbours differ in the sidecar and in the way.
    pub(crate) doors: [Door; 4],
}

impl House {
    pub(crate) async fn on(url: &str, prefix: &str) -> Self {
        let sidecars = [
            Process::serve(url, prefix, &[]).await,
            Process::serve(url, prefix, &[]).await,
        ];
        let [one, two] = &sidecars;
        let doors = [
            Door::grpc(one),
            Door::json(two),
            Door::json(one),
            Door::grpc(two),
        ];
        Self { sidecars, doors }
    }

    /// One of the doors, in turn.
    pub(crate) fn door(&self, turn: usize) -> &Door {
        &self.doors[turn % 4]
    }
}

/// An order.
pub(crate) fn order(id: &str) -> Value {
    json!({"kind": "order", "id": id})
}
