//! What every command says when it cannot do what it was told: what was wrong, where, and what to do, with the exit code that is
//! documented for it.
#![allow(
    clippy::as_conversions,
    clippy::unwrap_used,
    clippy::wildcard_enum_match_arm,
    missing_docs
)]

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt as _;
use std::process::{Command, Stdio};

use fencepost::server::{Running, start_dev};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, UnixListener};

struct Said {
    exit: i32,
    out: String,
    err: String,
}

/// A command with a clean environment.
async fn fencepost(words: &[&OsStr], variables: &[(&str, &OsStr)]) -> Said {
    let mut command = Command::new(env!("CARGO_BIN_EXE_fencepost"));
    for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("FENCEPOST_")) {
        command.env_remove(name);
    }
    command.args(words).envs(variables.iter().copied());
    command.stdin(Stdio::null());
    let output = tokio::task::spawn_blocking(move || command.output());
    let output = output.await.unwrap().unwrap();
    Said {
        exit: output.status.code().unwrap(),
        out: String::from_utf8(output.stdout).unwrap(),
        err: String::from_utf8(output.stderr).unwrap(),
    }
}

async fn said(words: &[&str]) -> Said {
    let words: Vec<&OsStr> = words.iter().map(OsStr::new).collect();
    fencepost(&words, &[]).await
}

/// The words of a line, `''` for an empty one.
fn words(line: &str) -> Vec<&str> {
    let words = line.split(' ');
    words
        .map(|word| if word == "''" { "" } else { word })
        .collect()
}

async fn sidecar() -> Running {
    start_dev("127.0.0.1:0".parse().unwrap()).await.unwrap()
}

#[track_caller]
fn tells(said: &Said, line: &str, exit: i32, parts: &[&str]) {
    assert_eq!(said.exit, exit, "{line}: {}{}", said.out, said.err);
    for part in parts {
        assert!(
            said.err.contains(part),
            "{line}: no {part:?} in {}",
            said.err
        );
    }
    assert_eq!(said.out, "", "{line}");
}

/// Commands that ask at the port, with words that may be asked.
const ASKING: [&str; 11] = [
    "reserve order 1",
    "renew r1.AAAAAAAAAAAAAAAAAAAAAAVvcmRlcgAx",
    "hold r1.AAAAAAAAAAAAAAAAAAAAAAVvcmRlcgAx",
    "exec order 1 -- true",
    "release r1.AAAAAAAAAAAAAAAAAAAAAAVvcmRlcgAx",
    "transition order 1 --operation k --once",
    "fence order 1 5",
    "lookup order 1 k",
    "inspect order 1",
    "watch order 1",
    "demo",
];

/// Commands that ask at the admin socket.
const OPERATING: [&str; 13] = [
    "incidents",
    "incidents list",
    "incidents show inc-1",
    "incidents close inc-1 --reason x",
    "counts",
    "explain order 1",
    "resolve order 1 k --done --reason x",
    "admin timeline",
    "admin start-timeline --reason x",
    "machine list",
    "machine get order",
    "machine history order",
    "machine apply machines",
];

