//! What `exec` promises across sidecars, on a real etcd and on the embedded engine.

use std::time::Duration;

use fencepost::engine::Boottime;

use crate::bench::{Bench, SOON, STUBBORN, gone, inspect, runs, waiting};
use crate::support::backend::Backend;
use crate::support::engines;
use crate::support::process::Process;
use crate::support::proxy::Proxy;
use crate::support::until;

/// The shortest TTL there is.
const SHORTEST: Duration = Duration::from_secs(3);

async fn sidecar(backend: &Backend) -> Process {
    Process::serve(&backend.url().await, backend.prefix(), &[]).await
}

async fn two(backend: &Backend) -> [Process; 2] {
    // The embedded engine is the same at each of its ports.
    [sidecar(backend).await, sidecar(backend).await]
}

async fn of_several_that_wait_at_two_sidecars_one_runs_at_a_time_and_all_run(backend: Backend) {
    let [one, other] = two(&backend).await;
    let bench = Bench::at(&one);
    let script = r#"mkdir "$DIR/lock" || echo overlap >> "$LOG"; echo ran >> "$LOG"; sleep 0.1; rmdir "$DIR/lock""#;
    let places = [one.address(), other.address()];
    let all: Vec<_> = (0..6)
        .map(|at| bench.begin_at(places[at % 2], &["--wait", "1m"], script))
        .collect();
    for exec in all {
        let said = exec.ended().await;
        assert_eq!(said.exit, 0, "{}", said.err);
    }
    assert_eq!(bench.log(), "ran\n".repeat(6));
    // Who does not wait is told so, wherever it comes.
    let mut first = bench.begin(&["--holder", "ann"], "echo up $$; cat");
    first.up().await;
    let busy = bench
        .begin_at(other.address(), &[], "echo ran")
        .ended()
        .await;
    assert_eq!((busy.exit, &*busy.out), (10, ""), "{}", busy.err);
    assert!(busy.err.contains("held by ann"), "{}", busy.err);
    assert_eq!(first.ended().await.exit, 0);
}

async fn a_key_that_is_fired_on_two_machines_at_once_runs_once(backend: Backend) {
    let [one, other] = two(&backend).await;
    let bench = Bench::at(&one);
    let script = r#"echo "ran $FENCEPOST_HELD_ATTEMPT" >> "$LOG"; sleep 0.1"#;
    for key in ["1", "2", "3"] {
        let once = ["--once", key, "--wait", "1m"];
        let both = [one.address(), other.address()];
        let both = both.map(|place| bench.begin_at(place, &once, script));
        let mut skipped = 0;
        for exec in both {
            let said = exec.ended().await;
            assert_eq!(said.exit, 0, "{}", said.err);
            skipped += usize::from(said.err.contains("was run before at 20"));
        }
        assert_eq!(skipped, 1, "{key}");
    }
    assert_eq!(bench.log(), "ran 1\n".repeat(3));
    // Whichever of them is asked later, and whatever was restarted meanwhile.
    one.kill().await;
    let next = sidecar(&backend).await;
    for place in [other.address(), next.address()] {
        let again = bench.begin_at(place, &["--once", "2"], script);
        let again = again.ended().await;
        assert!(
            again.err.contains("2 was run before at 20"),
            "{}",
            again.err
        );
    }
    assert_eq!(bench.log(), "ran 1\n".repeat(3));
}

async fn a_command_whose_claim_an_operator_ends_is_told_and_then_killed(backend: Backend) {
    let [one, other] = two(&backend).await;
    let bench = Bench::at(&one);
    let words = ["--ttl", "1h", "--grace", "3s", "--once", "k"];
    let mut exec = bench.begin(&words, STUBBORN);
    let command = exec.up().await;
    let operator = Bench::at(&other);
    let why = ["--reason", "wrong host", "--refused", "--even-if-running"];
    let resolve = [&["resolve", "job", "nightly", "k"], &why[..]].concat();
    let resolved = operator.fencepost(&resolve).await;
    assert_eq!(resolved.exit, 0, "{}{}", resolved.out, resolved.err);
    gone("the command", command).await;
    let said = exec.ended().await;
    assert_eq!(said.exit, 12, "{}", said.err);
    assert_eq!(bench.log().lines().next(), Some("told"), "TERM comes first");
    assert!(said.err.contains("ended with 137"), "{}", said.err);
    // It is settled, so nobody is sent to settle it; what was killed is kept for whoever did.
    assert!(
        said.err.contains("settled by somebody else"),
        "{}",
        said.err
    );
    let kept = operator.fencepost(&["incidents", "--kind", "job"]).await;
    assert!(kept.out.contains("DONE_WITHOUT_ROUND"), "{}", kept.out);
    let again = bench.run(&["--once", "k"], "echo ran").await;
    assert_eq!((again.exit, &*again.out), (11, ""), "{}", again.err);
}

