//! What is said where a command is not run, and while it waits: in the words of the command line, and once.

use std::process::{Command, Stdio};
use std::time::Duration;

use fencepost::engine::Boottime;
use fencepost::server::start_dev;

use crate::bench::{Bench, Exec, SOON};
use crate::support::{bounded, until};

/// An address at which nobody listens.
fn nobody() -> String {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    taken.local_addr().unwrap().to_string()
}

fn exec(bench: &Bench, address: &str, words: &[&str], stderr: Stdio) -> Exec {
    let all = [&["exec"], words].concat();
    let mut command = bench.command(env!("CARGO_BIN_EXE_fencepost"), &all);
    command.env("FENCEPOST_ADDR", address).stderr(stderr);
    Exec::start(command)
}

#[tokio::test(flavor = "multi_thread")]
async fn what_can_never_be_run_is_told_in_the_words_of_the_command_line() {
    bounded(Box::pin(async {
        let bench = Bench::start().await;
        let long = "a".repeat(300);
        let cases: [(&[&str], &str); 8] = [
            (&["jo b", "1"], "KIND (resource.kind) may hold only"),
            (
                &["job", &long.repeat(2)],
                "ID (resource.id) is 600 bytes long",
            ),
            (&["job", "1", "--ttl", "1s"], "--ttl is 1s; the least is 3s"),
            (
                &["job", "1", "--holder", &long],
                "--holder is 300 bytes long",
            ),
            (
                &["job", "1", "--once", &long],
                "the KEY of --once is 300 bytes long",
            ),
            (&["job", "1", "--also", "job/1"], "--also names a resource"),
            (&["job", "1", "--also", "j b/2"], "--also may hold only"),
            (
                &["job", "1", "--once", "k", "--event", "pay"],
                "the kind has no machine in force",
            ),
        ];
        for (words, told) in cases {
            let all = [words, &["--", "true"]].concat();
            let said = exec(&bench, &bench.address, &all, Stdio::piped())
                .ended()
                .await;
            assert_eq!(said.exit, 65, "{words:?}: {}", said.err);
            assert!(
                said.err.contains(&format!("can never work: {told}")),
                "{}",
                said.err
            );
            for wire in ["intent", "_id", "`move`", "INVALID"] {
                assert!(!said.err.contains(wire), "{wire}: {}", said.err);
            }
        }
    }))
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn who_waits_does_so_for_a_sidecar_that_is_not_there_yet_and_says_so_once() {
    bounded(Box::pin(async {
        let bench = Bench::start().await;
        let address = nobody();
        let not_yet = Boottime::now().plus(Duration::from_secs(2));
        let words = ["job", "1", "--wait", "2s", "--", "true"];
        let said = exec(&bench, &address, &words, Stdio::piped()).ended().await;
        assert_eq!(said.exit, 69, "{}", said.err);
        assert!(not_yet.left().is_zero(), "it gave up before");
        assert_eq!(
            said.err.matches("waiting goes on, for").count(),
            1,
            "{}",
            said.err
        );
        // Who does not wait is told at once.
        let words = ["job", "1", "--", "true"];
        let said = exec(&bench, &address, &words, Stdio::piped()).ended().await;
        assert_eq!(said.exit, 69, "{}", said.err);
        assert!(!said.err.contains("waiting"), "{}", said.err);
        // One that comes in time is asked.
        let told = bench.path("told");
        let stderr = std::fs::File::create(&told).unwrap();
        let words = ["job", "1", "--wait", "5m", "--", "sh", "-c", "exit 7"];
        let waits = exec(&bench, &address, &words, stderr.into());
        until("it waits", SOON, || async {
            let told = std::fs::read_to_string(&told).unwrap();
            told.contains("waiting goes on, for").then_some(())
        })
        .await;
        let sidecar = start_dev(address.parse().unwrap()).await.unwrap();
        assert_eq!(waits.ended().await.exit, 7);
        sidecar.stop().await;
    }))
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn with_too_few_open_files_nothing_is_run_and_it_is_told_how_many_are_needed() {
    bounded(Box::pin(async {
        let bench = Bench::start().await;
        let with = |limit: u32, words: &str| {
            let script = format!(r#"ulimit -n {limit}; exec "$BIN" {words}"#);
            let mut command: Command = bench.command("sh", &["-c", &script]);
            command.env("FENCEPOST_TTL", "1h");
            Exec::start(command).ended()
        };
        let run = r#"exec job few -- sh -c 'echo ran >> "$LOG"'"#;
        let mut enough = false;
        for limit in [5, 7, 9, 11, 13, 16, 20, 24, 64] {
            let said = with(limit, run).await;
            assert!(!enough || said.exit == 0, "{limit}: {}", said.err);
            if said.exit == 0 {
                enough = true;
                continue;
            }
            assert_eq!(said.exit, 70, "{limit}: {}", said.err);
            assert!(said.err.contains("ulimit -n"), "{limit}: {}", said.err);
            let needed = "24 are needed beside those that are open already";
            assert!(said.err.contains(needed), "{limit}: {}", said.err);
            assert_eq!(bench.log(), "");
            assert_eq!(
                bench.inspect("few").await.revision,
                0,
                "{limit}: it was reserved"
            );
        }
        assert!(enough);
        assert_eq!(bench.log(), "ran\n");
        let sidecar = with(7, "dev --listen 127.0.0.1:0 --admin-socket none").await;
        assert_eq!(sidecar.exit, 1, "{}", sidecar.err);
        assert!(sidecar.err.contains("ulimit -n"), "{}", sidecar.err);
    }))
    .await;
}
