//! Cases from the field, replayed where they happened: at the doors of two sidecars, in gRPC and in JSON, which must not differ.

use std::collections::BTreeSet;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use fencepost::domain::digest::CONTENT_BYTES_MAX;
use fencepost::domain::ids::RESOURCE_ID_BYTES_MAX;
use fencepost::domain::outcome::RESULT_BODY_BYTES_MAX;
use futures_util::future::join_all;
use serde_json::{Value, json};
use uuid::Uuid;

use crate::support::backend::Backend;
use crate::support::door::{Door, House, order};
use crate::support::process::Process;
use crate::support::proxy::Proxy;
use crate::support::{bounded, engines, until};

/// Copies of one message, or rivals, at once.
const COPIES: usize = 100;
/// How long a caller waits that was told that it is busy: the holds here last no time.
const ASK_AGAIN: Duration = Duration::from_millis(3);
/// How long a caller waits where no reply comes.
const SHORT: Duration = Duration::from_secs(2);

async fn house(backend: &Backend) -> House {
    House::on(&backend.url().await, backend.prefix()).await
}

fn base64(bytes: impl AsRef<[u8]>) -> String {
    STANDARD.encode(bytes)
}

fn reserve(id: &str) -> Value {
    json!({"resource": order(id), "requestId": Uuid::new_v4().to_string()})
}

/// Run once, with a content.
fn run(id: &str, operation: &str, content: &str) -> Value {
    json!({"resource": order(id), "intent": {"operationId": operation, "json": base64(content)}})
}

/// A move between states.
fn step(id: &str, operation: &str, from: &str, to: &str) -> Value {
    let mut ask = run(id, operation, "{}");
    ask["intent"]["fromStates"] = json!([from]);
    ask["intent"]["move"] = json!({"toState": to});
    ask
}

async fn create(door: &Door, id: &str, state: &str, attempt: &str) {
    let mut ask = run(id, "create", "{}");
    ask["intent"]["move"] = json!({
        "initialState": "new", "toState": state, "sets": {"attempt": attempt},
    });
    judged(&door.ask("Transition", &ask).await, "APPLIED");
}

/// A decision with this verdict.
#[track_caller]
fn judged(answer: &Value, verdict: &str) {
    let found = &answer["decision"]["verdict"];
    assert_eq!(found, &json!(format!("VERDICT_{verdict}")), "{answer}");
}

fn verdict(answer: &Value) -> &str {
    let verdict = answer["decision"]["verdict"].as_str().unwrap();
    verdict.strip_prefix("VERDICT_").unwrap()
}

// A9 and A10: parts of a second, and nanoseconds sent as seconds. What the case leaves open, rounding up or refusing, is
// decided: below the least it is refused, and parts of a second above it are rounded up.
async fn a_span_out_of_range_is_refused_with_the_limit_and_nothing_is_stored(backend: Backend) {
    let house = house(&backend).await;
    let before = backend.dump().await;
    let short = [
        "0.5s",
        "0.000000001s",
        "0.999999999s",
        "1.5s",
        "0s",
        "2.999999999s",
    ];
    let long = [
        "86400.000000001s",
        "9000000001s",
        "86400000000000s",
        "4611686018427387904s",
        "9223372036854775807s",
    ];
    let bad = ["-1s", "-0.000000001s"];
    let told = short.map(|ttl| (ttl, "the least is 3s")).into_iter();
    let told = told.chain(long.map(|ttl| (ttl, "the most is 86400")));
    let told = told.chain(bad.map(|ttl| (ttl, "is negative")));
    for (ttl, reason) in told {
        let mut ask = reserve("ttl");
        ask["ttl"] = json!(ttl);
        let mut refusals = Vec::new();
        for door in &house.doors {
            let refusal = door.refused("Reserve", &ask).await;
            assert_eq!(refusal.code, "invalid_argument", "{ttl}: {refusal:?}");
            assert_eq!(refusal.field, "ttl", "{ttl}: {refusal:?}");
            assert!(refusal.message.contains(reason), "{ttl}: {refusal:?}");
            refusals.push(refusal);
        }
        refusals.dedup();
        assert_eq!(refusals.len(), 1, "{ttl}: the doors differ: {refusals:?}");
    }
    assert_eq!(backend.dump().await, before);
    for (turn, (ttl, granted)) in [
        (None, "30s"),
        (Some("3.000000001s"), "4s"),
        (Some("3s"), "3s"),
    ]
    .into_iter()
    .enumerate()
    {
        let mut ask = reserve(&format!("ttl {turn}"));
        if let Some(ttl) = ttl {
            ask["ttl"] = json!(ttl);
        }
        let answer = house.door(turn).ask("Reserve", &ask).await;
        assert_eq!(answer["reservation"]["ttl"], granted, "{answer}");
    }
}