/// The line with further words in front of the first that begins with `--`, or of the command of `exec`.
fn with<'w>(line: &'w str, more: &[&'w str]) -> Vec<&'w str> {
    let mut words = words(line);
    let at = words
        .iter()
        .position(|word| *word == "--")
        .unwrap_or(words.len());
    words.splice(at..at, more.iter().copied());
    words
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_wrong_with_the_words_is_told_before_anybody_is_asked() {
    let long = "x".repeat(2_000_000);
    let content = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(content.path(), &long).unwrap();
    let content = format!(
        "transition order 1 --operation k --once --raw @{}",
        content.path().display()
    );
    let usage = |line: &'static str| format!("Usage: fencepost {line}");
    let cases: Vec<(&str, Vec<String>)> = vec![
        (
            "nonsense",
            vec![
                "unrecognized subcommand 'nonsense'".into(),
                usage("<COMMAND>"),
            ],
        ),
        (
            "reserv order 1",
            vec!["similar subcommand".into(), "'reserve'".into()],
        ),
        (
            "reserve order",
            vec!["<ID>".into(), usage("reserve [OPTIONS] <KIND> <ID>")],
        ),
        (
            "renew",
            vec![
                "<RESERVATION>".into(),
                usage("renew [OPTIONS] <RESERVATION>"),
            ],
        ),
        (
            "hold",
            vec![
                "<RESERVATIONS>".into(),
                usage("hold [OPTIONS] <RESERVATIONS>"),
            ],
        ),
        (
            "exec order 1",
            vec!["<CMD>".into(), usage("exec [OPTIONS] <KIND> <ID> -- <CMD>")],
        ),
        (
            "release",
            vec!["<RESERVATION>".into(), usage("release [OPTIONS]")],
        ),
        (
            "transition order 1",
            vec!["--operation KEY".into(), "--reservation ID".into()],
        ),
        (
            "transition order 1 --operation k",
            vec!["--event EVENT".into(), "--to STATE".into()],
        ),
        (
            "transition order --operation k",
            vec!["<ID>".into(), usage("transition [OPTIONS] <KIND> <ID>")],
        ),
        (
            "transition order 1 --operation",
            vec!["a value is required for '--operation <KEY>'".into()],
        ),
        (
            "transition order 1 --operation k --once --json @/nonexistent",
            vec!["cannot read /nonexistent".into()],
        ),
        (
            &content,
            vec!["is larger than 1048576 bytes".into(), "--digest".into()],
        ),
        (
            "transition order 1 --operation k --once --digest xy",
            vec!["--digest".into(), "hexadecimal".into()],
        ),
        (
            "transition order 1 --operation k --once --result-code x",
            vec!["--result-code <N>".into()],
        ),
        (
            "lookup order 1 k --operation-time 2026-01-31",
            vec!["2026-01-31T12:00:00Z".into()],
        ),
        (
            "lookup order 1 k --operation-time 2026-01-31T12:00:00.1234567891Z",
            vec!["--operation-time".into()],
        ),
        (
            "fence order 1",
            vec![
                "<TOKEN>".into(),
                usage("fence [OPTIONS] <KIND> <ID> <TOKEN>"),
            ],
        ),
        (
            "fence order 1 five",
            vec!["`five` is not a token".into(), "`reserve` answered".into()],
        ),
        (
            "lookup order 1",
            vec!["<KEY>".into(), usage("lookup [OPTIONS] <KIND> <ID> <KEY>")],
        ),
        (
            "inspect",
            vec!["<KIND>".into(), usage("inspect [OPTIONS] <KIND> <ID>")],
        ),
        (
            "watch order 1 --timeline-id t",
            vec!["--after-revision".into(), usage("watch [OPTIONS]")],
        ),
        (
            "incidents show",
            vec!["<ID>".into(), usage("incidents show [OPTIONS] <ID>")],
        ),
        (
            "incidents close inc-1",
            vec![
                "--reason <TEXT>".into(),
                usage("incidents close [OPTIONS] --reason <TEXT> <ID>"),
            ],
        ),
        (
            "digest",
            vec!["--json <TEXT>".into(), "--raw <TEXT>".into()],
        ),
        (
            "digest --json {} --raw x",
            vec!["cannot be used with".into()],
        ),
        (
            "explain order",
            vec![
                "<ID>".into(),
                usage("explain [OPTIONS] <KIND> <ID> [OPERATION]"),
            ],
        ),
        (
            "resolve order 1 k --reason x",
            vec!["<--done|--not-done|--refused>".into()],
        ),
        (
            "admin",
            vec![
                "Usage: fencepost admin <COMMAND>".into(),
                "start-timeline".into(),
            ],
        ),
        (
            "admin start-timeline --above 5",
            vec![
                "--reason <TEXT>".into(),
                usage("admin start-timeline [OPTIONS] --reason <TEXT>"),
            ],
        ),
        (
            "admin start-timeline --reason x --above 0",
            vec!["--above <TOKEN>".into(), "1..=9007199254740991".into()],
        ),
        (
            "machine",
            vec!["Usage: fencepost machine <COMMAND>".into(), "check".into()],
        ),
        (
            "machine check",
            vec!["<PATHS>".into(), usage("machine check <PATHS>")],
        ),
        (
            "machine check /nonexistent",
            vec!["cannot read /nonexistent".into()],
        ),
        ("machine get order 0", vec!["[VERSION]".into()]),
        (
            "machine graph x --format png",
            vec!["mermaid".into(), "dot".into()],
        ),
        (
            "proto",
            vec!["<DIR>".into(), usage("proto [OPTIONS] <DIR>")],
        ),
        ("inspect order 1 --addr ''", vec!["--addr".into()]),
        ("inspect order 1 --addr tcp://h:1", vec!["host:port".into()]),
        (
            "inspect order 1 --addr https://h:1",
            vec!["TLS is not supported yet".into()],
        ),
        (
            "inspect order 1 --timeout 10",
            vec!["with a unit".into(), "30s".into()],
        ),
        (
            "inspect order 1 --timeout 25h",
            vec!["between 1ms and 24h".into()],
        ),
        (
            "inspect order 1 --output yaml",
            vec!["table".into(), "json".into()],
        ),
        (
            "reserve order 1 --wait forever",
            vec!["is not a duration with a unit".into()],
        ),
        (
            "reserve order 1 --request-id x",
            vec!["is not a UUID".into()],
        ),
        (
            "reserve order 1 --also seat",
            vec!["`seat` is not kind/id".into()],
        ),
        (
            "serve extra",
            vec![
                "unexpected argument 'extra'".into(),
                usage("serve [OPTIONS]"),
            ],
        ),
        (
            "dev --etcd-endpoints http://127.0.0.1:1",
            vec!["--etcd-endpoints".into(), usage("dev [OPTIONS]")],
        ),
        (
            "demo --admin-socket x",
            vec!["--addr".into(), usage("demo [OPTIONS]")],
        ),
        (
            "counts --admin-socket none",
            vec!["`none`".into(), "--admin-socket".into()],
        ),
    ];
    for (line, parts) in cases {
        let parts: Vec<&str> = parts.iter().map(String::as_str).collect();
        let told = said(&words(line)).await;
        let short = line.get(..80).unwrap_or(line);
        tells(&told, short, 2, &parts);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_no_text_is_named_by_its_place() {
    let odd = OsStr::from_bytes(b"\xff\xfe");
    for (line, at) in [
        ("reserve order ?", 3),
        ("renew ?", 2),
        ("transition order 1 --operation ? --once", 5),
        ("fence order 1 ?", 4),
        ("incidents show ?", 3),
        ("explain order 1 ?", 4),
        ("machine get ?", 3),
    ] {
        let line_words: Vec<OsString> = words(line)
            .into_iter()
            .map(|word| {
                if word == "?" {
                    odd.to_owned()
                } else {
                    word.into()
                }
            })
            .collect();
        let line_words: Vec<&OsStr> = line_words.iter().map(OsString::as_os_str).collect();
        let told = fencepost(&line_words, &[]).await;
        let place = format!("argument {at}, `\u{fffd}\u{fffd}`, is not UTF-8");
        tells(&told, line, 2, &[&place]);
    }
    let inspect: Vec<&OsStr> = ["inspect", "order", "1"].map(OsStr::new).into();
    let told = fencepost(&inspect, &[("FENCEPOST_TIMEOUT", odd)]).await;
    tells(&told, "FENCEPOST_TIMEOUT", 2, &["FENCEPOST_TIMEOUT"]);
    let serve: Vec<&OsStr> = [OsStr::new("serve")].into();
    let told = fencepost(&serve, &[("FENCEPOST_LISTEN", odd)]).await;
    tells(
        &told,
        "FENCEPOST_LISTEN",
        78,
        &["FENCEPOST_LISTEN", "is not UTF-8"],
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_sidecar_can_never_take_is_told_with_its_field_and_its_limit() {
    let sidecar = sidecar().await;
    let addr = sidecar.addr().to_string();
    let long = "x".repeat(600);
    let cases = [
        ("reserve or/der 1", "resource.kind", "A-Z a-z 0-9"),
        ("inspect order LONG", "resource.id", "512"),
        ("watch order LONG", "resource.id", "512"),
        ("exec order LONG -- true", "resource.id", "512"),
        ("reserve order 1 --holder LONG", "holder", "256"),
        ("reserve order 1 --ttl 1s", "ttl", "the least is 3s"),
        (
            "reserve order 1 --ttl 25h",
            "ttl",
            "the most is 86400s (24h)",
        ),
        ("renew ''", "reservation_id", "is required"),
        (
            "renew nonsense",
            "reservation_id",
            "that Fencepost gave out",
        ),
        (
            "hold nonsense",
            "reservation_ids[0]",
            "that Fencepost gave out",
        ),
        ("release LONG", "reservation_id", "that Fencepost gave out"),
        (
            "transition order 1 --operation '' --once",
            "intent.operation_id",
            "is required",
        ),
        (
            "transition order 1 --operation LONG --once",
            "intent.operation_id",
            "256",
        ),
        (
            "transition order 1 --operation k --to LONG",
            "intent.move.to_state",
            "64",
        ),
        (
            "transition order 1 --operation k --once --json {",
            "intent.json",
            "at byte 1",
        ),
        (
            "transition order 1 --operation k --once --digest 00",
            "intent.digest",
            "16",
        ),
        (
            "transition order 1 --operation k --event pay",
            "kind",
            "machine",
        ),
        ("lookup order 1 ''", "operation_id", "is required"),
        ("lookup order 1 k --wait 11m", "wait", "10m"),
        ("fence order 1 0", "token", "1 to 9007199254740991"),
    ];
    for (line, field, limit) in cases {
        let line = line.replace("LONG", &long);
        let told = said(&with(&line, &["--addr", &addr])).await;
        let short = line.get(..60).unwrap_or(&line);
        tells(&told, short, 65, &[field, limit, "can never work"]);
    }
    // A variable that is not set is found out here.
    for (line, what) in [
        ("reserve '' 1", "KIND (resource.kind) is empty"),
        ("inspect order ''", "ID (resource.id) is empty"),
    ] {
        let told = said(&with(line, &["--addr", &addr])).await;
        tells(&told, line, 65, &[what, "nothing was asked", "a variable"]);
    }
    sidecar.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn where_nobody_listens_every_command_says_where_it_asked_and_what_to_do() {
    let nobody = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let addr = nobody.local_addr().unwrap().to_string();
    drop(nobody);
    for line in ASKING {
        let told = said(&with(line, &["--addr", &addr])).await;
        let there = format!("no sidecar answers at http://{addr}");
        tells(&told, line, 69, &[&there, "fencepost dev", "--addr"]);
    }
    let home = tempfile::tempdir().unwrap();
    let file = home.path().join("file");
    std::fs::write(&file, "").unwrap();
    for socket in [home.path().join("missing"), file] {
        let socket = socket.to_str().unwrap();
        for line in OPERATING {
            let told = said(&with(line, &["--admin-socket", socket])).await;
            let there = format!("no sidecar answers at the admin socket {socket}");
            tells(
                &told,
                line,
                69,
                &[&there, "fencepost dev", "--admin-socket"],
            );
        }
    }
    let long = format!("/{}", "x".repeat(200));
    let told = said(&["counts", "--admin-socket", &long]).await;
    tells(&told, "a long path", 2, &[&long, "--admin-socket"]);
}

/// Answers whatever comes as a server of HTTP/1.1 would that knows nothing of HTTP/2.
async fn another_server() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let addr = listener.local_addr().unwrap().to_string();
    tokio::spawn(async move {
        loop {
            let (mut stream, _) = listener.accept().await.unwrap();
            tokio::spawn(async move {
                let mut asked = vec![0; 1024];
                let _ = stream.read(&mut asked).await;
                let answer = "HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\n\r\n";
                let _ = stream.write_all(answer.as_bytes()).await;
                // As such servers do: to close over what was not read would take the answer back.
                let _ = stream.shutdown().await;
                let _ = stream.read_to_end(&mut asked).await;
            });
        }
    });
    addr
}

#[tokio::test(flavor = "multi_thread")]
async fn where_another_server_listens_every_command_says_so_and_that_nothing_was_done() {
    let addr = another_server().await;
    for line in ASKING {
        let told = said(&with(line, &["--addr", &addr])).await;
        let there = format!("what listens at http://{addr} is no Fencepost sidecar");
        tells(
            &told,
            line,
            69,
            &[
                &there,
                "HTTP/1.1 400 Bad Request",
                "nothing was done",
                "--addr",
            ],
        );
    }
    // At a socket, too, an answer comes in time and says where it asked.
    let home = tempfile::tempdir().unwrap();
    let socket = home.path().join("silent.sock");
    let _silent = UnixListener::bind(&socket).unwrap();
    let socket = socket.to_str().unwrap();
    for line in ["counts", "incidents", "admin timeline", "machine list"] {
        let told = said(&with(
            line,
            &["--admin-socket", socket, "--timeout", "300ms"],
        ))
        .await;
        tells(&told, line, 75, &[socket, "no answer in time", "--timeout"]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn where_another_grpc_server_listens_it_is_asked_whether_it_is_a_sidecar() {
    let beside = tonic::transport::Server::builder();
    let (_, health) = tonic_health::server::health_reporter();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let addr = listener.local_addr().unwrap().to_string();
    let incoming = tokio_stream::wrappers::TcpListenerStream::new(listener);
    let mut beside = beside;
    tokio::spawn(beside.add_service(health).serve_with_incoming(incoming));
    for line in ASKING {
        let told = said(&with(line, &["--addr", &addr])).await;
        let there = format!("what answers at http://{addr} does not offer this call");
        tells(&told, line, 70, &[&there, "is it a Fencepost sidecar"]);
    }
}
