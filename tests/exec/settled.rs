//! What becomes of a KEY whose command failed: what a person is told, what they can say, and what is said after that.

use crate::bench::{Bench, Said};
use crate::support::bounded;
use crate::support::process::Process;

/// A kind whose machine has a job that asks when it fails, and one that runs again.
const MACHINE: &str = "
kind: job
version: 1
retention: 96h
states:
  open: {}
  done: { final: true }
events:
  create: { creates: open }
  carry_out: { from: [open], to: done, interrupted: ask }
  try_out: { from: [open], to: done, interrupted: rerun }
  mark: { from: [open], matches: [batch] }
  begin: { from: [open], sets: [batch] }
";

async fn told(bench: &Bench, words: &[&str]) -> Said {
    let said = bench.fencepost(words).await;
    assert_eq!(said.exit, 0, "{words:?}: {}{}", said.out, said.err);
    said
}

/// The only incident of the kind.
async fn incident(bench: &Bench) -> String {
    let listed = told(bench, &["incidents", "--kind", "job", "-o", "json"]).await;
    let lines: Vec<&str> = listed.out.lines().collect();
    assert_eq!(lines.len(), 1, "{}", listed.out);
    let (_, rest) = lines[0].split_once("\"incidentId\":").unwrap();
    rest.split('"').nth(1).unwrap().to_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn how_a_failed_command_ended_is_in_its_incident_and_its_story_until_a_person_settles_it() {
    bounded(Box::pin(async {
        for (finding, again) in [("--done", 0), ("--refused", 11), ("--not-done", 0)] {
            let sidecar = Process::dev(&[]).await;
            let bench = Bench::at(&sidecar);
            let failed = bench.run(&["--once", "k"], "exit 37").await;
            assert_eq!(failed.exit, 37, "{}", failed.err);
            let id = incident(&bench).await;
            assert!(failed.err.contains(&id), "{}", failed.err);
            let shown = told(&bench, &["incidents", "show", &id]).await.out;
            assert!(
                shown.contains("the command ended with exit code 37"),
                "{shown}"
            );
            let story = told(&bench, &["explain", "job", "nightly", "k"]).await.out;
            assert!(story.contains("it ended with code 37"), "{story}");
            assert!(story.contains("It is open."), "{story}");
            // By hand it was looked into.
            let words = [
                "resolve", "job", "nightly", "k", "--by", "ann", "--reason", "seen", finding,
            ];
            let resolved = told(&bench, &words).await.out;
            assert!(
                resolved.contains(&format!("its incident {id} is closed")),
                "{resolved}"
            );
            let shown = told(&bench, &["incidents", "show", &id]).await.out;
            assert!(shown.contains("by ann: seen"), "{shown}");
            let open = told(&bench, &["incidents", "--open", "--kind", "job"]).await;
            assert!(!open.out.contains(&id), "{}", open.out);
            let next = bench.run(&["--once", "k"], r#"echo ran >> "$LOG""#).await;
            assert_eq!(next.exit, again, "{}", next.err);
            if finding == "--not-done" {
                assert_eq!(bench.log(), "ran\n");
                let later = bench.run(&["--once", "k"], "false").await;
                assert!(later.err.contains("k was run before"), "{}", later.err);
                continue;
            }
            assert_eq!(bench.log(), "");
            if finding == "--done" {
                assert!(!next.err.contains("was run before"), "{}", next.err);
                let who = "k was resolved by a person at 20";
                assert!(next.err.contains(who), "{}", next.err);
                assert!(
                    next.err.contains("ann said that it was done: seen"),
                    "{}",
                    next.err
                );
            }
        }
    }))
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_command_that_a_signal_ended_and_each_attempt_that_fails_are_told_of() {
    bounded(Box::pin(async {
        let sidecar = Process::dev(&[]).await;
        let bench = Bench::at(&sidecar);
        let killed = bench.run(&["--once", "k"], "kill -9 $$").await;
        assert_eq!(killed.exit, 137, "{}", killed.err);
        let id = incident(&bench).await;
        let words = [
            "resolve",
            "job",
            "nightly",
            "k",
            "--reason",
            "seen",
            "--not-done",
        ];
        told(&bench, &words).await;
        // Another attempt opens the incident again, with what it came to.
        assert_eq!(bench.run(&["--once", "k"], "exit 4").await.exit, 4);
        assert_eq!(incident(&bench).await, id);
        let shown = told(&bench, &["incidents", "show", &id]).await.out;
        for line in [
            "signal 9 ended the command",
            "ended with exit code 4",
            "open again",
        ] {
            assert!(shown.contains(line), "{line}: {shown}");
        }
        let story = told(&bench, &["explain", "job", "nightly", "k"]).await.out;
        assert!(
            story.contains("codes 4, 137") || story.contains("codes 4 and 137"),
            "{story}"
        );
    }))
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_may_run_again_is_said_to_until_a_person_has_to_decide() {
    bounded(Box::pin(async {
        let sidecar = Process::dev(&[]).await;
        let bench = Bench::at(&sidecar);
        let rerun = ["--once", "k", "--on-failure", "rerun"];
        for attempt in 1..=5 {
            let said = bench.run(&rerun, "exit 3").await;
            assert_eq!(said.exit, 3, "{}", said.err);
            let may = said.err.contains("k may be run again");
            assert_eq!(may, attempt < 5, "{attempt}: {}", said.err);
            let asks = said.err.contains("fencepost resolve job nightly k");
            assert_eq!(asks, attempt == 5, "{attempt}: {}", said.err);
        }
        assert_eq!(bench.run(&rerun, "exit 3").await.exit, 14);
    }))
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_command_carries_out_an_event_of_a_machine_and_its_exit_makes_the_move() {
    bounded(Box::pin(async {
        let sidecar = Process::dev(&[]).await;
        let bench = Bench::at(&sidecar);
        let file = bench.path("job.yaml");
        std::fs::write(&file, MACHINE).unwrap();
        told(&bench, &["machine", "apply", file.to_str().unwrap()]).await;
        let ran = r#"echo ran >> "$LOG""#;
        // Without an event there is none that the machine could judge.
        let bare = bench.run(&["--once", "k"], ran).await;
        assert_eq!(bare.exit, 65, "{}", bare.err);
        let carry_out = ["--once", "k", "--event", "carry_out"];
        let early = bench.run(&carry_out, ran).await;
        assert_eq!(early.exit, 10, "{}", early.err);
        assert!(early.err.contains("it is too early"), "{}", early.err);
        // That somebody else does it is another thing, and so is its code.
        let early = bench
            .run(&[&carry_out[..], &["--busy-code", "0"]].concat(), ran)
            .await;
        assert_eq!(early.exit, 10, "{}", early.err);
        assert_eq!(bench.log(), "");
        let create = [
            "transition",
            "job",
            "nightly",
            "--operation",
            "new",
            "--event",
            "create",
        ];
        told(&bench, &create).await;
        // What it needs besides is given by name.
        let begin = ["--once", "b", "--event", "begin", "--identity", "batch=7"];
        assert_eq!(bench.run(&begin, "true").await.exit, 0);
        let other = ["--once", "m", "--event", "mark", "--identity", "batch=8"];
        assert_ne!(bench.run(&other, ran).await.exit, 0);
        let mark = ["--once", "n", "--event", "mark", "--identity", "batch=7"];
        assert_eq!(bench.run(&mark, "true").await.exit, 0);
        assert_eq!(bench.log(), "");
        // Whether it may run again says the machine.
        let try_out = ["--once", "t", "--event", "try_out"];
        let failed = bench.run(&try_out, "exit 3").await;
        assert_eq!(failed.exit, 3);
        assert!(failed.err.contains("t may be run again"), "{}", failed.err);
        let failed = bench.run(&carry_out, "exit 3").await;
        assert_eq!(failed.exit, 3);
        let hint = "fencepost resolve job nightly k";
        assert!(failed.err.contains(hint), "{}", failed.err);
        assert_eq!(bench.inspect("nightly").await.state, "open");
        let words = [
            "resolve",
            "job",
            "nightly",
            "k",
            "--reason",
            "seen",
            "--not-done",
        ];
        told(&bench, &words).await;
        // Neither the event nor the values are told to an exec within.
        let script = r#"echo ran >> "$LOG"; env"#;
        let all = [
            &["exec", "job", "nightly"],
            &carry_out[..2],
            &["--", "sh", "-c", script],
        ];
        let mut command = bench.command(env!("CARGO_BIN_EXE_fencepost"), &all.concat());
        command.env("FENCEPOST_EVENT", "carry_out");
        let done = crate::bench::Exec::start(command).ended().await;
        assert_eq!(done.exit, 0, "{}", done.err);
        assert!(!done.out.contains("FENCEPOST_EVENT"), "{}", done.out);
        assert_eq!(bench.inspect("nightly").await.state, "done");
        let again = bench.run(&carry_out, ran).await;
        assert!(again.err.contains("k was run before"), "{}", again.err);
        assert_eq!(bench.log(), "ran\n");
    }))
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_fits_not_together_or_is_not_what_it_looks_like_is_said() {
    bounded(Box::pin(async {
        let bench = Bench::start().await;
        let cases: [(&[&str], i32, &str); 6] = [
            (
                &["job", "1", "--once", "k", "--also", "job/2"],
                2,
                "belongs to one resource",
            ),
            (
                &[
                    "job",
                    "1",
                    "--once",
                    "k",
                    "--event",
                    "e",
                    "--on-failure",
                    "rerun",
                ],
                2,
                "interrupted: rerun",
            ),
            (&["job", "1", "--event", "e"], 2, "--once"),
            (&["job", "1", "--once", ""], 65, "KEY of --once is empty"),
            (&["", "1"], 65, "KIND (resource.kind) is empty"),
            (&["job", ""], 65, "ID (resource.id) is empty"),
        ];
        for (words, exit, hint) in cases {
            let all = [&["exec"], words, &["--", "true"]].concat();
            let said = bench.fencepost(&all).await;
            assert_eq!(said.exit, exit, "{words:?}: {}", said.err);
            assert!(said.err.contains(hint), "{words:?}: {}", said.err);
        }
        assert_eq!(bench.inspect("1").await.revision, 0, "nothing was asked");
        // A comma may be a part of an id, so it is taken, and said how.
        let listed = ["--also", "job/2,job/3", "--timeout", "10s"];
        let said = bench.run(&listed, "exit 5").await;
        assert_eq!(said.exit, 5, "{}", said.err);
        assert!(
            said.err.contains("--also job/2 --also job/3"),
            "{}",
            said.err
        );
        assert_ne!(bench.inspect("2,job/3").await.revision, 0);
        let calm = bench
            .run(&["--also", "job/2,3", "--timeout", "10s"], "exit 5")
            .await;
        assert_eq!(calm.err, "");
    }))
    .await;
}
