use serde_json::{Value, json};

use crate::sidecar::Sidecar;

const FRESH: &str = "f47ac10b-58cc-4372-a567-0e02b2c3d479";

fn post(sidecar: &Sidecar, method: &str, headers: &str, body: &str) -> (u16, String, Value) {
    let answer = sidecar.raw(
        format!(
            "POST /fencepost.v1.CoordinationService/{method} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\
             content-length: {}\r\n{headers}\r\n\r\n{body}",
            body.len()
        )
        .as_bytes(),
    );
    split(&answer)
}

fn split(answer: &str) -> (u16, String, Value) {
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    let code = head.split(' ').nth(1).unwrap().parse().unwrap();
    let body = serde_json::from_str(body).unwrap_or(Value::Null);
    (code, head.to_ascii_lowercase(), body)
}

const JSON: &str = "content-type: application/json";

pub(crate) fn call(sidecar: &Sidecar, method: &str, body: &Value) -> (u16, Value) {
    let (code, _, answer) = post(sidecar, method, JSON, &body.to_string());
    (code, answer)
}

/// The field that the answer blames.
pub(crate) fn field(answer: &Value) -> &str {
    let details = answer["details"].as_array().unwrap();
    let bad = details
        .iter()
        .find(|it| it["type"] == "google.rpc.BadRequest");
    bad.unwrap()["debug"]["fieldViolations"][0]["field"]
        .as_str()
        .unwrap()
}

fn reserve(ttl: &str) -> Value {
    json!({"resource": {"kind": "order", "id": "1001"}, "requestId": FRESH, "ttl": ttl})
}

#[test]
fn an_error_has_the_code_the_reason_and_the_field_in_connects_words() {
    let sidecar = Sidecar::dev();
    let (code, head, answer) = post(&sidecar, "Reserve", JSON, &reserve("0.5s").to_string());
    assert_eq!(code, 400);
    assert!(head.contains("content-type: application/json"), "{head}");
    assert_eq!(answer["code"], "invalid_argument");
    assert_eq!(answer["message"], "ttl is 500ms; the least is 3s");
    let info = &answer["details"][0];
    assert_eq!(info["type"], "google.rpc.ErrorInfo");
    assert_eq!(info["debug"]["reason"], "INVALID_FIELD");
    assert_eq!(info["debug"]["domain"], "fencepost.dev");
    let value = info["value"].as_str().unwrap();
    assert!(!value.is_empty() && !value.contains('='), "{value}");
    assert_eq!(field(&answer), "ttl");
}

#[test]
fn no_duration_panics_the_sidecar_and_each_bad_one_names_its_field() {
    let sidecar = Sidecar::dev();
    for ttl in [
        "-0.000000001s",
        "-1s",
        "0s",
        "9223372036854775807.999999999s",
        "-9223372036854775808s",
        "99999999999999999999s",
        "1",
        "s",
        "",
        "1e3s",
        "+5s",
        "NaNs",
    ] {
        let (code, answer) = call(&sidecar, "Reserve", &reserve(ttl));
        assert_eq!((code, field(&answer)), (400, "ttl"), "{ttl}: {answer}");
    }
    // It still serves.
    let (code, _) = call(&sidecar, "Reserve", &json!({}));
    assert_eq!(code, 400);
}

#[test]
fn a_field_that_nobody_knows_is_refused_by_name_not_ignored() {
    let sidecar = Sidecar::dev();
    let cases = [
        (
            json!({"resource": {"kind": "order", "id": "1"}, "rquestId": FRESH}),
            "rquestId",
        ),
        (
            json!({"resource": {"kind": "order", "id": "1", "x": 1}}),
            "resource.x",
        ),
    ];
    for (body, name) in cases {
        let (code, answer) = call(&sidecar, "Reserve", &body);
        assert_eq!((code, field(&answer)), (400, name), "{answer}");
    }
    let body = json!({"result": {"headers": [{"name": "a", "valu": "b"}]}});
    let (_, answer) = call(&sidecar, "Transition", &body);
    assert_eq!(field(&answer), "result.headers[0].valu");
}

