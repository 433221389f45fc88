//! `fencepost machine` as a person or a pipeline runs it: the real binary, its output and its exit code.
#![allow(
    clippy::as_conversions,
    clippy::unwrap_used,
    clippy::wildcard_enum_match_arm,
    missing_docs
)]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

struct Said {
    exit: i32,
    out: String,
    err: String,
}

fn machine(words: &[&str]) -> Said {
    let output = Command::new(env!("CARGO_BIN_EXE_fencepost"))
        .arg("machine")
        .args(words)
        .current_dir(root())
        .output()
        .unwrap();
    Said {
        exit: output.status.code().unwrap(),
        out: String::from_utf8(output.stdout).unwrap(),
        err: String::from_utf8(output.stderr).unwrap(),
    }
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Holds an output against the file that was looked at and kept.
fn golden(words: &[&str], file: &str) {
    let said = machine(words);
    assert_eq!((said.exit, said.err.as_str()), (0, ""), "{words:?}");
    let kept = fs::read_to_string(root().join("tests/machine").join(file)).unwrap();
    assert!(said.out == kept, "{file} differs; it is now:\n{}", said.out);
}

/// A directory with these files.
fn directory(files: &[(&str, &str)]) -> (tempfile::TempDir, PathBuf) {
    let directory = tempfile::tempdir().unwrap();
    for (name, text) in files {
        fs::write(directory.path().join(name), text).unwrap();
    }
    let path = directory.path().to_owned();
    (directory, path)
}

const DOOR: &str = "\
kind: door
version: 1
retention: 1h
states: { open: {}, gone: { final: true } }
events:
  build: { creates: open }
  raze: { from: [open], to: gone }
";

#[test]
fn the_examples_are_sound() {
    let said = machine(&["check", "machines"]);
    assert_eq!((said.exit, said.err.as_str()), (0, ""), "{}", said.out);
    let lines: Vec<&str> = said.out.lines().collect();
    assert_eq!(lines.len(), 2, "{}", said.out);
    assert!(
        lines[0].starts_with("machines/order.yaml: good: order version 1 ("),
        "{}",
        said.out
    );
    assert!(
        lines[1].starts_with("machines/seat.yaml: good: seat version 1 ("),
        "{}",
        said.out
    );
}

#[test]
fn the_tables_of_the_examples_are_the_ones_that_were_looked_at() {
    for example in ["order", "seat"] {
        golden(
            &["show", &format!("machines/{example}.yaml")],
            &format!("{example}.txt"),
        );
    }
}

#[test]
fn the_drawings_of_the_examples_are_the_ones_that_were_looked_at() {
    for example in ["order", "seat"] {
        let file = format!("machines/{example}.yaml");
        golden(&["graph", &file], &format!("{example}.mmd"));
        golden(
            &["graph", &file, "--format", "mermaid"],
            &format!("{example}.mmd"),
        );
        golden(
            &["graph", &file, "--format", "dot"],
            &format!("{example}.dot"),
        );
    }
}

#[test]
fn findings_come_one_a_line_with_file_and_place_and_the_exit_is_65() {
    let wrong = DOOR.replace("[open], to: gone", "[opn], to: gone");
    let (_kept, directory) = directory(&[
        ("door.yaml", &wrong),
        ("good.yml", DOOR),
        ("notes.txt", "x"),
    ]);
    let said = machine(&["check", directory.to_str().unwrap()]);
    assert_eq!(said.exit, 65, "{}", said.out);
    let door = directory.join("door.yaml").display().to_string();
    let lines: Vec<&str> = said.out.lines().collect();
    assert_eq!(
        lines[0],
        format!(
            "{door}:7:18: error[unknown-name]: state opn is not declared; fix: did you mean `open`?"
        )
    );
    assert!(
        lines[1].contains("good.yml: good: door version 1"),
        "{}",
        said.out
    );
    assert_eq!(lines.len(), 2);
}

#[test]
fn a_warning_is_told_and_does_not_fail() {
    let text = DOOR.replace(
        "to: gone }",
        "to: gone }\n  paint: { from: [open], to: open }",
    );
    let (_kept, directory) = directory(&[("door.yaml", &text)]);
    let file = directory.join("door.yaml");
    let check = machine(&["check", file.to_str().unwrap()]);
    assert_eq!(check.exit, 0, "{}", check.out);
    assert!(
        check.out.contains(":8:30: warning[no-effect]: "),
        "{}",
        check.out
    );
    // What is shown or drawn can be piped on; what is told goes beside it.
    let graph = machine(&["graph", file.to_str().unwrap()]);
    assert_eq!(graph.exit, 0);
    assert!(graph.out.starts_with("stateDiagram-v2\n"), "{}", graph.out);
    assert!(graph.err.contains("warning[no-effect]"), "{}", graph.err);
}

#[test]
fn nothing_is_shown_of_a_machine_that_has_errors() {
    let (_kept, directory) = directory(&[("door.yaml", &DOOR.replace("{ final: true }", "{}"))]);
    let file = directory.join("door.yaml");
    for words in [
        vec!["show"],
        vec!["graph"],
        vec!["graph", "--format", "dot"],
    ] {
        let said = machine(&[words, vec![file.to_str().unwrap()]].concat());
        assert_eq!((said.exit, said.out.as_str()), (65, ""));
        assert!(
            said.err.contains(":4:21: error[dead-end]: "),
            "{}",
            said.err
        );
    }
}

#[test]
fn two_machines_of_one_kind_an_empty_directory_and_a_missing_file_are_told() {
    let (_kept, directory) = directory(&[("a.yaml", DOOR), ("b.yaml", DOOR)]);
    let said = machine(&["check", directory.to_str().unwrap()]);
    assert_eq!(said.exit, 65);
    let b = directory.join("b.yaml").display().to_string();
    let a = directory.join("a.yaml").display().to_string();
    assert!(
        said.out.contains(&format!(
            "{b}:1:7: error[duplicate]: kind door has a machine at {a}:1:7 already"
        )),
        "{}",
        said.out
    );
    let empty = tempfile::tempdir().unwrap();
    let said = machine(&["check", empty.path().to_str().unwrap()]);
    assert_eq!(said.exit, 2);
    assert!(
        said.err.contains("has no *.yaml or *.yml file"),
        "{}",
        said.err
    );
    let said = machine(&["check", "no/such.yaml"]);
    assert_eq!(said.exit, 2);
    assert!(
        said.err.contains("cannot read no/such.yaml"),
        "{}",
        said.err
    );
    assert_eq!(machine(&["check"]).exit, 2);
}

#[test]
fn a_difference_says_what_changed_and_whether_it_may_follow() {
    let next = DOOR
        .replace("version: 1", "version: 2")
        .replace("gone", "razed")
        .replace("raze:", "demolish:");
    let mapped =
        format!("{next}map: {{ states: {{ gone: razed }}, events: {{ raze: demolish }} }}\n");
    let (_kept, directory) = directory(&[("1.yaml", DOOR), ("2.yaml", &next), ("3.yaml", &mapped)]);
    let diff = |old: &str, new: &str| {
        let path = |name: &str| directory.join(name).display().to_string();
        machine(&["diff", &path(old), &path(new)])
    };
    let good = diff("1.yaml", "3.yaml");
    assert_eq!((good.exit, good.err.as_str()), (0, ""), "{}", good.out);
    for line in [
        "+ state razed",
        "- state gone",
        "- event raze to: gone",
        "the new one may follow the old one",
    ] {
        assert!(
            good.out.lines().any(|said| said == line),
            "{line}: {}",
            good.out
        );
    }
    let bare = diff("1.yaml", "2.yaml");
    assert_eq!(bare.exit, 65, "{}", bare.out);
    assert!(
        bare.out
            .contains("2.yaml:4:1: error[unmapped]: state gone was dropped"),
        "{}",
        bare.out
    );
    assert!(
        bare.out
            .ends_with("the new one may not follow the old one\n"),
        "{}",
        bare.out
    );
    let back = diff("3.yaml", "1.yaml");
    assert!(
        back.out
            .contains("error[version]: the version is 1, lower than 2"),
        "{}",
        back.out
    );
    let same = diff("1.yaml", "1.yaml");
    assert_eq!(same.exit, 0);
    assert!(same.out.ends_with("the two say the same\n"), "{}", same.out);
}
