//! The demo believes its own ledger: against an honest sidecar it succeeds, and one broken layer makes it fail.
#![allow(
    clippy::as_conversions,
    clippy::unwrap_used,
    clippy::wildcard_enum_match_arm,
    missing_docs
)]

mod liar;
#[allow(
    unused_imports,
    unused_macros,
    reason = "the demo runs on no engine of the test's own"
)]
#[path = "support/mod.rs"]
mod support;

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::process::Output;

use fencepost::server::start_dev;
use liar::{LAX_ORDER, Lie};
use support::process::Process;

const SCENES: [u8; 9] = [1, 2, 3, 4, 5, 6, 7, 8, 9];
const ORDER: &str = include_str!("../machines/order.yaml");
/// What the demo says when it plays without machines.
const WITHOUT: &str = "Played WITHOUT machines";

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
            .env_remove("FENCEPOST_DEMO_ADMIN_SOCKET")
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

/// Plays the demo through a proxy that tells one lie, and checks which scenes come out wrong: without machines, and under them.
async fn against(lie: Lie, without: &[u8], under: &[u8]) {
    let loopback: SocketAddr = "127.0.0.1:0".parse().unwrap();
    let honest = start_dev(loopback).await.unwrap();
    let proxy = liar::start(honest.addr(), lie).await;
    let shown = demo(&["--addr", &proxy.to_string(), "--admin-socket", "none"]).await;
    honest.stop().await;
    assert!(shown.text.contains(WITHOUT), "{}", shown.text);
    fails(lie, &shown, without);

    let honest = Process::dev(&[]).await;
    if lie == Lie::EveryStateMayMove {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("lax.yaml");
        std::fs::write(&file, lax_order()).unwrap();
        apply(&honest, &file).await;
    }
    let proxy = liar::start(honest.address().parse().unwrap(), lie).await;
    let shown = demo_under(&honest, &proxy.to_string()).await;
    assert!(!shown.text.contains(WITHOUT), "{}", shown.text);
    fails(lie, &shown, under);
}

#[track_caller]
fn fails(lie: Lie, shown: &Shown, wrong: &[u8]) {
    let wrong: BTreeSet<u8> = wrong.iter().copied().collect();
    assert_eq!(shown.failed, wrong, "{lie:?}:\n{}", shown.text);
    assert_eq!(shown.exit, i32::from(!wrong.is_empty()), "{lie:?}");
}

async fn demo_under(sidecar: &Process, address: &str) -> Shown {
    let socket = sidecar.admin_socket().display().to_string();
    demo(&["--addr", address, "--admin-socket", &socket]).await
}

/// The example, but for that a payment counts in every state.
fn lax_order() -> String {
    ORDER
        .replace("kind: order", &format!("kind: {LAX_ORDER}"))
        .replace("{ final: true }", "{}")
        .replace(
            "pay:\n    from: [pending_payment]",
            "pay:\n    from: [pending_payment, paid, shipped, delivered, cancelled]",
        )
}

/// Applies machine files as an operator does; they must be taken.
async fn apply(sidecar: &Process, file: &std::path::Path) {
    let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_fencepost"));
    command.args(["machine", "apply"]).arg(file);
    command.arg("--admin-socket").arg(sidecar.admin_socket());
    let output = tokio::task::spawn_blocking(move || command.output().unwrap());
    let output = output.await.unwrap();
    assert!(output.status.success(), "{output:?}");
}

