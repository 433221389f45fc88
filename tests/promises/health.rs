//! Health knows etcd, and whether anything is halted; a person ends a halt at the command line.

use std::sync::Arc;
use std::time::Duration;

use fencepost::engine::HEALTH_BOUND;
use serde_json::{Value, json};
use tonic::transport::{Channel, Endpoint};
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_check_response::ServingStatus;
use tonic_health::pb::health_client::HealthClient;

use crate::support::child::Child;
use crate::support::door::Door;
use crate::support::etcd::Etcd;
use crate::support::process::Process;
use crate::support::{bounded, until};

/// How long a sidecar may take to find out that all is well again.
const BACK_WITHIN: Duration = Duration::from_secs(20);
/// What a machine that is busy with other tests may take on top.
const SLACK: Duration = Duration::from_secs(10);
const SERVICE: &str = "fencepost.v1.CoordinationService";

fn channel(sidecar: &Process) -> Channel {
    let endpoint = Endpoint::from_shared(format!("http://{}", sidecar.address()));
    endpoint.unwrap().connect_lazy()
}

/// Waits until health says so, of the sidecar as a whole and of its service.
async fn says(sidecar: &Process, status: ServingStatus, limit: Duration) {
    let mut client = HealthClient::new(channel(sidecar));
    for service in ["", SERVICE] {
        loop_until(&mut client, service, status, limit).await;
    }
}

async fn loop_until(
    client: &mut HealthClient<Channel>,
    service: &str,
    status: ServingStatus,
    limit: Duration,
) {
    until(status.as_str_name(), limit, || {
        let mut client = client.clone();
        let request = HealthCheckRequest {
            service: service.to_owned(),
        };
        async move {
            let said = client.check(request).await.unwrap().into_inner().status();
            (said == status).then_some(())
        }
    })
    .await;
}

/// Runs `fencepost admin` against a sidecar's admin socket.
async fn admin(sidecar: &Process, words: &[&str]) -> (i32, String) {
    let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_fencepost"));
    command.arg("admin").args(words);
    command.arg("--admin-socket").arg(sidecar.admin_socket());
    command.env("USER", "ann");
    let run = tokio::task::spawn_blocking(move || command.output().unwrap());
    let said = run.await.unwrap();
    let text = [said.stdout, said.stderr].concat();
    let text = String::from_utf8(text).unwrap();
    (said.status.code().unwrap(), text)
}

fn reserve() -> Value {
    json!({
        "resource": {"kind": "seat", "id": "1"},
        "requestId": uuid::Uuid::new_v4().to_string(),
        "ttl": "3600s",
    })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn health_says_when_etcd_is_gone_and_when_it_is_back() {
    Box::pin(bounded(async {
        let etcd = Etcd::start().await;
        let sidecar = Process::serve(etcd.url(), "/t/", &[]).await;
        says(&sidecar, ServingStatus::Serving, SLACK).await;
        // Nobody asks the sidecar anything: it finds out by itself.
        etcd.child().kill().await;
        says(&sidecar, ServingStatus::NotServing, HEALTH_BOUND + SLACK).await;
        let _etcd = etcd.restart().await;
        says(&sidecar, ServingStatus::Serving, BACK_WITHIN).await;
        let answer = Door::json(&sidecar).ask("Reserve", &reserve()).await;
        assert_eq!(answer["decision"]["verdict"], "VERDICT_GRANTED");
    }))
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_halt_is_told_by_health_calls_and_commands_and_ends_at_the_command_line() {
    Box::pin(bounded(async {
        let files = tempfile::tempdir().unwrap();
        let backup = files.path().join("backup");
        let etcd = Arc::new(Etcd::start().await);
        let sidecar = Process::serve(etcd.url(), "/t/", &[]).await;
        let door = Door::grpc(&sidecar);
        let watch = Child::start(
            std::path::Path::new(env!("CARGO_BIN_EXE_fencepost")),
            &["watch", "seat", "1", "--addr", sidecar.address()].map(str::to_owned),
            &[],
            &files.path().join("watch"),
            None,
        );
        let timelines = || watch.logs().matches("timeline  ").count();
        until("it watches", BACK_WITHIN, || async {
            (timelines() == 1).then_some(())
        })
        .await;
        etcd.back_up(&backup);
        let lost = door.ask("Reserve", &reserve()).await;
        let lost = token(&lost);
        let etcd = Arc::into_inner(etcd).unwrap();
        let _etcd = etcd.restore(&backup, None).await;
        until("it halts", BACK_WITHIN, || async {
            let (code, said) = admin(&sidecar, &["timeline"]).await;
            (code == 10 && said.contains("went back")).then_some(())
        })
        .await;
        says(&sidecar, ServingStatus::NotServing, BACK_WITHIN).await;
        for door in [&door, &Door::json(&sidecar)] {
            let refusal = door.refused("Reserve", &reserve()).await;
            let told = (refusal.code.as_str(), refusal.reason.as_str());
            assert_eq!(told, ("unavailable", "HALTED"));
            assert!(refusal.retry && refusal.message.contains("start-timeline"));
        }
        until("who watches is told", BACK_WITHIN, || async {
            watch.logs().contains("goes on by itself").then_some(())
        })
        .await;
        let watched = timelines();

        let (code, said) = admin(&sidecar, &["start-timeline", "--reason", "noon's backup"]).await;
        assert_eq!(code, 0, "{said}");
        says(&sidecar, ServingStatus::Serving, BACK_WITHIN).await;
        let granted = door.ask("Reserve", &reserve()).await;
        assert!(token(&granted) > lost, "{granted}");
        until("the watch goes on", BACK_WITHIN, || async {
            (timelines() > watched).then_some(())
        })
        .await;
        let told = watch.logs();
        assert_eq!(told.matches("goes on by itself").count(), 1, "{told}");
        assert!(told.contains("a new timeline was started"), "{told}");
        let (code, said) = admin(&sidecar, &["timeline"]).await;
        assert_eq!(code, 0, "{said}");
        assert!(
            said.contains("by ann: noon's backup") && said.contains("went back"),
            "{said}"
        );
        let logs = sidecar.logs();
        assert!(logs.contains("fencepost admin start-timeline"), "{logs}");
    }))
    .await;
}

fn token(answer: &Value) -> u64 {
    let token = answer["reservation"]["token"].as_str();
    token.unwrap_or_else(|| panic!("{answer}")).parse().unwrap()
}
