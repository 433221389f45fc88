//! Which fields differ: what a conflict may name, and what is kept for it.

use proptest::collection::btree_map;
use proptest::prelude::*;
use serde_json::{Map, Value, json};

use super::super::*;
use crate::domain::ids::Mark;
use crate::domain::machine::{DigestRule, POINTER_BYTES_MAX};

const SALT: Mark = Mark::from_bytes([7; 6]);

fn read(text: &str, rule: &DigestRule) -> Content {
    Content::read(Given::Json(text.as_bytes()), rule).unwrap()
}

/// What a conflict between the two names, under a salt.
fn named_under(first: &str, second: &str, rule: &DigestRule, salt: Mark) -> Vec<String> {
    let (first, second) = (read(first, rule), read(second, rule));
    let kept = first.beside.hashes(salt, None);
    let kept = FieldHashes::from_bytes(kept.as_bytes()).unwrap();
    assert!(kept.as_bytes().len() <= FIELD_HASHES_BYTES_MAX);
    second.beside.differing(&first.digest, &kept, salt)
}

fn named(first: &str, second: &str) -> Vec<String> {
    named_under(first, second, &DigestRule::Whole, SALT)
}

#[test]
fn a_changed_field_is_named_and_no_other() {
    let first = r#"{"amount":10.00,"currency":"EUR","lines":[{"n":1},{"n":2}],"a/b":{"m~n":1}}"#;
    for (from, to, pointer) in [
        ("10.00", "100.00", "/amount"),
        ("\"EUR\"", "\"USD\"", "/currency"),
        ("\"EUR\"", "null", "/currency"),
        ("{\"n\":2}", "{\"n\":3}", "/lines/1/n"),
        ("\"m~n\":1", "\"m~n\":2", "/a~1b/m~0n"),
    ] {
        assert_eq!(named(first, &first.replace(from, to)), [pointer]);
    }
    let two = first.replace("10.00", "11").replace("EUR", "USD");
    assert_eq!(named(first, &two), ["/amount", "/currency"]);
}