// A12: every size and sign of the case, at both doors, and back by Inspect.
async fn a_name_comes_back_as_it_was_sent_or_is_refused_with_its_length(backend: Backend) {
    let house = house(&backend).await;
    let before = backend.dump().await;
    for (turn, length) in [RESOURCE_ID_BYTES_MAX + 1, 1_024, 65_536]
        .into_iter()
        .enumerate()
    {
        for door in [house.door(turn), house.door(turn + 1)] {
            let refusal = door.refused("Reserve", &reserve(&"x".repeat(length))).await;
            assert_eq!(
                (&*refusal.code, &*refusal.field),
                ("invalid_argument", "resource.id")
            );
            let told = format!("is {length} bytes long; the limit is {RESOURCE_ID_BYTES_MAX}");
            assert!(refusal.message.contains(&told), "{refusal:?}");
        }
    }
    for (id, reason) in [("", "is required"), ("\0", "NUL"), ("a\0b", "NUL")] {
        for door in &house.doors {
            let refusal = door.refused("Reserve", &reserve(id)).await;
            assert_eq!(
                (&*refusal.code, &*refusal.field),
                ("invalid_argument", "resource.id")
            );
            assert!(refusal.message.contains(reason), "{id:?}: {refusal:?}");
        }
    }
    assert_eq!(backend.dump().await, before);

    let mut ids: Vec<String> = [
        "/", "a/b", "a\nb", "\n", "🦀", "..", "../a", "/a", "a/", "   ", " a", "a ", "\u{7f}",
        "a%2Fb", "é", "e\u{301}",
    ]
    .map(str::to_owned)
    .into();
    // Two that differ in nothing but their last byte, or in the one that an older limit would have cut off.
    for length in [1, 255, 256, 257, RESOURCE_ID_BYTES_MAX] {
        ids.extend(["y", "z"].map(|last| "x".repeat(length - 1) + last));
    }
    ids.extend(["y", "z"].map(|middle| "x".repeat(255) + middle + &"x".repeat(200)));
    let mut tokens = BTreeSet::new();
    for (turn, id) in ids.iter().enumerate() {
        let granted = house.door(turn).ask("Reserve", &reserve(id)).await;
        judged(&granted, "GRANTED");
        let token = granted["reservation"]["token"]
            .as_str()
            .expect("a string")
            .to_owned();
        for other in 1..4 {
            let ask = json!({"resource": order(id)});
            let found = house.door(turn + other).ask("Inspect", &ask).await;
            assert_eq!(found["snapshot"]["resource"], order(id));
            assert_eq!(found["snapshot"]["liveToken"], json!(token), "{id:?}");
        }
        assert!(tokens.insert(token), "{id:?} shares a grant");
    }
}

