//! TLS in both directions, and files that change under a running sidecar.

use std::time::Duration;

use etcd_client::{Client, Permission};
use fencepost::domain::decision::Snapshot;
use fencepost::domain::ids::ResourceId;
use fencepost::engine::Fault;
use fencepost::proto::v1 as pb;
use fencepost::proto::v1::hold_response::News;
use fencepost::store::{Endpoint, Tls, TlsFiles};

use super::certificates::Authority;
use crate::support::ask::{ask, create, fresh_resource, reserve};
use crate::support::backend::connection;
use crate::support::claim::applied;
use crate::support::etcd::Etcd;
use crate::support::process::Process;
use crate::support::proxy::Proxy;
use crate::support::sidecar::{Sidecar, caller_for};
use crate::support::{bounded, until};

const LOOPBACK: [&str; 1] = ["127.0.0.1"];
/// How long a call to etcd, and the sidecar's next success, may take.
const CALL_TIMEOUT: Duration = Duration::from_secs(2);
const BACK_WITHIN: Duration = Duration::from_secs(30);
const PATIENCE: Duration = Duration::from_secs(4);

async fn etcd(authority: &Authority, names: &[&str]) -> Etcd {
    etcd_with(&authority.etcd_flags(names)).await
}

async fn etcd_with(flags: &[String]) -> Etcd {
    let flags: Vec<&str> = flags.iter().map(String::as_str).collect();
    Etcd::start_with(true, &flags).await
}

/// A reservation is granted, kept alive, and given back: calls, keepalives and watches.
async fn holds(sidecar: &Process) {
    let mut client = sidecar.client();
    let request = pb::ReserveRequest {
        resource: Some(pb::Resource {
            kind: "order".into(),
            id: "1".into(),
        }),
        request_id: uuid::Uuid::new_v4().to_string(),
        ..Default::default()
    };
    let reserved = client.reserve(request).await.unwrap().into_inner();
    let id = reserved.reservation.expect("it is free").reservation_id;
    let request = pb::HoldRequest {
        reservation_ids: vec![id.clone()],
        release_on_close: false,
    };
    let mut stream = client.hold(request).await.unwrap().into_inner();
    let told = stream.message().await.unwrap().expect("news");
    assert!(matches!(told.news, Some(News::Renewed(_))), "{told:?}");
    let request = pb::ReleaseRequest {
        reservation_id: id,
        ..Default::default()
    };
    let released = client.release(request).await.unwrap().into_inner();
    let verdict = released.decision.unwrap().verdict();
    assert_eq!(verdict, pb::Verdict::Applied);
    // That comes by a watch.
    let told = stream.message().await.unwrap().expect("news");
    assert!(matches!(told.news, Some(News::Lost(_))), "{told:?}");
}