#[test]
fn what_is_wrong_in_json_is_named_and_its_value_is_not_repeated() {
    let sidecar = Sidecar::dev();
    let secret = "hunter2";
    let cases = [
        ("Fence", json!({"token": secret}), "token"),
        ("Fence", json!({"token": 1.5}), "token"),
        ("Fence", json!({"evenIfEnded": secret}), "even_if_ended"),
        ("Fence", json!({"resource": secret}), "resource"),
        ("Fence", json!([secret]), "body"),
        ("Reserve", json!({"ttl": secret}), "ttl"),
        ("Reserve", json!({"ttl": 30}), "ttl"),
        (
            "Transition",
            json!({"intent": {"json": "{\"hunter2\""}}),
            "intent.json",
        ),
        (
            "Transition",
            json!({"intent": {"identity": [secret]}}),
            "intent.identity",
        ),
        (
            "Transition",
            json!({"intent": {"fromStates": secret}}),
            "intent.from_states",
        ),
        (
            "Transition",
            json!({"intent": {"raw": "", "digest": ""}}),
            "intent.raw",
        ),
    ];
    for (method, body, name) in cases {
        let (code, answer) = call(&sidecar, method, &body);
        assert_eq!((code, field(&answer)), (400, name), "{answer}");
        assert!(!answer.to_string().contains(secret), "{answer}");
    }
    for (text, name) in [
        (r#"{"token": "1", "token": "2"}"#, "token"),
        (
            r#"{"evenIfEnded": true, "even_if_ended": true}"#,
            "even_if_ended",
        ),
        (
            r#"{"resource": {"kind": "a", "kind": "b"}}"#,
            "resource.kind",
        ),
        (r#"{"token": "#, "body"),
        (r#"{"token": 1} x"#, "body"),
        ("null", "body"),
    ] {
        let (code, _, answer) = post(&sidecar, "Fence", JSON, text);
        assert_eq!((code, field(&answer)), (400, name), "{text}: {answer}");
    }
    let twice = r#"{"intent": {"identity": {"a": "1", "\u0061": "2"}}}"#;
    let (_, _, answer) = post(&sidecar, "Transition", JSON, twice);
    assert_eq!(field(&answer), r#"intent.identity["a"]"#);
}

#[test]
fn half_a_character_is_told_as_what_it_is_with_its_field_and_its_place() {
    let sidecar = Sidecar::dev();
    for (text, name, at) in [
        (
            r#"{"resource": {"kind": "job", "id": "ab\ud800"}}"#,
            "resource.id",
            4,
        ),
        (
            r#"{"intent": {"operationId": "\udc00"}}"#,
            "intent.operation_id",
            2,
        ),
        (
            r#"{"intent": {"fromStates": ["a", "\ud800x"]}}"#,
            "intent.from_states",
            8,
        ),
        (
            r#"{"intent": {"identity": {"a": "\uD800\u0041"}}}"#,
            "intent.identity",
            8,
        ),
        (
            r#"{"intent": {"identity": {"\ud800": "a"}}}"#,
            "intent.identity",
            3,
        ),
        (r#"{"intent": {"raw": "\ud800"}}"#, "intent.raw", 2),
        (r#"{"wait": "\ud800"}"#, "wait", 2),
        (r#"{"\ud800": 1}"#, "body", 3),
    ] {
        let (code, _, answer) = post(&sidecar, "Transition", JSON, text);
        assert_eq!((code, field(&answer)), (400, name), "{text}: {answer}");
        let told = format!("holds half of a character at character {at} of its JSON");
        let message = answer["message"].as_str().unwrap();
        assert!(message.contains(&told), "{text}: {message}");
    }
    let pair = r#"{"resource": {"kind": "job", "id": "\ud83d\ude00"}}"#;
    let (code, _, answer) = post(&sidecar, "Inspect", JSON, pair);
    assert_eq!(code, 200, "{answer}");
}

#[test]
fn both_spellings_of_a_field_and_numbers_as_text_are_read() {
    let sidecar = Sidecar::dev();
    for body in [
        json!({"resource": {"kind": "order", "id": "1"}, "request_id": "x"}),
        json!({"resource": {"kind": "order", "id": "1"}, "requestId": "x", "ttl": null}),
    ] {
        let (_, answer) = call(&sidecar, "Reserve", &body);
        assert_eq!(answer["message"], "request_id is not a UUID");
    }
    for token in [json!("0"), json!(0), json!("9007199254740992"), json!(-1)] {
        let body = json!({"resource": {"kind": "order", "id": "1"}, "token": token});
        let (_, answer) = call(&sidecar, "Fence", &body);
        assert_eq!(
            answer["message"],
            "token must be 1 to 9007199254740991 (2^53-1)"
        );
    }
}

#[test]
fn what_is_not_a_post_of_json_to_a_method_is_told_what_would_be() {
    let sidecar = Sidecar::dev();
    let get = "GET /fencepost.v1.CoordinationService/Reserve HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n";
    let (code, head, _) = split(&sidecar.raw(get.as_bytes()));
    assert_eq!(code, 405);
    assert!(head.contains("allow: post"), "{head}");

    for kind in [
        "content-type: text/plain",
        "content-type: application/x-www-form-urlencoded",
        "content-type: application/json; charset=latin1",
        "content-type: application/connect+json",
        "content-type: application/grpc-web",
        "x: y",
    ] {
        let (code, head, _) = post(&sidecar, "Reserve", kind, "{}");
        assert_eq!(code, 415, "{kind}");
        assert!(head.contains("accept-post: application/json"), "{head}");
    }
    let (code, _, answer) = post(&sidecar, "Reserv", JSON, "{}");
    assert_eq!((code, &answer["code"]), (404, &json!("unimplemented")));
    let (code, _, _) =
        split(&sidecar.raw(b"GET / HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n"));
    assert_eq!(code, 404);
}

#[test]
fn the_headers_of_the_protocol_are_obeyed() {
    let sidecar = Sidecar::dev();
    let with = |headers: &str| {
        let headers = format!("{JSON}; charset=UTF-8\r\n{headers}");
        let (code, _, answer) = post(&sidecar, "Fence", &headers, "{}");
        (
            code,
            answer["message"].as_str().unwrap_or_default().to_owned(),
        )
    };
    let reached = (400, "resource is required".to_owned());
    assert_eq!(with("connect-protocol-version: 1"), reached);
    assert_eq!(with("connect-timeout-ms: 9999999999"), reached);
    assert_eq!(with("content-encoding: identity"), reached);
    let (code, message) = with("connect-protocol-version: 2");
    assert!(
        code == 400 && message.contains("connect-protocol-version"),
        "{message}"
    );
    for bad in ["12345678901", "1s", "-1"] {
        let (code, message) = with(&format!("connect-timeout-ms: {bad}"));
        assert!(
            code == 400 && message.contains("connect-timeout-ms"),
            "{message}"
        );
    }
    let (code, message) = with("connect-timeout-ms: 0");
    assert!(code == 504 && message.contains("deadline"), "{message}");
    let (code, message) = with("content-encoding: gzip");
    assert!(code == 501 && message.contains("identity"), "{message}");
}

#[test]
fn a_body_over_the_limit_is_refused_with_the_limit() {
    let sidecar = Sidecar::dev();
    let limit = fencepost::transport::JSON_BODY_BYTES_MAX;
    // Only the length is sent: what is announced as too long need not be waited for.
    let answer = sidecar.raw(
        format!(
            "POST /fencepost.v1.CoordinationService/Fence HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\
             {JSON}\r\ncontent-length: {}\r\n\r\n",
            limit + 1
        )
        .as_bytes(),
    );
    let (code, _, answer) = split(&answer);
    assert_eq!((code, &answer["code"]), (429, &json!("resource_exhausted")));
    assert!(
        answer["message"]
            .as_str()
            .unwrap()
            .contains(&limit.to_string()),
        "{answer}"
    );
    let details = answer["details"].as_array().unwrap();
    assert_eq!(details[0]["debug"]["reason"], "LIMIT_MET");
    // It is no matter of time: what says "later" with this HTTP status has a RetryInfo.
    assert_eq!(details.len(), 1, "{answer}");
}

/// A request that is taken apart by its text alone, and the field to blame; `""`: it is understood.
type Form = (&'static str, String, &'static str);

fn fence(member: &str) -> String {
    format!(r#"{{"resource": {{"kind": "order", "id": "1"}}, {member}}}"#)
}

fn lookup(member: &str) -> String {
    fence(&format!(r#""operationId": "k", {member}"#))
}

fn transition(intent: &str, beside: &str) -> String {
    fence(&format!(
        r#""validateOnly": true{beside}, "intent": {{"operationId": "k", "move": {{}}, {intent}}}"#
    ))
}

fn forms() -> Vec<Form> {
    let mut forms = Vec::new();
    // Numbers: plain or as text, exactly, and nothing that only looks like one.
    for token in [
        "1",
        "\"1\"",
        "1.0",
        "1e3",
        "\"1e3\"",
        "1000E-3",
        "9007199254740991.0",
        "\"9007199254740991\"",
    ] {
        forms.push(("Fence", fence(&format!("\"token\": {token}")), ""));
    }
    for token in [
        "1.5",
        "\"1.5\"",
        "\"\"",
        "\" 1\"",
        "\"1 \"",
        "\"+1\"",
        "\"01\"",
        "\"0x1\"",
        "\"NaN\"",
        "\"Infinity\"",
        "9223372036854775808",
        "1e19",
        "1e999999999",
        "9007199254740990.9999999",
        "true",
        "[1]",
        "{}",
    ] {
        forms.push(("Fence", fence(&format!("\"token\": {token}")), "token"));
    }
    for token in ["NaN", "Infinity", "-", "01", "+1", ".5", "1.", "0x1"] {
        forms.push(("Fence", fence(&format!("\"token\": {token}")), "body"));
    }
    for code in ["2147483648", "-2147483649", "1e10"] {
        let beside = format!(r#", "result": {{"code": {code}}}"#);
        forms.push((
            "Transition",
            transition(r#""raw": """#, &beside),
            "result.code",
        ));
    }
    // Booleans are words, and neither numbers nor texts.
    forms.push(("Fence", fence(r#""token": 1, "evenIfEnded": true"#), ""));
    for other in ["1", "0", "\"true\"", "\"\"", "[]"] {
        let body = fence(&format!("\"token\": 1, \"evenIfEnded\": {other}"));
        forms.push(("Fence", body, "even_if_ended"));
    }
    // Texts.
    for id in [r#""\ud83d\ude00""#, r#""é""#, r#""\u0000""#] {
        let body = format!(r#"{{"resource": {{"kind": "order", "id": {id}}}}}"#);
        let blamed = if id.contains("0000") {
            "resource.id"
        } else {
            ""
        };
        forms.push(("Inspect", body, blamed));
    }
    for id in ["1", "true", "[\"1\"]", r#""\ud800""#, r#""\udc00\ud800""#] {
        let body = format!(r#"{{"resource": {{"kind": "order", "id": {id}}}}}"#);
        forms.push(("Inspect", body, "resource.id"));
    }
    // Bytes: both alphabets, padded or not; nothing that was cut, mistyped or broken into lines.
    for raw in ["e30=", "e30", "", "-_8=", "+/8"] {
        forms.push((
            "Transition",
            transition(&format!("\"raw\": \"{raw}\""), ""),
            "",
        ));
    }
    for raw in [
        "e31=", "e30==", "e", "e3", "-/8=", "e3 0", "e30=\\n", "{}", "é",
    ] {
        let body = transition(&format!("\"raw\": \"{raw}\""), "");
        forms.push(("Transition", body, "intent.raw"));
    }
    for raw in ["1", "[123]", "{}"] {
        let body = transition(&format!("\"raw\": {raw}"), "");
        forms.push(("Transition", body, "intent.raw"));
    }
    // Points in time.
    for time in [
        "2026-01-31T12:00:00Z",
        "2026-01-31T12:00:00.123456789Z",
        "2026-01-31T13:00:00.5+01:00",
    ] {
        forms.push((
            "Lookup",
            lookup(&format!("\"operationTime\": \"{time}\"")),
            "",
        ));
    }
    for time in [
        "2026-01-31T12:00:00.1234567891Z",
        "2026-01-31T12:00:00.0000000000Z",
        "2026-01-31T12:00:00",
        "2026-01-31",
        "2026-01-31 12:00:00Z",
        "2026-01-31t12:00:00z",
        "2026-01-31T12:00:00+01",
        "2026-01-31T12:00:00+24:00",
        "2026-02-29T12:00:00Z",
        "2026-01-31T25:00:00Z",
        "1769860800",
        "0000-01-01T00:00:00Z",
        "",
    ] {
        let body = lookup(&format!("\"operationTime\": \"{time}\""));
        forms.push(("Lookup", body, "operation_time"));
    }
    for time in ["1769860800", r#"{"seconds": 1769860800}"#] {
        forms.push((
            "Lookup",
            lookup(&format!("\"operationTime\": {time}")),
            "operation_time",
        ));
    }
    // Spans.
    for span in ["0s", "0.000000001s", "0.5s"] {
        forms.push(("Lookup", lookup(&format!("\"wait\": \"{span}\"")), ""));
    }
    for span in [
        "0.0000000001s",
        "0.s",
        ".5s",
        "0.5",
        "1m",
        " 1s",
        "1 s",
        "1S",
        "0.5e0s",
        "-1s",
        "",
    ] {
        forms.push(("Lookup", lookup(&format!("\"wait\": \"{span}\"")), "wait"));
    }
    for span in ["1", r#"{"seconds": 1}"#] {
        forms.push(("Lookup", lookup(&format!("\"wait\": {span}")), "wait"));
    }
    // `null` is absent where a field stands, and nothing within a list or a map.
    forms.push(("Fence", fence(r#""token": 1, "evenIfEnded": null"#), ""));
    forms.push((
        "Transition",
        transition(
            r#""raw": "", "json": null, "event": null"#,
            ", \"release\": null",
        ),
        "",
    ));
    forms.push((
        "Transition",
        transition(r#""raw": "", "identity": null, "fromStates": null"#, ""),
        "",
    ));
    forms.push(("Fence", fence(r#""token": null"#), "token"));
    for (intent, blamed) in [
        (r#""fromStates": [null]"#, "intent.from_states"),
        (r#""fromStates": "a""#, "intent.from_states"),
        (r#""fromStates": [["a"]]"#, "intent.from_states"),
        (r#""identity": {"a": null}"#, "intent.identity"),
        (r#""identity": {"a": 1}"#, "intent.identity"),
        (r#""identity": [["a", "b"]]"#, "intent.identity"),
        (
            r#""identity": {"a": "1", "a": "2"}"#,
            r#"intent.identity["a"]"#,
        ),
    ] {
        forms.push((
            "Transition",
            transition(&format!("\"raw\": \"\", {intent}"), ""),
            blamed,
        ));
    }
    for also in ["[null]", "{}", "[[]]", "[\"order/1\"]"] {
        let blamed = if also == "{}" { "also" } else { "also[0]" };
        forms.push(("Reserve", fence(&format!("\"also\": {also}")), blamed));
    }
    // Each member once, by either of its names, and by no other.
    for (twice, blamed) in [
        (r#""token": 1, "token": 1"#, "token"),
        (
            r#""token": 1, "evenIfEnded": null, "even_if_ended": true"#,
            "even_if_ended",
        ),
        (r#""token": 1, "resource": null"#, "resource"),
        (r#""token": 1, "Token": 1"#, "Token"),
        (r#""token": 1, "even-if-ended": true"#, "even-if-ended"),
    ] {
        forms.push(("Fence", fence(twice), blamed));
    }
    // The text as a whole.
    let sound = fence(r#""token": 1"#);
    for text in [
        format!("\u{feff}{sound}"),
        format!("{sound}{sound}"),
        format!("[{sound}]"),
        format!("{sound},"),
        sound.replace('}', ",}"),
        sound.replace('"', "'"),
        format!("// x\n{sound}"),
        "true".to_owned(),
        "\"\"".to_owned(),
    ] {
        forms.push(("Fence", text, "body"));
    }
    let deep = format!("{}1{}", "[".repeat(200), "]".repeat(200));
    forms.push(("Fence", fence(&format!(r#""token": {deep}"#)), "token"));
    forms.push(("Fence", format!(" \r\n\t{sound}\n"), ""));
    forms
}

#[test]
fn what_proto3_json_has_is_read_and_what_it_has_not_is_refused_by_its_field() {
    let sidecar = Sidecar::dev();
    for (method, body, blamed) in forms() {
        let (code, _, answer) = post(&sidecar, method, JSON, &body);
        if blamed.is_empty() {
            assert_eq!(code, 200, "{body}: {answer}");
        } else {
            assert_eq!((code, field(&answer)), (400, blamed), "{body}: {answer}");
            let message = answer["message"].as_str().unwrap();
            assert!(message.starts_with(blamed), "{body}: {message}");
        }
    }
}

#[test]
fn a_body_that_is_not_utf8_is_refused() {
    let sidecar = Sidecar::dev();
    let mut request = format!(
        "POST /fencepost.v1.CoordinationService/Fence HTTP/1.1\r\nhost: x\r\nconnection: close\r\n{JSON}\r\n\
         content-length: 3\r\n\r\n"
    )
    .into_bytes();
    request.extend([b'"', 0xff, b'"']);
    let (code, _, answer) = split(&sidecar.raw(&request));
    assert_eq!((code, field(&answer)), (400, "body"), "{answer}");
}

#[test]
fn a_body_that_does_not_come_ends_at_the_callers_deadline() {
    let sidecar = Sidecar::dev();
    let answer = sidecar.raw(
        format!(
            "POST /fencepost.v1.CoordinationService/Fence HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\
             {JSON}\r\nconnect-timeout-ms: 50\r\ncontent-length: 10\r\n\r\n{{"
        )
        .as_bytes(),
    );
    let (code, _, answer) = split(&answer);
    assert_eq!((code, &answer["code"]), (504, &json!("deadline_exceeded")));
    assert_eq!(answer["details"][0]["debug"]["reason"], "DEADLINE_PASSED");
}