// A5 at the doors: one holder's name, one connection to each sidecar, more calls on it than it carries at once. Re-entry is by
// request_id. `exclusive` has the thousand callers of the case.
async fn many_calls_on_one_connection_hold_one_at_a_time(backend: Backend) {
    const CALLERS: usize = 600;
    let house = house(&backend).await;
    let doors = [&house.sidecars[0], &house.sidecars[1]].map(Door::grpc);
    // All call at once. Of those that are told that it is busy, every seventh goes on asking, a few
    // at a time, lest the test be about polling.
    let asking = tokio::sync::Semaphore::new(2);
    let counter = std::sync::Mutex::new((0, 0_i64));
    let callers = (0..CALLERS).map(|caller| {
        let (door, asking, counter) = (&doors[caller % 2], &asking, &counter);
        async move {
            let mut ask = reserve("one");
            ask["holder"] = json!("the same name");
            // All callers share a thread: on a machine that has much else to do, one comes to its answer only after many seconds.
            ask["ttl"] = json!("3600s");
            let mut answer = door.ask("Reserve", &ask).await;
            let mut turn = None;
            while verdict(&answer) == "BUSY" {
                if caller % 7 != 0 {
                    return;
                }
                if turn.is_none() {
                    turn = Some(asking.acquire().await.unwrap());
                }
                tokio::time::sleep(ASK_AGAIN).await;
                answer = door.ask("Reserve", &ask).await;
            }
            judged(&answer, "GRANTED");
            let token: i64 = answer["reservation"]["token"]
                .as_str()
                .unwrap()
                .parse()
                .unwrap();
            let (before, last) = *counter.lock().unwrap();
            assert!(token > last, "{token} after {last}");
            if caller % 5 == 0 {
                let again = door.ask("Reserve", &ask).await;
                assert_eq!(
                    again["reservation"]["token"], answer["reservation"]["token"],
                    "{again}"
                );
            }
            tokio::task::yield_now().await;
            *counter.lock().unwrap() = (before + 1, token);
            let round = json!({"reservationId": answer["reservation"]["reservationId"]});
            judged(&door.ask("Release", &round).await, "APPLIED");
        }
    });
    join_all(callers).await;
    assert!(counter.lock().unwrap().0 > CALLERS / 7);
}

// C2, and the numbers that are no tokens.
async fn an_equal_token_passes_an_older_one_does_not_and_forged_ones_lock_nobody_out(
    backend: Backend,
) {
    let house = house(&backend).await;
    let hold = async |turn: usize| {
        let answer = house.door(turn).ask("Reserve", &reserve("fenced")).await;
        judged(&answer, "GRANTED");
        answer["reservation"].clone()
    };
    let fence = |token: &Value| json!({"resource": order("fenced"), "token": token});
    let first = hold(0).await;
    for door in &house.doors {
        judged(&door.ask("Fence", &fence(&first["token"])).await, "GRANTED");
    }
    let round = json!({"reservationId": first["reservationId"]});
    judged(&house.door(1).ask("Release", &round).await, "APPLIED");
    let second = hold(2).await;
    for door in &house.doors {
        judged(
            &door.ask("Fence", &fence(&second["token"])).await,
            "GRANTED",
        );
        let stale = door.ask("Fence", &fence(&first["token"])).await;
        judged(&stale, "FENCED");
        assert_eq!(stale["decision"]["rule"], "OVERTAKEN");
        assert_eq!(stale["decision"]["now"]["liveToken"], second["token"]);
        for none in ["0", "-1", "9223372036854775807", "9007199254740992"] {
            let refusal = door.refused("Fence", &fence(&json!(none))).await;
            assert_eq!(
                (&*refusal.code, &*refusal.field),
                ("invalid_argument", "token")
            );
        }
        let forged = door.ask("Fence", &fence(&json!("9007199254740991"))).await;
        judged(&forged, "FENCED");
        assert_eq!(forged["decision"]["rule"], "NEVER_ISSUED");
        judged(
            &door.ask("Fence", &fence(&second["token"])).await,
            "GRANTED",
        );
    }
}

