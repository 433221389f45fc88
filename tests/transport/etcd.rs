//! The start against an etcd that is not there, or not yet.

use std::io::{BufRead, BufReader};
use std::net::TcpListener;
use std::process::{Child, ChildStderr, ChildStdout, Stdio};

use fencepost::proto::v1 as pb;
use fencepost::proto::v1::coordination_service_client::CoordinationServiceClient;
use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;
use tonic::Code;
use tonic::transport::Channel;
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_check_response::ServingStatus;
use tonic_health::pb::health_client::HealthClient;
use tonic_types::StatusExt as _;

use crate::sidecar::{fencepost, output, wait};

/// A `fencepost serve` that is not ready yet.
struct Waiting {
    child: Child,
    out: BufReader<ChildStdout>,
    // Kept open: a log that nobody reads would end in a broken pipe.
    _log: BufReader<ChildStderr>,
    address: String,
    _runtime_dir: TempDir,
}

impl Waiting {
    fn on(etcd: &TcpListener) -> Self {
        let runtime_dir = tempfile::tempdir().unwrap();
        let url = format!("http://{}", etcd.local_addr().unwrap());
        let mut child = fencepost(runtime_dir.path())
            .args(["serve", "--listen", "127.0.0.1:0", "--etcd-endpoints", &url])
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut log = BufReader::new(child.stderr.take().unwrap());
        let mut line = String::new();
        while !line.contains("listening") {
            line.clear();
            assert_ne!(log.read_line(&mut line).unwrap(), 0, "the log ended");
        }
        let (_, address) = line.trim_end().split_once("address=").unwrap();
        Self {
            out: BufReader::new(child.stdout.take().unwrap()),
            child,
            _log: log,
            address: address.to_owned(),
            _runtime_dir: runtime_dir,
        }
    }

    fn terminate(&mut self) -> Option<i32> {
        kill_process(Pid::from_child(&self.child), Signal::TERM).unwrap();
        wait(&mut self.child).code()
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A port on which connections are taken by the operating system and never answered.
fn silent_etcd() -> TcpListener {
    TcpListener::bind("127.0.0.1:0").unwrap()
}

async fn health(channel: &Channel) -> ServingStatus {
    let mut client = HealthClient::new(channel.clone());
    let answer = client.check(HealthCheckRequest::default()).await.unwrap();
    answer.into_inner().status()
}

#[test]
fn an_etcd_that_never_answers_ends_the_start_with_its_address() {
    let etcd = silent_etcd();
    let address = etcd.local_addr().unwrap().to_string();
    let refused_in_words = || {
        let arguments = ["serve", "--listen", "127.0.0.1:0", "--etcd-wait", "1s"];
        let url = format!("http://{address}");
        let (code, told) = output(&arguments, &[("FENCEPOST_ETCD_ENDPOINTS", &url)]);
        assert_eq!(code, Some(1), "{told}");
        assert!(told.contains("did not answer within 1s"), "{told}");
        assert!(
            told.contains(&address) && told.contains("--etcd-endpoints"),
            "{told}"
        );
    };
    // Somebody is there and does not answer.
    refused_in_words();
    // Nobody is there.
    drop(etcd);
    refused_in_words();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn until_etcd_answers_health_says_so_and_calls_are_told_to_ask_again() {
    let etcd = silent_etcd();
    let mut sidecar = Waiting::on(&etcd);
    let url = format!("http://{}", sidecar.address);
    let channel = Channel::from_shared(url).unwrap().connect().await.unwrap();
    assert_eq!(health(&channel).await, ServingStatus::NotServing);
    let mut client = CoordinationServiceClient::new(channel.clone());
    let request = pb::InspectRequest {
        resource: Some(pb::Resource {
            kind: "order".into(),
            id: "1".into(),
        }),
        ..Default::default()
    };
    let status = client.inspect(request).await.unwrap_err();
    assert_eq!(status.code(), Code::Unavailable, "{status:?}");
    let details = status.get_error_details();
    assert_eq!(details.error_info().unwrap().reason, "STORE_UNAVAILABLE");
    assert!(details.retry_info().is_some());

    // Now somebody answers on that very port.
    etcd.set_nonblocking(true).unwrap();
    let etcd = tokio::net::TcpListener::from_std(etcd).unwrap();
    let engine = fencepost::embedded::Engine::new();
    let serving = tonic::transport::Server::builder()
        .add_routes(engine.routes())
        .serve_with_incoming(tokio_stream::wrappers::TcpListenerStream::new(etcd));
    let serving = tokio::spawn(serving);
    let (line, mut sidecar) = tokio::task::spawn_blocking(move || {
        let mut line = String::new();
        sidecar.out.read_line(&mut line).unwrap();
        (line, sidecar)
    })
    .await
    .unwrap();
    assert_eq!(line.trim_end(), format!("ready on {}", sidecar.address));
    assert_eq!(health(&channel).await, ServingStatus::Serving);
    let code = tokio::task::spawn_blocking(move || sidecar.terminate());
    assert_eq!(code.await.unwrap(), Some(0));
    serving.abort();
}

#[test]
fn a_start_that_waits_for_etcd_can_be_stopped() {
    let etcd = silent_etcd();
    let mut sidecar = Waiting::on(&etcd);
    assert_eq!(sidecar.terminate(), Some(0));
}
