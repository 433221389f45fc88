use std::time::Duration;

use fencepost::proto::v1 as pb;
use fencepost::proto::v1::coordination_service_client::CoordinationServiceClient;
use fencepost::proto::v1::operator_service_client::OperatorServiceClient;
use hyper_util::rt::TokioIo;
use tokio::net::UnixStream;
use tonic::transport::{Channel, Endpoint};
use tonic::{Code, Request, Status};
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_check_response::ServingStatus;
use tonic_health::pb::health_client::HealthClient;
use tonic_types::StatusExt as _;

use crate::sidecar::{PATIENCE, Sidecar};

/// The field that is to be named, and what is done to a good request.
type Broken<M> = (&'static str, fn(&mut M));

const SERVICE: &str = "fencepost.v1.CoordinationService";

async fn channel(sidecar: &Sidecar) -> Channel {
    let endpoint = Endpoint::from_shared(sidecar.url())
        .unwrap()
        .timeout(PATIENCE);
    endpoint.connect().await.unwrap()
}

async fn admin(sidecar: &Sidecar) -> Channel {
    let path = sidecar.admin_socket();
    let connector = tower::service_fn(move |_| {
        let path = path.clone();
        async move { UnixStream::connect(path).await.map(TokioIo::new) }
    });
    let endpoint = Endpoint::from_static("http://localhost");
    endpoint.connect_with_connector(connector).await.unwrap()
}

fn order() -> Option<pb::Resource> {
    Some(pb::Resource {
        kind: "order".into(),
        id: "1001".into(),
    })
}

fn fresh() -> String {
    uuid::Uuid::new_v4().to_string()
}

fn field(status: &Status) -> String {
    assert_eq!(status.code(), Code::InvalidArgument, "{status:?}");
    let details = status.get_error_details();
    assert_eq!(details.error_info().unwrap().reason, "INVALID_FIELD");
    details.bad_request().unwrap().field_violations[0]
        .field
        .clone()
}

#[tokio::test]
async fn no_duration_panics_the_sidecar_and_each_bad_one_names_its_field() {
    let sidecar = Sidecar::dev();
    let mut client = CoordinationServiceClient::new(channel(&sidecar).await);
    for (seconds, nanos) in [
        (0, -1),
        (1, -1),
        (-1, 1),
        (0, 1_000_000_000),
        (i64::MAX, 999_999_999),
        (i64::MIN, 0),
        (i64::MIN, i32::MIN),
        (0, 0),
        (2, 999_999_999),
        (86_400, 1),
    ] {
        let request = pb::ReserveRequest {
            resource: order(),
            request_id: fresh(),
            ttl: Some(prost_types::Duration { seconds, nanos }),
            ..Default::default()
        };
        let status = client.reserve(request).await.unwrap_err();
        assert_eq!(field(&status), "ttl", "({seconds}, {nanos})");
    }
    // It still serves.
    let status = client
        .inspect(pb::InspectRequest::default())
        .await
        .unwrap_err();
    assert_eq!(field(&status), "resource");
}

#[tokio::test]
async fn every_field_over_its_limit_is_refused_by_its_path() {
    let sidecar = Sidecar::dev();
    let mut client = CoordinationServiceClient::new(channel(&sidecar).await);
    let good = || pb::TransitionRequest {
        resource: order(),
        intent: Some(pb::Intent {
            operation_id: "pay".into(),
            content: Some(pb::intent::Content::Raw(Default::default())),
            r#move: Some(pb::Move::default()),
            ..Default::default()
        }),
        ..Default::default()
    };
    let named = |count: usize| {
        (0..count)
            .map(|n| (format!("n{n}"), "v".to_owned()))
            .collect()
    };
    let other = fencepost::domain::ids::ReservationId::new(
        fencepost::domain::ids::ResourceId::new(
            fencepost::domain::ids::Kind::parse("order").unwrap(),
            "other",
        )
        .unwrap(),
        fencepost::domain::ids::Nonce::from_bytes([1; 16]),
    );
    type Spoil = Box<dyn Fn(&mut pb::TransitionRequest)>;
    fn intent(spoil: impl Fn(&mut pb::Intent) + 'static) -> Spoil {
        Box::new(move |request| spoil(request.intent.as_mut().unwrap()))
    }
    fn result(result: pb::Result) -> Spoil {
        Box::new(move |request| request.result = Some(result.clone()))
    }
    let header = |name: &str, value: String| pb::Header {
        name: name.to_owned(),
        value,
    };
    let cases: Vec<(&str, Spoil)> = vec![
        ("resource", Box::new(|it| it.resource = None)),
        (
            "resource.kind",
            Box::new(|it| it.resource.as_mut().unwrap().kind = "a b".into()),
        ),
        (
            "resource.id",
            Box::new(|it| it.resource.as_mut().unwrap().id = "x".repeat(513)),
        ),
        ("intent", Box::new(|it| it.intent = None)),
        (
            "intent.operation_id",
            intent(|it| it.operation_id = " ".into()),
        ),
        ("intent.content", intent(|it| it.content = None)),
        (
            "intent.json",
            intent(|it| it.content = Some(pb::intent::Content::Json("{".into()))),
        ),
        (
            "intent.raw",
            intent(|it| it.content = Some(pb::intent::Content::Raw(vec![0; 1_048_577].into()))),
        ),
        (
            "intent.digest",
            intent(|it| it.content = Some(pb::intent::Content::Digest(vec![0; 15].into()))),
        ),
        ("intent.identity", intent(move |it| it.identity = named(9))),
        (
            "intent.identity[\"x\"]",
            intent(|it| it.identity = [("x".to_owned(), String::new())].into()),
        ),
        (
            "intent.from_states",
            intent(|it| it.from_states = vec!["s".into(); 17]),
        ),
        (
            "intent.from_states[1]",
            intent(|it| it.from_states = vec!["s".into(), "-".into()]),
        ),
        (
            "intent.from_states",
            intent(|it| {
                it.r#move = None;
                it.from_states = vec!["s".into()];
            }),
        ),
        (
            "intent.move.to_state",
            intent(|it| it.r#move.as_mut().unwrap().to_state = "a/b".into()),
        ),
        (
            "intent.move.initial_state",
            intent(|it| it.r#move.as_mut().unwrap().initial_state = "x".repeat(65)),
        ),
        (
            "intent.move.sets[\"é\"]",
            intent(|it| {
                it.r#move.as_mut().unwrap().sets = [("é".to_owned(), "v".to_owned())].into()
            }),
        ),
        (
            "reservation_id",
            Box::new(|it| it.reservation_id = "r1.x".into()),
        ),
        (
            "reservation_id",
            Box::new(move |it| it.reservation_id = other.to_string()),
        ),
        (
            "result.code",
            result(pb::Result {
                code: -1,
                ..Default::default()
            }),
        ),
        (
            "result.code",
            result(pb::Result {
                code: 1000,
                ..Default::default()
            }),
        ),
        (
            "result.body",
            result(pb::Result {
                body: vec![0; 65_537].into(),
                ..Default::default()
            }),
        ),
        (
            "result.content_type",
            result(pb::Result {
                content_type: "x".repeat(257),
                ..Default::default()
            }),
        ),
        (
            "result.headers",
            result(pb::Result {
                headers: vec![header("a", String::new()); 33],
                ..Default::default()
            }),
        ),
        (
            "result.headers",
            result(pb::Result {
                headers: vec![header("a", "x".repeat(8192))],
                ..Default::default()
            }),
        ),
        (
            "result.headers",
            result(pb::Result {
                headers: vec![header("", "x".into())],
                ..Default::default()
            }),
        ),
    ];
    for (path, spoil) in cases {
        let mut request = good();
        spoil(&mut request);
        let status = client.transition(request).await.unwrap_err();
        assert_eq!(field(&status), path, "{status:?}");
    }
    // Unspoilt, it gets past the reader.
    if let Err(status) = client.transition(good()).await {
        assert_ne!(status.code(), Code::InvalidArgument, "{status:?}");
    }
}

#[tokio::test]
async fn a_message_over_the_limit_is_refused_with_the_limit() {
    let sidecar = Sidecar::dev();
    let mut client = CoordinationServiceClient::new(channel(&sidecar).await);
    let request = pb::FenceRequest {
        resource: Some(pb::Resource {
            kind: "order".into(),
            id: "x".repeat(fencepost::transport::MESSAGE_BYTES_MAX),
        }),
        ..Default::default()
    };
    let status = client.fence(request).await.unwrap_err();
    assert_eq!(status.code(), Code::ResourceExhausted, "{status:?}");
    assert!(status.message().contains("the limit is"), "{status:?}");
}

#[tokio::test]
async fn a_deadline_that_cannot_be_read_is_refused_not_ignored() {
    let sidecar = Sidecar::dev();
    let mut client = CoordinationServiceClient::new(channel(&sidecar).await);
    let mut request = Request::new(pb::InspectRequest::default());
    request
        .metadata_mut()
        .insert("grpc-timeout", "soon".parse().unwrap());
    let status = client.inspect(request).await.unwrap_err();
    assert_eq!(field(&status), "header grpc-timeout");
}

#[tokio::test]
async fn health_is_served_for_the_sidecar_and_for_its_service() {
    let sidecar = Sidecar::dev();
    let mut client = HealthClient::new(channel(&sidecar).await);
    for service in ["", SERVICE] {
        let request = HealthCheckRequest {
            service: service.into(),
        };
        let answer = client.check(request).await.unwrap().into_inner();
        assert_eq!(answer.status(), ServingStatus::Serving, "{service:?}");
    }
    let request = HealthCheckRequest {
        service: "nobody".into(),
    };
    let status = client.check(request).await.unwrap_err();
    assert_eq!(status.code(), Code::NotFound);
}

#[tokio::test]
async fn reflection_names_what_this_port_serves_and_nothing_else() {
    use tonic_reflection::pb::v1::server_reflection_client::ServerReflectionClient;
    use tonic_reflection::pb::v1::server_reflection_request::MessageRequest;
    use tonic_reflection::pb::v1::server_reflection_response::MessageResponse;
    use tonic_reflection::pb::v1::{ListServiceResponse, ServerReflectionRequest};

    async fn ask(channel: Channel, question: MessageRequest) -> Option<MessageResponse> {
        let request = ServerReflectionRequest {
            host: String::new(),
            message_request: Some(question),
        };
        let mut client = ServerReflectionClient::new(channel);
        let answers = client.server_reflection_info(tokio_stream::iter([request]));
        let mut answers = answers.await.unwrap().into_inner();
        answers.message().await.unwrap().unwrap().message_response
    }
    fn names(list: ListServiceResponse) -> Vec<String> {
        list.service
            .into_iter()
            .map(|service| service.name)
            .collect()
    }
    let sidecar = Sidecar::dev();
    let list = || MessageRequest::ListServices(String::new());
    let Some(MessageResponse::ListServicesResponse(found)) =
        ask(channel(&sidecar).await, list()).await
    else {
        panic!("no list");
    };
    let found = names(found);
    assert!(found.contains(&SERVICE.to_owned()), "{found:?}");
    assert!(
        found.contains(&"grpc.health.v1.Health".to_owned()),
        "{found:?}"
    );
    assert!(
        !found.iter().any(|name| name.contains("Operator")),
        "{found:?}"
    );

    let Some(MessageResponse::ListServicesResponse(found)) =
        ask(admin(&sidecar).await, list()).await
    else {
        panic!("no list");
    };
    assert!(names(found).contains(&"fencepost.v1.OperatorService".to_owned()));

    for symbol in [SERVICE, "google.rpc.ErrorInfo", "grpc.health.v1.Health"] {
        let question = MessageRequest::FileContainingSymbol(symbol.into());
        let answer = ask(channel(&sidecar).await, question).await;
        assert!(
            matches!(answer, Some(MessageResponse::FileDescriptorResponse(_))),
            "{symbol}: {answer:?}"
        );
    }

    // The older version of the protocol, which many tools still speak.
    use tonic_reflection::pb::v1alpha as old;
    let request = old::ServerReflectionRequest {
        host: String::new(),
        message_request: Some(
            old::server_reflection_request::MessageRequest::ListServices(String::new()),
        ),
    };
    let mut client =
        old::server_reflection_client::ServerReflectionClient::new(channel(&sidecar).await);
    let answers = client.server_reflection_info(tokio_stream::iter([request]));
    let answer = answers.await.unwrap().into_inner().message().await.unwrap();
    assert!(answer.is_some());
}

#[tokio::test]
async fn the_operators_calls_are_on_the_admin_socket_only() {
    let sidecar = Sidecar::dev();
    let request = pb::ListIncidentsRequest {
        page_size: -1,
        ..Default::default()
    };
    let mut client = OperatorServiceClient::new(channel(&sidecar).await);
    let status = client.list_incidents(request.clone()).await.unwrap_err();
    assert_eq!(status.code(), Code::Unimplemented, "{status:?}");

    let mut client = OperatorServiceClient::new(admin(&sidecar).await);
    let status = client.list_incidents(request).await.unwrap_err();
    assert_eq!(field(&status), "page_size");
    let request = pb::ListIncidentsRequest {
        page_token: "???".into(),
        ..Default::default()
    };
    let status = client.list_incidents(request).await.unwrap_err();
    assert_eq!(field(&status), "page_token");

    let mut client = CoordinationServiceClient::new(admin(&sidecar).await);
    let status = client
        .inspect(pb::InspectRequest::default())
        .await
        .unwrap_err();
    assert_eq!(status.code(), Code::Unimplemented, "{status:?}");
}

#[tokio::test]
async fn age_validation_deliveries_and_counts_travel_the_wire() {
    let sidecar = Sidecar::dev();
    let mut client = CoordinationServiceClient::new(channel(&sidecar).await);
    let at = |seconds: i64| Some(prost_types::Timestamp { seconds, nanos: 0 });
    let pay = |operation: &str| pb::TransitionRequest {
        resource: order(),
        intent: Some(pb::Intent {
            operation_id: operation.into(),
            content: Some(pb::intent::Content::Raw(Default::default())),
            ..Default::default()
        }),
        ..Default::default()
    };
    let mut asked = pay("pay");
    asked.validate_only = true;
    for request in [asked, pay("pay"), pay("pay"), pay("pay")] {
        client.transition(request).await.unwrap();
    }
    let again = client.transition(pay("pay")).await.unwrap().into_inner();
    let again = again.decision.unwrap();
    assert_eq!(
        (again.verdict(), again.deliveries),
        (pb::Verdict::Replayed, 4)
    );

    let mut old = pay("old");
    old.intent.as_mut().unwrap().operation_time = at(1_000_000_000);
    let refused = client.transition(old.clone()).await.unwrap().into_inner();
    let refused = refused.decision.unwrap();
    assert_eq!(
        (refused.verdict(), refused.advice(), refused.layer()),
        (pb::Verdict::Expired, pb::Advice::Refuse, pb::Layer::Key)
    );
    assert!(!refused.incident_id.is_empty());
    old.intent.as_mut().unwrap().operation_time = at(100_000_000_000);
    let status = client.transition(old).await.unwrap_err();
    assert_eq!(field(&status), "intent.operation_time");
    let lookup = |operation_time| pb::LookupRequest {
        resource: order(),
        operation_id: "old".into(),
        operation_time,
        wait: None,
    };
    let known = client.lookup(lookup(at(1_000_000_000))).await.unwrap();
    assert_eq!(known.into_inner().state(), pb::OperationState::Expired);
    let known = client.lookup(lookup(None)).await.unwrap();
    assert_eq!(known.into_inner().state(), pb::OperationState::NeverSeen);
    let status = client.lookup(lookup(at(-1))).await.unwrap_err();
    assert_eq!(field(&status), "operation_time");

    let mut client = OperatorServiceClient::new(admin(&sidecar).await);
    let counts = client.get_counts(pb::GetCountsRequest {}).await.unwrap();
    let counts = counts.into_inner();
    let given: Vec<_> = counts.counts[0]
        .verdicts
        .iter()
        .map(|given| (given.verdict(), given.count))
        .collect();
    assert_eq!(
        given,
        [
            (pb::Verdict::Applied, 1),
            (pb::Verdict::Replayed, 3),
            (pb::Verdict::Expired, 1)
        ]
    );
    assert_eq!(counts.counts[0].deliveries, 5);
    assert!(counts.start_time.is_some() && counts.other.is_none());
}

#[tokio::test]
async fn a_resolution_is_read_strictly_and_named_in_what_everybody_is_told_after() {
    let sidecar = Sidecar::dev();
    let mut client = CoordinationServiceClient::new(channel(&sidecar).await);
    let mut operator = OperatorServiceClient::new(admin(&sidecar).await);
    let intent = pb::Intent {
        operation_id: "pay".into(),
        content: Some(pb::intent::Content::Raw("15.00".into())),
        ..Default::default()
    };
    let claim = pb::ReserveRequest {
        resource: order(),
        request_id: fresh(),
        intent: Some(intent.clone()),
        ..Default::default()
    };
    let claimed = client.reserve(claim.clone()).await.unwrap().into_inner();
    let round = claimed.reservation.unwrap();
    assert_eq!(round.attempt, 1);
    let good = || pb::ResolveOperationRequest {
        resource: order(),
        operation_id: "pay".into(),
        finding: pb::Finding::Done.into(),
        result: Some(pb::Result {
            body: "receipt".into(),
            ..Default::default()
        }),
        resolver: "alice".into(),
        reason: "in the provider's books".into(),
        attempt: 1,
        even_if_running: true,
    };
    let broken: [Broken<pb::ResolveOperationRequest>; 8] = [
        ("resource", |ask| ask.resource = None),
        ("operation_id", |ask| ask.operation_id.clear()),
        ("finding", |ask| ask.finding = 0),
        ("finding", |ask| ask.finding = 77),
        ("result", |ask| ask.finding = pb::Finding::NotDone.into()),
        ("resolver", |ask| ask.resolver.clear()),
        ("reason", |ask| ask.reason = "  ".into()),
        ("attempt", |ask| ask.attempt = -1),
    ];
    for (named, break_it) in broken {
        let mut ask = good();
        break_it(&mut ask);
        let status = operator.resolve_operation(ask).await.unwrap_err();
        assert_eq!(field(&status), named);
    }
    let resolved = operator
        .resolve_operation(good())
        .await
        .unwrap()
        .into_inner();
    assert_eq!(resolved.decision.unwrap().rule, "RESOLVED");
    let again = client.reserve(claim).await.unwrap().into_inner();
    let decision = again.decision.unwrap();
    assert_eq!(decision.verdict(), pb::Verdict::Replayed);
    assert_eq!(&decision.result.unwrap().body[..], b"receipt");
    let told = decision.explanation;
    assert!(told.contains("alice") && told.contains("books"), "{told}");
    let late = pb::TransitionRequest {
        resource: order(),
        reservation_id: round.reservation_id,
        ..Default::default()
    };
    let late = client.transition(late).await.unwrap().into_inner();
    assert_eq!(late.decision.unwrap().verdict(), pb::Verdict::Fenced);
}

#[tokio::test]
async fn what_belongs_together_in_reserve_and_transition_is_asked_for_together() {
    let sidecar = Sidecar::dev();
    let mut client = CoordinationServiceClient::new(channel(&sidecar).await);
    let plain = pb::ReserveRequest {
        resource: order(),
        request_id: fresh(),
        ..Default::default()
    };
    let held = client.reserve(plain).await.unwrap().into_inner();
    let reservation_id = held.reservation.unwrap().reservation_id;
    let ride = || pb::ReserveRequest {
        resource: order(),
        request_id: fresh(),
        reservation_id: reservation_id.clone(),
        intent: Some(pb::Intent {
            operation_id: "pay".into(),
            content: Some(pb::intent::Content::Raw("15.00".into())),
            ..Default::default()
        }),
        ..Default::default()
    };
    let broken: [Broken<pb::ReserveRequest>; 5] = [
        ("intent", |ask| ask.intent = None),
        ("ttl", |ask| {
            ask.ttl = Some(prost_types::Duration {
                seconds: 30,
                nanos: 0,
            })
        }),
        ("holder", |ask| ask.holder = "me".into()),
        ("reservation_id", |ask| ask.reservation_id = "r1.x".into()),
        ("intent.content", |ask| {
            ask.intent.as_mut().unwrap().content = None;
        }),
    ];
    for (named, break_it) in broken {
        let mut ask = ride();
        break_it(&mut ask);
        let status = client.reserve(ask).await.unwrap_err();
        assert_eq!(field(&status), named);
    }
    let neither = pb::TransitionRequest {
        resource: order(),
        ..Default::default()
    };
    let no_claim = pb::TransitionRequest {
        reservation_id: reservation_id.clone(),
        ..neither.clone()
    };
    let nothing_to_release = pb::TransitionRequest {
        intent: ride().intent,
        release: Some(true),
        ..neither.clone()
    };
    for (named, ask) in [
        ("intent", neither),
        ("intent", no_claim),
        ("release", nothing_to_release),
    ] {
        let status = client.transition(ask).await.unwrap_err();
        assert_eq!(field(&status), named);
    }
    let ridden = client.reserve(ride()).await.unwrap().into_inner();
    assert_eq!(ridden.reservation.unwrap().reservation_id, reservation_id);
}

#[tokio::test]
async fn several_resources_are_asked_for_by_their_own_rules() {
    let sidecar = Sidecar::dev();
    let mut client = CoordinationServiceClient::new(channel(&sidecar).await);
    let seat = |id: usize| pb::Resource {
        kind: "seat".into(),
        id: id.to_string(),
    };
    let good = || pb::ReserveRequest {
        resource: order(),
        also: (1..16).map(seat).collect(),
        request_id: fresh(),
        ..Default::default()
    };
    let second = prost_types::Duration {
        seconds: 1,
        nanos: 0,
    };
    let long = pb::Resource {
        kind: "seat".into(),
        id: "x".repeat(513),
    };
    let mut cases: Vec<(&str, pb::ReserveRequest)> = Vec::new();
    let mut case = |named, spoil: &dyn Fn(&mut pb::ReserveRequest)| {
        let mut ask = good();
        spoil(&mut ask);
        cases.push((named, ask));
    };
    case("also", &|ask| ask.also.push(seat(16)));
    case("also", &|ask| ask.also[7] = seat(3));
    case("also", &|ask| ask.also[0] = order().unwrap());
    case("also[2].kind", &|ask| ask.also[2].kind = "a b".into());
    case("also[14].id", &|ask| ask.also[14] = long.clone());
    case("also", &|ask| ask.intent = Some(pb::Intent::default()));
    case("also", &|ask| ask.reservation_id = "r1.x".into());
    case("wait", &|ask| {
        ask.wait = Some(prost_types::Duration {
            seconds: 601,
            nanos: 0,
        });
    });
    case("ttl", &|ask| ask.ttl = Some(second));
    for (named, ask) in cases {
        let status = client.reserve(ask).await.unwrap_err();
        assert_eq!(field(&status), named, "{status:?}");
    }
    let held = client.reserve(good()).await.unwrap().into_inner();
    let round = held.reservation.unwrap();
    let intent = || pb::Intent {
        operation_id: "count".into(),
        content: Some(pb::intent::Content::Raw(Default::default())),
        ..Default::default()
    };
    let ride = pb::ReserveRequest {
        also: Vec::new(),
        reservation_id: round.reservation_id.clone(),
        intent: Some(intent()),
        ..good()
    };
    let status = client.reserve(ride).await.unwrap_err();
    assert_eq!(field(&status), "reservation_id");
    let moves = |resource| pb::TransitionRequest {
        resource,
        reservation_id: round.reservation_id.clone(),
        intent: Some(intent()),
        ..Default::default()
    };
    let ends = pb::TransitionRequest {
        release: Some(true),
        ..moves(order())
    };
    let no_claim = pb::TransitionRequest {
        intent: None,
        ..moves(order())
    };
    for (named, ask) in [("release", ends), ("intent", no_claim)] {
        let status = client.transition(ask).await.unwrap_err();
        assert_eq!(field(&status), named);
    }
    for resource in [order(), Some(seat(1)), Some(seat(15))] {
        let ran = client.transition(moves(resource)).await.unwrap();
        let ran = ran.into_inner().decision.unwrap();
        assert_eq!(ran.verdict(), pb::Verdict::Applied, "{ran:?}");
    }
    let busy = pb::ReserveRequest {
        resource: Some(seat(99)),
        also: vec![seat(4)],
        request_id: fresh(),
        ..Default::default()
    };
    let busy = client.reserve(busy).await.unwrap().into_inner();
    let busy = busy.decision.unwrap();
    assert_eq!(busy.verdict(), pb::Verdict::Busy);
    assert!(busy.explanation.contains("seat/4"), "{busy:?}");
    assert_eq!(busy.now.unwrap().resource, Some(seat(4)));
    let release = pb::ReleaseRequest {
        reservation_id: round.reservation_id,
        ..Default::default()
    };
    let ended = client.release(release).await.unwrap().into_inner();
    assert_eq!(ended.decision.unwrap().verdict(), pb::Verdict::Applied);
    let next = client.reserve(good()).await.unwrap().into_inner();
    assert!(next.reservation.unwrap().token > round.token);
}

#[tokio::test]
async fn a_method_that_nobody_knows_is_unimplemented_in_grpc() {
    let sidecar = Sidecar::dev();
    let mut grpc = tonic::client::Grpc::new(channel(&sidecar).await);
    tokio::time::timeout(Duration::from_secs(5), grpc.ready())
        .await
        .unwrap()
        .unwrap();
    let codec = tonic_prost::ProstCodec::<pb::FenceRequest, pb::FenceResponse>::default();
    let path = http::uri::PathAndQuery::from_static("/fencepost.v1.CoordinationService/Nothing");
    let status = grpc
        .unary(Request::new(pb::FenceRequest::default()), path, codec)
        .await
        .unwrap_err();
    assert_eq!(status.code(), Code::Unimplemented);
}

/// Sends a body as it is; the answer's headers, its message, and its trailers.
async fn raw(
    channel: &Channel,
    encoding: Option<&'static str>,
    body: Vec<u8>,
) -> (http::HeaderMap, Vec<u8>, http::HeaderMap) {
    let mut request = http::Request::post(format!("/{SERVICE}/Inspect"))
        .header("content-type", "application/grpc")
        .header("te", "trailers");
    if let Some(encoding) = encoding {
        request = request.header("grpc-encoding", encoding);
    }
    let body = tonic::body::Body::new(http_body_util::Full::from(body));
    let mut channel = channel.clone();
    std::future::poll_fn(|cx| tower::Service::poll_ready(&mut channel, cx))
        .await
        .unwrap();
    let answer = tower::Service::call(&mut channel, request.body(body).unwrap());
    let (head, body) = answer.await.unwrap().into_parts();
    assert_eq!(head.status, 200);
    let body = http_body_util::BodyExt::collect(body).await.unwrap();
    let trailers = body.trailers().cloned().unwrap_or_default();
    (head.headers, body.to_bytes().to_vec(), trailers)
}

#[tokio::test]
async fn what_is_no_whole_and_plain_message_is_refused_and_an_answer_is_one() {
    let sidecar = Sidecar::dev();
    let channel = channel(&sidecar).await;
    let asked = pb::InspectRequest {
        resource: order(),
        ..Default::default()
    };
    let message = prost::Message::encode_to_vec(&asked);
    let framed = |flag: u8, length: usize| {
        let length = u32::try_from(length).unwrap().to_be_bytes();
        [&[flag][..], &length, &message].concat()
    };
    let whole = framed(0, message.len());

    for encoding in [None, Some("identity")] {
        let (headers, answer, trailers) = raw(&channel, encoding, whole.clone()).await;
        assert_eq!(headers["content-type"], "application/grpc");
        assert!(!headers.contains_key("grpc-status"), "{headers:?}");
        assert_eq!(trailers["grpc-status"], "0");
        let (frame, answer) = answer.split_first_chunk::<5>().unwrap();
        assert_eq!(frame[0], 0);
        assert_eq!(
            frame[1..],
            u32::try_from(answer.len()).unwrap().to_be_bytes()
        );
        let answer: pb::InspectResponse = prost::Message::decode(answer).unwrap();
        assert_eq!(answer.snapshot.unwrap().resource, order());
    }

    let code = |code: Code| i32::from(code).to_string();
    let (headers, ..) = raw(&channel, Some("gzip"), whole.clone()).await;
    assert_eq!(headers["grpc-status"], code(Code::Unimplemented));
    assert_eq!(headers["grpc-accept-encoding"], "identity");
    let invalid = code(Code::InvalidArgument);
    for (body, expected) in [
        (framed(1, message.len()), code(Code::Internal)),
        (framed(0, message.len() + 1), invalid.clone()),
        (framed(0, message.len() - 1), invalid.clone()),
        ([whole.clone(), whole.clone()].concat(), invalid.clone()),
        (whole[..4].to_vec(), invalid.clone()),
        // A field that ends before its length.
        (vec![0, 0, 0, 0, 2, 0x0a, 0x7f], invalid),
    ] {
        let (headers, answer, _) = raw(&channel, None, body.clone()).await;
        assert_eq!(headers["grpc-status"], expected.as_str(), "{body:?}");
        assert!(answer.is_empty());
    }
}
