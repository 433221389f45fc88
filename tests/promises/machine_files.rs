//! Sidecars of one store that start with different files of one machine.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use fencepost::proto::v1;
use tempfile::TempDir;
use uuid::Uuid;

use crate::support::etcd::Etcd;
use crate::support::process::Process;
use crate::support::{bounded, until};

const LOWER: &str = "\
kind: door
version: 1
retention: 1h
states: { open: {}, gone: { final: true } }
events:
  build: { creates: open }
  raze: { from: [open], to: gone }
";

/// Another version, under which what is gone can be restored.
fn higher() -> String {
    LOWER
        .replace("version: 1", "version: 2")
        .replace("gone: { final: true }", "gone: {}")
        + "  restore: { from: [gone], to: open }\n"
}

fn directory(file: &str) -> TempDir {
    let directory = tempfile::tempdir().unwrap();
    std::fs::write(directory.path().join("door.yaml"), file).unwrap();
    directory
}

fn path(directory: &TempDir) -> &str {
    directory.path().to_str().unwrap()
}

async fn send(sidecar: &Process, operation: &str, event: &str) -> v1::Decision {
    let request = v1::TransitionRequest {
        resource: Some(v1::Resource {
            kind: "door".to_owned(),
            id: "1".to_owned(),
        }),
        intent: Some(v1::Intent {
            operation_id: operation.to_owned(),
            event: event.to_owned(),
            content: Some(v1::intent::Content::Json("{}".into())),
            ..v1::Intent::default()
        }),
        ..v1::TransitionRequest::default()
    };
    let answer = sidecar.client().transition(request).await.unwrap();
    answer.into_inner().decision.unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lower_file_is_ignored_aloud_and_another_file_of_the_version_in_force_is_refused() {
    bounded(async {
        let etcd = Etcd::shared().await;
        let prefix = format!("/t{}/", Uuid::new_v4().simple());
        let (two, one) = (directory(&higher()), directory(LOWER));
        let newer = Process::serve(etcd.url(), &prefix, &["--machines", path(&two)]).await;
        let older = Process::serve(etcd.url(), &prefix, &["--machines", path(&one)]).await;
        until("it says so", Duration::from_secs(20), || async {
            let log = older.logs();
            log.contains("this machine file is ignored: a higher version is in force")
                .then_some(())
        })
        .await;
        assert!(!newer.logs().contains("is ignored"), "{}", newer.logs());
        // Both judge by the higher one.
        for (sidecar, operation, event) in [
            (&newer, "a", "build"),
            (&older, "b", "raze"),
            (&older, "c", "restore"),
        ] {
            let decision = send(sidecar, operation, event).await;
            assert_eq!(decision.verdict(), v1::Verdict::Applied, "{decision:?}");
        }
        let same = directory(&higher().replace("retention: 1h", "retention: 2h"));
        let started = Command::new(Path::new(env!("CARGO_BIN_EXE_fencepost")))
            .args(["serve", "--listen", "127.0.0.1:0", "--admin-socket", "none"])
            .args(["--etcd-endpoints", etcd.url(), "--etcd-prefix", &prefix])
            .args(["--machines", path(&same)])
            .output()
            .unwrap();
        let said = [started.stdout, started.stderr].concat();
        let said = String::from_utf8_lossy(&said);
        assert!(!started.status.success(), "{said}");
        assert!(said.contains("door.yaml"), "{said}");
        assert!(!said.contains("ready"), "{said}");
        assert_eq!(
            send(&newer, "d", "raze").await.verdict(),
            v1::Verdict::Applied
        );
    })
    .await;
}
