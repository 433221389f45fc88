//! The commands as a person or a script runs them: the real binary, its output and its exit code.
#![allow(
    clippy::as_conversions,
    clippy::unwrap_used,
    clippy::wildcard_enum_match_arm,
    missing_docs
)]

use std::io::{BufRead, BufReader, Lines, Write};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::Duration;

use fencepost::engine::Boottime;
use fencepost::proto::v1 as pb;
use fencepost::proto::v1::operator_service_server::{OperatorService, OperatorServiceServer};
use fencepost::proto::v1::{
    Advice, CloseIncidentRequest, CloseIncidentResponse, Count, Decision, Finding,
    GetCountsRequest, GetCountsResponse, GetIncidentRequest, GetIncidentResponse, Incident,
    ListIncidentsRequest, ListIncidentsResponse, ResolveOperationRequest, ResolveOperationResponse,
    Resource, Verdict, VerdictCount,
};
use fencepost::server::{Running, start_dev};
use serde_json::Value;
use tokio::net::{TcpListener, UnixListener};
use tokio_stream::wrappers::UnixListenerStream;
use tonic::{Request, Response, Status, async_trait};

struct Said {
    exit: i32,
    out: String,
    err: String,
}

impl Said {
    fn json(&self) -> Value {
        assert_eq!(
            self.out.lines().count(),
            1,
            "one message, one line: {}",
            self.out
        );
        serde_json::from_str(&self.out).unwrap()
    }
}

/// A command with a clean environment, its words, and what it reads from standard input.
fn command(words: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_fencepost"));
    for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("FENCEPOST_")) {
        command.env_remove(name);
    }
    command.args(words);
    command
}

fn run(mut command: Command, input: &str) -> Said {
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // A command that does not read its input may be gone already.
    let _ = child.stdin.take().unwrap().write_all(input.as_bytes());
    let output = child.wait_with_output().unwrap();
    Said {
        exit: output.status.code().unwrap(),
        out: String::from_utf8(output.stdout).unwrap(),
        err: String::from_utf8(output.stderr).unwrap(),
    }
}

async fn fencepost(words: &[&str]) -> Said {
    let command = command(words);
    tokio::task::spawn_blocking(move || run(command, ""))
        .await
        .unwrap()
}

/// A sidecar, and commands that ask it.
struct Sidecar(Running);

impl Sidecar {
    async fn start() -> Self {
        Self(start_dev("127.0.0.1:0".parse().unwrap()).await.unwrap())
    }

    fn addr(&self) -> String {
        self.0.addr().to_string()
    }

    async fn run(&self, words: &[&str]) -> Said {
        self.run_with_input(words, "").await
    }

    async fn run_with_input(&self, words: &[&str], input: &str) -> Said {
        let mut command = command(words);
        command.env("FENCEPOST_ADDR", self.addr());
        let input = input.to_owned();
        tokio::task::spawn_blocking(move || run(command, &input))
            .await
            .unwrap()
    }

