//! The contract by examples.
#![allow(
    clippy::as_conversions,
    clippy::unwrap_used,
    clippy::wildcard_enum_match_arm
)]
use super::*;

mod naming;
mod vectors;

fn json(text: &str) -> ContentDigest {
    ContentDigest::of_json(text.as_bytes()).unwrap_or_else(|fault| panic!("{text} {fault}"))
}

fn refusal(text: &[u8]) -> String {
    match ContentDigest::of_json(text) {
        Ok(_) => panic!("{} has a digest", String::from_utf8_lossy(text)),
        Err(invalid) => invalid.to_string(),
    }
}

fn form(text: &str) -> String {
    let form = String::from_utf8(canonical::form(&Json::read(text.as_bytes()).unwrap())).unwrap();
    form.strip_prefix("fencepost:json:v1\n").unwrap().to_owned()
}

fn all_differ(digests: &[(&str, ContentDigest)]) {
    for (at, (left, digest)) in digests.iter().enumerate() {
        for (right, other) in &digests[at + 1..] {
            assert_ne!(digest, other, "{left} and {right}");
        }
    }
}

fn all_differ_as_json(texts: &[&str]) {
    all_differ(
        &texts
            .iter()
            .map(|text| (*text, json(text)))
            .collect::<Vec<_>>(),
    );
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Made once by a second implementation, written from the text of the contract. A change here breaks every stored
/// digest: it needs a contract v2.
#[test]
fn contract_v1_keeps_its_vectors() {
    let vectors = [
        (
            "null",
            "868657e460612aff1f60fee57d5165404430cb5c8f2cec295ebad260db4d9a18",
        ),
        (
            "\"\"",
            "61dcc2e85f6324f6a73def77a311fa13f4a1bdd92d8fa3cc3f998155db02aa05",
        ),
        (
            "{}",
            "519e094487ea645b6deadea552c6cbfd19427b27e5f99c8275158852f87bdd05",
        ),
        (
            "[]",
            "b4cd640f9cc6a2fa15c75b933922aba5f8709250d347ad0bb186817baaa1f6dd",
        ),
        (
            "true",
            "a52ba1a4e23a733df058c59f7a46e54c5b63852bc6006c220131691c3e4f04dd",
        ),
        (
            "[1, 1.0, -0, 9007199254740993, 1e400, 0.30000000000000004]",
            "1c34898b296fcb5e9e43ec5d9582154044732a0ae06d3f90d954421f759d88f2",
        ),
        (
            "1e999999999",
            "413cb3a68fd667308a53db0a1491071fd1c80d06962d289938885fd850a31d50",
        ),
        (
            "-12.50e-3",
            "547307a6e394e26ea5eda21a1b9a328587cb568adf62f64286dd531f80a0fd02",
        ),
        (
            r#""caf\u00e9 \ud83d\ude00 \n""#,
            "8052e3b8a63ec19ed5692d1d312d6f1c8ef4a839da8a0db6610b02f285afa9f7",
        ),
        (
            r#"{ "b": [1.0, "é"], "a": null }"#,
            "884df85c6d4d8be82e87317c9415256c3e4851c4899a07d0e5baeb2ea0af9268",
        ),
        // In UTF-16 order the second name would come before the first.
        (
            r#"{"\ufb01":1,"\ud83d\ude00":2,"":3,"a":4,"aa":5}"#,
            "baec2bd9f9414fd3d7d68b6e296ef728c64be1071d3308b47cab0e5e8c51c705",
        ),
        (
            r#"{"order":{"id":"A-7","amount":10.00,"currency":"EUR"},"lines":[{"sku":"x","n":2},{}]}"#,
            "0084b234427ac733101f26a54ae4a194d8c3bfc62e44df4ff3e21a75c92480e6",
        ),
    ];
    for (text, digest) in vectors {
        assert_eq!(hex(json(text).bytes()), digest, "{text}");
    }
    assert_eq!(
        hex(ContentDigest::of_raw(b"").unwrap().bytes()),
        "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
    );
}

#[test]
fn the_form_is_the_documented_one() {
    let forms = [
        (
            r#"{ "b": [1.0, "é"], "a": null }"#,
            r#"{"1:an"1:b[#1e0;"2:é]}"#,
        ),
        ("[1500, -0.25, -0.0e7, false]", "[#15e2;#-25e-2;#0e0;f]"),
        (r#"["", "]", "\""]"#, r#"["0:"1:]"1:"]"#),
    ];
    for (text, expected) in forms {
        assert_eq!(form(text), expected, "{text}");
    }
}

#[test]
fn order_of_members_and_white_space_do_not_count() {
    let same = [
        r#"{"a":1,"b":[1,{"d":2,"c":"x"}]}"#,
        r#"{ "b":[1,{"c":"x","d":2}], "a":1 }"#,
        "\r\n{\n\t\"a\" : 1,\n\t\"b\" : [\n\t\t1 , {\"c\": \"x\", \"d\" :2 }\n\t]\n}\n",
        r#"{"\u0061":1,"b":[1,{"d":2,"\u0063":"\u0078"}]}"#,
    ];
    for text in same {
        assert_eq!(json(text), json(same[0]), "{text}");
    }
    assert_ne!(json("[1,2]"), json("[2,1]"));
}

#[test]
fn a_number_is_its_exact_value_however_it_is_written() {
    let equal: &[&[&str]] = &[
        &[
            "1",
            "1.0",
            "1e0",
            "10e-1",
            "0.1e1",
            "1E+0",
            "1.000e-00",
            "0.001e3",
            "1e0000000000000000000000",
        ],
        &["-1", "-1.0", "-10E-1"],
        &["0", "-0", "0.0", "-0.00e99", "0e-5", "0E+5"],
        &["100000000000000000000", "1e20", "1e+20", "0.1e21"],
        &["0.0000001", "1e-7", "1e-07"],
        &[
            "9007199254740992",
            "9007199254740992.0",
            "9.007199254740992e15",
        ],
        &["9007199254740993"],
        &["1e400", "10e399"],
        &["1e401"],
        &["0.3"],
        &["0.30000000000000004"],
        &["10.05", "1005e-2"],
        &["1e999999999999999999", "10e999999999999999998"],
        &["1e-999999999999999999"],
    ];
    for spellings in equal {
        for spelling in *spellings {
            assert_eq!(json(spelling), json(spellings[0]), "{spelling}");
        }
    }
    all_differ_as_json(
        &equal
            .iter()
            .map(|spellings| spellings[0])
            .collect::<Vec<_>>(),
    );
}

#[test]
fn a_huge_exponent_is_never_expanded() {
    assert_eq!(form("1e999999999"), "#1e999999999;");
    assert_eq!(
        form("-0.10e-999999999999999999"),
        "#-1e-1000000000000000000;"
    );
}

#[test]
fn values_that_look_alike_differ() {
    all_differ_as_json(&[
        "1", "\"1\"", "true", "\"true\"", "null", "\"null\"", "false", "0",
    ]);
    all_differ_as_json(&[
        "[]",
        "{}",
        "null",
        "\"\"",
        "[[]]",
        "[{}]",
        "[null]",
        "[\"\"]",
        "{\"\":\"\"}",
    ]);
    all_differ_as_json(&["9007199254740992", "9007199254740993"]);
    all_differ_as_json(&[
        "\"9007199254740992\"",
        "\"9007199254740993\"",
        "9007199254740992",
    ]);
    // One letter, composed and decomposed.
    all_differ_as_json(&[r#""\u00e9""#, r#""e\u0301""#]);
}

#[test]
fn nothing_is_ambiguous_by_concatenation() {
    all_differ_as_json(&[
        r#"["a","b"]"#,
        r#"["ab"]"#,
        r#"["a\",\"b"]"#,
        r#"["a\"1:b"]"#,
        // The form of `["a","b"]`, were there no lengths.
        r#"["a\":b"]"#,
        r#"[["a"],"b"]"#,
        r#"[["a","b"]]"#,
        r#"{"a":"b"}"#,
        r#"{"ab":""}"#,
        r#"{"":"ab"}"#,
        r#"[{"a":"b"}]"#,
    ]);
    all_differ_as_json(&["[1,2]", "[12]", "[1,[2]]", "[[1],2]", "[1e2]", "[1,0,2]"]);
    all_differ_as_json(&[r#"{"a":{"b":1}}"#, r#"{"a":{},"b":1}"#, r#"{"a":{"b":{}}}"#]);
}

#[test]
fn no_content_null_empty_string_and_empty_object_are_four_contents() {
    all_differ(&[
        ("nothing", ContentDigest::of_raw(b"").unwrap()),
        ("null", json("null")),
        ("\"\"", json("\"\"")),
        ("{}", json("{}")),
        ("the raw text null", ContentDigest::of_raw(b"null").unwrap()),
        ("none", ContentDigest::none()),
    ]);
    assert_eq!(
        refusal(b""),
        "is empty, which is not JSON; for a message without content send an empty raw content"
    );
}

#[test]
fn what_has_no_digest_is_refused_with_its_position() {
    const ESCAPE: &str = "an escape that JSON does not have, or a lone surrogate";
    let refused: &[(&[u8], usize, &str)] = &[
        (br#"{"a":1,"a":2}"#, 7, "duplicate member name"),
        (br#"{"a":1,"\u0061":2}"#, 7, "duplicate member name"),
        (
            br#"[{"b":0,"a":1,"c":2,"a":1,"b":3}]"#,
            20,
            "duplicate member name",
        ),
        (b"\"\xed\xa0\x80\"", 1, "invalid UTF-8"),
        (b"[1,\xff]", 3, "invalid UTF-8"),
        (br#"["\ud800"]"#, 8, ESCAPE),
        (br#""\ud800\u0041""#, 12, ESCAPE),
        (br#""\udc00""#, 6, ESCAPE),
        (br#""a\x""#, 3, ESCAPE),
        (
            b"\"a\\\nb\"",
            3,
            "a control character in a string must be escaped",
        ),
        (b"\xef\xbb\xbf{}", 0, "a byte order mark is not allowed"),
        (b"{} {}", 3, "the value is complete, but more text follows"),
        (b"nullx", 4, "the value is complete, but more text follows"),
        (b"[NaN]", 1, "a value is expected"),
        (b"-Infinity", 1, "a digit is expected"),
        (b"[1,01]", 3, "a number has no leading zeros"),
        (b"-00", 1, "a number has no leading zeros"),
        (b"+1", 0, "a value is expected"),
        (b".5", 0, "a value is expected"),
        (b"1.", 2, "a digit is expected"),
        (b"1.e5", 2, "a digit is expected"),
        (b"1e+", 3, "a digit is expected"),
        (
            b"[1e1000000000000000000]",
            3,
            "an exponent has at most 18 digits",
        ),
        (
            b"0e-1000000000000000000",
            3,
            "an exponent has at most 18 digits",
        ),
        (
            b"\"a\tb\"",
            2,
            "a control character in a string must be escaped",
        ),
        (
            b"\"a\0\"",
            2,
            "a control character in a string must be escaped",
        ),
        (b"\"abc", 4, "the text ends inside a string"),
        (b"\"abc\\\"", 6, "the text ends inside a string"),
        (b"\"abc\\", 5, "the text ends inside a string"),
        (b"  ", 2, "the text ends where a value is expected"),
        (b"[1,]", 3, "a value is expected"),
        (b"[1 2]", 3, "`,` or `]` is expected"),
        (b"[1}", 2, "`,` or `]` is expected"),
        (b"[", 1, "the text ends where a value is expected"),
        (br#"{"a" 1}"#, 5, "`:` is expected"),
        (br#"{"a":1 "b":2}"#, 7, "`,` or `}` is expected"),
        (
            br#"{"a":1,}"#,
            7,
            "a member name in double quotes is expected",
        ),
        (b"{a:1}", 1, "a member name in double quotes is expected"),
        (b"{'a':1}", 1, "a member name in double quotes is expected"),
        (b"nul", 0, "a value is expected"),
        (b"// c\n1", 0, "a value is expected"),
        (b"\xc2\xa01", 0, "a value is expected"),
    ];
    for (text, at, what) in refused {
        let expected = format!("is not valid JSON at byte {at}: {what}");
        assert_eq!(refusal(text), expected, "{}", String::from_utf8_lossy(text));
    }
}

#[test]
fn a_hundred_levels_have_a_digest_and_more_are_refused() {
    let nested = |levels: usize| format!("{}{}", "[".repeat(levels), "]".repeat(levels));
    json(&nested(100));
    json(&format!("{}1{}", r#"{"a":"#.repeat(100), "}".repeat(100)));
    // Levels that were left do not count.
    json(&format!("[{}[]]", "[{}],".repeat(1_000)));
    let expected = "is not valid JSON at byte 100: more than 100 levels of nesting";
    assert_eq!(refusal(nested(101).as_bytes()), expected);
    assert_eq!(refusal(nested(10_000).as_bytes()), expected);
    assert_eq!(refusal("[".repeat(CONTENT_BYTES_MAX).as_bytes()), expected);
    let objects = r#"{"a":"#.repeat(10_000);
    assert_eq!(
        refusal(objects.as_bytes()),
        "is not valid JSON at byte 500: more than 100 levels of nesting"
    );
}

#[test]
fn a_content_above_one_mebibyte_is_refused() {
    let text = format!("\"{}\"", "a".repeat(CONTENT_BYTES_MAX - 2));
    json(&text);
    ContentDigest::of_raw(text.as_bytes()).unwrap();
    let long = format!("{text} ");
    let expected =
        "is 1048577 bytes long; a content has at most 1048576. Send a digest of it instead";
    assert_eq!(refusal(long.as_bytes()), expected);
    assert_eq!(
        ContentDigest::of_raw(long.as_bytes())
            .unwrap_err()
            .to_string(),
        expected
    );
}

#[test]
fn a_digest_made_by_the_caller_has_16_to_64_bytes() {
    for length in [16, 32, 64] {
        let digest = ContentDigest::given(&vec![7; length]).unwrap();
        assert_eq!(
            (digest.scheme(), digest.bytes().len()),
            (DigestScheme::Caller, length)
        );
    }
    for length in [0, 15, 65] {
        assert_eq!(
            ContentDigest::given(&vec![7; length])
                .unwrap_err()
                .to_string(),
            format!("is {length} bytes long; a digest has 16 to 64")
        );
    }
}

#[test]
fn the_same_bytes_under_another_scheme_are_another_content() {
    let raw = ContentDigest::of_raw(b"x").unwrap();
    assert_ne!(raw, ContentDigest::given(raw.bytes()).unwrap());
    assert_ne!(
        raw,
        ContentDigest::from_parts(DigestScheme::JsonV1, raw.bytes()).unwrap()
    );
}

#[test]
fn a_stored_digest_comes_back_and_a_damaged_one_does_not() {
    let digests = [
        (1, json("[1]")),
        (2, ContentDigest::of_raw(b"x").unwrap()),
        (3, ContentDigest::given(&[1; 20]).unwrap()),
        (4, ContentDigest::none()),
    ];
    for (code, digest) in digests {
        assert_eq!(digest.scheme().code(), code);
        let scheme = DigestScheme::from_code(code).unwrap();
        assert_eq!(
            ContentDigest::from_parts(scheme, digest.bytes()),
            Some(digest.clone())
        );
    }
    assert_eq!([0, 5, 255].map(DigestScheme::from_code), [None; 3]);
    let damaged = [
        (DigestScheme::JsonV1, 31),
        (DigestScheme::JsonV1, 33),
        (DigestScheme::Raw, 0),
        (DigestScheme::Raw, 64),
        (DigestScheme::Caller, 15),
        (DigestScheme::Caller, 65),
        (DigestScheme::None, 1),
    ];
    for (scheme, length) in damaged {
        assert_eq!(
            ContentDigest::from_parts(scheme, vec![0; length]),
            None,
            "{scheme} {length}"
        );
    }
}

#[test]
fn a_log_line_shows_the_scheme_and_eight_bytes() {
    assert_eq!(json("null").to_string(), "json-v1:868657e460612aff");
    assert_eq!(ContentDigest::none().to_string(), "none");
}