// D1: the same verdict bytes each time. The first answer alone shows how things stood, and none before it has its time.
async fn a_late_payment_gets_the_same_bytes_each_time_from_every_door(backend: Backend) {
    let house = house(&backend).await;
    create(house.door(0), "d1", "pending", "p1").await;
    let cancel = step("d1", "c1", "pending", "cancelled");
    judged(&house.door(1).ask("Transition", &cancel).await, "APPLIED");
    let before = house
        .door(2)
        .ask("Inspect", &json!({"resource": order("d1")}))
        .await;
    let mut pay = step("d1", "pay", "pending", "paid");
    pay["intent"]["identity"] = json!({"attempt": "p1"});
    pay["result"] = json!({"body": base64("charged")});
    let mut first = house.door(3).ask("Transition", &pay).await;
    judged(&first, "REJECTED");
    let decision = &first["decision"];
    assert_eq!(decision["advice"], "ADVICE_REFUSE");
    assert_eq!(decision["layer"], "LAYER_STATE");
    assert_eq!(decision["now"]["state"], "cancelled");
    let incident = decision["incidentId"].as_str().unwrap().to_owned();

    let mut again = Vec::new();
    for turn in 0..8 {
        again.push(house.door(turn).ask("Transition", &pay).await);
    }
    let texts: BTreeSet<String> = again
        .iter()
        .map(|answer| {
            let mut answer = answer.clone();
            // Where it stands is not part of the verdict, and may be told or not; nor is how often it was delivered.
            let decision = answer["decision"].as_object_mut().unwrap();
            decision.remove("now");
            let deliveries = decision.remove("deliveries");
            assert!(deliveries.is_some_and(|count| count.as_u64() >= Some(2)));
            answer.to_string()
        })
        .collect();
    assert_eq!(texts.len(), 1, "{texts:#?}");
    let mut repeated = again[0].clone();
    assert!(repeated["decision"]["firstTime"].is_string(), "{repeated}");
    for answer in [&mut first, &mut repeated] {
        let decision = answer["decision"].as_object_mut().unwrap();
        decision.remove("now");
        decision.remove("firstTime");
        decision.remove("deliveries");
    }
    assert_eq!(first, repeated);

    let state = house
        .door(1)
        .ask("Inspect", &json!({"resource": order("d1")}))
        .await;
    for field in ["state", "identity"] {
        assert_eq!(state["snapshot"][field], before["snapshot"][field]);
    }
    for sidecar in &house.sidecars {
        let listed = incidents(sidecar.admin_socket()).await;
        assert_eq!(listed.len(), 1, "{listed:?}");
        assert_eq!(listed[0]["incidentId"], json!(incident));
        assert_eq!(
            listed[0]["evidence"][0]["result"]["body"],
            json!(base64("charged"))
        );
        assert_eq!(listed[0]["state"], "cancelled");
    }
}

