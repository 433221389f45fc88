//! Which etcd it is, is told at the start.

use etcd_client::Client;
use fencepost::store::Version;

use crate::support::backend::connection;
use crate::support::bounded;
use crate::support::etcd::Etcd;
use crate::support::process::Process;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_version_is_in_the_line_that_says_ready_and_defects_are_warned_of() {
    bounded(Box::pin(async {
        let etcd = Etcd::shared().await;
        let raw = Client::from_channel(connection(etcd.url()), None).await;
        let version = raw.unwrap().status().await.unwrap().version().to_owned();
        let sidecar = Process::serve(etcd.url(), "/versions/", &[]).await;
        let logs = sidecar.logs();
        let ready = logs.lines().find(|line| line.contains(" ready ")).unwrap();
        assert!(ready.contains(&format!("etcd=\"{version}\"")), "{logs}");
        let defects = Version::parse(&version).unwrap().defects();
        let warnings = logs.lines().filter(|line| line.contains("upgrade_to="));
        assert_eq!(warnings.count(), defects.len(), "{logs}");
        for defect in defects {
            assert!(logs.contains(defect), "{logs}");
        }
    }))
    .await;
}
