//! The published vectors against the code.

use std::collections::BTreeSet;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::Deserialize;

use super::super::*;
use crate::domain::machine::DigestRule;

#[derive(Deserialize)]
struct Published {
    vectors: Vec<Vector>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Vector {
    name: String,
    scheme: String,
    text: Option<String>,
    base64: Option<String>,
    repeat: Option<usize>,
    include: Option<Vec<String>>,
    exclude: Option<Vec<String>>,
    form: Option<String>,
    digest: Option<String>,
    refused: Option<Refusal>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Refusal {
    #[allow(dead_code, reason = "for those who read the file")]
    why: String,
    at: Option<usize>,
    #[serde(default)]
    within: bool,
}

impl Vector {
    fn content(&self) -> Vec<u8> {
        let once = match (&self.text, &self.base64) {
            (Some(text), None) => text.clone().into_bytes(),
            (None, Some(base64)) => STANDARD.decode(base64).unwrap(),
            _ => panic!("{}: either text or base64", self.name),
        };
        once.repeat(self.repeat.unwrap_or(1))
    }

    fn rule(&self) -> DigestRule {
        match (&self.include, &self.exclude) {
            (Some(include), None) => DigestRule::Include(include.clone()),
            (None, Some(exclude)) => DigestRule::Exclude(exclude.clone()),
            (None, None) => DigestRule::Whole,
            (Some(_), Some(_)) => panic!("{}: either include or exclude", self.name),
        }
    }

    fn check(&self) {
        let content = self.content();
        let raw = self.scheme == DigestScheme::Raw.to_string();
        let given = if raw {
            Given::Raw(&content)
        } else {
            Given::Json(&content)
        };
        let name = &self.name;
        match (Content::read(given, &self.rule()), &self.refused) {
            (Ok(content), None) => {
                assert_eq!(content.digest.scheme().to_string(), self.scheme, "{name}");
                let hex: String = content
                    .digest
                    .bytes()
                    .iter()
                    .map(|b| format!("{b:02x}"))
                    .collect();
                assert_eq!(Some(&hex), self.digest.as_ref(), "{name}");
                if let Some(form) = &self.form {
                    // That the digest is that of the published form is what makes the form true.
                    let form = ["fencepost:json:v1\n", form].concat();
                    let made = ContentDigest::hashed(DigestScheme::JsonV1, form.as_bytes());
                    assert_eq!(content.digest, made, "{name}");
                } else {
                    assert!(raw, "{name}: a form is missing");
                }
            }
            (Err(invalid), Some(refusal)) => {
                let told = invalid.to_string();
                let at = told.split("at byte ").nth(1);
                let at = at.and_then(|rest| rest.split(':').next()?.parse::<usize>().ok());
                if refusal.within {
                    let at = at.unwrap();
                    assert!(at > 0 && at < content.len(), "{name}: {told}");
                } else {
                    assert_eq!(at, refusal.at, "{name}: {told}");
                }
            }
            (Ok(_), Some(_)) => panic!("{name} is not refused"),
            (Err(invalid), None) => panic!("{name} is refused: {invalid}"),
        }
    }
}

fn published() -> Vec<Vector> {
    let text = include_str!("../../../../docs/digest-vectors.json");
    serde_json::from_str::<Published>(text).unwrap().vectors
}

#[test]
fn every_published_vector_is_what_the_code_makes() {
    let vectors = published();
    assert!(vectors.len() > 100, "{}", vectors.len());
    let names: BTreeSet<_> = vectors.iter().map(|vector| &vector.name).collect();
    assert_eq!(names.len(), vectors.len(), "two vectors of one name");
    for vector in &vectors {
        vector.check();
    }
}

#[test]
fn the_vectors_reach_every_branch_of_the_contract() {
    let vectors = published();
    let forms: Vec<&str> = vectors.iter().filter_map(|v| v.form.as_deref()).collect();
    // Each kind of value, each part of a number, and both rules.
    for part in [
        "n", "f", "t", "#0e0;", "#-", "e-", "e0;", "\"0:", "[", "{", "&\"",
    ] {
        assert!(forms.iter().any(|form| form.contains(part)), "{part}");
    }
    let count = |which: &dyn Fn(&Vector) -> bool| vectors.iter().filter(|v| which(v)).count();
    assert!(count(&|v| v.scheme == "raw") > 2);
    assert!(count(&|v| v.include.is_some() && v.digest.is_some()) > 5);
    assert!(count(&|v| v.exclude.is_some() && v.digest.is_some()) > 5);
    assert!(count(&|v| v.include.is_some() && v.refused.is_some()) > 4);
    assert!(count(&|v| v.exclude.is_some() && v.refused.is_some()) > 4);
    // Each reason that the reader of JSON has for a refusal.
    let told: BTreeSet<String> = vectors
        .iter()
        .filter(|vector| vector.scheme == "json-v1")
        .filter_map(|vector| {
            Content::read(Given::Json(&vector.content()), &DigestRule::Whole).err()
        })
        .map(|invalid| invalid.to_string())
        .collect();
    for reason in [
        "is empty",
        "at most 1048576",
        "invalid UTF-8",
        "byte order mark",
        "more text follows",
        "a value is expected",
        "the text ends where",
        "`,` or `]`",
        "`,` or `}`",
        "a member name",
        "`:` is expected",
        "a control character",
        "the text ends inside a string",
        "levels of nesting",
        "duplicate member name",
        "an escape that JSON",
        "no leading zeros",
        "a digit is expected",
        "an exponent has at most",
    ] {
        assert!(
            told.iter().any(|told| told.contains(reason)),
            "no vector is refused for: {reason}"
        );
    }
}

/// The page must tell of every scheme there is, by number and name.
#[test]
fn the_page_tells_every_scheme_and_limit() {
    let page = include_str!("../../../../docs/digest.md");
    let codes: Vec<u8> = (0..=u8::MAX)
        .filter(|code| DigestScheme::from_code(*code).is_some())
        .collect();
    assert_eq!(codes, [1, 2, 3, 4]);
    for code in codes {
        let scheme = DigestScheme::from_code(code).unwrap();
        assert!(
            page.contains(&format!("| {code} | `{scheme}` |")),
            "{scheme}"
        );
    }
    assert_eq!(CONTENT_BYTES_MAX, 1_048_576);
    assert_eq!(
        (GIVEN_BYTES_MIN, GIVEN_BYTES_MAX, LEVELS_MAX),
        (16, 64, 100)
    );
    let told = |limit: usize, words: &str| {
        let said = words.replace("{}", &limit.to_string());
        assert!(page.contains(&said), "{said}");
    };
    told(GIVEN_BYTES_MIN, "| {} to 64 bytes, as given |");
    told(LEVELS_MAX, "nested more than {} deep");
    told(crate::domain::machine::LIST_ITEMS_MAX, "A rule has 1 to {}");
    told(
        crate::domain::machine::POINTER_BYTES_MAX,
        "pointers of at most {} bytes",
    );
    told(FIELDS_KEPT_MAX, "with more than {} fields");
}