/// What `fencepost incidents` lists.
async fn incidents(socket: std::path::PathBuf) -> Vec<Value> {
    let list = move || {
        std::process::Command::new(env!("CARGO_BIN_EXE_fencepost"))
            .args(["incidents", "-o", "json", "--admin-socket"])
            .arg(socket)
            .output()
            .unwrap()
    };
    let said = tokio::task::spawn_blocking(list).await.unwrap();
    assert!(
        said.status.success(),
        "{}",
        String::from_utf8_lossy(&said.stderr)
    );
    let lines = String::from_utf8(said.stdout).unwrap();
    lines
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

// D4, at the doors: the case calls the losers "refused by state"; the design, which wins, says that the move was made already.
async fn of_a_hundred_calls_at_once_one_is_the_first(backend: Backend) {
    let house = house(&backend).await;
    create(house.door(0), "copies", "pending", "p1").await;
    let copies = (0..COPIES).map(|copy| {
        let mut pay = step("copies", "pay", "pending", "paid");
        pay["result"] = json!({"body": base64(format!("receipt {copy}"))});
        let door = house.door(copy);
        async move { door.ask("Transition", &pay).await }
    });
    let answers = join_all(copies).await;
    let results: BTreeSet<String> = answers
        .iter()
        .map(|answer| answer["decision"]["result"].to_string())
        .collect();
    assert_eq!(results.len(), 1, "{results:?}");
    let count = |answers: &[Value], wanted: &str| {
        answers
            .iter()
            .filter(|answer| verdict(answer) == wanted)
            .count()
    };
    assert_eq!(
        (count(&answers, "APPLIED"), count(&answers, "REPLAYED")),
        (1, COPIES - 1)
    );

    create(house.door(1), "rivals", "pending", "p1").await;
    let rivals = (0..COPIES).map(|rival| {
        let pay = step("rivals", &format!("pay {rival}"), "pending", "paid");
        let door = house.door(rival);
        async move { door.ask("Transition", &pay).await }
    });
    let answers = join_all(rivals).await;
    assert_eq!(
        (count(&answers, "APPLIED"), count(&answers, "SUPERSEDED")),
        (1, COPIES - 1)
    );
    let layers = answers
        .iter()
        .filter(|answer| answer["decision"]["layer"] == "LAYER_STATE");
    assert_eq!(layers.count(), COPIES - 1);
}

// E1, E2, E3, E5, E10: groups of contents, each group one content, every two groups different ones.
async fn contents_are_compared_by_what_they_say(backend: Backend) {
    let house = house(&backend).await;
    let groups: [&[&[&str]]; 8] = [
        &[
            &[
                r#"{"a":1,"b":[1,2],"c":{"x":1,"y":{"p":1,"q":2}}}"#,
                r#"{ "b":[1,2], "c":{"y":{"q":2,"p":1},"x":1}, "a":1 }"#,
                "{\n  \"a\": 1,\n  \"b\": [\n    1,\n    2\n  ],\n  \"c\": {\"x\": 1, \"y\": {\"p\": 1, \"q\": 2}}\n}\n",
            ],
            &[r#"{"a":1,"b":[2,1],"c":{"x":1,"y":{"p":1,"q":2}}}"#],
        ],
        &[&["1", "1.0", "1e0", "10e-1"], &["10"], &["1.1"], &["\"1\""]],
        &[
            &["100000000000000000000", "1e20", "1e+20"],
            &["100000000000000000001"],
        ],
        &[&["0.0000001", "1e-7", "1e-07"], &["0"]],
        &[&["0", "-0", "0.0"], &["\"-0\""]],
        &[
            &["9007199254740992"],
            &["9007199254740993"],
            &["\"9007199254740992\""],
            &["\"9007199254740993\""],
        ],
        &[
            &["1e400", "10e399"],
            &["1e401"],
            &["0.3"],
            &["0.30000000000000004"],
        ],
        &[&["null"], &["\"\""], &["{}"], &["[]"], &["false"]],
    ];
    for (at, contents) in groups.into_iter().enumerate() {
        for (first, group) in contents.iter().enumerate() {
            // Each group is once the first content.
            let id = format!("content {at} {first}");
            for (turn, text) in group.iter().enumerate() {
                let ask = run(&id, "op", text);
                let answer = house.door(turn).ask("Transition", &ask).await;
                judged(&answer, if turn == 0 { "APPLIED" } else { "REPLAYED" });
            }
            for (turn, text) in contents
                .iter()
                .enumerate()
                .filter(|(other, _)| *other != first)
                .flat_map(|(_, group)| group.iter().enumerate())
            {
                let answer = house
                    .door(turn)
                    .ask("Transition", &run(&id, "op", text))
                    .await;
                judged(&answer, "CONFLICT");
            }
            // No content at all is another one still.
            let mut none = run(&id, "op", "");
            none["intent"] = json!({"operationId": "op", "raw": ""});
            judged(
                &house.door(first).ask("Transition", &none).await,
                "CONFLICT",
            );
        }
    }
    // E10: the same key and content for another order, and for an order of another kind.
    let mut pay = run("7", "pay", "{\"amount\":1}");
    pay["result"] = json!({"body": base64("of 7")});
    judged(&house.door(0).ask("Transition", &pay).await, "APPLIED");
    for resource in [order("8"), json!({"kind": "refund", "id": "7"})] {
        let mut other = pay.clone();
        other["resource"] = resource;
        other["result"]["body"] = json!(base64("of the other"));
        let answer = house.door(1).ask("Transition", &other).await;
        judged(&answer, "APPLIED");
        assert_eq!(
            answer["decision"]["result"]["body"],
            other["result"]["body"]
        );
    }
}

// E5, what is refused.
async fn a_content_that_could_be_read_in_two_ways_is_refused_with_its_place(backend: Backend) {
    let house = house(&backend).await;
    let before = backend.dump().await;
    let deep = "[".repeat(10_000) + &"]".repeat(10_000);
    let contents: [(&[u8], &str); 6] = [
        (br#""\ud800""#, "byte "),
        (b"\"\xed\xa0\x80\"", "byte "),
        (b"\xef\xbb\xbf{}", "byte "),
        (br#"{"a":1,"a":2}"#, "byte "),
        (deep.as_bytes(), "byte "),
        // The case takes empty input for a content; as JSON it is none, and is sent as an empty `raw`.
        (b"", "empty"),
    ];
    for (content, place) in contents {
        let mut ask = run("e5", "op", "");
        ask["intent"]["json"] = json!(base64(content));
        for door in &house.doors {
            let refusal = door.refused("Transition", &ask).await;
            let found = (&*refusal.code, &*refusal.field);
            assert_eq!(found, ("invalid_argument", "intent.json"), "{refusal:?}");
            assert!(refusal.message.contains(place), "{refusal:?}");
        }
    }
    assert_eq!(backend.dump().await, before);
}

// F1
async fn a_missing_key_is_refused_and_one_that_looks_missing_is_warned_of_once(backend: Backend) {
    let house = house(&backend).await;
    let before = backend.dump().await;
    let mut missing = run("f1", "", "{}");
    missing["intent"]
        .as_object_mut()
        .unwrap()
        .remove("operationId");
    let blank = ["", " ", "\t", "\u{a0}"].map(|operation| run("f1", operation, "{}"));
    for ask in blank.iter().chain([&missing]) {
        for door in &house.doors {
            let refusal = door.refused("Transition", ask).await;
            let found = (&*refusal.code, &*refusal.field);
            assert_eq!(
                found,
                ("invalid_argument", "intent.operation_id"),
                "{refusal:?}"
            );
        }
    }
    assert_eq!(backend.dump().await, before);
    for operation in ["null", "undefined", "0"] {
        let mut ask = run("f1", operation, "{}");
        ask["result"] = json!({"body": base64(operation)});
        judged(&house.door(0).ask("Transition", &ask).await, "APPLIED");
        // Another caller, another content: told, never given the first one's answer.
        let other = run("f1", operation, "1");
        for door in &house.doors {
            judged(&door.ask("Transition", &other).await, "CONFLICT");
            let same = door.ask("Transition", &ask).await;
            judged(&same, "REPLAYED");
            assert_eq!(same["decision"]["result"]["body"], ask["result"]["body"]);
        }
    }
    for sidecar in &house.sidecars {
        let logs = sidecar.logs();
        for (operation, times) in [("null", 1), ("undefined", 1), ("0", 0)] {
            let named = format!("operation=\"{operation}\"");
            let warnings = logs
                .lines()
                .filter(|line| line.contains("WARN") && line.contains(&named));
            assert_eq!(warnings.count(), times, "{operation}:\n{logs}");
        }
    }
}

// F5
async fn an_empty_result_is_done_and_every_result_keeps_its_bytes(backend: Backend) {
    let house = house(&backend).await;
    let results: [&[u8]; 5] = [b"", b"\0", b"null", b"false", b"[]"];
    for (turn, result) in results.into_iter().enumerate() {
        let id = format!("f5 {turn}");
        let lookup = json!({"resource": order(&id), "operationId": "op"});
        let never = house.door(turn).ask("Lookup", &lookup).await;
        assert_eq!(never["state"], "OPERATION_STATE_NEVER_SEEN");
        let mut ask = run(&id, "op", "{}");
        ask["result"] = json!({"body": base64(result)});
        judged(&house.door(turn).ask("Transition", &ask).await, "APPLIED");
        ask["result"]["body"] = json!(base64("another"));
        for door in &house.doors {
            let again = door.ask("Transition", &ask).await;
            judged(&again, "REPLAYED");
            let known = door.ask("Lookup", &lookup).await;
            let state = if result.is_empty() {
                "DONE_EMPTY"
            } else {
                "DONE"
            };
            assert_eq!(known["state"], json!(format!("OPERATION_STATE_{state}")));
            for answer in [&again, &known] {
                let stored = answer["decision"]["result"].as_object().expect("a result");
                // Proto3 JSON leaves empty bytes out.
                let body = stored.get("body").map_or("", |body| body.as_str().unwrap());
                assert_eq!(STANDARD.decode(body).unwrap(), result);
            }
        }
    }
}

async fn a_caller_that_hangs_up_at_the_door_leaves_nothing_half_done(backend: Backend) {
    let line = Proxy::to_url(&backend.url().await);
    let slow = Process::serve(&line.url(), backend.prefix(), &[]).await;
    let other = Process::serve(&backend.url().await, backend.prefix(), &[]).await;
    let doors = [Door::grpc(&slow), Door::json(&slow)];
    let elsewhere = [Door::json(&other), Door::grpc(&other)];
    for (at, door) in doors.iter().enumerate() {
        let id = format!("hang up {at}");
        create(door, &id, "pending", "p1").await;
        let pay = |result: &str| {
            let mut pay = step(&id, "pay", "pending", "paid");
            pay["result"] = json!({"body": base64(result)});
            pay
        };
        line.freeze();
        // It may be gone before the sidecar has sent anything, or after: both are whole.
        let first = pay("first");
        let hangs_up = tokio::time::timeout(ASK_AGAIN * 20, door.ask("Transition", &first));
        assert!(hangs_up.await.is_err(), "etcd was out of reach");
        line.heal();
        let truth = elsewhere[at].ask("Transition", &pay("second")).await;
        assert!(
            ["APPLIED", "REPLAYED"].contains(&verdict(&truth)),
            "{truth}"
        );
        for door in doors.iter().chain(&elsewhere) {
            let again = door.ask("Transition", &pay("third")).await;
            judged(&again, "REPLAYED");
            assert_eq!(again["decision"]["result"], truth["decision"]["result"]);
            let found = door.ask("Inspect", &json!({"resource": order(&id)})).await;
            assert_eq!(found["snapshot"]["state"], "paid");
        }
    }
}

async fn the_largest_content_and_result_pass_and_one_byte_more_does_not(backend: Backend) {
    let house = house(&backend).await;
    let ask = |turn: usize, content: usize, result: usize| {
        let raw = base64(vec![b'x'; content]);
        json!({
            "resource": order(&format!("large {turn}")),
            "intent": {"operationId": "op", "raw": raw},
            "result": {"body": base64(vec![0xff; result])},
        })
    };
    let (content, result) = (CONTENT_BYTES_MAX, RESULT_BODY_BYTES_MAX);
    for (turn, door) in house.doors.iter().enumerate() {
        for (ask, field) in [
            (ask(turn, content + 1, result), "intent.raw"),
            (ask(turn, content, result + 1), "result.body"),
        ] {
            let refusal = door.refused("Transition", &ask).await;
            let found = (&*refusal.code, &*refusal.field);
            assert_eq!(found, ("invalid_argument", field), "{refusal:?}");
        }
        let largest = ask(turn, content, result);
        judged(&door.ask("Transition", &largest).await, "APPLIED");
        let again = house.door(turn + 1).ask("Transition", &largest).await;
        judged(&again, "REPLAYED");
        let body = &again["decision"]["result"]["body"];
        assert_eq!(body, &largest["result"]["body"]);
    }
}

// J1 at the doors: what is unknown is called so, with a reason and when to ask again, and asking again gives the truth.
async fn a_lost_reply_is_called_unknown_and_asking_again_gives_the_truth(backend: Backend) {
    let line = Proxy::to_url(&backend.url().await);
    let settings = ["--etcd-timeout", "1s"];
    let deaf = Process::serve(&line.url(), backend.prefix(), &settings).await;
    let other = Process::serve(&backend.url().await, backend.prefix(), &[]).await;
    let doors = [Door::json(&deaf).within(SHORT), Door::grpc(&deaf)];
    let elsewhere = [Door::grpc(&other), Door::json(&other)];
    let held = doors[0].ask("Reserve", &reserve("held")).await;
    let round = json!({"reservationId": held["reservation"]["reservationId"]});
    let mut pay = run("paid", "pay", "{}");
    pay["result"] = json!({"body": base64("receipt")});
    let cases = [
        (0, "Transition", pay.clone(), "REPLAYED"),
        (0, "Reserve", reserve("seat"), "GRANTED"),
        (0, "Release", round, "REPLAYED"),
        (1, "Transition", run("paid", "pay again", "{}"), "REPLAYED"),
    ];
    for (way, method, ask, truth) in cases {
        // It has found etcd again, and a lease is at hand.
        let warm = until("it is warm", Duration::from_secs(30), || async {
            doors[0]
                .try_ask("Reserve", &reserve(&Uuid::new_v4().to_string()))
                .await
                .ok()
        });
        let warm = warm.await;
        let warm = json!({"reservationId": warm["reservation"]["reservationId"]});
        judged(&doors[0].ask("Release", &warm).await, "APPLIED");
        line.drop_replies();
        let refusal = doors[way].refused(method, &ask).await;
        let found = (&*refusal.code, &*refusal.reason);
        assert_eq!(
            found,
            ("aborted", "UNKNOWN_OUTCOME"),
            "{method}: {refusal:?}"
        );
        assert!(
            refusal.retry && refusal.message.contains("same ids"),
            "{refusal:?}"
        );
        judged(&elsewhere[way].ask(method, &ask).await, truth);
        line.heal();
        let again = until("it finds etcd again", Duration::from_secs(30), || async {
            doors[0].try_ask(method, &ask).await.ok()
        });
        judged(&again.await, truth);
    }
    assert!(line.dropped_bytes() > 0);
}

engines! {
    a_caller_that_hangs_up_at_the_door_leaves_nothing_half_done,
    the_largest_content_and_result_pass_and_one_byte_more_does_not,
    a_lost_reply_is_called_unknown_and_asking_again_gives_the_truth,
    a_span_out_of_range_is_refused_with_the_limit_and_nothing_is_stored,
    a_name_comes_back_as_it_was_sent_or_is_refused_with_its_length,
    many_calls_on_one_connection_hold_one_at_a_time,
    an_equal_token_passes_an_older_one_does_not_and_forged_ones_lock_nobody_out,
    a_late_payment_gets_the_same_bytes_each_time_from_every_door,
    of_a_hundred_calls_at_once_one_is_the_first,
    contents_are_compared_by_what_they_say,
    a_content_that_could_be_read_in_two_ways_is_refused_with_its_place,
    a_missing_key_is_refused_and_one_that_looks_missing_is_warned_of_once,
    an_empty_result_is_done_and_every_result_keeps_its_bytes,
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn dev_says_that_nothing_survives_and_the_line_that_it_shows_works() {
    bounded(Box::pin(async {
        let process = Process::dev(&["--log-level", "error"]).await;
        let said = process.logs();
        assert!(said.contains("NOTHING SURVIVES"), "{said}");
        let (_, line) = said.split_once("by hand ").expect("a line for curl");
        let (line, _) = line.split_once("\n\n").expect("an end of it");
        let line = line.to_owned();
        let curl = move || {
            std::process::Command::new("bash")
                .args(["-euc", &line])
                .output()
                .unwrap()
        };
        let answer = tokio::task::spawn_blocking(curl).await.unwrap().stdout;
        let answer: Value = serde_json::from_slice(&answer).unwrap();
        judged(&answer, "GRANTED");
        let inspect = json!({"resource": json!({"kind": "job", "id": "1"})});
        let found = Door::json(&process).ask("Inspect", &inspect).await;
        assert_eq!(
            found["snapshot"]["liveToken"],
            answer["reservation"]["token"]
        );

        // The next one knows nothing of it, and says so also where a text for people would be in the way.
        assert_eq!(process.terminate().await, 0);
        let next = Process::dev(&["--log-format", "json"]).await;
        let said = next.logs();
        assert!(said.contains("nothing survives"), "{said}");
        assert!(!said.contains("by hand"), "{said}");
        let found = Door::json(&next)
            .ask(
                "Inspect",
                &json!({"resource": json!({"kind": "job", "id": "1"})}),
            )
            .await;
        assert_eq!(found["snapshot"].get("liveToken"), None, "{found}");
    }))
    .await;
}