async fn a_command_ends_before_its_reservation_when_etcd_is_cut_off(backend: Backend) {
    let line = Proxy::to_url(&backend.url().await);
    let cut_off = Process::serve(&line.url(), backend.prefix(), &[]).await;
    let other = sidecar(&backend).await;
    let bench = Bench::at(&cut_off);
    let mut exec = bench.begin(&["--ttl", "3s"], STUBBORN);
    let command = exec.up().await;
    // It is renewed, so it has more than what it began with.
    tokio::time::sleep(SHORTEST).await;
    assert!(runs(command), "a reservation that is renewed stops nobody");
    line.cut();
    let bound = Boottime::now().plus(SHORTEST);
    // The next one begins as soon as the lease has ended, and never beside the first.
    let beside = r#"kill -0 "$FIRST" 2>/dev/null && echo overlap >> "$LOG"; echo next >> "$LOG""#;
    let beside = beside.replace("$FIRST", &command.as_raw_nonzero().to_string());
    let next = bench.begin_at(other.address(), &["--wait", "1m"], &beside);
    gone("the command", command).await;
    assert!(Boottime::now() < bound, "it ran on past its reservation");
    let said = exec.ended().await;
    assert_eq!(said.exit, 12, "{}", said.err);
    assert_eq!(next.ended().await.exit, 0);
    assert_eq!(bench.log(), "told\nnext\n");
}

async fn a_command_ends_in_time_when_its_sidecar_is_killed_and_its_key_waits_for_a_person(
    backend: Backend,
) {
    let [one, other] = two(&backend).await;
    let bench = Bench::at(&one);
    let mut exec = bench.begin(&["--ttl", "3s", "--once", "k"], STUBBORN);
    let command = exec.up().await;
    one.kill().await;
    let bound = Boottime::now().plus(SHORTEST);
    gone("the command", command).await;
    assert!(Boottime::now() < bound, "it ran on past its reservation");
    assert_eq!(bench.log().lines().next(), Some("told"));
    let said = exec.ended().await;
    assert_eq!(said.exit, 12, "{}", said.err);
    for told in ["is broken", "is told to stop in", "not renewed in time"] {
        assert!(said.err.contains(told), "{told}: {}", said.err);
    }
    let script = r#"echo again >> "$LOG""#;
    let again = bench.begin_at(other.address(), &["--once", "k", "--wait", "1m"], script);
    let again = again.ended().await;
    assert_eq!(again.exit, 14, "{}", again.err);
    assert!(!bench.log().contains("again"));
}

async fn a_sidecar_that_is_started_anew_costs_nothing_and_no_result(backend: Backend) {
    let one = sidecar(&backend).await;
    let line = Proxy::to(one.address().parse().unwrap());
    let mut bench = Bench::at(&one);
    bench.address = line.url().replace("http://", "");
    let words = ["--ttl", "12s", "--once", "k"];
    let mut exec = bench.begin(&words, r#"echo up $$; cat; echo ran >> "$LOG""#);
    let command = exec.up().await;
    one.kill().await;
    let next = sidecar(&backend).await;
    line.lead_to(next.address().parse().unwrap());
    // Longer than it would last if the next sidecar did not renew it.
    tokio::time::sleep(Duration::from_secs(14)).await;
    assert!(runs(command));
    assert_ne!(inspect(next.address(), "nightly").await.live_token, 0);
    let said = exec.ended().await;
    assert_eq!(said.exit, 0, "{}", said.err);
    assert!(said.err.contains("is renewed again"), "{}", said.err);
    let again = bench.begin_at(next.address(), &["--once", "k"], "echo again");
    let again = again.ended().await;
    assert!(again.err.contains("k was run before"), "{}", again.err);
    assert_eq!(bench.log(), "ran\n");
}

async fn who_waits_is_served_also_if_its_sidecar_is_stopped_or_killed_and_started_anew(
    backend: Backend,
) {
    let other = sidecar(&backend).await;
    for killed in [false, true] {
        let one = sidecar(&backend).await;
        let line = Proxy::to(one.address().parse().unwrap());
        let bench = Bench::at(&other);
        let mut first = bench.begin(&[], "echo up $$; cat");
        first.up().await;
        let place = line.url().replace("http://", "");
        let waits = bench.begin_at(&place, &["--wait", "1m"], r#"echo ran >> "$LOG""#);
        let waits = tokio::spawn(waits.ended());
        let queued = async || (waiting(other.address(), "nightly").await == 1).then_some(());
        until("it waits", SOON, queued).await;
        // The line leads nowhere until there is one again.
        if killed {
            one.kill().await;
        } else {
            assert_eq!(one.terminate().await, 0);
        }
        tokio::time::sleep(Duration::from_secs(2)).await;
        assert!(!waits.is_finished(), "its wait is not over");
        let next = sidecar(&backend).await;
        line.lead_to(next.address().parse().unwrap());
        assert_eq!(first.ended().await.exit, 0);
        let said = waits.await.unwrap();
        assert_eq!(said.exit, 0, "killed: {killed}: {}", said.err);
        assert_eq!(bench.log(), "ran\n");
        assert_eq!(inspect(next.address(), "nightly").await.live_token, 0);
    }
}

engines! {
    who_waits_is_served_also_if_its_sidecar_is_stopped_or_killed_and_started_anew,
    of_several_that_wait_at_two_sidecars_one_runs_at_a_time_and_all_run,
    a_key_that_is_fired_on_two_machines_at_once_runs_once,
    a_command_whose_claim_an_operator_ends_is_told_and_then_killed,
    a_command_ends_before_its_reservation_when_etcd_is_cut_off,
    a_command_ends_in_time_when_its_sidecar_is_killed_and_its_key_waits_for_a_person,
    a_sidecar_that_is_started_anew_costs_nothing_and_no_result,
}