/// The kinds that have a machine in force.
async fn kinds_in_force(sidecar: &Process) -> BTreeSet<String> {
    let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_fencepost"));
    command.args(["machine", "list", "--admin-socket"]);
    command.arg(sidecar.admin_socket());
    let output = tokio::task::spawn_blocking(move || command.output().unwrap());
    let said = String::from_utf8(output.await.unwrap().stdout).unwrap();
    let kind = |line: &str| line.split(' ').next().unwrap().to_owned();
    said.lines().map(kind).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_demo_succeeds_on_a_sidecar_of_its_own_under_the_example_machines() {
    let shown = demo(&[]).await;
    assert!(shown.failed.is_empty(), "{}", shown.text);
    assert_eq!(shown.exit, 0);
    assert!(!shown.text.contains(WITHOUT), "{}", shown.text);
    assert!(shown.text.contains("machines/order.yaml"));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_demo_can_be_repeated_on_a_sidecar_that_remembers_and_takes_only_kinds_of_its_own() {
    let honest = Process::dev(&[]).await;
    for _ in 0..2 {
        let shown = demo_under(&honest, honest.address()).await;
        assert_eq!(shown.exit, 0, "{}", shown.text);
        assert!(!shown.text.contains(WITHOUT), "{}", shown.text);
    }
    let kinds = ["demo-order", "demo-seat"].map(str::to_owned);
    assert_eq!(kinds_in_force(&honest).await, kinds.into());
    // Nor is it in the way of a machine that it finds, or finds out that it cannot apply.
    let shown = demo(&["--addr", honest.address(), "--admin-socket", "none"]).await;
    assert_eq!(shown.exit, 0, "{}", shown.text);
    assert!(shown.text.contains(WITHOUT), "{}", shown.text);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_keeps_machines_from_being_applied_is_said_and_the_demo_is_played_without() {
    let honest = Process::dev(&[]).await;
    let other = Process::dev(&[]).await;
    let elsewhere = other.admin_socket().display().to_string();
    let shown = demo(&["--addr", honest.address(), "--admin-socket", &elsewhere]).await;
    assert_eq!(shown.exit, 0, "{}", shown.text);
    let why = "this sidecar does not know them";
    assert!(
        shown.text.contains(WITHOUT) && shown.text.contains(why),
        "{}",
        shown.text
    );

    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("other.yaml");
    let changed = ORDER.replace("kind: order", "kind: demo-order");
    std::fs::write(&file, changed.replace("retention: 96h", "retention: 97h")).unwrap();
    apply(&honest, &file).await;
    let shown = demo_under(&honest, honest.address()).await;
    assert_eq!(shown.exit, 0, "{}", shown.text);
    let why = "demo-order was refused";
    assert!(
        shown.text.contains(WITHOUT) && shown.text.contains(why),
        "{}",
        shown.text
    );

    let nobody = directory.path().join("nobody.sock").display().to_string();
    let shown = demo(&["--addr", honest.address(), "--admin-socket", &nobody]).await;
    assert_eq!(shown.exit, 0, "{}", shown.text);
    let why = "nobody answers at the admin socket";
    assert!(
        shown.text.contains(WITHOUT) && shown.text.contains(why),
        "{}",
        shown.text
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_proxy_that_tells_the_truth_changes_nothing() {
    against(Lie::None, &[], &[]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn printed_verdicts_and_reasons_are_not_what_is_judged() {
    against(Lie::EveryVerdictIsGranted, &[], &[]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn without_the_key_layer_copies_run_again() {
    against(Lie::EveryDeliveryIsNew, &[1, 2, 7, 8, 9], &[1, 2, 7, 8, 9]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn without_the_digest_layer_a_changed_amount_passes() {
    against(Lie::EveryContentIsEqual, &[7], &[7]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn without_the_replay_layer_the_first_result_is_missed() {
    against(
        Lie::NoResultComesBack,
        &[2, 3, 4, 6, 7, 8],
        &[2, 3, 4, 6, 7, 8],
    )
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn without_replay_in_lookup_empty_work_runs_again() {
    against(Lie::NothingWasEverSeen, &[8, 9], &[8, 9]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn without_the_round_a_late_worker_moves_the_parcel() {
    against(Lie::NobodyNamesARound, &[2, 5, 8, 9], &[2, 5, 8, 9]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn without_the_fence_a_late_worker_swings_its_arm() {
    against(Lie::EveryTokenIsGood, &[5], &[5]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn with_equal_tokens_the_store_cannot_tell_workers_apart() {
    against(Lie::EveryTokenIsOne, &[5], &[5]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn without_the_identity_layer_an_old_attempt_counts() {
    against(Lie::NobodyNamesAnAttempt, &[4, 6], &[4, 6]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn without_the_state_layer_orders_step_back() {
    against(Lie::EveryStateMayMove, &[1, 3], &[1, 3]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn without_incidents_nobody_is_called() {
    against(Lie::NobodyIsCalled, &[1, 7, 8], &[1, 4, 7, 8]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn without_intents_in_reserve_work_is_done_again_after_a_death() {
    against(Lie::NobodySaysWhatTheyReserveFor, &[2, 8], &[2, 8]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn when_everything_is_acknowledged_every_refusal_is_missed() {
    against(Lie::EverythingIsSettled, &[1, 5, 7, 8], &[5, 8]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn under_a_machine_a_sender_that_keeps_retrying_must_not_be_refused() {
    against(Lie::EverySenderListens, &[], &[1, 7]).await;
}
