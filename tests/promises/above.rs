//! `fencepost admin start-timeline --above TOKEN`, from the command line to the next token, on real processes.

use std::process::Output;

use fencepost::proto::v1::operator_service_client::OperatorServiceClient;
use fencepost::proto::v1::{GetTimelineRequest, StartTimelineRequest};
use serde_json::{Value, json};
use tokio::net::UnixStream;
use tonic::Code;
use tonic::transport::{Channel, Endpoint};
use tonic_types::StatusExt as _;
use tower::service_fn;

use crate::support::backend::Backend;
use crate::support::bounded;
use crate::support::door::Door;
use crate::support::process::Process;

/// The largest token there can be, and the largest that may be given.
const TOKEN_MAX: i64 = (1 << 53) - 1;
const ABOVE_MAX: i64 = 3 << 51;
/// Far above whatever clocks say before the year 2100.
const SEEN: i64 = 1 << 52;

/// Runs `fencepost admin start-timeline` against a sidecar.
async fn start(sidecar: &Process, words: &[&str]) -> Output {
    let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_fencepost"));
    command.args(["admin", "start-timeline", "--reason", "restored"]);
    command.args(words);
    command.arg("--admin-socket").arg(sidecar.admin_socket());
    let run = tokio::task::spawn_blocking(move || command.output().unwrap());
    run.await.unwrap()
}

async fn operator(sidecar: &Process) -> OperatorServiceClient<Channel> {
    let path = sidecar.admin_socket();
    let endpoint = Endpoint::from_static("http://localhost");
    let connect = service_fn(move |_| {
        let path = path.clone();
        async move {
            let stream = UnixStream::connect(path).await;
            stream.map(hyper_util::rt::TokioIo::new)
        }
    });
    OperatorServiceClient::new(endpoint.connect_with_connector(connect).await.unwrap())
}

async fn base(sidecar: &Process) -> i64 {
    let mut operator = operator(sidecar).await;
    let now = operator.get_timeline(GetTimelineRequest {});
    now.await.unwrap().into_inner().timeline.unwrap().base
}

/// Reserves, and answers the token.
async fn granted(door: &Door, request: u64) -> i64 {
    let ask = json!({
        "resource": {"kind": "seat", "id": "1"},
        "requestId": format!("00000000-0000-4000-8000-{request:012}"),
        "ttl": "30s",
    });
    let answer = door.ask("Reserve", &ask).await;
    let token = answer["reservation"]["token"].as_str();
    token.unwrap_or_else(|| panic!("{answer}")).parse().unwrap()
}

async fn refused(door: &Door, token: i64) -> Value {
    let ask = json!({"resource": {"kind": "seat", "id": "1"}, "token": token.to_string()});
    door.ask("Fence", &ask).await["decision"].clone()
}

async fn what_is_no_token_is_refused_and_the_next_token_is_above_the_one_given(backend: Backend) {
    let sidecar = Process::serve(&backend.url().await, backend.prefix(), &[]).await;
    let door = Door::json(&sidecar);
    let before = granted(&door, 1).await;
    let first = base(&sidecar).await;

    // On the command line.
    let too_large = (TOKEN_MAX + 1).to_string();
    for bad in ["0", "-1", "x", "", "1e9", &too_large] {
        let said = start(&sidecar, &[&format!("--above={bad}")]).await;
        let error = String::from_utf8_lossy(&said.stderr).into_owned();
        assert_eq!(said.status.code(), Some(2), "{bad}: {error}");
        assert!(error.contains("--above"), "{bad}: {error}");
    }
    // It could be a token, and leaves no room for the next ones.
    let said = start(&sidecar, &["--above", &(ABOVE_MAX + 1).to_string()]).await;
    let error = String::from_utf8_lossy(&said.stderr).into_owned();
    assert_eq!(said.status.code(), Some(65), "{error}");
    assert!(error.contains(&ABOVE_MAX.to_string()), "{error}");
    // Over the wire, whoever asks.
    for bad in [-1, i64::MIN, TOKEN_MAX + 1, i64::MAX, ABOVE_MAX + 1] {
        let mut operator = operator(&sidecar).await;
        let asked = operator.start_timeline(StartTimelineRequest {
            reason: "restored".to_owned(),
            above: bad,
            started_by: String::new(),
        });
        let status = asked.await.unwrap_err();
        assert_eq!(status.code(), Code::InvalidArgument, "{bad}: {status:?}");
        let details = status.get_error_details();
        let fields = &details.bad_request().unwrap().field_violations;
        assert_eq!(fields[0].field, "above", "{bad}");
    }
    assert_eq!(base(&sidecar).await, first, "nothing was started");

    let said = start(&sidecar, &["--above", &SEEN.to_string()]).await;
    let error = String::from_utf8_lossy(&said.stderr).into_owned();
    assert!(said.status.success(), "{error}");
    let after = granted(&door, 2).await;
    assert!(after > SEEN, "{after}");
    for old in [before, SEEN] {
        let decision = refused(&door, old).await;
        assert_eq!(decision["verdict"], "VERDICT_FENCED", "{old}: {decision}");
        assert_eq!(decision["rule"], "OLDER_TIMELINE", "{old}: {decision}");
    }
    // One that is too small lowers nothing.
    let said = start(&sidecar, &["--above", "1"]).await;
    assert!(said.status.success());
    assert!(granted(&door, 3).await > after);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_token_that_somebody_has_seen_is_never_granted_again() {
    for backend in [Backend::real().await, Backend::embedded()] {
        let judged = what_is_no_token_is_refused_and_the_next_token_is_above_the_one_given(backend);
        bounded(Box::pin(judged)).await;
    }
}
