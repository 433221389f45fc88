//! `hold` and `watch`, when the sidecar is stopped, killed or silent: what happened, what it means, what to do.

use std::time::Duration;

use fencepost::engine::Boottime;

use crate::bench::{Bench, Exec, SOON, Said};
use crate::support::process::Process;
use crate::support::{bounded, until};

fn start(bench: &Bench, words: &[&str]) -> Exec {
    Exec::start(bench.command(env!("CARGO_BIN_EXE_fencepost"), words))
}

/// A reservation of this id, as `reserve` names it.
async fn reserve(bench: &Bench, id: &str, ttl: &str) -> String {
    let said = bench.fencepost(&["reserve", "job", id, "--ttl", ttl]).await;
    assert_eq!(said.exit, 0, "{}", said.err);
    let line = said
        .out
        .lines()
        .find(|line| line.starts_with("reservation"));
    line.unwrap().split_whitespace().last().unwrap().to_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn whoever_holds_or_watches_is_told_what_the_end_of_a_sidecar_means() {
    bounded(Box::pin(async {
        for killed in [true, false] {
            let sidecar = Process::dev(&[]).await;
            let bench = Bench::at(&sidecar);
            let kept = reserve(&bench, "kept", "1h").await;
            let closed = reserve(&bench, "closed", "1h").await;
            let mut hold = start(&bench, &["hold", &kept]);
            let mut closing = start(&bench, &["hold", &closed, "--release-on-close"]);
            let mut watch = start(&bench, &["watch", "job", "kept", "-o", "json"]);
            for talks in [&mut hold, &mut closing, &mut watch] {
                assert_ne!(talks.line().await, "");
            }
            if killed {
                sidecar.kill().await;
            } else {
                assert_eq!(sidecar.terminate().await, 0);
            }
            let (what, exit) = if killed {
                ("is broken", 75)
            } else {
                ("is being stopped", 69)
            };
            let said: [Said; 3] = [
                hold.ended().await,
                closing.ended().await,
                watch.ended().await,
            ];
            for said in &said {
                assert_eq!(said.exit, exit, "{}", said.err);
                assert!(said.err.contains(what), "{}", said.err);
            }
            let [hold, closing, watch] = said.map(|said| said.err);
            assert!(
                hold.contains(&format!(
                    "{kept} is not renewed any more; it is safe for 59m"
                )),
                "{hold}"
            );
            assert!(hold.contains("fencepost hold RESERVATION_ID"), "{hold}");
            assert!(
                closing.contains(&format!("{closed} is released by the sidecar")),
                "{closing}"
            );
            assert!(
                watch.contains("fencepost watch job kept --after-revision "),
                "{watch}"
            );
            assert!(watch.contains(" --timeline-id "), "{watch}");
        }
    }))
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn whoever_holds_takes_silence_past_its_time_as_the_loss_that_it_is() {
    bounded(Box::pin(async {
        let sidecar = Process::dev(&[]).await;
        let bench = Bench::at(&sidecar);
        let id = reserve(&bench, "kept", "3s").await;
        let mut hold = start(&bench, &["hold", &id]);
        assert_eq!(hold.line().await, "news         renewed");
        sidecar.pause();
        let silent = Boottime::now();
        let said = hold.ended().await;
        assert_eq!(said.exit, 12, "{}", said.err);
        assert!(said.err.contains(&format!("{id} is lost")), "{}", said.err);
        // As long as it may have been renewed, and about a second to notice.
        assert!(Boottime::now().since(silent) < Duration::from_secs(6));
    }))
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn how_long_a_held_reservation_is_safe_is_told_from_now_on_and_does_not_grow() {
    bounded(Box::pin(async {
        let sidecar = Process::dev(&[]).await;
        let bench = Bench::at(&sidecar);
        let id = reserve(&bench, "kept", "3s").await;
        let mut hold = start(&bench, &["hold", &id, "--verbose"]);
        let mut safe = Vec::new();
        while safe.len() < 5 {
            let line = hold.line().await;
            if let Some(told) = line.strip_prefix("safe for") {
                safe.push(told.trim().to_owned());
            }
        }
        for told in &safe {
            let seconds = told
                .split_whitespace()
                .find_map(|part| part.strip_suffix('s'));
            let seconds = seconds.and_then(|seconds| seconds.parse::<u64>().ok());
            assert!(seconds.is_none_or(|seconds| seconds < 3), "{safe:?}");
            assert!(told.contains("counted from when this is printed"), "{told}");
        }
    }))
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn renewals_that_are_as_usual_are_told_once_unless_all_is_asked_for() {
    bounded(Box::pin(async {
        let sidecar = Process::dev(&[]).await;
        let bench = Bench::at(&sidecar);
        let id = reserve(&bench, "kept", "3s").await;
        let calm = start(&bench, &["hold", &id]);
        let programs = start(&bench, &["hold", &id, "-o", "json"]);
        let mut all = start(&bench, &["hold", &id, "--verbose"]);
        let mut news = 0;
        while news < 4 {
            news += usize::from(all.line().await.starts_with("news"));
        }
        assert_eq!(bench.fencepost(&["release", &id]).await.exit, 0);
        let [calm, programs] = [calm.ended().await, programs.ended().await];
        let told: Vec<&str> = calm
            .out
            .lines()
            .filter(|line| line.starts_with("news"))
            .collect();
        assert_eq!(told.len(), 2, "{}", calm.out);
        assert!(told[0].ends_with("renewed"), "{}", calm.out);
        assert!(told[1].ends_with("lost"), "{}", calm.out);
        assert!(calm.out.contains("--verbose tells"), "{}", calm.out);
        let renewed = programs.out.matches(r#""renewed":"#).count();
        assert!(renewed > 1, "{}", programs.out);
    }))
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_new_timeline_ends_what_is_held_and_says_so_and_a_watch_goes_on_in_it() {
    bounded(Box::pin(async {
        let sidecar = Process::dev(&[]).await;
        let bench = Bench::at(&sidecar);
        let id = reserve(&bench, "kept", "1h").await;
        let told = bench.path("told");
        let words = ["watch", "job", "kept", "-o", "json"];
        let mut watch = bench.command(env!("CARGO_BIN_EXE_fencepost"), &words);
        watch.stderr(std::fs::File::create(&told).unwrap());
        let mut watch = Exec::start(watch);
        let read = |line: String| serde_json::from_str::<serde_json::Value>(&line).unwrap();
        let first = read(watch.line().await);
        let mut hold = start(&bench, &["hold", &id]);
        assert_eq!(hold.line().await, "news         renewed");
        let mut exec = bench.begin(&[], "echo up $$; sleep 600");
        exec.up().await;
        let start_timeline = ["admin", "start-timeline", "--reason", "restored"];
        let started = bench.fencepost(&start_timeline).await;
        assert_eq!(started.exit, 0, "{}", started.err);
        // It goes on by itself, and says that it begins anew.
        let anew = loop {
            let line = watch.line().await;
            let state = read(line);
            if state["timelineId"] != first["timelineId"] {
                break state;
            }
        };
        assert_eq!(anew["gap"], true, "{anew}");
        assert!(anew["snapshot"]["liveToken"].is_null(), "{anew}");
        reserve(&bench, "kept", "1h").await;
        let next = read(watch.line().await);
        assert!(!next["snapshot"]["liveToken"].is_null(), "{next}");
        assert!(next["gap"].is_null(), "{next}");
        let said = std::fs::read_to_string(&told).unwrap();
        assert!(said.contains("goes on by itself"), "{said}");
        let anew = said.matches("a new timeline was started").count();
        assert_eq!(anew, 1, "{said}");
        // Nobody's time ran out.
        let hold = hold.ended().await;
        assert_eq!(hold.exit, 12, "{}", hold.err);
        assert!(
            hold.out.contains("granted in an older timeline"),
            "{}",
            hold.out
        );
        let exec = exec.ended().await;
        assert_eq!(exec.exit, 12, "{}", exec.err);
        assert!(
            exec.err
                .contains("lost (the reservation was granted in an older timeline"),
            "{}",
            exec.err
        );
    }))
    .await;
}

/// Whoever started it may have died.
#[tokio::test(flavor = "multi_thread")]
async fn whoever_is_not_read_any_more_ends_and_holds_no_longer() {
    bounded(Box::pin(async {
        let bench = Bench::start().await;
        let id = reserve(&bench, "orphan", "1h").await;
        let mut hold = start(&bench, &["hold", &id, "--release-on-close"]);
        let mut watch = start(&bench, &["watch", "job", "orphan"]);
        for talks in [&mut hold, &mut watch] {
            assert_ne!(talks.line().await, "");
            talks.close();
        }
        for ends in [hold, watch] {
            let said = ends.ended().await;
            assert_eq!(said.exit, 0, "{}", said.err);
        }
        until("it is released", SOON, || async {
            let now = bench.inspect("orphan").await;
            (now.live_token == 0).then_some(())
        })
        .await;
    }))
    .await;
}
