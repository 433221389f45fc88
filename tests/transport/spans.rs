//! No span and no point in time panics the sidecar, at either door: each one out of its limits is refused by its field.

use fencepost::proto::v1 as pb;
use fencepost::proto::v1::coordination_service_client::CoordinationServiceClient;
use prost_types::{Duration, Timestamp};
use serde_json::{Value, json};
use tonic::transport::{Channel, Endpoint};
use tonic::{Code, Status};
use tonic_types::StatusExt as _;

use crate::sidecar::Sidecar;

/// No spans at all, or far beyond every limit: seconds and nanoseconds.
const SPANS: [(i64, i32); 8] = [
    (0, -1),
    (1, -1),
    (-1, 1),
    (0, 1_000_000_000),
    (1, i32::MAX),
    (i64::MAX, 999_999_999),
    (i64::MIN, 0),
    (i64::MIN, i32::MIN),
];
/// No points in time, or none that a calendar has.
const TIMES: [(i64, i32); 6] = [
    (0, -1),
    (0, 1_000_000_000),
    (1, i32::MIN),
    (i64::MAX, 999_999_999),
    (i64::MIN, 0),
    (i64::MIN, i32::MIN),
];
/// The same for JSON, and what is no span there.
const SPANS_IN_JSON: [&str; 10] = [
    "-0.000000001s",
    "-1s",
    "9223372036854775807.999999999s",
    "-9223372036854775808s",
    "99999999999999999999s",
    "1",
    "s",
    "",
    "1e3s",
    "NaNs",
];
const TIMES_IN_JSON: [&str; 6] = [
    "",
    "yesterday",
    "2026-01-01",
    "2026-01-01T00:00:00",
    "2026-13-01T00:00:00Z",
    "99999-01-01T00:00:00Z",
];

/// Every field of a request that is a span or a point in time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Field {
    ReserveTtl,
    ReserveWait,
    ReserveTime,
    TransitionWait,
    TransitionTime,
    LookupWait,
    LookupTime,
}

impl Field {
    const SPANS: [Self; 4] = [
        Self::ReserveTtl,
        Self::ReserveWait,
        Self::TransitionWait,
        Self::LookupWait,
    ];
    const TIMES: [Self; 3] = [Self::ReserveTime, Self::TransitionTime, Self::LookupTime];

    fn path(self) -> &'static str {
        match self {
            Self::ReserveTtl => "ttl",
            Self::ReserveWait | Self::TransitionWait | Self::LookupWait => "wait",
            Self::ReserveTime | Self::TransitionTime => "intent.operation_time",
            Self::LookupTime => "operation_time",
        }
    }

    fn method(self) -> &'static str {
        match self {
            Self::ReserveTtl | Self::ReserveWait | Self::ReserveTime => "Reserve",
            Self::TransitionWait | Self::TransitionTime => "Transition",
            Self::LookupWait | Self::LookupTime => "Lookup",
        }
    }

    /// A good request but for this field.
    fn json(self, value: &str) -> Value {
        let resource = json!({"kind": "order", "id": "1001"});
        let intent = json!({"operationId": "pay", "raw": ""});
        let mut ask = match self.method() {
            "Reserve" => {
                let request = uuid::Uuid::new_v4().to_string();
                json!({"resource": resource, "requestId": request, "intent": intent})
            }
            "Transition" => json!({"resource": resource, "intent": intent}),
            _ => json!({"resource": resource, "operationId": "pay"}),
        };
        match self {
            Self::ReserveTtl => ask["ttl"] = json!(value),
            Self::ReserveWait | Self::TransitionWait | Self::LookupWait => {
                ask["wait"] = json!(value);
            }
            Self::ReserveTime | Self::TransitionTime => {
                ask["intent"]["operationTime"] = json!(value);
            }
            Self::LookupTime => ask["operationTime"] = json!(value),
        }
        ask
    }

    async fn refused(
        self,
        client: &mut CoordinationServiceClient<Channel>,
        (seconds, nanos): (i64, i32),
    ) -> Status {
        let span = Some(Duration { seconds, nanos });
        let time = Some(Timestamp { seconds, nanos });
        let resource = Some(pb::Resource {
            kind: "order".into(),
            id: "1001".into(),
        });
        let intent = |operation_time| {
            Some(pb::Intent {
                operation_id: "pay".into(),
                content: Some(pb::intent::Content::Raw(Vec::new().into())),
                operation_time,
                ..pb::Intent::default()
            })
        };
        let is = |field| self == field;
        match self.method() {
            "Reserve" => {
                let ask = pb::ReserveRequest {
                    resource,
                    request_id: uuid::Uuid::new_v4().to_string(),
                    ttl: span.filter(|_| is(Self::ReserveTtl)),
                    wait: span.filter(|_| is(Self::ReserveWait)),
                    intent: intent(time.filter(|_| is(Self::ReserveTime))),
                    ..pb::ReserveRequest::default()
                };
                client.reserve(ask).await.unwrap_err()
            }
            "Transition" => {
                let ask = pb::TransitionRequest {
                    resource,
                    wait: span.filter(|_| is(Self::TransitionWait)),
                    intent: intent(time.filter(|_| is(Self::TransitionTime))),
                    ..pb::TransitionRequest::default()
                };
                client.transition(ask).await.unwrap_err()
            }
            _ => {
                let ask = pb::LookupRequest {
                    resource,
                    operation_id: "pay".into(),
                    wait: span.filter(|_| is(Self::LookupWait)),
                    operation_time: time.filter(|_| is(Self::LookupTime)),
                };
                client.lookup(ask).await.unwrap_err()
            }
        }
    }
}

