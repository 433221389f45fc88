//! `fencepost machine` as a person or a pipeline runs it: the real binary, its output and its exit code.
#![allow(
    clippy::as_conversions,
    clippy::unwrap_used,
    clippy::wildcard_enum_match_arm,
    missing_docs
)]

#[allow(
    unused_imports,
    unused_macros,
    reason = "nothing here runs on both engines"
)]
#[path = "support/mod.rs"]
mod support;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use support::process::Process;

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

/// The same, with a file piped in.
fn piped(file: &str, words: &[&str]) -> Said {
    let output = Command::new(env!("CARGO_BIN_EXE_fencepost"))
        .arg("machine")
        .args(words)
        .current_dir(root())
        .stdin(fs::File::open(root().join(file)).unwrap())
        .output()
        .unwrap();
    Said {
        exit: output.status.code().unwrap(),
        out: String::from_utf8(output.stdout).unwrap(),
        err: String::from_utf8(output.stderr).unwrap(),
    }
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
fn what_is_piped_in_is_read_like_a_file() {
    let order = "machines/order.yaml";
    for command in ["show", "graph"] {
        let said = piped(order, &[command, "-"]);
        assert_eq!((said.exit, said.err.as_str()), (0, ""), "{command}");
        assert_eq!(said.out, machine(&[command, order]).out);
    }
    for files in [["-", order], [order, "-"]] {
        let said = piped(order, &[&["diff"], &files[..]].concat());
        assert_eq!(said.exit, 0, "{}", said.err);
        assert!(said.out.contains("the two say the same"), "{}", said.out);
    }
    let said = piped(order, &["check", "-"]);
    assert!(
        said.out.starts_with("(standard input): good: order"),
        "{}",
        said.out
    );
    let said = piped("Cargo.toml", &["graph", "-"]);
    assert_eq!((said.exit, said.out.as_str()), (65, ""));
    assert!(said.err.starts_with("(standard input):"), "{}", said.err);
    let said = piped(order, &["diff", "-", "-"]);
    assert!(said.exit == 64 || said.exit == 2, "{}", said.exit);
    assert!(said.err.contains("one of the two"), "{}", said.err);
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

/// A command that asks a sidecar.
async fn asking(sidecar: &Process, words: &[&str]) -> Said {
    let mut command = Command::new(env!("CARGO_BIN_EXE_fencepost"));
    command
        .args(words)
        .env("FENCEPOST_ADDR", sidecar.address())
        .env("FENCEPOST_ADMIN_SOCKET", sidecar.admin_socket())
        .current_dir(root());
    let output = tokio::task::spawn_blocking(move || command.output().unwrap());
    let output = output.await.unwrap();
    Said {
        exit: output.status.code().unwrap(),
        out: String::from_utf8(output.stdout).unwrap(),
        err: String::from_utf8(output.stderr).unwrap(),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_machine_is_applied_judges_and_is_followed_by_higher_versions_only() {
    let sidecar = Process::dev(&[]).await;
    let ask = |words: &'static [&'static str]| asking(&sidecar, words);
    let none = ask(&["machine", "list"]).await;
    assert_eq!(
        (none.exit, none.out.as_str()),
        (0, "no machine is in force\n")
    );
    let early = ask(&[
        "transition",
        "door",
        "1",
        "--operation",
        "b",
        "--event",
        "build",
    ])
    .await;
    assert_eq!(early.exit, 65, "{}", early.err);
    assert!(
        early.err.contains("no machine is in force for kind door"),
        "{}",
        early.err
    );

    let second = DOOR
        .replace("version: 1", "version: 2")
        .replace("gone", "lost");
    let mapped = format!("{second}map: {{ states: {{ gone: lost }} }}\n");
    let (_kept, directory) = directory(&[
        ("1.yaml", DOOR),
        ("1b.yaml", &DOOR.replace("1h", "2h")),
        ("2.yaml", &second),
        ("2m.yaml", &mapped),
        ("bad.yaml", &DOOR.replace("[open]", "[opn]")),
    ]);
    let file = |name: &str| directory.join(name).display().to_string();
    let apply = async |name: &str| asking(&sidecar, &["machine", "apply", &file(name)]).await;
    let bad = apply("bad.yaml").await;
    assert_eq!((bad.exit, bad.out.as_str()), (65, ""));
    assert!(
        bad.err.contains("bad.yaml:7:18: error[unknown-name]"),
        "{}",
        bad.err
    );
    let first = apply("1.yaml").await;
    assert_eq!((first.exit, first.err.as_str()), (0, ""), "{}", first.out);
    assert!(
        first.out.contains("1.yaml: in force now: door version 1 ("),
        "{}",
        first.out
    );
    let again = apply("1.yaml").await;
    assert!(
        again.exit == 0 && again.out.contains("in force already"),
        "{}",
        again.out
    );
    let other = apply("1b.yaml").await;
    assert_eq!(
        (other.exit, other.out.contains("refused")),
        (65, true),
        "{}",
        other.out
    );
    assert!(
        other
            .err
            .contains("1b.yaml:2:10: error[version]: the version is 1 as before"),
        "{}",
        other.err
    );

    let built = ask(&[
        "transition",
        "door",
        "1",
        "--operation",
        "b",
        "--event",
        "build",
    ])
    .await;
    assert_eq!(built.exit, 0, "{}{}", built.out, built.err);
    assert!(
        built.out.contains("APPLIED") && built.out.contains("version 1"),
        "{}",
        built.out
    );
    let razed = ask(&[
        "transition",
        "door",
        "2",
        "--operation",
        "r",
        "--event",
        "raze",
    ])
    .await;
    assert_eq!(razed.exit, 10, "{}", razed.out);
    let unknown = ask(&[
        "transition",
        "door",
        "1",
        "--operation",
        "x",
        "--event",
        "paint",
    ])
    .await;
    assert_eq!(unknown.exit, 65);
    assert!(
        unknown.err.contains("kind door has no event paint"),
        "{}",
        unknown.err
    );
    let plain = ask(&[
        "transition",
        "door",
        "1",
        "--operation",
        "x",
        "--to",
        "gone",
    ])
    .await;
    assert_eq!(plain.exit, 65);
    assert!(
        plain.err.contains("intent.move") && plain.err.contains("kind door"),
        "{}",
        plain.err
    );

    let unmapped = apply("2.yaml").await;
    assert_eq!(unmapped.exit, 65);
    assert!(
        unmapped
            .err
            .contains("2.yaml:4:1: error[unmapped]: state gone"),
        "{}",
        unmapped.err
    );
    assert_eq!(apply("2m.yaml").await.exit, 0);
    let lower = apply("1.yaml").await;
    assert_eq!(lower.exit, 0);
    assert!(
        lower
            .out
            .contains("IGNORED, a higher version is in force: door version 2"),
        "{}",
        lower.out
    );
    let history = ask(&["machine", "history", "door"]).await;
    let lines: Vec<&str> = history.out.lines().collect();
    assert_eq!(lines.len(), 2, "{}", history.out);
    assert!(lines[0].starts_with("door version 1 (") && lines[1].starts_with("door version 2 ("));
    assert!(lines[0].contains(", applied 20"), "{}", history.out);
    let got = ask(&["machine", "get", "door"]).await;
    assert_eq!(got.out, mapped);
    let got = ask(&["machine", "get", "door", "1"]).await;
    assert_eq!(got.out, DOOR);
    let absent = ask(&["machine", "get", "door", "7"]).await;
    assert_eq!(absent.exit, 65);
    assert!(
        absent
            .err
            .contains("version 7 of kind door was never in force"),
        "{}",
        absent.err
    );
    let shown = ask(&["inspect", "door", "1", "-o", "json"]).await;
    assert!(shown.out.contains("\"machineVersion\":2"), "{}", shown.out);
    assert!(
        shown.out.contains("\"allowedEvents\":[\"raze\"]"),
        "{}",
        shown.out
    );
    let json = ask(&["machine", "list", "-o", "json"]).await;
    assert!(json.out.contains("\"version\":2"), "{}", json.out);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_that_is_far_too_large_or_cannot_be_read_is_refused_here() {
    let sidecar = Process::dev(&[]).await;
    let (_kept, directory) = directory(&[("huge.yaml", &"x".repeat(10 * 1024 * 1024))]);
    let huge = directory.join("huge.yaml").display().to_string();
    let said = asking(&sidecar, &["machine", "apply", &huge]).await;
    assert_eq!(said.exit, 65);
    assert!(
        said.err.contains("huge.yaml:1:1: error[limit]"),
        "{}",
        said.err
    );
    let said = asking(&sidecar, &["machine", "apply", "/nowhere.yaml"]).await;
    assert_eq!(said.exit, 2);
    assert!(
        said.err.contains("cannot read /nowhere.yaml"),
        "{}",
        said.err
    );
}

// Case I6: nothing is half-started.
#[test]
fn a_sidecar_does_not_start_under_files_that_are_wrong() {
    let marked = format!("\u{feff}{DOOR}");
    let (_kept, directory) = directory(&[
        ("a.yaml", DOOR),
        ("b.yaml", DOOR),
        ("c.yaml", &DOOR.replace("retention: 1h", "size: 3")),
        ("d.yaml", &marked),
    ]);
    let path = directory.display().to_string();
    let output = Command::new(env!("CARGO_BIN_EXE_fencepost"))
        .args([
            "dev",
            "--listen",
            "127.0.0.1:0",
            "--admin-socket",
            "none",
            "--machines",
            &path,
        ])
        .output()
        .unwrap();
    let (out, err) = (
        String::from_utf8(output.stdout),
        String::from_utf8(output.stderr),
    );
    let (out, err) = (out.unwrap(), err.unwrap());
    assert_eq!(output.status.code(), Some(78), "{err}");
    assert!(
        !out.contains("ready") && !err.contains("listening"),
        "{out}{err}"
    );
    for line in [
        "b.yaml:1:7: error[duplicate]: kind door has a machine at",
        "c.yaml:3:1: error[unknown-key]",
        "d.yaml:1:1: error[yaml]",
    ] {
        let found = err.lines().filter(|said| said.contains(line)).count();
        assert_eq!(found, 1, "{line}: {err}");
    }
    let empty = tempfile::tempdir().unwrap();
    let output = Command::new(env!("CARGO_BIN_EXE_fencepost"))
        .args([
            "dev",
            "--listen",
            "127.0.0.1:0",
            "--admin-socket",
            "none",
            "--machines",
        ])
        .arg(empty.path())
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(78));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_examples_are_in_force_when_a_sidecar_starts_with_them_and_the_readme_is_true() {
    let sidecar = Process::dev(&["--machines", "machines"]).await;
    let readme = fs::read_to_string(root().join("README.md")).unwrap();
    let (_, block) = readme
        .split_once("<!-- tested: apply -->\n```sh\n")
        .unwrap();
    let (script, _) = block.split_once("```").unwrap();
    let kept = tempfile::tempdir().unwrap();
    let script = script
        // First, for the program may lie there.
        .replace("/tmp/", &format!("{}/", kept.path().display()))
        .replace("target/debug/fencepost", env!("CARGO_BIN_EXE_fencepost"));
    let mut command = Command::new("bash");
    command
        .args(["-euc", &script])
        .env("FENCEPOST_ADDR", sidecar.address())
        .env("FENCEPOST_ADMIN_SOCKET", sidecar.admin_socket())
        .current_dir(root());
    let output = tokio::task::spawn_blocking(move || command.output().unwrap());
    let output = output.await.unwrap();
    let out = String::from_utf8(output.stdout).unwrap();
    assert!(
        output.status.success(),
        "{out}{}",
        String::from_utf8_lossy(&output.stderr)
    );
    for part in [
        "machines/order.yaml: in force already: order version 1",
        "machines/seat.yaml: in force already: seat version 1",
        "APPLIED",
        "the two say the same",
    ] {
        assert!(out.contains(part), "{part}: {out}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_claim_lasts_as_long_as_its_event_says_and_may_turn_out_otherwise() {
    let text = "kind: payment\nversion: 1\nretention: 1h\n\
        states: { open: {}, paid: { final: true }, failed: { final: true } }\n\
        events:\n  begin: { creates: open }\n  pay: { from: [open], to: paid, claim: 77s }\n  \
        pay_failed: { from: [open], to: failed }\n";
    let (_kept, directory) = directory(&[("payment.yaml", text)]);
    let sidecar = Process::dev(&["--machines", &directory.display().to_string()]).await;
    let run = async |line: &str| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_fencepost"));
        command
            .args(line.split(' '))
            .env("FENCEPOST_ADDR", sidecar.address());
        let output = tokio::task::spawn_blocking(move || command.output().unwrap());
        let output = output.await.unwrap();
        let err = String::from_utf8(output.stderr).unwrap();
        (String::from_utf8(output.stdout).unwrap(), err)
    };
    let (begun, err) = run("transition payment 1 --operation b --event begin").await;
    assert!(begun.contains("APPLIED"), "{begun}{err}");
    let claim = "reserve payment 1 --operation p --event pay -o json";
    let (claimed, err) = run(claim).await;
    assert!(claimed.contains(r#""ttl":"77s""#), "{claimed}{err}");
    let id = claimed
        .split('"')
        .find(|word| word.starts_with("r1."))
        .unwrap();
    let wrong = format!("transition payment 1 --reservation {id} --outcome-event begin");
    let (_, err) = run(&wrong).await;
    assert!(
        err.contains("outcome_event") && err.contains("does not allow"),
        "{err}"
    );
    let failed = format!(
        "transition payment 1 --reservation {id} --outcome-event pay_failed --result declined"
    );
    let (done, err) = run(&failed).await;
    assert!(
        done.contains("APPLIED") && done.contains("failed"),
        "{done}{err}"
    );
    let (copy, err) = run("reserve payment 1 --operation p --event pay").await;
    assert!(
        copy.contains("REPLAYED") && copy.contains("declined"),
        "{copy}{err}"
    );
    let (none, err) =
        run("transition payment 1 --operation q --event pay --outcome-event pay_failed").await;
    assert!(
        none.is_empty() && err.contains("--reservation"),
        "{none}{err}"
    );
}
