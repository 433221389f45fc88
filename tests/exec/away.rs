//! What is said, and what is not, when the sidecar is away for longer than a reservation or a wait lasts.

use std::io::{Read as _, Write as _};
use std::time::Duration;

use fencepost::engine::Boottime;

use crate::bench::{Bench, Exec, SOON, STUBBORN, inspect};
use crate::support::proxy::Proxy;
use crate::support::{bounded, until};

/// A bench whose `exec`s come over a line, and the sidecar's own address.
async fn over_a_line() -> (Bench, Proxy, String) {
    let mut bench = Bench::start().await;
    let line = Proxy::to(bench.address.parse().unwrap());
    let direct = std::mem::replace(&mut bench.address, line.url().replace("http://", ""));
    (bench, line, direct)
}

#[tokio::test(flavor = "multi_thread")]
async fn once_a_command_was_told_to_stop_its_reservation_is_renewed_no_more() {
    bounded(Box::pin(async {
        let (bench, line, direct) = over_a_line().await;
        let mut exec = bench.begin(&["--ttl", "9s", "--grace", "3s"], STUBBORN);
        exec.up().await;
        line.cut();
        until("it is told", SOON, || async {
            (bench.log() == "told\n").then_some(())
        })
        .await;
        line.heal();
        // While it still runs a renewal would be tried several times, and give it most of its TTL again.
        tokio::time::sleep(Duration::from_secs(2)).await;
        let now = inspect(&direct, "nightly").await;
        let left = now.live_for.map_or(0, |left| left.seconds);
        assert!(left < 5, "it was renewed, for {left} s");
        let said = exec.ended().await;
        assert_eq!(said.exit, 12, "{}", said.err);
        assert!(said.err.contains("is told to stop in"), "{}", said.err);
        assert!(!said.err.contains("renewed again"), "{}", said.err);
    }))
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_result_that_could_not_be_stored_says_what_becomes_of_the_key() {
    bounded(Box::pin(async {
        let cases = [("ask", "it ends with 14"), ("rerun", "k may be run again")];
        for (on_failure, becomes) in cases {
            let (bench, line, direct) = over_a_line().await;
            let words = ["--ttl", "3s", "--once", "k", "--on-failure", on_failure];
            let mut exec = bench.begin(&words, r#"echo up; cat; echo ran >> "$LOG""#);
            assert_eq!(exec.line().await, "up");
            line.cut();
            let said = exec.ended().await;
            assert_eq!(said.exit, 75, "{}", said.err);
            for told in [becomes, "fencepost resolve job nightly k"] {
                assert!(said.err.contains(told), "{told}: {}", said.err);
            }
            assert!(!said.err.contains("same ids"), "{}", said.err);
            // What was said of it is so.
            let words = ["--once", "k", "--on-failure", on_failure, "--wait", "1m"];
            let again = bench.begin_at(&direct, &words, r#"echo ran >> "$LOG""#);
            let wanted = if on_failure == "ask" { 14 } else { 0 };
            assert_eq!(again.ended().await.exit, wanted, "{on_failure}");
        }
    }))
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wait_ends_in_time_without_a_sidecar_and_what_is_none_is_not_waited_for() {
    bounded(Box::pin(async {
        let (bench, line, direct) = over_a_line().await;
        let mut first = bench.begin_at(&direct, &[], "echo up $$; cat");
        first.up().await;
        let wait_is_over = Boottime::now().plus(Duration::from_secs(4));
        let waits = bench.begin(&["--wait", "4s"], r#"echo ran >> "$LOG""#);
        until("it waits", SOON, || async {
            (crate::bench::waiting(&direct, "nightly").await == 1).then_some(())
        })
        .await;
        line.cut();
        let said = waits.ended().await;
        assert_eq!(said.exit, 75, "{}", said.err);
        assert!(wait_is_over.left().is_zero(), "it gave up before");
        let told = said.err.matches("waiting goes on, for").count();
        assert_eq!(told, 1, "{}", said.err);
        assert_eq!(first.ended().await.exit, 0);
        assert_eq!(bench.log(), "");
        // Another kind of server is told at once, however long the wait.
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let stranger = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            // That nobody listens there any more is no reason to wait, either.
            drop(listener);
            let _ = stream.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n");
            let _ = stream.read_to_end(&mut Vec::new());
        });
        let words = ["exec", "job", "1", "--wait", "10m", "--", "true"];
        let mut command = bench.command(env!("CARGO_BIN_EXE_fencepost"), &words);
        command.env("FENCEPOST_ADDR", address);
        let said = Exec::start(command).ended().await;
        assert_eq!(said.exit, 69, "{}", said.err);
        stranger.join().unwrap();
    }))
    .await;
}