/// No span or time of a request is forgotten above.
#[test]
fn every_span_and_time_of_a_request_is_tried() {
    let proto = include_str!("../../proto/fencepost/v1/coordination.proto");
    let mut message = "";
    let mut found = Vec::new();
    for line in proto.lines() {
        if let Some(rest) = line.strip_prefix("message ") {
            message = rest.split(' ').next().unwrap();
        }
        let field = line.trim_start().strip_prefix("google.protobuf.");
        if let Some(field) = field
            && (message.ends_with("Request") || message == "Intent")
        {
            found.push(format!("{message}.{}", field.split(' ').nth(1).unwrap()));
        }
    }
    found.sort();
    let tried = [
        "Intent.operation_time",
        "LookupRequest.operation_time",
        "LookupRequest.wait",
        "ReserveRequest.ttl",
        "ReserveRequest.wait",
        "TransitionRequest.wait",
    ];
    assert_eq!(found, tried);
}

#[tokio::test]
async fn over_grpc_each_span_and_time_out_of_its_limits_is_refused_by_its_field() {
    let sidecar = Sidecar::dev();
    let endpoint = Endpoint::from_shared(sidecar.url()).unwrap();
    let mut client = CoordinationServiceClient::new(endpoint.connect().await.unwrap());
    let spans = Field::SPANS
        .iter()
        .flat_map(|field| SPANS.map(|bad| (*field, bad)));
    let times = Field::TIMES
        .iter()
        .flat_map(|field| TIMES.map(|bad| (*field, bad)));
    let least = [(0, 0), (2, 999_999_999), (86_400, 1)].map(|bad| (Field::ReserveTtl, bad));
    for (field, bad) in spans.chain(times).chain(least) {
        let status = field.refused(&mut client, bad).await;
        assert_eq!(
            status.code(),
            Code::InvalidArgument,
            "{field:?} {bad:?}: {status:?}"
        );
        let details = status.get_error_details();
        let blamed = &details.bad_request().unwrap().field_violations[0].field;
        assert_eq!(blamed, field.path(), "{field:?} {bad:?}");
    }
}

#[test]
fn over_json_each_span_and_time_out_of_its_limits_is_refused_by_its_field() {
    let sidecar = Sidecar::dev();
    let spans = Field::SPANS
        .iter()
        .flat_map(|field| SPANS_IN_JSON.map(|bad| (*field, bad)));
    let times = Field::TIMES
        .iter()
        .flat_map(|field| TIMES_IN_JSON.map(|bad| (*field, bad)));
    let least = ["0s", "2.999999999s", "86400.000000001s"].map(|bad| (Field::ReserveTtl, bad));
    for (field, bad) in spans.chain(times).chain(least) {
        let (code, answer) = super::json::call(&sidecar, field.method(), &field.json(bad));
        assert_eq!(code, 400, "{field:?} {bad:?}: {answer}");
        // A value that cannot be read is blamed as it was written, one that is out of its limits as the interface names it.
        let blamed = super::json::field(&answer).replace("operationTime", "operation_time");
        assert_eq!(blamed, field.path(), "{field:?} {bad:?}");
    }
}
