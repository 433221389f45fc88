//! The demo believes its own ledger: against an honest sidecar it succeeds, and one broken layer makes it fail.
#![allow(
    clippy::as_conversions,
    clippy::unwrap_used,
    clippy::wildcard_enum_match_arm,
    missing_docs
)]

mod liar;

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::process::Output;

use fencepost::server::start_dev;
use liar::Lie;

const SCENES: [u8; 8] = [1, 2, 3, 5, 6, 7, 8, 9];

/// What a run of the demo said.
struct Shown {
    exit: i32,
    failed: BTreeSet<u8>,
    text: String,
}

async fn demo(words: &[&str]) -> Shown {
    let words: Vec<String> = words.iter().map(|&word| word.to_owned()).collect();
    let run = move || {
        std::process::Command::new(env!("CARGO_BIN_EXE_fencepost"))
            .arg("demo")
            .args(words)
            .env_remove("FENCEPOST_DEMO_ADDR")
            .output()
            .unwrap()
    };
    let Output {
        status,
        stdout,
        stderr,
    } = tokio::task::spawn_blocking(run).await.unwrap();
    let text = format!(
        "{}{}",
        String::from_utf8_lossy(&stdout),
        String::from_utf8_lossy(&stderr)
    );
    let rows: Vec<(u8, bool)> = text
        .lines()
        .filter_map(|line| {
            let cells: Vec<&str> = line.split('|').map(str::trim).collect();
            let number = cells.first()?.parse().ok()?;
            Some((number, *cells.last()? == "ok"))
        })
        .collect();
    let numbers: Vec<u8> = rows.iter().map(|(number, _)| *number).collect();
    assert_eq!(numbers, SCENES, "the table must name every scene:\n{text}");
    let failed = rows
        .into_iter()
        .filter_map(|(number, ok)| (!ok).then_some(number))
        .collect();
    Shown {
        exit: status.code().unwrap(),
        failed,
        text,
    }
}

/// Plays the demo through a proxy that tells one lie, and checks which scenes come out wrong.
async fn against(lie: Lie, wrong: &[u8]) {
    let loopback: SocketAddr = "127.0.0.1:0".parse().unwrap();
    let honest = start_dev(loopback).await.unwrap();
    let proxy = liar::start(honest.addr(), lie).await;
    let shown = demo(&["--addr", &proxy.to_string()]).await;
    honest.stop().await;
    let wrong: BTreeSet<u8> = wrong.iter().copied().collect();
    assert_eq!(shown.failed, wrong, "{lie:?}:\n{}", shown.text);
    assert_eq!(shown.exit, i32::from(!wrong.is_empty()), "{lie:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_demo_succeeds_on_a_sidecar_of_its_own() {
    let shown = demo(&[]).await;
    assert!(shown.failed.is_empty(), "{}", shown.text);
    assert_eq!(shown.exit, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_demo_can_be_repeated_on_a_sidecar_that_remembers() {
    let loopback: SocketAddr = "127.0.0.1:0".parse().unwrap();
    let honest = start_dev(loopback).await.unwrap();
    for _ in 0..2 {
        let shown = demo(&["--addr", &honest.addr().to_string()]).await;
        assert_eq!(shown.exit, 0, "{}", shown.text);
    }
    honest.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_proxy_that_tells_the_truth_changes_nothing() {
    against(Lie::None, &[]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn printed_verdicts_and_reasons_are_not_what_is_judged() {
    against(Lie::EveryVerdictIsGranted, &[]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn without_the_key_layer_copies_run_again() {
    against(Lie::EveryDeliveryIsNew, &[1, 2, 7, 8, 9]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn without_the_digest_layer_a_changed_amount_passes() {
    against(Lie::EveryContentIsEqual, &[7]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn without_the_replay_layer_the_first_result_is_missed() {
    against(Lie::NoResultComesBack, &[2, 3, 6, 7, 8]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn without_replay_in_lookup_empty_work_runs_again() {
    against(Lie::NothingWasEverSeen, &[8, 9]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn without_the_round_a_late_worker_moves_the_parcel() {
    against(Lie::NobodyNamesARound, &[2, 5, 8, 9]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn without_the_fence_a_late_worker_swings_its_arm() {
    against(Lie::EveryTokenIsGood, &[5]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn with_equal_tokens_the_store_cannot_tell_workers_apart() {
    against(Lie::EveryTokenIsOne, &[5]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn without_the_identity_layer_an_old_attempt_counts() {
    against(Lie::NobodyNamesAnAttempt, &[6]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn without_the_state_layer_orders_step_back() {
    against(Lie::EveryStateMayMove, &[1, 3]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn without_incidents_nobody_is_called() {
    against(Lie::NobodyIsCalled, &[1, 7, 8]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn without_intents_in_reserve_work_is_done_again_after_a_death() {
    against(Lie::NobodySaysWhatTheyReserveFor, &[2, 8]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn when_everything_is_acknowledged_every_refusal_is_missed() {
    against(Lie::EverythingIsSettled, &[1, 5, 7, 8]).await;
}