async fn looked(sidecar: &Sidecar, resource: &ResourceId) -> Result<Snapshot, Fault> {
    let caller = caller_for(PATIENCE);
    sidecar.engine.inspect(resource.clone(), caller).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_program_talks_to_etcd_over_tls_under_its_own_certificate() {
    bounded(Box::pin(async {
        let authority = Authority::new("ours");
        let etcd = etcd(&authority, &LOOPBACK).await;
        let (certificate, key) = authority.write("sidecar", &authority.identity("sidecar", &[]));
        let settings = [
            "--etcd-ca",
            authority.ca().to_str().unwrap(),
            "--etcd-cert",
            certificate.to_str().unwrap(),
            "--etcd-key",
            key.to_str().unwrap(),
        ]
        .map(str::to_owned);
        let settings: Vec<&str> = settings.iter().map(String::as_str).collect();
        let sidecar = Process::serve(etcd.tls_url(), "/tls/", &settings).await;
        let request = fencepost::proto::v1::InspectRequest {
            resource: Some(fencepost::proto::v1::Resource {
                kind: "order".into(),
                id: "1".into(),
            }),
            ..Default::default()
        };
        sidecar.client().inspect(request).await.unwrap();
    }))
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_etcd_that_asks_for_no_certificate_needs_the_authority_alone() {
    bounded(Box::pin(async {
        let authority = Authority::new("ours");
        let etcd = etcd_with(&authority.open_etcd_flags(&LOOPBACK)).await;
        let ca = authority.ca().display().to_string();
        let settings = ["--etcd-ca", &ca];
        holds(&Process::serve(etcd.tls_url(), "/open/", &settings).await).await;
    }))
    .await;
}

// What docs/etcd.md says of users.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_common_name_of_its_certificate_is_the_sidecars_user_and_has_its_rights() {
    const USER: &str = "fencepost";
    const PREFIX: &str = "/fencepost/";
    bounded(Box::pin(async {
        let authority = Authority::new("ours");
        let etcd = etcd(&authority, &LOOPBACK).await;
        let raw = Client::from_channel(connection(etcd.url()), None).await;
        let mut raw = raw.unwrap();
        // An etcd may have it already.
        let _ = raw.role_add("root").await;
        raw.role_add(USER).await.unwrap();
        let all = Permission::read_write(PREFIX).with_prefix();
        raw.role_grant_permission(USER, all).await.unwrap();
        for (user, role) in [("root", Some("root")), (USER, Some(USER)), ("other", None)] {
            raw.user_add(user, "nobody-says-it", None).await.unwrap();
            if let Some(role) = role {
                raw.user_grant_role(user, role).await.unwrap();
            }
        }
        raw.auth_enable().await.unwrap();

        let ca = authority.ca().display().to_string();
        let named = |name: &str| {
            let (certificate, key) = authority.write(name, &authority.identity(name, &[]));
            [
                "--etcd-ca".to_owned(),
                ca.clone(),
                "--etcd-cert".to_owned(),
                certificate.display().to_string(),
                "--etcd-key".to_owned(),
                key.display().to_string(),
            ]
        };
        let settings = named(USER);
        let settings = settings.each_ref().map(String::as_str);
        holds(&Process::serve(etcd.tls_url(), PREFIX, &settings).await).await;

        let settings = named("other");
        let settings = settings.each_ref().map(String::as_str);
        let (code, told) = super::settings::refused(etcd.tls_url(), &settings).await;
        assert_eq!(code, Some(1), "{told}");
        assert!(told.contains("permission denied"), "{told}");
    }))
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_etcd_of_another_authority_or_name_is_not_talked_to_and_the_reason_is_told() {
    bounded(Box::pin(async {
        let (ours, other) = (Authority::new("ours"), Authority::new("other"));
        let etcd = etcd(&ours, &["etcd.internal"]).await;
        let (certificate, key) = ours.write("sidecar", &ours.identity("sidecar", &[]));
        let paths =
            [ours.ca(), other.ca(), certificate, key].map(|path| path.display().to_string());
        let [ours_ca, other_ca, certificate, key] = &paths;
        let start = async |more: &[&str]| {
            let fixed = [
                "--etcd-cert",
                certificate,
                "--etcd-key",
                key,
                "--etcd-wait",
                "1s",
            ];
            let arguments = [&fixed, more].concat();
            super::settings::refused(etcd.tls_url(), &arguments).await
        };
        let named = ["--etcd-server-name", "etcd.internal"];
        let (code, told) = start(&[&["--etcd-ca", other_ca], named.as_slice()].concat()).await;
        assert_eq!(code, Some(1), "{told}");
        assert!(
            told.contains("invalid peer certificate: UnknownIssuer"),
            "{told}"
        );
        let (code, told) = start(&["--etcd-ca", ours_ca]).await;
        assert_eq!(code, Some(1), "{told}");
        assert!(told.contains("invalid peer certificate"), "{told}");
        assert!(told.contains("127.0.0.1"), "{told}");

        let settings: Vec<&str> = [
            "--etcd-cert",
            certificate,
            "--etcd-key",
            key,
            "--etcd-ca",
            ours_ca,
        ]
        .into_iter()
        .chain(named)
        .collect();
        Process::serve(etcd.tls_url(), "/named/", &settings).await;
    }))
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn files_that_are_replaced_serve_the_next_connection_and_broken_ones_none() {
    bounded(Box::pin(async {
        let (ours, other) = (Authority::new("ours"), Authority::new("other"));
        let etcd = etcd(&ours, &LOOPBACK).await;
        let good = ours.identity("sidecar", &[]);
        let (certificate, key) = ours.write("sidecar", &good);
        let tls = Tls::load(TlsFiles {
            authorities: ours.ca(),
            identity: Some((certificate, key.clone())),
            server_name: None,
        });
        let proxy = Proxy::to(etcd.tls_url().replace("https://", "").parse().unwrap());
        let url = proxy.url().replace("http://", "https://");
        let endpoint = Endpoint::connect_tls(&url, &tls.unwrap()).unwrap();
        let sidecar = Sidecar::on(vec![endpoint], None, "/rotating/", CALL_TIMEOUT).await;
        let resource = fresh_resource();
        applied(&sidecar.transition(&create(&resource, "pending")).await);
        let held = sidecar.hold(&reserve(&fresh_resource())).await;
        let reconnect = || {
            proxy.cut();
            proxy.heal();
        };
        let works = || async { looked(&sidecar, &resource).await.ok().map(drop) };
        let fails = || async { looked(&sidecar, &resource).await.is_err().then_some(()) };

        // Half of a key: somebody is writing it just now.
        std::fs::write(&key, &good.key[..good.key.len() / 2]).unwrap();
        reconnect();
        until("half a key leaves the old one in use", BACK_WITHIN, works).await;
        // A key that belongs to the certificate that is still to come.
        std::fs::write(&key, ours.identity("sidecar", &[]).key).unwrap();
        reconnect();
        until(
            "a key without its certificate changes nothing",
            BACK_WITHIN,
            works,
        )
        .await;

        // That new files are used at all is seen by those that etcd does not take.
        ours.write("sidecar", &other.identity("stranger", &[]));
        reconnect();
        until("a stranger is turned away", BACK_WITHIN, fails).await;
        ours.write("sidecar", &ours.identity("sidecar", &[]));
        until("a new certificate is taken", BACK_WITHIN, works).await;

        std::fs::write(ours.ca(), other.pem()).unwrap();
        reconnect();
        until("nobody vouches for etcd any more", BACK_WITHIN, fails).await;
        // Both at once, as while one authority follows the other.
        std::fs::write(ours.ca(), other.pem() + &ours.pem()).unwrap();
        until("both authorities are known", BACK_WITHIN, works).await;

        let paid = sidecar.transition(&ask(&resource, "pay").to("paid")).await;
        applied(&paid);
        let renewed = sidecar.renew(&held.id).await;
        assert!(renewed.grant.is_some(), "{renewed:?}");
    }))
    .await;
}
