//! The digest contract beyond our own code: `fencepost digest` as a person runs it, and the published vectors as another
//! language checks them.
#![allow(
    clippy::as_conversions,
    clippy::unwrap_used,
    clippy::wildcard_enum_match_arm,
    missing_docs
)]

use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use serde_json::{Value, json};

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

/// Runs `fencepost digest` with what it reads from standard input.
fn digest(words: &[&str], input: &[u8]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_fencepost"));
    for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("FENCEPOST_")) {
        command.env_remove(name);
    }
    let piped = Stdio::piped;
    let command = command.arg("digest").args(words).current_dir(root());
    let child = command
        .stdin(piped())
        .stdout(piped())
        .stderr(piped())
        .spawn();
    let mut child = child.unwrap();
    // One that is refused before it reads does not take its input.
    drop(child.stdin.take().unwrap().write_all(input));
    child.wait_with_output().unwrap()
}

#[track_caller]
fn made(words: &[&str], input: &[u8]) -> String {
    let said = digest(words, input);
    assert_eq!(
        said.status.code(),
        Some(0),
        "{words:?}: {}",
        text(&said.stderr)
    );
    text(&said.stdout)
}

#[track_caller]
fn refused(words: &[&str], input: &[u8], exit: i32) -> String {
    let said = digest(words, input);
    assert_eq!(
        said.status.code(),
        Some(exit),
        "{words:?}: {}",
        text(&said.stdout)
    );
    assert_eq!(text(&said.stdout), "");
    text(&said.stderr)
}

fn published() -> Vec<Value> {
    let file = std::fs::read_to_string(root().join("docs/digest-vectors.json")).unwrap();
    let mut file: Value = serde_json::from_str(&file).unwrap();
    file["vectors"].take().as_array().unwrap().clone()
}

#[test]
fn the_command_makes_the_published_digests_and_refuses_what_has_none() {
    for vector in published()
        .iter()
        .filter(|vector| vector["text"].is_string())
    {
        let content = vector["text"].as_str().unwrap();
        let content = content.repeat(vector["repeat"].as_u64().unwrap_or(1) as usize);
        let scheme = vector["scheme"].as_str().unwrap();
        let flag = if scheme == "raw" { "--raw" } else { "--json" };
        let mut words = vec![flag, "-"];
        for rule in ["include", "exclude"] {
            for pointer in vector[rule].as_array().into_iter().flatten() {
                words.extend([["--include", "--exclude"][usize::from(rule == "exclude")]]);
                words.push(pointer.as_str().unwrap());
            }
        }
        // A rule without pointers cannot be said on the command line.
        if vector["include"].as_array().is_some_and(Vec::is_empty) {
            continue;
        }
        let name = &vector["name"];
        match vector["digest"].as_str() {
            Some(hex) => assert_eq!(
                made(&words, content.as_bytes()),
                format!("{scheme} {hex}\n"),
                "{name}"
            ),
            // Over the size it does not even read to the end.
            None if content.len() > 1024 * 1024 => drop(refused(&words, content.as_bytes(), 2)),
            None => {
                let told = refused(&words, content.as_bytes(), 65);
                assert!(told.starts_with("fencepost: --json "), "{name}: {told}");
                if vector["refused"]["within"].is_null()
                    && let Some(at) = vector["refused"]["at"].as_u64()
                {
                    assert!(told.contains(&format!("at byte {at}:")), "{name}: {told}");
                }
            }
        }
    }
}

#[test]
fn a_digest_is_told_to_programs_too_and_needs_one_content_and_one_rule() {
    let said: Value = serde_json::from_str(&made(&["--json", "[1]", "-o", "json"], b"")).unwrap();
    assert_eq!(
        (&said["scheme"], &said["schemeNumber"]),
        (&json!("json-v1"), &json!(1))
    );
    assert_eq!(said["digest"].as_str().unwrap().len(), 64);
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), " [1.0] ").unwrap();
    let path = format!("@{}", file.path().display());
    assert_eq!(made(&["--json", &path], b""), made(&["--json", "[1]"], b""));
    assert_ne!(made(&["--raw", &path], b""), made(&["--raw", "[1]"], b""));
    refused(&[], b"", 2);
    refused(&["--json", "1", "--raw", "1"], b"", 2);
    let both = ["--json", "{}", "--include", "/a", "--exclude", "/b"];
    assert!(refused(&both, b"", 2).contains("cannot be used with"));
    let absent = refused(&["--json", "{}", "--include", "/amount"], b"", 65);
    assert!(absent.contains(r#""/amount""#), "{absent}");
    let bytes = refused(&["--raw", "x", "--exclude", "/amount"], b"", 65);
    assert!(bytes.contains("send it as JSON"), "{bytes}");
}

fn check_in_python(vectors: &Path) -> Output {
    let python = Command::new("python3")
        .args(["-I", "examples/python/digest.py"])
        .arg(vectors)
        .current_dir(root())
        .output();
    python.expect("python3, which `scripts/need.sh test` installs, runs")
}

#[test]
fn another_language_makes_every_published_digest_from_the_page_alone() {
    let checked = check_in_python(&root().join("docs/digest-vectors.json"));
    let said = text(&checked.stdout);
    assert!(checked.status.success(), "{said}{}", text(&checked.stderr));
    assert_eq!(said, format!("{} vectors, 0 wrong\n", published().len()));
    // The checker itself: a digest, a form or a refusal that is not so is found.
    let vectors = published();
    let with = |field: &str| {
        vectors
            .iter()
            .find(|vector| !vector[field].is_null())
            .unwrap()
            .clone()
    };
    let mut digest = with("digest");
    digest["digest"] = json!("00".repeat(32));
    let mut form = with("form");
    form["form"] = json!("x");
    let mut refusal = vectors
        .iter()
        .find(|vector| vector["refused"]["at"] == 1)
        .unwrap()
        .clone();
    refusal["refused"]["at"] = json!(0);
    let mut no_refusal = with("form");
    no_refusal["refused"] = json!({"why": "it is not"});
    let broken = json!({"vectors": [digest, form, refusal, no_refusal]});
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), broken.to_string()).unwrap();
    let checked = check_in_python(file.path());
    assert_eq!(checked.status.code(), Some(1));
    assert!(
        text(&checked.stdout).ends_with("4 vectors, 4 wrong\n"),
        "{}",
        text(&checked.stdout)
    );
}