    async fn reserve(&self, words: &[&str]) -> (String, String) {
        let said = self
            .run(&[&["reserve", "-o", "json"], words].concat())
            .await;
        assert_eq!(said.exit, 0, "{}{}", said.out, said.err);
        let reservation = &said.json()["reservation"];
        let text = |name: &str| reservation[name].as_str().unwrap().to_owned();
        (text("reservationId"), text("token"))
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_round_can_be_reserved_renewed_fenced_and_released() {
    let sidecar = Sidecar::start().await;
    let (round, token) = sidecar.reserve(&["order", "1"]).await;
    assert_eq!(sidecar.run(&["fence", "order", "1", &token]).await.exit, 0);
    assert_eq!(sidecar.run(&["renew", &round]).await.exit, 0);
    let busy = sidecar.run(&["reserve", "order", "1"]).await;
    assert_eq!(busy.exit, 10, "{}", busy.out);
    assert!(busy.out.starts_with("advice"), "{}", busy.out);
    assert!(
        busy.out.contains("RETRY") && busy.out.contains("BUSY"),
        "{}",
        busy.out
    );
    assert_eq!(sidecar.run(&["release", &round]).await.exit, 0);
    let ended = sidecar.run(&["fence", "order", "1", &token]).await;
    assert_eq!(ended.exit, 12, "{}", ended.out);
    let last = sidecar
        .run(&["fence", "order", "1", &token, "--even-if-ended"])
        .await;
    assert_eq!(last.exit, 0, "{}", last.out);
    assert_eq!(sidecar.run(&["renew", &round]).await.exit, 12);
}

#[tokio::test(flavor = "multi_thread")]
async fn several_resources_are_reserved_and_released_as_one() {
    let sidecar = Sidecar::start().await;
    // An id may have slashes of its own.
    let all = ["room", "9", "--also", "seat/row/7", "--also", "seat/8"];
    let (round, token) = sidecar.reserve(&all).await;
    for (kind, id) in [("room", "9"), ("seat", "row/7"), ("seat", "8")] {
        let good = sidecar.run(&["fence", kind, id, &token]).await;
        assert_eq!(good.exit, 0, "{}", good.out);
    }
    // Whichever is asked for, the others are told.
    for (kind, id, others) in [
        ("room", "9", "seat/8, seat/row/7"),
        ("seat", "8", "room/9, seat/row/7"),
        ("seat", "row/7", "room/9, seat/8"),
    ] {
        let shown = sidecar.run(&["inspect", kind, id]).await.out;
        let row = format!("together with  {others}\n");
        assert!(shown.contains(&row), "{shown}");
    }
    let busy = sidecar
        .run(&["reserve", "seat", "1", "--also", "seat/row/7"])
        .await;
    assert_eq!(busy.exit, 10, "{}", busy.out);
    assert!(busy.out.contains("seat/row/7"), "{}", busy.out);
    assert_eq!(sidecar.run(&["renew", &round]).await.exit, 0);
    assert_eq!(sidecar.run(&["release", &round]).await.exit, 0);
    let (_, next) = sidecar.reserve(&["seat", "8"]).await;
    assert!(next.parse::<u64>().unwrap() > token.parse().unwrap());
    for odd in ["seat", "/8", "seat/"] {
        let refused = sidecar.run(&["reserve", "room", "9", "--also", odd]).await;
        assert_eq!(refused.exit, 2, "{}", refused.err);
        assert!(refused.err.contains("is not kind/id"), "{}", refused.err);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_same_request_id_gets_the_same_reservation() {
    let sidecar = Sidecar::start().await;
    let same = [
        "order",
        "1",
        "--request-id",
        "6f1c2c0e-4d0f-4a0c-9f65-0a4f7d1f3a11",
    ];
    let first = sidecar.reserve(&same).await;
    assert_eq!(sidecar.reserve(&same).await.1, first.1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_transition_is_applied_replayed_and_in_conflict_with_another_content() {
    let sidecar = Sidecar::start().await;
    let dir = tempfile::tempdir().unwrap();
    let body = dir.path().join("body.json");
    std::fs::write(&body, r#"{"amount": 10}"#).unwrap();
    let body = format!("@{}", body.display());
    let pay = [
        "transition",
        "order",
        "1",
        "--operation",
        "evt-1",
        "--initial",
        "pending",
        "--from",
        "pending",
        "--to",
        "paid",
        "--set",
        "payer=ann",
        "--result",
        "receipt 7",
        "--result-code",
        "200",
        "--result-header",
        "A: b",
    ];
    let first = sidecar.run(&[&pay[..], &["--json", &body]].concat()).await;
    assert_eq!(first.exit, 0, "{}{}", first.out, first.err);
    assert!(first.out.contains("APPLIED"), "{}", first.out);
    assert!(
        first.out.contains("200 | A: b | receipt 7"),
        "{}",
        first.out
    );
    let again = [&pay[..], &["--json", "-", "-o", "json"]].concat();
    let again = sidecar.run_with_input(&again, r#"{"amount":10.0}"#).await;
    assert_eq!(again.exit, 0, "{}", again.err);
    let decision = &again.json()["decision"];
    assert_eq!(decision["verdict"], "VERDICT_REPLAYED");
    assert_eq!(decision["result"]["body"], "cmVjZWlwdCA3");
    let other = sidecar
        .run(&[&pay[..], &["--json", r#"{"amount": 11}"#]].concat())
        .await;
    assert_eq!(other.exit, 11, "{}", other.out);
    assert!(
        other.out.contains("CONFLICT") && other.out.contains("incident"),
        "{}",
        other.out
    );
    let seen = sidecar.run(&["inspect", "order", "1"]).await;
    assert_eq!(seen.exit, 0);
    assert!(seen.out.contains("payer=ann"), "{}", seen.out);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_only_asked_for_reads_as_what_would_be_and_is_not_done() {
    let sidecar = Sidecar::start().await;
    let pay = [
        "transition",
        "order",
        "1",
        "--operation",
        "k",
        "--initial",
        "open",
        "--to",
        "paid",
    ];
    let only = [&pay[..], &["--validate-only"]].concat();
    let told = sidecar.run(&only).await;
    assert_eq!(told.exit, 0, "{}{}", told.out, told.err);
    for part in [
        "would be ACKNOWLEDGE; nothing was written",
        "would be APPLIED",
        "nothing was written; the answer would be: the move was made",
    ] {
        assert!(told.out.contains(part), "{part}: {}", told.out);
    }
    let only = [&only[..], &["-o", "json"]].concat();
    let told = sidecar.run(&only).await.json();
    assert_eq!(told["decision"]["validateOnly"], true);
    let made = sidecar.run(&pay).await;
    assert!(made.out.contains("APPLIED"), "{}", made.out);
    assert!(!made.out.contains("would be"), "{}", made.out);
}

#[tokio::test(flavor = "multi_thread")]
async fn lookup_tells_never_seen_from_done_and_empty() {
    let sidecar = Sidecar::start().await;
    let never = sidecar.run(&["lookup", "order", "1", "evt-1"]).await;
    assert_eq!(never.exit, 13);
    assert!(never.out.contains("NEVER_SEEN"));
    let once = sidecar
        .run(&["transition", "order", "1", "--operation", "evt-1", "--once"])
        .await;
    assert_eq!(once.exit, 0, "{}", once.err);
    let done = sidecar.run(&["lookup", "order", "1", "evt-1"]).await;
    assert_eq!(done.exit, 0);
    assert!(done.out.contains("DONE_EMPTY"), "{}", done.out);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_that_can_never_work_says_which_field_and_exits_65() {
    let sidecar = Sidecar::start().await;
    let short = sidecar.run(&["reserve", "order", "1", "--ttl", "1s"]).await;
    assert_eq!(short.exit, 65, "{}", short.err);
    assert!(short.err.contains("ttl"), "{}", short.err);
    assert!(
        !short.err.contains("--request-id"),
        "nothing was done, so there is nothing to ask about: {}",
        short.err
    );
    // Parts of a second, and nanoseconds taken for seconds, come back with the limit.
    for (ttl, limit) in [
        ("500ms", "the least is 3s"),
        ("1ns", "the least is 3s"),
        ("999999999ns", "the least is 3s"),
        ("1500ms", "the least is 3s"),
        ("0s", "the least is 3s"),
        ("9000000001s", "the most is 86400"),
        ("86400000000000s", "the most is 86400"),
        ("9223372036854775807s", "the most is 86400"),
    ] {
        let said = sidecar.run(&["reserve", "order", "1", "--ttl", ttl]).await;
        assert_eq!(said.exit, 65, "{ttl}: {}", said.err);
        assert!(said.err.contains("ttl"), "{ttl}: {}", said.err);
        assert!(said.err.contains(limit), "{ttl}: {}", said.err);
    }
    let free = sidecar.run(&["inspect", "order", "1"]).await;
    assert!(free.out.contains("never written"), "{}", free.out);
    assert_eq!(sidecar.run(&["inspect", "order", ""]).await.exit, 65);
    assert_eq!(sidecar.run(&["fence", "order", "1", "-1"]).await.exit, 65);
}

#[tokio::test(flavor = "multi_thread")]
async fn without_a_sidecar_the_command_says_how_to_start_one_and_exits_69() {
    let closed = TcpListener::bind("127.0.0.1:0")
        .await
        .unwrap()
        .local_addr()
        .unwrap();
    let said = fencepost(&["inspect", "order", "1", "--addr", &closed.to_string()]).await;
    assert_eq!(said.exit, 69);
    assert!(
        said.err.contains(&format!("http://{closed}")),
        "{}",
        said.err
    );
    assert!(said.err.contains("fencepost dev"), "{}", said.err);
    assert_eq!(said.out, "");
    let socket = "/nonexistent/admin.sock";
    let said = fencepost(&["incidents", "--admin-socket", socket]).await;
    assert_eq!(said.exit, 69);
    assert!(said.err.contains(socket), "{}", said.err);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_sidecar_that_falls_silent_leaves_an_unknown_outcome_and_the_id_to_ask_again_with() {
    let silent = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let addr = silent.local_addr().unwrap().to_string();
    let words = [
        "reserve",
        "order",
        "1",
        "--addr",
        &addr,
        "--timeout",
        "300ms",
    ];
    let said = fencepost(&words).await;
    assert_eq!(said.exit, 75, "{}", said.err);
    assert!(said.err.contains("--request-id "), "{}", said.err);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_connection_that_breaks_leaves_an_unknown_outcome() {
    let breaking = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let addr = breaking.local_addr().unwrap().to_string();
    let server = tokio::spawn(async move {
        loop {
            let (stream, _) = breaking.accept().await.unwrap();
            stream.readable().await.unwrap();
        }
    });
    let said = fencepost(&[
        "transition",
        "order",
        "1",
        "--operation",
        "k",
        "--once",
        "--addr",
        &addr,
    ])
    .await;
    server.abort();
    assert_eq!(said.exit, 75, "{}", said.err);
    assert!(said.err.contains("same ids"), "{}", said.err);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_be_meant_exits_2_and_says_what_to_write() {
    let cases: [(&[&str], &str); 11] = [
        (&["inspect", "order"], "<ID>"),
        (&["fence", "order", "1", "x"], "`reserve` answered"),
        (&["inspect", "order", "1", "--timeout", "10"], "unit"),
        (&["reserve", "order", "1", "--ttl", "30"], "30s"),
        (&["reserve", "order", "1", "--request-id", "x"], "UUID"),
        (
            &["inspect", "order", "1", "--addr", "tcp://h:1"],
            "host:port",
        ),
        (&["transition", "order", "1"], "--operation"),
        (
            &["transition", "order", "1", "--operation", "k"],
            "--to STATE",
        ),
        (
            &[
                "transition",
                "order",
                "1",
                "--operation",
                "k",
                "--identity",
                "x",
            ],
            "name=value",
        ),
        (
            &[
                "transition",
                "order",
                "1",
                "--operation",
                "k",
                "--digest",
                "xy",
            ],
            "hexadecimal",
        ),
        (
            &[
                "transition",
                "order",
                "1",
                "--operation",
                "k",
                "--once",
                "--json",
                "@/nonexistent",
            ],
            "/nonexistent",
        ),
    ];
    for (words, hint) in cases {
        let said = fencepost(words).await;
        assert_eq!(said.exit, 2, "{words:?}: {}", said.err);
        assert!(said.err.contains(hint), "{words:?}: {}", said.err);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn variables_of_kubernetes_and_empty_ones_change_nothing() {
    let sidecar = Sidecar::start().await;
    let mut command = command(&["inspect", "order", "1"]);
    command.env("FENCEPOST_ADDR", sidecar.addr());
    for (name, value) in [
        ("FENCEPOST_PORT", "tcp://10.0.0.1:7411"),
        ("FENCEPOST_SERVICE_HOST", "10.0.0.1"),
        ("FENCEPOST_SERVICE_PORT", "7411"),
        ("FENCEPOST_PORT_7411_TCP_ADDR", "10.0.0.1"),
        // Empty is how templates say "not set".
        ("FENCEPOST_TIMEOUT", ""),
        ("FENCEPOST_OUTPUT", ""),
    ] {
        command.env(name, value);
    }
    let said = tokio::task::spawn_blocking(move || run(command, ""))
        .await
        .unwrap();
    assert_eq!(said.exit, 0, "{}", said.err);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_flag_may_come_as_a_variable_and_wins_over_it() {
    let sidecar = Sidecar::start().await;
    let transition = |words: &[&str], variables: &[(&str, &str)]| {
        let mut command = command(&[&["transition", "order", "1", "-o", "json"], words].concat());
        command.env("FENCEPOST_ADDR", sidecar.addr());
        command.envs(variables.iter().copied());
        tokio::task::spawn_blocking(move || run(command, ""))
    };
    let set = [
        ("FENCEPOST_OPERATION", "evt-1"),
        ("FENCEPOST_INITIAL", "pending"),
        ("FENCEPOST_FROM", "pending"),
        ("FENCEPOST_TO", "paid"),
        ("FENCEPOST_SET", "payer=ann"),
        ("FENCEPOST_RESULT", "receipt"),
        ("FENCEPOST_STAY", "false"),
    ];
    let first = transition(&[], &set).await.unwrap();
    assert_eq!(first.exit, 0, "{}", first.err);
    let decision = &first.json()["decision"];
    assert_eq!(decision["verdict"], "VERDICT_APPLIED");
    assert_eq!(decision["now"]["state"], "paid");
    let other = transition(&["--operation", "evt-2"], &set).await.unwrap();
    assert_eq!(other.json()["decision"]["verdict"], "VERDICT_SUPERSEDED");
    let two = transition(
        &["--raw", "x"],
        &[("FENCEPOST_OPERATION", "k"), ("FENCEPOST_JSON", "1")],
    );
    let two = two.await.unwrap();
    assert_eq!(two.exit, 2, "two contents: {}", two.err);
}

#[tokio::test(flavor = "multi_thread")]
async fn help_names_the_exit_codes_that_the_command_has() {
    let cases: [(&[&str], &[u8]); 8] = [
        (
            &["--help"],
            &[
                0, 1, 2, 10, 11, 12, 13, 14, 65, 69, 70, 75, 78, 126, 127, 130, 134, 143,
            ],
        ),
        (
            &["exec", "--help"],
            &[2, 10, 11, 12, 14, 65, 69, 70, 75, 126, 127],
        ),
        (
            &["transition", "--help"],
            &[0, 2, 10, 11, 12, 65, 69, 70, 75],
        ),
        (&["lookup", "-h"], &[0, 2, 10, 11, 13, 65, 69, 70, 75]),
        (&["reserve", "--help"], &[0, 2, 10, 11, 12, 65, 69, 70, 75]),
        (&["resolve", "--help"], &[0, 2, 10, 11, 65, 69, 70, 75]),
        (&["release", "--help"], &[0, 2, 65, 69, 70, 75]),
        (&["serve", "--help"], &[0, 1, 2, 78, 130, 134, 143]),
    ];
    for (words, codes) in cases {
        let said = fencepost(words).await;
        assert_eq!(said.exit, 0);
        let (_, told) = said.out.split_once("Exit codes:").unwrap();
        let told: Vec<u8> = told
            .lines()
            .filter_map(|line| line.split_whitespace().next()?.parse().ok())
            .collect();
        assert_eq!(told, codes, "{words:?}: {}", said.out);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn proto_files_are_written_and_never_overwritten_unasked() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().join("deep/er");
    let words = ["proto", root.to_str().unwrap()];
    assert_eq!(fencepost(&words).await.exit, 0);
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("proto/fencepost/v1");
    let read = |folder: &Path, name: &str| std::fs::read_to_string(folder.join(name)).unwrap();
    let written = root.join("fencepost/v1");
    for entry in std::fs::read_dir(&source).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        assert_eq!(read(&written, &name), read(&source, &name), "{name}");
    }
    assert_eq!(
        fencepost(&words).await.exit,
        0,
        "the same again is no error"
    );
    std::fs::write(written.join("decision.proto"), "mine").unwrap();
    std::fs::remove_file(written.join("coordination.proto")).unwrap();
    let refused = fencepost(&words).await;
    assert_eq!(refused.exit, 2);
    assert!(refused.err.contains("--force"), "{}", refused.err);
    assert_eq!(read(&written, "decision.proto"), "mine");
    assert!(
        !written.join("coordination.proto").exists(),
        "it looks before it writes"
    );
    let forced = fencepost(&[words[0], words[1], "--force"]).await;
    assert_eq!(forced.exit, 0);
    assert_eq!(
        read(&written, "decision.proto"),
        read(&source, "decision.proto")
    );
}

/// Three incidents on two pages, and a few counts.
struct TwoPages;

/// Three machines on two pages; of kind "loop" the second page is itself the next.
fn machines(kind: &str, page_token: &str) -> Result<(Vec<pb::Machine>, String), Status> {
    let (versions, next): (&[i32], &str) = match (page_token, kind) {
        ("", _) => (&[1, 2], "more"),
        ("more", "loop") => (&[3], "more"),
        ("more", _) => (&[3], ""),
        (other, _) => return Err(Status::invalid_argument(other)),
    };
    let machine = |version: &i32| pb::Machine {
        kind: kind.to_owned(),
        version: *version,
        ..pb::Machine::default()
    };
    Ok((versions.iter().map(machine).collect(), next.to_owned()))
}

#[async_trait]
impl OperatorService for TwoPages {
    async fn get_counts(
        &self,
        _: Request<GetCountsRequest>,
    ) -> Result<Response<GetCountsResponse>, Status> {
        let given = |verdict: Verdict, count| VerdictCount {
            verdict: verdict.into(),
            count,
        };
        Ok(Response::new(GetCountsResponse {
            start_time: Some(prost_types::Timestamp {
                seconds: 7,
                nanos: 0,
            }),
            counts: vec![Count {
                kind: "order".into(),
                event: String::new(),
                deliveries: 3,
                verdicts: vec![given(Verdict::Applied, 1), given(Verdict::Replayed, 2)],
            }],
            other: None,
            narrow_keys: 2,
            ..GetCountsResponse::default()
        }))
    }

    async fn list_incidents(
        &self,
        request: Request<ListIncidentsRequest>,
    ) -> Result<Response<ListIncidentsResponse>, Status> {
        let incident = |id: &str| Incident {
            incident_id: id.into(),
            resource: Some(Resource {
                kind: "order".into(),
                id: "1\u{1b}[2J".into(),
            }),
            verdict: Verdict::Conflict.into(),
            rule: "OTHER_CONTENT".into(),
            ..Incident::default()
        };
        let (ids, next): (&[&str], &str) = match request.into_inner().page_token.as_str() {
            "" => (&["one", "two"], "more"),
            "more" => (&["three"], ""),
            other => return Err(Status::invalid_argument(other)),
        };
        Ok(Response::new(ListIncidentsResponse {
            incidents: ids.iter().map(|id| incident(id)).collect(),
            next_page_token: next.into(),
        }))
    }

    async fn get_incident(
        &self,
        _: Request<GetIncidentRequest>,
    ) -> Result<Response<GetIncidentResponse>, Status> {
        Err(Status::unimplemented("it only lists"))
    }

    async fn close_incident(
        &self,
        _: Request<CloseIncidentRequest>,
    ) -> Result<Response<CloseIncidentResponse>, Status> {
        Err(Status::unimplemented("it only lists"))
    }

    async fn apply_machine(
        &self,
        _: Request<pb::ApplyMachineRequest>,
    ) -> Result<Response<pb::ApplyMachineResponse>, Status> {
        Err(Status::unimplemented("it only lists"))
    }

    async fn list_machines(
        &self,
        request: Request<pb::ListMachinesRequest>,
    ) -> Result<Response<pb::ListMachinesResponse>, Status> {
        let (machines, next_page_token) = machines("order", &request.into_inner().page_token)?;
        Ok(Response::new(pb::ListMachinesResponse {
            machines,
            next_page_token,
        }))
    }

    async fn get_machine(
        &self,
        _: Request<pb::GetMachineRequest>,
    ) -> Result<Response<pb::GetMachineResponse>, Status> {
        Err(Status::unimplemented("it only lists"))
    }

    async fn list_machine_versions(
        &self,
        request: Request<pb::ListMachineVersionsRequest>,
    ) -> Result<Response<pb::ListMachineVersionsResponse>, Status> {
        let request = request.into_inner();
        let (machines, next_page_token) = machines(&request.kind, &request.page_token)?;
        Ok(Response::new(pb::ListMachineVersionsResponse {
            machines,
            next_page_token,
        }))
    }

    async fn explain_resource(
        &self,
        request: Request<pb::ExplainResourceRequest>,
    ) -> Result<Response<pb::ExplainResourceResponse>, Status> {
        let known = request.into_inner().operation_id.is_empty();
        let sentence = |topic: pb::Topic, text: &str| pb::Sentence {
            topic: topic.into(),
            text: text.into(),
        };
        Ok(Response::new(pb::ExplainResourceResponse {
            snapshot: None,
            sentences: vec![
                sentence(pb::Topic::State, "One.\u{1b}[2J\nTwo."),
                sentence(pb::Topic::State, "Three."),
                sentence(pb::Topic::Next, "Four."),
            ],
            known,
            queue: None,
        }))
    }

    async fn start_timeline(
        &self,
        request: Request<pb::StartTimelineRequest>,
    ) -> Result<Response<pb::StartTimelineResponse>, Status> {
        let asked = request.into_inner();
        if asked.above == 0 {
            return Err(Status::aborted("somebody else"));
        }
        Ok(Response::new(pb::StartTimelineResponse {
            timeline: Some(pb::Timeline {
                timeline_id: asked.reason,
                base: asked.above,
                min_token: asked.above + 1,
            }),
            ended_reservations: 3,
        }))
    }

    async fn get_timeline(
        &self,
        _: Request<pb::GetTimelineRequest>,
    ) -> Result<Response<pb::GetTimelineResponse>, Status> {
        Ok(Response::new(pb::GetTimelineResponse {
            timeline: Some(pb::Timeline {
                timeline_id: "now".into(),
                base: 10,
                min_token: 0,
            }),
            halted: "it went\u{1b}[2J back".into(),
            halt_time: None,
            starts: vec![pb::TimelineStart {
                timeline_id: "before".into(),
                started_by: "ann".into(),
                reason: "a disk was lost".into(),
                ..pb::TimelineStart::default()
            }],
        }))
    }

    /// Tells in the explanation what it was asked.
    async fn resolve_operation(
        &self,
        request: Request<ResolveOperationRequest>,
    ) -> Result<Response<ResolveOperationResponse>, Status> {
        let asked = request.into_inner();
        let decision = Decision {
            advice: match asked.finding() {
                Finding::Refused => Advice::Refuse.into(),
                _ => Advice::Acknowledge.into(),
            },
            explanation: format!("{asked:?}"),
            ..Decision::default()
        };
        Ok(Response::new(ResolveOperationResponse {
            decision: Some(decision),
        }))
    }
}

/// Serves them until the test ends.
fn operator(directory: &Path) -> String {
    let socket = directory.join("admin.sock");
    let listener = UnixListener::bind(&socket).unwrap();
    let serving = tonic::transport::Server::builder()
        .add_service(OperatorServiceServer::new(TwoPages))
        .serve_with_incoming(UnixListenerStream::new(listener));
    tokio::spawn(serving);
    socket.to_str().unwrap().to_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn counts_are_told_with_what_they_are_made_of() {
    let dir = tempfile::tempdir().unwrap();
    let socket = operator(dir.path());
    let table = fencepost(&["counts", "--admin-socket", &socket]).await;
    assert_eq!(table.exit, 0, "{}", table.err);
    let row = "order: 3 deliveries = 1 APPLIED + 2 REPLAYED";
    assert!(table.out.contains(row), "{}", table.out);
    assert!(table.out.contains("narrow keys"), "{}", table.out);
    let line = fencepost(&["counts", "--admin-socket", &socket, "-o", "json"]).await;
    let json: Value = serde_json::from_str(&line.out).unwrap();
    assert_eq!(json["counts"][0]["deliveries"], "3");
    assert_eq!(json["startTime"], "1970-01-01T00:00:07Z");
    let said = fencepost(&["counts", "--admin-socket", "none"]).await;
    assert_eq!(said.exit, 2, "{}", said.err);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_timeline_is_started_with_a_reason_and_told_of() {
    let dir = tempfile::tempdir().unwrap();
    let socket = operator(dir.path());
    let admin = |words: &'static [&'static str]| {
        let socket = socket.clone();
        async move { fencepost(&[&["admin"], words, &["--admin-socket", &socket]].concat()).await }
    };
    let without = admin(&["start-timeline"]).await;
    assert_eq!(without.exit, 2, "{}", without.err);
    assert!(without.err.contains("--reason"), "{}", without.err);
    let started = admin(&["start-timeline", "--reason", "restored", "--above", "41"]).await;
    assert_eq!(started.exit, 0, "{}", started.err);
    let rows = ["restored", "above 41", "3 reservations"];
    assert!(
        rows.iter().all(|row| started.out.contains(row)),
        "{}",
        started.out
    );
    let unknown = admin(&["start-timeline", "--reason", "restored"]).await;
    assert_eq!(unknown.exit, 75, "{}", unknown.err);
    for above in ["0", "-1", "x"] {
        let words = [&["start-timeline", "--reason", "r", "--above", above][..]];
        let said = fencepost(&[&["admin"], words[0], &["--admin-socket", &socket]].concat()).await;
        assert_eq!(said.exit, 2, "{}", said.err);
    }
    let now = admin(&["timeline"]).await;
    assert_eq!(now.exit, 10, "halted is no success: {}", now.err);
    let rows = ["it went\\u{1b}[2J back", "a disk was lost", "ann"];
    assert!(rows.iter().all(|row| now.out.contains(row)), "{}", now.out);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_found_out_is_told_to_the_operators_door() {
    let dir = tempfile::tempdir().unwrap();
    let socket = operator(dir.path());
    let resolve = |more: &[&'static str]| {
        let words = ["resolve", "order", "1", "pay", "--admin-socket"];
        let words = words.into_iter().map(str::to_owned);
        let more = more.iter().map(|word| (*word).to_owned());
        let all: Vec<String> = words.chain([socket.clone()]).chain(more).collect();
        async move {
            let all: Vec<&str> = all.iter().map(String::as_str).collect();
            fencepost(&all).await
        }
    };
    let done = [
        "--done",
        "--reason",
        "in the books",
        "--by",
        "alice",
        "--attempt",
        "2",
    ];
    let done = resolve(&[&done[..], &["--result", "receipt", "--even-if-running"]].concat()).await;
    assert_eq!(done.exit, 0, "{}", done.err);
    for part in [
        "Done",
        "in the books",
        "alice",
        "attempt: 2",
        "even_if_running: true",
        "receipt",
    ] {
        assert!(done.out.contains(part), "no {part}: {}", done.out);
    }
    let refused = resolve(&["--refused", "--reason", "cancelled by phone"]).await;
    assert_eq!(refused.exit, 11, "{}", refused.err);
    for wrong in [
        &["--done"][..],
        &["--reason", "x"],
        &["--done", "--not-done", "--reason", "x"],
        &["--done", "--reason", "x", "--attempt", "0"],
    ] {
        assert_eq!(resolve(wrong).await.exit, 2, "{wrong:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_command_waits_beyond_its_timeout_if_it_is_told_to() {
    let sidecar = Sidecar::start().await;
    let mail = ["order", "9", "--operation", "mail", "--once"];
    let (claim, _) = sidecar.reserve(&mail).await;
    let wait = |wait: &'static str| ["--timeout", "1s", "--wait", wait];
    let began = Boottime::now();
    let lookup = ["lookup", "order", "9", "mail"];
    let running = sidecar.run(&[&lookup[..], &wait("1500ms")].concat()).await;
    assert_eq!((running.exit, running.out.contains("RUNNING")), (10, true));
    assert!(Boottime::now().since(began) >= Duration::from_millis(1_500));
    let copies = ["transition", "reserve"].map(|command| {
        let words = [&[command][..], &mail, &wait("1m")].concat();
        let sidecar = &sidecar;
        async move { sidecar.run(&words).await }
    });
    let complete = async {
        // They are told the same if they come later.
        tokio::time::sleep(Duration::from_millis(500)).await;
        let words = ["transition", "order", "9", "--reservation", &claim];
        sidecar
            .run(&[&words[..], &["--result", "sent"]].concat())
            .await
    };
    let (copies, done) = tokio::join!(futures_util::future::join_all(copies), complete);
    assert_eq!(done.exit, 0, "{}{}", done.out, done.err);
    for copy in copies {
        assert_eq!(copy.exit, 0, "{}", copy.err);
        assert!(
            copy.out.contains("REPLAYED") && copy.out.contains("sent"),
            "{}",
            copy.out
        );
    }
    let long = sidecar
        .run(&[&lookup[..], &["--wait", "11m"]].concat())
        .await;
    assert!(
        long.exit != 0 && long.err.contains("the most is 10m"),
        "{}",
        long.err
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_claim_is_taken_completed_and_given_back_by_commands() {
    let sidecar = Sidecar::start().await;
    let pay = [
        "order",
        "7",
        "--operation",
        "pay",
        "--initial",
        "new",
        "--to",
        "paid",
    ];
    let (claim, _) = sidecar.reserve(&pay).await;
    let copy = sidecar.run(&[&["reserve"][..], &pay].concat()).await;
    assert_eq!(copy.exit, 10, "{}", copy.out);
    assert!(copy.out.contains("IN_PROGRESS"), "{}", copy.out);
    let running = sidecar.run(&["lookup", "order", "7", "pay"]).await;
    assert_eq!((running.exit, running.out.contains("RUNNING")), (10, true));
    let back = sidecar.run(&["release", &claim, "--nothing-done"]).await;
    assert_eq!(back.exit, 0, "{}", back.err);
    let never = sidecar.run(&["lookup", "order", "7", "pay"]).await;
    assert_eq!(never.exit, 13, "{}", never.out);
    let again = sidecar.run(&[&["reserve"][..], &pay].concat()).await;
    assert!(again.out.contains("attempt      2"), "{}", again.out);
    let words = [&["reserve", "-o", "json"][..], &pay].concat();
    let other = sidecar.run(&words).await;
    assert_eq!(other.exit, 10, "{}", other.out);

    let (held, _) = sidecar.reserve(&["order", "8"]).await;
    let ride = [
        "order",
        "8",
        "--operation",
        "mail",
        "--once",
        "--reservation",
        &held,
    ];
    let (claim, _) = sidecar.reserve(&ride).await;
    assert_eq!(claim, held);
    let words = ["transition", "order", "8", "--reservation", &claim];
    let done = sidecar
        .run(&[&words[..], &["--result", "sent"]].concat())
        .await;
    assert_eq!(done.exit, 0, "{}{}", done.out, done.err);
    assert!(
        done.out.contains("APPLIED") && done.out.contains("sent"),
        "{}",
        done.out
    );
    let replayed = sidecar.run(&[&["reserve"][..], &ride[..5]].concat()).await;
    assert_eq!(replayed.exit, 0, "{}", replayed.err);
    assert!(replayed.out.contains("REPLAYED") && replayed.out.contains("sent"));
    let ended = sidecar
        .run(&[
            "transition",
            "order",
            "8",
            "--operation",
            "log",
            "--once",
            "--reservation",
            &held,
            "--release",
            "true",
        ])
        .await;
    assert_eq!(ended.exit, 0, "{}", ended.err);
    let free = sidecar.run(&["inspect", "order", "8"]).await;
    assert!(free.out.contains("free"), "{}", free.out);
    let unfit = sidecar
        .run(&["reserve", "order", "9", "--to", "paid"])
        .await;
    assert_eq!(unfit.exit, 2, "{}", unfit.err);
    let words = ["reserve", "order", "8", "--reservation", &held];
    let no_intent = sidecar.run(&words).await;
    assert_eq!(no_intent.exit, 65, "{}", no_intent.err);
    let words = ["order", "10", "--operation", "pay", "--once", "--ttl", "3s"];
    let (dead, _) = sidecar.reserve(&words).await;
    let released = sidecar.run(&["release", &dead]).await;
    assert!(released.out.contains("inc-"), "{}", released.out);
    let interrupted = sidecar.run(&[&["reserve"][..], &words].concat()).await;
    assert_eq!(interrupted.exit, 10, "{}", interrupted.out);
    assert!(
        interrupted.out.contains("INTERRUPTED"),
        "{}",
        interrupted.out
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn incidents_are_listed_over_all_pages() {
    let dir = tempfile::tempdir().unwrap();
    let socket = operator(dir.path());
    let socket = socket.as_str();
    let table = fencepost(&["incidents", "--admin-socket", socket]).await;
    assert_eq!(table.exit, 0, "{}", table.err);
    for id in ["one", "two", "three"] {
        assert!(table.out.contains(&format!("  {id}\n")), "{}", table.out);
    }
    assert!(!table.out.contains('\u{1b}'), "{}", table.out);
    let lines = fencepost(&["incidents", "--admin-socket", socket, "-o", "json"]).await;
    let ids: Vec<Value> = lines
        .out
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap()["incidentId"].clone())
        .collect();
    assert_eq!(ids, ["one", "two", "three"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn machines_and_their_versions_are_listed_over_all_pages() {
    let dir = tempfile::tempdir().unwrap();
    let socket = operator(dir.path());
    for list in [&["list"][..], &["history", "order"]] {
        let words = [&["machine"], list, &["--admin-socket", &socket]].concat();
        let table = fencepost(&words).await;
        assert_eq!(table.exit, 0, "{}", table.err);
        let lines: Vec<&str> = table.out.lines().collect();
        assert_eq!(lines.len(), 3, "{}", table.out);
        assert!(lines[2].starts_with("order version 3 "), "{}", table.out);
        let json = fencepost(&[&words[..], &["-o", "json"]].concat()).await;
        assert_eq!(json.out.lines().count(), 3, "{}", json.out);
    }
    let words = ["machine", "history", "loop", "--admin-socket", &socket];
    let endless = fencepost(&words).await;
    assert_eq!(endless.exit, 70, "{}", endless.out);
    assert!(endless.err.contains("same page"), "{}", endless.err);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_story_is_told_line_by_line_and_exits_13_if_nothing_is_known() {
    let dir = tempfile::tempdir().unwrap();
    let socket = operator(dir.path());
    let asked = ["explain", "order", "1", "--admin-socket", &socket];
    let table = fencepost(&asked).await;
    assert_eq!(table.exit, 0, "{}", table.err);
    let lines = "state  One.\\u{1b}[2J\\nTwo.\n       Three.\nnext   Four.\n";
    assert_eq!(table.out, lines);
    let json = fencepost(&[&asked[..], &["-o", "json"]].concat())
        .await
        .json();
    assert_eq!(json["sentences"][2]["topic"], "TOPIC_NEXT");
    assert_eq!(json["known"], true);
    let never = fencepost(&["explain", "order", "1", "op", "--admin-socket", &socket]).await;
    assert_eq!(never.exit, 13, "{}", never.err);
    assert!(never.out.contains("Four."), "{}", never.out);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_address_may_be_given_with_its_scheme() {
    let sidecar = Sidecar::start().await;
    let addr: SocketAddr = sidecar.addr().parse().unwrap();
    let said = fencepost(&["inspect", "order", "1", "--addr", &format!("http://{addr}")]).await;
    assert_eq!(said.exit, 0, "{}", said.err);
    assert!(
        said.out.contains("free") && said.out.contains("never written"),
        "{}",
        said.out
    );
}

/// A command that goes on, and what it has said.
struct Talking {
    child: Child,
    out: Lines<BufReader<ChildStdout>>,
}

impl Talking {
    fn start(sidecar: &Sidecar, words: &[&str]) -> Self {
        let mut command = command(words);
        command.env("FENCEPOST_ADDR", sidecar.addr());
        let streams = command.stdin(Stdio::null()).stdout(Stdio::piped());
        let mut child = streams.stderr(Stdio::null()).spawn().unwrap();
        let out = BufReader::new(child.stdout.take().unwrap()).lines();
        Self { child, out }
    }

    /// The next line, JSON.
    fn line(&mut self) -> Value {
        let line = self.out.next().expect("it goes on").unwrap();
        serde_json::from_str(&line).unwrap()
    }
}

impl Drop for Talking {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_held_and_watched_is_told_line_by_line_until_it_ends() {
    let sidecar = Sidecar::start().await;
    let (id, token) = sidecar.reserve(&["seat", "1"]).await;
    let mut watch = Talking::start(&sidecar, &["watch", "seat", "1", "-o", "json"]);
    assert_eq!(watch.line()["snapshot"]["liveToken"], *token);
    let hold = ["hold", &id, "--release-on-close", "-o", "json"];
    let mut hold = Talking::start(&sidecar, &hold);
    let first = hold.line();
    assert_eq!(first["reservationId"], *id);
    assert_eq!(first["renewed"]["token"], *token);
    // It is ended from outside; what it held is free.
    drop(hold);
    let freed = watch.line();
    assert_eq!(freed["snapshot"]["liveToken"], Value::Null, "{freed}");
    let lost = sidecar.run(&["hold", &id]).await;
    assert_eq!(lost.exit, 12, "{}{}", lost.out, lost.err);
    assert!(
        lost.out.contains("lost") && lost.out.contains("RELEASED"),
        "{}",
        lost.out
    );
    let revision = freed["snapshot"]["revision"].as_str().unwrap().to_owned();
    let words = [
        "watch",
        "seat",
        "1",
        "--after-revision",
        &revision,
        "-o",
        "json",
    ];
    let mut later = Talking::start(&sidecar, &words);
    let timeline = freed["timelineId"].as_str().unwrap().to_owned();
    let named = [&words[..], &["--timeline-id", &timeline]].concat();
    let mut named = Talking::start(&sidecar, &named);
    // Of another timeline it says nothing.
    let other = "0".repeat(32);
    let other = [&words[..], &["--timeline-id", &other]].concat();
    let mut other = Talking::start(&sidecar, &other);
    let anew = other.line();
    assert_eq!(anew["gap"], true, "{anew}");
    assert_eq!(anew["timelineId"], *timeline);
    let (_, next) = sidecar.reserve(&["seat", "1"]).await;
    for watch in [&mut watch, &mut later, &mut named, &mut other] {
        assert_eq!(watch.line()["snapshot"]["liveToken"], *next);
    }
    // Told so, or cut off: here a stop waits for nobody.
    sidecar.0.stop().await;
    let ended = watch.child.wait().unwrap().code().unwrap();
    assert!([69, 70, 75].contains(&ended), "{ended}");
}
