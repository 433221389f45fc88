//! What operators are answered at the admin socket, and results as they come out of the doors.

use std::process::Output;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use tokio::task::JoinSet;

use crate::support::backend::Backend;
use crate::support::door::Door;
use crate::support::etcd::Etcd;
use crate::support::process::Process;
use crate::support::proxy::Proxy;
use crate::support::{bounded, until};

/// How long it may take until something is counted.
const COUNTED_WITHIN: Duration = Duration::from_secs(40);

fn base64(bytes: impl AsRef<[u8]>) -> String {
    STANDARD.encode(bytes)
}

/// Runs `fencepost incidents` against a sidecar's admin socket.
async fn incidents(sidecar: &Process, words: &[&str]) -> Output {
    operator(sidecar, &[&["incidents"], words].concat()).await
}

/// Runs `fencepost` against a sidecar's admin socket.
async fn operator(sidecar: &Process, words: &[&str]) -> Output {
    let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_fencepost"));
    command.args(words);
    command.arg("--admin-socket").arg(sidecar.admin_socket());
    command.env("USER", "ann");
    let run = tokio::task::spawn_blocking(move || command.output().unwrap());
    run.await.unwrap()
}

async fn told(sidecar: &Process, words: &[&str]) -> String {
    let said = incidents(sidecar, words).await;
    let error = String::from_utf8_lossy(&said.stderr).into_owned();
    assert!(said.status.success(), "{words:?}: {error}");
    String::from_utf8(said.stdout).unwrap()
}

async fn refused(sidecar: &Process, words: &[&str], exit: i32) -> String {
    let said = incidents(sidecar, words).await;
    assert_eq!(said.status.code(), Some(exit), "{words:?}");
    String::from_utf8(said.stderr).unwrap()
}

fn run(kind: &str, operation: &str, content: &str) -> Value {
    json!({
        "resource": {"kind": kind, "id": "1"},
        "intent": {"operationId": operation, "json": base64(content)},
        "result": {"body": base64("receipt")},
    })
}