#[test]
fn a_new_field_is_named_and_a_missing_one_is_told_as_the_whole() {
    assert_eq!(named(r#"{"a":1}"#, r#"{"a":1,"b":2}"#), ["/b"]);
    assert_eq!(named(r#"{"a":1,"b":2}"#, r#"{"a":1}"#), [""]);
    assert_eq!(named(r#"{"a":1,"b":2}"#, r#"{"a":1,"c":2}"#), ["", "/c"]);
    assert_eq!(named("1", "2"), [""]);
    assert_eq!(named("[1,2]", "[1,2,3]"), ["/2"]);
    assert_eq!(named(r#"{"a":{}}"#, r#"{"a":{"b":1}}"#), ["", "/a/b"]);
}

#[test]
fn a_wide_content_is_compared_by_its_outermost_members_and_a_wider_one_not_at_all() {
    let wide = |top: usize, below: usize, changed: i32| {
        let inner = |at: usize| {
            let all = (0..below).map(|below| (format!("f{below}"), json!(1)));
            let mut all: Map<String, Value> = all.collect();
            if at == top - 1 {
                all.insert("f0".to_owned(), json!(changed));
            }
            Value::Object(all)
        };
        let all = (0..top).map(|at| (format!("p{at}"), inner(at)));
        Value::Object(all.collect()).to_string()
    };
    assert_eq!(named(&wide(4, 4, 1), &wide(4, 4, 2)), ["/p3/f0"]);
    assert_eq!(named(&wide(4, 5, 1), &wide(4, 5, 2)), ["/p3"]);
    assert_eq!(named(&wide(16, 600, 1), &wide(16, 600, 2)), ["/p15"]);
    assert_eq!(named(&wide(17, 1, 1), &wide(17, 1, 2)), [""]);
    // Only one of the two is wide.
    assert_eq!(named(r#"{"a":1}"#, &wide(65, 1, 1)), [""]);
    assert_eq!(named(&wide(65, 1, 1), r#"{"a":1}"#), [""]);
}

#[test]
fn names_as_long_as_a_content_and_levels_as_deep_as_may_be_are_told_by_what_is_above_them() {
    let long = "x".repeat(POINTER_BYTES_MAX);
    let text = |value: i32| format!(r#"{{"short":{{"{long}":{value}}}}}"#);
    assert_eq!(named(&text(1), &text(2)), ["/short"]);
    let deep = |value: i32| format!("{}{value}{}", r#"{"aaa":"#.repeat(100), "}".repeat(100));
    let told = named(&deep(1), &deep(2));
    assert_eq!(told, ["/aaa".repeat(64)]);
    assert_eq!(told[0].len(), POINTER_BYTES_MAX);
    let huge = "n".repeat(900_000);
    let text = |value: i32| format!(r#"{{"{huge}":{value},"b":0}}"#);
    assert_eq!(named(&text(1), &text(2)), [""]);
    let many: Vec<String> = (0..10_000).map(|at| format!("\"{at}\":{at}")).collect();
    let many = |value: i32| format!("{{{},\"x\":{value}}}", many.join(","));
    assert_eq!(named(&many(1), &many(2)), [""]);
}

#[test]
fn at_most_sixteen_fields_are_named() {
    let many = |from: usize| {
        let fields = (from..from + 40).map(|at| format!("\"{at:02}\":1"));
        format!("{{{}}}", fields.collect::<Vec<_>>().join(","))
    };
    let told = named(r#"{"other":1}"#, &many(0));
    assert_eq!(told.len(), FIELDS_TOLD_MAX);
    assert_eq!(told[0], "");
    assert_eq!(told[1], "/00");
}

// E7
#[test]
fn what_is_excluded_does_not_count_and_is_not_named() {
    let exclude = |pointers: &[&str]| {
        DigestRule::Exclude(
            pointers
                .iter()
                .map(|pointer| (*pointer).to_owned())
                .collect(),
        )
    };
    let first = r#"{"amount":10,"sent_at":"22:00","nonce":"a"}"#;
    let later = r#"{"nonce":"b","amount":1e1,"sent_at":"22:05"}"#;
    let volatile = exclude(&["/sent_at", "/nonce", "/absent/deeper"]);
    assert_eq!(read(first, &volatile).digest, read(later, &volatile).digest);
    assert_ne!(
        read(first, &DigestRule::Whole).digest,
        read(later, &DigestRule::Whole).digest
    );
    let other = later.replace("1e1", "11");
    assert_eq!(named_under(first, &other, &volatile, SALT), ["/amount"]);
    // A body that is itself a JSON string has none of these, and still has a digest.
    let text = r#""{\"amount\":10}""#;
    assert_eq!(
        read(text, &volatile).digest,
        read(text, &DigestRule::Whole).digest
    );
}

// E8
#[test]
fn of_what_is_included_only_the_amount_differs() {
    let rule = DigestRule::Include(vec!["/amount".to_owned(), "/currency".to_owned()]);
    let first = r#"{"amount":10,"currency":"EUR","note":"first"}"#;
    let duplicate = r#"{"currency":"EUR","amount":10.0,"note":"other"}"#;
    assert_eq!(read(first, &rule).digest, read(duplicate, &rule).digest);
    let eleven = r#"{"amount":11,"currency":"EUR","note":"third"}"#;
    assert_ne!(read(first, &rule).digest, read(eleven, &rule).digest);
    assert_eq!(named_under(first, eleven, &rule, SALT), ["/amount"]);
}

// E7
#[test]
fn what_is_included_and_absent_is_refused_by_its_pointer() {
    let rule = DigestRule::Include(vec!["/amount".to_owned(), "/a~1b/0".to_owned()]);
    let refused = |text: &str| {
        let refused = Content::read(Given::Json(text.as_bytes()), &rule);
        refused.unwrap_err().to_string()
    };
    assert!(refused(r#"{"a/b":["x"]}"#).contains(r#"nothing at "/amount""#));
    assert!(refused(r#"{"amount":1,"a/b":[]}"#).contains(r#"nothing at "/a~1b/0""#));
    // Once it is there, the same event goes on.
    read(r#"{"amount":null,"a/b":["x"]}"#, &rule);
    let told = refused(r#""{\"amount\":10}""#);
    assert!(told.contains("one JSON string"), "{told}");
}

#[test]
fn a_rule_about_parts_takes_json_or_a_digest_of_the_callers() {
    let include = DigestRule::Include(vec!["/a".to_owned()]);
    let exclude = DigestRule::Exclude(vec!["/a".to_owned()]);
    let digest = [5; 32];
    for rule in [&include, &exclude] {
        assert!(Content::read(Given::Raw(b"{\"a\":1}"), rule).is_err());
        let given = Content::read(Given::Digest(&digest), rule).unwrap();
        assert_eq!(given.digest, ContentDigest::given(&digest).unwrap());
    }
    assert!(Content::read(Given::Raw(b""), &include).is_err());
    assert!(Content::read(Given::Raw(b""), &exclude).is_ok());
    let none = Content::read(Given::Raw(b""), &DigestRule::None).unwrap();
    assert_eq!(none.digest, ContentDigest::none());
    for given in [Given::Json(b"1"), Given::Raw(b"1"), Given::Digest(&digest)] {
        assert!(Content::read(given, &DigestRule::None).is_err());
    }
}

#[test]
fn contents_without_fields_name_none() {
    let json = read(r#"{"a":1}"#, &DigestRule::Whole);
    let raw = Content::read(Given::Raw(b"x"), &DigestRule::Whole).unwrap();
    let kept = raw.beside.hashes(SALT, None);
    assert_eq!(json.beside.differing(&raw.digest, &kept, SALT), [""; 0]);
    let kept = json.beside.hashes(SALT, None);
    assert_eq!(raw.beside.differing(&json.digest, &kept, SALT), [""; 0]);
}

#[test]
fn a_record_is_compared_by_the_scheme_that_it_was_written_with() {
    // Of a content that one day has a newer scheme, the older digest still says that it is the same.
    let content = read(r#"{"a":1}"#, &DigestRule::Whole);
    let newer = ContentDigest::given(&[9; 32]).unwrap();
    let beside = content.beside.clone().with_older(content.digest.clone());
    assert!(beside.is_same(&newer, &content.digest));
    assert!(beside.is_same(&newer, &newer));
    let other = read(r#"{"a":2}"#, &DigestRule::Whole);
    assert!(!beside.is_same(&newer, &other.digest));
    assert!(!content.beside.is_same(&newer, &content.digest));
}

#[test]
fn an_empty_form_to_be_filled_in_says_nothing() {
    let says = |text: &str| read(text, &DigestRule::Whole).beside.says_something();
    for empty in ["null", "\"\"", "{}", "[]"] {
        assert!(!says(empty), "{empty}");
    }
    for full in ["0", "false", "{\"a\":null}", "\"x\"", "[[]]"] {
        assert!(says(full), "{full}");
    }
    let excluded = DigestRule::Exclude(vec!["/at".to_owned()]);
    assert!(!read(r#"{"at":1}"#, &excluded).beside.says_something());
}

#[test]
fn foreign_bytes_are_no_hashes() {
    for bytes in [&[0x40][..], &[0xc0, 0], &[0x40, 0, 1], &[0, 0, 1, 2, 3]] {
        assert_eq!(FieldHashes::from_bytes(bytes), None, "{bytes:?}");
    }
    let full = [&[0x80, 0][..], &[7; FIELD_HASHES_BYTES_MAX - 2]].concat();
    assert!(FieldHashes::from_bytes(&full).is_some());
    assert!(FieldHashes::from_bytes(&[&full[..], &[1, 2, 3]].concat()).is_none());
}

/// An object of a few fields, some of them within others.
fn objects() -> impl Strategy<Value = Map<String, Value>> {
    let leaf = prop_oneof![
        any::<i32>().prop_map(Value::from),
        "\\PC{0,8}".prop_map(Value::from),
        any::<bool>().prop_map(Value::from),
        Just(Value::Null),
    ];
    let inner = btree_map("[a-c/~é]{0,3}", leaf.clone(), 1..3)
        .prop_map(|map| Value::Object(map.into_iter().collect()));
    btree_map("[a-d/~\"]{0,3}", prop_oneof![leaf, inner], 1..6)
        .prop_map(|map| map.into_iter().collect())
}

/// Every leaf by its pointer.
fn leaves(value: &Value, pointer: &str, found: &mut Vec<String>) {
    match value {
        Value::Object(members) if !members.is_empty() => {
            for (name, member) in members {
                let step = name.replace('~', "~0").replace('/', "~1");
                leaves(member, &[pointer, "/", &step].concat(), found);
            }
        }
        _ => found.push(pointer.to_owned()),
    }
}

proptest! {
    #[test]
    fn two_contents_that_differ_in_one_leaf_name_that_leaf(
        object in objects(),
        which in any::<prop::sample::Index>(),
        salts in any::<[[u8; 6]; 3]>(),
    ) {
        let first = Value::Object(object);
        let mut pointers = Vec::new();
        leaves(&first, "", &mut pointers);
        let pointer = which.get(&pointers);
        let mut second = first.clone();
        let leaf = second.pointer_mut(pointer).unwrap();
        *leaf = if leaf.is_string() { json!(1) } else { json!("changed") };
        // A value may have the same short hash under one salt; three in a row would be a fault.
        let told = salts.map(|salt| {
            let salt = Mark::from_bytes(salt);
            named_under(&first.to_string(), &second.to_string(), &DigestRule::Whole, salt)
        });
        prop_assert!(told.iter().any(|told| told == std::slice::from_ref(pointer)), "{told:?}");
    }

    #[test]
    fn equal_contents_leave_different_bytes_under_different_salts(
        amounts in prop::collection::vec(any::<u32>(), 4..10),
        one in any::<[u8; 6]>(),
        other in any::<[u8; 6]>(),
    ) {
        prop_assume!(one != other);
        let content = read(&json!(amounts).to_string(), &DigestRule::Whole);
        let kept = |salt| content.beside.hashes(Mark::from_bytes(salt), None);
        prop_assert_ne!(kept(one), kept(other));
        prop_assert_eq!(kept(one), kept(one));
    }

    #[test]
    fn no_value_stands_in_what_is_kept(value in "[a-zA-Z0-9]{4,40}", salt in any::<[u8; 6]>()) {
        let text = json!({"card": value, "list": [value, 1]}).to_string();
        let kept = read(&text, &DigestRule::Whole).beside.hashes(Mark::from_bytes(salt), None);
        let kept = kept.as_bytes();
        // Three fields, three bytes each: there is no room for a value.
        prop_assert_eq!(kept.len(), 2 + 3 * 3);
        let found = kept.windows(4).any(|four| value.as_bytes().windows(4).any(|part| part == four));
        prop_assert!(!found);
    }

    #[test]
    fn no_bytes_make_the_hashes_panic(bytes in prop::collection::vec(any::<u8>(), 0..80)) {
        if let Some(kept) = FieldHashes::from_bytes(&bytes) {
            let content = read(r#"{"a":1,"b":[2]}"#, &DigestRule::Whole);
            let told = content.beside.differing(&content.digest, &kept, SALT);
            prop_assert!(!told.is_empty() && told.len() <= FIELDS_TOLD_MAX);
        }
    }
}
