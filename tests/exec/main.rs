//! `fencepost exec`, as whole processes: what it runs, for how long, how often, and how it ends.
#![allow(
    clippy::as_conversions,
    clippy::unwrap_used,
    clippy::wildcard_enum_match_arm,
    missing_docs
)]

#[path = "../support/mod.rs"]
mod support;

mod away;
mod bench;
mod engines;
mod plain;
mod settled;
mod streams;

use std::io::Write as _;
use std::path::PathBuf;
use std::time::Duration;

use fencepost::engine::Boottime;
use fencepost::proto::v1::ReleaseRequest;
use rustix::process::{Pid, Signal, kill_process};

use bench::{Bench, Exec, SOON, STUBBORN, client, gone, inspect, pid_of, runs};
use support::process::Process;
use support::proxy::Proxy;
use support::{bounded, until};

#[tokio::test(flavor = "multi_thread")]
async fn the_command_has_its_input_its_environment_and_its_exit_code() {
    bounded(Box::pin(async {
        let bench = Bench::start().await;
        let script = r#"cat; env | grep ^FENCEPOST_ | sort; echo oops >&2
            "$BIN" fence "$FENCEPOST_HELD_KIND" "$FENCEPOST_HELD_ID" "$FENCEPOST_HELD_TOKEN" >/dev/null || exit 1
            exit 7"#;
        let mut exec = bench.begin(&["--ttl", "1h", "--also", "job/other"], script);
        exec.input.as_mut().unwrap().write_all(b"typed\n").unwrap();
        let said = exec.ended().await;
        assert_eq!(said.exit, 7, "{}{}", said.out, said.err);
        assert_eq!(said.err, "oops\n");
        let lines: Vec<&str> = said.out.lines().collect();
        assert_eq!(lines[0], "typed");
        let named = |name: &str| {
            let found = lines.iter().find_map(|line| line.strip_prefix(name));
            found.unwrap_or_else(|| panic!("no {name} in {}", said.out)).to_owned()
        };
        assert_eq!(named("FENCEPOST_HELD_KIND="), "job");
        assert_eq!(named("FENCEPOST_HELD_ID="), "nightly");
        assert!(named("FENCEPOST_HELD_TOKEN=").parse::<u64>().unwrap() > 0);
        assert!(named("FENCEPOST_HELD_RESERVATION=").starts_with("s1."));
        assert_eq!(named("FENCEPOST_ADDR="), format!("http://{}", bench.address));
        assert!(!said.out.contains("FENCEPOST_HELD_ATTEMPT"), "{}", said.out);
        assert!(!bench.held().await, "it is released, not left to run out");
        assert_eq!(bench.inspect("other").await.live_token, 0);
    }))
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_told_exec_what_to_do_is_not_told_to_an_exec_within() {
    bounded(Box::pin(async {
        let bench = Bench::start().await;
        let words = ["exec", "job", "nightly", "--", "sh", "-c", "env"];
        let mut command = bench.command(env!("CARGO_BIN_EXE_fencepost"), &words);
        command
            .env("FENCEPOST_ONCE_KEY", "k")
            .env("FENCEPOST_ON_FAILURE", "record")
            .env("FENCEPOST_DONE_CODE", "9")
            .env("FENCEPOST_TTL", "1m");
        let said = Exec::start(command).ended().await;
        assert_eq!(said.exit, 0, "{}", said.err);
        assert!(
            said.out.contains("FENCEPOST_HELD_ATTEMPT=1"),
            "{}",
            said.out
        );
        assert!(said.out.contains("FENCEPOST_TTL=1m"), "{}", said.out);
        for own in ["ONCE_KEY", "ON_FAILURE", "DONE_CODE"] {
            assert!(!said.out.contains(own), "{own}: {}", said.out);
        }
        // One without a key has no attempt, whatever the one around it has.
        let mut command = bench.command(env!("CARGO_BIN_EXE_fencepost"), &words);
        command.env("FENCEPOST_HELD_ATTEMPT", "9");
        let said = Exec::start(command).ended().await;
        assert_eq!(said.exit, 0, "{}", said.err);
        assert!(!said.out.contains("HELD_ATTEMPT"), "{}", said.out);
        assert!(!said.out.contains("ONCE_KEY"), "{}", said.out);
    }))
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn of_several_that_wait_one_runs_at_a_time_and_all_run() {
    bounded(Box::pin(async {
        let bench = Bench::start().await;
        let script = r#"mkdir "$DIR/lock" || echo overlap >> "$LOG"; echo ran >> "$LOG"; sleep 0.1; rmdir "$DIR/lock""#;
        let all: Vec<Exec> = (0..4).map(|_| bench.begin(&["--wait", "1m"], script)).collect();
        for exec in all {
            let said = exec.ended().await;
            assert_eq!(said.exit, 0, "{}", said.err);
        }
        assert_eq!(bench.log(), "ran\n".repeat(4));
    }))
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_busy_resource_runs_nothing_and_says_who_holds_it() {
    bounded(Box::pin(async {
        let bench = Bench::start().await;
        let mut first = bench.begin(&["--holder", "ann"], "echo up $$; cat");
        first.up().await;
        let ran = r#"echo ran >> "$LOG""#;
        let busy = bench.run(&[], ran).await;
        assert_eq!((busy.exit, &*busy.out), (10, ""), "{}", busy.err);
        assert!(busy.err.contains("held by ann"), "{}", busy.err);
        assert_eq!(bench.run(&["--busy-code", "0"], ran).await.exit, 0);
        assert_eq!(bench.log(), "");
        // One who waits gets it, and one who gives up waiting leaves nothing behind.
        let gives_up = bench.begin(&["--wait", "5m"], ran);
        let waits = bench.begin(&["--wait", "5m"], ran);
        gives_up.signal(Signal::TERM);
        let gave_up = gives_up.ended().await;
        assert!([143, -1].contains(&gave_up.exit), "{}", gave_up.exit);
        drop(first.input.take());
        assert_eq!(first.ended().await.exit, 0);
        assert_eq!(waits.ended().await.exit, 0);
        assert_eq!(bench.log(), "ran\n");
        assert!(!bench.held().await);
    }))
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_that_is_fired_twice_at_once_runs_once() {
    bounded(Box::pin(async {
        let bench = Bench::start().await;
        let script = r#"echo "ran $FENCEPOST_HELD_ATTEMPT" >> "$LOG"; sleep 0.1"#;
        let once = ["--once", "2026-01-31", "--wait", "1m"];
        let two = [bench.begin(&once, script), bench.begin(&once, script)];
        let mut skipped = 0;
        for exec in two {
            let said = exec.ended().await;
            assert_eq!(said.exit, 0, "{}", said.err);
            skipped += usize::from(said.err.contains("2026-01-31 was run before at 20"));
        }
        assert_eq!((skipped, &*bench.log()), (1, "ran 1\n"));
        let later = bench.run(&once[..2], script).await;
        assert_eq!(later.exit, 0);
        assert!(later.err.contains("with exit code 0"), "{}", later.err);
        assert_eq!(bench.log(), "ran 1\n");
        assert!(!bench.held().await);
    }))
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_whose_command_failed_waits_for_a_person_runs_again_or_is_done_as_was_said() {
    bounded(Box::pin(async {
        let bench = Bench::start().await;
        let script = r#"echo "ran $FENCEPOST_HELD_ATTEMPT" >> "$LOG"; exit 3"#;
        let ask = bench.run(&["--once", "ask"], script).await;
        assert_eq!(ask.exit, 3, "{}", ask.err);
        let hint = "fencepost resolve job nightly ask --reason TEXT";
        assert!(ask.err.contains(hint), "{}", ask.err);
        let again = bench.run(&["--once", "ask"], script).await;
        assert_eq!(again.exit, 14, "{}", again.err);
        assert!(again.err.contains(hint), "{}", again.err);
        assert_eq!(bench.log(), "ran 1\n");
        // It holds up no other.
        let rerun = ["--once", "rerun", "--on-failure", "rerun"];
        for attempt in 1..=2 {
            assert_eq!(bench.run(&rerun, script).await.exit, 3, "{attempt}");
        }
        assert_eq!(bench.log(), "ran 1\nran 1\nran 2\n");
        let record = ["--once", "record", "--on-failure", "record"];
        assert_eq!(bench.run(&record, script).await.exit, 3);
        let again = bench.run(&record, script).await;
        assert_eq!(again.exit, 3, "the first result, once more: {}", again.err);
        assert!(again.err.contains("with exit code 3"), "{}", again.err);
        let calm = bench
            .run(&[&record[..], &["--done-code", "0"]].concat(), script)
            .await;
        assert_eq!(calm.exit, 0, "{}", calm.err);
        // A signal is no exit code.
        let record = ["--once", "signal", "--on-failure", "record"];
        assert_eq!(bench.run(&record, "kill -9 $$").await.exit, 137);
        assert_eq!(bench.run(&record, script).await.exit, 14);
        assert_eq!(bench.log(), "ran 1\nran 1\nran 2\nran 1\n");
    }))
    .await;
}

/// Whether whoever runs these tests has this signal ignored, as `nohup` does.
fn is_ignored_here(signal: Signal) -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = u64::from_str_radix(mask.unwrap().trim(), 16).unwrap();
    mask & (1 << (signal.as_raw() - 1)) != 0
}

#[tokio::test(flavor = "multi_thread")]
async fn signals_are_passed_on_once_and_the_command_decides() {
    bounded(Box::pin(async {
        let bench = Bench::start().await;
        let script = r#"for s in INT HUP QUIT USR1 USR2; do trap "echo $s >> '$LOG'" $s; done
            trap 'echo TERM >> "$LOG"; exit 5' TERM; echo up $$; while :; do sleep 0.02; done"#;
        let mut exec = bench.begin(&[], script);
        exec.up().await;
        let mut wanted = String::new();
        let signals = [
            (Signal::INT, "INT"),
            (Signal::HUP, "HUP"),
            (Signal::QUIT, "QUIT"),
            (Signal::USR1, "USR1"),
            (Signal::USR2, "USR2"),
            (Signal::TERM, "TERM"),
        ];
        for (signal, name) in signals {
            if is_ignored_here(signal) {
                // It stays ignored down to the command: that is another promise.
                continue;
            }
            exec.signal(signal);
            wanted.push_str(&format!("{name}\n"));
            until(name, SOON, || async {
                (bench.log() == wanted).then_some(())
            })
            .await;
        }
        assert_eq!(exec.ended().await.exit, 5);
        assert_eq!(bench.log(), wanted);
        assert!(!bench.held().await);
    }))
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_signal_that_was_ignored_from_the_start_stays_ignored() {
    bounded(Box::pin(async {
        let bench = Bench::start().await;
        let script =
            r#"trap "" HUP; exec "$BIN" exec job nightly -- sh -c 'echo up $$; cat; exit 4'"#;
        let mut exec = Exec::start(bench.command("sh", &["-c", script]));
        let command = exec.up().await;
        exec.signal(Signal::HUP);
        kill_process(command, Signal::HUP).unwrap();
        assert_eq!(exec.ended().await.exit, 4);
    }))
    .await;
}

/// However the sidecar falls silent.
async fn stopped_in_time(silence: impl AsyncFn(&Process)) {
    let sidecar = Process::dev(&[]).await;
    let bench = Bench::at(&sidecar);
    let script = format!("sleep 1000 & {STUBBORN}");
    let mut exec = bench.begin(&["--ttl", "3s", "--once", "k"], &script);
    let command = exec.up().await;
    // It is renewed, so it has more than what it began with.
    tokio::time::sleep(Duration::from_secs(3)).await;
    assert!(runs(command), "a reservation that is renewed stops nobody");
    silence(&sidecar).await;
    // No renewal was asked for later than now.
    let bound = Boottime::now().plus(Duration::from_secs(3));
    gone("the command", command).await;
    assert!(Boottime::now() < bound, "it ran on past its reservation");
    assert_eq!(
        bench.log().lines().next(),
        Some("told"),
        "it was told before"
    );
    let said = exec.ended().await;
    assert_eq!(said.exit, 12, "{}", said.err);
    assert!(said.err.contains("not renewed in time"), "{}", said.err);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_command_ends_before_its_reservation_when_the_sidecar_is_gone() {
    bounded(stopped_in_time(async |sidecar| sidecar.kill().await)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_command_ends_before_its_reservation_when_the_sidecar_is_silent() {
    bounded(stopped_in_time(async |sidecar| sidecar.pause())).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_loss_that_is_told_stops_the_command_at_once() {
    bounded(Box::pin(async {
        let bench = Bench::start().await;
        let words = ["--ttl", "1h", "--grace", "200ms", "--once", "k"];
        let script = format!("echo $FENCEPOST_HELD_RESERVATION; {STUBBORN}");
        let mut exec = bench.begin(&words, &script);
        let reservation_id = exec.line().await;
        let command = exec.up().await;
        let request = ReleaseRequest {
            reservation_id,
            nothing_done: false,
            result: None,
        };
        client(&bench.address).await.release(request).await.unwrap();
        gone("the command", command).await;
        let said = exec.ended().await;
        assert_eq!(said.exit, 12, "{}", said.err);
        assert_eq!(bench.log().lines().next(), Some("told"));
        assert!(
            said.err.contains("fencepost resolve job nightly k"),
            "{}",
            said.err
        );
    }))
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_grant_whose_answer_is_lost_is_used_or_taken_back() {
    bounded(Box::pin(async {
        for gives_up in [false, true] {
            let mut bench = Bench::start().await;
            let proxy = Proxy::to(bench.address.parse().unwrap());
            let direct = std::mem::replace(&mut bench.address, proxy.url().replace("http://", ""));
            let words = ["--ttl", "1h", "--once", "k"];
            proxy.drop_replies();
            let exec = bench.begin(&words, r#"echo ran >> "$LOG""#);
            until("it is held", SOON, || async {
                let now = inspect(&direct, "nightly").await;
                (now.live_token != 0).then_some(())
            })
            .await;
            if gives_up {
                exec.signal(Signal::TERM);
            }
            proxy.heal();
            let said = exec.ended().await;
            let wanted = if gives_up { (143, "") } else { (0, "ran\n") };
            assert_eq!((said.exit, &*bench.log()), wanted, "{}", said.err);
            bench.address = direct;
            assert!(!bench.held().await, "gives up: {gives_up}");
            // Nothing was done, so it may be: nobody has to be asked.
            let again = bench.run(&words, r#"echo again >> "$LOG""#).await;
            assert_eq!(again.exit, 0, "{}", again.err);
            let wanted = if gives_up { "again\n" } else { "ran\n" };
            assert_eq!(bench.log(), wanted);
        }
    }))
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_sidecar_that_is_away_for_less_than_is_left_costs_nothing_and_no_result() {
    bounded(Box::pin(async {
        let mut bench = Bench::start().await;
        let proxy = Proxy::to(bench.address.parse().unwrap());
        let direct = std::mem::replace(&mut bench.address, proxy.url().replace("http://", ""));
        let words = ["--ttl", "20s", "--once", "k"];
        let script = r#"echo up; cat; echo ran >> "$LOG""#;
        let mut exec = bench.begin(&words, script);
        assert_eq!(exec.line().await, "up");
        // It ends while nobody can be told.
        proxy.cut();
        drop(exec.input.take());
        until("its end", SOON, || async {
            (bench.log() == "ran\n").then_some(())
        })
        .await;
        let exec = tokio::spawn(exec.ended());
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert!(
            !exec.is_finished(),
            "the result is kept until it can be told"
        );
        proxy.heal();
        let said = exec.await.unwrap();
        assert_eq!(said.exit, 0, "{}", said.err);
        bench.address = direct;
        let again = bench.run(&["--once", "k"], script).await;
        assert!(again.err.contains("k was run before"), "{}", again.err);
        assert_eq!(bench.log(), "ran\n");
    }))
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_that_breaks_is_opened_anew_and_the_command_runs_on() {
    bounded(Box::pin(async {
        let mut bench = Bench::start().await;
        let proxy = Proxy::to(bench.address.parse().unwrap());
        bench.address = proxy.url().replace("http://", "");
        let mut exec = bench.begin(&["--ttl", "4s"], "echo up $$; cat");
        let command = exec.up().await;
        // Long enough for one that is not renewed any more to run out.
        let end = Boottime::now().plus(Duration::from_secs(6));
        while !end.left().is_zero() {
            proxy.cut();
            tokio::time::sleep(Duration::from_millis(300)).await;
            proxy.heal();
            tokio::time::sleep(Duration::from_millis(900)).await;
        }
        assert!(runs(command));
        assert_eq!(exec.ended().await.exit, 0);
    }))
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_it_runs_dies_with_an_exec_that_is_killed() {
    bounded(Box::pin(async {
        let bench = Bench::start().await;
        let script = "sleep 1000 & echo $!; echo up $$; wait";
        // The guard kills all of it; without the guard, the kernel kills the command.
        let mut exec = bench.begin(&["--ttl", "1h"], script);
        let left_behind = pid_of(&exec.line().await);
        let command = exec.up().await;
        exec.signal(Signal::KILL);
        gone("the command", command).await;
        gone("what it has started", left_behind).await;
        assert!(
            bench.held().await,
            "it runs out, for nobody knows who still runs"
        );
        let other = [
            "exec",
            "job",
            "other",
            "--",
            "sh",
            "-c",
            "echo up $$; exec sleep 1000",
        ];
        let mut exec = Exec::start(bench.command(env!("CARGO_BIN_EXE_fencepost"), &other));
        let command = exec.up().await;
        kill_process(exec.guard(), Signal::KILL).unwrap();
        exec.signal(Signal::KILL);
        gone("the command", command).await;
    }))
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_guard_ends_the_command_in_time_when_exec_is_stopped() {
    bounded(Box::pin(async {
        let bench = Bench::start().await;
        let mut exec = bench.begin(&["--ttl", "3s"], STUBBORN);
        let command = exec.up().await;
        exec.signal(Signal::STOP);
        let bound = Boottime::now().plus(Duration::from_secs(3));
        gone("the command", command).await;
        assert!(Boottime::now() < bound);
        assert!(bench.held().await);
        exec.signal(Signal::CONT);
        // Whatever it hears of first, its own alarm or the command's end.
        assert_eq!(exec.ended().await.exit, 12);
    }))
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_be_run_leaves_nothing_reserved_and_a_key_that_may_run() {
    bounded(Box::pin(async {
        let bench = Bench::start().await;
        let file = |name: &str, text: &str, mode: u32| {
            let path = bench.path(name);
            std::fs::write(&path, text).unwrap();
            let mode = std::os::unix::fs::PermissionsExt::from_mode(mode);
            std::fs::set_permissions(&path, mode).unwrap();
            path.to_str().unwrap().to_owned()
        };
        let plain = file("plain", "", 0o644);
        for (name, code) in [("no-such-command", 127), ("/no/such", 127), (&*plain, 126)] {
            let said = bench
                .fencepost(&["exec", "job", "nightly", "--once", "k", "--", name])
                .await;
            assert_eq!(said.exit, code, "{}", said.err);
            assert!(said.err.contains(name), "{}", said.err);
        }
        assert_eq!(
            bench.inspect("nightly").await.revision,
            0,
            "nothing was asked"
        );
        // Only the kernel knows of this one.
        let odd = file("odd", "#!/no/such/interpreter\n", 0o755);
        let said = bench
            .fencepost(&["exec", "job", "nightly", "--once", "k", "--", &odd])
            .await;
        assert_eq!(said.exit, 127, "{}", said.err);
        assert!(!bench.held().await);
        let script = r#"echo ran >> "$LOG""#;
        assert_eq!(bench.run(&["--once", "k"], script).await.exit, 0);
        assert_eq!(bench.log(), "ran\n");
    }))
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_the_command_leaves_behind_ends_before_the_reservation_does() {
    bounded(Box::pin(async {
        let bench = Bench::start().await;
        let script = "sleep 1000 >/dev/null 2>&1 & echo $!";
        let mut exec = bench.begin(&["--grace", "100ms"], script);
        let left_behind = pid_of(&exec.line().await);
        assert_eq!(exec.ended().await.exit, 0);
        assert!(!runs(left_behind));
        // What ends by itself is left alone: here, whoever still writes down what was said.
        let script = r#"(sleep 0.2; echo late >> "$LOG") >/dev/null 2>&1 & exit 0"#;
        assert_eq!(bench.run(&[], script).await.exit, 0);
        assert_eq!(bench.log(), "late\n");
    }))
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_be_meant_is_refused_before_anything_is_asked() {
    bounded(Box::pin(async {
        let bench = Bench::start().await;
        let cases: [(&[&str], &str); 4] = [
            (&["exec", "job", "1"], "CMD"),
            (
                &["exec", "job", "1", "--grace", "11s", "--", "true"],
                "third",
            ),
            (
                &["exec", "job", "1", "--done-code", "0", "--", "true"],
                "--once",
            ),
            (
                &["exec", "job", "1", "--on-failure", "rerun", "--", "true"],
                "--once",
            ),
        ];
        for (words, hint) in cases {
            let said = bench.fencepost(words).await;
            assert_eq!(said.exit, 2, "{words:?}: {}", said.err);
            assert!(said.err.contains(hint), "{words:?}: {}", said.err);
        }
        // The sidecar knows its own limits.
        let said = bench
            .fencepost(&["exec", "job", "1", "--ttl", "2s", "--", "true"])
            .await;
        assert_eq!(said.exit, 65, "{}", said.err);
    }))
    .await;
}

/// A command line in a terminal of its own, and what is typed there.
fn in_a_terminal(bench: &Bench, line: &str) -> Exec {
    Exec::start(bench.command("script", &["-qefc", line, "/dev/null"]))
}

async fn there(path: PathBuf) {
    let what = path.display().to_string();
    until(&what, SOON, || async { path.exists().then_some(()) }).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_command_reads_from_the_terminal_and_what_stops_it_there_reaches_it_once() {
    bounded(Box::pin(async {
        let bench = Bench::start().await;
        let script = r#"trap "echo INT >> $LOG" INT; touch $DIR/up; read x < /dev/tty; echo "read $x" >> $LOG
            touch $DIR/read; while [ ! -s $LOG.stop ]; do sleep 0.02; done; exit 6"#;
        let file = bench.path("script");
        std::fs::write(&file, script).unwrap();
        let line = format!(
            r#"sh -c '$BIN exec job nightly -- sh {}; echo "code $?" >> $LOG; read y < /dev/tty; echo "then $y" >> $LOG'"#,
            file.display()
        );
        let mut terminal = in_a_terminal(&bench, &line);
        let mut keys = terminal.input.take().unwrap();
        there(bench.path("up")).await;
        keys.write_all(b"typed\n").unwrap();
        there(bench.path("read")).await;
        // Ctrl-C.
        keys.write_all(b"\x03").unwrap();
        until("INT", SOON, || async {
            bench.log().contains("INT").then_some(())
        })
        .await;
        std::fs::write(bench.path("log.stop"), "x").unwrap();
        until("the end", SOON, || async {
            bench.log().contains("code").then_some(())
        })
        .await;
        // Whoever comes after it may read, too.
        keys.write_all(b"more\n").unwrap();
        until("the next to read", SOON, || async {
            bench.log().contains("then").then_some(())
        })
        .await;
        assert_eq!(bench.log(), "read typed\nINT\ncode 6\nthen more\n");
    }))
    .await;
}

/// Whether a process is stopped, as a shell's `jobs` would tell.
async fn is_stopped(pid: Pid) {
    let stat = format!("/proc/{}/stat", pid.as_raw_nonzero());
    until("it is stopped", SOON, || async {
        let stat = std::fs::read_to_string(&stat).ok()?;
        stat.rsplit_once(')')?
            .1
            .trim()
            .starts_with('T')
            .then_some(())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_is_stopped_and_goes_on_as_one_also_when_it_reads_from_the_terminal() {
    bounded(Box::pin(async {
        for reads in ["", "read x < /dev/tty;"] {
            let bench = Bench::start().await;
            // Nothing is forked while it waits: a shell whose child is stopped before it has become a command cannot be stopped itself.
            let script = format!(
                "mkfifo $DIR/stop; exec 3<> $DIR/stop; echo $PPID $$ > $DIR/pids.part; mv $DIR/pids.part $DIR/pids; {reads}
                : > $DIR/read; read y <&3; echo $(cut -d' ' -f5,8 /proc/$$/stat) > $DIR/front; echo end >> $LOG"
            );
            let file = bench.path("script");
            std::fs::write(&file, script).unwrap();
            let shell = "bash --norc --noprofile --noediting -i";
            let mut terminal = in_a_terminal(&bench, shell);
            let mut keys = terminal.input.take().unwrap();
            let line = format!("$BIN exec job nightly -- sh {}\n", file.display());
            keys.write_all(line.as_bytes()).unwrap();
            there(bench.path("pids")).await;
            let pids = std::fs::read_to_string(bench.path("pids")).unwrap();
            let (exec, command) = pids.split_once(' ').unwrap();
            if !reads.is_empty() {
                keys.write_all(b"typed\n").unwrap();
            }
            there(bench.path("read")).await;
            // Ctrl-Z.
            keys.write_all(b"\x1a").unwrap();
            is_stopped(pid_of(command)).await;
            is_stopped(pid_of(exec)).await;
            assert!(bench.held().await, "the sidecar holds it meanwhile");
            // The shell has the terminal again; what it is told is not read by the command.
            keys.write_all(b"echo shell >> $LOG\n").unwrap();
            until("the shell", SOON, || async { (bench.log() == "shell\n").then_some(()) }).await;
            std::fs::write(bench.path("stop"), "\n").unwrap();
            keys.write_all(b"fg\n").unwrap();
            keys.write_all(b"echo code $? >> $LOG\n").unwrap();
            let all = "shell\nend\ncode 0\n";
            until(all, SOON, || async { (bench.log() == all).then_some(()) }).await;
            // Who had the terminal has it again, without having to ask for it: what is typed reaches it alone.
            let front = std::fs::read_to_string(bench.path("front")).unwrap();
            let (group, foreground) = front.trim().split_once(' ').unwrap();
            assert_eq!(group == foreground, !reads.is_empty(), "{front}");
            keys.write_all(b"exit\n").unwrap();
        }
    }))
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn who_does_not_want_to_wait_until_a_result_is_stored_is_told_that_it_is_not_known() {
    bounded(Box::pin(async {
        let mut bench = Bench::start().await;
        let proxy = Proxy::to(bench.address.parse().unwrap());
        bench.address = proxy.url().replace("http://", "");
        let script = r#"echo up; cat; echo ran >> "$LOG""#;
        let mut exec = bench.begin(&["--ttl", "1h", "--once", "k"], script);
        assert_eq!(exec.line().await, "up");
        proxy.cut();
        drop(exec.input.take());
        until("its end", SOON, || async {
            (bench.log() == "ran\n").then_some(())
        })
        .await;
        // Before that, the signal is the command's.
        exec.children_are_gone().await;
        exec.signal(Signal::TERM);
        let said = exec.ended().await;
        assert_eq!(said.exit, 75, "{}", said.err);
        assert!(said.err.contains("ended with 0"), "{}", said.err);
        let hint = "fencepost resolve job nightly k";
        assert!(said.err.contains(hint), "{}", said.err);
    }))
    .await;
}