/// Raises a conflict; answers its incident.
async fn conflict(door: &Door, kind: &str, operation: &str) -> Value {
    door.ask(
        "Transition",
        &run(kind, operation, r#"{"amount":10,"to":"x"}"#),
    )
    .await;
    let other = run(kind, operation, r#"{"amount":100,"to":"x"}"#);
    let answer = door.ask("Transition", &other).await;
    assert_eq!(answer["decision"]["verdict"], "VERDICT_CONFLICT");
    assert_eq!(answer["decision"]["differingFields"], json!(["/amount"]));
    answer["decision"]["incidentId"].clone()
}

#[tokio::test(flavor = "multi_thread")]
async fn incidents_are_listed_shown_and_closed_on_the_command_line() {
    let sidecar = Process::dev(&[]).await;
    let doors = [Door::grpc(&sidecar), Door::json(&sidecar)];
    let order = conflict(&doors[0], "order", "pay").await;
    let seat = conflict(&doors[1], "seat", "sell").await;
    let (order, seat) = (order.as_str().unwrap(), seat.as_str().unwrap());
    for words in [&[][..], &["list"], &["list", "--open"], &["--open"]] {
        let all = told(&sidecar, words).await;
        assert!(
            all.contains(order) && all.contains(seat),
            "{words:?}: {all}"
        );
        assert!(all.contains("/amount") && !all.contains("100"), "{all}");
    }
    let orders = told(&sidecar, &["--kind", "order", "-o", "json"]).await;
    let one: Value = serde_json::from_str(&orders).unwrap();
    assert_eq!(one["incidentId"], order);
    assert_eq!(one["status"], "INCIDENT_STATUS_OPEN");
    assert_eq!(one["differingFields"], json!(["/amount"]));
    assert_eq!(one["count"], "1");
    assert!(
        one["sender"].as_str().unwrap().starts_with("127.0.0.1:"),
        "{one}"
    );
    let body = &one["evidence"][0]["result"];
    assert_eq!(body["body"], base64("receipt"));
    assert_eq!(body["sha256"], base64(Sha256::digest("receipt")));

    let without = refused(&sidecar, &["close", order], 2).await;
    assert!(without.contains("--reason"), "{without}");
    let blank = refused(&sidecar, &["close", order, "--reason", " "], 65).await;
    assert!(blank.contains("reason is required"), "{blank}");
    let words = ["close", order, "--reason", "the shop was told"];
    let closed = incidents(&sidecar, &words).await;
    assert_eq!(String::from_utf8(closed.stderr).unwrap(), "");
    let closed = String::from_utf8(closed.stdout).unwrap();
    assert!(
        closed.contains("closed ") && closed.contains("by ann: the shop was told"),
        "{closed}"
    );
    // Whoever closes it once more is told that, and by whom it was; the answer is the same.
    let words = ["close", order, "--reason", "not so", "--by", "bob"];
    let twice = incidents(&sidecar, &words).await;
    let (out, err) = (twice.stdout, String::from_utf8(twice.stderr).unwrap());
    assert!(twice.status.success(), "{err}");
    assert_eq!(String::from_utf8(out).unwrap(), closed);
    assert!(err.contains("it was closed before, "), "{err}");
    assert!(
        err.contains("by ann: the shop was told; that stays"),
        "{err}"
    );
    // A list, one shown and one closed are the same to a program.
    let again = ["close", order, "--reason", "once more", "-o", "json"];
    let [list, show, close] = [
        &["--kind", "order", "-o", "json"][..],
        &["show", order, "-o", "json"],
        &again,
    ];
    let told_of = told(&sidecar, list).await;
    for words in [show, close] {
        assert_eq!(told(&sidecar, words).await, told_of, "{words:?}");
    }
    let shown = told(&sidecar, &["show", order]).await;
    assert!(shown.contains("by ann: the shop was told"), "{shown}");
    assert!(
        shown.contains("not taken") && shown.contains("receipt"),
        "{shown}"
    );
    let left = told(&sidecar, &["list", "--open"]).await;
    assert!(!left.contains(order) && left.contains(seat), "{left}");
    for words in [&["show", "inc-0"][..], &["close", "inc-0", "--reason", "x"]] {
        let missing = refused(&sidecar, words, 13).await;
        assert!(missing.contains("no such incident"), "{missing}");
    }
    let bad = refused(&sidecar, &["--kind", "no kind"], 65).await;
    assert!(bad.contains("kind"), "{bad}");
}

#[tokio::test(flavor = "multi_thread")]
async fn who_says_something_without_a_name_has_the_same_name_everywhere() {
    let sidecar = Process::dev(&[]).await;
    let door = Door::json(&sidecar);
    let nameless = async |words: &[&str]| {
        let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_fencepost"));
        command.args(words).env_remove("USER");
        command.env("FENCEPOST_ADMIN_SOCKET", sidecar.admin_socket());
        let said = tokio::task::spawn_blocking(move || command.output().unwrap());
        let said = said.await.unwrap();
        let error = String::from_utf8_lossy(&said.stderr);
        assert!(said.status.success(), "{words:?}: {error}");
        serde_json::from_slice::<Value>(&said.stdout).unwrap()
    };
    let id = conflict(&door, "order", "pay").await;
    let words = ["incidents", "close", id.as_str().unwrap(), "--reason", "r"];
    let closed = nameless(&[&words[..], &["-o", "json"]].concat()).await;
    assert_eq!(closed["closing"]["closedBy"], "admin socket");
    let claim = json!({
        "resource": {"kind": "order", "id": "2"},
        "requestId": uuid::Uuid::new_v4().to_string(),
        "intent": {"operationId": "k", "raw": ""},
    });
    let claimed = door.ask("Reserve", &claim).await;
    let reservation = &claimed["reservation"]["reservationId"];
    door.ask("Release", &json!({"reservationId": reservation}))
        .await;
    let words = [
        "resolve", "order", "2", "k", "--done", "--reason", "r", "-o", "json",
    ];
    nameless(&words).await;
    let asked = json!({"resource": {"kind": "order", "id": "2"}, "operationId": "k"});
    let known = door.ask("Lookup", &asked).await;
    let said = known["decision"]["resolution"].as_str().unwrap();
    assert!(said.starts_with("admin socket said"), "{said}");
    nameless(&["admin", "start-timeline", "--reason", "r", "-o", "json"]).await;
    let timelines = nameless(&["admin", "timeline", "-o", "json"]).await;
    assert_eq!(
        timelines["starts"][0]["startedBy"], "admin socket",
        "{timelines}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn explain_knows_a_resource_that_is_only_waited_for() {
    bounded(Box::pin(async {
        let sidecar = Process::dev(&[]).await;
        let door = Door::json(&sidecar);
        let reserve = |id: &str| {
            json!({
                "resource": {"kind": "seat", "id": id},
                "requestId": uuid::Uuid::new_v4().to_string(),
                "holder": "bob",
            })
        };
        door.ask("Reserve", &reserve("held")).await;
        let never = operator(&sidecar, &["explain", "seat", "free"]).await;
        assert_eq!(never.status.code(), Some(13));
        // It ends with this test.
        let mut waiting = JoinSet::new();
        let mut both = reserve("free");
        both["also"] = json!([{"kind": "seat", "id": "held"}]);
        both["wait"] = json!("60s");
        waiting.spawn({
            let door = door.clone();
            async move { door.try_ask("Reserve", &both).await }
        });
        let told = until("it is waited for", COUNTED_WITHIN, || async {
            let said = operator(&sidecar, &["explain", "seat", "free"]).await;
            said.status.success().then_some(said.stdout)
        })
        .await;
        let told = String::from_utf8(told).unwrap();
        assert!(told.contains("1 call waits for it"), "{told}");
        assert!(told.contains("bob"), "{told}");
        assert!(!told.contains("Nothing is known"), "{told}");
        // Nobody waits for this operation.
        let other = operator(&sidecar, &["explain", "seat", "free", "k"]).await;
        assert_eq!(other.status.code(), Some(13));
    }))
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn explain_tells_of_what_was_done_creates_nothing_and_nobody_writes_its_lines() {
    let sidecar = Process::dev(&[]).await;
    let door = Door::json(&sidecar);
    let explain = async |words: &[&str], exit: i32| {
        let said = operator(&sidecar, &[&["explain", "order"], words].concat()).await;
        let error = String::from_utf8_lossy(&said.stderr).into_owned();
        assert_eq!(said.status.code(), Some(exit), "{words:?}: {error}");
        String::from_utf8(said.stdout).unwrap() + &error
    };
    let never = explain(&["1"], 13).await;
    assert!(never.contains("Nothing is known of order/1"), "{never}");
    let inspect = json!({"resource": {"kind": "order", "id": "1"}});
    let inspected = door.ask("Inspect", &inspect).await;
    assert!(inspected["snapshot"]["revision"].is_null(), "{inspected}");
    let name = "op\u{1b}[31m\nnext  \u{9b}Nothing waits";
    let incident = conflict(&door, "order", name).await;
    let told = explain(&["1", name], 0).await;
    assert!(
        !told.contains('\u{1b}') && !told.contains('\u{9b}'),
        "{told}"
    );
    let next: Vec<&str> = told
        .lines()
        .filter(|line| line.starts_with("next"))
        .collect();
    assert_eq!(next.len(), 1, "{told}");
    let close = format!("fencepost incidents close {}", incident.as_str().unwrap());
    assert!(next[0].contains(&close), "{told}");
    assert!(!told.contains("receipt") && !told.contains("100"), "{told}");
    let never = explain(&["1", "other"], 13).await;
    assert!(
        never.contains("Nothing is stored of operation \"other\""),
        "{never}"
    );
    let line = explain(&["1", "-o", "json"], 0).await;
    let line: Value = serde_json::from_str(&line).unwrap();
    assert_eq!(line["snapshot"]["resource"]["id"], "1");
    assert_eq!(line["sentences"][0]["topic"], "TOPIC_STATE");
    assert_eq!(line["known"], true);
    for (words, field) in [(&[""][..], "resource.id"), (&["1", " "], "operation_id")] {
        let refused = explain(words, 65).await;
        assert!(refused.contains(field), "{refused}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_result_tells_its_sha256_which_is_made_here_and_never_believed() {
    let sidecar = Process::dev(&[]).await;
    for (at, door) in [Door::grpc(&sidecar), Door::json(&sidecar)]
        .iter()
        .enumerate()
    {
        let bodies = [
            vec![],
            b"receipt".to_vec(),
            (0..=255).collect(),
            vec![7; 64 * 1024],
        ];
        for (number, body) in bodies.iter().enumerate() {
            let mut ask = run("order", &format!("op {at} {number}"), "1");
            ask["result"]["body"] = json!(base64(body));
            let right = base64(Sha256::digest(body));
            for given in [Value::Null, json!(right)] {
                ask["result"]["sha256"] = given;
                // Applied first, replayed then: the same bytes, the same sum.
                let answer = door.ask("Transition", &ask).await;
                let result = &answer["decision"]["result"];
                assert_eq!(result["sha256"], right, "{number}");
                let told = result["body"].as_str().unwrap_or_default();
                assert_eq!(told, base64(body));
            }
            for wrong in [
                base64([0; 32]),
                base64(Sha256::digest("other")),
                base64([1]),
            ] {
                let mut ask = run("order", &format!("wrong {at} {number}"), "1");
                ask["result"] = json!({"body": base64(body), "sha256": wrong});
                let refusal = door.refused("Transition", &ask).await;
                assert_eq!(refusal.code, "invalid_argument");
                assert_eq!(refusal.field, "result.sha256");
                let lookup = json!({"resource": ask["resource"], "operationId": ask["intent"]["operationId"]});
                let known = door.ask("Lookup", &lookup).await;
                assert_eq!(known["state"], "OPERATION_STATE_NEVER_SEEN");
            }
        }
        // Over the limit it is refused before anything is written, and says what to do instead.
        let mut ask = run("order", &format!("large {at}"), "1");
        ask["result"]["body"] = json!(base64(vec![0; 64 * 1024 + 1]));
        let refusal = door.refused("Transition", &ask).await;
        assert_eq!(refusal.field, "result.body");
        assert!(
            refusal.message.contains("a reference to it"),
            "{}",
            refusal.message
        );
        let lookup =
            json!({"resource": ask["resource"], "operationId": ask["intent"]["operationId"]});
        let known = door.ask("Lookup", &lookup).await;
        assert_eq!(known["state"], "OPERATION_STATE_NEVER_SEEN");
    }
}

// F7: a replayed answer says that it is one, when the first was, and how often it came; its bytes stay. F12: the same operation id
// finds it. Whichever sidecar is asked.
#[tokio::test(flavor = "multi_thread")]
async fn a_replayed_failure_says_when_it_happened_and_stays_as_it_was() {
    let backend = Backend::real().await;
    let etcd = Etcd::shared().await;
    let one = Process::serve(etcd.url(), backend.prefix(), &[]).await;
    let two = Process::serve(etcd.url(), backend.prefix(), &[]).await;
    let doors = [Door::grpc(&one), Door::json(&two)];
    let mut pay = run("order", "pay", "1");
    pay["result"] = json!({"body": base64("card declined"), "code": 402});
    let first = doors[0].ask("Transition", &pay).await;
    assert!(first["decision"]["firstTime"].is_null(), "{first}");
    assert!(first["decision"]["deliveries"].is_null(), "{first}");
    let mut times = std::collections::BTreeSet::new();
    for turn in 1..=3 {
        for (at, door) in doors.iter().enumerate() {
            let again = door.ask("Transition", &pay).await;
            let decision = &again["decision"];
            assert_eq!(decision["verdict"], "VERDICT_REPLAYED");
            assert_eq!(decision["result"], first["decision"]["result"]);
            times.insert(decision["firstTime"].as_str().unwrap().to_owned());
            // The sidecar that did it knows of its own; of the other's, as far as they were written.
            let least = if at == 0 { turn + 1 } else { turn.max(2) };
            let told = decision["deliveries"].as_u64().unwrap();
            assert!(
                (least..=2 * turn + 1).contains(&told),
                "turn {turn} at {at}: {told}"
            );
            let lookup = json!({"resource": pay["resource"], "operationId": "pay"});
            let known = door.ask("Lookup", &lookup).await;
            assert_eq!(known["state"], "OPERATION_STATE_DONE");
            assert_eq!(known["decision"]["result"], first["decision"]["result"]);
        }
    }
    assert_eq!(times.len(), 1, "{times:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_that_may_be_too_narrow_is_logged_and_counted_for_operators() {
    const LINE: &str = "the key may be too narrow";
    let sidecar = Process::dev(&[]).await;
    let door = Door::json(&sidecar);
    let counted = || async {
        let said = operator(&sidecar, &["counts", "-o", "json"]).await;
        serde_json::from_slice::<Value>(&said.stdout).unwrap()["narrowKeys"].clone()
    };
    let text = r#"{"invoice":7}"#;
    door.ask("Transition", &run("order", "evt-1", text)).await;
    door.ask("Transition", &run("order", "evt-1", text)).await;
    door.ask("Transition", &run("order", "evt-2", r#"{"invoice":8}"#))
        .await;
    assert!(!sidecar.logs().contains(LINE), "{}", sidecar.logs());
    assert_eq!(counted().await, Value::Null);
    let again = door.ask("Transition", &run("order", "evt-3", text)).await;
    assert_eq!(again["decision"]["verdict"], "VERDICT_APPLIED");
    let logs = sidecar.logs();
    let line = logs.lines().find(|line| line.contains(LINE));
    let line = line.unwrap_or_else(|| panic!("no line: {logs}"));
    assert!(line.contains("evt-3") && line.contains("evt-1"), "{line}");
    assert_eq!(counted().await, "1");
    let table = operator(&sidecar, &["counts"]).await.stdout;
    let table = String::from_utf8(table).unwrap();
    assert!(table.contains("narrow keys"), "{table}");
}

/// What `fencepost counts` says at one moment.
struct Counted(Value);

impl Counted {
    async fn by(sidecar: &Process) -> Self {
        let said = operator(sidecar, &["counts", "-o", "json"]).await;
        Self(serde_json::from_slice(&said.stdout).unwrap())
    }

    /// A number, such as `holdings.held`. What is absent is 0, and so is what is not so.
    fn of(&self, name: &str) -> u64 {
        let (of, what) = name.split_once('.').unwrap();
        match &self.0[of][what] {
            Value::Null => 0,
            Value::Bool(yes) => u64::from(*yes),
            Value::String(number) => number.parse().unwrap(),
            other => panic!("{name}: {other}"),
        }
    }

    /// Waits until a number is so large.
    async fn reaches(sidecar: &Process, name: &str, least: u64) -> Self {
        until(name, COUNTED_WITHIN, || async {
            let counted = Self::by(sidecar).await;
            (counted.of(name) >= least).then_some(counted)
        })
        .await
    }
}

// B7, B10
#[tokio::test(flavor = "multi_thread")]
async fn how_much_waits_and_is_held_and_that_renewals_are_late_is_told_whatever_etcd_does() {
    /// As many late ones as are strain.
    const HELD: u64 = 12;
    let reserve = |id: &str| {
        json!({
            "resource": {"kind": "seat", "id": id},
            "requestId": uuid::Uuid::new_v4().to_string(),
            "ttl": "12s",
        })
    };
    bounded(Box::pin(async {
        let etcd = Etcd::shared().await;
        let proxy = Proxy::to_url(etcd.url());
        let prefix = format!("/saturated-{}/", uuid::Uuid::new_v4());
        let sidecar = Process::serve(&proxy.url(), &prefix, &[]).await;
        let door = Door::json(&sidecar);
        let idle = Counted::by(&sidecar).await;
        assert_eq!(idle.of("waiting.placesMax"), 2_048);
        assert_eq!(idle.of("holdings.heldMax"), 65_536);

        let mut ids = Vec::new();
        for at in 0..HELD {
            let reserved = door.ask("Reserve", &reserve(&at.to_string())).await;
            let id = reserved["reservation"]["reservationId"].as_str();
            ids.push(id.unwrap().to_owned());
        }
        let request = fencepost::proto::v1::HoldRequest {
            reservation_ids: ids,
            release_on_close: false,
        };
        let mut stream = sidecar.client().hold(request).await.unwrap().into_inner();
        // News are taken as they come, whatever they are.
        tokio::spawn(async move { while let Ok(Some(_)) = stream.message().await {} });
        let held = Counted::reaches(&sidecar, "holdings.renewed", HELD).await;
        assert_eq!(held.of("holdings.held"), HELD);
        assert_eq!(held.of("holdings.strained"), 0);

        // They end with this test.
        let mut waiting = JoinSet::new();
        let mut one = reserve("0");
        one["wait"] = json!("60s");
        let mut two = reserve("1");
        two["wait"] = json!("60s");
        two["also"] = json!([{"kind": "seat", "id": "2"}]);
        for waits in [one, two] {
            let door = door.clone();
            waiting.spawn(async move { door.try_ask("Reserve", &waits).await });
        }
        let waits = Counted::reaches(&sidecar, "waiting.calls", 2).await;
        assert_eq!(waits.of("waiting.calls"), 2);
        assert_eq!(waits.of("waiting.places"), 3);
        assert_eq!(waits.of("waiting.followed"), 3);
        assert_eq!(waits.of("waiting.missed"), 0);

        // From now on etcd says nothing.
        proxy.freeze();
        let late = Counted::reaches(&sidecar, "holdings.strained", 1).await;
        assert!(late.of("holdings.late") >= 8);
        let refused = door.refused("Reserve", &reserve("another")).await;
        assert_eq!(refused.reason, "RENEWALS_LATE", "{refused:?}");
        assert!(refused.retry, "{refused:?}");
        let table = operator(&sidecar, &["counts"]).await.stdout;
        let table = String::from_utf8(table).unwrap();
        for said in ["3 of 2048 places", "renewals are late", "1 grant refused"] {
            assert!(table.contains(said), "{said}: {table}");
        }
        let lost = Counted::reaches(&sidecar, "holdings.lost", HELD).await;
        assert_eq!(lost.of("holdings.refused"), 1);
        assert!(lost.of("holdings.failed") > 0);
        assert_eq!(lost.of("holdings.held"), 0);
        proxy.heal();
    }))
    .await;
}

// F1
#[tokio::test(flavor = "multi_thread")]
async fn a_lost_key_is_never_one_record_for_all() {
    let sidecar = Process::dev(&[]).await;
    let door = Door::json(&sidecar);
    for blank in ["", " ", "\t\n"] {
        let refusal = door.refused("Transition", &run("order", blank, "1")).await;
        assert_eq!(refusal.field, "intent.operation_id", "{blank:?}");
    }
    for lost in ["null", "undefined"] {
        door.ask("Transition", &run("order", lost, "1")).await;
        assert!(
            sidecar.logs().contains("a value that was missing"),
            "{}",
            sidecar.logs()
        );
        // Another caller's message is not answered with the first one's result.
        let other = door.ask("Transition", &run("order", lost, "2")).await;
        assert_eq!(other["decision"]["verdict"], "VERDICT_CONFLICT");
        assert!(other["decision"]["result"].is_null(), "{other}");
    }
    door.ask("Transition", &run("order", "0", "1")).await;
}
